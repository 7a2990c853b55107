//! The rows of a command: its prompt, the answer, and the tool call in between.

use serde_json::{Number, Value, json};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    ExtraFields, Message, MessageBody, Part, PartBody, Session, TextPart, ToolPart, ToolState,
    ToolTime,
};
use turnstone_core::time::EpochMillis;

use super::command_origin::CommandOrigin;
use crate::error::Result;

/// Where in it is what the call has written so far.
const OUTPUT: &str = "output";
/// What OpenCode lets a person say who runs a command of their own.
const SHELL_PROMPT: &str = "The following tool was executed by the user";

/// The prompt of a command.
pub(super) fn prompt_message(
    id: MessageId,
    session: &SessionId,
    origin: &CommandOrigin,
    now: EpochMillis,
) -> Result<Message> {
    let body = json!({
        "role": "user", "time": { "created": now.0 }, "agent": origin.agent(),
        "model": origin.model(),
    });
    build_message(id, session, body)
}

/// What the prompt says: the command line, or for a client of OpenCode that there was one.
pub(super) fn prompt_text_part(
    id: PartId,
    message: &Message,
    origin: &CommandOrigin,
    line: &str,
) -> Part {
    let text = match origin {
        CommandOrigin::Exec => TextPart { text: line.to_owned(), ..TextPart::default() },
        CommandOrigin::Shell(_) => {
            TextPart { text: SHELL_PROMPT.to_owned(), synthetic: Some(true), ..TextPart::default() }
        }
    };
    let body = PartBody::Text(text);
    Part { id, session: message.session.clone(), message: message.id.clone(), body }
}

/// The message that holds the tool call.
pub(super) fn answer_message(
    id: MessageId,
    session: &Session,
    (asked, origin): (&MessageId, &CommandOrigin),
    now: EpochMillis,
) -> Result<Message> {
    let none =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let model = origin.model();
    let body = json!({
        "role": "assistant", "time": { "created": now.0 }, "parentID": asked,
        "modelID": model.model, "providerID": model.provider,
        "mode": origin.agent(), "agent": origin.agent(),
        "path": { "cwd": session.directory, "root": origin.root(session) },
        "cost": 0, "tokens": none,
    });
    build_message(id, &session.id, body)
}

fn build_message(id: MessageId, session: &SessionId, body: Value) -> Result<Message> {
    let body: MessageBody = serde_json::from_value(body).map_err(std::io::Error::from)?;
    Ok(Message { id, session: session.clone(), body })
}

/// The tool call, running.
pub(super) fn running_call_part(
    id: PartId,
    message: &Message,
    origin: &CommandOrigin,
    line: &str,
    now: EpochMillis,
) -> Part {
    let time = ToolTime {
        start: Number::from(now.0),
        end: None,
        compacted: None,
        extra: ExtraFields::new(),
    };
    let state = ToolState::Running {
        input: json!({ "command": line }),
        title: matches!(origin, CommandOrigin::Exec).then(|| line.to_owned()),
        metadata: None,
        time,
        extra: ExtraFields::new(),
    };
    let tool = ToolPart {
        call: id.to_string(),
        tool: "bash".to_owned(),
        state,
        metadata: None,
        extra: ExtraFields::new(),
    };
    let (session, message) = (message.session.clone(), message.id.clone());
    Part { id, session, message, body: PartBody::Tool(Box::new(tool)) }
}

/// Puts what a running call has written so far into its metadata.
pub(super) fn set_output(part: &mut Part, output: &str) {
    if let PartBody::Tool(tool) = &mut part.body
        && let ToolState::Running { metadata, .. } = &mut tool.state
    {
        let metadata = metadata.get_or_insert_with(|| json!({}));
        metadata[OUTPUT] = Value::from(output);
    }
}

/// Completes a running call.
pub(super) fn complete_call(part: &mut Part, output: String, more: &Value, now: EpochMillis) {
    let PartBody::Tool(tool) = &mut part.body else {
        return;
    };
    let ToolState::Running { input, title, metadata, time, extra } = &tool.state else {
        return;
    };
    let mut all = metadata.clone().unwrap_or_else(|| json!({}));
    if let (Some(all), Some(more)) = (all.as_object_mut(), more.as_object()) {
        // What was shown while it ran.
        all.remove(OUTPUT);
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
pub(super) fn complete_answer(message: &mut Message, origin: &CommandOrigin, now: EpochMillis) {
    if let MessageBody::Assistant(assistant) = &mut message.body {
        assistant.time.completed = Some(Number::from(now.0));
        // No model has stopped: OpenCode leaves it out for a shell command.
        assistant.finish = matches!(origin, CommandOrigin::Exec).then(|| "stop".to_owned());
    }
}
