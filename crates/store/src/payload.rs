//! Payloads: JSON with its long strings taken out and stored once by content.

use rusqlite::Connection;
use serde::Serialize;
use serde_json::Value;

use crate::blob::{self, BlobDir, BlobHash, INLINE_LIMIT};
use crate::error::{Result, StoreError};

/// Strings that stay in the JSON however long they are: projections read them from there.
const INLINE_POINTERS: &[&str] = &[
    "/title",
    "/directory",
    "/path",
    "/worktree",
    "/permission",
    "/pattern",
    "/url",
    "/id",
    "/data/type",
    "/data/tool",
];
/// As deep as a stored payload may be nested; the reader of JSON gives up at 128.
const MAX_DEPTH: usize = 120;

/// A payload ready to be written.
pub(crate) struct PreparedPayload {
    /// The JSON without its long strings.
    pub(crate) json: String,
    /// Where the long strings belong: `[[pointer, hash, length], …]`.
    pub(crate) refs: Option<String>,
    /// The long strings themselves.
    pub(crate) blobs: Vec<(BlobHash, String)>,
}

impl PreparedPayload {
    /// Takes the long strings out of `value`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if it is nested so deeply that it could not be read again.
    pub(crate) fn new(value: &impl Serialize) -> Result<Self> {
        Self::from_json(serde_json::to_string(value)?)
    }

    /// The same for a value that is JSON already.
    pub(crate) fn from_json(json: String) -> Result<Self> {
        let brackets = json.bytes().filter(|b| matches!(b, b'{' | b'[')).count();
        if json.len() < INLINE_LIMIT && brackets < MAX_DEPTH {
            // Nothing in it can be long or deep.
            return Ok(Self { json, refs: None, blobs: Vec::new() });
        }
        let mut value: Value =
            serde_json::from_str(&json).map_err(|error| too_deep_error(&error))?;
        let mut taken = Vec::new();
        if !extract_long_strings(&mut value, &mut String::new(), MAX_DEPTH, &mut taken) {
            return Err(StoreError::Invalid(format!("a value nested deeper than {MAX_DEPTH}")));
        }
        let refs = (!taken.is_empty()).then(|| {
            let list = taken.iter().map(|(pointer, hash, text)| {
                Value::Array(vec![
                    Value::String(pointer.clone()),
                    Value::String(hash.hex()),
                    Value::from(text.len()),
                ])
            });
            Value::Array(list.collect()).to_string()
        });
        let blobs = taken.into_iter().map(|(_, hash, text)| (hash, text)).collect();
        Ok(Self { json: value.to_string(), refs, blobs })
    }

    /// The bytes this payload adds to the database at most.
    pub(crate) fn stored_bytes(&self) -> u64 {
        let inside = self.blobs.iter().map(|(_, text)| text.len());
        let inside: usize = inside.filter(|len| *len <= blob::FILE_LIMIT).sum();
        (self.json.len() + inside) as u64
    }
}

/// What the reader of JSON does not take is nested too deeply for it.
fn too_deep_error(error: &serde_json::Error) -> StoreError {
    StoreError::Invalid(format!("a value nested deeper than {MAX_DEPTH}: {error}"))
}

/// Returns false if `value` is nested deeper than `depth`.
fn extract_long_strings(
    value: &mut Value,
    at: &mut String,
    depth: usize,
    taken: &mut Vec<(String, BlobHash, String)>,
) -> bool {
    match value {
        Value::String(text) if text.len() >= INLINE_LIMIT && !is_inline_pointer(at) => {
            let text = std::mem::take(text);
            taken.push((at.clone(), BlobHash::of(text.as_bytes()), text));
            true
        }
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(items) => items
            .iter_mut()
            .enumerate()
            .all(|(index, item)| descend(item, at, &index.to_string(), depth, taken)),
        Value::Object(map) => map.iter_mut().all(|(key, item)| {
            descend(item, at, &key.replace('~', "~0").replace('/', "~1"), depth, taken)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn is_inline_pointer(at: &str) -> bool {
    INLINE_POINTERS.contains(&at) || at.starts_with("/aliases/") || at.starts_with("/taken/")
}

fn descend(
    item: &mut Value,
    at: &mut String,
    step: &str,
    depth: usize,
    taken: &mut Vec<(String, BlobHash, String)>,
) -> bool {
    let len = at.len();
    at.push('/');
    at.push_str(step);
    let fits = extract_long_strings(item, at, depth - 1, taken);
    at.truncate(len);
    fits
}

/// Puts the long strings back.
pub(crate) fn restore_long_strings(
    conn: &Connection,
    dir: &BlobDir,
    json: &str,
    refs: Option<&str>,
) -> Result<Value> {
    let mut value: Value = serde_json::from_str(json)?;
    for (pointer, hash, _) in parse_refs(refs)? {
        let bytes = blob::load_blob(conn, dir, &hash)?;
        let text = String::from_utf8(bytes)
            .map_err(|_| StoreError::Internal("a stored text is not UTF-8".to_owned()))?;
        let slot = value
            .pointer_mut(&pointer)
            .ok_or_else(|| StoreError::Internal(format!("payload has no {pointer}")))?;
        *slot = Value::String(text);
    }
    Ok(value)
}

/// Reads the `refs` column.
pub(crate) fn parse_refs(refs: Option<&str>) -> Result<Vec<(String, BlobHash, u64)>> {
    let Some(refs) = refs else { return Ok(Vec::new()) };
    let list: Vec<(String, String, u64)> = serde_json::from_str(refs)?;
    list.into_iter()
        .map(|(pointer, hex, len)| {
            let hash = BlobHash::from_hex(&hex)
                .ok_or_else(|| StoreError::Internal(format!("bad hash {hex} in payload")))?;
            Ok((pointer, hash, len))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_strings_are_extracted_at_any_depth() {
        let long = "x".repeat(INLINE_LIMIT);
        let value = json!({"a/b": {"~": [1, long]}, "short": "y"});
        let prepared = PreparedPayload::new(&value).expect("serialises");
        assert_eq!(prepared.blobs.len(), 1);
        assert!(prepared.json.len() < 60, "{}", prepared.json);
        let refs = parse_refs(prepared.refs.as_deref()).expect("parses");
        assert_eq!(refs[0].0, "/a~1b/~0/1");
        assert_eq!(value.pointer(&refs[0].0), Some(&json!(long)));
    }

    #[test]
    fn short_payload_is_stored_inline() {
        let prepared = PreparedPayload::new(&json!({"a": 1})).expect("serialises");
        assert_eq!((prepared.json.as_str(), prepared.refs), (r#"{"a":1}"#, None));
    }
}
