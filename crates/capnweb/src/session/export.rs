//! From values to expressions: what is ours is introduced, what is the peer's is named.

use std::sync::Arc;

use super::cell::{Cell, Outcome, State};
use super::deliver::Room;
use super::hook::{Hook, RemoteRef};
use super::pipe::{Chunk, Consumer, Outflow, Pipe};
use super::stub::{Promise, Stub};
use super::table::Debt;
use super::turn::{Session, limit};
use super::work::{Waiter, Work};
use crate::error::RpcError;
use crate::value::{Http, Value};
use crate::wire::{Bytes, ErrorExpr, Expr, HttpInit, Message, Profile, RefExpr};

/// What an expression brought about while it was made.
pub(super) struct Made {
    /// Exports that it introduced.
    pub(super) ids: Vec<i64>,
    /// What promises may still put into it.
    room: Room,
}

impl Session {
    /// Sends how an export settled, unless the peer gave it back meanwhile.
    pub(super) fn answer(&mut self, id: i64, outcome: Outcome) {
        let Some(export) = self.tables.pay(id) else {
            return;
        };
        let once = export.once;
        let outcome = match outcome {
            Ok(value) => self.send_value(value, |expr| Message::Resolve(id, expr)).map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            let plain = Expr::Error(Box::new(plain_error(&error)));
            let value = Value::Error(Box::new(error));
            let sent = self.send_value(value, |expr| Message::Reject(id, expr));
            // What cannot be told whole is told in part.
            let told = sent.or_else(|_| self.send(&Message::Reject(id, plain)));
            if told.is_err() {
                self.abort(&RpcError::coded("slow", "too many answers wait for the peer"));
                return;
            }
        }
        if once {
            self.tables.release(id, 1).ok();
        }
    }

    /// Begins an expression.
    pub(super) fn made(&self) -> Made {
        let limits = &self.options.limits;
        let room = Room { values: limits.substituted_values, bytes: limits.substituted_bytes };
        Made { ids: Vec::new(), room }
    }

    /// Sends a message around a value; if it cannot be sent, nothing stays introduced.
    pub(super) fn send_value(
        &mut self,
        value: Value,
        message: impl FnOnce(Expr) -> Message,
    ) -> Result<usize, RpcError> {
        let mut made = self.made();
        let sent = match self.export(value, &mut made, 0) {
            Ok(expr) => self.send(&message(expr)),
            Err(error) => Err(error),
        };
        if sent.is_err() {
            for id in made.ids {
                self.tables.release(id, 1).ok();
            }
        }
        sent
    }

    /// Makes an expression of a value; `made` collects the exports it introduced.
    pub(super) fn export(
        &mut self,
        value: Value,
        made: &mut Made,
        depth: usize,
    ) -> Result<Expr, RpcError> {
        if depth >= self.options.limits.wire.depth {
            let message = "Serialization exceeded maximum allowed depth.";
            return Err(RpcError::new("Error", message));
        }
        let deeper = depth + 1;
        Ok(match value {
            Value::Undefined => Expr::Undefined,
            Value::Null => Expr::Null,
            Value::Bool(value) => Expr::Bool(value),
            Value::Number(number) => Expr::Number(number),
            Value::String(text) => Expr::String(text),
            Value::Array(items) => {
                let items = items.into_iter().map(|item| self.export(item, made, deeper));
                Expr::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => Expr::Object(self.export_fields(fields, made, deeper)?),
            Value::BigInt(number) => Expr::BigInt(number),
            Value::Date(time) => Expr::Date(time),
            Value::Bytes(bytes) => Expr::Bytes(bytes),
            Value::Error(error) => Expr::Error(Box::new(ErrorExpr {
                name: error.name,
                message: error.message,
                stack: None,
                props: self.export_fields(error.props, made, deeper)?,
            })),
            Value::Url(href) => Expr::Url(href),
            Value::Headers(pairs) => Expr::Headers(pairs),
            Value::Request(url, http) => {
                let init = self.export_http(*http, made, deeper)?;
                Expr::Request(url, Box::new(init))
            }
            Value::Response(http) => {
                Expr::Response(Box::new(self.export_http(*http, made, deeper)?))
            }
            Value::Blob(kind, data) => self.export_blob(kind, &data)?,
            Value::Stub(stub) => self.export_stub(&stub, made)?,
            Value::Promise(promise) => self.export_promise(&promise, made, depth)?,
            Value::Readable(readable) => self.export_pipe(readable.0.pipe()).map(Expr::Readable)?,
            Value::Writable(writable) => {
                self.knows_streams()?;
                self.room_for_export()?;
                writable.0.pipe().attach(None, &self.mailbox);
                let id = self.tables.add_export(Hook::Sink(writable.0.clone()));
                made.ids.push(id);
                Expr::Writable(id)
            }
        })
    }

    fn export_fields(
        &mut self,
        fields: Vec<(String, Value)>,
        made: &mut Made,
        depth: usize,
    ) -> Result<Vec<(String, Expr)>, RpcError> {
        let mut exported = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            exported.push((key, self.export(value, made, depth)?));
        }
        Ok(exported)
    }

