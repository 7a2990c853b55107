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

/// Evaluates an expression of the peer's; inside a map, ids mean what the frame says.
pub(super) fn evaluate(
    session: &mut RpcSession,
    expr: Expr,
    frame: Option<&MapFrame>,
) -> EvalResult {
    Ok(match expr {
        Expr::Undefined => Value::Undefined,
        Expr::Null => Value::Null,
        Expr::Bool(value) => Value::Bool(value),
        Expr::Number(number) => Value::Number(number),
        Expr::String(text) => Value::String(text),
        Expr::Array(items) => Value::Array(evaluate_all(session, items, frame)?),
        Expr::Object(fields) => {
            Value::Object(evaluate_fields(session, fields, frame, &["toJSON"])?)
        }
        Expr::BigInt(number) => Value::BigInt(number),
        Expr::Date(time) => Value::Date(time),
        Expr::Bytes(bytes) => Value::Bytes(bytes),
        Expr::Error(error) => Value::Error(Box::new(evaluate_error(session, *error, frame)?)),
        Expr::Url(href) => Value::Url(href),
        Expr::Headers(pairs) => Value::Headers(pairs),
        Expr::Request(url, init) => {
            Value::Request(url, Box::new(evaluate_http(session, *init, frame)?))
        }
        Expr::Response(init) => Value::Response(Box::new(evaluate_http(session, *init, frame)?)),
        Expr::Blob(kind, pipe) => import_blob(session, kind, pipe, frame)?,
        Expr::Import(reference) => evaluate_reference(session, *reference, false, frame)?,
        Expr::Pipeline(reference) => evaluate_reference(session, *reference, true, frame)?,
        Expr::Remap(remap) => evaluate_remap(session, *remap, frame)?,
        Expr::Export(id) => {
            reject_inside_map(frame)?;
            Value::Stub(import_stub(session, id)?)
        }
        Expr::Promise(id) => {
            reject_inside_map(frame)?;
            Value::Promise(import_promise(session, id)?)
        }
        Expr::Writable(id) => {
            reject_inside_map(frame)?;
            import_writable(session, id)?
        }
        Expr::Readable(id) => Value::Readable(Readable(claim_readable(session, id, frame)?)),
    })
}

fn evaluate_all(
    session: &mut RpcSession,
    items: Vec<Expr>,
    frame: Option<&MapFrame>,
) -> Result<Vec<Value>, RpcError> {
    items.into_iter().map(|item| evaluate(session, item, frame)).collect()
}

/// Evaluates every field, so that capabilities inside are given back, and keeps the good ones.
fn evaluate_fields(
    session: &mut RpcSession,
    fields: Vec<(String, Expr)>,
    frame: Option<&MapFrame>,
    skipped: &[&str],
) -> Result<Vec<(String, Value)>, RpcError> {
    let mut kept = Vec::with_capacity(fields.len());
    for (key, expr) in fields {
        let value = evaluate(session, expr, frame)?;
        if !is_inherited_name(&key) && !skipped.contains(&key.as_str()) {
            kept.push((key, value));
        }
    }
    Ok(kept)
}

fn evaluate_error(
    session: &mut RpcSession,
    error: ErrorExpr,
    frame: Option<&MapFrame>,
) -> Result<RpcError, RpcError> {
    let skipped = ["name", "message", "stack", "toJSON"];
    Ok(RpcError {
        name: error.name,
        message: error.message,
        stack: error.stack,
        props: evaluate_fields(session, error.props, frame, &skipped)?,
    })
}

fn evaluate_http(
    session: &mut RpcSession,
    init: HttpInit,
    frame: Option<&MapFrame>,
) -> Result<HttpParts, RpcError> {
    Ok(HttpParts {
        headers: init.headers,
        body: init.body.map(|body| evaluate(session, body, frame)).transpose()?,
        fields: init.fields,
    })
}

fn find_reference(
    session: &RpcSession,
    id: i64,
    frame: Option<&MapFrame>,
) -> Result<ObjectRef, RpcError> {
    let found = match frame {
        Some(frame) => frame.find(id),
        None => session.tables.exports.get(&id).map(|export| export.hook.clone()),
    };
    found.ok_or_else(|| RpcError::new("Error", format!("no such entry on exports table: {id}")))
}

fn evaluate_reference(
    session: &mut RpcSession,
    reference: RefExpr,
    promise: bool,
    frame: Option<&MapFrame>,
) -> EvalResult {
    let hook = find_reference(session, reference.id, frame)?;
    let path = reference.path.unwrap_or_default();
    let op = match reference.args {
        Some(args) => AccessOp::Call(evaluate_all(session, args, frame)?),
        None if path.is_empty() => return Ok(reference_value(session, hook, promise)),
        None => AccessOp::Get,
    };
    let cell = queue_access(session, hook, path, op, frame)?;
    Ok(reference_value(session, ObjectRef::Promise(cell), promise))
}

/// Makes a value of what a reference refers to.
fn reference_value(session: &RpcSession, hook: ObjectRef, promise: bool) -> Value {
    if promise && let ObjectRef::Promise(cell) = hook {
        return Value::Promise(Promise::from_cell(cell, &session.mailbox));
    }
    Value::Stub(Stub::from_ref(hook, Some(&session.mailbox)))
}

