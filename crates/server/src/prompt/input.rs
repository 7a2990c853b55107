//! The body of a prompt, field by field.

use serde_json::{Map, Value};
use turnstone_core::id::{MessageId, PartId};
use turnstone_core::model::{AgentPart, Extra, FilePart, PartBody, Span, Subtask, Text};
use turnstone_core::permission::{Action, Rule};
use turnstone_core::wire::Precision;
use turnstone_store::Delivery;

use super::choose::Wanted;
use crate::error::ApiError;
use crate::input::Fields;

/// What a client may put into a prompt.
const KINDS: &str = "{ readonly \"type\": \"text\", ... } | { readonly \"type\": \"file\", ... } | \
                     { readonly \"type\": \"agent\", ... } | { readonly \"type\": \"subtask\", ... }";

/// What a client asks.
#[derive(Clone, Debug)]
pub(crate) struct PromptInput {
    /// The id it gave its message.
    pub(crate) message: Option<MessageId>,
    /// Who is to answer.
    pub(crate) wanted: Wanted,
    /// Nobody is to answer.
    pub(crate) no_reply: bool,
    /// Tools switched on or off.
    pub(crate) tools: Option<Map<String, Value>>,
    /// The wanted form of the answer.
    pub(crate) format: Option<Value>,
    /// Replaces the system prompt.
    pub(crate) system: Option<String>,
    /// What it says.
    pub(crate) parts: Vec<PartInput>,
    /// When it is taken up if a turn runs.
    pub(crate) delivery: Delivery,
}

/// One part of it, with the id the client gave it.
#[derive(Clone, Debug)]
pub(crate) struct PartInput {
    pub(crate) id: Option<PartId>,
    pub(crate) kind: PartKind,
}

/// What a part is.
#[derive(Clone, Debug)]
pub(crate) enum PartKind {
    /// A file, which is looked into.
    File(FileInput),
    /// Anything else is stored as it is.
    Plain(Box<PartBody>),
}

/// A file a prompt names or carries.
#[derive(Clone, Debug)]
pub(crate) struct FileInput {
    pub(crate) mime: String,
    pub(crate) filename: Option<String>,
    pub(crate) url: String,
    pub(crate) source: Option<Value>,
}

impl FileInput {
    /// The part as it is stored.
    pub(crate) fn body(&self) -> PartBody {
        PartBody::File(FilePart {
            mime: self.mime.clone(),
            filename: self.filename.clone(),
            url: self.url.clone(),
            source: self.source.clone(),
            extra: Extra::new(),
        })
    }
}

impl PromptInput {
    /// A prompt that says `parts` and asks whoever answers in this session.
    pub(crate) fn of(parts: Vec<PartInput>) -> Self {
        Self {
            message: None,
            wanted: Wanted::default(),
            no_reply: false,
            tools: None,
            format: None,
            system: None,
            parts,
            delivery: Delivery::Steer,
        }
    }

    /// Reads the body of a prompt.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let parts = fields.need_objects("parts")?;
        let parts = parts.into_iter().map(PartInput::read).collect::<Result<_, _>>()?;
        let tools: Option<Map<String, Value>> = fields.read("tools", "object")?;
        if let Some((tool, value)) = tools.iter().flatten().find(|(_, value)| !value.is_boolean()) {
            let place = format!("\n  at [\"tools\"][{}]", Value::from(tool.as_str()));
            return Err(ApiError::payload(format!("Expected boolean, got {value}{place}")));
        }
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            wanted: Wanted {
                agent: fields.text("agent")?,
                model: model(&mut fields)?,
                variant: fields.text("variant")?,
            },
            no_reply: fields.flag("noReply")?,
            tools,
            format: fields.read("format", "OutputFormat")?,
            system: fields.text("system")?,
            parts,
            delivery: delivery(&mut fields)?,
        })
    }

    /// The rules its `tools` stand for (R38).
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let rule = |(tool, is_on): (&String, &Value)| {
            let action = if is_on.as_bool()? { Action::Allow } else { Action::Deny };
            Some(Rule::new(tool, "*", action))
        };
        self.tools.iter().flatten().filter_map(rule).collect()
    }
}

/// `model` as an object with provider and model.
pub(crate) fn model(fields: &mut Fields) -> Result<Option<(String, String)>, ApiError> {
    let Some(mut model) = fields.object("model")? else { return Ok(None) };
    Ok(Some((model.need_text("providerID")?, model.need_text("modelID")?)))
}

/// `delivery`, which OpenCode's older routes do not know.
fn delivery(fields: &mut Fields) -> Result<Delivery, ApiError> {
    match fields.text("delivery")?.as_deref() {
        None | Some("steer") => Ok(Delivery::Steer),
        Some("queue") => Ok(Delivery::Queue),
        Some(other) => Err(fields.refuse("delivery", "\"steer\" | \"queue\"", &Value::from(other))),
    }
}

impl PartInput {
    pub(crate) fn plain(body: PartBody) -> Self {
        Self { id: None, kind: PartKind::Plain(Box::new(body)) }
    }

    /// Reads one part.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let refusal = fields.refuse_whole(KINDS);
        let id = fields.id("id", "prt")?;
        let body = match fields.take("type").as_ref().and_then(Value::as_str) {
            Some("text") => PartBody::Text(text(&mut fields)?),
            Some("file") => {
                return Ok(Self { id, kind: PartKind::File(file(&mut fields)?) });
            }
            Some("agent") => PartBody::Agent(AgentPart {
                name: fields.need_text("name")?,
                source: fields.read("source", "{ value, start, end }")?,
                extra: Extra::new(),
            }),
            Some("subtask") => PartBody::Subtask(subtask(&mut fields)?),
            _ => return Err(refusal),
        };
        Ok(Self { id, ..Self::plain(body) })
    }
}

fn text(fields: &mut Fields) -> Result<Text, ApiError> {
    let time: Option<Span> = fields.read("time", "{ start, end }")?;
    if let Some(Span { start, end, .. }) = &time
        && let Some(wrong) =
            std::iter::once(start).chain(end).find(|it| !Precision::Whole.accepts(it))
    {
        let got = Value::Number(wrong.clone());
        return Err(fields.refuse("time", "an integer that is not negative", &got));
    }
    Ok(Text {
        text: fields.need_text("text")?,
        synthetic: fields.read("synthetic", "boolean | undefined")?,
        ignored: fields.read("ignored", "boolean | undefined")?,
        time,
        metadata: fields.read("metadata", "object")?,
        extra: Extra::new(),
    })
}

fn file(fields: &mut Fields) -> Result<FileInput, ApiError> {
    Ok(FileInput {
        mime: fields.need_text("mime")?,
        filename: fields.text("filename")?,
        url: fields.need_text("url")?,
        source: fields.read("source", "FilePartSource")?,
    })
}

fn subtask(fields: &mut Fields) -> Result<Subtask, ApiError> {
    let model = model(fields)?;
    let model =
        model.map(|(provider, id)| serde_json::json!({ "providerID": provider, "modelID": id }));
    Ok(Subtask {
        prompt: fields.need_text("prompt")?,
        description: fields.need_text("description")?,
        agent: fields.need_text("agent")?,
        model,
        command: fields.text("command")?,
        extra: Extra::new(),
    })
}
