//! What a model sees of a conversation: stored messages, turned into the messages of a request.

use serde::Serialize;
use serde_json::Value;

use super::ContextMessage;
use crate::model::{
    AssistantMessage, FilePart, MessageFailureKind, Part, PartBody, ToolPart, ToolState,
};
use crate::model::{MessageBody, ReasoningPart, TextPart};

/// Placeholder for a cleared output.
pub const CLEARED_OUTPUT: &str = "[Old tool result content cleared]";
/// Placeholder for the result of a call that never ended.
pub const INTERRUPTED_RESULT: &str = "[Tool execution was interrupted]";
/// Text of a compaction request.
const COMPACTION_PROMPT: &str = "What did we do so far?";
/// Text of a task started by a command.
const SUBTASK_PROMPT: &str = "The following tool was executed by the user";
/// Text before media that a tool returned.
const ATTACHMENTS_NOTE: &str = "Attached image(s) from tool result:";

/// The model that is asked, and what is left out for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTarget {
    /// Its provider.
    pub provider: String,
    /// Its name.
    pub model: String,
    /// Tool results may hold images and documents.
    pub media_in_results: bool,
    /// No media at all: each is replaced by a line of text.
    pub without_media: bool,
    /// Tool outputs are cut to this many characters.
    pub output_limit: Option<usize>,
}

/// One message of a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "role", content = "content", rename_all = "lowercase")]
pub enum ModelMessage {
    /// The user, or text on their behalf.
    User(Vec<UserContent>),
    /// The model itself.
    Assistant(Vec<AssistantContent>),
    /// The results of the calls in the message before.
    Tool(Vec<ToolResult>),
}

/// A piece of what a person said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum UserContent {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file.
    File(ModelFile),
}

/// A file as a model gets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelFile {
    /// Its media type.
    pub mime: String,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// Where its bytes are.
    pub url: String,
}

/// A piece of what a model said.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AssistantContent {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// What the provider added; for the same model only.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// Reasoning of the same model.
    Reasoning {
        /// The text.
        text: String,
        /// What the provider added, such as signatures.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    /// A call of a tool.
    ToolCall {
        /// The provider's name of the call.
        call: String,
        /// The tool.
        tool: String,
        /// Its input.
        input: Value,
        /// What the provider added; for the same model only.
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolResult {
    /// The provider's name of the call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// What it returned.
    pub output: ToolOutput,
}

/// What a tool returned.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToolOutput {
    /// Text, and files where it returned any.
    Text {
        /// The text.
        text: String,
        /// The files.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        files: Vec<ModelFile>,
    },
    /// It failed.
    Error {
        /// In words.
        text: String,
    },
}

/// Turns stored messages, in the order a model is to read them, into the messages of a request.
///
/// Omits messages without content: messages without parts, ignored and empty texts, answers that
/// ended with an error (an aborted one counts if it said more than reasoning), and messages with
/// nothing left in them. Every call has a result. An answer is split where a step begins, so that
/// results follow their calls.
///
/// Unlike OpenCode, an empty text of a model is omitted too, except where providers need one
/// between two signed pieces of reasoning.
#[must_use]
pub fn to_model_messages(messages: &[ContextMessage], target: &ModelTarget) -> Vec<ModelMessage> {
    let mut found = Vec::new();
    for (message, parts) in messages {
        match &message.body {
            MessageBody::User(_) => {
                let content: Vec<UserContent> =
                    parts.iter().filter_map(|part| user_content(part, target)).collect();
                if !content.is_empty() {
                    found.push(ModelMessage::User(content));
                }
            }
            MessageBody::Assistant(said) if is_sent_to_model(said, parts) => {
                AnswerConverter::new(said, target).read(parts, &mut found);
            }
            MessageBody::Assistant(_) => {}
        }
    }
    found
}

/// Estimated tokens of messages, from the size of their JSON.
#[must_use]
pub fn estimate_model_tokens(messages: &[ContextMessage], target: &ModelTarget) -> u64 {
    let json = serde_json::to_string(&to_model_messages(messages, target));
    // A message that cannot be serialized cannot be sent either, so it counts as too large.
    json.map_or(u64::MAX, |json| super::estimate_tokens(&json))
}

fn user_content(part: &Part, target: &ModelTarget) -> Option<UserContent> {
    let text = |text: &str| Some(UserContent::Text { text: text.to_owned() });
    match &part.body {
        PartBody::Text(TextPart { text: said, ignored, .. }) => {
            if *ignored == Some(true) || said.is_empty() { None } else { text(said) }
        }
        PartBody::File(file) if is_inlined(&file.mime) => None,
        PartBody::File(file) if target.without_media && is_media(&file.mime) => {
            text(&super::transcript::describe_file(file))
        }
        PartBody::File(file) => Some(UserContent::File(model_file(file))),
        PartBody::Compaction(_) => text(COMPACTION_PROMPT),
        PartBody::Subtask(_) => text(SUBTASK_PROMPT),
        PartBody::Reasoning(_)
        | PartBody::Agent(_)
        | PartBody::Tool(_)
        | PartBody::StepStart(_)
        | PartBody::StepFinish(_)
        | PartBody::Snapshot(_)
        | PartBody::Patch(_)
        | PartBody::Retry(_)
        | PartBody::Opaque(_) => None,
    }
}

/// Texts and directories were read when they were attached: their content is in a text part.
fn is_inlined(mime: &str) -> bool {
    matches!(mime, "text/plain" | "application/x-directory")
}

pub(super) fn is_media(mime: &str) -> bool {
    mime.starts_with("image/") || mime == "application/pdf"
}

fn model_file(file: &FilePart) -> ModelFile {
    ModelFile { mime: file.mime.clone(), filename: file.filename.clone(), url: file.url.clone() }
}

/// False for an answer that ended with an error, unless it was aborted with something said.
fn is_sent_to_model(said: &AssistantMessage, parts: &[Part]) -> bool {
    let says = |part: &Part| !matches!(part.body, PartBody::StepStart(_) | PartBody::Reasoning(_));
    match &said.error {
        None => true,
        Some(error) => {
            error.name == MessageFailureKind::MessageAbortedError && parts.iter().any(says)
        }
    }
}

/// One answer on its way into a request.
struct AnswerConverter<'t> {
    target: &'t ModelTarget,
    is_same_model: bool,
    content: Vec<AssistantContent>,
    results: Vec<ToolResult>,
    media: Vec<ModelFile>,
}

