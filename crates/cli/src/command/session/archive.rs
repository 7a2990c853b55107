//! `turnstone session archive` and `unarchive`

use serde_json::{Number, Value};
use turnstone_core::id::SessionId;

use super::subcommands::session_json;
use crate::app::CliApp;
use crate::command::permission::require_person;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Put sessions out of sight; nothing is lost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Archived sessions are listed with `turnstone session list --archived`.\n\n\
                        Example:\n  turnstone session archive ses_e21d ses_e30a"
)]
pub(crate) struct ArchiveArgs {
    /// The sessions: ids, or beginnings no other id has
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<IdPrefix>,
}

/// Bring archived sessions back into the list
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session unarchive ses_e21d")]
pub(crate) struct UnarchiveArgs {
    /// The sessions: ids, or beginnings no other id has
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<IdPrefix>,
}

pub(super) fn archive(
    ui: &mut Ui,
    app: &CliApp,
    args: &ArchiveArgs,
) -> Result<ProgramExit, CliError> {
    // The undo of archived sessions is the first to expire.
    require_person(app)?;
    set_archived(ui, app, &args.sessions, Some(&Number::from(app.now().0)))
}

pub(super) fn unarchive(
    ui: &mut Ui,
    app: &CliApp,
    args: &UnarchiveArgs,
) -> Result<ProgramExit, CliError> {
    set_archived(ui, app, &args.sessions, None)
}

/// Archives or unarchives; a session that is so already stays as it is.
fn set_archived(
    ui: &mut Ui,
    app: &CliApp,
    sessions: &[IdPrefix],
    moment: Option<&Number>,
) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    // All names are settled before anything changes.
    let ids: Vec<SessionId> = sessions
        .iter()
        .map(|prefix| prefix.resolve_session(&store, &ctx))
        .collect::<Result<_, _>>()?;
    let word = if moment.is_some() { "archived" } else { "not archived" };
    let mut infos = Vec::new();
    for id in &ids {
        let (named, at) = (id.clone(), moment.cloned());
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
        let adverb = if written.wait()? { "now" } else { "already" };
        if ui.wants_json() {
            infos.push(session_json(&store, &ctx, id)?);
        } else {
            ui.print_note(&format!("{} is {adverb} {word}", apply_style(ID_STYLE, id)));
        }
    }
    if ui.wants_json() {
        ui.print_json(&Value::Array(infos))?;
    }
    Ok(ProgramExit::Ok)
}
