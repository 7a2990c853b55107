//! One call with its arguments taken apart, and errors that name the call.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use super::{RecordError, strace_log::TracedCall, strace_value};

pub(crate) struct CallArgs<'a> {
    pub(crate) call: &'a TracedCall<'a>,
    args: Vec<&'a str>,
}

impl<'a> CallArgs<'a> {
    pub(crate) fn new(call: &'a TracedCall<'a>) -> Self {
        Self { call, args: strace_value::split_args(&call.args) }
    }

    /// The argument as printed; empty if the call has fewer.
    pub(crate) fn text(&self, index: usize) -> &'a str {
        self.args.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn number(&self, index: usize) -> Result<i64, RecordError> {
        strace_value::parse_number(self.text(index)).ok_or_else(|| self.syntax_error())
    }

    pub(crate) fn unsigned(&self, index: usize) -> Result<u64, RecordError> {
        self.number(index)?.try_into().map_err(|_| self.syntax_error())
    }

    pub(crate) fn path(&self, index: usize) -> Result<PathBuf, RecordError> {
        let bytes =
            strace_value::decode_string(self.text(index)).map_err(|_| self.syntax_error())?;
        Ok(OsString::from_vec(bytes).into())
    }

    /// The bytes of a buffer or of an array of buffers, as far as the call has taken them.
    pub(crate) fn data(&self, index: usize) -> Result<Vec<u8>, RecordError> {
        let token = self.text(index);
        let decoded = if token.starts_with('[') {
            strace_value::decode_iovec(token)
        } else {
            strace_value::decode_string(token)
        };
        let mut data = decoded.map_err(|_| self.syntax_error())?;
        let taken = self.result() as usize;
        if data.len() < taken {
            return Err(self.unsupported_error("more data than strace was asked to print"));
        }
        data.truncate(taken);
        Ok(data)
    }

    pub(crate) fn has(&self, index: usize, flag: &str) -> bool {
        strace_value::has_flag(self.text(index), flag)
    }

    /// What the call returned; 0 for a call that has not returned.
    pub(crate) fn result(&self) -> i64 {
        self.call.result.unwrap_or_default()
    }

    /// The edge at which a call that changes files returned.
    ///
    /// # Errors
    ///
    /// It never did: whether the change took place is unknown.
    pub(crate) fn end_edge(&self) -> Result<usize, RecordError> {
        self.call.end.ok_or_else(|| RecordError::Unfinished { call: self.call.describe() })
    }

    pub(crate) fn syntax_error(&self) -> RecordError {
        RecordError::Syntax { line: self.call.line, text: self.call.describe() }
    }

    pub(crate) fn unsupported_error(&self, why: &'static str) -> RecordError {
        RecordError::Unsupported { call: self.call.describe(), why }
    }
}
