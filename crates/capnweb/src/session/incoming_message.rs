//! Messages of the peer: pushes, pulls, results, releases and aborts.

use super::expr_evaluation::{check_export_limit, evaluate, settled_cell};
use super::object_ref::ObjectRef;
use super::promise_cell::{PromiseCell, PromiseOutcome, WeakPromiseCell};
use super::promise_settling::add_waiter;
use super::rpc_session::{RpcSession, limit_error};
use super::session_tables::{ExportEntry, OwedOutcome};
use super::stream_flow::chunk_answered;
use super::stub::Stub;
use super::work_queue::{PromiseWaiter, WorkItem};
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::{Expr, WireMessage};

pub(super) fn handle_message(
    session: &mut RpcSession,
    message: WireMessage,
) -> Result<(), RpcError> {
    match message {
        WireMessage::Push(expr) => handle_push(session, expr).map(|_| ()),
        WireMessage::Stream(expr) => {
            let id = handle_push(session, expr)?;
            if let Some(export) = session.tables.exports.get_mut(&id) {
                export.once = true;
            }
            handle_pull(session, id)
        }
        WireMessage::Pipe => session.open_pipe(),
        WireMessage::Pull(id) => handle_pull(session, id),
        WireMessage::Resolve(id, expr) => {
            let value = evaluate(session, expr, None)?;
            handle_resolved(session, id, Ok(value));
            Ok(())
        }
        WireMessage::Reject(id, expr) => {
            let reason = evaluate(session, expr, None)?;
            handle_resolved(session, id, Err(RpcError::from_reason(reason)));
            Ok(())
        }
        WireMessage::Release(id, count) => {
            session.tables.release(id, count)?;
            Ok(())
        }
        WireMessage::Abort(expr) => {
            let reason = evaluate(session, expr, None)?;
            // It is copied to everything that waits.
            session.close(&RpcError::from_reason(reason).truncated());
            Ok(())
        }
    }
}

fn handle_push(session: &mut RpcSession, expr: Expr) -> Result<i64, RpcError> {
    check_export_limit(session)?;
    let value = evaluate(session, expr, None)?;
    // A pushed `import` is what it leads to; only inside a value it stays a stub.
    let cell = if let Value::Stub(Stub { reference: ObjectRef::Promise(cell), .. }) = value {
        cell
    } else {
        settled_cell(session, value)?
    };
    Ok(session.tables.add_pushed(ExportEntry::new(ObjectRef::Promise(cell))))
}

fn handle_pull(session: &mut RpcSession, id: i64) -> Result<(), RpcError> {
    let Some(export) = session.tables.exports.get(&id) else {
        return Err(RpcError::new("Error", format!("no such export ID: {id}")));
    };
    if export.pulled {
        return Ok(());
    }
    let hook = export.hook.clone();
    if session.tables.owed_count(OwedOutcome::Pull) >= session.options.limits.pending_pulls {
        return Err(limit_error("too many results are waited for"));
    }
    session.tables.mark_owed(id, OwedOutcome::Pull);
    match hook {
        ObjectRef::Promise(cell) => add_waiter(session, &cell, PromiseWaiter::Resolve(id)),
        ObjectRef::Writable(_) => {
            let error = RpcError::new("Error", "Cannot pull a WritableStream stub");
            session.work.push_back(WorkItem::Run(
                PromiseWaiter::Resolve(id),
                PromiseCell::already_settled(Err(error)),
            ));
        }
        hook @ (ObjectRef::Target(_)
        | ObjectRef::Method(..)
        | ObjectRef::Remote(_)
        | ObjectRef::Foreign(_)) => {
            let value = Value::Stub(Stub::from_ref(hook, Some(&session.mailbox)));
            session.work.push_back(WorkItem::Run(
                PromiseWaiter::Resolve(id),
                PromiseCell::already_settled(Ok(value)),
            ));
        }
    }
    Ok(())
}

/// The peer settled an import of ours, or answered a chunk.
fn handle_resolved(session: &mut RpcSession, id: i64, outcome: PromiseOutcome) {
    if let Some(unanswered) = session.tables.unacked.remove(&id) {
        chunk_answered(session, unanswered, outcome.err());
        return;
    }
    let cell = session.tables.imports.get(&id).and_then(|import| import.cell.as_ref());
    if let Some(cell) = cell.and_then(WeakPromiseCell::upgrade) {
        session.work.push_back(WorkItem::Settle(cell, outcome));
    }
}
