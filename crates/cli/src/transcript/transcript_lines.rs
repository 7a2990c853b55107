//! Formats heading, messages, to-do list and footer.

use turnstone_core::model::{
    AssistantMessage, MessageBody, MessageFailure, Session, SessionStatus, SessionUsage, Todo,
    UserMessage,
};
use turnstone_core::time::EpochMillis;
use turnstone_core::wire;
use turnstone_store::MessageWithParts;

use super::call_changes::CallChanges;
use super::message_part;
use crate::number_format;
use crate::text::{display_width, sanitize_block, sanitize_line, wrap};
use crate::time_format;
use crate::ui::{DIM_STYLE, ERROR_STYLE, HEADING_STYLE, ID_STYLE, WARNING_STYLE, apply_style};

/// Level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranscriptDetail {
    /// Only the first lines of tool output and reasoning.
    Brief,
    /// Everything.
    Full,
}

/// A session and the parts to show.
pub(crate) struct Transcript {
    /// The session.
    pub(crate) session: Session,
    /// Total usage of its steps.
    pub(crate) usage: SessionUsage,
    /// Current status.
    pub(crate) status: SessionStatus,
    /// Its to-do list.
    pub(crate) todos: Vec<Todo>,
    /// Whether there are earlier messages.
    pub(crate) earlier: bool,
    /// The messages to show, oldest first.
    pub(crate) messages: Vec<MessageWithParts>,
    /// What the calls of the session changed.
    pub(crate) changes: Vec<CallChanges>,
}

impl Transcript {
    /// The lines of the transcript, wrapped to `width` if given.
    pub(crate) fn lines(
        &self,
        width: Option<usize>,
        detail: TranscriptDetail,
        now: EpochMillis,
    ) -> Vec<String> {
        let mut lines = self.heading(now);
        for message in &self.messages {
            lines.push(String::new());
            lines.push(self.message_heading(message, width, now));
            for part in &message.parts {
                lines.extend(message_part::part_lines(&part.body, width, detail));
                let own = self.changes.iter().filter(|it| it.part.as_ref() == Some(&part.id));
                lines.extend(own.flat_map(|changes| changes.lines(detail)));
            }
            if let MessageBody::Assistant(assistant) = &message.message.body {
                lines.extend(assistant.error.iter().flat_map(|error| failure_lines(error, width)));
            }
        }
        lines.extend(self.todo_lines(width));
        lines.push(String::new());
        lines.extend(
            wrap(&self.footer(), width).into_iter().map(|line| apply_style(DIM_STYLE, line)),
        );
        lines
    }

    fn heading(&self, now: EpochMillis) -> Vec<String> {
        let session = &self.session;
        let mut lines = vec![apply_style(HEADING_STYLE, sanitize_line(&session.title))];
        let mut facts = vec![
            apply_style(ID_STYLE, &session.id),
            format!(
                "updated {}",
                time_format::format_local_time(
                    time_format::number_to_millis(&session.time.updated),
                    now
                )
            ),
        ];
        if !session.directory.is_empty() {
            facts.push(sanitize_line(&session.directory));
        }
        lines.push(facts.join(" · "));
        let mut extra = Vec::new();
        match &self.status {
            SessionStatus::Idle => {}
            SessionStatus::Busy => extra.push(apply_style(WARNING_STYLE, "a turn is running")),
            SessionStatus::Retry { message, .. } => {
                extra.push(apply_style(
                    WARNING_STYLE,
                    format!("waiting to retry: {}", sanitize_line(message)),
                ));
            }
        }
        if let Some(parent) = &session.parent {
            extra.push(format!("started by {parent}"));
        }
        if let Some(origin) = &session.origin {
            extra.push(format!("forked from {}", origin.session));
        }
        if let Some(archived) = &session.time.archived {
            extra.push(format!(
                "archived {}",
                time_format::format_local_time(time_format::number_to_millis(archived), now)
            ));
        }
        if let Some(share) = &session.share {
            extra.push(format!("shared at {}", sanitize_line(&share.url)));
        }
        if !extra.is_empty() {
            lines.push(extra.join(" · "));
        }
        lines
    }

