//! One turn of a session: a message or a wish comes in, and everything it causes is done.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::account::{Account, Charge};
use super::cell::{Cell, Outcome, WeakCell};
use super::event::{Call, CallId, Event};
use super::hook::{Hook, Member, RemoteRef, Target};
use super::limits::Options;
use super::mailbox::{Command, Mailbox};
use super::outgoing::Out;
use super::pipe::{Consumer, Pipe, WeakPipe};
use super::settle;
use super::stub::{MainGuard, Stub};
use super::table::{Debt, Export, Tables};
use super::work::{Waiter, Work, gone};
use crate::error::{Failure, RpcError};
use crate::hash::IdMap;
use crate::value::Value;
use crate::wire::{DecodeError, Expr, Message, WireLimits};

/// One end of a session.
pub struct Session {
    pub(super) options: Options,
    pub(super) mailbox: Arc<Mailbox>,
    /// What is held for the peer.
    pub(super) account: Account,
    pub(super) tables: Tables,
    pub(super) work: VecDeque<Work>,
    pub(super) out: Out,
    pub(super) running: Running,
}

/// A call until it is finished.
pub(super) struct HeldCall {
    pub(super) result: Cell,
    /// What its arguments cost.
    pub(super) charge: Option<Charge>,
}

/// What is under way.
#[derive(Default)]
pub(super) struct Running {
    calls: IdMap<CallId, HeldCall>,
    next_call: u64,
    /// Promises of the peer; it can tie them into rings, which are cut when the session ends.
    promises: Vec<WeakCell>,
    /// Streams of the peer, for the same reason.
    pipes: Vec<WeakPipe>,
    /// Nothing more comes from the peer: what depends on it cannot settle.
    pub(super) input_ended: bool,
    /// How long the session has lasted, as its owner told it last.
    pub(super) now: Duration,
    pub(super) closed: Option<RpcError>,
}

impl Session {
    /// Starts a session that offers `main` to the peer.
    pub fn new(main: Option<Arc<dyn Target>>, options: Options) -> Self {
        let mut tables = Tables::default();
        let main = match main {
            Some(main) => Hook::Target(main),
            None => Hook::Cell(Cell::done(Ok(Value::Undefined))),
        };
        tables.exports.insert(0, Export::new(main));
        Self {
            account: Account::new(options.limits.held_bytes),
            options,
            mailbox: Arc::default(),
            tables,
            work: VecDeque::new(),
            out: Out::default(),
            running: Running::default(),
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
        let mut stub = Stub::of(Hook::Remote(remote), Some(&self.mailbox));
        stub.main = Some(Arc::new(MainGuard(Arc::clone(&self.mailbox))));
        stub
    }

    /// Takes a message from the peer. A wrong one ends the session.
    pub fn receive(&mut self, text: &str) {
        if self.running.closed.is_some() {
            return;
        }
        let decoded = Message::decode(text, &self.options.limits.wire);
        let handled = match decoded {
            Ok(message) => self.handle(message),
            Err(error) => Err(refusal(&error)),
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
                self.step(work);
            }
            let commands = self.mailbox.take();
            if commands.is_empty() {
                return;
            }
            for command in commands {
                self.obey(command);
            }
        }
    }

    /// Takes the result of a call.
    pub fn finish(&mut self, call: CallId, result: Result<Value, Failure>) {
        let Some(HeldCall { result: cell, charge }) = self.running.calls.remove(&call) else {
            return;
        };
        drop(charge);
        let outcome = result.map_err(|failure| self.redact(failure));
        self.work.push_back(Work::Settle(cell, outcome));
        self.advance();
    }

