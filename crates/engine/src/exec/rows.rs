//! The rows of a command: its prompt, the answer, and the tool call in between.

use serde_json::{Number, Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    Extra, Message, MessageBody, Part, PartBody, Session, Text, Tool, ToolState, ToolTime,
};
use turnstone_core::time::Millis;
use turnstone_process::GroupId;

use crate::error::{EngineError, Result};

/// Where in the metadata of a tool call its processes are.
const GROUP: &str = "group";

/// The message of whoever ran the command.
pub(super) fn prompt(id: MessageId, session: &SessionId, now: Millis) -> Result<Message> {
    let body = json!({
        "role": "user", "time": { "created": now.0 }, "agent": "exec",
        "model": { "providerID": "turnstone", "modelID": "exec" },
    });
    message(id, session, body)
}

/// The command line, as text of the prompt.
pub(super) fn text(id: PartId, message: &Message, line: &str) -> Part {
    let body = PartBody::Text(Text { text: line.to_owned(), ..Text::default() });
    Part { id, session: message.session.clone(), message: message.id.clone(), body }
}

/// The message that holds the tool call.
pub(super) fn answer(
    id: MessageId,
    session: &Session,
    asked: &MessageId,
    now: Millis,
) -> Result<Message> {
    let none =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let body = json!({
        "role": "assistant", "time": { "created": now.0 }, "parentID": asked,
        "modelID": "exec", "providerID": "turnstone", "mode": "exec", "agent": "exec",
        "path": { "cwd": session.directory, "root": session.directory },
        "cost": 0, "tokens": none,
    });
    message(id, &session.id, body)
}

fn message(id: MessageId, session: &SessionId, body: Value) -> Result<Message> {
    let body: MessageBody = serde_json::from_value(body).map_err(std::io::Error::from)?;
    Ok(Message { id, session: session.clone(), body })
}

/// The tool call, running.
pub(super) fn call(id: PartId, message: &Message, line: &str, now: Millis) -> Part {
    let time =
        ToolTime { start: Number::from(now.0), end: None, compacted: None, extra: Extra::new() };
    let state = ToolState::Running {
        input: json!({ "command": line }),
        title: Some(line.to_owned()),
        metadata: None,
        time,
        extra: Extra::new(),
    };
    let tool = Tool {
        call: id.to_string(),
        tool: "bash".to_owned(),
        state,
        metadata: None,
        extra: Extra::new(),
    };
    let (session, message) = (message.session.clone(), message.id.clone());
    Part { id, session, message, body: PartBody::Tool(Box::new(tool)) }
}

/// Puts the processes of a call into its metadata.
pub(super) fn set_group(part: &mut Part, group: &GroupId) {
    if let PartBody::Tool(tool) = &mut part.body
        && let ToolState::Running { metadata, .. } = &mut tool.state
    {
        *metadata = Some(json!({ GROUP: group }));
    }
}

/// The processes of a call; nothing if none were written down.
pub(super) fn group_in(part: &Part) -> Result<Option<GroupId>> {
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
    // What was written down and cannot be read may still run.
    let unreadable = |source| EngineError::BadGroup { part: part.id.clone(), source };
    let group = metadata.and_then(|all| all.get(GROUP)).cloned();
    group.map(serde_json::from_value).transpose().map_err(unreadable)
}

/// Completes a running call.
pub(super) fn complete(part: &mut Part, output: String, more: &Value, now: Millis) {
    let PartBody::Tool(tool) = &mut part.body else {
        return;
    };
    let ToolState::Running { input, title, metadata, time, extra } = &tool.state else {
        return;
    };
    let mut all = metadata.clone().unwrap_or_else(|| json!({}));
    if let (Some(all), Some(more)) = (all.as_object_mut(), more.as_object()) {
        all.extend(more.clone());
    }
    tool.state = ToolState::Completed {
        input: input.clone(),
        output,
        title: title.clone().unwrap_or_default(),
        metadata: all,
        time: ToolTime { end: Some(Number::from(now.0)), ..time.clone() },
        attachments: None,
        extra: extra.clone(),
    };
}

/// Completes the message around a call.
pub(super) fn finish(message: &mut Message, now: Millis) {
    if let MessageBody::Assistant(assistant) = &mut message.body {
        assistant.time.completed = Some(Number::from(now.0));
        assistant.finish = Some("stop".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_were_written_down_and_cannot_be_read_are_not_taken_for_none_r32() {
        let body = json!({"type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "running", "input": {}, "time": {"start": 1}, "metadata": {"group": "?"}}});
        let body = serde_json::from_value(body).expect("a part");
        let (id, session) = ("prt_1".parse().expect("id"), "ses_1".parse().expect("id"));
        let mut part = Part { id, session, message: "msg_1".parse().expect("id"), body };

        assert!(matches!(group_in(&part), Err(EngineError::BadGroup { .. })));

        if let PartBody::Tool(tool) = &mut part.body
            && let ToolState::Running { metadata, .. } = &mut tool.state
        {
            *metadata = Some(json!({}));
        }
        assert!(matches!(group_in(&part), Ok(None)));
    }
}
