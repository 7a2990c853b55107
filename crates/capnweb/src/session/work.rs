//! Things a session has yet to do. They wait in queues, never on the stack.

use std::sync::Arc;

use super::account::Charge;
use super::cell::{Cell, Outcome};
use super::hook::{Hook, Member, Target};
use super::mailbox::{Command, Mailbox};
use super::map::Budget;
use super::pipe::{Pipe, WriteEnd};
use super::slot::Answer;
use crate::cost;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::{Expr, Key};

/// What happens at the end of a path.
pub(crate) enum Op {
    Get,
    Call(Vec<Value>),
    Map(Box<Mapper>),
}

/// The function of a `remap`.
pub(crate) struct Mapper {
    pub(crate) captures: Vec<Hook>,
    pub(crate) instructions: Arc<[Expr]>,
    /// What one run of the instructions copies.
    pub(crate) instruction_bytes: usize,
    pub(crate) budget: Budget,
}

impl Mapper {
    pub(crate) fn new(captures: Vec<Hook>, instructions: Vec<Expr>, budget: Budget) -> Self {
        let instruction_bytes = cost::of_exprs(&instructions);
        Self { captures, instructions: instructions.into(), instruction_bytes, budget }
    }
}

/// A path to follow, what to do at its end, and where the result goes.
pub(crate) struct Access {
    pub(crate) hook: Hook,
    pub(crate) path: Arc<[Key]>,
    /// Where the hook's own part of the path begins.
    pub(crate) start: usize,
    /// How much of the path has been followed.
    pub(crate) at: usize,
    pub(crate) op: Op,
    pub(crate) result: Cell,
    /// What it costs the session while it waits, if the peer asked for it.
    pub(crate) charge: Option<Charge>,
    /// Fields that were compared on the way.
    pub(crate) compared: usize,
    /// The budget of the map it is part of: copies are charged to it.
    pub(crate) budget: Option<Budget>,
}

/// Values that go to the application once they hold no promise.
pub(crate) struct Delivery {
    pub(crate) values: Vec<Value>,
    /// Promises among the values that have not been seen settled yet.
    pub(crate) waiting: Option<Vec<Cell>>,
    pub(crate) then: Then,
    /// What the values cost the session, if the peer sent them.
    pub(crate) charge: Option<Charge>,
}

/// Where delivered values go.
pub(crate) enum Then {
    Call {
        target: Arc<dyn Target>,
        member: Member,
        result: Cell,
    },
    /// A chunk for a stream.
    Write {
        sink: WriteEnd,
        result: Cell,
    },
    /// The end of a stream, with the reason if it is not a good one.
    End {
        sink: WriteEnd,
        good: bool,
        result: Cell,
    },
    /// A future of the application.
    Answer(Answer),
    /// A promise of another session.
    Bridge(Arc<Mailbox>, Cell),
}

/// What is done when a promise settles.
pub(crate) enum Waiter {
    Access(Box<Access>),
    /// Send how the export settled.
    Resolve(i64),
    Deliver(Box<Delivery>),
    /// The result itself is delivered.
    Answer(Answer),
    /// Another session wants to know.
    Bridge(Bridge),
}

/// A promise of one session that another session's promise follows.
pub(crate) struct Bridge {
    pub(crate) home: Arc<Mailbox>,
    /// The promise that follows.
    pub(crate) follower: Cell,
    /// The promise that is followed, until it settles.
    #[expect(dead_code, reason = "it is held, not read: nobody else may hold it")]
    pub(crate) followed: Cell,
}

/// One step.
pub(crate) enum Work {
    Access(Box<Access>),
    Settle(Cell, Outcome),
    /// The promise has settled. It is copied when it is the waiter's turn: many may wait for one.
    Run(Waiter, Cell),
    Deliver(Box<Delivery>),
    Pump(Pipe),
}

impl Waiter {
    /// Hands the outcome on without a session.
    pub(crate) fn finish_alone(self, outcome: Outcome) {
        match self {
            Self::Answer(answer) => answer.give(outcome),
            Self::Bridge(bridge) => {
                let command = Command::Settle(bridge.follower, outcome);
                bridge.home.push(command);
            }
            Self::Access(access) => access.result.clear(&gone()),
            Self::Resolve(_) | Self::Deliver(_) => {}
        }
    }
}

/// What is told when the session is gone without a reason.
pub(crate) fn gone() -> RpcError {
    RpcError::coded("disconnected", "the RPC session is over")
}