    /// Returns the next event for the owner.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.out.events.pop_front()
    }

    /// Wakes that task when the application wants something of the session.
    pub fn watch(&self, waker: &Waker) {
        self.mailbox.watch(waker);
    }

    /// Tells that nothing more comes from the peer, as after the last line of a batch.
    ///
    /// Whatever waits for the peer fails now, and what will wait for it later fails then.
    pub fn end_input(&mut self) {
        self.running.input_ended = true;
        let cells = self.tables.imports.values();
        let cells: Vec<_> = cells.filter_map(|import| import.cell.as_ref()?.upgrade()).collect();
        for cell in cells {
            self.work.push_back(Work::Settle(cell, Err(settle::one_way())));
        }
        self.advance();
    }

    /// Counts the outcomes that the peer still waits for.
    pub fn pending_pulls(&self) -> usize {
        self.tables.owed(Debt::Pull) + self.tables.owed(Debt::Promise)
    }

    /// Rejects everything that the peer still waits for.
    pub fn reject_pulls(&mut self, reason: &RpcError) {
        for id in self.tables.unpaid() {
            self.answer(id, Err(reason.clone()));
        }
    }

    /// Returns the limits of a single message.
    pub fn wire_limits(&self) -> &WireLimits {
        &self.options.limits.wire
    }

    /// Returns the bytes held for the peer, entries of tables not included.
    pub fn held_bytes(&self) -> usize {
        self.account.used()
    }

    /// Counts the entries of the tables: exports, then imports; both hold a main object.
    pub fn table_sizes(&self) -> (usize, usize) {
        (self.tables.exports.len(), self.tables.imports.len())
    }

    /// Tells why the session is over, if it is.
    pub fn closed(&self) -> Option<&RpcError> {
        self.running.closed.as_ref()
    }

    /// Tells how old the session is; beyond the limit it is closed in the normal way.
    ///
    /// Streams learn from it how fast the connection is. Without it they run less far ahead.
    pub fn tick(&mut self, age: Duration) {
        self.running.now = age;
        let limit = self.options.limits.age;
        if limit.is_some_and(|limit| age > limit) {
            self.close(&RpcError::coded("age", "the session reached its age limit"));
        }
    }

    /// Ends the session with a message that says why.
    pub fn abort(&mut self, reason: &RpcError) {
        if self.running.closed.is_some() {
            return;
        }
        // The reason may hold no capabilities, and this one is the last thing sent.
        let plain = Expr::Error(Box::new(super::export::plain_error(reason)));
        self.send(&Message::Abort(plain)).ok();
        self.close(reason);
    }

    /// Ends the session without a message: the transport is gone, or about to be.
    pub fn close(&mut self, reason: &RpcError) {
        if self.running.closed.is_some() {
            return;
        }
        self.running.closed = Some(reason.clone());
        self.mailbox.close(reason);
        let imports = std::mem::take(&mut self.tables.imports);
        let promised = imports.into_values().filter_map(|import| import.cell?.upgrade());
        let called = std::mem::take(&mut self.running.calls).into_values().map(|call| call.result);
        for cell in promised.chain(called) {
            self.work.push_back(Work::Settle(cell, Err(reason.clone())));
        }
        for (_, unanswered) in self.tables.unanswered.drain() {
            unanswered.pipe.fail(reason);
        }
        for pipe in self.out.take_stalled() {
            pipe.fail(reason);
        }
        let pipes = std::mem::take(&mut self.running.pipes);
        for pipe in pipes.iter().filter_map(WeakPipe::upgrade) {
            pipe.fail(reason);
        }
        let exports = self.tables.take_exports();
        for export in exports.values() {
            if let Hook::Sink(sink) = &export.hook {
                sink.pipe().fail(reason);
            }
        }
        drop(exports);
        self.advance();
        for promise in std::mem::take(&mut self.running.promises) {
            promise.upgrade().into_iter().for_each(|cell| cell.clear(reason));
        }
        self.out.events.push_back(Event::Closed(reason.clone()));
    }

    fn handle(&mut self, message: Message) -> Result<(), RpcError> {
        match message {
            Message::Push(expr) => self.push(expr).map(|_| ()),
            Message::Stream(expr) => {
                let id = self.push(expr)?;
                if let Some(export) = self.tables.exports.get_mut(&id) {
                    export.once = true;
                }
                self.pull(id)
            }
            Message::Pipe => self.open_pipe(),
            Message::Pull(id) => self.pull(id),
            Message::Resolve(id, expr) => {
                let value = self.evaluate(expr, None)?;
                self.resolved(id, Ok(value));
                Ok(())
            }
            Message::Reject(id, expr) => {
                let reason = self.evaluate(expr, None)?;
                self.resolved(id, Err(RpcError::from_reason(reason)));
                Ok(())
            }
            Message::Release(id, count) => {
                self.tables.release(id, count)?;
                Ok(())
            }
            Message::Abort(expr) => {
                let reason = self.evaluate(expr, None)?;
                // It is copied to everything that waits.
                self.close(&RpcError::from_reason(reason).shortened());
                Ok(())
            }
        }
    }

    fn push(&mut self, expr: Expr) -> Result<i64, RpcError> {
        self.room_for_export()?;
        let value = self.evaluate(expr, None)?;
        // A pushed `import` is what it leads to; only inside a value it stays a stub.
        let cell = if let Value::Stub(Stub { hook: Hook::Cell(cell), .. }) = value {
            cell
        } else {
            self.settled(value)?
        };
        Ok(self.tables.add_pushed(Export::new(Hook::Cell(cell))))
    }

    fn pull(&mut self, id: i64) -> Result<(), RpcError> {
        let Some(export) = self.tables.exports.get(&id) else {
            return Err(RpcError::new("Error", format!("no such export ID: {id}")));
        };
        if export.pulled {
            return Ok(());
        }
        let hook = export.hook.clone();
        if self.tables.owed(Debt::Pull) >= self.options.limits.pending_pulls {
            return Err(limit("too many results are waited for"));
        }
        self.tables.owe(id, Debt::Pull);
        match hook {
            Hook::Cell(cell) => self.wait(&cell, Waiter::Resolve(id)),
            Hook::Sink(_) => {
                let error = RpcError::new("Error", "Cannot pull a WritableStream stub");
                self.work.push_back(Work::Run(Waiter::Resolve(id), Cell::done(Err(error))));
            }
            hook @ (Hook::Target(_) | Hook::Method(..) | Hook::Remote(_) | Hook::Foreign(_)) => {
                let value = Value::Stub(Stub::of(hook, Some(&self.mailbox)));
                self.work.push_back(Work::Run(Waiter::Resolve(id), Cell::done(Ok(value))));
            }
        }
        Ok(())
    }

    /// The peer settled an import of ours, or answered a chunk.
    fn resolved(&mut self, id: i64, outcome: Outcome) {
        if let Some(unanswered) = self.tables.unanswered.remove(&id) {
            self.answered(unanswered, outcome.err());
            return;
        }
        let cell = self.tables.imports.get(&id).and_then(|import| import.cell.as_ref());
        if let Some(cell) = cell.and_then(WeakCell::upgrade) {
            self.work.push_back(Work::Settle(cell, outcome));
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Release(id) => self.release(id),
            Command::Access(access) => self.work.push_back(Work::Access(access)),
            Command::Wait(cell, waiter) => self.wait(&cell, waiter),
            Command::Settle(cell, outcome) => self.work.push_back(Work::Settle(cell, outcome)),
            Command::Pump(pipe) => self.work.push_back(Work::Pump(pipe)),
            Command::Shutdown => {
                let message = "RPC session was shut down by disposing the main stub";
                self.close(&RpcError::coded("shutdown", message));
            }
        }
    }

    /// Gives an import back, unless it was introduced again meanwhile.
    fn release(&mut self, id: i64) {
        let dead = |import: &super::table::Import| import.remote.upgrade().is_none();
        if id == 0 || !self.tables.imports.get(&id).is_some_and(dead) {
            return;
        }
        if let Some(import) = self.tables.imports.remove(&id) {
            self.send(&Message::Release(id, import.introductions)).ok();
        }
    }

    /// Emits a call of an object of ours.
    pub(super) fn call(
        &mut self,
        target: Arc<dyn Target>,
        member: Member,
        args: Vec<Value>,
        held: HeldCall,
    ) {
        if self.running.closed.is_some() {
            self.work.push_back(Work::Settle(held.result, Err(gone())));
            return;
        }
        if self.running.calls.len() >= self.options.limits.running_calls {
            let refused = Err(limit("too many calls are under way"));
            self.work.push_back(Work::Settle(held.result, refused));
            return;
        }
        self.running.next_call += 1;
        let id = CallId(self.running.next_call);
        self.running.calls.insert(id, held);
        self.out.events.push_back(Event::Call(Call { id, target, member, args }));
    }

    /// Remembers a promise of the peer's, so that a ring of them can be cut.
    pub(super) fn remember(&mut self, cell: &Cell) -> Result<(), RpcError> {
        let promises = &mut self.running.promises;
        let most = self.options.limits.imports;
        if promises.len() == promises.capacity() || promises.len() >= most {
            promises.retain(|promise| !promise.is_dead());
        }
        if promises.len() >= most {
            return Err(limit("too many promises of the peer are held"));
        }
        promises.push(cell.downgrade());
        Ok(())
    }

    /// Makes a stream for the peer to write to; it is remembered like a promise.
    fn open_pipe(&mut self) -> Result<(), RpcError> {
        self.room_for_export()?;
        let pipes = &mut self.running.pipes;
        let most = self.options.limits.streams;
        if pipes.len() == pipes.capacity() || pipes.len() >= most {
            pipes.retain(|pipe| !pipe.is_dead());
        }
        if pipes.len() >= most {
            return Err(limit("too many streams are open"));
        }
        let pipe = Pipe::new(Consumer::Reader, Some(Arc::clone(&self.mailbox)));
        pipes.push(pipe.downgrade());
        let (write, read) = pipe.ends();
        let mut export = Export::new(Hook::Sink(write));
        export.readable = Some(read);
        self.tables.add_pushed(export);
        Ok(())
    }

    fn redact(&mut self, failure: Failure) -> RpcError {
        match failure {
            Failure::Domain(error) => error,
            Failure::Internal(error) => {
                self.out.incidents += 1;
                let id = format!("{}{}", self.options.incident_prefix, self.out.incidents);
                let told = RpcError::coded("internal", "internal error");
                let told = told.with("incident", Value::String(id.clone()));
                self.out.events.push_back(Event::Incident { id, error });
                told
            }
        }
    }
}

impl Drop for Session {
    /// Whoever still waits for something is told that it will not come.
    fn drop(&mut self) {
        self.close(&gone());
    }
}

/// Tells the peer what is wrong with its message, in the class that npm throws.
fn refusal(error: &DecodeError) -> RpcError {
    let class = match error {
        DecodeError::Json(_) => "SyntaxError",
        DecodeError::Form(_) | DecodeError::Body(_) => "TypeError",
        DecodeError::TooLong(_)
        | DecodeError::Message(_)
        | DecodeError::TooDeep(_)
        | DecodeError::TooManyDigits(_) => "Error",
    };
    let told = RpcError::new(class, error.to_string());
    told.with("code", Value::String("protocol".to_owned()))
}

/// The peer went beyond a limit.
pub(super) fn limit(what: &str) -> RpcError {
    RpcError::coded("limit", what)
}
