//! From expressions to values: what the peer refers to is looked up, what it calls is called.

use std::sync::Arc;

use super::account::ENTRY_BYTES;
use super::cell::Cell;
use super::hook::{Hook, RemoteRef};
use super::map::{Budget, Frame};
use super::pipe::{Consumer, Outflow, Pipe, ReadEnd, Readable, Writable};
use super::stub::{Promise, Stub};
use super::turn::{Session, limit};
use super::work::{Access, Mapper, Op, Work};
use crate::cost;
use crate::error::RpcError;
use crate::value::{Http, Value, is_inherited};
use crate::wire::{ErrorExpr, Expr, HttpInit, Key, RefExpr, RemapExpr};

type Evaluated = Result<Value, RpcError>;

impl Session {
    /// Evaluates an expression of the peer's; inside a map, ids mean what the frame says.
    pub(super) fn evaluate(&mut self, expr: Expr, frame: Option<&Frame>) -> Evaluated {
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
            Expr::Import(reference) => self.refer(*reference, false, frame)?,
            Expr::Pipeline(reference) => self.refer(*reference, true, frame)?,
            Expr::Remap(remap) => self.remap(*remap, frame)?,
            Expr::Export(id) => {
                outside(frame)?;
                Value::Stub(self.import_stub(id)?)
            }
            Expr::Promise(id) => {
                outside(frame)?;
                Value::Promise(self.import_promise(id)?)
            }
            Expr::Writable(id) => {
                outside(frame)?;
                self.import_writable(id)?
            }
            Expr::Readable(id) => Value::Readable(Readable(self.claim(id, frame)?)),
        })
    }

    fn evaluate_all(
        &mut self,
        items: Vec<Expr>,
        frame: Option<&Frame>,
    ) -> Result<Vec<Value>, RpcError> {
        items.into_iter().map(|item| self.evaluate(item, frame)).collect()
    }

    /// Evaluates every field, so that capabilities inside are given back, and keeps the good ones.
    fn evaluate_fields(
        &mut self,
        fields: Vec<(String, Expr)>,
        frame: Option<&Frame>,
        skipped: &[&str],
    ) -> Result<Vec<(String, Value)>, RpcError> {
        let mut kept = Vec::with_capacity(fields.len());
        for (key, expr) in fields {
            let value = self.evaluate(expr, frame)?;
            if !is_inherited(&key) && !skipped.contains(&key.as_str()) {
                kept.push((key, value));
            }
        }
        Ok(kept)
    }

    fn evaluate_error(
        &mut self,
        error: ErrorExpr,
        frame: Option<&Frame>,
    ) -> Result<RpcError, RpcError> {
        let skipped = ["name", "message", "stack", "toJSON"];
        Ok(RpcError {
            name: error.name,
            message: error.message,
            stack: error.stack,
            props: self.evaluate_fields(error.props, frame, &skipped)?,
        })
    }

    fn evaluate_http(&mut self, init: HttpInit, frame: Option<&Frame>) -> Result<Http, RpcError> {
        Ok(Http {
            headers: init.headers,
            body: init.body.map(|body| self.evaluate(body, frame)).transpose()?,
            fields: init.fields,
        })
    }

    fn find_hook(&self, id: i64, frame: Option<&Frame>) -> Result<Hook, RpcError> {
        let found = match frame {
            Some(frame) => frame.find(id),
            None => self.tables.exports.get(&id).map(|export| export.hook.clone()),
        };
        found.ok_or_else(|| RpcError::new("Error", format!("no such entry on exports table: {id}")))
    }

    fn refer(&mut self, reference: RefExpr, promise: bool, frame: Option<&Frame>) -> Evaluated {
        let hook = self.find_hook(reference.id, frame)?;
        let path = reference.path.unwrap_or_default();
        let op = match reference.args {
            Some(args) => Op::Call(self.evaluate_all(args, frame)?),
            None if path.is_empty() => return Ok(self.whole(hook, promise)),
            None => Op::Get,
        };
        let cell = self.begin(hook, path, op, frame)?;
        Ok(self.whole(Hook::Cell(cell), promise))
    }

    /// Makes a value of everything a hook stands for.
    fn whole(&self, hook: Hook, promise: bool) -> Value {
        if promise && let Hook::Cell(cell) = hook {
            return Value::Promise(Promise::of(cell, &self.mailbox));
        }
        Value::Stub(Stub::of(hook, Some(&self.mailbox)))
    }

    /// Queues an access; its path, its arguments and its function are charged until it is done.
    fn begin(
        &mut self,
        hook: Hook,
        path: Vec<Key>,
        op: Op,
        frame: Option<&Frame>,
    ) -> Result<Cell, RpcError> {
        let bytes = match &op {
            Op::Get => 0,
            Op::Call(args) => cost::of_values(args),
            Op::Map(mapper) => mapper.instruction_bytes,
        };
        let charge = self.account.charge(ENTRY_BYTES + cost::of_path(&path) + bytes)?;
        let result = Cell::pending();
        self.work.push_back(Work::Access(Box::new(Access {
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

    fn remap(&mut self, remap: RemapExpr, frame: Option<&Frame>) -> Evaluated {
        let hook = self.find_hook(remap.id, frame)?;
        let mut captures = Vec::with_capacity(remap.captures.len());
        for capture in &remap.captures {
            captures.push(if let Expr::Import(reference) = capture {
                self.find_hook(reference.id, frame)?
            } else if let Expr::Export(id) = capture {
                outside(frame)?;
                self.import_stub(*id)?.hook
            } else {
                return Err(RpcError::type_error("unknown map capture"));
            });
        }
        let limits = &self.options.limits;
        let budget = match frame {
            Some(frame) => frame.budget.clone(),
            None => Budget::of(limits.map_steps, limits.map_bytes),
        };
        let mapper = Mapper::new(captures, remap.instructions, budget);
        let cell = self.begin(hook, remap.path, Op::Map(Box::new(mapper)), frame)?;
        Ok(self.whole(Hook::Cell(cell), true))
    }

    fn room_for_import(&self) -> Result<(), RpcError> {
        if self.tables.imports.len() >= self.options.limits.imports {
            return Err(limit("too many objects of the peer are held"));
        }
        self.room_for_entry()
    }

    pub(super) fn room_for_export(&self) -> Result<(), RpcError> {
        if self.tables.exports.len() >= self.options.limits.exports {
            return Err(limit("too many results and objects are held for the peer"));
        }
        self.room_for_entry()
    }

    /// Fails if another entry of a table would be too much.
    fn room_for_entry(&self) -> Result<(), RpcError> {
        let entries = self.tables.exports.len() + self.tables.imports.len() + 1;
        self.account.check(entries * ENTRY_BYTES)
    }

    /// Makes a settled promise of a value, and charges the session for it.
    pub(super) fn settled(&self, value: Value) -> Result<Cell, RpcError> {
        let bytes = cost::of_value(&value);
        let cell = Cell::done(Ok(value));
        if bytes > ENTRY_BYTES {
            cell.keep(self.account.charge(bytes)?);
        }
        Ok(cell)
    }

    /// Takes an object of the peer's; a second introduction is counted.
    fn import_stub(&mut self, id: i64) -> Result<Stub, RpcError> {
        let mailbox = Arc::clone(&self.mailbox);
        let Some(import) = self.tables.imports.get_mut(&id) else {
            self.room_for_import()?;
            let remote = RemoteRef::new(id, &mailbox);
            self.tables.add_import(&remote, None);
            return Ok(Stub::of(Hook::Remote(remote), Some(&mailbox)));
        };
        import.introductions += 1;
        let promised = import.cell.as_ref().and_then(|cell| cell.upgrade());
        let hook = match (promised, import.remote.upgrade()) {
            (Some(cell), _) => Hook::Cell(cell),
            (None, Some(remote)) => Hook::Remote(remote),
            (None, None) => {
                let remote = RemoteRef::new(id, &mailbox);
                import.remote = remote.downgrade();
                Hook::Remote(remote)
            }
        };
        Ok(Stub::of(hook, Some(&mailbox)))
    }

    fn import_promise(&mut self, id: i64) -> Result<Promise, RpcError> {
        if self.tables.imports.contains_key(&id) {
            let message = "the peer sent a promise reusing an existing export ID";
            let cell = Cell::done(Err(RpcError::new("Error", message)));
            return Ok(Promise::of(cell, &self.mailbox));
        }
        self.room_for_import()?;
        let remote = RemoteRef::new(id, &self.mailbox);
        let cell = Cell::remote(remote.clone(), true);
        self.tables.add_import(&remote, Some(&cell));
        self.remember(&cell)?;
        Ok(Promise::of(cell, &self.mailbox))
    }

    /// Makes a stream whose chunks go to the peer's.
    fn import_writable(&mut self, id: i64) -> Evaluated {
        if self.tables.imports.contains_key(&id) {
            let message = "the peer sent a stream reusing an existing export ID";
            return Err(RpcError::new("Error", message));
        }
        self.room_for_import()?;
        let remote = RemoteRef::new(id, &self.mailbox);
        self.tables.add_import(&remote, None);
        let outflow = Outflow::to(remote, self.options.limits.stream_window);
        let pipe = Pipe::new(Consumer::Peer(outflow), Some(Arc::clone(&self.mailbox)));
        let (write, _) = pipe.ends();
        Ok(Value::Writable(Writable(write)))
    }

    /// Takes the reading end of a pipe that the peer made; once.
    fn claim(&mut self, id: i64, frame: Option<&Frame>) -> Result<ReadEnd, RpcError> {
        outside(frame)?;
        let export = self.tables.exports.get_mut(&id);
        export.and_then(|export| export.readable.take()).ok_or_else(|| {
            let message = "is not a pipe or its readable end was already consumed.";
            RpcError::new("Error", format!("Export {id} {message}"))
        })
    }

    fn import_blob(&mut self, kind: String, id: i64, frame: Option<&Frame>) -> Evaluated {
        let end = self.claim(id, frame)?;
        let whole = Cell::pending();
        let charge = self.account.charge(ENTRY_BYTES)?;
        let consumer = Consumer::Blob { kind, data: Vec::new(), whole: whole.clone(), charge };
        let pipe = end.pipe().clone();
        pipe.attach(Some(consumer), &self.mailbox);
        self.work.push_back(Work::Pump(pipe));
        Ok(Value::Promise(Promise::of(whole, &self.mailbox)))
    }
}

/// A map runs where its input is: it cannot introduce anything.
fn outside(frame: Option<&Frame>) -> Result<(), RpcError> {
    if frame.is_some() {
        let message = "A mapper function cannot refer to exports.";
        return Err(RpcError::new("Error", message));
    }
    Ok(())
}
