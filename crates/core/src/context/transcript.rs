//! A conversation as plain text, for summarisation.

use super::ContextMessage;
use super::model_messages::is_media;
use crate::model::{FilePart, MessageBody, Part, PartBody, ToolPart, ToolState};

/// So many characters of a tool's output are enough for a summary.
const MAX_OUTPUT_CHARS: usize = 2_000;

/// Writes a conversation down, one paragraph for each thing said or done.
///
/// Nothing in it can be taken for an instruction in its own right: every paragraph says who spoke.
/// Media are named, outputs are cut, cleared outputs are said to be cleared. What a model would not
/// be sent, such as ignored texts, is not here either.
#[must_use]
pub fn render_transcript(messages: &[ContextMessage]) -> String {
    let mut said = Vec::new();
    for (message, parts) in messages {
        match message.body {
            MessageBody::User(_) => said.extend(parts.iter().filter_map(render_user_part)),
            MessageBody::Assistant(_) => {
                parts.iter().for_each(|part| render_assistant_part(part, &mut said))
            }
        }
    }
    said.join("\n\n")
}

fn render_user_part(part: &Part) -> Option<String> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "a person says nothing else")]
    match &part.body {
        PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
            Some(format!("User: {}", text.text))
        }
        PartBody::File(file) if is_media(&file.mime) => {
            Some(format!("User: {}", describe_file(file)))
        }
        _ => None,
    }
}

fn render_assistant_part(part: &Part, said: &mut Vec<String>) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "marks and figures say nothing")]
    match &part.body {
        PartBody::Text(text) if !text.text.is_empty() => {
            said.push(format!("Assistant: {}", text.text));
        }
        PartBody::Reasoning(text) if !text.text.trim().is_empty() => {
            said.push(format!("Assistant, thinking: {}", text.text));
        }
        PartBody::Tool(tool) => render_tool_call(tool, said),
        _ => {}
    }
}

fn render_tool_call(tool: &ToolPart, said: &mut Vec<String>) {
    said.push(format!("Call of {}: {}", tool.tool, tool.input()));
    let result = match &tool.state {
        ToolState::Completed { time, .. } if time.compacted.is_some() => {
            super::CLEARED_OUTPUT.to_owned()
        }
        ToolState::Completed { output, attachments, .. } => {
            let files = attachments.iter().flatten();
            let files = files.filter_map(|file| serde_json::from_value(file.clone()).ok());
            let names: Vec<String> = files.map(|file| describe_file(&file)).collect();
            [&[truncate_output(output)][..], &names].concat().join("\n")
        }
        ToolState::Error { error, .. } => format!("failed: {}", truncate_output(error)),
        ToolState::Pending { .. } | ToolState::Running { .. } => {
            super::INTERRUPTED_RESULT.to_owned()
        }
    };
    said.push(format!("Result of {}: {result}", tool.tool));
}

/// A file in one line.
pub(super) fn describe_file(file: &FilePart) -> String {
    let name = file.filename.as_deref().unwrap_or("file");
    format!("[Attached {}: {name}]", file.mime)
}

fn truncate_output(output: &str) -> String {
    let kept: String = output.chars().take(MAX_OUTPUT_CHARS).collect();
    match output.chars().count() - kept.chars().count() {
        0 => kept,
        gone => format!("{kept}\n[{gone} more characters]"),
    }
}
