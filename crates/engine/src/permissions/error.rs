//! Why a request or an answer was refused.

use turnstone_core::permission::ReplyError;
use turnstone_store::StoreError;

use crate::error::EngineError;

/// Why a request or an answer was refused; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    /// The answer does not fit: the request is unknown or not pending.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for PermissionError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}
