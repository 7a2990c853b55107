//! Checkpoints: named points of a session, and names that were removed.

use std::sync::Arc;

use turnstone_core::id::{OperationId, SessionId};
use turnstone_core::operation::{HeadTarget, OperationKind};
use turnstone_core::permission::GatedOperation;
use turnstone_store::{Context, FinishedOperation, NewOperation, OperationRow, Store, Tx};

use crate::error::{EngineError, Result};
use crate::history::jump::SessionCheckpoint;
use crate::history::session_recovery::SessionRecovery;
use crate::history::undo::{CheckpointChange, decode_checkpoint, encode_checkpoint};
use crate::id_generator::IdGenerator;
use crate::permissions::OperationGates;

/// The checkpoints that were not removed, oldest first.
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

/// Named points of a session.
#[derive(Clone)]
pub struct Checkpoints {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) recovery: SessionRecovery,
    pub(crate) gates: OperationGates,
}

impl Checkpoints {
    /// Gives the name of a point up; every point of that name. The points stay reachable by what
    /// happened there.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoPoint`] if nothing is called that; [`EngineError::PermissionRefused`] or
    /// [`EngineError::PermissionPending`] at the gate;
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn remove(
        &self,
        ctx: &Context,
        session: &SessionId,
        name: &str,
    ) -> Result<Vec<SessionCheckpoint>> {
        self.recovery.recover(ctx, session)?;
        let mut gone = self.list(ctx, session)?;
        gone.retain(|checkpoint| checkpoint.name == name);
        if gone.is_empty() {
            let (session, point) = (session.clone(), name.to_owned());
            return Err(EngineError::NoPoint { session, point });
        }
        let names = [name.to_owned()];
        let ctx = &self.gates.require(ctx, session, GatedOperation::Checkpoint, &names)?;
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let gives_up = gone.iter().map(|checkpoint| checkpoint.operation.clone()).collect();
        let plan = encode_checkpoint(name, gives_up)?;
        let new = NewOperation { id: id.clone(), kind: OperationKind::Checkpoint, plan };
        let (head, taken) = (HeadTarget::Stay, Vec::new());
        let done = FinishedOperation { id, head, taken, report: serde_json::Value::Null };
        let session = session.clone();
        let give_up = move |tx: &Tx<'_>| {
            tx.operations().plan(&session, &new)?;
            tx.operations().finish(&session, &done)
        };
        self.store.write(ctx, give_up).wait()?;
        Ok(gone)
    }

    /// Names the current point of a session. Reusing the name of another checkpoint passes the gate that its
    /// removal passes.
    ///
    /// # Errors
    ///
    /// [`EngineError::PermissionRefused`] or [`EngineError::PermissionPending`] at the gate; [`turnstone_store::StoreError::Busy`] while a turn of the session runs.
    pub fn create(&self, ctx: &Context, session: &SessionId, name: &str) -> Result<OperationId> {
        self.recovery.recover(ctx, session)?;
        // The older checkpoint of this name cannot be reached by it any more.
        let is_known = self.list(ctx, session)?.iter().any(|it| it.name == name);
        let names = [name.to_owned()];
        let ctx = &match is_known {
            true => self.gates.require(ctx, session, GatedOperation::Checkpoint, &names)?,
            false => ctx.clone(),
        };
        let id = self.id_generator.new_operation_id(ctx.now)?;
        let plan = encode_checkpoint(name, Vec::new())?;
        let new = NewOperation { id: id.clone(), kind: OperationKind::Checkpoint, plan };
        let done = FinishedOperation {
            id: id.clone(),
            head: HeadTarget::Stay,
            taken: Vec::new(),
            report: serde_json::Value::Null,
        };
        let session = session.clone();
        let name = move |tx: &turnstone_store::Tx<'_>| {
            tx.operations().plan(&session, &new)?;
            tx.operations().finish(&session, &done)
        };
        self.store.write(ctx, name).wait()?;
        Ok(id)
    }

    /// The named points of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::NoSession`].
    pub fn list(&self, ctx: &Context, session: &SessionId) -> Result<Vec<SessionCheckpoint>> {
        let operations = self.store.read(ctx, |r| r.operations().list(session))?;
        active_checkpoints(&operations)
    }
}
