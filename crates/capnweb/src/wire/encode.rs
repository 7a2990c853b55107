//! Printing messages, for a peer of a profile.

use super::{
    BytesKind, ErrorExpr, Expr, HttpInit, PathKey, PeerVersion, RefExpr, TypedBytes, WireMessage,
};
use super::{RemapExpr, WireLimits, typed_bytes};
use crate::json::{Json, write_integer, write_number, write_string};

/// Why a message cannot be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The peer of this profile would end the session.
    #[error("the peer does not understand {0}")]
    UnknownToPeer(&'static str),
    /// Values within values beyond the limit.
    #[error("the value is nested too deeply")]
    TooDeep,
    /// Longer than what may still be sent.
    #[error("the message is too long")]
    TooLong,
}

type EncodeResult = Result<(), EncodeError>;

pub(super) struct MessageWriter<'a> {
    out: &'a mut String,
    profile: PeerVersion,
    max_depth: usize,
    max_bytes: usize,
}

/// Fields that npm prints before headers and body.
const FIRST_FIELDS: [&str; 3] = ["method", "status", "statusText"];

impl<'a> MessageWriter<'a> {
    /// Prints to `out` at most `max_bytes`; what is longer is an error soon after.
    pub(super) fn new(
        profile: PeerVersion,
        limits: &WireLimits,
        max_bytes: usize,
        out: &'a mut String,
    ) -> Self {
        let max_depth = limits.depth;
        Self { out, profile, max_depth, max_bytes }
    }

    pub(super) fn message(&mut self, message: &WireMessage) -> EncodeResult {
        self.write_message(message)?;
        self.check_room(0)
    }

    /// Fails if there is no room for that many bytes.
    fn check_room(&self, bytes: usize) -> EncodeResult {
        if self.out.len().saturating_add(bytes) > self.max_bytes {
            return Err(EncodeError::TooLong);
        }
        Ok(())
    }

    fn write_message(&mut self, message: &WireMessage) -> EncodeResult {
        match message {
            WireMessage::Push(expr) => self.tagged("[\"push\",", expr),
            WireMessage::Stream(expr) => {
                self.require_current("streams")?;
                self.tagged("[\"stream\",", expr)
            }
            WireMessage::Pipe => {
                self.require_current("streams")?;
                self.out.push_str("[\"pipe\"]");
                Ok(())
            }
            WireMessage::Pull(id) => {
                self.tag_id("pull", *id);
                Ok(())
            }
            WireMessage::Release(id, count) => {
                self.out.push_str("[\"release\",");
                write_integer(*id, self.out);
                self.out.push(',');
                write_integer(i64::try_from(*count).unwrap_or(i64::MAX), self.out);
                self.out.push(']');
                Ok(())
            }
            WireMessage::Resolve(id, expr) => self.tagged_with_id("[\"resolve\",", *id, expr),
            WireMessage::Reject(id, expr) => self.tagged_with_id("[\"reject\",", *id, expr),
            WireMessage::Abort(expr) => self.tagged("[\"abort\",", expr),
        }
    }

    fn tagged(&mut self, open: &str, expr: &Expr) -> EncodeResult {
        self.out.push_str(open);
        self.expr(expr, 0)?;
        self.out.push(']');
        Ok(())
    }

    fn tagged_with_id(&mut self, open: &str, id: i64, expr: &Expr) -> EncodeResult {
        self.out.push_str(open);
        write_integer(id, self.out);
        self.tagged(",", expr)
    }

    /// Refuses a form that an older peer does not know.
    fn require_current(&self, what: &'static str) -> EncodeResult {
        if self.profile == PeerVersion::V0_4 {
            return Err(EncodeError::UnknownToPeer(what));
        }
        Ok(())
    }

    fn tag_id(&mut self, tag: &str, id: i64) {
        self.out.push_str("[\"");
        self.out.push_str(tag);
        self.out.push_str("\",");
        write_integer(id, self.out);
        self.out.push(']');
    }

