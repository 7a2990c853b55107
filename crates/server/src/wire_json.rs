//! The model in OpenCode's shapes, with what is derived for it (R21).

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use serde::{Serialize, Serializer};
use serde_json::Value;
use turnstone_core::id::SessionId;
use turnstone_core::model::Part;
use turnstone_core::wire;
use turnstone_store::{
    Context, ListedSession, MessageWithParts, PartRenderer, ReadTx, SessionFilter, SessionRow,
};

use crate::app::AppState;
use crate::error::ApiError;

/// A stored record in OpenCode's shape, as `core::wire` renders it.
///
/// Fields that a client, an importer or a newer program added are passed on, so its shape is open: the one kind of
/// JSON without a type that routes answer with.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(crate) struct StoredJson(pub(crate) Value);

impl StoredJson {
    /// A field of the record; `null` if it has none.
    pub(crate) fn field(&self, key: &str) -> Self {
        Self(self.0[key].clone())
    }

    /// A field of the record, if it has one.
    pub(crate) fn find(&self, key: &str) -> Option<Self> {
        self.0.get(key).cloned().map(Self)
    }
}

/// Something for each of some sessions, as an object with their ids as keys, in this order.
pub(crate) struct BySession<T>(pub(crate) Vec<(SessionId, T)>);

impl<T: Serialize> Serialize for BySession<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(id, value)| (id, value)))
    }
}

/// A message with its parts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MessageResponse {
    /// The message.
    pub(crate) info: StoredJson,
    /// Its parts, in order.
    pub(crate) parts: Vec<StoredJson>,
}

/// A response whose body is JSON already.
pub(crate) type JsonTextResponse = ([(HeaderName, &'static str); 1], String);

/// The response with this JSON as its body.
pub(crate) fn json_text_response(json: String) -> JsonTextResponse {
    ([(CONTENT_TYPE, "application/json")], json)
}

/// Renders a part. The process group of a call is for recovery alone, so it is left out (R32).
pub(crate) fn part_json(part: &Part) -> Value {
    let mut shown = wire::part_info(part);
    let is_group = |group: &Value| group["pgid"].is_i64() && group["boot_id"].is_string();
    if let Some(Value::Object(metadata)) = shown.pointer_mut("/state/metadata")
        && metadata.get("group").is_some_and(is_group)
    {
        metadata.shift_remove("group");
    }
    shown
}

/// Stored parts are sent verbatim unless they may hold what [`part_json`] leaves out.
pub(crate) const PART_RENDERER: PartRenderer<'static> =
    PartRenderer { is_verbatim: &|body: &str| !body.contains("\"pgid\""), render: &part_json };

/// Renders a message with its parts.
pub(crate) fn message_response(entry: &MessageWithParts) -> MessageResponse {
    let parts = entry.parts.iter().map(|part| StoredJson(part_json(part)));
    MessageResponse { info: StoredJson(wire::message_info(&entry.message)), parts: parts.collect() }
}

/// A session as clients see it: usage summed up, `revert` computed from its head.
pub(crate) fn session_json(
    app: &AppState,
    ctx: &Context,
    id: &SessionId,
) -> Result<StoredJson, ApiError> {
    let store = app.engine().store();
    let (row, is_reverted) = store.read(ctx, |r| {
        let session = r.sessions().get(id)?;
        let is_reverted = r.sessions().head(id)?.is_some();
        Ok((SessionRow { session, usage: r.sessions().usage(id)? }, is_reverted))
    })?;
    session_row_json(app, ctx, row, is_reverted)
}

/// The newest sessions that match, as a JSON list.
pub(crate) fn session_list_json(
    app: &AppState,
    ctx: &Context,
    filter: &SessionFilter,
    limit: usize,
) -> Result<String, ApiError> {
    let found = app.engine().store().read(ctx, |r| r.wire_json().list_sessions(filter, limit))?;
    let mut list = String::from("[");
    for session in found {
        if list.len() > 1 {
            list.push(',');
        }
        match session {
            ListedSession::Json(json) => list.push_str(&json),
            ListedSession::Row { row, is_reverted } => {
                let shown = session_row_json(app, ctx, *row, is_reverted)?;
                list.push_str(&shown.0.to_string());
            }
        }
    }
    list.push(']');
    Ok(list)
}

/// Sessions as clients see them in a list.
pub(crate) fn sessions_json(
    app: &AppState,
    ctx: &Context,
    read: impl FnOnce(&ReadTx<'_>) -> turnstone_store::Result<Vec<SessionRow>>,
) -> Result<Vec<StoredJson>, ApiError> {
    let (rows, reverted) =
        app.engine().store().read(ctx, |r| Ok((read(r)?, r.sessions().not_at_tip()?)))?;
    let rows = rows.into_iter().map(|row| (reverted.contains(&row.session.id), row));
    rows.map(|(is_reverted, row)| session_row_json(app, ctx, row, is_reverted)).collect()
}

/// Renders a session of a list; `revert` is computed for one that is reverted.
pub(crate) fn session_row_json(
    app: &AppState,
    ctx: &Context,
    SessionRow { mut session, usage }: SessionRow,
    is_reverted: bool,
) -> Result<StoredJson, ApiError> {
    session.revert = match is_reverted {
        true => app.engine().history().reverts().view(ctx, &session.id)?,
        false => None,
    };
    Ok(StoredJson(wire::session_info(&session, usage)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered_metadata(metadata: &Value) -> Value {
        let body = json!({ "type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "running", "input": {}, "time": { "start": 1 }, "metadata": metadata } });
        let (id, session) = ("prt_1".parse().expect("an id"), "ses_1".parse().expect("an id"));
        let message = "msg_1".parse().expect("an id");
        let body = serde_json::from_value(body).expect("a part");
        part_json(&Part { id, session, message, body })["state"]["metadata"].clone()
    }

    #[test]
    fn process_groups_are_hidden_but_other_group_metadata_stays() {
        let group = json!({ "pgid": 7, "start_time": 1, "session": 6, "session_start_time": 1, "boot_id": "b" });
        let rendered = rendered_metadata(&json!({ "a": 1, "group": group, "output": "hi" }));
        assert_eq!(rendered.to_string(), r#"{"a":1,"output":"hi"}"#);
        let theirs = json!({ "group": { "name": "admins" } });
        assert_eq!(rendered_metadata(&theirs), theirs);
        assert_eq!(rendered_metadata(&json!({ "group": "x" })), json!({ "group": "x" }));
    }
}
