//! How many bytes a value or an expression takes, with everything inside it.
//!
//! Estimates that err on the large side. Limits compare them before anything is copied.

use crate::error::RpcError;
use crate::json::Json;
use crate::value::{Http, Value};
use crate::wire::{ErrorExpr, Expr, HttpInit, Key, RefExpr};

/// What a capability costs: the reference and what it keeps alive at least.
const CAPABILITY_BYTES: usize = 256;

/// Bytes of one value without what it points to.
const VALUE_BYTES: usize = size_of::<Value>();
const EXPR_BYTES: usize = size_of::<Expr>();
const TEXT_BYTES: usize = size_of::<String>();

/// Returns the bytes of a value.
pub(crate) fn of_value(value: &Value) -> usize {
    let inside = match value {
        Value::Undefined | Value::Null | Value::Bool(_) | Value::Number(_) | Value::Date(_) => 0,
        Value::String(text) | Value::Url(text) => text.len(),
        Value::BigInt(number) => number.as_str().len(),
        Value::Bytes(bytes) => bytes.data.len(),
        Value::Array(items) => items.iter().map(of_value).sum(),
        Value::Object(fields) => of_fields(fields),
        Value::Error(error) => of_error(error),
        Value::Headers(pairs) => of_pairs(pairs),
        Value::Request(url, http) => url.len() + of_http(http),
        Value::Response(http) => of_http(http),
        Value::Blob(kind, data) => kind.len() + data.len(),
        Value::Stub(_) | Value::Promise(_) | Value::Readable(_) | Value::Writable(_) => {
            CAPABILITY_BYTES
        }
    };
    VALUE_BYTES + inside
}

/// Returns the bytes of several values.
pub(crate) fn of_values(values: &[Value]) -> usize {
    values.iter().map(of_value).sum()
}

/// Returns the bytes of an error.
pub(crate) fn of_error(error: &RpcError) -> usize {
    let stack = error.stack.as_ref().map_or(0, String::len);
    size_of::<RpcError>() + error.name.len() + error.message.len() + stack + of_fields(&error.props)
}

/// Returns the bytes of a settled promise.
pub(crate) fn of_outcome(outcome: &Result<Value, RpcError>) -> usize {
    match outcome {
        Ok(value) => of_value(value),
        Err(error) => of_error(error),
    }
}

fn of_fields(fields: &[(String, Value)]) -> usize {
    fields.iter().map(|(key, value)| TEXT_BYTES + key.len() + of_value(value)).sum()
}

fn of_pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(name, value)| 2 * TEXT_BYTES + name.len() + value.len()).sum()
}

fn of_http(http: &Http) -> usize {
    let body = http.body.as_ref().map_or(0, of_value);
    size_of::<Http>() + of_pairs(&http.headers) + body + of_json_fields(&http.fields)
}

fn of_json_fields(fields: &[(String, Json)]) -> usize {
    fields.iter().map(|(key, json)| TEXT_BYTES + key.len() + of_json(json)).sum()
}

fn of_json(json: &Json) -> usize {
    let inside = match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(of_json).sum(),
        Json::Object(fields) => of_json_fields(fields),
    };
    size_of::<Json>() + inside
}

/// Returns the bytes of an expression; it makes a value of about as many.
pub(crate) fn of_expr(expr: &Expr) -> usize {
    let inside = match expr {
        Expr::Undefined | Expr::Null | Expr::Bool(_) | Expr::Number(_) | Expr::Date(_) => 0,
        Expr::String(text) | Expr::Url(text) => text.len(),
        Expr::BigInt(number) => number.as_str().len(),
        Expr::Bytes(bytes) => bytes.data.len(),
        Expr::Array(items) => of_exprs(items),
        Expr::Object(fields) => of_expr_fields(fields),
        Expr::Error(error) => of_error_expr(error),
        Expr::Headers(pairs) => of_pairs(pairs),
        Expr::Request(url, init) => url.len() + of_init(init),
        Expr::Response(init) => of_init(init),
        Expr::Blob(kind, _) => kind.len() + CAPABILITY_BYTES,
        Expr::Import(reference) | Expr::Pipeline(reference) => of_reference(reference),
        Expr::Remap(remap) => {
            let parts = of_exprs(&remap.captures) + of_exprs(&remap.instructions);
            CAPABILITY_BYTES + of_path(&remap.path) + parts
        }
        Expr::Export(_) | Expr::Promise(_) | Expr::Writable(_) | Expr::Readable(_) => {
            CAPABILITY_BYTES
        }
    };
    EXPR_BYTES.max(VALUE_BYTES) + inside
}

/// Returns the bytes of several expressions.
pub(crate) fn of_exprs(exprs: &[Expr]) -> usize {
    exprs.iter().map(of_expr).sum()
}

/// Returns the bytes of a path.
pub(crate) fn of_path(path: &[Key]) -> usize {
    let name = |key: &Key| if let Key::Name(name) = key { name.len() + 16 } else { 0 };
    path.iter().map(|key| size_of::<Key>() + name(key)).sum()
}

fn of_reference(reference: &RefExpr) -> usize {
    let path = reference.path.as_deref().map_or(0, of_path);
    CAPABILITY_BYTES + path + reference.args.as_deref().map_or(0, of_exprs)
}

fn of_expr_fields(fields: &[(String, Expr)]) -> usize {
    fields.iter().map(|(key, expr)| TEXT_BYTES + key.len() + of_expr(expr)).sum()
}

fn of_error_expr(error: &ErrorExpr) -> usize {
    let stack = error.stack.as_ref().map_or(0, String::len);
    let texts = error.name.len() + error.message.len() + stack;
    size_of::<ErrorExpr>() + texts + of_expr_fields(&error.props)
}

fn of_init(init: &HttpInit) -> usize {
    let body = init.body.as_ref().map_or(0, of_expr);
    size_of::<HttpInit>() + of_pairs(&init.headers) + body + of_json_fields(&init.fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_inside_is_counted() {
        let text = |length| Value::String("x".repeat(length));
        let deep = Value::object([("a", Value::Array(vec![text(1_000), text(2_000)]))]);
        assert!((3_000..3_500).contains(&of_value(&deep)), "{}", of_value(&deep));
        let error = RpcError::new("Error", "m".repeat(500)).with("p", text(700));
        assert!((1_200..1_600).contains(&of_error(&error)), "{}", of_error(&error));
        let number = of_value(&Value::Number(1.0));
        assert_eq!(of_values(&[Value::Number(1.0), Value::Number(2.0)]), 2 * number);
    }
}
