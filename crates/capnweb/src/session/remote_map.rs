//! Functions that a peer sends to be applied where their input is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::expr_evaluation::{evaluate, settled_cell};
use super::object_ref::ObjectRef;
use super::promise_cell::PromiseOutcome;
use super::rpc_session::{RpcSession, limit_error};
use super::stub::Stub;
use super::work_queue::MapFunction;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::Expr;

/// What a map and the maps inside it may still do.
#[derive(Clone)]
pub(crate) struct MapBudget(Arc<MapBudgetCounters>);

struct MapBudgetCounters {
    steps: AtomicUsize,
    /// Every copy is charged here before it is made.
    bytes: AtomicUsize,
}

impl MapBudget {
    pub(crate) fn new(steps: usize, bytes: usize) -> Self {
        Self(Arc::new(MapBudgetCounters {
            steps: AtomicUsize::new(steps),
            bytes: AtomicUsize::new(bytes),
        }))
    }

    pub(crate) fn unlimited() -> Self {
        Self::new(usize::MAX, usize::MAX)
    }

    fn spend_steps(&self, steps: usize) -> Result<(), RpcError> {
        spend(&self.0.steps, steps, "the map takes too many steps")
    }

    pub(crate) fn spend_bytes(&self, bytes: usize) -> Result<(), RpcError> {
        spend(&self.0.bytes, bytes, "the map copies too many bytes")
    }
}

fn spend(left: &AtomicUsize, amount: usize, otherwise: &str) -> Result<(), RpcError> {
    let rest = left.load(Ordering::Relaxed).checked_sub(amount);
    left.store(rest.ok_or_else(|| limit_error(otherwise))?, Ordering::Relaxed);
    Ok(())
}

/// What ids mean inside a map.
pub(crate) struct MapFrame {
    captures: Vec<ObjectRef>,
    /// The element, then the result of each instruction.
    variables: Vec<ObjectRef>,
    pub(crate) budget: MapBudget,
}

impl MapFrame {
    pub(crate) fn find(&self, id: i64) -> Option<ObjectRef> {
        let place = |id: i64| usize::try_from(id).ok();
        let found = match id {
            0.. => self.variables.get(place(id)?),
            _ => self.captures.get(place(-(id + 1))?),
        };
        found.cloned()
    }
}

/// A function to be applied by the peer, as instructions of the protocol.
///
/// Inside, id 0 is the element, k the result of instruction k, and −k capture k. The last
/// instruction is the result.
pub(crate) struct RecordedMap {
    /// Stubs that the function uses.
    pub(crate) captures: Vec<Stub>,
    /// The instructions.
    pub(crate) instructions: Vec<Expr>,
}

/// Applies the function to every element, or to the one value there is.
pub(super) fn apply_map(
    session: &mut RpcSession,
    input: Value,
    mapper: &MapFunction,
) -> PromiseOutcome {
    if input.is_nullish() {
        return Ok(input);
    }
    if let Value::Array(items) = input {
        let results = items.into_iter().map(|item| apply_map_once(session, item, mapper));
        return results.collect::<Result<Vec<_>, _>>().map(Value::Array);
    }
    apply_map_once(session, input, mapper)
}

fn apply_map_once(session: &mut RpcSession, input: Value, mapper: &MapFunction) -> PromiseOutcome {
    let Some((last, first)) = mapper.instructions.split_last() else {
        return Err(RpcError::new("Error", "Invalid empty mapper function."));
    };
    mapper.budget.spend_steps(mapper.instructions.len())?;
    // What the instructions become, the references to captures and variables included.
    let copies = mapper.instruction_bytes + mapper.captures.len() * size_of::<ObjectRef>();
    mapper.budget.spend_bytes(copies)?;
    let mut frame = MapFrame {
        captures: mapper.captures.clone(),
        variables: vec![ObjectRef::Promise(settled_cell(session, input)?)],
        budget: mapper.budget.clone(),
    };
    for instruction in first {
        let value = evaluate(session, instruction.clone(), Some(&frame))?;
        frame.variables.push(ObjectRef::Promise(settled_cell(session, value)?));
    }
    evaluate(session, last.clone(), Some(&frame))
}
