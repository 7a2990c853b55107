//! `turnstone session archive` and `unarchive`

use serde_json::{Number, Value};
use turnstone_core::id::SessionId;

use super::run::info;
use crate::app::App;
use crate::command::permission::by_a_person;
use crate::error::CliError;
use crate::exit::Exit;
use crate::reference::Prefix;
use crate::ui::{NAME, Ui, paint};

/// Put sessions out of sight; nothing is lost
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Archived sessions are listed with `turnstone session list --archived`.\n\n\
                        Example:\n  turnstone session archive ses_e21d ses_e30a"
)]
pub(crate) struct ArchiveArgs {
    /// The sessions: ids, or beginnings no other id has
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<Prefix>,
}

/// Bring archived sessions back into the list
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone session unarchive ses_e21d")]
pub(crate) struct UnarchiveArgs {
    /// The sessions: ids, or beginnings no other id has
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<Prefix>,
}

pub(super) fn archive(ui: &mut Ui, app: &App, args: &ArchiveArgs) -> Result<Exit, CliError> {
    // The undo of archived sessions is the first to expire.
    by_a_person(app)?;
    set(ui, app, &args.sessions, Some(&Number::from(app.now().0)))
}

pub(super) fn unarchive(ui: &mut Ui, app: &App, args: &UnarchiveArgs) -> Result<Exit, CliError> {
    set(ui, app, &args.sessions, None)
}

/// Archives or unarchives; a session that is so already stays as it is.
fn set(
    ui: &mut Ui,
    app: &App,
    sessions: &[Prefix],
    moment: Option<&Number>,
) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    // All names are settled before anything changes.
    let ids: Vec<SessionId> =
        sessions.iter().map(|prefix| prefix.session(&store, &ctx)).collect::<Result<_, _>>()?;
    let word = if moment.is_some() { "archived" } else { "not archived" };
    let mut infos = Vec::new();
    for id in &ids {
        let (named, at) = (id.clone(), moment.cloned());
        let written = store.write(&ctx, move |tx| {
            let mut changed = false;
            tx.update_session(&named, |session| {
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
            infos.push(info(&store, &ctx, id)?);
        } else {
            ui.note(&format!("{} is {adverb} {word}", paint(NAME, id)));
        }
    }
    if ui.wants_json() {
        ui.json(&Value::Array(infos))?;
    }
    Ok(Exit::Ok)
}
