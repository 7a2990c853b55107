//! `turnstone forget`

use serde_json::json;
use turnstone_engine::{ForgetPlan, Forgotten};

use crate::app::App;
use crate::choice;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::text;
use crate::ui::{NAME, Ui, paint};

/// Versions of files that are listed.
const SHOWN: usize = 20;

/// Remove what was kept of files, for good
///
/// Takes every version of the files out of the captures of this directory, and every line of them
/// (of eight letters or more) out of what sessions said, out of search and out of spilled output;
/// stars stand there instead. The files themselves stay as they are, and undo says of those
/// versions that they are forgotten. Copies made with `db backup` are named and not touched. A
/// file that is still there is kept again by the next capture, unless an ignore rule names it. The
/// permission `forget` applies: a rule may deny it, and a command inside a turn is asked about.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone forget --dry-run .env 'secrets/'")]
pub(crate) struct ForgetArgs {
    /// Which files, as an ignore file would name them: `.env`, `*.pem`, `secrets/`
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,

    /// Print what would go, and stop
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Forgets files.
///
/// # Errors
///
/// It is not allowed, nobody said yes, or a store refused.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ForgetArgs) -> Result<Exit, CliError> {
    let (engine, ctx) = (app.engine()?, app.context());
    choice::settle(ui, &engine, &ctx);
    let plan = engine.plan_forget(&ctx, app.directory()?, &args.patterns)?;
    if args.dry_run {
        return print(ui, &plan, None).map(|()| Exit::Ok);
    }
    if plan.is_empty() {
        ui.note("nothing of that is kept");
        return print(ui, &plan, None).map(|()| Exit::Ok);
    }
    engine.require_forget(&ctx, &plan)?;
    if !args.yes {
        lines(&plan).iter().for_each(|line| ui.note(line));
        if !ui.confirm("Forget it for good?")? {
            return Err(CliError::NotConfirmed);
        }
    }
    let done =
        ui.busy("writing captures and ledger anew", || engine.apply_forget(&app.context(), &plan))?;
    if ui.wants_json() {
        print(ui, &plan, Some(&done))?;
    }
    ui.note(&format!(
        "forgot {} in {}",
        figure::counted(plan.captured.versions.len(), "version"),
        figure::counted(done.captures, "capture"),
    ));
    for backup in &plan.backups {
        let name = text::clean_line(&backup.to_string_lossy());
        ui.note(&format!("note: {name} is a copy of the ledger and was not touched"));
    }
    Ok(Exit::Ok)
}

fn print(ui: &mut Ui, plan: &ForgetPlan, done: Option<&Forgotten>) -> Result<(), CliError> {
    if ui.wants_json() {
        let mut all = serde_json::to_value(plan)?;
        all["bytes"] = plan.bytes().into();
        all["done"] = json!(done);
        return ui.json(&all);
    }
    lines(plan).iter().try_for_each(|line| ui.line(line))
}

fn lines(plan: &ForgetPlan) -> Vec<String> {
    let mut lines = Vec::new();
    for version in plan.captured.versions.iter().take(SHOWN) {
        let path = text::clean_line(&version.path.to_string());
        lines.push(format!("{path}  {}", figure::size(version.size)));
    }
    if plan.captured.versions.len() > SHOWN {
        let more = figure::counted(plan.captured.versions.len() - SHOWN, "more version");
        lines.push(format!("… {more} (--json lists all)"));
    }
    for touched in &plan.sessions {
        let turns = figure::counted(touched.turns.len(), "turn");
        lines.push(format!("{}  {turns}", paint(NAME, &touched.session)));
    }
    lines.push(format!(
        "{} of {} in {}; {}, {} and {} of the ledger, {}",
        figure::size(plan.bytes()),
        figure::counted(plan.captured.versions.len(), "version"),
        figure::counted(plan.captured.captures, "capture"),
        figure::counted(plan.ledger.events, "event"),
        figure::counted(plan.ledger.texts, "text"),
        figure::counted(plan.ledger.values, "long value"),
        figure::counted(plan.outputs.len(), "spilled output"),
    ));
    lines
}
