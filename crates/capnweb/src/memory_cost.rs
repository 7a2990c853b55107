//! How many bytes a value or an expression takes, with everything inside it.
//!
//! Estimates that err on the large side. Limits compare them before anything is copied.

use crate::error::RpcError;
use crate::json::Json;
use crate::value::{HttpParts, Value};
use crate::wire::{ErrorExpr, Expr, HttpInit, PathKey, RefExpr};

/// What a capability costs: the reference and what it keeps alive at least.
const CAPABILITY_BYTES: usize = 256;

/// Bytes of one value without what it points to.
const VALUE_BYTES: usize = size_of::<Value>();
const EXPR_BYTES: usize = size_of::<Expr>();
const TEXT_BYTES: usize = size_of::<String>();

/// Returns the bytes of a value.
pub(crate) fn value_bytes(value: &Value) -> usize {
    let inside = match value {
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Date(_) => 0,
        Value::String(text) | Value::Url(text) => text.len(),
        Value::BigInt(number) => number.as_str().len(),
        Value::Bytes(bytes) => bytes.data.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields_bytes(fields),
        Value::Error(error) => error_bytes(error),
        Value::Headers(pairs) => pairs_bytes(pairs),
        Value::Request(url, http) => url.len() + http_bytes(http),
        Value::Response(http) => http_bytes(http),
        Value::Blob(kind, data) => kind.len() + data.len(),
        Value::Stub(_) | Value::Promise(_) | Value::Readable(_) | Value::Writable(_) => {
            CAPABILITY_BYTES
        }
    };
    VALUE_BYTES + inside
}

/// Returns the bytes of several values.
pub(crate) fn values_bytes(values: &[Value]) -> usize {
    values.iter().map(value_bytes).sum()
}

/// Returns the bytes of an error.
pub(crate) fn error_bytes(error: &RpcError) -> usize {
    let stack = error.stack.as_ref().map_or(0, String::len);
    size_of::<RpcError>()
        + error.name.len()
        + error.message.len()
        + stack
        + fields_bytes(&error.props)
}

/// Returns the bytes of a settled promise.
pub(crate) fn outcome_bytes(outcome: &Result<Value, RpcError>) -> usize {
    match outcome {
        Ok(value) => value_bytes(value),
        Err(error) => error_bytes(error),
    }
}

fn fields_bytes(fields: &[(String, Value)]) -> usize {
    fields.iter().map(|(key, value)| TEXT_BYTES + key.len() + value_bytes(value)).sum()
}

fn pairs_bytes(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| 2 * TEXT_BYTES + name.len() + value.len()).sum()
}

fn http_bytes(http: &HttpParts) -> usize {
    let body = http.body.as_ref().map_or(0, value_bytes);
    size_of::<HttpParts>() + pairs_bytes(&http.headers) + body + json_fields_bytes(&http.fields)
}

fn json_fields_bytes(fields: &[(String, Json)]) -> usize {
    fields.iter().map(|(key, json)| TEXT_BYTES + key.len() + json_bytes(json)).sum()
}

fn json_bytes(json: &Json) -> usize {
    let inside = match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(json_bytes).sum(),
        Json::Object(fields) => json_fields_bytes(fields),
    };
    size_of::<Json>() + inside
}

/// Returns the bytes of an expression; it makes a value of about as many.
pub(crate) fn expr_bytes(expr: &Expr) -> usize {
    let inside = match expr {
        Expr::Undefined | Expr::Null | Expr::Bool(_) | Expr::Number(_) | Expr::Date(_) => 0,
        Expr::String(text) | Expr::Url(text) => text.len(),
        Expr::BigInt(number) => number.as_str().len(),
        Expr::Bytes(bytes) => bytes.data.len(),
        Expr::Array(items) => exprs_bytes(items),
        Expr::Object(fields) => expr_fields_bytes(fields),
        Expr::Error(error) => error_expr_bytes(error),
        Expr::Headers(pairs) => pairs_bytes(pairs),
        Expr::Request(url, init) => url.len() + http_init_bytes(init),
        Expr::Response(init) => http_init_bytes(init),
        Expr::Blob(kind, _) => kind.len() + CAPABILITY_BYTES,
        Expr::Import(reference) | Expr::Pipeline(reference) => reference_bytes(reference),
        Expr::Remap(remap) => {
            let parts = exprs_bytes(&remap.captures) + exprs_bytes(&remap.instructions);
            CAPABILITY_BYTES + path_bytes(&remap.path) + parts
        }
        Expr::Export(_) | Expr::Promise(_) | Expr::Writable(_) | Expr::Readable(_) => {
            CAPABILITY_BYTES
        }
    };
    EXPR_BYTES.max(VALUE_BYTES) + inside
}

/// Returns the bytes of several expressions.
pub(crate) fn exprs_bytes(exprs: &[Expr]) -> usize {
    exprs.iter().map(expr_bytes).sum()
}

/// Returns the bytes of a path.
pub(crate) fn path_bytes(path: &[PathKey]) -> usize {
    let name = |key: &PathKey| if let PathKey::Name(name) = key { name.len() + 16 } else { 0 };
    path.iter().map(|key| size_of::<PathKey>() + name(key)).sum()
}

fn reference_bytes(reference: &RefExpr) -> usize {
    let path = reference.path.as_deref().map_or(0, path_bytes);
    CAPABILITY_BYTES + path + reference.args.as_deref().map_or(0, exprs_bytes)
}

fn expr_fields_bytes(fields: &[(String, Expr)]) -> usize {
    fields.iter().map(|(key, expr)| TEXT_BYTES + key.len() + expr_bytes(expr)).sum()
}

fn error_expr_bytes(error: &ErrorExpr) -> usize {
    let stack = error.stack.as_ref().map_or(0, String::len);
    let texts = error.name.len() + error.message.len() + stack;
    size_of::<ErrorExpr>() + texts + expr_fields_bytes(&error.props)
}

fn http_init_bytes(init: &HttpInit) -> usize {
    let body = init.body.as_ref().map_or(0, expr_bytes);
    size_of::<HttpInit>() + pairs_bytes(&init.headers) + body + json_fields_bytes(&init.fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_values_are_counted() {
        let text = |length| Value::String("x".repeat(length));
        let deep = Value::object([("a", Value::Array(vec![text(1_000), text(2_000)]))]);
        assert!((3_000..3_500).contains(&value_bytes(&deep)), "{}", value_bytes(&deep));
        let error = RpcError::new("Error", "m".repeat(500)).with_prop("p", text(700));
        assert!((1_200..1_600).contains(&error_bytes(&error)), "{}", error_bytes(&error));
        let number = value_bytes(&Value::Number(1.0));
        assert_eq!(values_bytes(&[Value::Number(1.0), Value::Number(2.0)]), 2 * number);
    }
}