    fn export_http(
        &mut self,
        http: Http,
        made: &mut Made,
        depth: usize,
    ) -> Result<HttpInit, RpcError> {
        Ok(HttpInit {
            headers: http.headers,
            body: http.body.map(|body| self.export(body, made, depth)).transpose()?,
            fields: http.fields,
        })
    }

    fn is_foreign(&self, stub: &Stub) -> bool {
        let portable = matches!(stub.hook, Hook::Target(_) | Hook::Method(..));
        let home = stub.home.as_ref();
        !portable && home.is_some_and(|home| !home.is(&self.mailbox))
    }

    /// Returns the hook to keep for a stub of any session.
    pub(super) fn hook_of(&self, stub: &Stub) -> Hook {
        if self.is_foreign(stub) {
            return Hook::Foreign(Box::new(stub.clone()));
        }
        stub.hook.clone()
    }

    fn export_stub(&mut self, stub: &Stub, made: &mut Made) -> Result<Expr, RpcError> {
        let hook = self.hook_of(stub);
        if let Hook::Remote(remote) = hook {
            return Ok(Expr::Import(Box::new(whole(remote.id()))));
        }
        self.room_for_export()?;
        let id = self.tables.add_export(hook);
        made.ids.push(id);
        Ok(Expr::Export(id))
    }

    fn export_promise(
        &mut self,
        promise: &Promise,
        made: &mut Made,
        depth: usize,
    ) -> Result<Expr, RpcError> {
        let cell = self.local(promise).root();
        let settled = match &*cell.lock() {
            State::Done(Ok(value)) => {
                made.room.pay(value)?;
                Some(value.clone())
            }
            State::Pending(pending) => {
                if let Some(remote) = &pending.remote {
                    return Ok(Expr::Pipeline(Box::new(whole(remote.id()))));
                }
                None
            }
            State::Done(Err(_)) | State::Forward(_) => None,
        };
        if let Some(value) = settled {
            return self.export(value, made, depth);
        }
        if self.tables.owed(Debt::Promise) >= self.options.limits.exports {
            return Err(limit("too many promises are owed to the peer"));
        }
        self.room_for_export()?;
        let id = self.tables.add_export(Hook::Cell(cell.clone()));
        made.ids.push(id);
        self.tables.owe(id, Debt::Promise);
        self.wait(&cell, Waiter::Resolve(id));
        Ok(Expr::Promise(id))
    }

    fn knows_streams(&self) -> Result<(), RpcError> {
        if self.options.profile == Profile::V0_4 {
            return Err(RpcError::type_error("the peer does not understand streams"));
        }
        Ok(())
    }

    /// Makes a pipe at the peer and lets the stream flow into it.
    fn export_pipe(&mut self, pipe: &Pipe) -> Result<i64, RpcError> {
        self.knows_streams()?;
        if !matches!(pipe.lock().consumer, Consumer::Reader) {
            return Err(RpcError::type_error("the stream was passed on before"));
        }
        self.send(&Message::Pipe)?;
        let remote = RemoteRef::new(self.tables.next_push(), &self.mailbox);
        let id = remote.id();
        self.tables.add_import(&remote, None);
        pipe.attach(
            Some(Consumer::Peer(Outflow::to(remote, self.options.limits.stream_window))),
            &self.mailbox,
        );
        self.work.push_back(Work::Pump(pipe.clone()));
        Ok(id)
    }

    fn export_blob(&mut self, kind: String, data: &[u8]) -> Result<Expr, RpcError> {
        let pipe = Pipe::new(Consumer::Reader, Some(Arc::clone(&self.mailbox)));
        let mut flow = pipe.lock();
        for part in data.chunks(64 * 1024) {
            let value = Value::Bytes(Bytes::from(part.to_vec()));
            flow.chunks.push_back(Chunk { value, taken: None, charge: None });
        }
        flow.end = Some(Ok(()));
        drop(flow);
        let id = self.export_pipe(&pipe)?;
        Ok(Expr::Blob(kind, id))
    }

    /// Sends an expression as a push; the result is a promise of the peer's.
    pub(super) fn push_out(&mut self, expr: Expr) -> Result<Cell, RpcError> {
        self.send(&Message::Push(expr))?;
        let remote = RemoteRef::new(self.tables.next_push(), &self.mailbox);
        let cell = Cell::remote(remote.clone(), false);
        self.tables.add_import(&remote, Some(&cell));
        Ok(cell)
    }
}

fn whole(id: i64) -> RefExpr {
    let (path, args) = (None, None);
    RefExpr { id, path, args }
}

/// Returns an error with those properties that are texts.
pub(super) fn plain_error(error: &RpcError) -> ErrorExpr {
    let plain = |(key, value): &(String, Value)| {
        let text = value.as_str()?.to_owned();
        Some((key.clone(), Expr::String(text)))
    };
    ErrorExpr {
        name: error.name.clone(),
        message: error.message.clone(),
        stack: None,
        props: error.props.iter().filter_map(plain).collect(),
    }
}
