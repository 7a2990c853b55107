//! From values to expressions: what is ours is introduced, what is the peer's is named.

use std::sync::Arc;

use super::object_ref::{ObjectRef, RemoteRef};
use super::promise_cell::{PromiseCell, PromiseOutcome, PromiseState};
use super::rpc_session::{RpcSession, limit_error};
use super::session_tables::OwedOutcome;
use super::stream_pipe::{PeerOutflow, StreamChunk, StreamConsumer, StreamPipe};
use super::stub::{Promise, Stub};
use super::value_delivery::SubstitutionBudget;
use super::work_queue::{PromiseWaiter, WorkItem};
use crate::error::RpcError;
use crate::value::{HttpParts, Value};
use crate::wire::{ErrorExpr, Expr, HttpInit, PeerVersion, RefExpr, TypedBytes, WireMessage};

/// What an expression brought about while it was made.
pub(super) struct ExportContext {
    /// Exports that it introduced.
    pub(super) export_ids: Vec<i64>,
    /// What promises may still put into it.
    budget: SubstitutionBudget,
}

impl RpcSession {
    /// Sends how an export settled, unless the peer gave it back meanwhile.
    pub(super) fn send_outcome(&mut self, id: i64, outcome: PromiseOutcome) {
        let Some(export) = self.tables.take_owed(id) else {
            return;
        };
        let once = export.once;
        let outcome = match outcome {
            Ok(value) => self.send_value(value, |expr| WireMessage::Resolve(id, expr)).map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            let plain = Expr::Error(Box::new(plain_error(&error)));
            let value = Value::Error(Box::new(error));
            let sent = self.send_value(value, |expr| WireMessage::Reject(id, expr));
            // What cannot be told whole is told in part.
            let told = sent.or_else(|_| self.queue_message(&WireMessage::Reject(id, plain)));
            if told.is_err() {
                self.abort(&RpcError::with_code("slow", "too many answers wait for the peer"));
                return;
            }
        }
        if once {
            self.tables.release(id, 1).ok();
        }
    }

    /// Begins an expression.
    pub(super) fn new_export_context(&self) -> ExportContext {
        let limits = &self.options.limits;
        let room = SubstitutionBudget {
            values: limits.substituted_values,
            bytes: limits.substituted_bytes,
        };
        ExportContext { export_ids: Vec::new(), budget: room }
    }

    /// Sends a message around a value; if it cannot be sent, nothing stays introduced.
    pub(super) fn send_value(
        &mut self,
        value: Value,
        message: impl FnOnce(Expr) -> WireMessage,
    ) -> Result<usize, RpcError> {
        let mut made = self.new_export_context();
        let sent = match self.export_value(value, &mut made, 0) {
            Ok(expr) => self.queue_message(&message(expr)),
            Err(error) => Err(error),
        };
        if sent.is_err() {
            for id in made.export_ids {
                self.tables.release(id, 1).ok();
            }
        }
        sent
    }

