//! Merges JSON objects: defaults, options, and what a user adds.

use serde_json::{Map, Value};

/// Merges `from` into `into`: objects key by key, anything else replaces what was there.
pub(super) fn merge_objects(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge_objects(known, value),
            (Some(known), value) => *known = value,
            (None, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// Puts `value` at the end of a path of keys and creates the objects on the way.
pub(super) fn insert_at(body: &mut Map<String, Value>, path: &[&str], value: Value) {
    let Some((last, folders)) = path.split_last() else { return };
    let mut nested = Value::Object(Map::from_iter([((*last).to_owned(), value)]));
    for folder in folders.iter().rev() {
        nested = Value::Object(Map::from_iter([((*folder).to_owned(), nested)]));
    }
    if let Value::Object(nested) = nested {
        merge_objects(body, nested);
    }
}

/// Moves the options into a body: `names` says where known ones belong, the others keep their names.
pub(super) fn apply_options(
    body: &mut Map<String, Value>,
    options: &Map<String, Value>,
    names: &[(&str, &[&str])],
) {
    for (name, value) in options {
        match names.iter().find(|(known, _)| known == name) {
            Some((_, path)) => insert_at(body, path, value.clone()),
            None => insert_at(body, &[name.as_str()], value.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_find_their_place_and_unknown_ones_keep_their_name() {
        let Value::Object(mut body) = json!({"reasoning": {"summary": "auto"}, "a": 1}) else {
            unreachable!()
        };
        let options = json!({"reasoningEffort": "high", "b": {"c": 1}, "a": 2});
        apply_options(
            &mut body,
            options.as_object().unwrap(),
            &[("reasoningEffort", &["reasoning", "effort"])],
        );
        let expected =
            json!({"reasoning": {"summary": "auto", "effort": "high"}, "a": 2, "b": {"c": 1}});
        assert_eq!(Value::Object(body), expected);
    }
}
