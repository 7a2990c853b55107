//! The model in OpenCode's shapes, with what is derived for it (R21).

use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::model::Part;
use turnstone_core::wire;
use turnstone_store::{
    Context, MessageWithParts, PartRenderer, ReadTx, SessionFilter, SessionJson, SessionRow,
};

use crate::app::AppState;
use crate::error::ApiError;

/// An answer whose body is JSON already.
pub(crate) type JsonTextResponse = ([(HeaderName, &'static str); 1], String);

/// The answer with this JSON.
pub(crate) fn json_text_response(json: String) -> JsonTextResponse {
    ([(CONTENT_TYPE, "application/json")], json)
}

/// A part; which processes of this machine a call has is for recovery to know, and nobody else (R32).
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

/// How stored part_jsons are shown: as they are, unless they may tell what [`part_json`] leaves out.
pub(crate) const PART_RENDERER: PartRenderer<'static> =
    PartRenderer { is_verbatim: &|body: &str| !body.contains("\"pgid\""), render: &part_json };

/// A message with its parts.
pub(crate) fn message_json(entry: &MessageWithParts) -> Value {
    let parts: Vec<Value> = entry.parts.iter().map(part_json).collect();
    json!({ "info": wire::message_info(&entry.message), "parts": parts })
}

impl AppState {
    /// A session as clients see it: usage summed up, `revert` computed from its head.
    pub(crate) fn session_json(&self, ctx: &Context, id: &SessionId) -> Result<Value, ApiError> {
        let store = self.engine().store();
        let (mut session, usage, is_back) = store.read(ctx, |r| {
            let session = r.sessions().get(id)?;
            let is_back = r.sessions().head(id)?.is_some();
            Ok((session, r.sessions().usage(id)?, is_back))
        })?;
        if is_back {
            session.revert = self.engine().history().reverts().view(ctx, id)?;
        }
        Ok(wire::session_info(&session, usage))
    }

    /// The newest sessions that match, as a JSON list.
    pub(crate) fn session_list_json(
        &self,
        ctx: &Context,
        filter: &SessionFilter,
        limit: usize,
    ) -> Result<String, ApiError> {
        let found =
            self.engine().store().read(ctx, |r| r.wire_json().list_sessions(filter, limit))?;
        let mut list = String::from("[");
        for session in found {
            if list.len() > 1 {
                list.push(',');
            }
            match session {
                SessionJson::Json(json) => list.push_str(&json),
                SessionJson::Row(row) => {
                    let SessionRow { mut session, usage } = *row;
                    if let Some(revert) =
                        self.engine().history().reverts().view(ctx, &session.id)?
                    {
                        session.revert = Some(revert);
                    }
                    list.push_str(&wire::session_info(&session, usage).to_string());
                }
            }
        }
        list.push(']');
        Ok(list)
    }

    /// Sessions as clients see them in a list.
    pub(crate) fn sessions_json(
        &self,
        ctx: &Context,
        read: impl FnOnce(&ReadTx<'_>) -> turnstone_store::Result<Vec<SessionRow>>,
    ) -> Result<Vec<Value>, ApiError> {
        let (rows, back) =
            self.engine().store().read(ctx, |r| Ok((read(r)?, r.sessions().not_at_tip()?)))?;
        let mut shown = Vec::with_capacity(rows.len());
        for SessionRow { mut session, usage } in rows {
            if back.contains(&session.id) {
                session.revert = self.engine().history().reverts().view(ctx, &session.id)?;
            }
            shown.push(wire::session_info(&session, usage));
        }
        Ok(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(metadata: &Value) -> Value {
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
        let told = shown(&json!({ "a": 1, "group": group, "output": "hi" }));
        assert_eq!(told.to_string(), r#"{"a":1,"output":"hi"}"#);
        let theirs = json!({ "group": { "name": "admins" } });
        assert_eq!(shown(&theirs), theirs);
        assert_eq!(shown(&json!({ "group": "x" })), json!({ "group": "x" }));
    }
}
