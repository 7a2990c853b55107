//! Merging one table of settings into another.

use serde_json::{Map, Value};

/// Merges `over` into `base`: tables are merged and keep the order of their keys, lists of instructions and
/// plugins are united, everything else is replaced.
pub(crate) fn merge_tables(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        if key == "permission" {
            merge_permission(base, value);
            continue;
        }
        match (base.get_mut(&key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_tables(below, above),
            (Some(Value::Array(below)), Value::Array(above))
                if key == "instructions" || key == "plugin" =>
            {
                for entry in above {
                    if !below.contains(&entry) {
                        below.push(entry);
                    }
                }
            }
            (_, value) => drop(base.insert(key, value)),
        }
    }
}

/// One action stands for a table with `*`: a table that is merged with it must not lose it.
fn merge_permission(base: &mut Map<String, Value>, over: Value) {
    let below = base.get("permission").cloned();
    let merged = match (below, over) {
        (Some(Value::Object(mut below)), Value::Object(above)) => {
            for (permission, mut value) in above {
                if let Value::Object(above) = &mut value {
                    let mut patterns = below.get(&permission).map(as_patterns).unwrap_or_default();
                    patterns.append(above);
                    *above = patterns;
                }
                below.insert(permission, value);
            }
            Value::Object(below)
        }
        (Some(word @ Value::String(_)), Value::Object(above)) => {
            let mut table = Map::from_iter([("*".to_owned(), word)]);
            table.extend(above);
            Value::Object(table)
        }
        (_, over) => over,
    };
    base.insert("permission".to_owned(), merged);
}

/// The patterns of a permission; one action counts for all of them.
fn as_patterns(value: &Value) -> Map<String, Value> {
    match value {
        Value::Object(patterns) => patterns.clone(),
        Value::String(_) => Map::from_iter([("*".to_owned(), value.clone())]),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merge(base: Value, over: Value) -> Value {
        let (Value::Object(mut base), Value::Object(over)) = (base, over) else {
            panic!("tables are merged")
        };
        merge_tables(&mut base, over);
        Value::Object(base)
    }

    #[test]
    fn lists_are_replaced_except_instructions_and_plugins() {
        let merged = merge(
            json!({ "instructions": ["a", "b"], "list": [1], "t": { "x": 1, "y": 2 } }),
            json!({ "instructions": ["b", "c"], "list": [2], "t": { "x": 3 } }),
        );
        let wanted =
            json!({ "instructions": ["a", "b", "c"], "list": [2], "t": { "x": 3, "y": 2 } });
        assert_eq!(merged, wanted);
    }

    /// Proves R38.
    #[test]
    fn permission_keys_keep_their_place_and_actions_become_tables() {
        let merged = merge(
            json!({ "permission": { "bash": "deny", "*": "ask" } }),
            json!({ "permission": { "edit": "allow", "bash": { "ls *": "allow" } } }),
        );
        let keys: Vec<&String> =
            merged["permission"].as_object().expect("a table").keys().collect();
        assert_eq!(keys, ["bash", "*", "edit"]);
        assert_eq!(merged["permission"]["bash"], json!({ "*": "deny", "ls *": "allow" }));
        let merged =
            merge(json!({ "permission": "deny" }), json!({ "permission": { "a": "ask" } }));
        assert_eq!(merged["permission"], json!({ "*": "deny", "a": "ask" }));
    }
}
