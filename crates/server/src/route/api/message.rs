//! Messages in the newer shape: one content of text, thought and tools for each.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Map, Value, json};
use turnstone_core::id::MessageId;
use turnstone_store::MessageWithParts;

use super::super::session::session_id;
use super::page_request::PageRequest;
use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::PromptInput;
use crate::request_context::{RequestContext, RetryAwareContext};
use crate::request_input::{JsonBody, JsonFields, QueryParams, parse_path_id};
use crate::wire_json::message_json;

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/api/session/{session}/message", get(list))
        .route("/api/session/{session}/message/{message}", get(read))
        .route("/api/session/{session}/context", get(context))
        .route("/api/session/{session}/prompt", post(prompt))
}

fn message_v2_json(entry: &MessageWithParts) -> Value {
    let older = message_json(entry);
    let (info, parts) = (&older["info"], older["parts"].as_array().cloned().unwrap_or_default());
    if info["role"] == "user" {
        user_v2_json(info, &parts)
    } else {
        assistant_v2_json(info, &parts)
    }
}

fn user_v2_json(info: &Value, parts: &[Value]) -> Value {
    let of = |kind: &str| parts.iter().filter(|part| part["type"] == kind).collect::<Vec<_>>();
    let said = of("text").into_iter().filter(|part| part["synthetic"] != true);
    let text: Vec<&str> = said.filter_map(|part| part["text"].as_str()).collect();
    let mut shown = json!({ "id": info["id"], "time": { "created": info["time"]["created"] },
        "text": text.join("\n"), "type": "user" });
    let file = |part: &&Value| {
        let mut file = json!({ "uri": part["url"], "mime": part["mime"] });
        if let Some(name) = part.get("filename") {
            file["name"] = name.clone();
        }
        file
    };
    let files: Vec<Value> = of("file").iter().map(file).collect();
    if !files.is_empty() {
        shown["files"] = Value::Array(files);
    }
    let agents: Vec<Value> =
        of("agent").iter().map(|part| json!({ "name": part["name"] })).collect();
    if !agents.is_empty() {
        shown["agents"] = Value::Array(agents);
    }
    shown
}

fn assistant_v2_json(info: &Value, parts: &[Value]) -> Value {
    let mut model = json!({ "id": info["modelID"], "providerID": info["providerID"] });
    if let Some(variant) = info.get("variant") {
        model["variant"] = variant.clone();
    }
    let content: Vec<Value> = parts.iter().filter_map(|part| content_v2_json(info, part)).collect();
    let mut shown = json!({ "id": info["id"], "time": info["time"], "type": "assistant",
        "agent": info["agent"], "model": model, "content": content });
    if let Some(snapshot) = snapshot_v2_json(parts) {
        shown["snapshot"] = snapshot;
    }
    for key in ["finish", "cost"] {
        if let Some(value) = info.get(key) {
            shown[key] = value.clone();
        }
    }
    if let Some(mut tokens) = info.get("tokens").cloned() {
        tokens.as_object_mut().map(|map| map.remove("total"));
        shown["tokens"] = tokens;
    }
    if let Some(error) = info.get("error") {
        let message = error["data"]["message"].as_str().or(error["name"].as_str());
        shown["error"] = json!({ "type": "unknown", "message": message.unwrap_or_default() });
    }
    shown
}

/// Where the files stood before and after the steps of a message.
fn snapshot_v2_json(parts: &[Value]) -> Option<Value> {
    let of = |kind: &str| {
        let mut found = parts.iter().filter(move |part| part["type"] == kind);
        found.next_back().and_then(|part| part.get("snapshot")).cloned()
    };
    let (start, end) = (of("step-start"), of("step-finish"));
    let patches = parts.iter().filter(|part| part["type"] == "patch");
    let files: Vec<Value> =
        patches.filter_map(|part| part["files"].as_array().cloned()).flatten().collect();
    if start.is_none() && end.is_none() && files.is_empty() {
        return None;
    }
    let mut map = Map::new();
    map.extend(start.map(|tree| ("start".to_owned(), tree)));
    map.extend(end.map(|tree| ("end".to_owned(), tree)));
    map.insert("files".to_owned(), Value::Array(files));
    Some(Value::Object(map))
}

fn content_v2_json(info: &Value, part: &Value) -> Option<Value> {
    match part["type"].as_str()? {
        kind @ ("text" | "reasoning") => {
            Some(json!({ "type": kind, "id": part["id"], "text": part["text"] }))
        }
        "tool" => Some(tool_v2_json(info, part)),
        _ => None,
    }
}

fn tool_v2_json(info: &Value, part: &Value) -> Value {
    let state = &part["state"];
    let table = |value: &Value| if value.is_object() { value.clone() } else { json!({}) };
    let status = state["status"].as_str().unwrap_or("pending");
    let mut shown = match status {
        "pending" => json!({ "input": state["raw"].as_str().unwrap_or_default() }),
        _ => {
            json!({ "input": table(&state["input"]), "structured": table(&state["metadata"]), "content": [] })
        }
    };
    shown["status"] = Value::from(status);
    if let Some(output) = state["output"].as_str() {
        shown["content"] = json!([{ "type": "text", "text": output }]);
    }
    if status == "error" {
        shown["error"] =
            json!({ "type": "unknown", "message": state["error"].as_str().unwrap_or_default() });
    }
    let began = state["time"].get("start");
    let mut time = json!({ "created": began.unwrap_or(&info["time"]["created"]) });
    for (ours, theirs) in [("start", "ran"), ("end", "completed"), ("compacted", "pruned")] {
        if let Some(at) = state["time"].get(ours) {
            time[theirs] = at.clone();
        }
    }
    json!({ "type": "tool", "id": part["callID"], "name": part["tool"], "state": shown, "time": time })
}

