//! Errors that travel, and errors that stay at home.

use std::error::Error;
use std::fmt;

use crate::value::Value;

/// An error as the peer sees it: a class of ECMAScript, a message, and properties.
///
/// npm makes a plain `Error` of a class it does not know, so an application names its errors in
/// the property `code`.
#[derive(Clone, Debug)]
pub struct RpcError {
    /// The class, such as `TypeError`.
    pub name: String,
    /// The message.
    pub message: String,
    /// The stack, if the sender revealed it. Never sent by this crate on its own.
    pub stack: Option<String>,
    /// Own properties.
    pub props: Vec<(String, Value)>,
}

impl RpcError {
    /// Makes an error of a class.
    pub fn new(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), stack: None, props: Vec::new() }
    }

    /// Makes an `Error` that carries a code.
    pub fn with_code(code: &str, message: impl Into<String>) -> Self {
        Self::new("Error", message).with_prop("code", Value::String(code.to_owned()))
    }

    /// Makes a `TypeError`.
    pub fn type_error(message: impl Into<String>) -> Self {
        Self::new("TypeError", message)
    }

    /// Adds a property.
    #[must_use]
    pub fn with_prop(mut self, key: &str, value: Value) -> Self {
        self.props.push((key.to_owned(), value));
        self
    }

    /// Returns the code, if the error has one.
    pub fn code(&self) -> Option<&str> {
        let found = self.props.iter().find(|(key, _)| key == "code");
        found.and_then(|(_, value)| value.as_str())
    }

    /// Cuts the error to what may be copied often: a long one keeps the start of its message only.
    pub(crate) fn truncated(mut self) -> Self {
        const MOST: usize = 4 * 1024;
        if crate::memory_cost::error_bytes(&self) > MOST {
            let end = self.message.floor_char_boundary(MOST / 2);
            self.message.truncate(end);
            self.name = "Error".to_owned();
            self.stack = None;
            self.props = Vec::new();
            self.message.shrink_to_fit();
            self.props.shrink_to_fit();
        }
        self
    }

    /// Makes an error of what a peer rejected with: usually one, but any value is allowed.
    pub(crate) fn from_reason(reason: Value) -> Self {
        if let Value::Error(error) = reason {
            return *error;
        }
        let message = reason.as_str().unwrap_or("the peer rejected with a value").to_owned();
        Self::new("Error", message).with_prop("reason", reason)
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, self.message)
    }
}

impl Error for RpcError {}

/// How a method fails.
#[derive(Debug)]
pub enum CallFailure {
    /// An error of the domain: the peer sees all of it.
    Domain(RpcError),
    /// Anything else: the peer sees `internal error` and an incident id, the application the rest.
    Internal(Box<dyn Error + Send + Sync>),
}

impl From<RpcError> for CallFailure {
    fn from(error: RpcError) -> Self {
        Self::Domain(error)
    }
}

impl CallFailure {
    /// Wraps an error whose text may not leave.
    pub fn internal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Internal(error.into())
    }
}
