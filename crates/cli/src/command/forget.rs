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

/// Maximum number of listed file versions.
const MAX_LISTED_VERSIONS: usize = 20;

/// Permanently erase recorded file contents, such as a leaked secret
///
/// Erases all versions of the files from the captures of this directory. Their lines of eight or more
/// characters are masked with asterisks wherever they appear in session texts, the search index and
/// stored command output. The files on disk do not change. Erased versions can no longer be undone. Backups
/// made with `db backup` are listed, but not changed. The next capture records a file again, unless an
/// ignore rule excludes it.
///
/// Needs the permission `forget`: a rule can deny it, and a command that an agent runs must be
/// approved.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turnstone forget --dry-run .env 'secrets/'")]
pub(crate) struct ForgetArgs {
    /// Files to forget, as in .gitignore: `.env`, `*.pem`, `secrets/`
    #[arg(value_name = "PATTERN", required = true)]
    patterns: Vec<String>,

    /// Show what would be erased and exit
    #[arg(long)]
    dry_run: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Erases recorded file contents.
///
/// # Errors
///
/// The operation is denied or not confirmed, or a store failed.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ForgetArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    session_lookup::recover_and_report(ui, &engine, &ctx);
    let plan = engine.maintenance().path_eraser().plan(&ctx, app.directory()?, &args.patterns)?;
    if args.dry_run {
        return print_plan(ui, &plan, None).map(|()| ProgramExit::Ok);
    }
    if plan.is_empty() {
        ui.print_note("no stored versions match");
        if ui.wants_json() {
            print_plan(ui, &plan, None)?;
        }
        return Ok(ProgramExit::Ok);
    }
    engine.maintenance().path_eraser().require_permission(&ctx, &plan)?;
    if !args.yes {
        plan_lines(&plan).iter().for_each(|line| ui.print_note(line));
        if !ui.confirm("Erase these versions permanently?")? {
            return Err(CliError::NotConfirmed);
        }
    }
    let done = ui.with_spinner("rewriting captures and database", || {
        engine.maintenance().path_eraser().apply(&app.context(), &plan)
    })?;
    if ui.wants_json() {
        print_plan(ui, &plan, Some(&done))?;
    }
    ui.print_note(&format!(
        "erased {} from {}",
        number_format::format_counted(plan.captured.versions.len(), "version"),
        number_format::format_counted(done.captures, "capture"),
    ));
    for backup in &plan.backups {
        let name = text::sanitize_line(&backup.to_string_lossy());
        ui.print_note(&format!("note: the backup {name} still contains them"));
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
        "{} ({}) in {}; in the database: {}, {}, {}, {}",
        number_format::format_counted(plan.captured.versions.len(), "version"),
        number_format::format_size(plan.bytes()),
        number_format::format_counted(plan.captured.captures, "capture"),
        number_format::format_counted(plan.ledger.events, "event"),
        number_format::format_counted(plan.ledger.texts, "text"),
        number_format::format_counted(plan.ledger.values, "long value"),
        number_format::format_counted(plan.outputs.len(), "stored output"),
    ));
    if plan.ledger.answers > 0 {
        let answers = number_format::format_counted(plan.ledger.answers, "stored answer");
        lines.push(format!("{answers} to clients of the server"));
    }
    lines
}
