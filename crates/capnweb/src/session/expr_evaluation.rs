//! From expressions to values: what the peer refers to is looked up, what it calls is called.

use std::sync::Arc;

use super::memory_account::TABLE_ENTRY_BYTES;
use super::object_ref::{ObjectRef, RemoteRef};
use super::promise_cell::PromiseCell;
use super::remote_map::{MapBudget, MapFrame};
use super::rpc_session::{RpcSession, limit_error};
use super::stream_pipe::{PeerOutflow, ReadEnd, Readable, StreamConsumer, StreamPipe, Writable};
use super::stub::{Promise, Stub};
use super::work_queue::{AccessOp, MapFunction, PendingAccess, WorkItem};
use crate::error::RpcError;
use crate::memory_cost;
use crate::value::{HttpParts, Value, is_inherited_name};
use crate::wire::{ErrorExpr, Expr, HttpInit, PathKey, RefExpr, RemapExpr};

type EvalResult = Result<Value, RpcError>;

impl RpcSession {
    /// Evaluates an expression of the peer's; inside a map, ids mean what the frame says.
    pub(super) fn evaluate(&mut self, expr: Expr, frame: Option<&MapFrame>) -> EvalResult {
        Ok(match expr {
            Expr::Undefined => Value::Undefined,
            Expr::Null => Value::Null,
            Expr::Bool(value) => Value::Bool(value),
            Expr::Number(number) => Value::Number(number),
            Expr::String(text) => Value::String(text),
            Expr::Array(items) => Value::Array(self.evaluate_all(items, frame)?),
            Expr::Object(fields) => {
                Value::Object(self.evaluate_fields(fields, frame, &["toJSON"])?)
            }
            Expr::BigInt(number) => Value::BigInt(number),
            Expr::Date(time) => Value::Date(time),
            Expr::Bytes(bytes) => Value::Bytes(bytes),
            Expr::Error(error) => Value::Error(Box::new(self.evaluate_error(*error, frame)?)),
            Expr::Url(href) => Value::Url(href),
            Expr::Headers(pairs) => Value::Headers(pairs),
            Expr::Request(url, init) => {
                Value::Request(url, Box::new(self.evaluate_http(*init, frame)?))
            }
            Expr::Response(init) => Value::Response(Box::new(self.evaluate_http(*init, frame)?)),
            Expr::Blob(kind, pipe) => self.import_blob(kind, pipe, frame)?,
            Expr::Import(reference) => self.evaluate_reference(*reference, false, frame)?,
            Expr::Pipeline(reference) => self.evaluate_reference(*reference, true, frame)?,
            Expr::Remap(remap) => self.evaluate_remap(*remap, frame)?,
            Expr::Export(id) => {
                reject_inside_map(frame)?;
                Value::Stub(self.import_stub(id)?)
            }
            Expr::Promise(id) => {
                reject_inside_map(frame)?;
                Value::Promise(self.import_promise(id)?)
            }
            Expr::Writable(id) => {
                reject_inside_map(frame)?;
                self.import_writable(id)?
            }
            Expr::Readable(id) => Value::Readable(Readable(self.claim_readable(id, frame)?)),
        })
    }

    fn evaluate_all(
        &mut self,
        items: Vec<Expr>,
        frame: Option<&MapFrame>,
    ) -> Result<Vec<Value>, RpcError> {
        items.into_iter().map(|item| self.evaluate(item, frame)).collect()
    }

    /// Evaluates every field, so that capabilities inside are given back, and keeps the good ones.
    fn evaluate_fields(
        &mut self,
        fields: Vec<(String, Expr)>,
        frame: Option<&MapFrame>,
        skipped: &[&str],
    ) -> Result<Vec<(String, Value)>, RpcError> {
        let mut kept = Vec::with_capacity(fields.len());
        for (key, expr) in fields {
            let value = self.evaluate(expr, frame)?;
            if !is_inherited_name(&key) && !skipped.contains(&key.as_str()) {
                kept.push((key, value));
            }
        }
        Ok(kept)
    }

    fn evaluate_error(
        &mut self,
        error: ErrorExpr,
        frame: Option<&MapFrame>,
    ) -> Result<RpcError, RpcError> {
        let skipped = ["name", "message", "stack", "toJSON"];
        Ok(RpcError {
            name: error.name,
            message: error.message,
            stack: error.stack,
            props: self.evaluate_fields(error.props, frame, &skipped)?,
        })
    }

