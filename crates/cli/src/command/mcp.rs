//! `turnstone mcp`: servers of tools for the agent.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use turnstone_agent::mcp::{McpServerReport, McpState, McpToolReport, ToolPinError, ToolPins};

use crate::agent_settings::agent_settings;
use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format::format_counted;
use crate::text;
use crate::ui::{ColumnKind, TextTable, Ui};

/// How long servers may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How much of a hash is shown.
const SHOWN_HASH: usize = 12;

/// Subcommands of `mcp`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum McpCommand {
    /// Start the MCP servers of this directory and list their tools
    ///
    /// The servers come from `mcp` of your configuration, and of the project's once you trust it. The tools
    /// ask for permission under the name shown unless a rule allows them. A tool that changes after you
    /// have allowed it is asked about again, whatever the rules say.
    #[command(after_help = "Example:\n  turnstone mcp list")]
    List,
    /// Forget that tools of a server were allowed
    ///
    /// The next call of such a tool is asked about as if it were new, unless a rule allows it.
    #[command(
        after_help = "Examples:\n  turnstone mcp forget github\n  turnstone mcp forget github_search"
    )]
    Forget {
        /// Server or tool, as `list` shows it
        name: String,
    },
}

impl From<ToolPinError> for CliError {
    fn from(error: ToolPinError) -> Self {
        let hint =
            Some("correct the file, or remove it to be asked about every tool again".to_owned());
        Self::Refused { what: error.to_string(), hint }
    }
}

/// Runs a subcommand.
///
/// # Errors
///
/// The configuration or the record of allowed tools cannot be read or written, or an agent runs this program.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &McpCommand,
) -> Result<ProgramExit, CliError> {
    match command {
        McpCommand::List => list(ui, app),
        McpCommand::Forget { name } => forget(ui, app, name),
    }
}

fn list(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let engine = Arc::new(app.open_engine()?);
    let settings = agent_settings(app, &engine)?;
    let reports = settings.report_mcp_servers(app.directory()?, START_LIMIT);
    settings.close_mcp_servers();
    let reports = reports.map_err(|what| CliError::Refused {
        what,
        hint: Some("`turnstone config check` reads all files again".to_owned()),
    })?;
    if ui.wants_json() {
        ui.print_json(&Value::from(reports.iter().map(server_json).collect::<Vec<_>>()))?;
        return Ok(ProgramExit::Ok);
    }
    if reports.is_empty() {
        ui.print_note("no MCP server is configured here");
        ui.print_hint("`turnstone config check` shows what waits for your trust");
        return Ok(ProgramExit::Ok);
    }
    let columns = ["SERVER", "STATUS", "TOOL", "DEFINITION", ""];
    let mut grid = TextTable::new(&columns.map(|heading| (heading, ColumnKind::Text)));
    for report in &reports {
        let row = |tool: [String; 3]| {
            let [name, hash, note] = tool;
            [report.name.clone(), status_name(report.state).to_owned(), name, hash, note]
        };
        if report.tools.is_empty() {
            grid.add_row(&row(Default::default()));
        }
        for tool in &report.tools {
            grid.add_row(&row(tool_cells(tool)));
        }
    }
    ui.print_table(&grid)?;
    for report in &reports {
        let name = text::sanitize_line(&report.name);
        if let Some(error) = &report.error {
            ui.print_note(&format!("{name}: {}", text::sanitize_line(error)));
        }
        if report.omitted > 0 {
            let tools = format_counted(report.omitted, "tool");
            ui.print_note(&format!("{name}: {tools} cannot be used (too many, or too large)"));
        }
    }
    Ok(ProgramExit::Ok)
}

/// Name, definition and note of a tool.
fn tool_cells(tool: &McpToolReport) -> [String; 3] {
    let name = tool.name.clone().unwrap_or_else(|| format!("({})", tool.original));
    let hash: String = tool.hash.chars().take(SHOWN_HASH).collect();
    let mut notes = Vec::new();
    if tool.is_read_only {
        notes.push("read-only".to_owned());
    }
    if tool.is_pinned {
        notes.push("allowed".to_owned());
    }
    if !tool.changed.is_empty() {
        notes.push(format!("changed since it was allowed: {}", tool.changed.join(", ")));
    }
    [name, hash, notes.join(", ")]
}

fn server_json(report: &McpServerReport) -> Value {
    let tool = |tool: &McpToolReport| {
        json!({
            "name": tool.name, "tool": tool.original, "readOnly": tool.is_read_only,
            "hash": tool.hash, "allowed": tool.is_pinned, "changed": tool.changed,
        })
    };
    json!({
        "name": report.name, "status": status_name(report.state), "error": report.error,
        "omitted": report.omitted, "tools": report.tools.iter().map(tool).collect::<Vec<_>>(),
    })
}

const fn status_name(state: McpState) -> &'static str {
    match state {
        McpState::Connected => "connected",
        McpState::Disabled => "disabled",
        McpState::Failed => "failed",
        McpState::NeedsAuth => "needs_auth",
    }
}

fn forget(ui: &mut Ui, app: &CliApp, name: &str) -> Result<ProgramExit, CliError> {
    require_person(app, "forget which tools were allowed")?;
    let removed = ToolPins::new(app.layout().root()).remove(name)?;
    let shown = text::sanitize_line(name);
    if removed.is_empty() {
        return Err(CliError::Refused {
            what: format!("no tool of {shown} was allowed"),
            hint: Some("`turnstone mcp list` shows servers and tools".to_owned()),
        });
    }
    let definitions = format_counted(removed.len(), "definition");
    ui.print_note(&format!("forgot {definitions} of {shown}"));
    ui.print_hint("`turnstone permission list` shows rules and approvals, which stay");
    Ok(ProgramExit::Ok)
}
