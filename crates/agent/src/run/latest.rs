//! Where a conversation stands: what was asked last, what was answered, what is to be done.

use turnstone_core::context::ContextMessage;
use turnstone_core::model::{
    AssistantMessage, Message, MessageBody, Part, PartBody, SubtaskPart, ToolState,
};

/// The field of a call's metadata that says that it was cut off.
const INTERRUPTED: &str = "interrupted";
/// The finish of an answer whose model waits for the results of its calls.
const TOOL_CALLS: &str = "tool-calls";

/// What a prompt asks for besides an answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunTask {
    /// The context is to be compacted; the message that asks for it.
    Compaction(Box<Message>),
    /// A subagent is to run; the message that asks for it.
    Subtask(Box<Message>, Box<SubtaskPart>),
}

/// Where a conversation stands.
pub(crate) struct ConversationState<'m> {
    /// The newest prompt.
    pub(crate) user: &'m Message,
    assistant: Option<&'m ContextMessage>,
    /// The newest finished answer.
    pub(crate) finished: Option<&'m AssistantMessage>,
    /// What is asked for since then, the newest first.
    pub(crate) task: Option<RunTask>,
}

impl<'m> ConversationState<'m> {
    /// Reads the messages that a model sees, in the order in which it sees them; `None` without a prompt.
    pub(crate) fn of(seen: &'m [ContextMessage]) -> Option<Self> {
        let newest = |is_wanted: &dyn Fn(&Message) -> bool| {
            seen.iter().rposition(|(message, _)| is_wanted(message))
        };
        let user = newest(&|message| matches!(message.body, MessageBody::User(_)))?;
        let (user, _) = seen.get(user)?;
        let assistant = newest(&|message| matches!(message.body, MessageBody::Assistant(_)));
        let assistant = assistant.and_then(|at| seen.get(at));
        let finished = newest(&|message| is_finished(message));
        let open = seen.get(finished.map_or(0, |at| at + 1)..).unwrap_or_default();
        let task = open.iter().rev().find_map(|(message, parts)| find_task(message, parts));
        let finished = finished.and_then(|at| seen.get(at));
        let finished = finished.and_then(|(message, _)| as_assistant(message));
        Some(Self { user, assistant, finished, task })
    }

    /// Returns the newest answer if it is not complete.
    pub(crate) fn open_answer(&self) -> Option<(&'m Message, &'m [Part])> {
        let (message, parts) = self.assistant?;
        let said = as_assistant(message)?;
        let is_open = said.time.completed.is_none() && said.error.is_none();
        is_open.then_some((message, parts))
    }

    /// True if the newest prompt has its answer: the model stopped and waits for no result.
    pub(crate) fn is_answered(&self) -> bool {
        let Some((message, parts)) = self.assistant else { return false };
        let Some(said) = as_assistant(message) else { return false };
        let has_ended = said.finish.as_deref().is_some_and(|finish| finish != TOOL_CALLS);
        (has_ended || said.error.is_some())
            && !parts.iter().any(is_call_to_answer)
            && said.parent == self.user.id
    }
}

/// A call whose result the model has not seen.
fn is_call_to_answer(part: &Part) -> bool {
    let PartBody::Tool(tool) = &part.body else { return false };
    let ToolState::Error { metadata, .. } = &tool.state else { return true };
    metadata.as_ref().and_then(|it| it.get(INTERRUPTED)).is_none_or(|it| it != true)
}

fn find_task(message: &Message, parts: &[Part]) -> Option<RunTask> {
    if !matches!(message.body, MessageBody::User(_)) {
        return None;
    }
    let message = || Box::new(message.clone());
    parts.iter().find_map(|part| {
        if let PartBody::Subtask(subtask) = &part.body {
            return Some(RunTask::Subtask(message(), Box::new(subtask.clone())));
        }
        let is_compaction = matches!(part.body, PartBody::Compaction(_));
        is_compaction.then(|| RunTask::Compaction(message()))
    })
}

fn is_finished(message: &Message) -> bool {
    as_assistant(message).is_some_and(|said| said.finish.is_some())
}

fn as_assistant(message: &Message) -> Option<&AssistantMessage> {
    match &message.body {
        MessageBody::Assistant(said) => Some(said),
        MessageBody::User(_) => None,
    }
}
