//! `turnstone session show`

use turnstone_core::wire::{self, Document, Entry};
use turnstone_store::{Reader, WithParts};

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::transcript::{Detail, Transcript};
use crate::ui::Ui;

/// Show a session as a readable transcript
///
/// With --json, the session and its messages as `export` writes them, and its to-do list.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone session show ses_e21d --limit 4\n  \
                        turnstone session show ses_e21d --full | less -R")]
pub(crate) struct ShowArgs {
    /// The session: its id, or a beginning no other id has
    #[arg(value_name = "ID")]
    session: Prefix,

    /// Only the newest N messages
    #[arg(long, short = 'n', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Tool output, reasoning and steps in full
    #[arg(long)]
    full: bool,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &ShowArgs) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let id = args.session.session(&store, &ctx)?;
    let limit = args.limit.map_or(usize::MAX - 1, |limit| limit as usize);
    let transcript = store.read(&ctx, |r: &Reader<'_>| {
        let page = r.list_messages(&id, None, limit)?;
        Ok(Transcript {
            session: r.get_session(&id)?,
            usage: r.session_usage(&id)?,
            status: r.status(&id)?,
            todos: r.todos(&id)?,
            earlier: page.before.is_some(),
            messages: page.items,
        })
    })?;
    if ui.wants_json() {
        ui.json(&json(transcript))?;
        return Ok(Exit::Ok);
    }
    let detail = if args.full { Detail::Full } else { Detail::Brief };
    for line in transcript.lines(ui.width(), detail, app.now()) {
        ui.line(&line)?;
    }
    if transcript.earlier {
        ui.aside("there are earlier messages: leave out --limit to see them");
    }
    Ok(Exit::Ok)
}

fn json(transcript: Transcript) -> serde_json::Value {
    let entry = |WithParts { message, parts }| Entry { message, parts };
    let document = Document {
        session: transcript.session,
        messages: transcript.messages.into_iter().map(entry).collect(),
    };
    let mut value = wire::document(&document, transcript.usage);
    value["todos"] = wire::todos(&transcript.todos);
    value
}
