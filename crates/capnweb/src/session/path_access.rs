//! Following a path to its end, and reading, calling or mapping what is there.

use std::sync::Arc;

use super::command_queue::QueuedCommand;
use super::object_ref::{Member, MemberKind, ObjectRef, RemoteRef, RpcTarget};
use super::promise_cell::{PromiseCell, PromiseState};
use super::promise_settling::settle_promise;
use super::remote_map::{MapBudget, apply_map};
use super::rpc_session::{RpcSession, RunningCall, limit_error};
use super::stream_pipe::WriteEnd;
use super::stub::Stub;
use super::value_delivery::run_delivery;
use super::value_export::{
    ExportContext, export_value, new_export_context, reference_of, send_push,
};
use super::work_queue::{
    AccessOp, DeliveryTarget, MapFunction, PendingAccess, PromiseWaiter, SessionBridge,
    ValueDelivery, WorkItem,
};
use crate::error::RpcError;
use crate::memory_cost;
use crate::value::{Value, is_inherited_name};
use crate::wire::{Expr, PathKey, RefExpr, RemapExpr};

/// Where a path inside a value leads.
enum PathResult {
    Value(Value),
    /// On to something else, with the rest of the path.
    Reference(ObjectRef, usize),
    Error(RpcError),
}

pub(super) fn run_access(session: &mut RpcSession, access: PendingAccess) {
    match access.hook.clone() {
        ObjectRef::Target(target) => access_target(session, target, access),
        ObjectRef::Method(target, name) => {
            if access.at < access.path.len() {
                access_value(session, &Value::Undefined, access, true);
                return;
            }
            finish_at_function(session, target, Member::Method(name), access);
        }
        ObjectRef::Remote(remote) => access_remote(session, &remote, access),
        ObjectRef::Promise(cell) => access_promise(session, &cell, access),
        ObjectRef::Writable(sink) => access_sink(session, sink, access),
        ObjectRef::Foreign(stub) => access_foreign(session, &stub, access),
    }
}

fn access_promise(session: &mut RpcSession, cell: &PromiseCell, mut access: PendingAccess) {
    let cell = cell.resolve_forwards();
    let mut state = cell.lock();
    let found = match &mut *state {
        PromiseState::Done(Ok(value)) => follow_path(session, value, &mut access),
        PromiseState::Done(Err(error)) => PathResult::Error(error.clone()),
        PromiseState::Pending(pending) => {
            if let Some(remote) = pending.remote.clone() {
                drop(state);
                // Reading the whole promise is the promise.
                if access.at == access.path.len() && matches!(access.op, AccessOp::Get) {
                    let value = promise_value(session, cell);
                    session.work.push_back(WorkItem::Settle(access.result, Ok(value)));
                } else {
                    access_remote(session, &remote, access);
                }
            } else {
                pending.waiters.push(PromiseWaiter::Access(Box::new(access)));
            }
            return;
        }
        PromiseState::Forward(_) => return,
    };
    drop(state);
    match found {
        PathResult::Value(value) => finish_at_value(session, value, access),
        PathResult::Reference(hook, at) => {
            access.start = at;
            access.at = at;
            access.hook = hook;
            // Not from here: a chain of promises may be longer than the stack.
            session.work.push_front(WorkItem::Access(Box::new(access)));
        }
        PathResult::Error(error) => {
            session.work.push_back(WorkItem::Settle(access.result, Err(error)))
        }
    }
}

fn promise_value(session: &RpcSession, cell: PromiseCell) -> Value {
    Value::Promise(super::stub::Promise::from_cell(cell, &session.mailbox))
}

/// Follows the rest of the path inside a value that is held only here.
fn access_value(session: &mut RpcSession, value: &Value, mut access: PendingAccess, skip: bool) {
    access.at += usize::from(skip);
    match follow_path(session, value, &mut access) {
        PathResult::Value(value) => finish_at_value(session, value, access),
        PathResult::Error(error) => {
            session.work.push_back(WorkItem::Settle(access.result, Err(error)))
        }
        PathResult::Reference(..) => {}
    }
}

