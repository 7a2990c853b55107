//! The script in a prompt.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// The turns of a script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelScript {
    /// What the model answers, request by request.
    pub turns: Vec<Vec<ScriptStep>>,
}

/// One event of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptStep {
    /// Text, in pieces of so many characters.
    Text(String, Option<usize>),
    /// Reasoning, and its signature.
    Reasoning(String, Option<String>),
    /// Reasoning that cannot be read.
    Redacted(String),
    /// A tool call: its id, the tool, the raw arguments, its signature.
    Call {
        /// The id; made up if absent.
        call: Option<String>,
        /// The tool.
        tool: String,
        /// The raw arguments.
        arguments: String,
        /// In pieces of so many characters.
        delta_chars: Option<usize>,
        /// What must return with the call.
        signature: Option<String>,
    },
    /// A response instead of an answer.
    Http {
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
        /// How often, before the answer goes on behind it.
        times: u64,
    },
    /// An error of the wire within the stream.
    StreamError(Value),
    /// Nothing for that long.
    Pause(Duration),
    /// Nothing until a file exists.
    WaitForFile(PathBuf),
    /// The connection breaks.
    Cut,
    /// The stream ends without a reason.
    End,
    /// The reason that the answer ends with, in the words of the wire.
    Finish(String),
    /// Tokens: input, output, reasoning, read from a cache.
    Usage([u64; 4]),
}

impl ModelScript {
    /// Finds the script in a text: the first JSON list of lists that is one.
    #[must_use]
    pub fn find_in(text: &str) -> Option<Self> {
        let starts = text.match_indices('[').map(|(start, _)| start);
        let found = starts.filter_map(|start| text.get(start..)).filter_map(|rest| {
            let mut values =
                serde_json::Deserializer::from_str(rest).into_iter::<Vec<Vec<Value>>>();
            values.next()?.ok().filter(|turns| !turns.is_empty())
        });
        let turns = found.filter_map(|turns| {
            let read = |turn: &Vec<Value>| turn.iter().map(read_step).collect::<Option<Vec<_>>>();
            turns.iter().map(read).collect::<Option<Vec<_>>>()
        });
        turns.map(|turns| Self { turns }).next()
    }
}

fn read_step(step: &Value) -> Option<ScriptStep> {
    let text = |name: &str| step[name].as_str().map(str::to_owned);
    let delta_chars = step["delta_chars"].as_u64().and_then(|count| usize::try_from(count).ok());
    if let Some(said) = text("text") {
        return Some(ScriptStep::Text(said, delta_chars));
    }
    if let Some(thought) = text("reasoning") {
        return Some(ScriptStep::Reasoning(thought, text("signature")));
    }
    if let Some(data) = text("redacted") {
        return Some(ScriptStep::Redacted(data));
    }
    if let Some(tool) = text("tool") {
        let input = &step["input"];
        let input = if input.is_null() { "{}".to_owned() } else { input.to_string() };
        let arguments = text("arguments").unwrap_or(input);
        let (call, signature) = (text("call"), text("signature"));
        return Some(ScriptStep::Call { call, tool, arguments, delta_chars, signature });
    }
    if step["http"].is_object() {
        return read_http(&step["http"]);
    }
    if !step["stream_error"].is_null() {
        return Some(ScriptStep::StreamError(step["stream_error"].clone()));
    }
    if let Some(time) = step["pause"].as_u64() {
        return Some(ScriptStep::Pause(Duration::from_millis(time)));
    }
    if let Some(path) = text("wait_for_file") {
        return Some(ScriptStep::WaitForFile(path.into()));
    }
    if let Some(reason) = text("finish") {
        return Some(ScriptStep::Finish(reason));
    }
    if step["usage"].is_object() {
        let count = |name: &str| step["usage"][name].as_u64().unwrap_or(0);
        let names = ["input", "output", "reasoning", "cache_read"];
        return Some(ScriptStep::Usage(names.map(count)));
    }
    match (&step["cut"], &step["end"]) {
        (Value::Bool(true), _) => Some(ScriptStep::Cut),
        (_, Value::Bool(true)) => Some(ScriptStep::End),
        _ => None,
    }
}

fn read_http(http: &Value) -> Option<ScriptStep> {
    let status = u16::try_from(http["status"].as_u64()?).ok()?;
    let headers = http["headers"].as_object().into_iter().flatten();
    let headers = headers
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    let body = match http["body"].as_str() {
        Some(text) => text.to_owned(),
        None if http["body"].is_null() => String::new(),
        None => http["body"].to_string(),
    };
    Some(ScriptStep::Http { status, headers, body, times: http["times"].as_u64().unwrap_or(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_in_a_prompt() {
        let text = "Fix [this] please: [[{\"text\": \"a\"}, {\"tool\": \"read\", \"input\": {\"a\": [[1]]}}], []] now";
        let script = ModelScript::find_in(text).unwrap();
        assert_eq!(script.turns.len(), 2);
        assert_eq!(script.turns[0][0], ScriptStep::Text("a".to_owned(), None));
        for text in ["", "no script", "[[1, 2]]", "[[{\"txt\": 1}]]", "[[{\"text\": \"a\"}"] {
            assert_eq!(ModelScript::find_in(text), None, "{text}");
        }
    }
}