/// Queues an access; its path, its arguments and its function are charged until it is done.
fn queue_access(
    session: &mut RpcSession,
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
        session.account.charge(TABLE_ENTRY_BYTES + memory_cost::path_bytes(&path) + bytes)?;
    let result = PromiseCell::pending();
    session.work.push_back(WorkItem::Access(Box::new(PendingAccess {
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

fn evaluate_remap(
    session: &mut RpcSession,
    remap: RemapExpr,
    frame: Option<&MapFrame>,
) -> EvalResult {
    let hook = find_reference(session, remap.id, frame)?;
    let mut captures = Vec::with_capacity(remap.captures.len());
    for capture in &remap.captures {
        captures.push(if let Expr::Import(reference) = capture {
            find_reference(session, reference.id, frame)?
        } else if let Expr::Export(id) = capture {
            reject_inside_map(frame)?;
            import_stub(session, *id)?.reference
        } else {
            return Err(RpcError::type_error("unknown map capture"));
        });
    }
    let limits = &session.options.limits;
    let budget = match frame {
        Some(frame) => frame.budget.clone(),
        None => MapBudget::new(limits.map_steps, limits.map_bytes),
    };
    let mapper = MapFunction::new(captures, remap.instructions, budget);
    let cell = queue_access(session, hook, remap.path, AccessOp::Map(Box::new(mapper)), frame)?;
    Ok(reference_value(session, ObjectRef::Promise(cell), true))
}

fn check_import_limit(session: &RpcSession) -> Result<(), RpcError> {
    if session.tables.imports.len() >= session.options.limits.imports {
        return Err(limit_error("too many objects of the peer are held"));
    }
    check_entry_limit(session)
}

pub(super) fn check_export_limit(session: &RpcSession) -> Result<(), RpcError> {
    if session.tables.exports.len() >= session.options.limits.exports {
        return Err(limit_error("too many results and objects are held for the peer"));
    }
    check_entry_limit(session)
}

/// Fails if another entry of a table would be too much.
fn check_entry_limit(session: &RpcSession) -> Result<(), RpcError> {
    let entries = session.tables.exports.len() + session.tables.imports.len() + 1;
    session.account.check_available(entries * TABLE_ENTRY_BYTES)
}

/// Makes a settled promise of a value, and charges the session for it.
pub(super) fn settled_cell(session: &RpcSession, value: Value) -> Result<PromiseCell, RpcError> {
    let bytes = memory_cost::value_bytes(&value);
    let cell = PromiseCell::already_settled(Ok(value));
    if bytes > TABLE_ENTRY_BYTES {
        cell.attach_charge(session.account.charge(bytes)?);
    }
    Ok(cell)
}

/// Takes an object of the peer's; a second introduction is counted.
fn import_stub(session: &mut RpcSession, id: i64) -> Result<Stub, RpcError> {
    let mailbox = Arc::clone(&session.mailbox);
    let Some(import) = session.tables.imports.get_mut(&id) else {
        check_import_limit(session)?;
        let remote = RemoteRef::new(id, &mailbox);
        session.tables.add_import(&remote, None);
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

fn import_promise(session: &mut RpcSession, id: i64) -> Result<Promise, RpcError> {
    if session.tables.imports.contains_key(&id) {
        let message = "the peer sent a promise reusing an existing export ID";
        let cell = PromiseCell::already_settled(Err(RpcError::new("Error", message)));
        return Ok(Promise::from_cell(cell, &session.mailbox));
    }
    check_import_limit(session)?;
    let remote = RemoteRef::new(id, &session.mailbox);
    let cell = PromiseCell::remote(remote.clone(), true);
    session.tables.add_import(&remote, Some(&cell));
    session.track_promise(&cell)?;
    Ok(Promise::from_cell(cell, &session.mailbox))
}

/// Makes a stream whose chunks go to the peer's.
fn import_writable(session: &mut RpcSession, id: i64) -> EvalResult {
    if session.tables.imports.contains_key(&id) {
        let message = "the peer sent a stream reusing an existing export ID";
        return Err(RpcError::new("Error", message));
    }
    check_import_limit(session)?;
    let remote = RemoteRef::new(id, &session.mailbox);
    session.tables.add_import(&remote, None);
    let outflow = PeerOutflow::to_remote(remote, session.options.limits.stream_window);
    let pipe = StreamPipe::new(StreamConsumer::Peer(outflow), Some(Arc::clone(&session.mailbox)));
    let (write, _) = pipe.ends();
    Ok(Value::Writable(Writable(write)))
}

/// Takes the reading end of a pipe that the peer made; once.
fn claim_readable(
    session: &mut RpcSession,
    id: i64,
    frame: Option<&MapFrame>,
) -> Result<ReadEnd, RpcError> {
    reject_inside_map(frame)?;
    let export = session.tables.exports.get_mut(&id);
    export.and_then(|export| export.readable.take()).ok_or_else(|| {
        let message = "is not a pipe or its readable end was already consumed.";
        RpcError::new("Error", format!("Export {id} {message}"))
    })
}

fn import_blob(
    session: &mut RpcSession,
    kind: String,
    id: i64,
    frame: Option<&MapFrame>,
) -> EvalResult {
    let end = claim_readable(session, id, frame)?;
    let whole = PromiseCell::pending();
    let charge = session.account.charge(TABLE_ENTRY_BYTES)?;
    let consumer = StreamConsumer::Blob { kind, data: Vec::new(), whole: whole.clone(), charge };
    let pipe = end.pipe().clone();
    pipe.attach_session(Some(consumer), &session.mailbox);
    session.work.push_back(WorkItem::Pump(pipe));
    Ok(Value::Promise(Promise::from_cell(whole, &session.mailbox)))
}

/// A map runs where its input is: it cannot introduce anything.
fn reject_inside_map(frame: Option<&MapFrame>) -> Result<(), RpcError> {
    if frame.is_some() {
        let message = "A mapper function cannot refer to exports.";
        return Err(RpcError::new("Error", message));
    }
    Ok(())
}
