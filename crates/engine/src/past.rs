//! What held at a place in the log, from the operations before it.

use std::collections::BTreeMap;

use turnstone_core::id::ChangeId;
use turnstone_core::operation::{Extent, Head, HeadMove};
use turnstone_core::time::Cursor;
use turnstone_store::OperationRow;

/// Where a session stood, and what was taken back then.
#[derive(Default)]
pub(crate) struct Past {
    pub(crate) head: Option<Head>,
    taken: BTreeMap<ChangeId, Extent>,
}

impl Past {
    /// Replays the operations that were planned up to `at`; an operation has the session for
    /// itself, so that they were done as well.
    pub(crate) fn at(operations: &[OperationRow], at: Cursor) -> Self {
        let mut past = Self::default();
        for operation in operations.iter().filter(|operation| operation.planned <= at) {
            past.push(operation);
        }
        past
    }

    /// What is taken back apart from where the head is: by operations that left the head alone.
    ///
    /// It stays so when the head moves behind it; what only the head took back comes back with it.
    pub(crate) fn apart(operations: &[OperationRow]) -> Self {
        let mut past = Self::default();
        for done in operations.iter().filter_map(|operation| operation.done.as_ref()) {
            let is_apart = done.head == HeadMove::Stay;
            for taken in &done.taken {
                if is_apart || taken.extent == Extent::Nothing {
                    past.taken.insert(taken.change.clone(), taken.extent.clone());
                }
            }
        }
        past
    }

    fn push(&mut self, operation: &OperationRow) {
        let Some(done) = &operation.done else { return };
        match &done.head {
            HeadMove::Stay => {}
            HeadMove::Tip => self.head = None,
            HeadMove::To(head) => self.head = Some(head.clone()),
        }
        for taken in &done.taken {
            self.taken.insert(taken.change.clone(), taken.extent.clone());
        }
    }

    /// How much of a change set was taken back.
    pub(crate) fn taken(&self, change: &ChangeId) -> Extent {
        self.taken.get(change).cloned().unwrap_or(Extent::Nothing)
    }
}

/// The operations since the session last stood at its end; none while it does.
pub(crate) fn since_tip(operations: &[OperationRow]) -> &[OperationRow] {
    let (mut past, mut left) = (Past::default(), operations.len());
    for (nth, operation) in operations.iter().enumerate() {
        let stood = past.head.is_none();
        past.push(operation);
        match (stood, past.head.is_some()) {
            (true, true) => left = nth,
            (_, false) => left = operations.len(),
            (false, true) => {}
        }
    }
    &operations[left..]
}