fn follow_path(session: &RpcSession, value: &Value, access: &mut PendingAccess) -> PathResult {
    let mut value = value;
    for (at, key) in access.path.iter().enumerate().skip(access.at) {
        if let Value::Object(fields) = value
            && let Err(error) =
                charge_search(&mut access.compared, fields.len(), access.budget.as_ref())
        {
            return PathResult::Error(error);
        }
        if let Some(hook) = reference_in(session, value) {
            return PathResult::Reference(hook, at);
        }
        if matches!(key, PathKey::Name(name) if is_inherited_name(name)) {
            value = &Value::Undefined;
            continue;
        }
        value = match (value, key) {
            (Value::Object(_), PathKey::Name(name)) => {
                value.field(name).unwrap_or(&Value::Undefined)
            }
            (Value::Object(_), PathKey::Index(_)) => {
                value.field(&key_text(key)).unwrap_or(&Value::Undefined)
            }
            (Value::Array(items), PathKey::Index(index)) => {
                element(items, *index).unwrap_or(&Value::Undefined)
            }
            (Value::Undefined, key) => {
                let name = key_text(key);
                let message = format!("Cannot read properties of undefined (reading '{name}')");
                return PathResult::Error(RpcError::type_error(message));
            }
            _ => &Value::Undefined,
        };
    }
    let end = access.path.len();
    match (value, &access.op) {
        (Value::Promise(_), _) | (Value::Stub(_), AccessOp::Call(_)) => {
            match reference_in(session, value) {
                Some(hook) => PathResult::Reference(hook, end),
                None => PathResult::Value(Value::Undefined),
            }
        }
        _ => match charge_copy(session, value, access) {
            Ok(()) => PathResult::Value(value.clone()),
            Err(error) => PathResult::Error(error),
        },
    }
}

/// Fails if a copy of the value would be too much for the session or for the map it is made in.
fn charge_copy(
    session: &RpcSession,
    value: &Value,
    access: &PendingAccess,
) -> Result<(), RpcError> {
    if value.is_cheap_to_copy() {
        return Ok(());
    }
    let bytes = memory_cost::value_bytes(value);
    session.account.check_available(bytes)?;
    access.budget.iter().try_for_each(|budget| budget.spend_bytes(bytes))?;
    if let AccessOp::Map(mapper) = &access.op {
        mapper.budget.spend_bytes(bytes)?;
    }
    Ok(())
}

fn reference_in(session: &RpcSession, value: &Value) -> Option<ObjectRef> {
    if let Value::Stub(stub) = value {
        return Some(reference_of(session, stub));
    }
    if let Value::Promise(promise) = value {
        return Some(reference_of(session, &promise.clone().into_stub()));
    }
    None
}

/// The path has ended at a value that is no capability to be called.
fn finish_at_value(session: &mut RpcSession, value: Value, access: PendingAccess) {
    match access.op {
        AccessOp::Get => session.work.push_back(WorkItem::Settle(access.result, Ok(value))),
        AccessOp::Call(_) => {
            let error = not_a_function(&access.path[access.start..]);
            session.work.push_back(WorkItem::Settle(access.result, Err(error)));
        }
        AccessOp::Map(mapper) => {
            let outcome = apply_map(session, value, &mapper);
            session.work.push_back(WorkItem::Settle(access.result, outcome));
        }
    }
}