    fn message_heading(
        &self,
        with: &MessageWithParts,
        columns: Option<usize>,
        now: EpochMillis,
    ) -> String {
        let when = time_format::format_local_time(
            time_format::number_to_millis(with.message.body.created()),
            now,
        );
        let mut facts = match &with.message.body {
            MessageBody::User(user) => user_heading(user),
            MessageBody::Assistant(assistant) => assistant_heading(assistant),
        };
        facts.push(when);
        if self.session.revert.as_ref().is_some_and(|revert| revert.message == with.message.id) {
            facts.push("reverted from here on".to_owned());
        }
        let text = format!("── {} ", facts.join(" · "));
        let rule =
            columns.map_or(0, |columns| columns.min(100).saturating_sub(display_width(&text)));
        apply_style(HEADING_STYLE, format!("{text}{}", "─".repeat(rule)).trim_end())
    }

    fn todo_lines(&self, columns: Option<usize>) -> Vec<String> {
        if self.todos.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![String::new(), apply_style(HEADING_STYLE, "To do")];
        for todo in &self.todos {
            let mark = match todo.status.as_str() {
                "completed" => "[x]",
                "in_progress" => "[>]",
                "cancelled" => "[-]",
                _ => "[ ]",
            };
            let text = format!("{mark} {}", sanitize_line(&todo.content));
            lines.extend(wrap(&text, columns));
        }
        lines
    }

    fn footer(&self) -> String {
        let (cost, tokens) = wire::cost_and_tokens(&self.session, self.usage);
        let token = |path: &str| {
            let value = tokens.pointer(path).and_then(serde_json::Value::as_f64);
            number_format::format_count(value.unwrap_or(0.0) as i64)
        };
        let shown = number_format::format_counted(self.messages.len(), "message");
        let mut facts = vec![
            if self.earlier { format!("newest {shown}") } else { shown },
            number_format::format_cost(cost.as_f64().unwrap_or(0.0)),
            format!(
                "{} tokens in, {} out, {} reasoning, {} cached",
                token("/input"),
                token("/output"),
                token("/reasoning"),
                token("/cache/read"),
            ),
        ];
        if let Some(summary) = &self.session.summary
            && summary.files.as_u64() != Some(0)
        {
            let files = summary.files.as_u64().and_then(|n| usize::try_from(n).ok());
            facts.push(format!(
                "+{} -{} lines in {}",
                summary.additions,
                summary.deletions,
                number_format::format_counted(files.unwrap_or(usize::MAX), "file")
            ));
        }
        facts.join(" · ")
    }
}

fn user_heading(user: &UserMessage) -> Vec<String> {
    let mut facts = vec!["user".to_owned()];
    if !user.agent.is_empty() {
        facts.push(format!("to {}", sanitize_line(&user.agent)));
    }
    facts
}

fn assistant_heading(assistant: &AssistantMessage) -> Vec<String> {
    let agent = assistant.agent.as_deref().unwrap_or(&assistant.mode);
    let mut facts = vec!["assistant".to_owned()];
    if !agent.is_empty() {
        facts.push(sanitize_line(agent));
    }
    facts.push(sanitize_line(&format!("{}/{}", assistant.provider, assistant.model)));
    if assistant.summary == Some(true) {
        facts.push("summary".to_owned());
    }
    facts
}

/// Formats the error of a message.
fn failure_lines(error: &MessageFailure, columns: Option<usize>) -> Vec<String> {
    let name = serde_json::to_value(&error.name).unwrap_or_default();
    let name = sanitize_line(name.as_str().unwrap_or("error"));
    let message = error.data.get("message").and_then(serde_json::Value::as_str);
    let text = match message {
        Some(message) if !message.is_empty() => format!("✗ {name}: {}", sanitize_block(message)),
        _ => format!("✗ {name}"),
    };
    wrap(&text, columns).into_iter().map(|line| apply_style(ERROR_STYLE, line)).collect()
}
