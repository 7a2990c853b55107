//! `turnstone checkpoint`

use serde_json::json;
use turnstone_core::model::Session;
use turnstone_engine::{Engine, SessionCheckpoint};
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::session_lookup;
use crate::text;
use crate::time_format;
use crate::ui::{ColumnKind, ID_STYLE, TextTable, Ui, apply_style};

/// Maximum length of a checkpoint name.
const MAX_NAME_LENGTH: usize = 200;

/// Create a checkpoint to jump back to
///
/// Without NAME, lists the checkpoints. If a name is used more than once, it refers to the newest
/// checkpoint of that name.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  turnstone checkpoint \"before the rewrite\"\n  \
                        turnstone checkpoint list\n  turnstone jump \"before the rewrite\"")]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: Option<CheckpointCommand>,

    /// Name of the checkpoint
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<IdPrefix>,
}

/// Subcommands of `checkpoint`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a session, oldest first
    #[command(after_help = "Example:\n  turnstone checkpoint list")]
    List {
        /// Session ID or unique prefix [default: the newest session of this directory]
        #[arg(long, value_name = "ID")]
        session: Option<IdPrefix>,
    },
    /// Remove a checkpoint; the session and its files do not change
    ///
    /// Needs the permission `checkpoint`: a rule can deny it, and a command that an agent runs must
    /// be approved.
    #[command(after_help = "Example:\n  turnstone checkpoint remove \"before the rewrite\"")]
    Remove {
        /// Name of the checkpoint
        #[arg(value_name = "NAME")]
        name: String,

        /// Session ID or unique prefix [default: the newest session of this directory]
        #[arg(long, value_name = "ID")]
        session: Option<IdPrefix>,
    },
}

/// Creates, lists or removes checkpoints.
///
/// # Errors
///
/// The session is busy, or there is no such checkpoint.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    args: &CheckpointArgs,
) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let wanted = match &args.command {
        None => args.session.as_ref(),
        Some(CheckpointCommand::List { session } | CheckpointCommand::Remove { session, .. }) => {
            session.as_ref()
        }
    };
    let session = session_lookup::resolve_session_or_newest(app, &engine, &ctx, wanted)?;
    match (&args.command, &args.name) {
        (None, Some(name)) => create(ui, &engine, &ctx, &session, name),
        (Some(CheckpointCommand::Remove { name, .. }), _) => {
            let gone = engine.history().checkpoints().remove(&ctx, &session.id, name)?;
            if ui.wants_json() {
                ui.print_json(&json!(gone.iter().map(checkpoint_json).collect::<Vec<_>>()))?;
            }
            let count = number_format::format_counted(gone.len(), "checkpoint");
            ui.print_note(&format!("removed {count} named \"{}\"", text::sanitize_line(name)));
            Ok(ProgramExit::Ok)
        }
        (None | Some(CheckpointCommand::List { .. }), _) => list(ui, app, &engine, &ctx, &session),
    }
}

fn create(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    name: &str,
) -> Result<ProgramExit, CliError> {
    let plain = text::sanitize_line(name.trim());
    if plain.is_empty() || plain.chars().count() > MAX_NAME_LENGTH || plain != name.trim() {
        return Err(CliError::Refused {
            what: "invalid checkpoint name".to_owned(),
            hint: Some("use 1 to 200 printable characters".to_owned()),
        });
    }
    let operation = engine.history().checkpoints().create(ctx, &session.id, &plain)?;
    if ui.wants_json() {
        ui.print_json(&json!({ "session": session.id, "name": plain, "operation": operation }))?;
    }
    ui.print_note(&format!(
        "checkpoint \"{plain}\" created in session {}",
        apply_style(ID_STYLE, &session.id)
    ));
    ui.print_hint(&format!("`turnstone jump '{plain}'` returns to it"));
    Ok(ProgramExit::Ok)
}

fn list(
    ui: &mut Ui,
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
) -> Result<ProgramExit, CliError> {
    let found = engine.history().checkpoints().list(ctx, &session.id)?;
    if ui.wants_json() {
        ui.print_json(&json!(found.iter().map(checkpoint_json).collect::<Vec<_>>()))?;
        return Ok(ProgramExit::Ok);
    }
    if found.is_empty() {
        ui.print_note(&format!("no checkpoints in session {}", apply_style(ID_STYLE, &session.id)));
        return Ok(ProgramExit::Ok);
    }
    let mut grid = TextTable::new(&[
        ("NAME", ColumnKind::Text),
        ("WHEN", ColumnKind::Text),
        ("OPERATION", ColumnKind::Text),
    ]);
    for checkpoint in &found {
        let when = time_format::format_local_time(checkpoint.time.0, app.now());
        grid.add_row(&[
            text::sanitize_line(&checkpoint.name),
            when,
            checkpoint.operation.to_string(),
        ]);
    }
    ui.print_table(&grid)?;
    Ok(ProgramExit::Ok)
}

fn checkpoint_json(checkpoint: &SessionCheckpoint) -> serde_json::Value {
    let SessionCheckpoint { operation, name, time } = checkpoint;
    json!({ "name": name, "operation": operation, "time": time.0 })
}