    /// Makes an expression of a value; `made` collects the exports it introduced.
    pub(super) fn export_value(
        &mut self,
        value: Value,
        made: &mut ExportContext,
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
                let items = items.into_iter().map(|item| self.export_value(item, made, deeper));
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
                self.check_streams_supported()?;
                self.check_export_limit()?;
                writable.0.pipe().attach_session(None, &self.mailbox);
                let id = self.tables.add_export(ObjectRef::Writable(writable.0.clone()));
                made.export_ids.push(id);
                Expr::Writable(id)
            }
        })
    }

    fn export_fields(
        &mut self,
        fields: Vec<(String, Value)>,
        made: &mut ExportContext,
        depth: usize,
    ) -> Result<Vec<(String, Expr)>, RpcError> {
        let mut exported = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            exported.push((key, self.export_value(value, made, depth)?));
        }
        Ok(exported)
    }

    fn export_http(
        &mut self,
        http: HttpParts,
        made: &mut ExportContext,
        depth: usize,
    ) -> Result<HttpInit, RpcError> {
        Ok(HttpInit {
            headers: http.headers,
            body: http.body.map(|body| self.export_value(body, made, depth)).transpose()?,
            fields: http.fields,
        })
    }

    fn is_foreign(&self, stub: &Stub) -> bool {
        let portable = matches!(stub.reference, ObjectRef::Target(_) | ObjectRef::Method(..));
        let home = stub.home.as_ref();
        !portable && home.is_some_and(|home| !home.is_same(&self.mailbox))
    }

    /// Returns the hook to keep for a stub of any session.
    pub(super) fn reference_of(&self, stub: &Stub) -> ObjectRef {
        if self.is_foreign(stub) {
            return ObjectRef::Foreign(Box::new(stub.clone()));
        }
        stub.reference.clone()
    }

    fn export_stub(&mut self, stub: &Stub, made: &mut ExportContext) -> Result<Expr, RpcError> {
        let hook = self.reference_of(stub);
        if let ObjectRef::Remote(remote) = hook {
            return Ok(Expr::Import(Box::new(whole_ref(remote.id()))));
        }
        self.check_export_limit()?;
        let id = self.tables.add_export(hook);
        made.export_ids.push(id);
        Ok(Expr::Export(id))
    }

    fn export_promise(
        &mut self,
        promise: &Promise,
        made: &mut ExportContext,
        depth: usize,
    ) -> Result<Expr, RpcError> {
        let cell = self.localize_promise(promise).resolve_forwards();
        let settled = match &*cell.lock() {
            PromiseState::Done(Ok(value)) => {
                made.budget.charge(value)?;
                Some(value.clone())
            }
            PromiseState::Pending(pending) => {
                if let Some(remote) = &pending.remote {
                    return Ok(Expr::Pipeline(Box::new(whole_ref(remote.id()))));
                }
                None
            }
            PromiseState::Done(Err(_)) | PromiseState::Forward(_) => None,
        };
        if let Some(value) = settled {
            return self.export_value(value, made, depth);
        }
        if self.tables.owed_count(OwedOutcome::Promise) >= self.options.limits.exports {
            return Err(limit_error("too many promises are owed to the peer"));
        }
        self.check_export_limit()?;
        let id = self.tables.add_export(ObjectRef::Promise(cell.clone()));
        made.export_ids.push(id);
        self.tables.mark_owed(id, OwedOutcome::Promise);
        self.add_waiter(&cell, PromiseWaiter::Resolve(id));
        Ok(Expr::Promise(id))
    }

    fn check_streams_supported(&self) -> Result<(), RpcError> {
        if self.options.profile == PeerVersion::V0_4 {
            return Err(RpcError::type_error("the peer does not understand streams"));
        }
        Ok(())
    }

    /// Makes a pipe at the peer and lets the stream flow into it.
    fn export_pipe(&mut self, pipe: &StreamPipe) -> Result<i64, RpcError> {
        self.check_streams_supported()?;
        if !matches!(pipe.lock().consumer, StreamConsumer::Reader) {
            return Err(RpcError::type_error("the stream was passed on before"));
        }
        self.queue_message(&WireMessage::Pipe)?;
        let remote = RemoteRef::new(self.tables.next_push(), &self.mailbox);
        let id = remote.id();
        self.tables.add_import(&remote, None);
        pipe.attach_session(
            Some(StreamConsumer::Peer(PeerOutflow::to_remote(
                remote,
                self.options.limits.stream_window,
            ))),
            &self.mailbox,
        );
        self.work.push_back(WorkItem::Pump(pipe.clone()));
        Ok(id)
    }

    fn export_blob(&mut self, kind: String, data: &[u8]) -> Result<Expr, RpcError> {
        let pipe = StreamPipe::new(StreamConsumer::Reader, Some(Arc::clone(&self.mailbox)));
        let mut flow = pipe.lock();
        for part in data.chunks(64 * 1024) {
            let value = Value::Bytes(TypedBytes::from(part.to_vec()));
            flow.chunks.push_back(StreamChunk { value, taken: None, charge: None });
        }
        flow.end = Some(Ok(()));
        drop(flow);
        let id = self.export_pipe(&pipe)?;
        Ok(Expr::Blob(kind, id))
    }

    /// Sends an expression as a push; the result is a promise of the peer's.
    pub(super) fn send_push(&mut self, expr: Expr) -> Result<PromiseCell, RpcError> {
        self.queue_message(&WireMessage::Push(expr))?;
        let remote = RemoteRef::new(self.tables.next_push(), &self.mailbox);
        let cell = PromiseCell::remote(remote.clone(), false);
        self.tables.add_import(&remote, Some(&cell));
        Ok(cell)
    }
}

fn whole_ref(id: i64) -> RefExpr {
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
