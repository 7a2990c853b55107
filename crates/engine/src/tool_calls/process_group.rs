//! The processes of a tool call, recorded in its part so that a crash does not lose them (R32).

use serde_json::{Map, Value, json};
use turnstone_core::model::{Part, PartBody, ToolState};
use turnstone_process::ProcessGroupId;

use crate::error::{EngineError, Result};

/// Where in the metadata of a tool call its processes are.
const GROUP: &str = "group";

/// Puts the processes of a call into its metadata.
pub(crate) fn set_group(part: &mut Part, group: &ProcessGroupId) {
    if let PartBody::Tool(tool) = &mut part.body
        && let ToolState::Running { metadata, .. } = &mut tool.state
    {
        let mut all = metadata.take().unwrap_or_else(|| json!({}));
        match all.as_object_mut() {
            Some(fields) => drop(fields.insert(GROUP.to_owned(), json!(group))),
            None => all = json!({ GROUP: group }),
        }
        *metadata = Some(all);
    }
}

/// Copies the processes of a call from its metadata to those that replace them.
pub(crate) fn keep_group(known: Option<&Value>, metadata: &mut Map<String, Value>) {
    if let Some(group) = known.and_then(|known| known.get(GROUP)) {
        metadata.insert(GROUP.to_owned(), group.clone());
    }
}

/// The processes of a call; `None` if none were recorded.
pub(crate) fn read_group(part: &Part) -> Result<Option<ProcessGroupId>> {
    let PartBody::Tool(tool) = &part.body else {
        return Ok(None);
    };
    let metadata = match &tool.state {
        ToolState::Running { metadata, .. } | ToolState::Error { metadata, .. } => {
            metadata.as_ref()
        }
        ToolState::Completed { metadata, .. } => Some(metadata),
        ToolState::Pending { .. } => None,
    };
    // Processes whose record cannot be read may still run.
    let unreadable = |source| EngineError::UnreadableProcessGroup { part: part.id.clone(), source };
    let group = metadata.and_then(|all| all.get(GROUP)).cloned();
    group.map(serde_json::from_value).transpose().map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R32.
    #[test]
    fn unreadable_process_group_is_an_error() {
        let body = json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "running", "input": {}, "time": {"start": 1}, "metadata": {"group": "?"}}});
        let body = serde_json::from_value(body).expect("a part");
        let (id, session) = ("prt_1".parse().expect("id"), "ses_1".parse().expect("id"));
        let mut part = Part { id, session, message: "msg_1".parse().expect("id"), body };

        assert!(matches!(read_group(&part), Err(EngineError::UnreadableProcessGroup { .. })));

        if let PartBody::Tool(tool) = &mut part.body
            && let ToolState::Running { metadata, .. } = &mut tool.state
        {
            *metadata = Some(json!({}));
        }
        assert!(matches!(read_group(&part), Ok(None)));
    }
}
