//! `turnstone session rename`

use super::subcommands::session_json;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::text;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Rename a session
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session rename ses_e21d \"Fix the tide table\"")]
pub(crate) struct RenameArgs {
    /// Session ID or unique prefix
    #[arg(value_name = "ID")]
    session: IdPrefix,

    /// New title
    title: String,
}

pub(super) fn run(ui: &mut Ui, app: &CliApp, args: &RenameArgs) -> Result<ProgramExit, CliError> {
    let title = args.title.trim().to_owned();
    if title.is_empty() {
        return Err(CliError::Refused {
            what: "the title is empty".to_owned(),
            hint: Some("give the session a title with at least one character".to_owned()),
        });
    }
    let (store, ctx) = (app.open_store()?, app.context());
    let id = args.session.resolve_session(&store, &ctx)?;
    let (named, wanted) = (id.clone(), title.clone());
    let written = store.write(&ctx, move |tx| {
        tx.sessions().update(&named, |session| {
            session.title.clone_from(&wanted);
            Ok(())
        })
    });
    written.wait()?;
    if ui.wants_json() {
        ui.print_json(&session_json(&store, &ctx, &id)?)?;
    } else {
        ui.print_note(&format!(
            "renamed {} to \"{}\"",
            apply_style(ID_STYLE, &id),
            text::sanitize_line(&title)
        ));
    }
    Ok(ProgramExit::Ok)
}
