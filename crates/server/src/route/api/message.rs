//! Messages in the newer shape: listed by page, read, prompted.

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use serde_json::{Value, json};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_store::MessageWithParts;

use super::location::DataResponse;
use super::message_v2::{MessageV2, PromptAgentV2, PromptFileV2};
use super::page_request::{PageRequest, PageResponse};
use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::{PromptInput, prompt_in_background};
use crate::request_context::RetryAwareContext;
use crate::request_input::{JsonBody, JsonFields, QueryParams, parse_path_id};
use crate::request_scope::SessionRequest;
use crate::wire_json::{StoredJson, message_response};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/session/{session}/message", get(list))
        .route("/api/session/{session}/message/{message}", get(read))
        .route("/api/session/{session}/context", get(context))
        .route("/api/session/{session}/prompt", post(prompt))
}

/// `GET /api/session/{sessionID}/message`
async fn list(
    request: SessionRequest,
    query: QueryParams,
) -> Result<Json<PageResponse<MessageV2>>, ApiError> {
    let page = PageRequest::parse(&query)?;
    request
        .run(move |app, ctx, id| {
            let rows = app.engine().store().read(ctx, |r| r.pages().messages(id, page.window()))?;
            let page = page.respond(rows, |entry| entry.message.id.as_str());
            Ok(Json(page.try_map(|entry| Ok(MessageV2::new(&entry)))?))
        })
        .await
}

/// `GET /api/session/{sessionID}/message/{messageID}`
async fn read(
    request: SessionRequest,
    Path((_, message)): Path<(String, String)>,
) -> Result<Json<DataResponse<MessageV2>>, ApiError> {
    let message: MessageId = parse_path_id("messageID", "msg_", &message)?;
    request
        .run(move |app, ctx, id| {
            let found = app.engine().store().read(ctx, |r| r.messages().get(id, &message))?;
            Ok(Json(DataResponse { data: MessageV2::new(&found) }))
        })
        .await
}

/// `GET /api/session/{sessionID}/context`: what a model would see, oldest first.
async fn context(request: SessionRequest) -> Result<Json<DataResponse<Vec<MessageV2>>>, ApiError> {
    request
        .run(|app, ctx, id| {
            let entries = app.engine().turns().contexts().model_context(ctx, id)?.into_iter();
            let message = |(message, parts)| MessageV2::new(&MessageWithParts { message, parts });
            Ok(Json(DataResponse { data: entries.map(message).collect() }))
        })
        .await
}

/// A prompt that was stored.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AdmittedPrompt {
    admitted_seq: i64,
    id: MessageId,
    #[serde(rename = "sessionID")]
    session: SessionId,
    prompt: PromptEcho,
    delivery: String,
    time_created: StoredJson,
}

/// A prompt as the client sent it.
#[derive(Serialize)]
struct PromptEcho {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<PromptFileV2>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Vec<PromptAgentV2>>,
}

/// `POST /api/session/{sessionID}/prompt`
async fn prompt(
    request: SessionRequest<RetryAwareContext>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<DataResponse<AdmittedPrompt>>, ApiError> {
    let given: Option<MessageId> = fields.id("id", "msg_")?;
    let delivery = fields.text("delivery")?.unwrap_or_else(|| "steer".to_owned());
    fields.flag("resume")?;
    let Some(mut prompt) = fields.object("prompt")? else {
        return Err(ApiError::invalid_payload("Missing key\n  at [\"prompt\"]"));
    };
    let SessionRequest { app, caller, id } = request;
    let ctx = caller.0.clone();
    let (asked, session) = (ctx.clone(), id.clone());
    let message = match given {
        Some(message) => message,
        None => {
            app.run_blocking(move |app| {
                Ok(app.engine().turns().new_message_id(&asked, &session)?)
            })
            .await?
        }
    };
    let (parts, echo) = prompt_parts(&mut prompt)?;
    let body = json!({ "messageID": message.as_str(), "parts": parts, "delivery": delivery });
    let input = PromptInput::parse(JsonFields::from_root(body)?)?;
    let message = prompt_in_background(&app, &caller, &id, input).await?;
    app.run_blocking(move |app| {
        let (seq, found) = app
            .engine()
            .store()
            .read(&ctx, |r| Ok((r.sessions().seq(&id)?, r.messages().get(&id, &message)?)))?;
        let data = AdmittedPrompt {
            admitted_seq: seq.0,
            id: message,
            session: id,
            prompt: echo,
            delivery,
            time_created: message_response(&found).info.field("time").field("created"),
        };
        Ok(Json(DataResponse { data }))
    })
    .await
}

/// The parts of a prompt in the older shape, and the prompt for the response.
fn prompt_parts(prompt: &mut JsonFields) -> Result<(Vec<Value>, PromptEcho), ApiError> {
    let text = prompt.require_text("text")?;
    let mut parts = vec![json!({ "type": "text", "text": text })];
    let mut echo = PromptEcho { text, files: None, agents: None };
    if let Some(list) = prompt.list("files")? {
        let files = echo.files.get_or_insert_default();
        for file in list {
            let mut file = JsonFields::from_root(file)?;
            let uri = Value::from(file.require_text("uri")?);
            let name = file.text("name")?.map(Value::from);
            file.text("description")?;
            let mime = Value::from("text/plain");
            let mut part = json!({ "type": "file", "url": uri, "mime": mime });
            if let Some(name) = &name {
                part["filename"] = name.clone();
            }
            parts.push(part);
            let (uri, mime) = (StoredJson(uri), StoredJson(mime));
            files.push(PromptFileV2 { uri, mime, name: name.map(StoredJson) });
        }
    }
    if let Some(list) = prompt.list("agents")? {
        let agents = echo.agents.get_or_insert_default();
        for agent in list {
            let name = Value::from(JsonFields::from_root(agent)?.require_text("name")?);
            parts.push(json!({ "type": "agent", "name": name }));
            agents.push(PromptAgentV2 { name: StoredJson(name) });
        }
    }
    Ok((parts, echo))
}
