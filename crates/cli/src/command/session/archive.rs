//! `turnstone session archive` and `unarchive`

use serde_json::{Number, Value};
use turnstone_core::id::SessionId;

use super::subcommands::session_json;
use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Hide sessions from the list without deleting them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Archived sessions are listed with `turnstone session list --archived`.\n\n\
                        Example:\n  turnstone session archive ses_e21d ses_e30a"
)]
pub(crate) struct ArchiveArgs {
    /// Session IDs or unique prefixes
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<IdPrefix>,
}

/// Show archived sessions in the list again
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session unarchive ses_e21d")]
pub(crate) struct UnarchiveArgs {
    /// Session IDs or unique prefixes
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<IdPrefix>,
}

pub(super) fn archive(
    ui: &mut Ui,
    app: &CliApp,
    args: &ArchiveArgs,
) -> Result<ProgramExit, CliError> {
    // Undo data of archived sessions expires first, so a tool must not archive.
    require_person(app, "archive sessions")?;
    set_archived(ui, app, &args.sessions, Some(&Number::from(app.now().0)))
}

pub(super) fn unarchive(
    ui: &mut Ui,
    app: &CliApp,
    args: &UnarchiveArgs,
) -> Result<ProgramExit, CliError> {
    set_archived(ui, app, &args.sessions, None)
}

/// Archives or unarchives; sessions already in that state do not change.
fn set_archived(
    ui: &mut Ui,
    app: &CliApp,
    sessions: &[IdPrefix],
    archive_time: Option<&Number>,
) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    // Resolve all IDs before changing anything.
    let ids: Vec<SessionId> = sessions
        .iter()
        .map(|prefix| prefix.resolve_session(&store, &ctx))
        .collect::<Result<_, _>>()?;
    let verb = if archive_time.is_some() { "archived" } else { "unarchived" };
    let mut infos = Vec::new();
    for id in &ids {
        let (named, at) = (id.clone(), archive_time.cloned());
        let written = store.write(&ctx, move |tx| {
            let mut changed = false;
            tx.sessions().update(&named, |session| {
                changed = session.time.archived.is_some() != at.is_some();
                if changed {
                    session.time.archived.clone_from(&at);
                }
                Ok(())
            })?;
            Ok(changed)
        });
        let is_changed = written.wait()?;
        if ui.wants_json() {
            infos.push(session_json(&store, &ctx, id)?);
        } else {
            let note = match (is_changed, archive_time.is_some()) {
                (true, _) => verb.to_owned(),
                (false, true) => "already archived".to_owned(),
                (false, false) => "was not archived".to_owned(),
            };
            ui.print_note(&format!("{} {note}", apply_style(ID_STYLE, id)));
        }
    }
    if ui.wants_json() {
        ui.print_json(&Value::Array(infos))?;
    }
    Ok(ProgramExit::Ok)
}
