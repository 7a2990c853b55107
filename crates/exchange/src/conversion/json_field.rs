//! Reading and completing the fields of raw objects.

use serde_json::{Map, Value};

use crate::foreign_id::{ForeignId, MappedId, map_foreign_id};

/// The key under which a thing keeps the id it had in the source, if that did not fit.
const SOURCE_ID: &str = "sourceID";

/// Why something cannot be adopted, in words.
pub(crate) type ConversionError = String;

/// The object in `body`, without the keys that name the row itself.
pub(super) fn into_object(
    body: Value,
    without: &[&str],
) -> Result<Map<String, Value>, ConversionError> {
    match body {
        Value::Object(mut map) => {
            for key in without {
                map.remove(*key);
            }
            Ok(map)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("not an object".to_owned())
        }
    }
}

/// The id of the thing itself; the one it had is recorded where it did not fit.
pub(super) fn map_own_id<T: ForeignId>(
    id: &str,
    map: &mut Map<String, Value>,
) -> Result<T, ConversionError> {
    let MappedId { id, source_id: source } =
        map_foreign_id(id).ok_or_else(|| "the id is empty".to_owned())?;
    if let Some(source) = source {
        map.insert(SOURCE_ID.to_owned(), Value::String(source));
    }
    Ok(id)
}

/// Replaces the id under `key` by ours; drops what is no id at all.
pub(super) fn map_reference<T: ForeignId + Into<String>>(map: &mut Map<String, Value>, key: &str) {
    let Some(value) = map.remove(key) else { return };
    let fitted = value.as_str().and_then(map_foreign_id::<T>);
    if let Some(fitted) = fitted {
        map.insert(key.to_owned(), Value::String(fitted.id.into()));
    }
}

/// Puts `value` under `key` unless something other than null is there; says whether it did.
pub(super) fn set_if_missing(map: &mut Map<String, Value>, key: &str, value: Value) -> bool {
    if map.get(key).is_some_and(|found| !found.is_null()) {
        return false;
    }
    map.insert(key.to_owned(), value);
    true
}
