//! Values as an application sees them: JavaScript's, with live capabilities inside.

use crate::error::RpcError;
use crate::json::Json;
use crate::session::{Promise, Readable, Stub, Writable};
use crate::wire::{BigInt, TypedBytes};

/// A value that can be passed in a call or returned from one.
///
/// A clone shares its capabilities: each is given back when its last clone is dropped.
#[derive(Clone, Debug)]
pub enum Value {
    /// `undefined`, which is neither `null` nor an absent field.
    Undefined,
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A double; also the infinities and not-a-number.
    Number(f64),
    /// Text.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object; fields keep their order.
    Object(Vec<(String, Value)>),
    /// An integer of any size.
    BigInt(BigInt),
    /// Milliseconds since 1970; without a time it is the invalid date.
    Date(Option<f64>),
    /// Bytes with their JavaScript type.
    Bytes(TypedBytes),
    /// An error as a value.
    Error(Box<RpcError>),
    /// A URL.
    Url(String),
    /// HTTP headers.
    Headers(Vec<(String, String)>),
    /// A request: its URL and the rest.
    Request(String, Box<HttpParts>),
    /// A response.
    Response(Box<HttpParts>),
    /// A blob: its media type and its bytes.
    Blob(String, Vec<u8>),
    /// An object or function of either side.
    Stub(Stub),
    /// A value that is not there yet. Arguments and awaited results hold none.
    Promise(Promise),
    /// A stream to read from.
    Readable(Readable),
    /// A stream to write to.
    Writable(Writable),
}

/// What a request or a response has besides its URL.
#[derive(Clone, Debug, Default)]
pub struct HttpParts {
    /// Pairs in order.
    pub headers: Vec<(String, String)>,
    /// A string, bytes or a readable stream.
    pub body: Option<Value>,
    /// Other fields of the init object (`method`, `status`, …) as JSON.
    pub fields: Vec<(String, Json)>,
}

impl Value {
    /// Makes an object of its fields.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Value)>) -> Self {
        let fields = fields.into_iter();
        Self::Object(fields.map(|(key, value)| (key.into(), value)).collect())
    }

    /// Returns the field of an object.
    pub fn field(&self, name: &str) -> Option<&Value> {
        if let Self::Object(fields) = self {
            return fields.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        }
        None
    }

    /// Returns the text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self {
            return Some(text);
        }
        None
    }

    /// Tells whether it is `undefined` or `null`.
    pub fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    /// Tells whether a copy costs next to nothing.
    pub(crate) fn is_cheap_to_copy(&self) -> bool {
        if let Self::String(text) = self {
            return text.len() <= 64;
        }
        let plain = matches!(self, Self::Undefined | Self::Null | Self::Bool(_) | Self::Date(_));
        plain || matches!(self, Self::Number(_))
    }

    /// Tells whether it holds neither values nor capabilities.
    pub(crate) fn is_leaf(&self) -> bool {
        match self {
            Self::Undefined
            | Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::String(_)
            | Self::BigInt(_)
            | Self::Date(_)
            | Self::Bytes(_)
            | Self::Url(_)
            | Self::Headers(_)
            | Self::Blob(..) => true,
            Self::Array(_)
            | Self::Object(_)
            | Self::Error(_)
            | Self::Request(..)
            | Self::Response(_)
            | Self::Stub(_)
            | Self::Promise(_)
            | Self::Readable(_)
            | Self::Writable(_) => false,
        }
    }

    /// Names the kind of value, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
            Self::BigInt(_) => "a bigint",
            Self::Date(_) => "a date",
            Self::Bytes(_) => "bytes",
            Self::Error(_) => "an error",
            Self::Url(_) => "a URL",
            Self::Headers(_) => "headers",
            Self::Request(..) => "a request",
            Self::Response(_) => "a response",
            Self::Blob(..) => "a blob",
            Self::Stub(_) => "a stub",
            Self::Promise(_) => "a promise",
            Self::Readable(_) => "a readable stream",
            Self::Writable(_) => "a writable stream",
        }
    }

    /// Returns the values directly inside.
    pub(crate) fn children(&self) -> Vec<&Value> {
        if let Self::Array(items) = self {
            return items.iter().collect();
        }
        if let Self::Object(fields) = self {
            return fields.iter().map(|(_, value)| value).collect();
        }
        if let Self::Error(error) = self {
            return error.props.iter().map(|(_, value)| value).collect();
        }
        if let Self::Request(_, http) | Self::Response(http) = self {
            return http.body.iter().collect();
        }
        Vec::new()
    }

    /// Returns the values directly inside.
    pub(crate) fn children_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Self::Array(items) => items.iter_mut().collect(),
            Self::Object(fields) => fields.iter_mut().map(|(_, value)| value).collect(),
            Self::Error(error) => error.props.iter_mut().map(|(_, value)| value).collect(),
            Self::Request(_, http) | Self::Response(http) => http.body.iter_mut().collect(),
            Self::Undefined
            | Self::Null
            | Self::Bool(_)
            | Self::Number(_)
            | Self::String(_)
            | Self::BigInt(_)
            | Self::Date(_)
            | Self::Bytes(_)
            | Self::Url(_)
            | Self::Headers(_)
            | Self::Blob(..)
            | Self::Stub(_)
            | Self::Promise(_)
            | Self::Readable(_)
            | Self::Writable(_) => Vec::new(),
        }
    }
}

/// Names that every JavaScript object inherits: never a field, never a member.
const INHERITED_NAMES: [&str; 12] = [
    "__proto__",
    "__defineGetter__",
    "__defineSetter__",
    "__lookupGetter__",
    "__lookupSetter__",
    "constructor",
    "hasOwnProperty",
    "isPrototypeOf",
    "propertyIsEnumerable",
    "toLocaleString",
    "toString",
    "valueOf",
];

/// Tells whether every JavaScript object has a property of that name.
pub(crate) fn is_inherited_name(name: &str) -> bool {
    INHERITED_NAMES.contains(&name)
}
