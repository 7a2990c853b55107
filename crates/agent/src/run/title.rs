//! The title of a new session, written by a small model while the first answer is written.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Map;
use turnstone_core::context::{ContextMessage, ModelMessage, UserContent};
use turnstone_core::model::{MessageBody, Part, PartBody};
use turnstone_core::session_naming::is_default_title;
use turnstone_engine::{Result, SessionPatch};

use super::deadline::WaitDeadline;
use super::settings::RunModel;
use super::turn_shared::TurnShared;
use crate::model::{ModelEvent, ModelRequest, ToolChoice};

/// The agent that writes titles.
const TITLE_AGENT: &str = "title";
const DEFAULT_PROMPT: &str = "\
You write titles of conversations. Answer with one line of at most 50 characters that says what the person wants, in \
their language, without quotes and without a full stop. Do not answer the message itself.";
const MAX_TITLE_CHARACTERS: usize = 100;
const MAX_TITLE_TOKENS: u64 = 1_000;
/// The most characters of the prompt that the model reads.
const MAX_PROMPT_CHARACTERS: usize = 8_000;
/// How long a title may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Starts to write the title, if the session has none and this is its first prompt. A title that cannot be
/// written is no failure: the session keeps its default one.
pub(crate) fn start(shared: &Arc<TurnShared>, seen: &[ContextMessage], model: &RunModel) {
    if shared.parent.is_some() || !has_default_title(shared).unwrap_or(false) {
        return;
    }
    let prompts: Vec<&ContextMessage> = seen.iter().filter(is_prompt).collect();
    let [(_, parts)] = prompts.as_slice() else { return };
    let text: String = prompt_text(parts).chars().take(MAX_PROMPT_CHARACTERS).collect();
    if text.trim().is_empty() {
        return;
    }
    let settings = &shared.runner.settings;
    let small = settings.small_model(&shared.directory, &model.name);
    let prompt = settings.agent(&shared.directory, TITLE_AGENT).ok().and_then(|it| it.prompt);
    let writer = TitleWriter {
        shared: shared.clone(),
        model: small.unwrap_or_else(|| model.clone()),
        prompt: prompt.unwrap_or_else(|| DEFAULT_PROMPT.to_owned()),
        text,
    };
    let thread = std::thread::Builder::new().name("title".to_owned());
    let guard = shared.runner.count_title();
    let write = move || {
        writer.write();
        drop(guard);
    };
    drop(thread.spawn(write));
}

struct TitleWriter {
    shared: Arc<TurnShared>,
    model: RunModel,
    prompt: String,
    text: String,
}

impl TitleWriter {
    fn write(&self) {
        let Some(title) = self.ask() else { return };
        // A person may have named the session meanwhile.
        if has_default_title(&self.shared).unwrap_or(false) {
            let patch = SessionPatch { title: Some(title), ..SessionPatch::default() };
            let edits = self.shared.engine().history().edits();
            drop(edits.patch_session(&self.shared.context(), &self.shared.turn.session, patch));
        }
    }

    fn ask(&self) -> Option<String> {
        let (sender, events) = channel();
        let sink = Box::new(move |event| drop(sender.send(event)));
        let _call = self.model.provider.start(self.request(), sink);
        let (mut text, until) = (String::new(), WaitDeadline::after(TIMEOUT));
        loop {
            match events.recv_timeout(until.remaining()) {
                Ok(Ok(ModelEvent::TextDelta { text: more, .. })) => text.push_str(&more),
                Ok(Ok(ModelEvent::Finished { .. })) => return clean_title(&text),
                Ok(Ok(_)) => {}
                Ok(Err(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return None;
                }
            }
        }
    }

    fn request(&self) -> ModelRequest {
        let text = format!("Write the title of a conversation that begins with:\n\n{}", self.text);
        ModelRequest {
            model: self.model.wire_name.clone(),
            system: vec![self.prompt.clone()],
            messages: vec![ModelMessage::User(vec![UserContent::Text { text }])],
            tools: Vec::new(),
            tool_choice: ToolChoice::None,
            max_output_tokens: Some(MAX_TITLE_TOKENS),
            temperature: self.model.temperature,
            top_p: self.model.top_p,
            options: Map::clone(&self.model.options),
            session: self.shared.turn.session.to_string(),
            parent: None,
        }
    }
}

fn has_default_title(shared: &TurnShared) -> Result<bool> {
    let session = &shared.turn.session;
    let row = shared.engine().store().read(&shared.context(), |r| r.sessions().get(session))?;
    Ok(is_default_title(&row.title))
}

fn is_prompt((message, parts): &&ContextMessage) -> bool {
    let is_synthetic =
        |part: &Part| matches!(&part.body, PartBody::Text(text) if text.synthetic == Some(true));
    matches!(message.body, MessageBody::User(_)) && !parts.iter().all(is_synthetic)
}

fn prompt_text(parts: &[Part]) -> String {
    let text = |part: &Part| {
        let PartBody::Text(text) = &part.body else { return None };
        (text.synthetic != Some(true)).then(|| text.text.clone())
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// The first line that is no reasoning, shortened.
fn clean_title(text: &str) -> Option<String> {
    let text = match (text.find("<think>"), text.find("</think>")) {
        (Some(from), Some(to)) if from < to => {
            text.get(to + "</think>".len()..).unwrap_or_default()
        }
        _ => text,
    };
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let line = line.trim_matches(|c| c == '"' || c == '\'');
    if line.chars().count() <= MAX_TITLE_CHARACTERS {
        return Some(line.to_owned());
    }
    let short: String = line.chars().take(MAX_TITLE_CHARACTERS - 3).collect();
    Some(format!("{short}..."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_the_first_line_without_reasoning() {
        assert_eq!(
            clean_title("<think>hm\n</think>\n\n \"Fix it\" \nmore"),
            Some("Fix it".to_owned())
        );
        assert_eq!(clean_title(" \n"), None);
        let long = clean_title(&"x".repeat(200)).expect("a title");
        assert_eq!((long.len(), long.ends_with("...")), (MAX_TITLE_CHARACTERS, true));
    }
}
