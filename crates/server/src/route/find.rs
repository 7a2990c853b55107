//! Search in a project: lines of files by an expression, files by a part of their name.

use std::path::Path;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use ignore::WalkBuilder;
use regex_automata::meta::Regex;
use serde_json::{Value, json};

use crate::app::App;
use crate::beneath::{Below, Root};
use crate::call::Caller;
use crate::error::ApiError;
use crate::input::Query;
use crate::place::{Asked, Place};

/// Lines that are told; as many as OpenCode tells.
const LINES: usize = 10;
/// Names that are told unless the client says otherwise.
const NAMES: usize = 10;
/// The most names a client may ask for.
const MOST_NAMES: usize = 200;
/// Files that are looked at.
const MOST: usize = 100_000;
/// The largest file that is searched.
const LARGEST: u64 = 4 << 20;
/// Bytes that are searched in all.
const BYTES: usize = 512 << 20;
/// The longest line that is told.
const LONGEST: usize = 8_192;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/find", get(text))
        .route("/find/file", get(names))
        .route("/find/symbol", get(symbols))
}

/// What a search may find, as the walk goes: no ignored file, no link, nothing of git's.
fn walk(place: &Place) -> impl Iterator<Item = (String, bool)> {
    let root = place.directory.clone();
    let mut builder = WalkBuilder::new(&root);
    builder.hidden(false).follow_links(false).git_global(false).require_git(true);
    builder.sort_by_file_name(std::ffi::OsStr::cmp);
    builder.filter_entry(|entry| entry.file_name() != ".git");
    // What cannot be read, or went away meanwhile, cannot be found.
    let entries = builder.build().filter_map(Result::ok).take(MOST);
    entries.filter_map(move |entry| {
        let kind = entry.file_type()?;
        let below = entry.path().strip_prefix(&root).ok()?.to_str()?;
        let fits = !below.is_empty() && (kind.is_dir() || kind.is_file());
        fits.then(|| (below.to_owned(), kind.is_dir()))
    })
}

/// `GET /find`
async fn text(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let pattern = query.need("pattern")?.to_owned();
    let config = Regex::config().nfa_size_limit(Some(4 << 20)).hybrid_cache_capacity(4 << 20);
    let regex = Regex::builder().configure(config).build(&pattern).map_err(|error| {
        let why = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
        ApiError::query(format!("Expected a regular expression: {why}\n  at [\"pattern\"]"))
    })?;
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let root = Root::open(&place.directory)?;
        let (mut found, mut seen) = (Vec::new(), 0);
        for (path, _) in walk(&place).filter(|(_, is_dir)| !is_dir) {
            let Ok(below) = Below::parse(&path) else { continue };
            let Ok(bytes) = root.read(&below, LARGEST) else { continue };
            seen += bytes.len();
            lines(&regex, &path, &bytes, &mut found);
            if found.len() >= LINES || seen > BYTES {
                break;
            }
        }
        Ok(Json(Value::Array(found)))
    })
    .await
}

/// Adds the lines of a file that match, until there are enough.
fn lines(regex: &Regex, path: &str, bytes: &[u8], found: &mut Vec<Value>) {
    let head = bytes.get(..8_192.min(bytes.len())).unwrap_or_default();
    if head.contains(&0) {
        return;
    }
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len();
        let bare = line.strip_suffix(b"\n").unwrap_or(line);
        let matches: Vec<Value> = regex
            .find_iter(bare)
            .map(|hit| {
                let text = String::from_utf8_lossy(bare.get(hit.range()).unwrap_or_default());
                let text: String = text.chars().take(LONGEST).collect();
                json!({ "match": { "text": text }, "start": hit.start(), "end": hit.end() })
            })
            .take(LONGEST)
            .collect();
        if matches.is_empty() {
            continue;
        }
        let text: String = String::from_utf8_lossy(line).chars().take(LONGEST).collect();
        found.push(json!({ "path": { "text": path }, "lines": { "text": text },
            "line_number": index + 1, "absolute_offset": start, "submatches": matches }));
        if found.len() >= LINES {
            return;
        }
    }
}

