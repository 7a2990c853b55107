//! From values to expressions: what is ours is introduced, what is the peer's is named.

use std::sync::Arc;

use super::expr_evaluation::check_export_limit;
use super::object_ref::{ObjectRef, RemoteRef};
use super::outgoing::queue_message;
use super::promise_cell::{PromiseCell, PromiseOutcome, PromiseState};
use super::promise_settling::{add_waiter, localize_promise};
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

/// Sends how an export settled, unless the peer gave it back meanwhile.
pub(super) fn send_outcome(session: &mut RpcSession, id: i64, outcome: PromiseOutcome) {
    let Some(export) = session.tables.take_owed(id) else {
        return;
    };
    let once = export.once;
    let outcome = match outcome {
        Ok(value) => send_value(session, value, |expr| WireMessage::Resolve(id, expr)).map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        let plain = Expr::Error(Box::new(plain_error(&error)));
        let value = Value::Error(Box::new(error));
        let sent = send_value(session, value, |expr| WireMessage::Reject(id, expr));
        // What cannot be sent completely is sent in part.
        let reported = sent.or_else(|_| queue_message(session, &WireMessage::Reject(id, plain)));
        if reported.is_err() {
            session.abort(&RpcError::with_code("slow", "too many answers wait for the peer"));
            return;
        }
    }
    if once {
        session.tables.release(id, 1).ok();
    }
}

/// Begins an expression.
pub(super) fn new_export_context(session: &RpcSession) -> ExportContext {
    let limits = &session.options.limits;
    let room =
        SubstitutionBudget { values: limits.substituted_values, bytes: limits.substituted_bytes };
    ExportContext { export_ids: Vec::new(), budget: room }
}

/// Sends a message around a value; if it cannot be sent, nothing stays introduced.
pub(super) fn send_value(
    session: &mut RpcSession,
    value: Value,
    message: impl FnOnce(Expr) -> WireMessage,
) -> Result<usize, RpcError> {
    let mut made = new_export_context(session);
    let sent = match export_value(session, value, &mut made, 0) {
        Ok(expr) => queue_message(session, &message(expr)),
        Err(error) => Err(error),
    };
    if sent.is_err() {
        for id in made.export_ids {
            session.tables.release(id, 1).ok();
        }
    }
    sent
}

/// Makes an expression of a value; `made` collects the exports it introduced.
pub(super) fn export_value(
    session: &mut RpcSession,
    value: Value,
    made: &mut ExportContext,
    depth: usize,
) -> Result<Expr, RpcError> {
    if depth >= session.options.limits.wire.depth {
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
            let items = items.into_iter().map(|item| export_value(session, item, made, deeper));
            Expr::Array(items.collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => Expr::Object(export_fields(session, fields, made, deeper)?),
        Value::BigInt(number) => Expr::BigInt(number),
        Value::Date(time) => Expr::Date(time),
        Value::Bytes(bytes) => Expr::Bytes(bytes),
        Value::Error(error) => Expr::Error(Box::new(ErrorExpr {
            name: error.name,
            message: error.message,
            stack: None,
            props: export_fields(session, error.props, made, deeper)?,
        })),
        Value::Url(href) => Expr::Url(href),
        Value::Headers(pairs) => Expr::Headers(pairs),
        Value::Request(url, http) => {
            let init = export_http(session, *http, made, deeper)?;
            Expr::Request(url, Box::new(init))
        }
        Value::Response(http) => {
            Expr::Response(Box::new(export_http(session, *http, made, deeper)?))
        }
        Value::Blob(kind, data) => export_blob(session, kind, &data)?,
        Value::Stub(stub) => export_stub(session, &stub, made)?,
        Value::Promise(promise) => export_promise(session, &promise, made, depth)?,
        Value::Readable(readable) => export_pipe(session, readable.0.pipe()).map(Expr::Readable)?,
        Value::Writable(writable) => {
            check_streams_supported(session)?;
            check_export_limit(session)?;
            writable.0.pipe().attach_session(None, &session.mailbox);
            let id = session.tables.add_export(ObjectRef::Writable(writable.0.clone()));
            made.export_ids.push(id);
            Expr::Writable(id)
        }
    })
}

fn export_fields(
    session: &mut RpcSession,
    fields: Vec<(String, Value)>,
    made: &mut ExportContext,
    depth: usize,
) -> Result<Vec<(String, Expr)>, RpcError> {
    let mut exported = Vec::with_capacity(fields.len());
    for (key, value) in fields {
        exported.push((key, export_value(session, value, made, depth)?));
    }
    Ok(exported)
}

