//! Forgetting through the keeper.

use turnstone_core::time::Millis;

use super::error::VaultError;
use super::open::{Vault, strange};
use super::request::{Answer, Request};
use crate::forget::{Forgettable, Tombstones};
use crate::object::Oid;

impl Vault {
    /// As [`crate::Shadow::list_forgettable`].
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_forgettable(&self, patterns: &[String]) -> Result<Forgettable, VaultError> {
        Ok(self.shadow()?.list_forgettable(patterns)?)
    }

    /// As [`crate::Shadow::read_blob`].
    ///
    /// # Errors
    ///
    /// The bytes are not in the store.
    pub fn read_blob(&self, blob: &Oid) -> Result<Vec<u8>, VaultError> {
        Ok(self.shadow()?.read_blob(blob)?)
    }

    /// As [`crate::Shadow::begin_forget`].
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn begin_forget(&self, patterns: &[String], now: Millis) -> Result<(), VaultError> {
        let request = Request::BeginForget { patterns: patterns.to_vec() };
        let Answer::Hello = self.ask(&request, now)? else { return Err(strange()) };
        Ok(())
    }

    /// As [`crate::Shadow::finish_forget`].
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn finish_forget(&self, now: Millis) -> Result<usize, VaultError> {
        let Answer::Forgotten { captures } = self.ask(&Request::FinishForget { now }, now)? else {
            return Err(strange());
        };
        Ok(captures)
    }

    /// What the store has forgotten.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn tombstones(&self) -> Result<Tombstones, VaultError> {
        Ok(Tombstones::read(&self.place().folder)?)
    }
}
