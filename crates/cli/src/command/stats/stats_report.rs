//! Prints statistics as tables or JSON.

use serde_json::{Value, json};
use turnstone_core::time::EpochMillis;
use turnstone_store::SessionFilter;

use super::session_stats::{SessionStats, all_tokens, usage_json};
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_flag;
use crate::time_format;
use crate::ui::{ColumnKind, HEADING_STYLE, TextTable, Ui, apply_style};

const DAY_MILLIS: i64 = 86_400_000;

/// Show totals of sessions, tokens, costs, models and tools
///
/// Counts all sessions of all projects, including archived and child sessions, by the time of their
/// last update.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone stats --days 7\n  \
                        turnstone stats --project --models --tools 5")]
pub(crate) struct StatsArgs {
    /// Count only sessions updated in the last N days; 0 means since midnight
    #[arg(long, value_name = "N")]
    days: Option<u32>,

    /// Show at most N tools
    #[arg(long, value_name = "N", default_value_t = 10)]
    tools: usize,

    /// Show all models, or at most N
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4294967295")]
    #[arg(default_value = "5", hide_default_value = true)]
    models: usize,

    /// Count only the current project, or the project with this ID
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    project: Option<Option<IdPrefix>>,
}

/// Prints the report.
///
/// # Errors
///
/// [`CliError::NotInProject`], or an error of the store.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &StatsArgs) -> Result<ProgramExit, CliError> {
    let (engine, ctx) = (app.open_engine()?, app.context());
    let store = engine.store();
    let wanted = args.project.as_ref();
    let project = wanted.map(|wanted| {
        project_flag::resolve_project_or_current(app, &engine, &ctx, wanted.as_ref())
    });
    let filter = SessionFilter {
        project: project.transpose()?,
        start: args.days.map(|days| start_time(days, app.now()).0 as f64),
        archived: true,
        ..SessionFilter::default()
    };
    let stats = store.read(&ctx, |r| SessionStats::collect(r, &filter))?;
    let days = count_days(args, &stats);
    if ui.wants_json() {
        ui.print_json(&stats_json(&stats, days, args))?;
        return Ok(ProgramExit::Ok);
    }
    print_overview(ui, &stats, days)?;
    print_models(ui, &stats, args.models)?;
    print_tools(ui, &stats, args.tools)?;
    Ok(ProgramExit::Ok)
}

fn start_time(days: u32, now: EpochMillis) -> EpochMillis {
    match days {
        0 => time_format::local_midnight(now),
        days => now.plus(-i64::from(days) * DAY_MILLIS),
    }
}

/// Number of days covered: as requested, or from the first to the last session.
fn count_days(args: &StatsArgs, stats: &SessionStats) -> i64 {
    match (args.days, stats.range) {
        (Some(days), _) => i64::from(days).max(1),
        (None, Some((first, last))) => {
            ((last - first).max(0) as u64).div_ceil(DAY_MILLIS as u64).max(1) as i64
        }
        (None, None) => 0,
    }
}

fn print_overview(ui: &mut Ui, stats: &SessionStats, days: i64) -> Result<(), CliError> {
    let usage = stats.usage;
    let cost = usage.cost_number().as_f64().unwrap_or(0.0);
    let (average, median) = stats.tokens_per_session();
    let mut grid = TextTable::new(&[("", ColumnKind::Text), ("", ColumnKind::Number)]);
    for (name, value) in [
        ("sessions", number_format::format_count(stats.sessions)),
        ("messages", number_format::format_count(stats.messages)),
        ("days", number_format::format_count(days)),
        ("cost", number_format::format_cost(cost)),
        ("cost per day", number_format::format_cost(cost / days.max(1) as f64)),
        ("tokens", number_format::format_count(all_tokens(usage))),
        ("  input", number_format::format_count(usage.input)),
        ("  output", number_format::format_count(usage.output)),
        ("  reasoning", number_format::format_count(usage.reasoning)),
        ("  cache read", number_format::format_count(usage.cache_read)),
        ("  cache write", number_format::format_count(usage.cache_write)),
        ("tokens per session", number_format::format_count(average.round() as i64)),
        ("  median", number_format::format_count(median.round() as i64)),
    ] {
        grid.add_row(&[name.to_owned(), value]);
    }
    ui.print_line(&apply_style(HEADING_STYLE, "Overview"))?;
    ui.print_table(&grid)
}

