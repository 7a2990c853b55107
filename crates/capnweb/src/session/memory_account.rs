//! Bytes that a session holds for its peer: charged before memory is taken, returned by dropping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rpc_session::limit_error;
use crate::error::RpcError;

/// Counts the bytes of one session; a clone is the same account.
#[derive(Clone)]
pub(crate) struct MemoryAccount(Arc<AccountBalance>);

struct AccountBalance {
    used: AtomicUsize,
    most: usize,
}

/// Bytes taken from an account; dropping it returns them.
pub(crate) struct MemoryCharge {
    account: MemoryAccount,
    bytes: usize,
}

/// What one entry of a table, one queued access or one promise costs besides its value.
pub(crate) const TABLE_ENTRY_BYTES: usize = 512;

impl MemoryAccount {
    /// Opens an account for at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(AccountBalance { used: AtomicUsize::new(0), most }))
    }

    /// Takes bytes, or fails and takes none.
    pub(crate) fn charge(&self, bytes: usize) -> Result<MemoryCharge, RpcError> {
        let before = self.0.used.fetch_add(bytes, Ordering::Relaxed);
        // Made before the check: if that fails, dropping it returns the bytes.
        let charge = MemoryCharge { account: self.clone(), bytes };
        if before.saturating_add(bytes) > self.0.most {
            return Err(limit_error("the session holds too many bytes for its peer"));
        }
        Ok(charge)
    }

    /// Fails if that many bytes could not be taken now.
    pub(crate) fn check_available(&self, bytes: usize) -> Result<(), RpcError> {
        if self.used_bytes().saturating_add(bytes) > self.0.most {
            return Err(limit_error("the session holds too many bytes for its peer"));
        }
        Ok(())
    }

    /// Returns the bytes that are taken.
    pub(crate) fn used_bytes(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl MemoryCharge {
    /// Takes more bytes into the same charge.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), RpcError> {
        let mut more = self.account.charge(bytes)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.account.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_is_returned_when_dropped_or_refused() {
        let account = MemoryAccount::new(100);
        let mut one = account.charge(60).expect("fits");
        assert_eq!(
            account.charge(41).err().and_then(|e| e.code().map(str::to_owned)).as_deref(),
            Some("limit")
        );
        assert!(one.grow(41).is_err());
        one.grow(40).expect("fits exactly");
        assert_eq!(account.used_bytes(), 100);
        assert!(account.check_available(1).is_err());
        drop(one);
        assert_eq!(account.used_bytes(), 0);
        assert!(account.charge(usize::MAX).is_err());
        assert_eq!(account.used_bytes(), 0);
    }
}
