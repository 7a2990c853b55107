//! Reading messages, and refusing what is not one.

use std::borrow::Cow;

use super::{
    BytesKind, ErrorExpr, Expr, HttpInit, PathKey, RefExpr, RemapExpr, TypedBytes, WireMessage,
};
use super::{WireLimits, typed_bytes};
use crate::json::{self, JsonError, RawJson};

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

fn quote_json(json: &RawJson<'_>) -> String {
    let text = json.to_json().to_string();
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((place, _)) => format!("{}…", &text[..place]),
        None => text,
    }
}

fn form_error(json: &RawJson<'_>) -> DecodeError {
    DecodeError::Form(quote_json(json))
}

pub(super) fn decode_message(text: &str, limits: &WireLimits) -> Result<WireMessage, DecodeError> {
    if text.len() > limits.message_bytes {
        return Err(DecodeError::TooLong(limits.message_bytes));
    }
    // One value within another takes at most two brackets.
    let json = json::parse_raw_json(text, 2 * limits.depth + 4, limits.values)?;
    let reader = MessageReader { limits };
    match reader.message(&json) {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(DecodeError::Message(quote_json(&json))),
        Err(error) => Err(error),
    }
}

struct MessageReader<'a> {
    limits: &'a WireLimits,
}

type MessageField<'a> = (Cow<'a, str>, RawJson<'a>);
type DecodedExpr = Result<Option<Expr>, DecodeError>;

