//! Subcommands of `turnstone session`.

use clap::Subcommand;
use turnstone_core::id::SessionId;
use turnstone_core::wire;
use turnstone_store::{Context, Store};

use super::{abort, archive, delete, list, rename, show};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Subcommands of `session`.
#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    List(list::SessionListArgs),
    Show(show::SessionShowArgs),
    Rename(rename::RenameArgs),
    Archive(archive::ArchiveArgs),
    Unarchive(archive::UnarchiveArgs),
    Abort(abort::AbortArgs),
    Delete(delete::DeleteArgs),
}

/// Runs a subcommand.
///
/// # Errors
///
/// The error of the subcommand.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &SessionCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        SessionCommand::List(args) => list::run(ui, app, args),
        SessionCommand::Show(args) => show::run(ui, app, args),
        SessionCommand::Rename(args) => rename::run(ui, app, args),
        SessionCommand::Archive(args) => archive::archive(ui, app, args),
        SessionCommand::Unarchive(args) => archive::unarchive(ui, app, args),
        SessionCommand::Abort(args) => abort::run(ui, app, args),
        SessionCommand::Delete(args) => delete::run(ui, app, args),
    }
}

/// A session as JSON.
pub(super) fn session_json(
    store: &Store,
    ctx: &Context,
    id: &SessionId,
) -> Result<serde_json::Value, CliError> {
    Ok(store
        .read(ctx, |r| Ok(wire::session_info(&r.sessions().get(id)?, r.sessions().usage(id)?)))?)
}
