//! Expressions: values, and references to what lives on either side.

use std::sync::Arc;

use super::{BigInt, TypedBytes};
use crate::json::Json;

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathKey {
    /// The name of a property or method.
    Name(Arc<str>),
    /// A number; only a non-negative integer reaches an element of an array.
    Index(f64),
}

/// One expression, exactly as written: nothing is looked up, no key is dropped.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `["undefined"]`
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, or `["inf"]`, `["-inf"]`, `["nan"]`
    Number(f64),
    /// A string
    String(String),
    /// `[[…]]`
    Array(Vec<Expr>),
    /// `{…}`
    Object(Vec<(String, Expr)>),
    /// `["bigint", digits]`
    BigInt(BigInt),
    /// `["date", ms]`; without a time it is JavaScript's invalid date.
    Date(Option<f64>),
    /// `["bytes", base64]` and `["bytes", base64, type]`
    Bytes(TypedBytes),
    /// `["error", name, message, stack?, props?]`
    Error(Box<ErrorExpr>),
    /// `["url", href]`
    Url(String),
    /// `["headers", pairs]`
    Headers(Vec<(String, String)>),
    /// `["request", url, init]`
    Request(String, Box<HttpInit>),
    /// `["response", body, init]`; the body is in the init here.
    Response(Box<HttpInit>),
    /// `["blob", type, readable]`: the type, and the id of the pipe that carries the bytes.
    Blob(String, i64),
    /// `["import", id, path?, args?]`: something of the receiver's, as a stub.
    Import(Box<RefExpr>),
    /// `["pipeline", id, path?, args?]`: something of the receiver's, as a promise.
    Pipeline(Box<RefExpr>),
    /// `["remap", id, path, captures, instructions]`
    Remap(Box<RemapExpr>),
    /// `["export", id]`: an object of the sender's.
    Export(i64),
    /// `["promise", id]`: a promise of the sender's.
    Promise(i64),
    /// `["writable", id]`: a stream of the sender's that can be written to.
    Writable(i64),
    /// `["readable", id]`: the other end of a pipe that the sender made before.
    Readable(i64),
}

/// An error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ErrorExpr {
    /// The class; npm knows those of ECMAScript and takes others for `Error`.
    pub name: String,
    /// The message.
    pub message: String,
    /// The stack, when the sender reveals it.
    pub stack: Option<String>,
    /// Own properties; `code` is where an application names its error.
    pub props: Vec<(String, Expr)>,
}

/// What a request or a response has besides its URL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpInit {
    /// Pairs in the order of the sender.
    pub headers: Vec<(String, String)>,
    /// Nothing, a string, bytes or a readable stream.
    pub body: Option<Expr>,
    /// Every other field, as JSON.
    pub fields: Vec<(String, Json)>,
}

/// A property of an export of the receiver's, or the call of one.
#[derive(Clone, Debug, PartialEq)]
pub struct RefExpr {
    /// The export.
    pub id: i64,
    /// The way from the export to the property; npm tells an empty one from none.
    pub path: Option<Vec<PathKey>>,
    /// The arguments, if it is called; then the path is there too.
    pub args: Option<Vec<Expr>>,
}

/// A function that the receiver applies to every element.
#[derive(Clone, Debug, PartialEq)]
pub struct RemapExpr {
    /// The export that holds the input.
    pub id: i64,
    /// The way from the export to the input.
    pub path: Vec<PathKey>,
    /// What the function uses from outside: [`Expr::Import`] without a path, or [`Expr::Export`].
    pub captures: Vec<Expr>,
    /// The function: 0 is the element, k the result of instruction k, −k capture k.
    pub instructions: Vec<Expr>,
}
