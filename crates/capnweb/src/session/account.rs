//! Bytes that a session holds for its peer: charged before memory is taken, returned by dropping.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::turn::limit;
use crate::error::RpcError;

/// Counts the bytes of one session; a clone is the same account.
#[derive(Clone)]
pub(crate) struct Account(Arc<Balance>);

struct Balance {
    used: AtomicUsize,
    most: usize,
}

/// Bytes taken from an account; dropping it returns them.
pub(crate) struct Charge {
    account: Account,
    bytes: usize,
}

/// What one entry of a table, one queued access or one promise costs besides its value.
pub(crate) const ENTRY_BYTES: usize = 512;

impl Account {
    /// Opens an account for at most `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(Balance { used: AtomicUsize::new(0), most }))
    }

    /// Takes bytes, or fails and takes none.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Charge, RpcError> {
        let before = self.0.used.fetch_add(bytes, Ordering::Relaxed);
        // Made before the check: if that fails, dropping it returns the bytes.
        let charge = Charge { account: self.clone(), bytes };
        if before.saturating_add(bytes) > self.0.most {
            return Err(limit("the session holds too many bytes for its peer"));
        }
        Ok(charge)
    }

    /// Fails if that many bytes could not be taken now.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), RpcError> {
        if self.used().saturating_add(bytes) > self.0.most {
            return Err(limit("the session holds too many bytes for its peer"));
        }
        Ok(())
    }

    /// Returns the bytes that are taken.
    pub(crate) fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Charge {
    /// Takes more bytes into the same charge.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), RpcError> {
        let mut more = self.account.charge(bytes)?;
        self.bytes += std::mem::take(&mut more.bytes);
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_returned_when_it_is_dropped_or_refused() {
        let account = Account::new(100);
        let mut one = account.charge(60).expect("fits");
        assert_eq!(
            account.charge(41).err().and_then(|e| e.code().map(str::to_owned)).as_deref(),
            Some("limit")
        );
        assert!(one.grow(41).is_err());
        one.grow(40).expect("fits exactly");
        assert_eq!(account.used(), 100);
        assert!(account.check(1).is_err());
        drop(one);
        assert_eq!(account.used(), 0);
        assert!(account.charge(usize::MAX).is_err());
        assert_eq!(account.used(), 0);
    }
}
