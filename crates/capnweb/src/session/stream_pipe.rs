//! Streams: a queue between a writing end and a reading end, with backpressure.
//!
//! A write is answered when its chunk leaves the queue; so a slow reader slows its peer down.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::command_queue::{CommandQueue, QueuedCommand};
use super::memory_account::MemoryCharge;
use super::object_ref::RemoteRef;
use super::promise_cell::PromiseCell;
use super::send_window::SendWindow;
use crate::error::RpcError;
use crate::value::Value;

/// Chunks the application may write ahead of the reader.
const MAX_CHUNKS_AHEAD: usize = 16;

/// One stream; a clone is the same stream and keeps no end open.
#[derive(Clone)]
pub(crate) struct StreamPipe(Arc<Mutex<StreamState>>);

pub(crate) struct StreamChunk {
    pub(crate) value: Value,
    /// Settled when the chunk leaves the queue.
    pub(crate) taken: Option<PromiseCell>,
    /// What it costs the session, if the peer wrote it.
    #[expect(dead_code, reason = "it is held, not read: dropping it returns the bytes")]
    pub(crate) charge: Option<MemoryCharge>,
}

/// Who takes the chunks.
pub(crate) enum StreamConsumer {
    /// A reader of the application, now or later.
    Reader,
    /// The peer: chunks are sent to that import.
    Peer(PeerOutflow),
    /// A blob: everything is collected, then the promise settles.
    Blob { kind: String, data: Vec<u8>, whole: PromiseCell, charge: MemoryCharge },
}

/// Where chunks go, and how far ahead of the peer's answers we send.
pub(crate) struct PeerOutflow {
    /// Let go when the end of the stream was answered.
    pub(crate) remote: Option<RemoteRef>,
    pub(crate) window: SendWindow,
    pub(crate) end_sent: bool,
}

