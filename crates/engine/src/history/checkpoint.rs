//! Marks: points of a session that got a name, and names that were given up.

use turnstone_core::id::SessionId;
use turnstone_core::operation::{HeadMove, OperationKind};
use turnstone_core::permission::GatedOperation;
use turnstone_store::{Context, FinishedOperation, NewOperation, OperationRow, Tx};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::history::jump::SessionCheckpoint;
use crate::history::undo::{CheckpointChange, decode_checkpoint, encode_checkpoint};

/// The checkpoints that stand, oldest first.
pub(crate) fn active_checkpoints(operations: &[OperationRow]) -> Result<Vec<SessionCheckpoint>> {
    let mut found: Vec<SessionCheckpoint> = Vec::new();
    for operation in operations.iter().filter(|operation| operation.done.is_some()) {
        let Some(CheckpointChange { name, gives_up }) = decode_checkpoint(operation)? else {
            continue;
        };
        found.retain(|checkpoint| !gives_up.contains(&checkpoint.operation));
        if gives_up.is_empty() {
            let (operation, time) = (operation.id.clone(), operation.time);
            found.push(SessionCheckpoint { operation, name, time });
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
    /// [`EngineError::NoPoint`] if nothing is called that; [`EngineError::PermissionRefused`] or
    /// [`EngineError::PermissionPending`] at the gate;
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn remove_checkpoint(
        &self,
        ctx: &Context,
        session: &SessionId,
        name: &str,
    ) -> Result<Vec<SessionCheckpoint>> {
        self.recover_session(ctx, session)?;
        let mut gone = self.list_checkpoints(ctx, session)?;
        gone.retain(|checkpoint| checkpoint.name == name);
        if gone.is_empty() {
            let (session, point) = (session.clone(), name.to_owned());
            return Err(EngineError::NoPoint { session, point });
        }
        let names = [name.to_owned()];
        let ctx = &self.require_permission(ctx, session, GatedOperation::Checkpoint, &names)?;
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let gives_up = gone.iter().map(|checkpoint| checkpoint.operation.clone()).collect();
        let plan = encode_checkpoint(name, gives_up)?;
        let new = NewOperation { id: id.clone(), kind: OperationKind::Checkpoint, plan };
        let (head, taken) = (HeadMove::Stay, Vec::new());
        let done = FinishedOperation { id, head, taken, report: serde_json::Value::Null };
        let session = session.clone();
        let give_up = move |tx: &Tx<'_>| {
            tx.operations().plan(&session, &new)?;
            tx.operations().finish(&session, &done)
        };
        self.store.write(ctx, give_up).wait()?;
        Ok(gone)
    }
}