    fn tag_text(&mut self, tag: &str, text: &str) {
        self.out.push_str("[\"");
        self.out.push_str(tag);
        self.out.push_str("\",");
        write_string(text, self.out);
    }

    fn expr(&mut self, expr: &Expr, depth: usize) -> EncodeResult {
        if depth >= self.max_depth {
            return Err(EncodeError::TooDeep);
        }
        self.check_room(0)?;
        match expr {
            Expr::Undefined => self.out.push_str("[\"undefined\"]"),
            Expr::Null => self.out.push_str("null"),
            Expr::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Expr::Number(number) => self.number(*number),
            Expr::String(text) => {
                self.check_room(text.len())?;
                write_string(text, self.out);
            }
            Expr::Array(items) => {
                self.out.push('[');
                self.list(items, depth + 1)?;
                self.out.push(']');
            }
            Expr::Object(fields) => self.object(fields, depth + 1)?,
            Expr::BigInt(number) => {
                self.tag_text("bigint", number.as_str());
                self.out.push(']');
            }
            Expr::Date(time) => self.date(*time)?,
            Expr::Bytes(bytes) => {
                self.check_room(bytes.data.len())?;
                self.bytes(bytes);
            }
            Expr::Error(error) => self.error(error, depth)?,
            Expr::Import(reference) => self.reference("import", reference, depth)?,
            Expr::Pipeline(reference) => self.reference("pipeline", reference, depth)?,
            Expr::Remap(remap) => self.remap(remap, depth)?,
            Expr::Export(id) => self.tag_id("export", *id),
            Expr::Promise(id) => self.tag_id("promise", *id),
            Expr::Url(href) => {
                self.require_current("URLs")?;
                self.tag_text("url", href);
                self.out.push(']');
            }
            Expr::Headers(_) | Expr::Request(..) | Expr::Response(_) => self.fetch(expr, depth)?,
            Expr::Blob(kind, pipe) => {
                self.require_current("blobs")?;
                self.tag_text("blob", kind);
                self.out.push(',');
                self.tag_id("readable", *pipe);
                self.out.push(']');
            }
            Expr::Writable(id) => {
                self.require_current("streams")?;
                self.tag_id("writable", *id);
            }
            Expr::Readable(id) => {
                self.require_current("streams")?;
                self.tag_id("readable", *id);
            }
        }
        Ok(())
    }

