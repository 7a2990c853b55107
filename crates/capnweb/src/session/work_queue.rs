//! Things a session has yet to do. They wait in queues, never on the stack.

use std::sync::Arc;

use super::command_queue::{CommandQueue, QueuedCommand};
use super::memory_account::MemoryCharge;
use super::object_ref::{Member, ObjectRef, RpcTarget};
use super::oneshot::OneshotSender;
use super::promise_cell::{PromiseCell, PromiseOutcome};
use super::remote_map::MapBudget;
use super::stream_pipe::{StreamPipe, WriteEnd};
use crate::error::RpcError;
use crate::memory_cost;
use crate::value::Value;
use crate::wire::{Expr, PathKey};

/// What happens at the end of a path.
pub(crate) enum AccessOp {
    Get,
    Call(Vec<Value>),
    Map(Box<MapFunction>),
}

/// The function of a `remap`.
pub(crate) struct MapFunction {
    pub(crate) captures: Vec<ObjectRef>,
    pub(crate) instructions: Arc<[Expr]>,
    /// What one run of the instructions copies.
    pub(crate) instruction_bytes: usize,
    pub(crate) budget: MapBudget,
}

impl MapFunction {
    pub(crate) fn new(
        captures: Vec<ObjectRef>,
        instructions: Vec<Expr>,
        budget: MapBudget,
    ) -> Self {
        let instruction_bytes = memory_cost::exprs_bytes(&instructions);
        Self { captures, instructions: instructions.into(), instruction_bytes, budget }
    }
}

/// A path to follow, what to do at its end, and where the result goes.
pub(crate) struct PendingAccess {
    pub(crate) hook: ObjectRef,
    pub(crate) path: Arc<[PathKey]>,
    /// Where the hook's own part of the path begins.
    pub(crate) start: usize,
    /// How much of the path has been followed.
    pub(crate) at: usize,
    pub(crate) op: AccessOp,
    pub(crate) result: PromiseCell,
    /// What it costs the session while it waits, if the peer asked for it.
    pub(crate) charge: Option<MemoryCharge>,
    /// Fields that were compared on the way.
    pub(crate) compared: usize,
    /// The budget of the map it is part of: copies are charged to it.
    pub(crate) budget: Option<MapBudget>,
}

/// Values that go to the application once they hold no promise.
pub(crate) struct ValueDelivery {
    pub(crate) values: Vec<Value>,
    /// Promises among the values that have not been seen settled yet.
    pub(crate) waiting: Option<Vec<PromiseCell>>,
    pub(crate) then: DeliveryTarget,
    /// What the values cost the session, if the peer sent them.
    pub(crate) charge: Option<MemoryCharge>,
}

/// Where delivered values go.
pub(crate) enum DeliveryTarget {
    Call {
        target: Arc<dyn RpcTarget>,
        member: Member,
        result: PromiseCell,
    },
    /// A chunk for a stream.
    Write {
        sink: WriteEnd,
        result: PromiseCell,
    },
    /// The end of a stream, with the reason if it is not a good one.
    End {
        sink: WriteEnd,
        good: bool,
        result: PromiseCell,
    },
    /// A future of the application.
    Receiver(OneshotSender),
    /// A promise of another session.
    Bridge(Arc<CommandQueue>, PromiseCell),
}

/// What is done when a promise settles.
pub(crate) enum PromiseWaiter {
    Access(Box<PendingAccess>),
    /// Send how the export settled.
    Resolve(i64),
    Deliver(Box<ValueDelivery>),
    /// The result itself is delivered.
    Receiver(OneshotSender),
    /// Another session wants to know.
    Bridge(SessionBridge),
}

/// A promise of one session that another session's promise follows.
pub(crate) struct SessionBridge {
    pub(crate) home: Arc<CommandQueue>,
    /// The promise that follows.
    pub(crate) follower: PromiseCell,
    /// The promise that is followed, until it settles.
    #[expect(dead_code, reason = "held, never read: it must not be held elsewhere")]
    pub(crate) followed: PromiseCell,
}

/// One step.
pub(crate) enum WorkItem {
    Access(Box<PendingAccess>),
    Settle(PromiseCell, PromiseOutcome),
    /// The promise has settled. It is copied when it is the waiter's turn: many may wait for one.
    Run(PromiseWaiter, PromiseCell),
    Deliver(Box<ValueDelivery>),
    Pump(StreamPipe),
}

impl PromiseWaiter {
    /// Hands the outcome on without a session.
    pub(crate) fn finish_without_session(self, outcome: PromiseOutcome) {
        match self {
            Self::Receiver(answer) => answer.send(outcome),
            Self::Bridge(bridge) => {
                let command = QueuedCommand::Settle(bridge.follower, outcome);
                bridge.home.push(command);
            }
            Self::Access(access) => access.result.clear(&disconnected_error()),
            Self::Resolve(_) | Self::Deliver(_) => {}
        }
    }
}

/// The error when the session is gone without a reason.
pub(crate) fn disconnected_error() -> RpcError {
    RpcError::with_code("disconnected", "the RPC session is over")
}