/// `GET /api/session/{sessionID}/message`
async fn list(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
    query: QueryParams,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let page = PageRequest::parse(&query)?;
    app.run_blocking(move |app| {
        let mut all =
            app.engine().store().read(&ctx, |r| r.messages().list(&id, None, usize::MAX))?.items;
        all.reverse();
        let (items, cursor) = page.slice_page(all, |entry| entry.message.id.as_str());
        let data: Vec<Value> = items.iter().map(message_v2_json).collect();
        Ok(Json(json!({ "data": data, "cursor": cursor })))
    })
    .await
}

/// `GET /api/session/{sessionID}/message/{messageID}`
async fn read(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path((session, message)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let message: MessageId = parse_path_id("messageID", "msg_", &message)?;
    app.run_blocking(move |app| {
        let found = app.engine().store().read(&ctx, |r| r.messages().get(&id, &message))?;
        Ok(Json(json!({ "data": message_v2_json(&found) })))
    })
    .await
}

/// `GET /api/session/{sessionID}/context`: what a model would see, oldest first.
async fn context(
    State(app): State<AppState>,
    RequestContext(ctx): RequestContext,
    Path(session): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    app.run_blocking(move |app| {
        let entries = app.engine().turns().contexts().model_context(&ctx, &id)?;
        let data = entries
            .into_iter()
            .map(|entry| message_v2_json(&MessageWithParts { message: entry.0, parts: entry.1 }));
        Ok(Json(json!({ "data": data.collect::<Vec<Value>>() })))
    })
    .await
}

/// `POST /api/session/{sessionID}/prompt`
async fn prompt(
    State(app): State<AppState>,
    repeat: RetryAwareContext,
    Path(session): Path<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = session_id(&session)?;
    let given: Option<MessageId> = fields.id("id", "msg_")?;
    let delivery = fields.text("delivery")?.unwrap_or_else(|| "steer".to_owned());
    fields.flag("resume")?;
    let Some(mut prompt) = fields.object("prompt")? else {
        return Err(ApiError::invalid_payload("Missing key\n  at [\"prompt\"]"));
    };
    let ctx = repeat.0.clone();
    let (asked, ident) = (ctx.clone(), id.clone());
    let message = match given {
        Some(message) => message,
        None => {
            app.run_blocking(move |app| Ok(app.engine().turns().new_message_id(&asked, &ident)?))
                .await?
        }
    };
    let (parts, said) = prompt_parts(&mut prompt)?;
    let body = json!({ "messageID": message.as_str(), "parts": parts, "delivery": delivery });
    let input = PromptInput::parse(JsonFields::from_root(body)?)?;
    let message = app.prompt_in_background(&repeat, &id, input).await?;
    app.run_blocking(move |app| {
        let (seq, found) = app.engine().store().read(&ctx, |r| {
            Ok((r.sessions().seq(&id)?, r.messages().get(&id, &message)?))
        })?;
        let made = message_json(&found)["info"]["time"]["created"].clone();
        Ok(Json(json!({ "data": { "admittedSeq": seq.0, "id": message.as_str(),
            "sessionID": id.as_str(), "prompt": said, "delivery": delivery, "timeCreated": made } })))
    })
    .await
}

/// The parts of a prompt in the older shape, and the prompt as it is said back.
fn prompt_parts(prompt: &mut JsonFields) -> Result<(Vec<Value>, Value), ApiError> {
    let text = prompt.require_text("text")?;
    let mut parts = vec![json!({ "type": "text", "text": text })];
    let mut said = json!({ "text": text });
    if let Some(list) = prompt.list("files")? {
        let mut files = Vec::new();
        for file in list {
            let mut file = JsonFields::from_root(file)?;
            let uri = file.require_text("uri")?;
            let name = file.text("name")?;
            file.text("description")?;
            let mime = "text/plain";
            let mut part = json!({ "type": "file", "url": uri, "mime": mime });
            let mut told = json!({ "uri": uri, "mime": mime });
            if let Some(name) = name {
                part["filename"] = Value::from(name.as_str());
                told["name"] = Value::from(name);
            }
            parts.push(part);
            files.push(told);
        }
        said["files"] = Value::Array(files);
    }
    if let Some(list) = prompt.list("agents")? {
        let mut agents = Vec::new();
        for agent in list {
            let mut agent = JsonFields::from_root(agent)?;
            let name = agent.require_text("name")?;
            parts.push(json!({ "type": "agent", "name": name }));
            agents.push(json!({ "name": name }));
        }
        said["agents"] = Value::Array(agents);
    }
    Ok((parts, said))
}
