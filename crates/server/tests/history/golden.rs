//! What OpenCode's server answered, by the label of the recording.

use serde_json::Value;

/// The status and body of a recorded answer.
pub(crate) fn recorded(label: &str) -> (u16, Value) {
    let lines = include_str!("../golden/diff-fork-revert.jsonl").lines();
    let mut pairs = lines.map(|line| serde_json::from_str::<Value>(line).expect("a pair"));
    let pair = pairs.find(|pair| pair["label"] == label).unwrap_or_else(|| panic!("no {label}"));
    let status = pair["res"]["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    (status.expect("a status"), pair["res"]["body"].clone())
}

/// The names of the fields of an object, sorted.
pub(crate) fn fields(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}
