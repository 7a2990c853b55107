//! `turnstone session rename`

use super::run::info;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{NAME, Ui, paint};

/// Give a session another title
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session rename ses_e21d \"Fix the tide table\"")]
pub(crate) struct RenameArgs {
    /// The session: its id, or a beginning no other id has
    #[arg(value_name = "ID")]
    session: Prefix,

    /// The title
    title: String,
}

pub(super) fn run(ui: &mut Ui, app: &App, args: &RenameArgs) -> Result<Exit, CliError> {
    let title = args.title.trim().to_owned();
    if title.is_empty() {
        return Err(CliError::Refused { what: "a title needs a letter".to_owned(), hint: None });
    }
    let (store, ctx) = (app.open()?, app.context());
    let id = args.session.session(&store, &ctx)?;
    let (named, wanted) = (id.clone(), title.clone());
    let written = store.write(&ctx, move |tx| {
        tx.update_session(&named, |session| {
            session.title.clone_from(&wanted);
            Ok(())
        })
    });
    written.wait()?;
    if ui.wants_json() {
        ui.json(&info(&store, &ctx, &id)?)?;
    } else {
        ui.note(&format!("{} is now called {}", paint(NAME, &id), text::clean_line(&title)));
    }
    Ok(Exit::Ok)
}
