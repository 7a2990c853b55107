//! Reading messages, and refusing what is not one.

use std::borrow::Cow;

use super::{Bytes, BytesKind, ErrorExpr, Expr, HttpInit, Key, Message, RefExpr, RemapExpr};
use super::{WireLimits, binary};
use crate::json::{self, JsonError, Raw};

/// Why a message was refused. The session that received it is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than the limit.
    #[error("Incoming message exceeds maximum size of {0} bytes.")]
    TooLong(usize),
    /// Not JSON.
    #[error("bad RPC message: {0}")]
    Json(#[from] JsonError),
    /// JSON, but no message of the protocol.
    #[error("bad RPC message: {0}")]
    Message(String),
    /// An array that is no form of the protocol.
    #[error("unknown special value: {0}")]
    Form(String),
    /// Values within values beyond the limit.
    #[error("Deserialization exceeded maximum allowed message depth of {0}.")]
    TooDeep(usize),
    /// A bigint with too many digits.
    #[error("Deserialized bigint exceeds maximum length of {0} digits.")]
    TooManyDigits(usize),
    /// The body of a request or response is of a type that cannot be one.
    #[error("{0} body must be of type ReadableStream.")]
    Body(&'static str),
}

/// How much of a refused text is repeated to the peer.
const QUOTED_CHARS: usize = 96;

fn quote(json: &Raw<'_>) -> String {
    let text = json.to_json().to_string();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text,
    }
}

fn form(json: &Raw<'_>) -> DecodeError {
    DecodeError::Form(quote(json))
}

pub(super) fn message(text: &str, limits: &WireLimits) -> Result<Message, DecodeError> {
    if text.len() > limits.message_bytes {
        return Err(DecodeError::TooLong(limits.message_bytes));
    }
    // One value within another takes at most two brackets.
    let json = json::read_raw(text, 2 * limits.depth + 4, limits.values)?;
    let reader = Reader { limits };
    match reader.message(&json) {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(DecodeError::Message(quote(&json))),
        Err(error) => Err(error),
    }
}

struct Reader<'a> {
    limits: &'a WireLimits,
}

type Field<'a> = (Cow<'a, str>, Raw<'a>);
type Read = Result<Option<Expr>, DecodeError>;

