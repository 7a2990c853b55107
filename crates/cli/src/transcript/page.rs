//! The page: heading, messages, to-dos, footer.

use turnstone_core::model::{Assistant, Failure, MessageBody, Session, Status, Todo, Usage, User};
use turnstone_core::time::Millis;
use turnstone_core::wire;
use turnstone_store::WithParts;

use super::part;
use crate::figure;
use crate::moment;
use crate::text::{clean_block, clean_line, width, wrap};
use crate::ui::{BAD, DIM, HEAD, NAME, WARN, paint};

/// How much to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// The head of tool output and reasoning.
    Brief,
    /// Everything.
    Full,
}

/// A session and what is to be shown of it.
pub(crate) struct Transcript {
    /// The session.
    pub(crate) session: Session,
    /// What its steps add up to.
    pub(crate) usage: Usage,
    /// What it is doing.
    pub(crate) status: Status,
    /// Its to-do list.
    pub(crate) todos: Vec<Todo>,
    /// There are messages before those shown.
    pub(crate) earlier: bool,
    /// The messages to show, oldest first.
    pub(crate) messages: Vec<WithParts>,
}

impl Transcript {
    /// The lines of the transcript, laid out for `width` columns if there is a width.
    pub(crate) fn lines(&self, width: Option<usize>, detail: Detail, now: Millis) -> Vec<String> {
        let mut lines = self.heading(now);
        for message in &self.messages {
            lines.push(String::new());
            lines.push(self.message_heading(message, width, now));
            for part in &message.parts {
                lines.extend(part::lines(&part.body, width, detail));
            }
            if let MessageBody::Assistant(assistant) = &message.message.body {
                lines.extend(assistant.error.iter().flat_map(|error| failure(error, width)));
            }
        }
        lines.extend(self.todo_lines(width));
        lines.push(String::new());
        lines.extend(wrap(&self.footer(), width).into_iter().map(|line| paint(DIM, line)));
        lines
    }

    fn heading(&self, now: Millis) -> Vec<String> {
        let session = &self.session;
        let mut lines = vec![paint(HEAD, clean_line(&session.title))];
        let mut facts = vec![
            paint(NAME, &session.id),
            format!("updated {}", moment::near(moment::millis(&session.time.updated), now)),
        ];
        if !session.directory.is_empty() {
            facts.push(clean_line(&session.directory));
        }
        lines.push(facts.join(" · "));
        let mut extra = Vec::new();
        match &self.status {
            Status::Idle => {}
            Status::Busy => extra.push(paint(WARN, "a turn is running")),
            Status::Retry { message, .. } => {
                extra.push(paint(WARN, format!("waiting to try again: {}", clean_line(message))));
            }
        }
        if let Some(parent) = &session.parent {
            extra.push(format!("started by {parent}"));
        }
        if let Some(origin) = &session.origin {
            extra.push(format!("forked from {}", origin.session));
        }
        if let Some(archived) = &session.time.archived {
            extra.push(format!("archived {}", moment::near(moment::millis(archived), now)));
        }
        if let Some(share) = &session.share {
            extra.push(format!("shared at {}", clean_line(&share.url)));
        }
        if !extra.is_empty() {
            lines.push(extra.join(" · "));
        }
        lines
    }

    fn message_heading(&self, with: &WithParts, columns: Option<usize>, now: Millis) -> String {
        let when = moment::near(moment::millis(with.message.body.created()), now);
        let mut facts = match &with.message.body {
            MessageBody::User(user) => said_by(user),
            MessageBody::Assistant(assistant) => answered_by(assistant),
        };
        facts.push(when);
        if self.session.revert.as_ref().is_some_and(|revert| revert.message == with.message.id) {
            facts.push("reverted from here on".to_owned());
        }
        let text = format!("── {} ", facts.join(" · "));
        let rule = columns.map_or(0, |columns| columns.min(100).saturating_sub(width(&text)));
        paint(HEAD, format!("{text}{}", "─".repeat(rule)).trim_end())
    }

    fn todo_lines(&self, columns: Option<usize>) -> Vec<String> {
        if self.todos.is_empty() {
            return Vec::new();
        }
        let mut lines = vec![String::new(), paint(HEAD, "To do")];
        for todo in &self.todos {
            let mark = match todo.status.as_str() {
                "completed" => "[x]",
                "in_progress" => "[>]",
                "cancelled" => "[-]",
                _ => "[ ]",
            };
            let text = format!("{mark} {}", clean_line(&todo.content));
            lines.extend(wrap(&text, columns));
        }
        lines
    }

    fn footer(&self) -> String {
        let (cost, tokens) = wire::cost_and_tokens(&self.session, self.usage);
        let token = |path: &str| {
            let value = tokens.pointer(path).and_then(serde_json::Value::as_f64);
            figure::count(value.unwrap_or(0.0) as i64)
        };
        let shown = figure::counted(self.messages.len(), "message");
        let mut facts = vec![
            if self.earlier { format!("newest {shown}") } else { shown },
            figure::cost(cost.as_f64().unwrap_or(0.0)),
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
                figure::counted(files.unwrap_or(usize::MAX), "file")
            ));
        }
        facts.join(" · ")
    }
}

fn said_by(user: &User) -> Vec<String> {
    let mut facts = vec!["user".to_owned()];
    if !user.agent.is_empty() {
        facts.push(format!("to {}", clean_line(&user.agent)));
    }
    facts
}

fn answered_by(assistant: &Assistant) -> Vec<String> {
    let agent = assistant.agent.as_deref().unwrap_or(&assistant.mode);
    let mut facts = vec!["assistant".to_owned()];
    if !agent.is_empty() {
        facts.push(clean_line(agent));
    }
    facts.push(clean_line(&format!("{}/{}", assistant.provider, assistant.model)));
    if assistant.summary == Some(true) {
        facts.push("summary".to_owned());
    }
    facts
}

/// A failed message, in red.
fn failure(error: &Failure, columns: Option<usize>) -> Vec<String> {
    let name = serde_json::to_value(&error.name).unwrap_or_default();
    let name = clean_line(name.as_str().unwrap_or("error"));
    let message = error.data.get("message").and_then(serde_json::Value::as_str);
    let text = match message {
        Some(message) if !message.is_empty() => format!("✗ {name}: {}", clean_block(message)),
        _ => format!("✗ {name}"),
    };
    wrap(&text, columns).into_iter().map(|line| paint(BAD, line)).collect()
}
