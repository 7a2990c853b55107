//! One turn of a session: a message or a wish comes in, and everything it causes is done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::command_queue::{CommandQueue, QueuedCommand};
use super::expr_evaluation::check_export_limit;
use super::incoming_message::handle_message;
use super::memory_account::{MemoryAccount, MemoryCharge};
use super::object_ref::{Member, ObjectRef, RemoteRef, RpcTarget};
use super::outgoing::{OutgoingQueue, queue_message};
use super::promise_cell::{PromiseCell, WeakPromiseCell};
use super::promise_settling;
use super::promise_settling::{add_waiter, run_work};
use super::session_event::{CallId, IncomingCall, SessionEvent};
use super::session_limits::SessionOptions;
use super::session_tables::{ExportEntry, OwedOutcome, SessionTables};
use super::stream_pipe::{StreamConsumer, StreamPipe, WeakStreamPipe};
use super::stub::{MainGuard, Stub};
use super::value_export::send_outcome;
use super::work_queue::{WorkItem, disconnected_error};
use crate::error::{CallFailure, RpcError};
use crate::id_hash::IdMap;
use crate::value::Value;
use crate::wire::{DecodeError, Expr, WireLimits, WireMessage};

/// One end of a session.
pub struct RpcSession {
    pub(super) options: SessionOptions,
    pub(super) mailbox: Arc<CommandQueue>,
    /// What is held for the peer.
    pub(super) account: MemoryAccount,
    pub(super) tables: SessionTables,
    pub(super) work: VecDeque<WorkItem>,
    pub(super) outgoing: OutgoingQueue,
    pub(super) activity: SessionActivity,
}

/// A call until it is finished.
pub(super) struct RunningCall {
    pub(super) result: PromiseCell,
    /// What its arguments cost.
    pub(super) charge: Option<MemoryCharge>,
}

/// What is under way.
#[derive(Default)]
pub(super) struct SessionActivity {
    calls: IdMap<CallId, RunningCall>,
    next_call: u64,
    /// Promises of the peer; it can tie them into rings, which are cut when the session ends.
    promises: Vec<WeakPromiseCell>,
    /// Streams of the peer, for the same reason.
    pipes: Vec<WeakStreamPipe>,
    /// Nothing more comes from the peer: what depends on it cannot settle.
    pub(super) input_ended: bool,
    /// How long the session has lasted, as its owner told it last.
    pub(super) now: Duration,
    pub(super) closed: Option<RpcError>,
}

impl RpcSession {
    /// Starts a session that offers `main` to the peer.
    pub fn new(main: Option<Arc<dyn RpcTarget>>, options: SessionOptions) -> Self {
        let mut tables = SessionTables::default();
        let main = match main {
            Some(main) => ObjectRef::Target(main),
            None => ObjectRef::Promise(PromiseCell::already_settled(Ok(Value::Undefined))),
        };
        tables.exports.insert(0, ExportEntry::new(main));
        Self {
            account: MemoryAccount::new(options.limits.held_bytes),
            options,
            mailbox: Arc::default(),
            tables,
            work: VecDeque::new(),
            outgoing: OutgoingQueue::default(),
            activity: SessionActivity::default(),
        }
    }

    /// Returns the main object of the peer. When the last clone is dropped, the session ends.
    pub fn main(&mut self) -> Stub {
        let remote = match self.tables.imports.get(&0).map(|main| main.remote.upgrade()) {
            Some(Some(remote)) => remote,
            _ => {
                let remote = RemoteRef::new(0, &self.mailbox);
                self.tables.add_import(&remote, None);
                remote
            }
        };
        let mut stub = Stub::from_ref(ObjectRef::Remote(remote), Some(&self.mailbox));
        stub.main = Some(Arc::new(MainGuard(Arc::clone(&self.mailbox))));
        stub
    }

    /// Takes a message from the peer. A wrong one ends the session.
    pub fn receive(&mut self, text: &str) {
        if self.activity.closed.is_some() {
            return;
        }
        let decoded = WireMessage::decode(text, &self.options.limits.wire);
        let handled = match decoded {
            Ok(message) => handle_message(self, message),
            Err(error) => Err(decode_error_for_peer(&error)),
        };
        match handled {
            Ok(()) => self.advance(),
            Err(error) => self.abort(&error),
        }
    }