fn print_models(ui: &mut Ui, stats: &SessionStats, limit: usize) -> Result<(), CliError> {
    let shown = stats.busiest_models(limit);
    if shown.is_empty() {
        return Ok(());
    }
    let mut grid = TextTable::new(&[
        ("MODEL", ColumnKind::Truncated),
        ("MESSAGES", ColumnKind::Number),
        ("INPUT", ColumnKind::Number),
        ("OUTPUT", ColumnKind::Number),
        ("CACHED", ColumnKind::Number),
        ("COST", ColumnKind::Number),
    ]);
    for (name, count) in &shown {
        let usage = count.usage;
        grid.add_row(&[
            (*name).to_owned(),
            number_format::format_count(count.messages),
            number_format::format_count(usage.input),
            number_format::format_count(usage.output.saturating_add(usage.reasoning)),
            number_format::format_count(usage.cache_read),
            number_format::format_cost(usage.cost_number().as_f64().unwrap_or(0.0)),
        ]);
    }
    ui.print_line("")?;
    ui.print_table(&grid)?;
    if stats.models.len() > shown.len() {
        ui.print_dim_note(&format!(
            "{} (--models shows all)",
            number_format::format_counted(stats.models.len() - shown.len(), "more model")
        ));
    }
    Ok(())
}

fn print_tools(ui: &mut Ui, stats: &SessionStats, limit: usize) -> Result<(), CliError> {
    let shown = stats.busiest_tools(limit);
    if shown.is_empty() {
        return Ok(());
    }
    let total: usize = stats.tools.values().map(|tool| tool.calls).sum();
    let columns = [
        ("TOOL", ColumnKind::Truncated),
        ("CALLS", ColumnKind::Number),
        ("SHARE", ColumnKind::Number),
        ("FAILED", ColumnKind::Number),
    ];
    let mut grid = TextTable::new(&columns);
    for (name, count) in &shown {
        let share = 100.0 * count.calls as f64 / total.max(1) as f64;
        grid.add_row(&[
            (*name).to_owned(),
            number_format::format_count(count.calls),
            format!("{share:.1} %"),
            number_format::format_count(count.errors),
        ]);
    }
    ui.print_line("")?;
    ui.print_table(&grid)?;
    if stats.tools.len() > shown.len() {
        ui.print_dim_note(&format!(
            "{} (--tools N shows more)",
            number_format::format_counted(stats.tools.len() - shown.len(), "more tool")
        ));
    }
    Ok(())
}

fn stats_json(stats: &SessionStats, days: i64, args: &StatsArgs) -> Value {
    let (cost, tokens) = usage_json(stats.usage);
    let (average, median) = stats.tokens_per_session();
    let model = |(name, count): (&str, &super::session_stats::ModelCount)| {
        let (cost, tokens) = usage_json(count.usage);
        json!({ "model": name, "messages": count.messages, "cost": cost, "tokens": tokens })
    };
    let tool = |(name, count): (&str, super::session_stats::ToolCount)| json!({ "tool": name, "calls": count.calls, "errors": count.errors });
    json!({
        "sessions": stats.sessions,
        "messages": stats.messages,
        "days": days,
        "cost": cost,
        "tokens": tokens,
        "tokens_per_session": { "average": average, "median": median },
        "models": stats.busiest_models(args.models).into_iter().map(model).collect::<Vec<_>>(),
        "tools": stats.busiest_tools(args.tools).into_iter().map(tool).collect::<Vec<_>>(),
    })
}
