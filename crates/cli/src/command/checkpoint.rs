//! `turnstone checkpoint`

use serde_json::json;
use turnstone_core::model::Session;
use turnstone_engine::{Checkpoint, Engine};
use turnstone_store::Context;

use crate::app::App;
use crate::choice;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::reference::Prefix;
use crate::text;
use crate::ui::{Column, Grid, NAME, Ui, paint};

/// The longest name of a point.
const LONGEST: usize = 200;

/// Give the point a session stands at a name, to jump to later
///
/// Without NAME the names there are. A name that is given again means the newest point of that
/// name.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  turnstone checkpoint \"before the rewrite\"\n  \
                        turnstone checkpoint list\n  turnstone jump \"before the rewrite\"")]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: Option<CheckpointCommand>,

    /// What to call it
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Session ID or unique prefix [default: the newest session of this directory]
    #[arg(long, value_name = "ID")]
    session: Option<Prefix>,
}

/// What to do with names.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List the checkpoints of a session, oldest first
    #[command(after_help = "Example:\n  turnstone checkpoint list")]
    List {
        /// Session ID or unique prefix [default: the newest session of this directory]
        #[arg(long, value_name = "ID")]
        session: Option<Prefix>,
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
        session: Option<Prefix>,
    },
}

/// Names, lists or gives up.
///
/// # Errors
///
/// The session is busy, or nothing is called that.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &CheckpointArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    let wanted = match &args.command {
        None => args.session.as_ref(),
        Some(CheckpointCommand::List { session } | CheckpointCommand::Remove { session, .. }) => {
            session.as_ref()
        }
    };
    let session = choice::session(app, &engine, &ctx, wanted)?;
    match (&args.command, &args.name) {
        (None, Some(name)) => make(ui, &engine, &ctx, &session, name),
        (Some(CheckpointCommand::Remove { name, .. }), _) => {
            let gone = engine.remove_checkpoint(&ctx, &session.id, name)?;
            if ui.wants_json() {
                ui.json(&json!(gone.iter().map(value).collect::<Vec<_>>()))?;
            }
            let count = figure::counted(gone.len(), "checkpoint");
            ui.note(&format!("gave up the name of {count}"));
            Ok(Exit::Ok)
        }
        (None | Some(CheckpointCommand::List { .. }), _) => list(ui, app, &engine, &ctx, &session),
    }
}

fn make(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    name: &str,
) -> Result<Exit, CliError> {
    let plain = text::clean_line(name.trim());
    if plain.is_empty() || plain.chars().count() > LONGEST || plain != name.trim() {
        return Err(CliError::Refused {
            what: "a name has up to 200 printable characters".to_owned(),
            hint: None,
        });
    }
    let operation = engine.checkpoint(ctx, &session.id, &plain)?;
    if ui.wants_json() {
        ui.json(&json!({ "session": session.id, "name": plain, "operation": operation }))?;
    }
    ui.note(&format!("this point of {} is called {plain} now", paint(NAME, &session.id)));
    ui.hint(&format!("`turnstone jump '{plain}'` comes back to it"));
    Ok(Exit::Ok)
}

fn list(
    ui: &mut Ui,
    app: &App,
    engine: &Engine,
    ctx: &Context,
    session: &Session,
) -> Result<Exit, CliError> {
    let found = engine.checkpoints(ctx, &session.id)?;
    if ui.wants_json() {
        ui.json(&json!(found.iter().map(value).collect::<Vec<_>>()))?;
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        ui.note(&format!("no point of {} has a name", paint(NAME, &session.id)));
        return Ok(Exit::Ok);
    }
    let mut grid =
        Grid::new(&[("NAME", Column::Text), ("WHEN", Column::Text), ("OPERATION", Column::Text)]);
    for checkpoint in &found {
        let when = moment::near(checkpoint.time.0, app.now());
        grid.row(&[text::clean_line(&checkpoint.name), when, checkpoint.operation.to_string()]);
    }
    ui.table(&grid)?;
    Ok(Exit::Ok)
}

fn value(checkpoint: &Checkpoint) -> serde_json::Value {
    let Checkpoint { operation, name, time } = checkpoint;
    json!({ "name": name, "operation": operation, "time": time.0 })
}