fn access_target(session: &mut RpcSession, target: Arc<dyn RpcTarget>, mut access: PendingAccess) {
    let Some(key) = access.path.get(access.at) else {
        if target.is_function() || !matches!(access.op, AccessOp::Call(_)) {
            finish_at_function(session, target, Member::Itself, access);
        } else {
            let error = not_a_function(&access.path[access.start..]);
            session.work.push_back(WorkItem::Settle(access.result, Err(error)));
        }
        return;
    };
    let name = key_text(key);
    let kind = if is_inherited_name(&name) { None } else { target.member(&name) };
    let last = access.at + 1 == access.path.len();
    match kind {
        None => access_value(session, &Value::Undefined, access, true),
        Some(MemberKind::Method) if last => {
            finish_at_function(session, target, Member::Method(name), access);
        }
        // A function has no properties of its own.
        Some(MemberKind::Method) => {
            access.at += 1;
            access_value(session, &Value::Undefined, access, true);
        }
        Some(MemberKind::Getter) => {
            let read = PromiseCell::pending();
            let held = RunningCall { result: read.clone(), charge: None };
            session.emit_call(target, Member::Getter(name), Vec::new(), held);
            access.at += 1;
            access.hook = ObjectRef::Promise(read);
            session.work.push_front(WorkItem::Access(Box::new(access)));
        }
    }
}

/// The path has ended at something of ours: an object, or a method of one.
fn finish_at_function(
    session: &mut RpcSession,
    target: Arc<dyn RpcTarget>,
    member: Member,
    access: PendingAccess,
) {
    match access.op {
        AccessOp::Call(args) => {
            let result = access.result;
            run_delivery(
                session,
                ValueDelivery {
                    values: args,
                    waiting: None,
                    then: DeliveryTarget::Call { target, member, result },
                    charge: access.charge,
                },
            );
        }
        op @ (AccessOp::Get | AccessOp::Map(_)) => {
            let hook = match member {
                Member::Method(name) => ObjectRef::Method(target, name),
                Member::Itself | Member::Getter(_) => ObjectRef::Target(target),
            };
            let value = Value::Stub(Stub::from_ref(hook, Some(&session.mailbox)));
            finish_at_value(session, value, PendingAccess { op, ..access });
        }
    }
}

fn access_sink(session: &mut RpcSession, sink: WriteEnd, access: PendingAccess) {
    let refuse = |message: String| Err(RpcError::new("Error", message));
    let name: Arc<str> = match &access.path[access.at.min(access.path.len())..] {
        [PathKey::Name(name)] => Arc::clone(name),
        _ => "".into(),
    };
    let charge = access.charge;
    let result = access.result;
    let (values, then) = match (access.op, name.as_ref()) {
        (AccessOp::Call(args), "write") => (args, DeliveryTarget::Write { sink, result }),
        (AccessOp::Call(args), "close" | "abort") => {
            let good = *name == *"close";
            (args, DeliveryTarget::End { sink, good, result })
        }
        (AccessOp::Call(_), _) => {
            let error = refuse(format!("Unknown WritableStream method: {name}"));
            session.work.push_back(WorkItem::Settle(result, error));
            return;
        }
        (AccessOp::Get | AccessOp::Map(_), _) => {
            let message = "Cannot access properties on a WritableStream stub";
            session.work.push_back(WorkItem::Settle(result, refuse(message.to_owned())));
            return;
        }
    };
    run_delivery(session, ValueDelivery { values, waiting: None, then, charge });
}

/// Sends the access to the peer; the result becomes a promise of its.
fn access_remote(session: &mut RpcSession, remote: &RemoteRef, access: PendingAccess) {
    if let Some(reason) = session.activity.closed.clone() {
        settle_promise(session, &access.result, Err(reason));
        return;
    }
    let path = access.path[access.at..].to_vec();
    let mut made = new_export_context(session);
    let expr = match access.op {
        AccessOp::Get => Ok(pipeline_expr(remote.id(), path, None)),
        AccessOp::Call(args) => {
            let args = args.into_iter().map(|arg| export_value(session, arg, &mut made, 1));
            let args = args.collect::<Result<Vec<_>, _>>();
            args.map(|args| pipeline_expr(remote.id(), path, Some(args)))
        }
        AccessOp::Map(mapper) => Ok(export_map(session, remote.id(), path, &mapper, &mut made)),
    };
    let pushed = expr.and_then(|expr| send_push(session, expr));
    let outcome = match pushed {
        Ok(cell) => Ok(promise_value(session, cell)),
        Err(error) => {
            for id in made.export_ids {
                session.tables.release(id, 1).ok();
            }
            Err(error)
        }
    };
    settle_promise(session, &access.result, outcome);
}