fn export_http(
    session: &mut RpcSession,
    http: HttpParts,
    made: &mut ExportContext,
    depth: usize,
) -> Result<HttpInit, RpcError> {
    Ok(HttpInit {
        headers: http.headers,
        body: http.body.map(|body| export_value(session, body, made, depth)).transpose()?,
        fields: http.fields,
    })
}

fn is_foreign(session: &RpcSession, stub: &Stub) -> bool {
    let portable = matches!(stub.reference, ObjectRef::Target(_) | ObjectRef::Method(..));
    let home = stub.home.as_ref();
    !portable && home.is_some_and(|home| !home.is_same(&session.mailbox))
}

/// Returns the hook to keep for a stub of any session.
pub(super) fn reference_of(session: &RpcSession, stub: &Stub) -> ObjectRef {
    if is_foreign(session, stub) {
        return ObjectRef::Foreign(Box::new(stub.clone()));
    }
    stub.reference.clone()
}

fn export_stub(
    session: &mut RpcSession,
    stub: &Stub,
    made: &mut ExportContext,
) -> Result<Expr, RpcError> {
    let hook = reference_of(session, stub);
    if let ObjectRef::Remote(remote) = hook {
        return Ok(Expr::Import(Box::new(whole_ref(remote.id()))));
    }
    check_export_limit(session)?;
    let id = session.tables.add_export(hook);
    made.export_ids.push(id);
    Ok(Expr::Export(id))
}

fn export_promise(
    session: &mut RpcSession,
    promise: &Promise,
    made: &mut ExportContext,
    depth: usize,
) -> Result<Expr, RpcError> {
    let cell = localize_promise(session, promise).resolve_forwards();
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
        return export_value(session, value, made, depth);
    }
    if session.tables.owed_count(OwedOutcome::Promise) >= session.options.limits.exports {
        return Err(limit_error("too many promises are owed to the peer"));
    }
    check_export_limit(session)?;
    let id = session.tables.add_export(ObjectRef::Promise(cell.clone()));
    made.export_ids.push(id);
    session.tables.mark_owed(id, OwedOutcome::Promise);
    add_waiter(session, &cell, PromiseWaiter::Resolve(id));
    Ok(Expr::Promise(id))
}

fn check_streams_supported(session: &RpcSession) -> Result<(), RpcError> {
    if session.options.profile == PeerVersion::V0_4 {
        return Err(RpcError::type_error("the peer does not understand streams"));
    }
    Ok(())
}

/// Makes a pipe at the peer and lets the stream flow into it.
fn export_pipe(session: &mut RpcSession, pipe: &StreamPipe) -> Result<i64, RpcError> {
    check_streams_supported(session)?;
    if !matches!(pipe.lock().consumer, StreamConsumer::Reader) {
        return Err(RpcError::type_error("the stream was passed on before"));
    }
    queue_message(session, &WireMessage::Pipe)?;
    let remote = RemoteRef::new(session.tables.next_push(), &session.mailbox);
    let id = remote.id();
    session.tables.add_import(&remote, None);
    pipe.attach_session(
        Some(StreamConsumer::Peer(PeerOutflow::to_remote(
            remote,
            session.options.limits.stream_window,
        ))),
        &session.mailbox,
    );
    session.work.push_back(WorkItem::Pump(pipe.clone()));
    Ok(id)
}

fn export_blob(session: &mut RpcSession, kind: String, data: &[u8]) -> Result<Expr, RpcError> {
    let pipe = StreamPipe::new(StreamConsumer::Reader, Some(Arc::clone(&session.mailbox)));
    let mut flow = pipe.lock();
    for part in data.chunks(64 * 1024) {
        let value = Value::Bytes(TypedBytes::from(part.to_vec()));
        flow.chunks.push_back(StreamChunk { value, taken: None, charge: None });
    }
    flow.end = Some(Ok(()));
    drop(flow);
    let id = export_pipe(session, &pipe)?;
    Ok(Expr::Blob(kind, id))
}

/// Sends an expression as a push; the result is a promise of the peer's.
pub(super) fn send_push(session: &mut RpcSession, expr: Expr) -> Result<PromiseCell, RpcError> {
    queue_message(session, &WireMessage::Push(expr))?;
    let remote = RemoteRef::new(session.tables.next_push(), &session.mailbox);
    let cell = PromiseCell::remote(remote.clone(), false);
    session.tables.add_import(&remote, Some(&cell));
    Ok(cell)
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
