//! Functions that a peer sends to be applied where their input is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::cell::{Cell, Outcome};
use super::hook::Hook;
use super::stub::Stub;
use super::turn::{Session, limit};
use super::work::Mapper;
use crate::error::RpcError;
use crate::value::Value;
use crate::wire::Expr;

/// Steps that a map and the maps inside it may still take.
#[derive(Clone)]
pub(crate) struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub(crate) fn of(steps: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(steps)))
    }

    pub(crate) fn unlimited() -> Self {
        Self::of(usize::MAX)
    }

    fn spend(&self, steps: usize) -> Result<(), RpcError> {
        let left = self.0.load(Ordering::Relaxed).checked_sub(steps);
        let Some(left) = left else {
            return Err(limit("the map takes too many steps"));
        };
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

/// What ids mean inside a map.
pub(crate) struct Frame {
    captures: Vec<Hook>,
    /// The element, then the result of each instruction.
    variables: Vec<Hook>,
    pub(crate) budget: Budget,
}

impl Frame {
    pub(crate) fn find(&self, id: i64) -> Option<Hook> {
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
pub(crate) struct Mapping {
    /// Stubs that the function uses.
    pub(crate) captures: Vec<Stub>,
    /// The instructions.
    pub(crate) instructions: Vec<Expr>,
}

impl Session {
    /// Applies the function to every element, or to the one value there is.
    pub(super) fn apply(&mut self, input: Value, mapper: &Mapper) -> Outcome {
        if input.is_nothing() {
            return Ok(input);
        }
        if let Value::Array(items) = input {
            let results = items.into_iter().map(|item| self.apply_once(item, mapper));
            return results.collect::<Result<Vec<_>, _>>().map(Value::Array);
        }
        self.apply_once(input, mapper)
    }

    fn apply_once(&mut self, input: Value, mapper: &Mapper) -> Outcome {
        let Some((last, first)) = mapper.instructions.split_last() else {
            return Err(RpcError::new("Error", "Invalid empty mapper function."));
        };
        mapper.budget.spend(mapper.instructions.len())?;
        let mut frame = Frame {
            captures: mapper.captures.clone(),
            variables: vec![Hook::Cell(Cell::done(Ok(input)))],
            budget: mapper.budget.clone(),
        };
        for instruction in first {
            let value = self.evaluate(instruction.clone(), Some(&frame))?;
            frame.variables.push(Hook::Cell(Cell::done(Ok(value))));
        }
        self.evaluate(last.clone(), Some(&frame))
    }
}
