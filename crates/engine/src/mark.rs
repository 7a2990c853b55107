//! Marks: points of a session that got a name, and names that were given up.

use turnstone_core::id::SessionId;
use turnstone_core::operation::{HeadMove, OperationKind};
use turnstone_core::permission::Gate;
use turnstone_store::{Context, DoneOperation, NewOperation, OperationRow, Tx};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::jump::Checkpoint;
use crate::undo::{Mark, mark_of, write_mark};

/// The checkpoints that stand, oldest first.
pub(crate) fn standing(operations: &[OperationRow]) -> Result<Vec<Checkpoint>> {
    let mut found: Vec<Checkpoint> = Vec::new();
    for operation in operations.iter().filter(|operation| operation.done.is_some()) {
        let Some(Mark { name, gives_up }) = mark_of(operation)? else {
            continue;
        };
        found.retain(|checkpoint| !gives_up.contains(&checkpoint.operation));
        if gives_up.is_empty() {
            let (operation, time) = (operation.id.clone(), operation.time);
            found.push(Checkpoint { operation, name, time });
        }
    }
    Ok(found)
}

impl Engine {
    /// Gives the name of a point up; every point of that name. The points stay reachable by what
    /// happened there.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoPoint`] if nothing is called that; [`EngineError::Refused`] or
    /// [`EngineError::Asked`] at the gate;
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
        self.require(ctx, session, Gate::Checkpoint, &[name.to_owned()])?;
        let id = self.mint.operation(ctx.now)?;
        let gives_up = gone.iter().map(|checkpoint| checkpoint.operation.clone()).collect();
        let plan = write_mark(name, gives_up)?;
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
