//! Tool calls: one line with what was done, and the head of what came back.

use serde_json::Value;
use turnstone_core::model::{Tool, ToolState, ToolTime};

use super::page::Detail;
use super::part::headed;
use crate::figure;
use crate::moment;
use crate::text::{clean_block, clean_line, cut, wrap};
use crate::ui::{BAD, GOOD, NAME, WARN, paint};

/// Lines of output that are shown in brief.
const HEAD_LINES: usize = 5;
/// What a line of input is cut to where there is no terminal.
const INPUT_COLUMNS: usize = 200;
/// The fields that say most about a call, the best first.
const TELLING: [&str; 10] = [
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
pub(super) fn lines(tool: &Tool, width: Option<usize>, detail: Detail) -> Vec<String> {
    let full = detail == Detail::Full;
    let (mark, status, input, output, time) = match &tool.state {
        ToolState::Pending { input, .. } => (paint(WARN, "…"), " (not started)", input, "", None),
        ToolState::Running { input, time, .. } => {
            (paint(WARN, "…"), " (running)", input, "", Some(time))
        }
        ToolState::Completed { input, output, time, .. } => {
            let cleared = if time.compacted.is_some() { " (output cleared)" } else { "" };
            (paint(GOOD, "✓"), cleared, input, output.as_str(), Some(time))
        }
        ToolState::Error { input, error, time, .. } => {
            (paint(BAD, "✗"), " (failed)", input, error.as_str(), Some(time))
        }
    };
    let name = clean_line(&tool.tool);
    let took = took(time);
    let used = 4 + crate::text::width(&name) + status.len() + took.len();
    let room = width.map_or(INPUT_COLUMNS, |width| width.saturating_sub(used).max(20));
    let summary = summary(input);
    let summary = if full { summary } else { cut(&summary, room) };
    let mut lines = vec![format!("{mark} {}  {summary}{status}{took}", paint(NAME, name))];
    let text = clean_block(output);
    let wrapped = wrap(text.trim_end(), width.map(|width| width.saturating_sub(4)));
    lines.extend(headed(&wrapped, if full { usize::MAX } else { HEAD_LINES }, "    "));
    lines
}

/// How long a finished call took; what took no time is not worth a word.
fn took(time: Option<&ToolTime>) -> String {
    let Some(ToolTime { start, end: Some(end), .. }) = time else {
        return String::new();
    };
    match moment::millis(end) - moment::millis(start) {
        ms @ 1_000.. => format!(" ({})", figure::duration(ms)),
        _ => String::new(),
    }
}

/// What a call was asked to do, on one line.
fn summary(input: &Value) -> String {
    let telling = TELLING.iter().find_map(|key| input.get(key).and_then(Value::as_str));
    match (telling, input) {
        (Some(text), _) => clean_line(text),
        (None, Value::Null) => String::new(),
        (None, Value::Object(map)) if map.is_empty() => String::new(),
        (None, other) => clean_line(&other.to_string()),
    }
}
