//! Moving chunks: to the peer within a window, or into a blob.

use super::cell::Cell;
use super::hook::RemoteRef;
use super::pipe::{Chunk, Consumer, Flow, Outflow, Pipe};
use super::table::Unanswered;
use super::turn::{Session, limit};
use super::window::Window;
use super::work::Work;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::{Expr, Key, Message, RefExpr};

impl Outflow {
    /// Lets chunks go to that import, at most `window` bytes ahead.
    pub(crate) fn to(remote: RemoteRef, window: usize) -> Self {
        Self { remote: Some(remote), window: Window::new(window), end_sent: false }
    }
}

/// What to do next with a stream.
enum Next {
    Send(RemoteRef, Chunk),
    End(RemoteRef, Result<(), RpcError>),
    Collect(Chunk),
    Whole,
    Nothing,
}

impl Session {
    /// Moves what can be moved.
    pub(super) fn pump(&mut self, pipe: &Pipe) {
        loop {
            let to_peer = matches!(pipe.lock().consumer, Consumer::Peer(_));
            if to_peer && self.is_stalled(pipe) {
                return;
            }
            let next = next(&mut pipe.lock());
            match next {
                Next::Send(remote, chunk) => {
                    let Chunk { value, taken, .. } = chunk;
                    let sent = self.send_chunk(pipe, remote.id(), "write", Some(value));
                    if let Err(error) = &sent {
                        pipe.fail(error);
                    }
                    self.took(taken, sent.map(|()| Value::Undefined));
                    pipe.wake();
                }
                Next::End(remote, Ok(())) => {
                    self.send_chunk(pipe, remote.id(), "close", None).ok();
                }
                Next::End(remote, Err(reason)) => {
                    let reason = Value::Error(Box::new(reason));
                    let sent = self.send_chunk(pipe, remote.id(), "abort", Some(reason));
                    if sent.is_err() {
                        self.send_chunk(pipe, remote.id(), "abort", None).ok();
                    }
                }
                Next::Collect(chunk) => self.collect(pipe, chunk),
                Next::Whole => {
                    self.whole_blob(pipe);
                    return;
                }
                Next::Nothing => return,
            }
        }
    }

    fn took(&mut self, taken: Option<Cell>, outcome: Result<Value, RpcError>) {
        if let Some(taken) = taken {
            self.work.push_back(Work::Settle(taken, outcome));
        }
    }

    fn send_chunk(
        &mut self,
        pipe: &Pipe,
        stream: i64,
        method: &str,
        value: Option<Value>,
    ) -> Result<(), RpcError> {
        let call = |args: Vec<Expr>| {
            Message::Stream(Expr::Pipeline(Box::new(RefExpr {
                id: stream,
                path: Some(vec![Key::Name(method.into())]),
                args: Some(args),
            })))
        };
        let bytes = match value {
            Some(value) => self.send_value(value, |expr| call(vec![expr]))?,
            None => self.send(&call(Vec::new()))?,
        };
        let is_end = method != "write";
        let id = self.tables.next_push();
        if let Consumer::Peer(outflow) = &mut pipe.lock().consumer {
            let sent = outflow.window.sent(bytes, self.running.now);
            let pipe = pipe.clone();
            self.tables.unanswered.insert(id, Unanswered { pipe, sent, is_end });
        }
        Ok(())
    }

    /// The peer took a chunk, or the end, or refused it.
    pub(super) fn answered(&mut self, unanswered: Unanswered, refused: Option<RpcError>) {
        let pipe = unanswered.pipe;
        let mut flow = pipe.lock();
        let mut done = None;
        if let Consumer::Peer(outflow) = &mut flow.consumer {
            match refused {
                Some(_) => outflow.window.refused(&unanswered.sent),
                None => outflow.window.taken(&unanswered.sent, self.running.now),
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
        self.work.push_back(Work::Pump(pipe));
    }

    fn collect(&mut self, pipe: &Pipe, chunk: Chunk) {
        let most = self.options.limits.blob_bytes;
        let mut flow = pipe.lock();
        let Consumer::Blob { data, charge, .. } = &mut flow.consumer else {
            return;
        };
        let taken = if let Value::Bytes(bytes) = &chunk.value {
            if data.len() + bytes.data.len() > most {
                Err(limit("the blob is too large"))
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
        self.took(chunk.taken, taken);
    }

    fn whole_blob(&mut self, pipe: &Pipe) {
        let mut flow = pipe.lock();
        let end = flow.end.clone();
        let consumer = std::mem::replace(&mut flow.consumer, Consumer::Reader);
        flow.finished = true;
        drop(flow);
        if let Consumer::Blob { kind, data, whole, charge } = consumer {
            // The promise is charged for the value from here on.
            drop(charge);
            let outcome = match end {
                Some(Err(error)) => Err(error),
                _ => Ok(Value::Blob(kind, data)),
            };
            self.work.push_back(Work::Settle(whole, outcome));
        }
    }
}

/// Decides what to do next; takes the chunk off the queue.
fn next(flow: &mut Flow) -> Next {
    match &mut flow.consumer {
        Consumer::Reader => Next::Nothing,
        Consumer::Blob { .. } => match (flow.chunks.pop_front(), &flow.end) {
            (Some(chunk), _) => Next::Collect(chunk),
            (None, Some(_)) => Next::Whole,
            (None, None) => Next::Nothing,
        },
        Consumer::Peer(outflow) => {
            let Some(remote) = outflow.remote.clone() else {
                return Next::Nothing;
            };
            if outflow.end_sent || outflow.window.is_full() {
                return Next::Nothing;
            }
            match (flow.chunks.pop_front(), &flow.end) {
                (Some(chunk), _) => Next::Send(remote, chunk),
                (None, Some(end)) => {
                    outflow.end_sent = true;
                    Next::End(remote, end.clone())
                }
                (None, None) => Next::Nothing,
            }
        }
    }
}