pub(crate) struct StreamState {
    pub(crate) chunks: VecDeque<StreamChunk>,
    /// How the writing end finished.
    pub(crate) end: Option<Result<(), RpcError>>,
    /// Why reading ended.
    pub(crate) refusal: Option<RpcError>,
    pub(crate) consumer: StreamConsumer,
    /// The end has arrived where it goes.
    pub(crate) finished: bool,
    mailbox: Option<Arc<CommandQueue>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl StreamPipe {
    pub(crate) fn new(consumer: StreamConsumer, mailbox: Option<Arc<CommandQueue>>) -> Self {
        Self(Arc::new(Mutex::new(StreamState {
            chunks: VecDeque::new(),
            end: None,
            refusal: None,
            consumer,
            finished: false,
            mailbox,
            reader: None,
            writer: None,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> WeakStreamPipe {
        WeakStreamPipe(Arc::downgrade(&self.0))
    }

    pub(crate) fn ends(self) -> (WriteEnd, ReadEnd) {
        (WriteEnd::new(self.clone()), ReadEnd::new(self))
    }

    /// Lets that session carry the chunks.
    pub(crate) fn attach_session(
        &self,
        consumer: Option<StreamConsumer>,
        mailbox: &Arc<CommandQueue>,
    ) {
        let mut flow = self.lock();
        flow.mailbox = Some(Arc::clone(mailbox));
        if let Some(consumer) = consumer {
            flow.consumer = consumer;
        }
    }

    /// Ends reading, for that reason.
    pub(crate) fn fail(&self, reason: &RpcError) {
        let mut flow = self.lock();
        flow.refusal.get_or_insert_with(|| reason.clone());
        flow.end.get_or_insert_with(|| Err(reason.clone()));
        flow.finished = true;
        let left = std::mem::take(&mut flow.chunks);
        let mailbox = flow.mailbox.clone();
        let wakers = [flow.reader.take(), flow.writer.take()];
        drop(flow);
        for chunk in left {
            settle_chunk(mailbox.as_ref(), chunk.taken, Err(reason.clone()));
        }
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Wakes the tasks that wait for room or for a chunk.
    pub(crate) fn wake(&self) {
        let mut flow = self.lock();
        let wakers = [flow.reader.take(), flow.writer.take()];
        drop(flow);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Ends the writing side once; wakes the reader or tells the session.
    pub(crate) fn finish(&self, end: Result<(), RpcError>) {
        let mut flow = self.lock();
        flow.end.get_or_insert(end);
        let mailbox = flow.mailbox.clone();
        drop(flow);
        self.wake();
        if let Some(mailbox) = mailbox {
            mailbox.push(QueuedCommand::Pump(self.clone()));
        }
    }

    fn poll_read(&self, context: &Context<'_>) -> Poll<Option<Result<Value, RpcError>>> {
        let mut flow = self.lock();
        if let Some(chunk) = flow.chunks.pop_front() {
            let mailbox = flow.mailbox.clone();
            let writer = flow.writer.take();
            drop(flow);
            settle_chunk(mailbox.as_ref(), chunk.taken, Ok(Value::Undefined));
            writer.into_iter().for_each(Waker::wake);
            return Poll::Ready(Some(Ok(chunk.value)));
        }
        match flow.end.clone() {
            Some(Ok(())) => {
                flow.finished = true;
                let writer = flow.writer.take();
                drop(flow);
                writer.into_iter().for_each(Waker::wake);
                Poll::Ready(None)
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                flow.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn write(&self, value: Value) -> Result<(), RpcError> {
        let mut flow = self.lock();
        if let Some(reason) = &flow.refusal {
            return Err(reason.clone());
        }
        if flow.end.is_some() {
            return Err(RpcError::type_error("the stream was closed before"));
        }
        flow.chunks.push_back(StreamChunk { value, taken: None, charge: None });
        let mailbox = flow.mailbox.clone();
        let reader = flow.reader.take();
        drop(flow);
        reader.into_iter().for_each(Waker::wake);
        if let Some(mailbox) = mailbox {
            mailbox.push(QueuedCommand::Pump(self.clone()));
        }
        Ok(())
    }

    fn poll_capacity(&self, context: &Context<'_>, room: usize) -> Poll<Result<(), RpcError>> {
        let mut flow = self.lock();
        if let Some(reason) = &flow.refusal {
            return Poll::Ready(Err(reason.clone()));
        }
        let ready = if room == 0 { flow.finished } else { flow.chunks.len() < room };
        if ready {
            return Poll::Ready(Ok(()));
        }
        flow.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A stream that does not keep itself alive.
pub(crate) struct WeakStreamPipe(Weak<Mutex<StreamState>>);

impl WeakStreamPipe {
    pub(crate) fn upgrade(&self) -> Option<StreamPipe> {
        self.0.upgrade().map(StreamPipe)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Tells the session that a chunk left the queue.
fn settle_chunk(
    mailbox: Option<&Arc<CommandQueue>>,
    taken: Option<PromiseCell>,
    outcome: super::promise_cell::PromiseOutcome,
) {
    if let (Some(mailbox), Some(cell)) = (mailbox, taken) {
        mailbox.push(QueuedCommand::Settle(cell, outcome));
    }
}

/// The end to write to; dropping the last clone without closing aborts the stream.
#[derive(Clone)]
pub(crate) struct WriteEnd(Arc<WriteEndGuard>);

struct WriteEndGuard(StreamPipe);

impl WriteEnd {
    fn new(pipe: StreamPipe) -> Self {
        Self(Arc::new(WriteEndGuard(pipe)))
    }

    pub(crate) fn pipe(&self) -> &StreamPipe {
        &self.0.0
    }
}

impl Drop for WriteEndGuard {
    fn drop(&mut self) {
        let reason = "WritableStream RPC stub was disposed without calling close()";
        if self.0.lock().end.is_none() {
            self.0.finish(Err(RpcError::new("Error", reason)));
        }
    }
}

/// The end to read from; dropping the last clone cancels the stream.
#[derive(Clone)]
pub(crate) struct ReadEnd(Arc<ReadEndGuard>);

struct ReadEndGuard(StreamPipe);

impl ReadEnd {
    fn new(pipe: StreamPipe) -> Self {
        Self(Arc::new(ReadEndGuard(pipe)))
    }

    pub(crate) fn pipe(&self) -> &StreamPipe {
        &self.0.0
    }
}

impl Drop for ReadEndGuard {
    fn drop(&mut self) {
        // Once the chunks go elsewhere, the reading end has done its work.
        let unread = matches!(self.0.lock().consumer, StreamConsumer::Reader);
        if unread {
            let reason = "ReadableStream RPC stub was disposed without being consumed";
            self.0.fail(&RpcError::new("Error", reason));
        }
    }
}

/// A stream to read from.
#[derive(Clone)]
pub struct Readable(pub(crate) ReadEnd);

impl Readable {
    /// Waits for the next chunk; `None` is the end.
    pub async fn read(&mut self) -> Option<Result<Value, RpcError>> {
        std::future::poll_fn(|context| self.0.pipe().poll_read(context)).await
    }
}

/// A stream to write to.
#[derive(Clone)]
pub struct Writable(pub(crate) WriteEnd);

impl Writable {
    /// Writes a chunk and waits until there is room for another.
    ///
    /// # Errors
    ///
    /// Why the reader takes no more.
    pub async fn write(&mut self, chunk: Value) -> Result<(), RpcError> {
        let pipe = self.0.pipe();
        pipe.write(chunk)?;
        std::future::poll_fn(|context| pipe.poll_capacity(context, MAX_CHUNKS_AHEAD)).await
    }

    /// Writes a chunk without waiting for room.
    ///
    /// # Errors
    ///
    /// Why the reader takes no more.
    pub fn write_now(&self, chunk: Value) -> Result<(), RpcError> {
        self.0.pipe().write(chunk)
    }

    /// Ends the stream without waiting for the reader.
    pub fn finish(self) {
        self.0.pipe().finish(Ok(()));
    }

    /// Ends the stream and waits until the reader has seen the end.
    ///
    /// # Errors
    ///
    /// Why the reader did not take everything.
    pub async fn close(self) -> Result<(), RpcError> {
        let pipe = self.0.pipe();
        pipe.finish(Ok(()));
        std::future::poll_fn(|context| pipe.poll_capacity(context, 0)).await
    }

    /// Ends the stream with a reason; the reader sees it after the chunks before.
    pub fn abort(self, reason: RpcError) {
        self.0.pipe().finish(Err(reason));
    }
}

/// Makes a stream; either end can be passed to a peer.
pub fn stream() -> (Writable, Readable) {
    let (write, read) = StreamPipe::new(StreamConsumer::Reader, None).ends();
    (Writable(write), Readable(read))
}

impl fmt::Debug for Readable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Readable")
    }
}

impl fmt::Debug for Writable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Writable")
    }
}