impl Reader<'_> {
    fn message(&self, json: &Raw<'_>) -> Result<Option<Message>, DecodeError> {
        let Raw::Array(items) = json else {
            return Ok(None);
        };
        let id = || items.get(1).and_then(Raw::as_integer);
        let expr = |place: usize| items.get(place).map(|item| self.expr(item, 0)).transpose();
        Ok(match items.first().and_then(Raw::as_str) {
            Some("push") => expr(1)?.map(Message::Push),
            Some("stream") => expr(1)?.map(Message::Stream),
            Some("pipe") => Some(Message::Pipe),
            Some("pull") => id().map(Message::Pull),
            Some("resolve") => id().zip(expr(2)?).map(|(id, e)| Message::Resolve(id, e)),
            Some("reject") => id().zip(expr(2)?).map(|(id, e)| Message::Reject(id, e)),
            Some("release") => {
                let count = items.get(2).and_then(Raw::as_integer);
                let count = count.and_then(|count| u64::try_from(count).ok());
                let count = count.filter(|count| *count > 0);
                id().zip(count).map(|(id, n)| Message::Release(id, n))
            }
            Some("abort") => Some(Message::Abort(expr(1)?.unwrap_or(Expr::Undefined))),
            _ => None,
        })
    }

    fn expr(&self, json: &Raw<'_>, depth: usize) -> Result<Expr, DecodeError> {
        if depth >= self.limits.depth {
            return Err(DecodeError::TooDeep(self.limits.depth));
        }
        Ok(match json {
            Raw::Null => Expr::Null,
            Raw::Bool(value) => Expr::Bool(*value),
            Raw::Number(number) => Expr::Number(*number),
            Raw::String(text) => Expr::String(text.to_string()),
            Raw::Object(fields) => Expr::Object(self.fields(fields, depth + 1)?),
            Raw::Array(items) => match items.as_slice() {
                [Raw::Array(inner)] => Expr::Array(self.list(inner, depth + 1)?),
                items => self.form(items, depth)?.ok_or_else(|| form(json))?,
            },
        })
    }

    fn list(&self, items: &[Raw<'_>], depth: usize) -> Result<Vec<Expr>, DecodeError> {
        items.iter().map(|item| self.expr(item, depth)).collect()
    }

    fn fields(
        &self,
        fields: &[Field<'_>],
        depth: usize,
    ) -> Result<Vec<(String, Expr)>, DecodeError> {
        let read = |(key, value): &Field<'_>| Ok((key.to_string(), self.expr(value, depth)?));
        fields.iter().map(read).collect()
    }

    /// Reads a tagged array; `None` if it is no form of the protocol.
    fn form(&self, items: &[Raw<'_>], depth: usize) -> Read {
        let tag = items.first().and_then(Raw::as_str);
        let text = || items.get(1).and_then(Raw::as_str);
        let negative = || items.get(1).and_then(Raw::as_integer).filter(|id| *id < 0);
        match tag {
            Some("undefined") => Ok((items.len() == 1).then_some(Expr::Undefined)),
            Some("inf") => Ok(Some(Expr::Number(f64::INFINITY))),
            Some("-inf") => Ok(Some(Expr::Number(f64::NEG_INFINITY))),
            Some("nan") => Ok(Some(Expr::Number(f64::NAN))),
            Some("bigint") => self.bigint(text()),
            Some("date") => Ok(match items.get(1) {
                Some(Raw::Null) => Some(Expr::Date(None)),
                Some(Raw::Number(time)) => Some(Expr::Date(Some(*time).filter(|t| t.is_finite()))),
                _ => None,
            }),
            Some("bytes") => Ok(bytes(items)),
            Some("error") => self.error(items, depth),
            Some("url") if items.len() == 2 => Ok(text().map(|href| Expr::Url(href.to_owned()))),
            Some("headers") if items.len() == 2 => Ok(pairs(&items[1]).map(Expr::Headers)),
            Some("request") => self.request(items, depth),
            Some("response") => self.response(items, depth),
            Some("blob") => Ok(blob(items)),
            Some("import") => Ok(self.reference(items, depth)?.map(Expr::Import)),
            Some("pipeline") => Ok(self.reference(items, depth)?.map(Expr::Pipeline)),
            Some("remap") => self.remap(items, depth),
            Some("export") => Ok(negative().map(Expr::Export)),
            Some("promise") => Ok(negative().map(Expr::Promise)),
            Some("writable") => Ok(negative().map(Expr::Writable)),
            Some("readable") => Ok(positive(items.get(1)).map(Expr::Readable)),
            _ => Ok(None),
        }
    }

    fn bigint(&self, text: Option<&str>) -> Read {
        let limit = self.limits.bigint_digits;
        if text.is_some_and(|text| text.len() > limit) {
            return Err(DecodeError::TooManyDigits(limit));
        }
        Ok(text.and_then(|text| text.parse().ok()).map(Expr::BigInt))
    }

    fn error(&self, items: &[Raw<'_>], depth: usize) -> Read {
        let [_, Raw::String(name), Raw::String(message), rest @ ..] = items else {
            return Ok(None);
        };
        let props = match rest.get(1) {
            None => Vec::new(),
            Some(Raw::Object(fields)) => self.fields(fields, depth + 1)?,
            Some(_) => return Ok(None),
        };
        Ok(Some(Expr::Error(Box::new(ErrorExpr {
            name: name.to_string(),
            message: message.to_string(),
            stack: rest.first().and_then(Raw::as_str).map(str::to_owned),
            props,
        }))))
    }

    fn request(&self, items: &[Raw<'_>], depth: usize) -> Read {
        let [_, Raw::String(url), Raw::Object(fields)] = items else {
            return Ok(None);
        };
        let Some(mut init) = http_init(fields) else {
            return Ok(None);
        };
        if let Some((_, json)) = fields.iter().find(|(key, _)| key == "body") {
            init.body = self.body(json, "Request", depth)?;
        }
        Ok(Some(Expr::Request(url.to_string(), Box::new(init))))
    }

    fn response(&self, items: &[Raw<'_>], depth: usize) -> Read {
        let [_, body, Raw::Object(fields)] = items else {
            return Ok(None);
        };
        let Some(mut init) = http_init(fields) else {
            return Ok(None);
        };
        init.body = self.body(body, "Response", depth)?;
        Ok(Some(Expr::Response(Box::new(init))))
    }

    fn body(&self, json: &Raw<'_>, of: &'static str, depth: usize) -> Read {
        let body = self.expr(json, depth + 1)?;
        if matches!(body, Expr::Null) {
            return Ok(None);
        }
        let fits = matches!(body, Expr::String(_) | Expr::Bytes(_) | Expr::Readable(_));
        if fits {
            return Ok(Some(body));
        }
        Err(DecodeError::Body(of))
    }

    fn reference(
        &self,
        items: &[Raw<'_>],
        depth: usize,
    ) -> Result<Option<Box<RefExpr>>, DecodeError> {
        let Some(id) = items.get(1).and_then(Raw::as_integer) else {
            return Ok(None);
        };
        let (keys, args) = match items {
            [_, _] => (None, None),
            [_, _, Raw::Array(keys)] => (Some(keys), None),
            [_, _, Raw::Array(keys), Raw::Array(args)] => (Some(keys), Some(args)),
            _ => return Ok(None),
        };
        let path = match keys.map(|keys| path(keys)) {
            None => None,
            Some(Some(path)) => Some(path),
            Some(None) => return Ok(None),
        };
        let args = args.map(|args| self.list(args, depth + 1)).transpose()?;
        Ok(Some(Box::new(RefExpr { id, path, args })))
    }

    fn remap(&self, items: &[Raw<'_>], depth: usize) -> Read {
        let [_, id, Raw::Array(keys), Raw::Array(captures), Raw::Array(instructions)] = items
        else {
            return Ok(None);
        };
        let (Some(id), Some(path)) = (id.as_integer(), path(keys)) else {
            return Ok(None);
        };
        let captures: Option<Vec<_>> = captures.iter().map(capture).collect();
        let Some(captures) = captures else {
            return Ok(None);
        };
        let instructions = self.list(instructions, depth + 1)?;
        Ok(Some(Expr::Remap(Box::new(RemapExpr { id, path, captures, instructions }))))
    }
}

fn capture(json: &Raw<'_>) -> Option<Expr> {
    let Raw::Array(items) = json else {
        return None;
    };
    let [tag, id] = items.as_slice() else {
        return None;
    };
    let id = id.as_integer()?;
    match tag.as_str()? {
        "import" => Some(Expr::Import(Box::new(RefExpr { id, path: None, args: None }))),
        "export" if id < 0 => Some(Expr::Export(id)),
        _ => None,
    }
}

fn path(keys: &[Raw<'_>]) -> Option<Vec<Key>> {
    let key = |json: &Raw<'_>| match json {
        Raw::String(name) => Some(Key::Name(name.as_ref().into())),
        Raw::Number(number) if number.is_finite() => Some(Key::Index(*number)),
        Raw::Null | Raw::Bool(_) | Raw::Number(_) | Raw::Array(_) | Raw::Object(_) => None,
    };
    keys.iter().map(key).collect()
}

fn positive(json: Option<&Raw<'_>>) -> Option<i64> {
    json.and_then(Raw::as_integer).filter(|id| *id > 0)
}

fn bytes(items: &[Raw<'_>]) -> Option<Expr> {
    let data = binary::from_base64(items.get(1)?.as_str()?)?;
    let kind = match items.get(2) {
        None => BytesKind::Uint8Array,
        Some(name) => BytesKind::find(name.as_str()?)?,
    };
    let whole = data.len().is_multiple_of(kind.element_bytes());
    whole.then_some(Expr::Bytes(Bytes { data, kind }))
}

fn blob(items: &[Raw<'_>]) -> Option<Expr> {
    let [_, Raw::String(kind), Raw::Array(content)] = items else {
        return None;
    };
    let [Raw::String(tag), id, ..] = content.as_slice() else {
        return None;
    };
    let id = positive(Some(id)).filter(|_| tag == "readable")?;
    Some(Expr::Blob(kind.to_string(), id))
}

fn pairs(json: &Raw<'_>) -> Option<Vec<(String, String)>> {
    let Raw::Array(items) = json else {
        return None;
    };
    let pair = |item: &Raw<'_>| {
        let Raw::Array(pair) = item else {
            return None;
        };
        match pair.as_slice() {
            [Raw::String(name), Raw::String(value)] => Some((name.to_string(), value.to_string())),
            _ => None,
        }
    };
    items.iter().map(pair).collect()
}

/// Reads everything but the body; signals and sockets cannot be sent.
fn http_init(fields: &[Field<'_>]) -> Option<HttpInit> {
    let mut init = HttpInit::default();
    for (key, value) in fields {
        match key.as_ref() {
            "body" => {}
            "headers" => init.headers = pairs(value)?,
            "signal" | "webSocket" if *value != Raw::Null => return None,
            _ => init.fields.push((key.to_string(), value.to_json())),
        }
    }
    Some(init)
}
