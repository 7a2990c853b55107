//! Lists by page: a cursor names the item next to a page.

use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use turnstone_store::{ListWindow, ScanDirection};

use crate::error::ApiError;
use crate::request_input::QueryParams;

/// How many items a page has unless the client says otherwise.
const DEFAULT_LIMIT: usize = 50;

/// Which page a client wants.
pub(super) struct PageRequest {
    limit: usize,
    newest_first: bool,
    cursor: Option<PageCursor>,
}

/// The content of a cursor.
#[derive(Deserialize, Serialize)]
struct PageCursor {
    /// The item next to the page.
    id: String,
    /// True if the list is newest first.
    newest: bool,
    /// True if the page follows the item, false if it precedes it.
    forward: bool,
}

impl PageCursor {
    fn encode(&self) -> Option<String> {
        serde_json::to_string(self).ok().map(|text| URL_SAFE_NO_PAD.encode(text))
    }

    fn decode(text: &str) -> Option<Self> {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()
    }
}

/// A page of a list.
#[derive(Serialize)]
pub(super) struct PageResponse<T> {
    data: Vec<T>,
    cursor: NeighbourCursors,
}

/// The cursors of the pages next to a page; `null` for an empty page.
#[derive(Serialize)]
struct NeighbourCursors {
    previous: Option<String>,
    next: Option<String>,
}

impl PageRequest {
    /// Reads what a client asks for.
    pub(super) fn parse(query: &QueryParams) -> Result<Self, ApiError> {
        let limit = query.count("limit")?.unwrap_or(DEFAULT_LIMIT);
        if limit == 0 {
            return Err(query.invalid_param("limit", "a value greater than or equal to 1", "0"));
        }
        let newest_first = match query.get("order") {
            None | Some("desc") => true,
            Some("asc") => false,
            Some(other) => return Err(query.invalid_param("order", "\"asc\" | \"desc\"", other)),
        };
        let Some(text) = query.get("cursor") else {
            return Ok(Self { limit, newest_first, cursor: None });
        };
        let cursor = PageCursor::decode(text).ok_or_else(|| {
            ApiError::tagged(StatusCode::BAD_REQUEST, "InvalidCursorError", "Invalid cursor")
        })?;
        // The order is that of the page the cursor is from.
        Ok(Self { limit, newest_first: cursor.newest, cursor: Some(cursor) })
    }

    fn is_forward(&self) -> bool {
        self.cursor.as_ref().is_none_or(|cursor| cursor.forward)
    }

    /// The rows of the page, as the store reads them.
    pub(super) fn window(&self) -> ListWindow<'_> {
        let direction = match self.newest_first == self.is_forward() {
            true => ScanDirection::Older,
            false => ScanDirection::Newer,
        };
        let anchor = self.cursor.as_ref().map(|cursor| cursor.id.as_str());
        ListWindow { anchor, direction, limit: self.limit }
    }

    /// Puts the rows of [`PageRequest::window`] into the order of the list and adds the cursors.
    pub(super) fn respond<T>(&self, mut rows: Vec<T>, id: impl Fn(&T) -> &str) -> PageResponse<T> {
        if !self.is_forward() {
            rows.reverse();
        }
        let cursor = |row: Option<&T>, forward: bool| {
            let id = id(row?).to_owned();
            PageCursor { id, newest: self.newest_first, forward }.encode()
        };
        let (previous, next) = (cursor(rows.first(), false), cursor(rows.last(), true));
        PageResponse { data: rows, cursor: NeighbourCursors { previous, next } }
    }
}

impl<T> PageResponse<T> {
    /// The same page with other items.
    pub(super) fn try_map<U>(
        self,
        change: impl FnMut(T) -> Result<U, ApiError>,
    ) -> Result<PageResponse<U>, ApiError> {
        let data = self.data.into_iter().map(change).collect::<Result<_, _>>()?;
        Ok(PageResponse { data, cursor: self.cursor })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A page of a list that is in memory, newest first.
    fn page(query: &str, all: &[&'static str]) -> PageResponse<&'static str> {
        let request = PageRequest::parse(&QueryParams::parse(query)).expect("a page");
        let ListWindow { anchor, direction, limit } = request.window();
        let mut rows = all.to_vec();
        if direction == ScanDirection::Newer {
            rows.reverse();
        }
        let start =
            anchor.map_or(0, |id| rows.iter().position(|row| *row == id).map_or(0, |at| at + 1));
        let rows = rows.into_iter().skip(start).take(limit).collect();
        request.respond(rows, |row| row)
    }

    #[test]
    fn pages_continue_in_both_directions_without_gap() {
        let all = ["e", "d", "c", "b", "a"];
        let first = page("limit=2", &all);
        assert_eq!(first.data, ["e", "d"]);
        let next = first.cursor.next.expect("a cursor");
        let second = page(&format!("limit=2&cursor={next}"), &all);
        assert_eq!(second.data, ["c", "b"]);
        let previous = second.cursor.previous.expect("a cursor");
        assert_eq!(page(&format!("limit=2&cursor={previous}"), &all).data, ["e", "d"]);
        assert_eq!(page("limit=2&order=asc", &all).data, ["a", "b"]);
        let empty = serde_json::to_value(page("", &[])).expect("JSON");
        assert_eq!(empty, json!({ "data": [], "cursor": { "previous": null, "next": null } }));
        assert!(PageRequest::parse(&QueryParams::parse("cursor=nonsense")).is_err());
        assert!(PageRequest::parse(&QueryParams::parse("order=up")).is_err());
    }
}