impl MessageReader<'_> {
    fn message(&self, json: &RawJson<'_>) -> Result<Option<WireMessage>, DecodeError> {
        let RawJson::Array(items) = json else {
            return Ok(None);
        };
        let id = || items.get(1).and_then(RawJson::as_integer);
        let expr = |place: usize| items.get(place).map(|item| self.expr(item, 0)).transpose();
        Ok(match items.first().and_then(RawJson::as_str) {
            Some("push") => expr(1)?.map(WireMessage::Push),
            Some("stream") => expr(1)?.map(WireMessage::Stream),
            Some("pipe") => Some(WireMessage::Pipe),
            Some("pull") => id().map(WireMessage::Pull),
            Some("resolve") => id().zip(expr(2)?).map(|(id, e)| WireMessage::Resolve(id, e)),
            Some("reject") => id().zip(expr(2)?).map(|(id, e)| WireMessage::Reject(id, e)),
            Some("release") => {
                let count = items.get(2).and_then(RawJson::as_integer);
                let count = count.and_then(|count| u64::try_from(count).ok());
                let count = count.filter(|count| *count > 0);
                id().zip(count).map(|(id, n)| WireMessage::Release(id, n))
            }
            Some("abort") => Some(WireMessage::Abort(expr(1)?.unwrap_or(Expr::Undefined))),
            _ => None,
        })
    }

    fn expr(&self, json: &RawJson<'_>, depth: usize) -> Result<Expr, DecodeError> {
        if depth >= self.limits.depth {
            return Err(DecodeError::TooDeep(self.limits.depth));
        }
        Ok(match json {
            RawJson::Null => Expr::Null,
            RawJson::Bool(value) => Expr::Bool(*value),
            RawJson::Number(number) => Expr::Number(*number),
            RawJson::String(text) => Expr::String(text.to_string()),
            RawJson::Object(fields) => Expr::Object(self.fields(fields, depth + 1)?),
            RawJson::Array(items) => match items.as_slice() {
                [RawJson::Array(inner)] => Expr::Array(self.list(inner, depth + 1)?),
                items => self.tagged_expr(items, depth)?.ok_or_else(|| form_error(json))?,
            },
        })
    }

    fn list(&self, items: &[RawJson<'_>], depth: usize) -> Result<Vec<Expr>, DecodeError> {
        items.iter().map(|item| self.expr(item, depth)).collect()
    }

    fn fields(
        &self,
        fields: &[MessageField<'_>],
        depth: usize,
    ) -> Result<Vec<(String, Expr)>, DecodeError> {
        let read =
            |(key, value): &MessageField<'_>| Ok((key.to_string(), self.expr(value, depth)?));
        fields.iter().map(read).collect()
    }

    /// Reads a tagged array; `None` if it is no form of the protocol.
    fn tagged_expr(&self, items: &[RawJson<'_>], depth: usize) -> DecodedExpr {
        let tag = items.first().and_then(RawJson::as_str);
        let text = || items.get(1).and_then(RawJson::as_str);
        let negative = || items.get(1).and_then(RawJson::as_integer).filter(|id| *id < 0);
        match tag {
            Some("undefined") => Ok((items.len() == 1).then_some(Expr::Undefined)),
            Some("inf") => Ok(Some(Expr::Number(f64::INFINITY))),
            Some("-inf") => Ok(Some(Expr::Number(f64::NEG_INFINITY))),
            Some("nan") => Ok(Some(Expr::Number(f64::NAN))),
            Some("bigint") => self.bigint(text()),
            Some("date") => Ok(match items.get(1) {
                Some(RawJson::Null) => Some(Expr::Date(None)),
                Some(RawJson::Number(time)) => {
                    Some(Expr::Date(Some(*time).filter(|t| t.is_finite())))
                }
                _ => None,
            }),
            Some("bytes") => Ok(bytes(items)),
            Some("error") => self.error(items, depth),
            Some("url") if items.len() == 2 => Ok(text().map(|href| Expr::Url(href.to_owned()))),
            Some("headers") if items.len() == 2 => Ok(header_pairs(&items[1]).map(Expr::Headers)),
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

    fn bigint(&self, text: Option<&str>) -> DecodedExpr {
        let limit = self.limits.bigint_digits;
        if text.is_some_and(|text| text.len() > limit) {
            return Err(DecodeError::TooManyDigits(limit));
        }
        Ok(text.and_then(|text| text.parse().ok()).map(Expr::BigInt))
    }

    fn error(&self, items: &[RawJson<'_>], depth: usize) -> DecodedExpr {
        let [_, RawJson::String(name), RawJson::String(message), rest @ ..] = items else {
            return Ok(None);
        };
        let props = match rest.get(1) {
            None => Vec::new(),
            Some(RawJson::Object(fields)) => self.fields(fields, depth + 1)?,
            Some(_) => return Ok(None),
        };
        Ok(Some(Expr::Error(Box::new(ErrorExpr {
            name: name.to_string(),
            message: message.to_string(),
            stack: rest.first().and_then(RawJson::as_str).map(str::to_owned),
            props,
        }))))
    }

    fn request(&self, items: &[RawJson<'_>], depth: usize) -> DecodedExpr {
        let [_, RawJson::String(url), RawJson::Object(fields)] = items else {
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

    fn response(&self, items: &[RawJson<'_>], depth: usize) -> DecodedExpr {
        let [_, body, RawJson::Object(fields)] = items else {
            return Ok(None);
        };
        let Some(mut init) = http_init(fields) else {
            return Ok(None);
        };
        init.body = self.body(body, "Response", depth)?;
        Ok(Some(Expr::Response(Box::new(init))))
    }

    fn body(&self, json: &RawJson<'_>, of: &'static str, depth: usize) -> DecodedExpr {
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
        items: &[RawJson<'_>],
        depth: usize,
    ) -> Result<Option<Box<RefExpr>>, DecodeError> {
        let Some(id) = items.get(1).and_then(RawJson::as_integer) else {
            return Ok(None);
        };
        let (keys, args) = match items {
            [_, _] => (None, None),
            [_, _, RawJson::Array(keys)] => (Some(keys), None),
            [_, _, RawJson::Array(keys), RawJson::Array(args)] => (Some(keys), Some(args)),
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

    fn remap(&self, items: &[RawJson<'_>], depth: usize) -> DecodedExpr {
        let [_, id, RawJson::Array(keys), RawJson::Array(captures), RawJson::Array(instructions)] =
            items
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

fn capture(json: &RawJson<'_>) -> Option<Expr> {
    let RawJson::Array(items) = json else {
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

fn path(keys: &[RawJson<'_>]) -> Option<Vec<PathKey>> {
    let key = |json: &RawJson<'_>| match json {
        RawJson::String(name) => Some(PathKey::Name(name.as_ref().into())),
        RawJson::Number(number) if number.is_finite() => Some(PathKey::Index(*number)),
        RawJson::Null
        | RawJson::Bool(_)
        | RawJson::Number(_)
        | RawJson::Array(_)
        | RawJson::Object(_) => None,
    };
    keys.iter().map(key).collect()
}

fn positive(json: Option<&RawJson<'_>>) -> Option<i64> {
    json.and_then(RawJson::as_integer).filter(|id| *id > 0)
}

fn bytes(items: &[RawJson<'_>]) -> Option<Expr> {
    let data = typed_bytes::from_base64(items.get(1)?.as_str()?)?;
    let kind = match items.get(2) {
        None => BytesKind::Uint8Array,
        Some(name) => BytesKind::find(name.as_str()?)?,
    };
    let whole = data.len().is_multiple_of(kind.element_bytes());
    whole.then_some(Expr::Bytes(TypedBytes { data, kind }))
}

fn blob(items: &[RawJson<'_>]) -> Option<Expr> {
    let [_, RawJson::String(kind), RawJson::Array(content)] = items else {
        return None;
    };
    let [RawJson::String(tag), id, ..] = content.as_slice() else {
        return None;
    };
    let id = positive(Some(id)).filter(|_| tag == "readable")?;
    Some(Expr::Blob(kind.to_string(), id))
}

fn header_pairs(json: &RawJson<'_>) -> Option<Vec<(String, String)>> {
    let RawJson::Array(items) = json else {
        return None;
    };
    let pair = |item: &RawJson<'_>| {
        let RawJson::Array(pair) = item else {
            return None;
        };
        match pair.as_slice() {
            [RawJson::String(name), RawJson::String(value)] => {
                Some((name.to_string(), value.to_string()))
            }
            _ => None,
        }
    };
    items.iter().map(pair).collect()
}

/// Reads everything but the body; signals and sockets cannot be sent.
fn http_init(fields: &[MessageField<'_>]) -> Option<HttpInit> {
    let mut init = HttpInit::default();
    for (key, value) in fields {
        match key.as_ref() {
            "body" => {}
            "headers" => init.headers = header_pairs(value)?,
            "signal" | "webSocket" if *value != RawJson::Null => return None,
            _ => init.fields.push((key.to_string(), value.to_json())),
        }
    }
    Some(init)
}
