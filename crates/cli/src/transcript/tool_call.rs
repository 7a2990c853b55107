//! Formats tool calls: a summary line and the first lines of output.

use serde_json::Value;
use turnstone_core::model::{ToolPart, ToolState, ToolTime};
use turnstone_process::signal_name;

use super::message_part::first_lines;
use super::transcript_lines::TranscriptDetail;
use crate::number_format;
use crate::text::{sanitize_block, sanitize_line, truncate_to_width, wrap};
use crate::time_format;
use crate::ui::{ERROR_STYLE, ID_STYLE, SUCCESS_STYLE, WARNING_STYLE, apply_style};

/// Lines of output in the brief view.
const MAX_OUTPUT_LINES: usize = 5;
/// Maximum width of the input without a terminal.
const INPUT_COLUMNS: usize = 200;
/// Input fields used as summary, most informative first.
const SUMMARY_KEYS: [&str; 10] = [
    "command",
    "filePath",
    "file_path",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
    "name",
];

/// The lines of a tool call.
pub(super) fn tool_call_lines(
    tool: &ToolPart,
    width: Option<usize>,
    detail: TranscriptDetail,
) -> Vec<String> {
    let full = detail == TranscriptDetail::Full;
    let (mut output, exit) = (tool.output().unwrap_or_default().to_owned(), tool.exit_code());
    let (mark, status, time) = match &tool.state {
        ToolState::Pending { .. } => {
            (apply_style(WARNING_STYLE, "…"), " (not started)".to_owned(), None)
        }
        ToolState::Running { time, .. } => {
            (apply_style(WARNING_STYLE, "…"), " (running)".to_owned(), Some(time))
        }
        ToolState::Completed { time, .. } => {
            let cleared = if time.compacted.is_some() { " (output cleared)" } else { "" };
            match exit.filter(|code| *code != 0) {
                Some(code) => {
                    let how = tool.signal().map(signal_name);
                    let how = how.unwrap_or_else(|| format!("exit code {code}"));
                    let status = format!(" ({how}){cleared}");
                    (apply_style(ERROR_STYLE, "✗"), status, Some(time))
                }
                None => (apply_style(SUCCESS_STYLE, "✓"), cleared.to_owned(), Some(time)),
            }
        }
        ToolState::Error { error, time, .. } => {
            output = format!("{error}\n{output}");
            (apply_style(ERROR_STYLE, "✗"), " (failed)".to_owned(), Some(time))
        }
    };
    let input = tool.input();
    let name = sanitize_line(&tool.tool);
    let took = format_call_duration(time);
    let used = 4 + crate::text::display_width(&name) + status.len() + took.len();
    let room = width.map_or(INPUT_COLUMNS, |width| width.saturating_sub(used).max(20));
    let summary = summarize_input(input);
    let summary = if full { summary } else { truncate_to_width(&summary, room) };
    let mut lines =
        vec![format!("{mark} {}  {summary}{status}{took}", apply_style(ID_STYLE, name))];
    let text = sanitize_block(&output);
    let wrapped = wrap(text.trim_end(), width.map(|width| width.saturating_sub(4)));
    lines.extend(first_lines(&wrapped, if full { usize::MAX } else { MAX_OUTPUT_LINES }, "    "));
    lines
}

/// A tool call in one line.
pub(crate) struct CallLine {
    /// Without styles and outcome: what runs.
    pub(crate) plain: String,
    /// With its outcome.
    pub(crate) styled: String,
    /// The first line of what went wrong.
    pub(crate) failure: Option<String>,
}

/// A tool call in one line, with its outcome if it has ended.
pub(crate) fn call_line(tool: &ToolPart, width: Option<usize>) -> CallLine {
    let mut lines = tool_call_lines(tool, width, TranscriptDetail::Brief);
    let mut styled = if lines.is_empty() { String::new() } else { lines.remove(0) };
    styled.push_str(&line_counts(tool));
    let plain = format!("{} {}", sanitize_line(&tool.tool), summarize_input(tool.input()));
    let failure = match &tool.state {
        ToolState::Error { error, .. } => error.lines().find(|line| !line.trim().is_empty()),
        ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Completed { .. } => None,
    };
    let room = width.unwrap_or(INPUT_COLUMNS).saturating_sub(8);
    CallLine {
        plain: truncate_to_width(plain.trim_end(), room),
        styled,
        failure: failure.map(|line| truncate_to_width(&sanitize_line(line), room)),
    }
}

/// How many lines an edit added and removed.
fn line_counts(tool: &ToolPart) -> String {
    let ToolState::Completed { metadata, .. } = &tool.state else { return String::new() };
    let diff = metadata.get("filediff");
    let count = |key: &str| diff.and_then(|diff| diff.get(key)).and_then(Value::as_u64);
    match (count("additions"), count("deletions")) {
        (Some(added), Some(removed)) => format!(" (+{added} −{removed})"),
        _ => String::new(),
    }
}

/// Duration of a finished call; empty below one second.
fn format_call_duration(time: Option<&ToolTime>) -> String {
    let Some(ToolTime { start, end: Some(end), .. }) = time else {
        return String::new();
    };
    match time_format::number_to_millis(end) - time_format::number_to_millis(start) {
        ms @ 1_000.. => format!(" ({})", number_format::format_duration(ms)),
        _ => String::new(),
    }
}

/// Summary of the input on one line.
fn summarize_input(input: &Value) -> String {
    let summary = SUMMARY_KEYS.iter().find_map(|key| input.get(key).and_then(Value::as_str));
    match (summary, input) {
        (Some(text), _) => sanitize_line(text),
        (None, Value::Null) => String::new(),
        (None, Value::Object(map)) if map.is_empty() => String::new(),
        (None, other) => sanitize_line(&other.to_string()),
    }
}
