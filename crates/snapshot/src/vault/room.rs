//! Room in a store: what nobody needs goes, what may expire is measured, and what expired goes (R13).
//!
//! In three requests, because whoever knows turns writes down which ones expire before anything goes.

use std::collections::BTreeMap;

use turnstone_core::time::Millis;

use super::error::VaultError;
use super::listing::ListedCapture;
use super::open::{Vault, strange};
use super::request::{Answer, Need, Request};
use crate::budget::Relief;
use crate::expire::Expiry;
use crate::object::ObjectError;

impl Vault {
    /// Makes room without letting anything expire: drops what nobody pins, then repacks.
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; nothing that is pinned is lost.
    pub fn relieve(&self, need: &Need) -> Result<Relief, VaultError> {
        self.relieved(&Request::Relieve(need.clone()), need.now)
    }

    /// How many bytes each of `steps` frees, taken in order. Nothing is changed.
    ///
    /// # Errors
    ///
    /// See [`VaultError`].
    pub fn measure(&self, steps: &[Expiry], now: Millis) -> Result<Vec<u64>, VaultError> {
        let request = Request::Measure { steps: steps.to_vec() };
        let Answer::Measured { freed } = self.ask(&request, now)? else {
            return Err(strange());
        };
        Ok(freed)
    }

    /// Lets captures expire and frees what they took. Repeating it changes nothing.
    ///
    /// # Errors
    ///
    /// See [`VaultError`]; do it again.
    pub fn expire(&self, steps: &[Expiry], need: &Need) -> Result<Relief, VaultError> {
        let request = Request::Expire { steps: steps.to_vec(), need: need.clone() };
        self.relieved(&request, need.now)
    }

    fn relieved(&self, request: &Request, now: Millis) -> Result<Relief, VaultError> {
        let Answer::Relieved(relief) = self.ask(request, now)? else {
            return Err(strange());
        };
        Ok(*relief)
    }

    /// Lists the captures of every group by the name of the group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_chains(&self) -> Result<BTreeMap<String, Vec<ListedCapture>>, VaultError> {
        let shadow = self.shadow()?;
        match shadow.list_chains() {
            // A collection dropped a group while it was being followed.
            Err(ObjectError::Missing(_)) => Ok(shadow.list_chains()?),
            listed => Ok(listed?),
        }
    }
}
