//! Groups that outlived their owner: waited for, then ended, before anybody looks at files (R32).

use std::time::Duration;

use turnstone_core::change::ChangeSet;
use turnstone_store::{Context, StoreError};

use super::command_messages;
use crate::engine::Engine;
use crate::error::Result;

/// A supervisor without an owner ends its group within its grace period; this is a little more.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(7);
/// What is left then gets so long between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

impl Engine {
    /// Waits until nobody of the call of a change set writes any more.
    pub(crate) fn wait_for_orphaned_group(&self, ctx: &Context, set: &ChangeSet) -> Result<()> {
        let Some(part) = &set.part else {
            return Ok(());
        };
        let part = match self.store.read(ctx, |r| r.messages().get_part(&set.session, part)) {
            Ok(part) => part,
            // The call is gone from the session, and its processes with it.
            Err(StoreError::NoPart { .. } | StoreError::NoMessage { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if let Some(group) = command_messages::read_group(&part)?
            && !group.wait(SUPERVISOR_TIMEOUT)?
        {
            group.end(GRACE)?;
        }
        Ok(())
    }
}
