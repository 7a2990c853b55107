//! The body of a prompt, field by field.

use serde_json::{Map, Value};
use turnstone_core::id::{MessageId, PartId};
use turnstone_core::model::{
    AgentPart, ExtraFields, FilePart, PartBody, PartTime, SubtaskPart, TextPart,
};
use turnstone_core::permission::{PermissionRule, RuleAction};
use turnstone_core::wire::Precision;
use turnstone_store::PromptDelivery;

use super::agent_choice::RequestedAgent;
use crate::error::ApiError;
use crate::request_input::{JsonFields, quote_value};

/// What a client may put into a prompt.
const EXPECTED_PART_TYPES: &str = "{ readonly \"type\": \"text\", ... } | { readonly \"type\": \"file\", ... } | \
                     { readonly \"type\": \"agent\", ... } | { readonly \"type\": \"subtask\", ... }";

/// What a client asks.
#[derive(Clone, Debug)]
pub(crate) struct PromptInput {
    /// The id it gave its message.
    pub(crate) message: Option<MessageId>,
    /// Who is to answer.
    pub(crate) requested_agent: RequestedAgent,
    /// No answer is wanted.
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
    pub(crate) delivery: PromptDelivery,
}

/// One part of it, with the id the client gave it.
#[derive(Clone, Debug)]
pub(crate) struct PartInput {
    pub(crate) id: Option<PartId>,
    pub(crate) kind: PartInputKind,
}

/// What a part is.
#[derive(Clone, Debug)]
pub(crate) enum PartInputKind {
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
            extra: ExtraFields::new(),
        })
    }
}

impl PromptInput {
    /// A prompt of `parts` for the usual agent of the session.
    pub(crate) fn from_parts(parts: Vec<PartInput>) -> Self {
        Self {
            message: None,
            requested_agent: RequestedAgent::default(),
            no_reply: false,
            tools: None,
            format: None,
            system: None,
            parts,
            delivery: PromptDelivery::Steer,
        }
    }

    /// Reads the body of a prompt.
    pub(crate) fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let parts = fields.require_objects("parts")?;
        let parts = parts.into_iter().map(PartInput::parse).collect::<Result<_, _>>()?;
        let tools: Option<Map<String, Value>> = fields.read("tools", "object")?;
        if let Some((tool, value)) = tools.iter().flatten().find(|(_, value)| !value.is_boolean()) {
            let place = format!("\n  at [\"tools\"][{}]", Value::from(tool.as_str()));
            return Err(ApiError::invalid_payload(format!("Expected boolean, got {value}{place}")));
        }
        Ok(Self {
            message: fields.id("messageID", "msg")?,
            requested_agent: RequestedAgent {
                agent: fields.text("agent")?,
                model: read_model(&mut fields)?,
                variant: fields.text("variant")?,
            },
            no_reply: fields.flag("noReply")?,
            tools,
            format: read_format(&mut fields)?,
            system: fields.text("system")?,
            parts,
            delivery: read_delivery(&mut fields)?,
        })
    }

    /// The rules its `tools` stand for (R38).
    pub(crate) fn tool_rules(&self) -> Vec<PermissionRule> {
        let rule = |(tool, is_on): (&String, &Value)| {
            let action = if is_on.as_bool()? { RuleAction::Allow } else { RuleAction::Deny };
            Some(PermissionRule::new(tool, "*", action))
        };
        self.tools.iter().flatten().filter_map(rule).collect()
    }
}