impl<'t> AnswerConverter<'t> {
    fn new(said: &AssistantMessage, target: &'t ModelTarget) -> Self {
        let is_same_model = (&said.provider, &said.model) == (&target.provider, &target.model);
        let (content, results, media) = (Vec::new(), Vec::new(), Vec::new());
        Self { target, is_same_model, content, results, media }
    }

    fn read(mut self, parts: &[Part], found: &mut Vec<ModelMessage>) {
        for (at, part) in parts.iter().enumerate() {
            match &part.body {
                PartBody::Text(text) => self.text(text, parts, at),
                PartBody::Reasoning(reasoning) => self.reasoning(reasoning),
                PartBody::Tool(tool) => self.tool(tool),
                PartBody::StepStart(_) => self.flush(found),
                PartBody::File(_)
                | PartBody::Agent(_)
                | PartBody::StepFinish(_)
                | PartBody::Snapshot(_)
                | PartBody::Patch(_)
                | PartBody::Subtask(_)
                | PartBody::Retry(_)
                | PartBody::Compaction(_)
                | PartBody::Opaque(_) => {}
            }
        }
        self.flush(found);
        if !self.media.is_empty() {
            let note = UserContent::Text { text: ATTACHMENTS_NOTE.to_owned() };
            let files = self.media.into_iter().map(UserContent::File);
            found.push(ModelMessage::User([note].into_iter().chain(files).collect()));
        }
    }

    fn flush(&mut self, found: &mut Vec<ModelMessage>) {
        let (content, results) =
            (std::mem::take(&mut self.content), std::mem::take(&mut self.results));
        if !content.is_empty() {
            found.push(ModelMessage::Assistant(content));
        }
        if !results.is_empty() {
            found.push(ModelMessage::Tool(results));
        }
    }

    /// What a provider added means something to the same model only.
    fn metadata(&self, metadata: Option<&Value>) -> Option<Value> {
        metadata.filter(|_| self.is_same_model).cloned()
    }