/// What a client looks for among the names.
pub(super) struct Wanted {
    /// A part of the name, perhaps with letters left out.
    pub(super) query: String,
    /// Only files, or only directories.
    pub(super) only: Option<bool>,
    /// How many.
    pub(super) limit: usize,
}

/// The names that fit, the best first, each with whether it is a directory.
pub(super) fn best(place: &Place, wanted: &Wanted) -> Vec<(String, bool)> {
    let query = wanted.query.to_lowercase();
    let mut found: Vec<(u64, String, bool)> = walk(place)
        .filter(|(_, is_dir)| wanted.only.is_none_or(|only| only == *is_dir))
        .filter_map(|(path, is_dir)| score(&query, &path).map(|score| (score, path, is_dir)))
        .collect();
    found.sort_by(|a, b| (a.0, a.1.len(), &a.1).cmp(&(b.0, b.1.len(), &b.1)));
    found.truncate(wanted.limit);
    found
        .into_iter()
        .map(|(_, path, is_dir)| (if is_dir { format!("{path}/") } else { path }, is_dir))
        .collect()
}

/// How badly a name fits; nothing if a letter of the query is missing in it.
fn score(query: &str, path: &str) -> Option<u64> {
    if query.is_empty() {
        return Some(0);
    }
    let path = path.to_lowercase();
    let name = Path::new(&path).file_name().and_then(|name| name.to_str()).unwrap_or(&path);
    if name == query {
        return Some(0);
    }
    if name.starts_with(query) {
        return Some(1);
    }
    if name.contains(query) {
        return Some(2);
    }
    if path.contains(query) {
        return Some(3);
    }
    let (mut gaps, mut rest) = (0, path.as_str());
    for letter in query.chars().filter(|letter| !letter.is_whitespace()) {
        let at = rest.find(letter)?;
        gaps += u64::try_from(at).unwrap_or(u64::MAX);
        rest = rest.get(at + letter.len_utf8()..).unwrap_or_default();
    }
    Some(4_u64.saturating_add(gaps))
}

/// Reads which kind of entry a client wants.
pub(super) fn kind(query: &Query) -> Result<Option<bool>, ApiError> {
    match query.get("type") {
        None => Ok(None),
        Some("file") => Ok(Some(false)),
        Some("directory") => Ok(Some(true)),
        Some(other) => Err(query.refuse("type", "\"file\" | \"directory\"", other)),
    }
}

/// `GET /find/file`
async fn names(
    State(app): State<App>,
    Caller(ctx): Caller,
    asked: Asked,
    query: Query,
) -> Result<Json<Value>, ApiError> {
    let text = query.need("query")?.to_owned();
    let dirs = query.get("dirs").is_none() || query.flag("dirs")?;
    let only = kind(&query)?.or((!dirs).then_some(false));
    let limit = query.count("limit")?.unwrap_or(NAMES);
    if !(1..=MOST_NAMES).contains(&limit) {
        let got = limit.to_string();
        return Err(query.refuse("limit", "a number from 1 to 200", &got));
    }
    app.blocking(move |app| {
        let place = app.place(&ctx, &asked.directory)?;
        let found = best(&place, &Wanted { query: text, only, limit });
        Ok(Json(found.into_iter().map(|(path, _)| Value::from(path)).collect()))
    })
    .await
}

/// `GET /find/symbol`: nothing here knows the symbols of a language.
async fn symbols(_asked: Asked, query: Query) -> Result<Json<Value>, ApiError> {
    query.need("query")?;
    Ok(Json(json!([])))
}

#[cfg(test)]
mod tests {
    use super::score;

    #[test]
    fn a_name_that_fits_better_comes_first() {
        let order = ["main", "main.rs", "domain.rs", "main/x", "m-a-i-n", "m--a--i--n"];
        let scores: Vec<_> = order.iter().map(|path| score("main", path)).collect();
        assert!(scores.is_sorted() && scores.iter().all(Option::is_some), "{scores:?}");
        assert_eq!(score("main", ".gitignore"), None);
    }
}
