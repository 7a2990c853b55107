//! The report: the census as a table or as JSON.

use serde_json::{Value, json};
use turnstone_core::time::Millis;
use turnstone_store::SessionFilter;

use super::census::{Census, all_tokens, usage_json};
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::moment;
use crate::reference::Prefix;
use crate::scope;
use crate::ui::{Column, Grid, HEAD, Ui, paint};

const DAY: i64 = 86_400_000;

/// Count sessions, tokens, costs, models and tools
///
/// Counts every session of every project, archived ones and those that other sessions started
/// too, by the time of their last change.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone stats --days 7\n  \
                        turnstone stats --project --models --tools 5")]
pub(crate) struct StatsArgs {
    /// Only sessions changed in the last N days; 0 means since midnight
    #[arg(long, value_name = "N")]
    days: Option<u32>,

    /// Show at most N tools
    #[arg(long, value_name = "N", default_value_t = 10)]
    tools: usize,

    /// Show all models, or at most N
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4294967295")]
    #[arg(default_value = "5", hide_default_value = true)]
    models: usize,

    /// Only the project you are in, or the one with this id
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    project: Option<Option<Prefix>>,
}

/// Prints the report.
///
/// # Errors
///
/// [`CliError::NotInProject`] and what the store answers.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &StatsArgs) -> Result<Exit, CliError> {
    let (store, ctx) = (app.open()?, app.context());
    let wanted = args.project.as_ref();
    let project = wanted.map(|wanted| scope::project(app, &store, &ctx, wanted.as_ref()));
    let filter = SessionFilter {
        project: project.transpose()?,
        start: args.days.map(|days| cutoff(days, app.now()).0 as f64),
        archived: true,
        ..SessionFilter::default()
    };
    let census = store.read(&ctx, |r| Census::take(r, &filter))?;
    let days = days(args, &census);
    if ui.wants_json() {
        ui.json(&json(&census, days, args))?;
        return Ok(Exit::Ok);
    }
    overview(ui, &census, days)?;
    models(ui, &census, args.models)?;
    tools(ui, &census, args.tools)?;
    Ok(Exit::Ok)
}

fn cutoff(days: u32, now: Millis) -> Millis {
    match days {
        0 => moment::midnight(now),
        days => now.plus(-i64::from(days) * DAY),
    }
}

/// The days the figures are spread over: those asked for, or from first to last.
fn days(args: &StatsArgs, census: &Census) -> i64 {
    match (args.days, census.range) {
        (Some(days), _) => i64::from(days).max(1),
        (None, Some((first, last))) => {
            ((last - first).max(0) as u64).div_ceil(DAY as u64).max(1) as i64
        }
        (None, None) => 0,
    }
}

fn overview(ui: &mut Ui, census: &Census, days: i64) -> Result<(), CliError> {
    let usage = census.usage;
    let cost = usage.cost_number().as_f64().unwrap_or(0.0);
    let (average, median) = census.tokens_per_session();
    let mut grid = Grid::new(&[("", Column::Text), ("", Column::Figure)]);
    for (name, value) in [
        ("sessions", figure::count(census.sessions)),
        ("messages", figure::count(census.messages)),
        ("days", figure::count(days)),
        ("cost", figure::cost(cost)),
        ("cost per day", figure::cost(cost / days.max(1) as f64)),
        ("tokens", figure::count(all_tokens(usage))),
        ("  input", figure::count(usage.input)),
        ("  output", figure::count(usage.output)),
        ("  reasoning", figure::count(usage.reasoning)),
        ("  cache read", figure::count(usage.cache_read)),
        ("  cache write", figure::count(usage.cache_write)),
        ("tokens per session", figure::count(average.round() as i64)),
        ("  median", figure::count(median.round() as i64)),
    ] {
        grid.row(&[name.to_owned(), value]);
    }
    ui.line(&paint(HEAD, "Overview"))?;
    ui.table(&grid)
}

fn models(ui: &mut Ui, census: &Census, limit: usize) -> Result<(), CliError> {
    let shown = census.busiest_models(limit);
    if shown.is_empty() {
        return Ok(());
    }
    let mut grid = Grid::new(&[
        ("MODEL", Column::Cut),
        ("MESSAGES", Column::Figure),
        ("INPUT", Column::Figure),
        ("OUTPUT", Column::Figure),
        ("CACHED", Column::Figure),
        ("COST", Column::Figure),
    ]);
    for (name, count) in &shown {
        let usage = count.usage;
        grid.row(&[
            (*name).to_owned(),
            figure::count(count.messages),
            figure::count(usage.input),
            figure::count(usage.output.saturating_add(usage.reasoning)),
            figure::count(usage.cache_read),
            figure::cost(usage.cost_number().as_f64().unwrap_or(0.0)),
        ]);
    }
    ui.line("")?;
    ui.table(&grid)?;
    if census.models.len() > shown.len() {
        ui.aside(&format!("+ {} more (--models)", census.models.len() - shown.len()));
    }
    Ok(())
}

fn tools(ui: &mut Ui, census: &Census, limit: usize) -> Result<(), CliError> {
    let shown = census.busiest_tools(limit);
    if shown.is_empty() {
        return Ok(());
    }
    let total: usize = census.tools.values().map(|tool| tool.calls).sum();
    let columns = [
        ("TOOL", Column::Cut),
        ("CALLS", Column::Figure),
        ("SHARE", Column::Figure),
        ("FAILED", Column::Figure),
    ];
    let mut grid = Grid::new(&columns);
    for (name, count) in &shown {
        let share = 100.0 * count.calls as f64 / total.max(1) as f64;
        grid.row(&[
            (*name).to_owned(),
            figure::count(count.calls),
            format!("{share:.1} %"),
            figure::count(count.errors),
        ]);
    }
    ui.line("")?;
    ui.table(&grid)?;
    if census.tools.len() > shown.len() {
        ui.aside(&format!("+ {} more (--tools N)", census.tools.len() - shown.len()));
    }
    Ok(())
}

fn json(census: &Census, days: i64, args: &StatsArgs) -> Value {
    let (cost, tokens) = usage_json(census.usage);
    let (average, median) = census.tokens_per_session();
    let model = |(name, count): (&str, &super::census::ModelCount)| {
        let (cost, tokens) = usage_json(count.usage);
        json!({ "model": name, "messages": count.messages, "cost": cost, "tokens": tokens })
    };
    let tool = |(name, count): (&str, super::census::ToolCount)| json!({ "tool": name, "calls": count.calls, "errors": count.errors });
    json!({
        "sessions": census.sessions,
        "messages": census.messages,
        "days": days,
        "cost": cost,
        "tokens": tokens,
        "tokensPerSession": { "average": average, "median": median },
        "models": census.busiest_models(args.models).into_iter().map(model).collect::<Vec<_>>(),
        "tools": census.busiest_tools(args.tools).into_iter().map(tool).collect::<Vec<_>>(),
    })
}