    fn evaluate_http(
        &mut self,
        init: HttpInit,
        frame: Option<&MapFrame>,
    ) -> Result<HttpParts, RpcError> {
        Ok(HttpParts {
            headers: init.headers,
            body: init.body.map(|body| self.evaluate(body, frame)).transpose()?,
            fields: init.fields,
        })
    }

    fn find_reference(&self, id: i64, frame: Option<&MapFrame>) -> Result<ObjectRef, RpcError> {
        let found = match frame {
            Some(frame) => frame.find(id),
            None => self.tables.exports.get(&id).map(|export| export.hook.clone()),
        };
        found.ok_or_else(|| RpcError::new("Error", format!("no such entry on exports table: {id}")))
    }

    fn evaluate_reference(
        &mut self,
        reference: RefExpr,
        promise: bool,
        frame: Option<&MapFrame>,
    ) -> EvalResult {
        let hook = self.find_reference(reference.id, frame)?;
        let path = reference.path.unwrap_or_default();
        let op = match reference.args {
            Some(args) => AccessOp::Call(self.evaluate_all(args, frame)?),
            None if path.is_empty() => return Ok(self.reference_value(hook, promise)),
            None => AccessOp::Get,
        };
        let cell = self.queue_access(hook, path, op, frame)?;
        Ok(self.reference_value(ObjectRef::Promise(cell), promise))
    }

    /// Makes a value of everything a hook stands for.
    fn reference_value(&self, hook: ObjectRef, promise: bool) -> Value {
        if promise && let ObjectRef::Promise(cell) = hook {
            return Value::Promise(Promise::from_cell(cell, &self.mailbox));
        }
        Value::Stub(Stub::from_ref(hook, Some(&self.mailbox)))
    }

    /// Queues an access; its path, its arguments and its function are charged until it is done.
    fn queue_access(
        &mut self,
        hook: ObjectRef,
        path: Vec<PathKey>,
        op: AccessOp,
        frame: Option<&MapFrame>,
    ) -> Result<PromiseCell, RpcError> {
        let bytes = match &op {
            AccessOp::Get => 0,
            AccessOp::Call(args) => memory_cost::values_bytes(args),
            AccessOp::Map(mapper) => mapper.instruction_bytes,
        };
        let charge =
            self.account.charge(TABLE_ENTRY_BYTES + memory_cost::path_bytes(&path) + bytes)?;
        let result = PromiseCell::pending();
        self.work.push_back(WorkItem::Access(Box::new(PendingAccess {
            hook,
            path: path.into(),
            start: 0,
            at: 0,
            op,
            result: result.clone(),
            charge: Some(charge),
            compared: 0,
            budget: frame.map(|frame| frame.budget.clone()),
        })));
        Ok(result)
    }

    fn evaluate_remap(&mut self, remap: RemapExpr, frame: Option<&MapFrame>) -> EvalResult {
        let hook = self.find_reference(remap.id, frame)?;
        let mut captures = Vec::with_capacity(remap.captures.len());
        for capture in &remap.captures {
            captures.push(if let Expr::Import(reference) = capture {
                self.find_reference(reference.id, frame)?
            } else if let Expr::Export(id) = capture {
                reject_inside_map(frame)?;
                self.import_stub(*id)?.reference
            } else {
                return Err(RpcError::type_error("unknown map capture"));
            });
        }
        let limits = &self.options.limits;
        let budget = match frame {
            Some(frame) => frame.budget.clone(),
            None => MapBudget::new(limits.map_steps, limits.map_bytes),
        };
        let mapper = MapFunction::new(captures, remap.instructions, budget);
        let cell = self.queue_access(hook, remap.path, AccessOp::Map(Box::new(mapper)), frame)?;
        Ok(self.reference_value(ObjectRef::Promise(cell), true))
    }

    fn check_import_limit(&self) -> Result<(), RpcError> {
        if self.tables.imports.len() >= self.options.limits.imports {
            return Err(limit_error("too many objects of the peer are held"));
        }
        self.check_entry_limit()
    }

    pub(super) fn check_export_limit(&self) -> Result<(), RpcError> {
        if self.tables.exports.len() >= self.options.limits.exports {
            return Err(limit_error("too many results and objects are held for the peer"));
        }
        self.check_entry_limit()
    }

    /// Fails if another entry of a table would be too much.
    fn check_entry_limit(&self) -> Result<(), RpcError> {
        let entries = self.tables.exports.len() + self.tables.imports.len() + 1;
        self.account.check_available(entries * TABLE_ENTRY_BYTES)
    }

