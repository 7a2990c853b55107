//! What of a part is searched: text, reasoning, tool input and output, paths.

use serde_json::Value;
use turnstone_core::lone_surrogates::to_display;
use turnstone_core::model::{FilePart, PartBody, ToolPart, ToolState};
use turnstone_core::terminal_text::strip_terminal_codes;

/// What kind of text a hit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SearchKind {
    /// The title of a session.
    Title,
    /// What a person or a model wrote.
    Text,
    /// What a model thought.
    Reasoning,
    /// Input or output of a tool.
    Tool,
    /// A changed or attached file.
    Path,
}

impl SearchKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Title, Self::Text, Self::Reasoning, Self::Tool, Self::Path];

    /// The name people see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Text => "text",
            Self::Reasoning => "reasoning",
            Self::Tool => "tool",
            Self::Path => "path",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The code stored in `search_doc`; it never changes meaning.
    pub(super) const fn code(self) -> i64 {
        match self {
            Self::Title => 1,
            Self::Text => 2,
            Self::Reasoning => 3,
            Self::Tool => 4,
            Self::Path => 5,
        }
    }

    pub(super) fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Of a tool's output, and of its input, this much is searched at either end (R23).
const TOOL_END_BYTES: usize = 64 * 1024;
/// Of anything else, this much at either end: one document must fit one transaction.
const TEXT_END_BYTES: usize = 128 * 1024;

/// True for the types of parts that may have something to search.
pub(super) fn is_searchable(part_type: &str) -> bool {
    matches!(part_type, "text" | "reasoning" | "tool" | "patch" | "file")
}

/// What is searched of a sealed part; nothing if it has no words to search or is still open.
pub(super) fn searchable_text(body: &PartBody) -> Option<(SearchKind, String)> {
    let (kind, text) = match body {
        PartBody::Text(text) if text.time.as_ref().is_none_or(|time| time.end.is_some()) => {
            (SearchKind::Text, head_and_tail(&text.text, TEXT_END_BYTES))
        }
        PartBody::Reasoning(text) if text.time.end.is_some() => {
            (SearchKind::Reasoning, head_and_tail(&text.text, TEXT_END_BYTES))
        }
        PartBody::Tool(tool) => (SearchKind::Tool, tool_text(tool)?),
        PartBody::Patch(patch) => {
            (SearchKind::Path, head_and_tail(&patch.files.join("\n"), TEXT_END_BYTES))
        }
        PartBody::File(file) => (SearchKind::Path, head_and_tail(&file_text(file), TEXT_END_BYTES)),
        PartBody::Text(_)
        | PartBody::Reasoning(_)
        | PartBody::Agent(_)
        | PartBody::StepStart(_)
        | PartBody::StepFinish(_)
        | PartBody::Snapshot(_)
        | PartBody::Subtask(_)
        | PartBody::Retry(_)
        | PartBody::Compaction(_)
        | PartBody::Opaque(_) => return None,
    };
    (!text.is_empty()).then_some((kind, text))
}

/// A title, as it is searched.
pub(super) fn searchable_title(title: &str) -> String {
    head_and_tail(title, TEXT_END_BYTES)
}

fn tool_text(tool: &ToolPart) -> Option<String> {
    let error = match &tool.state {
        ToolState::Completed { .. } => "",
        ToolState::Error { error, .. } => error,
        ToolState::Pending { .. } | ToolState::Running { .. } => return None,
    };
    let mut strings = String::new();
    collect_strings(tool.input(), &mut strings);
    let output = head_and_tail(tool.output().unwrap_or_default(), TOOL_END_BYTES);
    // A colour is no part of the word that it begins.
    let output = strip_terminal_codes(&output);
    let error = head_and_tail(error, TOOL_END_BYTES);
    let texts = [&head_and_tail(&strings, TOOL_END_BYTES), &error, output.as_ref()];
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    Some(texts.join("\n"))
}

/// The string values inside `value`, one per line.
fn collect_strings(value: &Value, into: &mut String) {
    match value {
        Value::String(text) => {
            if !into.is_empty() {
                into.push('\n');
            }
            into.push_str(text);
        }
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, into)),
        Value::Object(map) => map.values().for_each(|item| collect_strings(item, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A file's name, and the path it was taken from.
fn file_text(file: &FilePart) -> String {
    let name = file.filename.as_deref().unwrap_or("");
    let path = file.source.as_ref().and_then(|s| s.get("path")).and_then(Value::as_str);
    match path.filter(|path| *path != name) {
        Some(path) => format!("{name}\n{path}").trim_start().to_owned(),
        None => name.to_owned(),
    }
}

/// The text, or its head and tail of `end` bytes each if it is longer than both.
fn head_and_tail(text: &str, end: usize) -> String {
    let text = &*to_display(text);
    if text.len() <= 2 * end {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(end);
    let tail = text.ceil_char_boundary(text.len() - end);
    format!("{}\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(value: Value) -> Option<(SearchKind, String)> {
        searchable_text(&PartBody::parse_lenient(value).expect("a part"))
    }

    #[test]
    fn only_finished_parts_are_searchable() {
        let text = |time: Value| of(json!({"type": "text", "text": "x", "time": time}));
        assert!(text(json!({"start": 1})).is_none());
        assert!(text(json!({"start": 1, "end": 2})).is_some());
        assert!(of(json!({"type": "text", "text": "x"})).is_some());
        let tool =
            |state: Value| of(json!({"type": "tool", "callID": "c", "tool": "t", "state": state}));
        assert!(
            tool(json!({"status": "running", "input": {"a": "b"}, "time": {"start": 1}})).is_none()
        );
        let failed = tool(
            json!({"status": "error", "input": {"a": ["b", {"c": "d"}], "n": 1}, "error": "e",
                   "time": {"start": 1, "end": 2}}),
        );
        assert_eq!(failed, Some((SearchKind::Tool, "b\nd\ne".to_owned())));
        let killed = tool(json!({"status": "error", "input": {"a": "b"}, "error": "e",
                   "metadata": {"output": "\u{1b}[31mred\u{1b}[m"}, "time": {"start": 1, "end": 2}}));
        assert_eq!(killed, Some((SearchKind::Tool, "b\ne\nred".to_owned())));
    }

    #[test]
    fn paths_come_from_patches_and_files() {
        let patch = of(json!({"type": "patch", "hash": "h", "files": ["/a/b.rs", "/c"]}));
        assert_eq!(patch, Some((SearchKind::Path, "/a/b.rs\n/c".to_owned())));
        let file = of(json!({"type": "file", "mime": "m", "url": "data:,", "filename": "n.rs",
                             "source": {"path": "src/n.rs"}}));
        assert_eq!(file, Some((SearchKind::Path, "n.rs\nsrc/n.rs".to_owned())));
        assert_eq!(of(json!({"type": "file", "mime": "m", "url": "data:,"})), None);
    }

    #[test]
    fn long_texts_are_cut_at_character_boundaries() {
        let cut = head_and_tail(&format!("{}x{}", "ä".repeat(50), "ö".repeat(50)), 11);
        assert_eq!(cut, format!("{}\n{}", "ä".repeat(5), "ö".repeat(5)));
    }
}