/// Reads the wanted form of the answer: plain text, or JSON by a schema.
fn read_format(fields: &mut JsonFields) -> Result<Option<Value>, ApiError> {
    let Some(value) = fields.take("format") else { return Ok(None) };
    if !value.is_object() {
        return Err(fields.invalid_field("format", "OutputFormat | null", &value));
    }
    let invalid = |place: &str, message: &str| {
        Err(ApiError::invalid_payload(format!("{message}\n  at [\"format\"]{place}")))
    };
    match value["type"].as_str() {
        Some("text") => {}
        Some("json_schema") => match (value.get("schema"), value.get("retryCount")) {
            (None, _) => return invalid("[\"schema\"]", "Missing key"),
            (Some(Value::Object(_)), None | Some(Value::Null)) => {}
            (Some(Value::Object(_)), Some(count)) if count.is_u64() => {}
            (Some(Value::Object(_)), Some(count)) => {
                let message = format!("Expected an integer, got {}", quote_value(count));
                return invalid("[\"retryCount\"]", &message);
            }
            (Some(schema), _) => {
                let message = format!("Expected JSONSchema, got {}", quote_value(schema));
                return invalid("[\"schema\"]", &message);
            }
        },
        _ => return Err(fields.invalid_field("format", "OutputFormat", &value)),
    }
    Ok(Some(value))
}

/// `model` as an object with provider and model.
pub(crate) fn read_model(fields: &mut JsonFields) -> Result<Option<(String, String)>, ApiError> {
    let Some(mut model) = fields.object("model")? else { return Ok(None) };
    Ok(Some((model.require_text("providerID")?, model.require_text("modelID")?)))
}

/// `delivery`, which OpenCode's older routes do not know.
fn read_delivery(fields: &mut JsonFields) -> Result<PromptDelivery, ApiError> {
    match fields.text("delivery")?.as_deref() {
        None | Some("steer") => Ok(PromptDelivery::Steer),
        Some("queue") => Ok(PromptDelivery::Queue),
        Some(other) => {
            Err(fields.invalid_field("delivery", "\"steer\" | \"queue\"", &Value::from(other)))
        }
    }
}

impl PartInput {
    pub(crate) fn plain(body: PartBody) -> Self {
        Self { id: None, kind: PartInputKind::Plain(Box::new(body)) }
    }

    /// Reads one part.
    pub(crate) fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let refusal = fields.invalid_object(EXPECTED_PART_TYPES);
        let id = fields.id("id", "prt")?;
        let body = match fields.take("type").as_ref().and_then(Value::as_str) {
            Some("text") => PartBody::Text(read_text_part(&mut fields)?),
            Some("file") => {
                return Ok(Self { id, kind: PartInputKind::File(read_file_part(&mut fields)?) });
            }
            Some("agent") => PartBody::Agent(AgentPart {
                name: fields.require_text("name")?,
                source: fields.read("source", "{ value, start, end }")?,
                extra: ExtraFields::new(),
            }),
            Some("subtask") => PartBody::Subtask(read_subtask(&mut fields)?),
            _ => return Err(refusal),
        };
        Ok(Self { id, ..Self::plain(body) })
    }
}

fn read_text_part(fields: &mut JsonFields) -> Result<TextPart, ApiError> {
    let time: Option<PartTime> = fields.read("time", "{ start, end }")?;
    if let Some(PartTime { start, end, .. }) = &time
        && let Some(wrong) =
            std::iter::once(start).chain(end).find(|it| !Precision::Whole.accepts(it))
    {
        let got = Value::Number(wrong.clone());
        return Err(fields.invalid_field("time", "an integer that is not negative", &got));
    }
    Ok(TextPart {
        text: fields.require_text("text")?,
        synthetic: fields.read("synthetic", "boolean | undefined")?,
        ignored: fields.read("ignored", "boolean | undefined")?,
        time,
        metadata: fields.read("metadata", "object")?,
        extra: ExtraFields::new(),
    })
}

fn read_file_part(fields: &mut JsonFields) -> Result<FileInput, ApiError> {
    Ok(FileInput {
        mime: fields.require_text("mime")?,
        filename: fields.text("filename")?,
        url: fields.require_text("url")?,
        source: fields.read("source", "FilePartSource")?,
    })
}

fn read_subtask(fields: &mut JsonFields) -> Result<SubtaskPart, ApiError> {
    let model = read_model(fields)?;
    let model =
        model.map(|(provider, id)| serde_json::json!({ "providerID": provider, "modelID": id }));
    Ok(SubtaskPart {
        prompt: fields.require_text("prompt")?,
        description: fields.require_text("description")?,
        agent: fields.require_text("agent")?,
        model,
        command: fields.text("command")?,
        extra: ExtraFields::new(),
    })
}
