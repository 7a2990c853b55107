//! Promises: shared places that settle once.
//!
//! A cell that resolves to another promise forwards to it, so that chains are walked, never
//! followed in circles. Long chains are dropped one by one, not one inside the other.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::memory_account::MemoryCharge;
use super::object_ref::RemoteRef;
use super::work_queue::PromiseWaiter;
use crate::error::RpcError;
use crate::value::Value;

/// How something settled.
pub(crate) type PromiseOutcome = Result<Value, RpcError>;

/// One promise; a clone is the same promise.
#[derive(Clone)]
pub(crate) struct PromiseCell(Arc<PromiseSlot>);

struct PromiseSlot {
    state: Mutex<PromiseState>,
    /// What the value costs its session, if that is much.
    charge: OnceLock<MemoryCharge>,
}

pub(crate) enum PromiseState {
    Pending(PendingPromise),
    Forward(PromiseCell),
    Done(PromiseOutcome),
}

/// Who waits for a promise, and where it comes from.
#[derive(Default)]
pub(crate) struct PendingPromise {
    pub(crate) waiters: Vec<PromiseWaiter>,
    /// The import that will resolve it, if the peer does.
    pub(crate) remote: Option<RemoteRef>,
    pub(crate) pulled: bool,
}

impl PromiseCell {
    pub(crate) fn pending() -> Self {
        Self::from_state(PromiseState::Pending(PendingPromise::default()))
    }

    pub(crate) fn already_settled(outcome: PromiseOutcome) -> Self {
        match outcome {
            Ok(Value::Promise(promise)) => promise.cell.clone(),
            outcome => Self::from_state(PromiseState::Done(outcome)),
        }
    }

    pub(crate) fn remote(remote: RemoteRef, pulled: bool) -> Self {
        Self::from_state(PromiseState::Pending(PendingPromise {
            waiters: Vec::new(),
            remote: Some(remote),
            pulled,
        }))
    }

    fn from_state(state: PromiseState) -> Self {
        Self(Arc::new(PromiseSlot { state: Mutex::new(state), charge: OnceLock::new() }))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, PromiseState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the cell that this one resolves to.
    pub(crate) fn resolve_forwards(&self) -> Self {
        let mut cell = self.clone();
        loop {
            let next = match &*cell.lock() {
                PromiseState::Forward(next) => next.clone(),
                PromiseState::Pending(_) | PromiseState::Done(_) => break,
            };
            cell = next;
        }
        cell
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn downgrade(&self) -> WeakPromiseCell {
        WeakPromiseCell(Arc::downgrade(&self.0))
    }

    /// Returns how the promise settled, if it has.
    pub(crate) fn outcome(&self) -> Option<PromiseOutcome> {
        if let PromiseState::Done(outcome) = &*self.lock() {
            return Some(outcome.clone());
        }
        None
    }

    /// Charges the session for the value as long as the promise lives.
    pub(crate) fn attach_charge(&self, charge: MemoryCharge) {
        // A second charge is returned: a promise settles once.
        self.0.charge.set(charge).ok();
    }

    /// Forgets what the cell holds: the session is over.
    pub(crate) fn clear(&self, error: &RpcError) {
        let old = std::mem::replace(&mut *self.lock(), PromiseState::Done(Err(error.clone())));
        drop(old);
    }
}

impl fmt::Debug for PromiseCell {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Cell")
    }
}

/// A cell that does not keep itself alive.
pub(crate) struct WeakPromiseCell(Weak<PromiseSlot>);

impl WeakPromiseCell {
    pub(crate) fn upgrade(&self) -> Option<PromiseCell> {
        self.0.upgrade().map(PromiseCell)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// What is being dropped on one thread.
struct DropQueue {
    /// Something is: whatever is dropped meanwhile waits in the list.
    busy: bool,
    list: Vec<PromiseState>,
}

thread_local! {
    static DROPPING: RefCell<DropQueue> =
        const { RefCell::new(DropQueue { busy: false, list: Vec::new() }) };
}

/// States for which a thread keeps room.
const MAX_KEPT_CAPACITY: usize = 64;

impl PromiseState {
    /// Tells whether dropping it drops no other cell.
    fn holds_no_cells(&self) -> bool {
        match self {
            Self::Pending(pending) => pending.waiters.is_empty(),
            Self::Forward(_) => false,
            Self::Done(Ok(value)) => value.is_leaf(),
            Self::Done(Err(error)) => error.props.iter().all(|(_, value)| value.is_leaf()),
        }
    }
}

impl Drop for PromiseSlot {
    /// Hands the contents to the outermost drop, so that a chain needs no deep stack.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.holds_no_cells() {
            return;
        }
        let state = std::mem::replace(state, PromiseState::Done(Ok(Value::Undefined)));
        let outermost = DROPPING.try_with(|dropping| {
            let mut dropping = dropping.borrow_mut();
            dropping.list.push(state);
            !std::mem::replace(&mut dropping.busy, true)
        });
        if !outermost.unwrap_or(false) {
            return;
        }
        let pop = || DROPPING.with(|dropping| dropping.borrow_mut().list.pop());
        while let Some(state) = pop() {
            drop(state);
        }
        DROPPING.with(|dropping| {
            let mut dropping = dropping.borrow_mut();
            dropping.busy = false;
            dropping.list.shrink_to(MAX_KEPT_CAPACITY);
        });
    }
}
