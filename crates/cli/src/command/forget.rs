//! `turnstone forget`

use serde_json::json;
use turnstone_engine::{ForgetPlan, ForgetReport};

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::session_lookup;
use crate::text;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Versions of files that are listed.
const MAX_LISTED_VERSIONS: usize = 20;

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
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ForgetArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let plan = engine.maintenance().forgets().plan(&ctx, app.directory()?, &args.patterns)?;
    if args.dry_run {
        return print_plan(ui, &plan, None).map(|()| ProgramExit::Ok);
    }
    if plan.is_empty() {
        ui.print_note("nothing of that is kept");
        return print_plan(ui, &plan, None).map(|()| ProgramExit::Ok);
    }
    engine.maintenance().forgets().require_permission(&ctx, &plan)?;
    if !args.yes {
        plan_lines(&plan).iter().for_each(|line| ui.print_note(line));
        if !ui.confirm("Forget it for good?")? {
            return Err(CliError::NotConfirmed);
        }
    }
    let done = ui.with_spinner("writing captures and ledger anew", || {
        engine.maintenance().forgets().apply(&app.context(), &plan)
    })?;
    if ui.wants_json() {
        print_plan(ui, &plan, Some(&done))?;
    }
    ui.print_note(&format!(
        "forgot {} in {}",
        number_format::format_counted(plan.captured.versions.len(), "version"),
        number_format::format_counted(done.captures, "capture"),
    ));
    for backup in &plan.backups {
        let name = text::sanitize_line(&backup.to_string_lossy());
        ui.print_note(&format!("note: {name} is a copy of the ledger and was not touched"));
    }
    Ok(ProgramExit::Ok)
}

fn print_plan(ui: &mut Ui, plan: &ForgetPlan, done: Option<&ForgetReport>) -> Result<(), CliError> {
    if ui.wants_json() {
        let mut all = serde_json::to_value(plan)?;
        all["bytes"] = plan.bytes().into();
        all["done"] = json!(done);
        return ui.print_json(&all);
    }
    plan_lines(plan).iter().try_for_each(|line| ui.print_line(line))
}

fn plan_lines(plan: &ForgetPlan) -> Vec<String> {
    let mut lines = Vec::new();
    for version in plan.captured.versions.iter().take(MAX_LISTED_VERSIONS) {
        let path = text::sanitize_line(&version.path.to_string());
        lines.push(format!("{path}  {}", number_format::format_size(version.size)));
    }
    if plan.captured.versions.len() > MAX_LISTED_VERSIONS {
        let more = number_format::format_counted(
            plan.captured.versions.len() - MAX_LISTED_VERSIONS,
            "more version",
        );
        lines.push(format!("… {more} (--json lists all)"));
    }
    for touched in &plan.sessions {
        let turns = number_format::format_counted(touched.turns.len(), "turn");
        lines.push(format!("{}  {turns}", apply_style(ID_STYLE, &touched.session)));
    }
    lines.push(format!(
        "{} of {} in {}; {}, {} and {} of the ledger, {}",
        number_format::format_size(plan.bytes()),
        number_format::format_counted(plan.captured.versions.len(), "version"),
        number_format::format_counted(plan.captured.captures, "capture"),
        number_format::format_counted(plan.ledger.events, "event"),
        number_format::format_counted(plan.ledger.texts, "text"),
        number_format::format_counted(plan.ledger.values, "long value"),
        number_format::format_counted(plan.outputs.len(), "spilled output"),
    ));
    lines
}
