//! Lists by page: a cursor names the item a page begins or ends at.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::error::ApiError;
use crate::request_input::QueryParams;

/// How many items a page has unless the client says otherwise.
const DEFAULT_LIMIT: usize = 50;

/// Which page a client wants.
pub(super) struct PageRequest {
    limit: usize,
    newest_first: bool,
    anchor: Option<(String, bool)>,
}

impl PageRequest {
    /// Reads what a client asks for.
    pub(super) fn parse(query: &QueryParams) -> Result<Self, ApiError> {
        let limit = query.count("limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(query.invalid_param("limit", "a value greater than or equal to 1", "0"));
        }
        let mut page = Self { limit, newest_first: true, anchor: None };
        match query.get("order") {
            None | Some("desc") => {}
            Some("asc") => page.newest_first = false,
            Some(other) => return Err(query.invalid_param("order", "\"asc\" | \"desc\"", other)),
        }
        if let Some(cursor) = query.get("cursor") {
            let refused = || {
                let message = "Invalid cursor";
                ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidCursorError", message)
            };
            let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
            let value: Value = serde_json::from_slice(&bytes).map_err(|_| refused())?;
            let id = value["id"].as_str().ok_or_else(refused)?.to_owned();
            page.newest_first = value["newest"].as_bool().ok_or_else(refused)?;
            page.anchor = Some((id, value["forward"].as_bool().ok_or_else(refused)?));
        }
        Ok(page)
    }

    /// Cuts the page out of all items, which come newest first, and names its cursors.
    pub(super) fn slice_page<T>(
        &self,
        mut all: Vec<T>,
        id: impl Fn(&T) -> &str,
    ) -> (Vec<T>, Value) {
        if !self.newest_first {
            all.reverse();
        }
        let (start, end) = match &self.anchor {
            None => (0, self.limit),
            Some((anchor, forward)) => {
                let at = all.iter().position(|item| id(item) == anchor);
                match (at, forward) {
                    (Some(at), true) => (at + 1, (at + 1).saturating_add(self.limit)),
                    (Some(at), false) => (at.saturating_sub(self.limit), at),
                    // What the cursor named is gone: there is nothing next to it.
                    (None, _) => (all.len(), all.len()),
                }
            }
        };
        let end = end.min(all.len());
        all.truncate(end);
        let items: Vec<T> = all.drain(start.min(end)..).collect();
        let cursor = |item: Option<&T>, forward: bool| {
            let cursor = |item: &T| {
                let text =
                    json!({ "id": id(item), "newest": self.newest_first, "forward": forward });
                Value::from(URL_SAFE_NO_PAD.encode(text.to_string()))
            };
            item.map_or(Value::Null, cursor)
        };
        let cursors =
            json!({ "previous": cursor(items.first(), false), "next": cursor(items.last(), true) });
        (items, cursors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &str, all: &[&'static str]) -> (Vec<&'static str>, Value) {
        PageRequest::parse(&QueryParams::parse(query))
            .expect("a page")
            .slice_page(all.to_vec(), |item| item)
    }

    #[test]
    fn pages_continue_in_both_directions_without_gap() {
        let all = ["e", "d", "c", "b", "a"];
        let (first, cursors) = page("limit=2", &all);
        assert_eq!(first, ["e", "d"]);
        let next = cursors["next"].as_str().expect("a cursor");
        let (second, cursors) = page(&format!("limit=2&cursor={next}"), &all);
        assert_eq!(second, ["c", "b"]);
        let previous = cursors["previous"].as_str().expect("a cursor");
        assert_eq!(page(&format!("limit=2&cursor={previous}"), &all).0, ["e", "d"]);
        assert_eq!(page("limit=2&order=asc", &all).0, ["a", "b"]);
        assert_eq!(page("", &[]).1, json!({ "previous": null, "next": null }));
        assert!(PageRequest::parse(&QueryParams::parse("cursor=nonsense")).is_err());
        assert!(PageRequest::parse(&QueryParams::parse("order=up")).is_err());
    }
}