    /// Makes a settled promise of a value, and charges the session for it.
    pub(super) fn settled_cell(&self, value: Value) -> Result<PromiseCell, RpcError> {
        let bytes = memory_cost::value_bytes(&value);
        let cell = PromiseCell::already_settled(Ok(value));
        if bytes > TABLE_ENTRY_BYTES {
            cell.attach_charge(self.account.charge(bytes)?);
        }
        Ok(cell)
    }

    /// Takes an object of the peer's; a second introduction is counted.
    fn import_stub(&mut self, id: i64) -> Result<Stub, RpcError> {
        let mailbox = Arc::clone(&self.mailbox);
        let Some(import) = self.tables.imports.get_mut(&id) else {
            self.check_import_limit()?;
            let remote = RemoteRef::new(id, &mailbox);
            self.tables.add_import(&remote, None);
            return Ok(Stub::from_ref(ObjectRef::Remote(remote), Some(&mailbox)));
        };
        import.introductions += 1;
        let promised = import.cell.as_ref().and_then(|cell| cell.upgrade());
        let hook = match (promised, import.remote.upgrade()) {
            (Some(cell), _) => ObjectRef::Promise(cell),
            (None, Some(remote)) => ObjectRef::Remote(remote),
            (None, None) => {
                let remote = RemoteRef::new(id, &mailbox);
                import.remote = remote.downgrade();
                ObjectRef::Remote(remote)
            }
        };
        Ok(Stub::from_ref(hook, Some(&mailbox)))
    }

    fn import_promise(&mut self, id: i64) -> Result<Promise, RpcError> {
        if self.tables.imports.contains_key(&id) {
            let message = "the peer sent a promise reusing an existing export ID";
            let cell = PromiseCell::already_settled(Err(RpcError::new("Error", message)));
            return Ok(Promise::from_cell(cell, &self.mailbox));
        }
        self.check_import_limit()?;
        let remote = RemoteRef::new(id, &self.mailbox);
        let cell = PromiseCell::remote(remote.clone(), true);
        self.tables.add_import(&remote, Some(&cell));
        self.track_promise(&cell)?;
        Ok(Promise::from_cell(cell, &self.mailbox))
    }

    /// Makes a stream whose chunks go to the peer's.
    fn import_writable(&mut self, id: i64) -> EvalResult {
        if self.tables.imports.contains_key(&id) {
            let message = "the peer sent a stream reusing an existing export ID";
            return Err(RpcError::new("Error", message));
        }
        self.check_import_limit()?;
        let remote = RemoteRef::new(id, &self.mailbox);
        self.tables.add_import(&remote, None);
        let outflow = PeerOutflow::to_remote(remote, self.options.limits.stream_window);
        let pipe = StreamPipe::new(StreamConsumer::Peer(outflow), Some(Arc::clone(&self.mailbox)));
        let (write, _) = pipe.ends();
        Ok(Value::Writable(Writable(write)))
    }

    /// Takes the reading end of a pipe that the peer made; once.
    fn claim_readable(&mut self, id: i64, frame: Option<&MapFrame>) -> Result<ReadEnd, RpcError> {
        reject_inside_map(frame)?;
        let export = self.tables.exports.get_mut(&id);
        export.and_then(|export| export.readable.take()).ok_or_else(|| {
            let message = "is not a pipe or its readable end was already consumed.";
            RpcError::new("Error", format!("Export {id} {message}"))
        })
    }

    fn import_blob(&mut self, kind: String, id: i64, frame: Option<&MapFrame>) -> EvalResult {
        let end = self.claim_readable(id, frame)?;
        let whole = PromiseCell::pending();
        let charge = self.account.charge(TABLE_ENTRY_BYTES)?;
        let consumer =
            StreamConsumer::Blob { kind, data: Vec::new(), whole: whole.clone(), charge };
        let pipe = end.pipe().clone();
        pipe.attach_session(Some(consumer), &self.mailbox);
        self.work.push_back(WorkItem::Pump(pipe));
        Ok(Value::Promise(Promise::from_cell(whole, &self.mailbox)))
    }
}

/// A map runs where its input is: it cannot introduce anything.
fn reject_inside_map(frame: Option<&MapFrame>) -> Result<(), RpcError> {
    if frame.is_some() {
        let message = "A mapper function cannot refer to exports.";
        return Err(RpcError::new("Error", message));
    }
    Ok(())
}
