//! Marks: points of a session that got a name, and names that were given up.

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::operation::{HeadMove, OperationKind};
use turnstone_store::{Context, DoneOperation, NewOperation, OperationRow, Tx};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::jump::Checkpoint;

/// In the plan of an operation: the checkpoints whose names are given up.
const GIVEN_UP: &str = "givesUp";

/// The checkpoints that stand, oldest first.
pub(crate) fn standing(operations: &[OperationRow]) -> Vec<Checkpoint> {
    let mut found: Vec<Checkpoint> = Vec::new();
    for operation in operations {
        if operation.kind != OperationKind::Checkpoint || operation.done.is_none() {
            continue;
        }
        if let Some(given_up) = operation.plan.get(GIVEN_UP) {
            let gone: Vec<OperationId> =
                serde_json::from_value(given_up.clone()).unwrap_or_default();
            found.retain(|checkpoint| !gone.contains(&checkpoint.operation));
        } else if let Some(name) = operation.plan.get("name").and_then(|it| it.as_str()) {
            let (operation, time) = (operation.id.clone(), operation.time);
            found.push(Checkpoint { operation, name: name.to_owned(), time });
        }
    }
    found
}

impl Engine {
    /// Gives the name of a point up; every point of that name. The points stay reachable by what
    /// happened there.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoPoint`] if nothing is called that;
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn remove_checkpoint(
        &self,
        ctx: &Context,
        session: &SessionId,
        name: &str,
    ) -> Result<Vec<Checkpoint>> {
        self.recover_session(ctx, session)?;
        let mut gone = self.checkpoints(ctx, session)?;
        gone.retain(|checkpoint| checkpoint.name == name);
        if gone.is_empty() {
            let (session, point) = (session.clone(), name.to_owned());
            return Err(EngineError::NoPoint { session, point });
        }
        let id = self.mint.operation(ctx.now)?;
        let ids: Vec<&OperationId> = gone.iter().map(|checkpoint| &checkpoint.operation).collect();
        let plan = serde_json::json!({ GIVEN_UP: ids, "name": name });
        let new = NewOperation { id: id.clone(), kind: OperationKind::Checkpoint, plan };
        let (head, taken) = (HeadMove::Stay, Vec::new());
        let done = DoneOperation { id, head, taken, report: serde_json::Value::Null };
        let session = session.clone();
        let give_up = move |tx: &Tx<'_>| {
            tx.plan_operation(&session, &new)?;
            tx.finish_operation(&session, &done)
        };
        self.store.write(ctx, give_up).wait()?;
        Ok(gone)
    }
}
