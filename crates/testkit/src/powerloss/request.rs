//! One call with its arguments taken apart, and errors that name the call.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

use super::{RecordError, log::Call, value};

pub(crate) struct Request<'a> {
    pub(crate) call: &'a Call<'a>,
    args: Vec<&'a str>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(call: &'a Call<'a>) -> Self {
        Self { call, args: value::split(&call.args) }
    }

    /// The argument as it stands; empty if the call has fewer.
    pub(crate) fn text(&self, index: usize) -> &'a str {
        self.args.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn number(&self, index: usize) -> Result<i64, RecordError> {
        value::number(self.text(index)).ok_or_else(|| self.syntax())
    }

    pub(crate) fn unsigned(&self, index: usize) -> Result<u64, RecordError> {
        self.number(index)?.try_into().map_err(|_| self.syntax())
    }

    pub(crate) fn path(&self, index: usize) -> Result<PathBuf, RecordError> {
        let bytes = value::bytes(self.text(index)).map_err(|_| self.syntax())?;
        Ok(OsString::from_vec(bytes).into())
    }

    /// The bytes of a buffer or of an array of buffers, as far as the call has taken them.
    pub(crate) fn data(&self, index: usize) -> Result<Vec<u8>, RecordError> {
        let token = self.text(index);
        let decoded =
            if token.starts_with('[') { value::vector(token) } else { value::bytes(token) };
        let mut data = decoded.map_err(|_| self.syntax())?;
        let taken = self.result() as usize;
        if data.len() < taken {
            return Err(self.unsupported("more data than strace was asked to print"));
        }
        data.truncate(taken);
        Ok(data)
    }

    pub(crate) fn has(&self, index: usize, flag: &str) -> bool {
        value::has_flag(self.text(index), flag)
    }

    /// What the call returned; 0 for a call that has not returned.
    pub(crate) fn result(&self) -> i64 {
        self.call.result.unwrap_or_default()
    }

    /// The edge at which a call that changes files came back.
    ///
    /// # Errors
    ///
    /// It never did: whether the change took place is unknown.
    pub(crate) fn end(&self) -> Result<usize, RecordError> {
        self.call.end.ok_or_else(|| RecordError::Unfinished { call: self.call.describe() })
    }

    pub(crate) fn syntax(&self) -> RecordError {
        RecordError::Syntax { line: self.call.line, text: self.call.describe() }
    }

    pub(crate) fn unsupported(&self, why: &'static str) -> RecordError {
        RecordError::Unsupported { call: self.call.describe(), why }
    }
}