    /// Prints the types of `fetch`.
    fn fetch(&mut self, expr: &Expr, depth: usize) -> EncodeResult {
        self.require_current("fetch types")?;
        if let Expr::Headers(pairs) = expr {
            self.out.push_str("[\"headers\",");
            self.pairs(pairs);
        }
        if let Expr::Request(url, init) = expr {
            self.tag_text("request", url);
            self.out.push(',');
            self.init(init, init.body.as_ref(), depth)?;
        }
        if let Expr::Response(init) = expr {
            self.out.push_str("[\"response\",");
            self.expr(init.body.as_ref().unwrap_or(&Expr::Null), depth + 1)?;
            self.out.push(',');
            self.init(init, None, depth)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn number(&mut self, number: f64) {
        if number.is_finite() {
            write_number(number, self.out);
        } else if number.is_nan() {
            self.out.push_str("[\"nan\"]");
        } else if number > 0.0 {
            self.out.push_str("[\"inf\"]");
        } else {
            self.out.push_str("[\"-inf\"]");
        }
    }

    fn date(&mut self, time: Option<f64>) -> EncodeResult {
        match time.filter(|time| time.is_finite()) {
            Some(time) => {
                self.out.push_str("[\"date\",");
                write_number(time, self.out);
                self.out.push(']');
            }
            None => {
                self.require_current("invalid dates")?;
                self.out.push_str("[\"date\",null]");
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &TypedBytes) {
        self.out.push_str("[\"bytes\",\"");
        typed_bytes::write_base64(&bytes.data, self.out);
        self.out.push('"');
        // 0.4 ignores the mark and makes a Uint8Array of everything.
        if bytes.kind != BytesKind::Uint8Array && self.profile == PeerVersion::Current {
            self.out.push_str(",\"");
            self.out.push_str(bytes.kind.name());
            self.out.push('"');
        }
        self.out.push(']');
    }

    fn error(&mut self, error: &ErrorExpr, depth: usize) -> EncodeResult {
        self.tag_text("error", &error.name);
        self.out.push(',');
        write_string(&error.message, self.out);
        if let Some(stack) = &error.stack {
            self.out.push(',');
            write_string(stack, self.out);
        } else if !error.props.is_empty() {
            self.out.push_str(",null");
        }
        if !error.props.is_empty() {
            self.out.push(',');
            self.object(&error.props, depth + 1)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn object(&mut self, fields: &[(String, Expr)], depth: usize) -> EncodeResult {
        self.out.push('{');
        for (index, (key, value)) in fields.iter().enumerate() {
            self.comma(index);
            write_string(key, self.out);
            self.out.push(':');
            self.expr(value, depth)?;
        }
        self.out.push('}');
        Ok(())
    }

    fn comma(&mut self, index: usize) {
        if index > 0 {
            self.out.push(',');
        }
    }

    /// Prints expressions between one pair of brackets.
    fn list(&mut self, items: &[Expr], depth: usize) -> EncodeResult {
        self.out.push('[');
        for (index, item) in items.iter().enumerate() {
            self.comma(index);
            self.expr(item, depth)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn path(&mut self, path: &[PathKey]) {
        self.out.push('[');
        for (index, key) in path.iter().enumerate() {
            self.comma(index);
            match key {
                PathKey::Name(name) => write_string(name, self.out),
                PathKey::Index(number) => write_number(*number, self.out),
            }
        }
        self.out.push(']');
    }

    fn reference(&mut self, tag: &str, reference: &RefExpr, depth: usize) -> EncodeResult {
        self.out.push_str("[\"");
        self.out.push_str(tag);
        self.out.push_str("\",");
        write_integer(reference.id, self.out);
        if reference.path.is_some() || reference.args.is_some() {
            self.out.push(',');
            self.path(reference.path.as_deref().unwrap_or_default());
        }
        if let Some(args) = &reference.args {
            self.out.push(',');
            self.list(args, depth + 1)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn remap(&mut self, remap: &RemapExpr, depth: usize) -> EncodeResult {
        self.out.push_str("[\"remap\",");
        write_integer(remap.id, self.out);
        self.out.push(',');
        self.path(&remap.path);
        self.out.push(',');
        self.list(&remap.captures, depth + 1)?;
        self.out.push(',');
        self.list(&remap.instructions, depth + 1)?;
        self.out.push(']');
        Ok(())
    }

    fn pairs(&mut self, pairs: &[(String, String)]) {
        self.out.push('[');
        for (index, (name, value)) in pairs.iter().enumerate() {
            self.comma(index);
            self.out.push('[');
            write_string(name, self.out);
            self.out.push(',');
            write_string(value, self.out);
            self.out.push(']');
        }
        self.out.push(']');
    }

    fn init(&mut self, init: &HttpInit, body: Option<&Expr>, depth: usize) -> EncodeResult {
        self.out.push('{');
        let mut count = 0;
        let is_first = |key: &str| FIRST_FIELDS.contains(&key);
        for (key, value) in init.fields.iter().filter(|(key, _)| is_first(key)) {
            self.init_field(&mut count, key, value);
        }
        if !init.headers.is_empty() {
            self.comma(count);
            count += 1;
            self.out.push_str("\"headers\":");
            self.pairs(&init.headers);
        }
        if let Some(body) = body {
            self.comma(count);
            count += 1;
            self.out.push_str("\"body\":");
            self.expr(body, depth + 1)?;
        }
        for (key, value) in init.fields.iter().filter(|(key, _)| !is_first(key)) {
            self.init_field(&mut count, key, value);
        }
        self.out.push('}');
        Ok(())
    }

    fn init_field(&mut self, count: &mut usize, key: &str, value: &Json) {
        self.comma(*count);
        *count += 1;
        write_string(key, self.out);
        self.out.push(':');
        value.write(self.out);
    }
}
