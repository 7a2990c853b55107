//! Moving chunks: to the peer within a window, or into a blob.

use super::object_ref::RemoteRef;
use super::outgoing::{queue_message, stall_if_full};
use super::promise_cell::PromiseCell;
use super::rpc_session::{RpcSession, limit_error};
use super::send_window::SendWindow;
use super::session_tables::UnackedChunk;
use super::stream_pipe::{PeerOutflow, StreamChunk, StreamConsumer, StreamPipe, StreamState};
use super::value_export::send_value;
use super::work_queue::WorkItem;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::{Expr, PathKey, RefExpr, WireMessage};

impl PeerOutflow {
    /// Lets chunks go to that import, at most `window` bytes ahead.
    pub(crate) fn to_remote(remote: RemoteRef, window: usize) -> Self {
        Self { remote: Some(remote), window: SendWindow::new(window), end_sent: false }
    }
}

/// What to do next with a stream.
enum FlowStep {
    Send(RemoteRef, StreamChunk),
    End(RemoteRef, Result<(), RpcError>),
    Collect(StreamChunk),
    FinishBlob,
    Nothing,
}

/// Moves what can be moved.
pub(super) fn pump_stream(session: &mut RpcSession, pipe: &StreamPipe) {
    loop {
        let to_peer = matches!(pipe.lock().consumer, StreamConsumer::Peer(_));
        if to_peer && stall_if_full(session, pipe) {
            return;
        }
        let next = next_step(&mut pipe.lock());
        match next {
            FlowStep::Send(remote, chunk) => {
                let StreamChunk { value, taken, .. } = chunk;
                let sent = send_chunk(session, pipe, remote.id(), "write", Some(value));
                if let Err(error) = &sent {
                    pipe.fail(error);
                }
                settle_taken(session, taken, sent.map(|()| Value::Undefined));
                pipe.wake();
            }
            FlowStep::End(remote, Ok(())) => {
                send_chunk(session, pipe, remote.id(), "close", None).ok();
            }
            FlowStep::End(remote, Err(reason)) => {
                let reason = Value::Error(Box::new(reason));
                let sent = send_chunk(session, pipe, remote.id(), "abort", Some(reason));
                if sent.is_err() {
                    send_chunk(session, pipe, remote.id(), "abort", None).ok();
                }
            }
            FlowStep::Collect(chunk) => collect_blob_chunk(session, pipe, chunk),
            FlowStep::FinishBlob => {
                finish_blob(session, pipe);
                return;
            }
            FlowStep::Nothing => return,
        }
    }
}

fn settle_taken(
    session: &mut RpcSession,
    taken: Option<PromiseCell>,
    outcome: Result<Value, RpcError>,
) {
    if let Some(taken) = taken {
        session.work.push_back(WorkItem::Settle(taken, outcome));
    }
}

fn send_chunk(
    session: &mut RpcSession,
    pipe: &StreamPipe,
    stream: i64,
    method: &str,
    value: Option<Value>,
) -> Result<(), RpcError> {
    let call = |args: Vec<Expr>| {
        WireMessage::Stream(Expr::Pipeline(Box::new(RefExpr {
            id: stream,
            path: Some(vec![PathKey::Name(method.into())]),
            args: Some(args),
        })))
    };
    let bytes = match value {
        Some(value) => send_value(session, value, |expr| call(vec![expr]))?,
        None => queue_message(session, &call(Vec::new()))?,
    };
    let is_end = method != "write";
    let id = session.tables.next_push();
    if let StreamConsumer::Peer(outflow) = &mut pipe.lock().consumer {
        let sent = outflow.window.record_sent(bytes, session.activity.now);
        let pipe = pipe.clone();
        session.tables.unacked.insert(id, UnackedChunk { pipe, sent, is_end });
    }
    Ok(())
}

/// The peer took a chunk, or the end, or refused it.
pub(super) fn chunk_answered(
    session: &mut RpcSession,
    unanswered: UnackedChunk,
    refused: Option<RpcError>,
) {
    let pipe = unanswered.pipe;
    let mut flow = pipe.lock();
    let mut done = None;
    if let StreamConsumer::Peer(outflow) = &mut flow.consumer {
        match refused {
            Some(_) => outflow.window.record_refused(&unanswered.sent),
            None => outflow.window.record_taken(&unanswered.sent, session.activity.now),
        }
        if unanswered.is_end || refused.is_some() {
            outflow.end_sent = true;
            done = outflow.remote.take();
        }
    }
    flow.finished |= unanswered.is_end;
    drop(flow);
    drop(done);
    match refused {
        Some(reason) => pipe.fail(&reason),
        None => pipe.wake(),
    }
    session.work.push_back(WorkItem::Pump(pipe));
}

fn collect_blob_chunk(session: &mut RpcSession, pipe: &StreamPipe, chunk: StreamChunk) {
    let most = session.options.limits.blob_bytes;
    let mut flow = pipe.lock();
    let StreamConsumer::Blob { data, charge, .. } = &mut flow.consumer else {
        return;
    };
    let taken = if let Value::Bytes(bytes) = &chunk.value {
        if data.len() + bytes.data.len() > most {
            Err(limit_error("the blob is too large"))
        } else {
            charge.grow(bytes.data.len()).map(|()| {
                data.extend_from_slice(&bytes.data);
                Value::Undefined
            })
        }
    } else {
        Err(RpcError::type_error("a blob is made of bytes"))
    };
    drop(flow);
    if let Err(error) = &taken {
        pipe.fail(error);
    }
    settle_taken(session, chunk.taken, taken);
}

fn finish_blob(session: &mut RpcSession, pipe: &StreamPipe) {
    let mut flow = pipe.lock();
    let end = flow.end.clone();
    let consumer = std::mem::replace(&mut flow.consumer, StreamConsumer::Reader);
    flow.finished = true;
    drop(flow);
    if let StreamConsumer::Blob { kind, data, whole, charge } = consumer {
        // The promise is charged for the value from here on.
        drop(charge);
        let outcome = match end {
            Some(Err(error)) => Err(error),
            _ => Ok(Value::Blob(kind, data)),
        };
        session.work.push_back(WorkItem::Settle(whole, outcome));
    }
}

/// Decides what to do next; takes the chunk off the queue.
fn next_step(flow: &mut StreamState) -> FlowStep {
    match &mut flow.consumer {
        StreamConsumer::Reader => FlowStep::Nothing,
        StreamConsumer::Blob { .. } => match (flow.chunks.pop_front(), &flow.end) {
            (Some(chunk), _) => FlowStep::Collect(chunk),
            (None, Some(_)) => FlowStep::FinishBlob,
            (None, None) => FlowStep::Nothing,
        },
        StreamConsumer::Peer(outflow) => {
            let Some(remote) = outflow.remote.clone() else {
                return FlowStep::Nothing;
            };
            if outflow.end_sent || outflow.window.is_full() {
                return FlowStep::Nothing;
            }
            match (flow.chunks.pop_front(), &flow.end) {
                (Some(chunk), _) => FlowStep::Send(remote, chunk),
                (None, Some(end)) => {
                    outflow.end_sent = true;
                    FlowStep::End(remote, end.clone())
                }
                (None, None) => FlowStep::Nothing,
            }
        }
    }
}
