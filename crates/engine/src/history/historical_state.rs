//! What held at a place in the log, from the operations before it.

use std::collections::BTreeMap;

use turnstone_core::id::ChangeId;
use turnstone_core::operation::{HeadTarget, SessionHead, UndoExtent};
use turnstone_core::time::LogCursor;
use turnstone_store::OperationRow;

/// The head of a session, and what was undone, at an earlier point.
#[derive(Default)]
pub(crate) struct HistoricalState {
    pub(crate) head: Option<SessionHead>,
    undone: BTreeMap<ChangeId, UndoExtent>,
}

impl HistoricalState {
    /// Replays the operations that were planned up to `at`; an operation has the session for
    /// itself, so that they were done as well.
    pub(crate) fn at(operations: &[OperationRow], at: LogCursor) -> Self {
        let mut past = Self::default();
        for operation in operations.iter().filter(|operation| operation.planned <= at) {
            past.replay(operation);
        }
        past
    }

    /// What is undone independently of the head: by operations that did not move it.
    ///
    /// It stays undone when the head moves; what only a head move undid is restored with the head.
    pub(crate) fn undone_independently(operations: &[OperationRow]) -> Self {
        let mut past = Self::default();
        for done in operations.iter().filter_map(|operation| operation.done.as_ref()) {
            let is_apart = done.head == HeadTarget::Stay;
            for taken in &done.taken {
                if is_apart || taken.extent == UndoExtent::Nothing {
                    past.undone.insert(taken.change.clone(), taken.extent.clone());
                }
            }
        }
        past
    }

    fn replay(&mut self, operation: &OperationRow) {
        let Some(done) = &operation.done else { return };
        match &done.head {
            HeadTarget::Stay => {}
            HeadTarget::Tip => self.head = None,
            HeadTarget::To(head) => self.head = Some(head.clone()),
        }
        for taken in &done.taken {
            self.undone.insert(taken.change.clone(), taken.extent.clone());
        }
    }

    /// How much of a change set was undone.
    pub(crate) fn undone_extent(&self, change: &ChangeId) -> UndoExtent {
        self.undone.get(change).cloned().unwrap_or(UndoExtent::Nothing)
    }
}

/// The operations since the session last stood at its end; none while it does.
pub(crate) fn operations_since_tip(operations: &[OperationRow]) -> &[OperationRow] {
    let (mut past, mut left) = (HistoricalState::default(), operations.len());
    for (nth, operation) in operations.iter().enumerate() {
        let stood = past.head.is_none();
        past.replay(operation);
        match (stood, past.head.is_some()) {
            (true, true) => left = nth,
            (_, false) => left = operations.len(),
            (false, true) => {}
        }
    }
    &operations[left..]
}