fn export_map(
    session: &mut RpcSession,
    id: i64,
    path: Vec<PathKey>,
    mapper: &MapFunction,
    made: &mut ExportContext,
) -> Expr {
    let capture = |hook: &ObjectRef| {
        if let Some(id) = peer_id_of(hook) {
            return import_expr(id);
        }
        let id = session.tables.add_export(hook.clone());
        made.export_ids.push(id);
        Expr::Export(id)
    };
    let captures = mapper.captures.iter().map(capture).collect();
    Expr::Remap(Box::new(RemapExpr {
        id,
        path,
        captures,
        instructions: mapper.instructions.to_vec(),
    }))
}

/// Lets the session do it that the stub belongs to.
fn access_foreign(session: &mut RpcSession, stub: &Stub, access: PendingAccess) {
    let Some(home) = &stub.home else {
        return;
    };
    let there = PromiseCell::pending();
    let bridge = PromiseWaiter::Bridge(SessionBridge {
        home: Arc::clone(&session.mailbox),
        follower: access.result.clone(),
        followed: there.clone(),
    });
    let access = PendingAccess {
        hook: stub.reference.clone(),
        path: access.path[access.at..].into(),
        start: 0,
        at: 0,
        op: access.op,
        result: there.clone(),
        charge: access.charge,
        compared: access.compared,
        budget: access.budget,
    };
    home.push(QueuedCommand::Access(Box::new(access)));
    home.push(QueuedCommand::Wait(there, bridge));
}

/// Returns what the peer calls something of its own, even if it is only promised yet.
fn peer_id_of(hook: &ObjectRef) -> Option<i64> {
    if let ObjectRef::Remote(remote) = hook {
        return Some(remote.id());
    }
    let ObjectRef::Promise(cell) = hook else {
        return None;
    };
    match &*cell.resolve_forwards().lock() {
        PromiseState::Pending(pending) => pending.remote.as_ref().map(RemoteRef::id),
        PromiseState::Done(Ok(Value::Stub(Stub {
            reference: ObjectRef::Remote(remote), ..
        }))) => Some(remote.id()),
        PromiseState::Done(_) | PromiseState::Forward(_) => None,
    }
}

/// Fails if a path compares too many fields: rings of promises make the way as long as the path.
fn charge_search(
    compared: &mut usize,
    fields: usize,
    budget: Option<&MapBudget>,
) -> Result<(), RpcError> {
    const MOST: usize = 10_000_000;
    *compared = compared.saturating_add(fields);
    if *compared > MOST {
        return Err(limit_error("the path takes too many steps"));
    }
    // In a map, comparing is work like copying.
    budget.map_or(Ok(()), |budget| budget.spend_bytes(8 * fields))
}

fn pipeline_expr(id: i64, path: Vec<PathKey>, args: Option<Vec<Expr>>) -> Expr {
    let path = Some(path);
    Expr::Pipeline(Box::new(RefExpr { id, path, args }))
}

fn import_expr(id: i64) -> Expr {
    let (path, args) = (None, None);
    Expr::Import(Box::new(RefExpr { id, path, args }))
}

fn element(items: &[Value], index: f64) -> Option<&Value> {
    let index = crate::json::as_safe_integer(index)?;
    items.get(usize::try_from(index).ok()?)
}

fn key_text(key: &PathKey) -> Arc<str> {
    match key {
        PathKey::Name(name) => Arc::clone(name),
        PathKey::Index(number) => {
            let mut text = String::new();
            crate::json::write_number(*number, &mut text);
            text.into()
        }
    }
}

fn not_a_function(path: &[PathKey]) -> RpcError {
    let path: Vec<_> = path.iter().map(key_text).collect();
    RpcError::type_error(format!("'{}' is not a function.", path.join(".")))
}