    /// Does what the application asked for since.
    pub fn advance(&mut self) {
        loop {
            while let Some(work) = self.work.pop_front() {
                run_work(self, work);
            }
            let commands = self.mailbox.take();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.run_command(command);
            }
        }
    }

    /// Takes the result of a call.
    pub fn finish_call(&mut self, call: CallId, result: Result<Value, CallFailure>) {
        let Some(RunningCall { result: cell, charge }) = self.activity.calls.remove(&call) else {
            return;
        };
        drop(charge);
        let outcome = result.map_err(|failure| self.redact_failure(failure));
        self.work.push_back(WorkItem::Settle(cell, outcome));
        self.advance();
    }

    /// Returns the next event for the owner.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.outgoing.events.pop_front()
    }

    /// Wakes that task when the application wants something of the session.
    pub fn register_waker(&self, waker: &Waker) {
        self.mailbox.register_waker(waker);
    }

    /// Tells that nothing more comes from the peer, as after the last line of a batch.
    ///
    /// Whatever waits for the peer fails now, and what will wait for it later fails then.
    pub fn end_input(&mut self) {
        self.activity.input_ended = true;
        let cells = self.tables.imports.values();
        let cells: Vec<_> = cells.filter_map(|import| import.cell.as_ref()?.upgrade()).collect();
        for cell in cells {
            self.work.push_back(WorkItem::Settle(cell, Err(promise_settling::batch_wait_error())));
        }
        self.advance();
    }

    /// Counts the outcomes that the peer still waits for.
    pub fn pending_pulls(&self) -> usize {
        self.tables.owed_count(OwedOutcome::Pull) + self.tables.owed_count(OwedOutcome::Promise)
    }

    /// Rejects everything that the peer still waits for.
    pub fn reject_pulls(&mut self, reason: &RpcError) {
        for id in self.tables.owed_exports() {
            send_outcome(self, id, Err(reason.clone()));
        }
    }

    /// Returns the limits of a single message.
    pub fn wire_limits(&self) -> &WireLimits {
        &self.options.limits.wire
    }

    /// Returns the bytes held for the peer, entries of tables not included.
    pub fn held_bytes(&self) -> usize {
        self.account.used_bytes()
    }

    /// Counts the entries of the tables: exports, then imports; both hold a main object.
    pub fn table_sizes(&self) -> (usize, usize) {
        (self.tables.exports.len(), self.tables.imports.len())
    }

    /// Tells why the session is over, if it is.
    pub fn close_reason(&self) -> Option<&RpcError> {
        self.activity.closed.as_ref()
    }

    /// Tells how old the session is; beyond the limit it is closed in the normal way.
    ///
    /// Streams learn from it how fast the connection is. Without it they run less far ahead.
    pub fn set_age(&mut self, age: Duration) {
        self.activity.now = age;
        let limit = self.options.limits.age;
        if limit.is_some_and(|limit| age > limit) {
            self.close(&RpcError::with_code("age", "the session reached its age limit"));
        }
    }

    /// Ends the session with a message that says why.
    pub fn abort(&mut self, reason: &RpcError) {
        if self.activity.closed.is_some() {
            return;
        }
        // The reason may hold no capabilities, and this one is the last thing sent.
        let plain = Expr::Error(Box::new(super::value_export::plain_error(reason)));
        queue_message(self, &WireMessage::Abort(plain)).ok();
        self.close(reason);
    }

    /// Ends the session without a message: the transport is gone, or about to be.
    pub fn close(&mut self, reason: &RpcError) {
        if self.activity.closed.is_some() {
            return;
        }
        self.activity.closed = Some(reason.clone());
        self.mailbox.close(reason);
        let imports = std::mem::take(&mut self.tables.imports);
        let promised = imports.into_values().filter_map(|import| import.cell?.upgrade());
        let called = std::mem::take(&mut self.activity.calls).into_values().map(|call| call.result);
        for cell in promised.chain(called) {
            self.work.push_back(WorkItem::Settle(cell, Err(reason.clone())));
        }
        for (_, unanswered) in self.tables.unacked.drain() {
            unanswered.pipe.fail(reason);
        }
        for pipe in self.outgoing.take_stalled() {
            pipe.fail(reason);
        }
        let pipes = std::mem::take(&mut self.activity.pipes);
        for pipe in pipes.iter().filter_map(WeakStreamPipe::upgrade) {
            pipe.fail(reason);
        }
        let exports = self.tables.take_exports();
        for export in exports.values() {
            if let ObjectRef::Writable(sink) = &export.hook {
                sink.pipe().fail(reason);
            }
        }
        drop(exports);
        self.advance();
        for promise in std::mem::take(&mut self.activity.promises) {
            promise.upgrade().into_iter().for_each(|cell| cell.clear(reason));
        }
        self.outgoing.events.push_back(SessionEvent::Closed(reason.clone()));
    }

    fn run_command(&mut self, command: QueuedCommand) {
        match command {
            QueuedCommand::Release(id) => self.release_import(id),
            QueuedCommand::Access(access) => self.work.push_back(WorkItem::Access(access)),
            QueuedCommand::Wait(cell, waiter) => add_waiter(self, &cell, waiter),
            QueuedCommand::Settle(cell, outcome) => {
                self.work.push_back(WorkItem::Settle(cell, outcome))
            }
            QueuedCommand::Pump(pipe) => self.work.push_back(WorkItem::Pump(pipe)),
            QueuedCommand::Shutdown => {
                let message = "RPC session was shut down by disposing the main stub";
                self.close(&RpcError::with_code("shutdown", message));
            }
        }
    }

    /// Gives an import back, unless it was introduced again meanwhile.
    fn release_import(&mut self, id: i64) {
        let dead = |import: &super::session_tables::ImportEntry| import.remote.upgrade().is_none();
        if id == 0 || !self.tables.imports.get(&id).is_some_and(dead) {
            return;
        }
        if let Some(import) = self.tables.imports.remove(&id) {
            queue_message(self, &WireMessage::Release(id, import.introductions)).ok();
        }
    }

    /// Emits a call of an object of ours.
    pub(super) fn emit_call(
        &mut self,
        target: Arc<dyn RpcTarget>,
        member: Member,
        args: Vec<Value>,
        held: RunningCall,
    ) {
        if self.activity.closed.is_some() {
            self.work.push_back(WorkItem::Settle(held.result, Err(disconnected_error())));
            return;
        }
        if self.activity.calls.len() >= self.options.limits.running_calls {
            let refused = Err(limit_error("too many calls are under way"));
            self.work.push_back(WorkItem::Settle(held.result, refused));
            return;
        }
        self.activity.next_call += 1;
        let id = CallId(self.activity.next_call);
        self.activity.calls.insert(id, held);
        self.outgoing.events.push_back(SessionEvent::Call(IncomingCall {
            id,
            target,
            member,
            args,
        }));
    }

    /// Remembers a promise of the peer's, so that a ring of them can be cut.
    pub(super) fn track_promise(&mut self, cell: &PromiseCell) -> Result<(), RpcError> {
        let promises = &mut self.activity.promises;
        let most = self.options.limits.imports;
        if promises.len() == promises.capacity() || promises.len() >= most {
            promises.retain(|promise| !promise.is_dead());
        }
        if promises.len() >= most {
            return Err(limit_error("too many promises of the peer are held"));
        }
        promises.push(cell.downgrade());
        Ok(())
    }

    /// Makes a stream for the peer to write to; it is remembered like a promise.
    pub(super) fn open_pipe(&mut self) -> Result<(), RpcError> {
        check_export_limit(self)?;
        let pipes = &mut self.activity.pipes;
        let most = self.options.limits.streams;
        if pipes.len() == pipes.capacity() || pipes.len() >= most {
            pipes.retain(|pipe| !pipe.is_dead());
        }
        if pipes.len() >= most {
            return Err(limit_error("too many streams are open"));
        }
        let pipe = StreamPipe::new(StreamConsumer::Reader, Some(Arc::clone(&self.mailbox)));
        pipes.push(pipe.downgrade());
        let (write, read) = pipe.ends();
        let mut export = ExportEntry::new(ObjectRef::Writable(write));
        export.readable = Some(read);
        self.tables.add_pushed(export);
        Ok(())
    }

    fn redact_failure(&mut self, failure: CallFailure) -> RpcError {
        match failure {
            CallFailure::Domain(error) => error,
            CallFailure::Internal(error) => {
                self.outgoing.incidents += 1;
                let id = format!("{}{}", self.options.incident_prefix, self.outgoing.incidents);
                let reported = RpcError::with_code("internal", "internal error");
                let reported = reported.with_prop("incident", Value::String(id.clone()));
                self.outgoing.events.push_back(SessionEvent::Incident { id, error });
                reported
            }
        }
    }
}

impl Drop for RpcSession {
    /// Everything that still waits is rejected.
    fn drop(&mut self) {
        self.close(&disconnected_error());
    }
}

/// Tells the peer what is wrong with its message, in the class that npm throws.
fn decode_error_for_peer(error: &DecodeError) -> RpcError {
    let class = match error {
        DecodeError::Json(_) => "SyntaxError",
        DecodeError::Form(_) | DecodeError::Body(_) => "TypeError",
        DecodeError::TooLong(_)
        | DecodeError::Message(_)
        | DecodeError::TooDeep(_)
        | DecodeError::TooManyDigits(_) => "Error",
    };
    let reported = RpcError::new(class, error.to_string());
    reported.with_prop("code", Value::String("protocol".to_owned()))
}

/// The peer went beyond a limit.
pub(super) fn limit_error(what: &str) -> RpcError {
    RpcError::with_code("limit", what)
}
