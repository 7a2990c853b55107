//! `turnstone session show`

use std::collections::BTreeSet;

use serde_json::json;
use turnstone_core::id::PartId;
use turnstone_core::wire::{self, DocumentMessage, ExportDocument};
use turnstone_store::{MessageWithParts, ReadTx};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::transcript::{CallChanges, Transcript, TranscriptDetail};
use crate::ui::Ui;

/// Show a session as a readable transcript
///
/// Shows below each tool call what it changed, how Turnstone knows, and what others changed meanwhile.
///
/// With --json, prints the session and its messages in the format of `export`, its to-do list, and
/// what its calls changed (`changes`).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone session show ses_e21d --limit 4\n  \
                        turnstone session show ses_e21d --full | less -R")]
pub(crate) struct SessionShowArgs {
    /// Session ID or unique prefix
    #[arg(value_name = "ID")]
    session: IdPrefix,

    /// Show only the newest N messages
    #[arg(long, short = 'n', value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,

    /// Show tool output, reasoning and steps in full
    #[arg(long)]
    full: bool,
}

pub(super) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &SessionShowArgs,
) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let id = args.session.resolve_session(&store, &ctx)?;
    let limit = args.limit.map_or(usize::MAX - 1, |limit| limit as usize);
    let transcript = store.read(&ctx, |r: &ReadTx<'_>| {
        let page = r.messages().list(&id, None, limit)?;
        let shown: BTreeSet<&PartId> =
            page.items.iter().flat_map(|it| &it.parts).map(|part| &part.id).collect();
        let changes = r.change_sets().list(&id)?.into_iter().filter_map(CallChanges::from_row);
        let is_shown = |it: &CallChanges| it.part.as_ref().is_some_and(|it| shown.contains(it));
        let changes = changes.filter(is_shown).collect();
        Ok(Transcript {
            session: r.sessions().get(&id)?,
            usage: r.sessions().usage(&id)?,
            status: r.sessions().status(&id)?,
            todos: r.sessions().todos(&id)?,
            earlier: page.before.is_some(),
            messages: page.items,
            changes,
        })
    })?;
    if ui.wants_json() {
        ui.print_json(&transcript_json(transcript))?;
        return Ok(ProgramExit::Ok);
    }
    let detail = if args.full { TranscriptDetail::Full } else { TranscriptDetail::Brief };
    for line in transcript.lines(ui.width(), detail, app.now()) {
        ui.print_line(&line)?;
    }
    if transcript.earlier {
        ui.print_dim_note("omit --limit to see earlier messages");
    }
    Ok(ProgramExit::Ok)
}

fn transcript_json(transcript: Transcript) -> serde_json::Value {
    let changes = json!(transcript.changes);
    let entry = |MessageWithParts { message, parts }| DocumentMessage { message, parts };
    let document = ExportDocument {
        session: transcript.session,
        messages: transcript.messages.into_iter().map(entry).collect(),
    };
    let mut value = wire::export_document(&document, transcript.usage);
    value["todos"] = wire::todos_info(&transcript.todos);
    value["changes"] = changes;
    value
}