    fn text(&mut self, text: &TextPart, parts: &[Part], at: usize) {
        let said = match text.text.as_str() {
            "" if self.is_same_model && is_between_signed_reasoning(parts, at) => " ",
            "" => return,
            said => said,
        };
        let metadata = self.metadata(text.metadata.as_ref());
        self.content.push(AssistantContent::Text { text: said.to_owned(), metadata });
    }

    fn reasoning(&mut self, reasoning: &ReasoningPart) {
        let text = reasoning.text.clone();
        if self.is_same_model {
            let metadata = reasoning.metadata.clone();
            self.content.push(AssistantContent::Reasoning { text, metadata });
        } else if !text.trim().is_empty() {
            self.content.push(AssistantContent::Text { text, metadata: None });
        }
    }

    fn tool(&mut self, tool: &ToolPart) {
        let (input, output) = match &tool.state {
            ToolState::Completed { input, output, time, attachments, .. } => {
                let is_cleared = time.compacted.is_some();
                let text = if is_cleared {
                    CLEARED_OUTPUT.to_owned()
                } else {
                    self.truncate_output(output)
                };
                let files = match attachments.as_deref() {
                    Some(files) if !is_cleared => self.attach(files),
                    Some(_) | None => Vec::new(),
                };
                (input, ToolOutput::Text { text, files })
            }
            ToolState::Error { input, error, metadata, .. } => {
                (input, self.failed_output(error, metadata.as_ref()))
            }
            ToolState::Pending { input, .. } | ToolState::Running { input, .. } => {
                (input, ToolOutput::Error { text: INTERRUPTED_RESULT.to_owned() })
            }
        };
        let metadata = self.metadata(tool.metadata.as_ref());
        let (call, name) = (tool.call.clone(), tool.tool.clone());
        self.results.push(ToolResult { call: call.clone(), tool: name.clone(), output });
        let input = input.clone();
        self.content.push(AssistantContent::ToolCall { call, tool: name, input, metadata });
    }

    /// The result of an interrupted call is its output so far.
    fn failed_output(&self, error: &str, metadata: Option<&Value>) -> ToolOutput {
        let field = |name: &str| metadata.and_then(|metadata| metadata.get(name));
        match (field("interrupted"), field("output")) {
            (Some(Value::Bool(true)), Some(Value::String(output))) => {
                ToolOutput::Text { text: self.truncate_output(output), files: Vec::new() }
            }
            _ => ToolOutput::Error { text: error.to_owned() },
        }
    }

    fn truncate_output(&self, output: &str) -> String {
        let length = output.chars().count();
        match self.target.output_limit {
            Some(limit) if length > limit => {
                let kept: String = output.chars().take(limit).collect();
                let gone = length - limit;
                format!("{kept}\n[Tool output truncated for compaction: omitted {gone} chars]")
            }
            Some(_) | None => output.to_owned(),
        }
    }

    /// The files that go with a result; media that a result cannot contain are sent in a separate message.
    fn attach(&mut self, attachments: &[Value]) -> Vec<ModelFile> {
        let read = |value: &Value| serde_json::from_value::<FilePart>(value.clone()).ok();
        let files = attachments.iter().filter_map(read).map(|file| model_file(&file));
        if self.target.without_media {
            return Vec::new();
        }
        let (media, others): (Vec<_>, Vec<_>) =
            files.partition(|file| is_media(&file.mime) && !self.target.media_in_results);
        self.media.extend(media);
        others
    }
}

/// True if signed reasoning comes directly before and after, ignoring steps and other marks.
fn is_between_signed_reasoning(parts: &[Part], at: usize) -> bool {
    let is_mark = |part: &&Part| !matches!(part.body, PartBody::StepFinish(_) | PartBody::Patch(_));
    let before = parts.get(..at).and_then(|parts| parts.iter().rev().find(is_mark));
    let after = parts.get(at + 1..).and_then(|parts| parts.iter().find(is_mark));
    before.is_some_and(is_signed_reasoning) && after.is_some_and(is_signed_reasoning)
}

/// True for reasoning whose provider has signed it.
fn is_signed_reasoning(part: &Part) -> bool {
    let PartBody::Reasoning(reasoning) = &part.body else {
        return false;
    };
    let providers = reasoning.metadata.as_ref().and_then(Value::as_object);
    let signs = |value: &Value| value.get("signature").is_some_and(|it| !it.is_null());
    providers.is_some_and(|providers| providers.values().any(signs))
}
