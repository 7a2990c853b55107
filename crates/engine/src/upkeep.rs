//! Upkeep: what nobody needs any more goes by itself, a little at a time (R41).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_snapshot::{Cadence, Registry, VaultError};
use turnstone_store::Context;

use crate::engine::Engine;
use crate::error::Result;
use crate::recover::Recovered;

/// About how many bytes are copied at the end of a command: done in less than a second.
const BRIEF: u64 = 16 << 20;
/// The same while nobody waits.
const LONG: u64 = 1 << 30;
/// The folder of the data directory with the output of commands that was too long for the ledger.
const OUTPUT: &str = "output";

/// What upkeep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// Snapshot stores that were collected.
    pub stores: usize,
    /// Files with the output of calls that are gone.
    pub outputs: usize,
    /// Stores of directories that are gone for long.
    pub removed: usize,
}

impl Engine {
    /// What a process that runs for long calls once a minute: recovery, and upkeep once an hour.
    ///
    /// # Errors
    ///
    /// As [`Engine::recover`]; do it again a minute later.
    pub fn sweep(&self, ctx: &Context) -> Result<(Recovered, Tended)> {
        let recovered = self.recover(ctx)?;
        Ok((recovered, self.tend(ctx, Cadence::Keeper)?))
    }

    /// Upkeep of the stores this process keeps, where it is due: hourly for one that runs on, daily
    /// for a command that is about to end, which takes less than a second for it.
    ///
    /// # Errors
    ///
    /// A store or the ledger refused; nothing is lost, the next upkeep finds the rest.
    pub fn tend(&self, ctx: &Context, cadence: Cadence) -> Result<Tended> {
        let mut tended = Tended::default();
        let due: Vec<_> =
            self.vaults().into_iter().filter(|vault| vault.is_due(cadence, ctx.now)).collect();
        if due.is_empty() {
            return Ok(tended);
        }
        let effort = match cadence {
            Cadence::Keeper => LONG,
            Cadence::Command => BRIEF,
        };
        let sweep = self.sweep_for(ctx, effort)?;
        for vault in due {
            tended.stores += usize::from(vault.tend(cadence, &sweep)?.is_some());
        }
        tended.outputs = self.drop_outputs(ctx)?;
        let registry = Registry::new(&self.settings.data);
        let removed = registry.remove_gone(self.settings.keep, ctx.now, false);
        tended.removed = removed.map_err(VaultError::from)?.len();
        Ok(tended)
    }

    /// Upkeep after sessions were deleted, of the stores of their directories, due or not.
    ///
    /// # Errors
    ///
    /// As [`Engine::tend`].
    pub fn tend_after_delete(
        &self,
        ctx: &Context,
        directories: &BTreeSet<PathBuf>,
    ) -> Result<Tended> {
        let mut tended = Tended { outputs: self.drop_outputs(ctx)?, ..Tended::default() };
        let registry = Registry::new(&self.settings.data);
        let sweep = self.sweep_for(ctx, BRIEF)?;
        for directory in directories.iter().filter(|directory| directory.is_dir()) {
            let policy = &self.settings.vault.policy;
            if let Ok(Some(_)) = registry.find(directory, policy) {
                self.vault(directory, ctx.now)?.gc(&sweep)?;
                tended.stores += 1;
            }
        }
        Ok(tended)
    }

    /// Removes the output of calls that no session has any more.
    fn drop_outputs(&self, ctx: &Context) -> Result<usize> {
        let folder = self.settings.data.join(OUTPUT);
        let mut there = BTreeSet::new();
        match fs_err::read_dir(&folder) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry?.file_name();
                    there.extend(name.to_str().map(str::to_owned));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error.into()),
        }
        let gone = self.store.read(ctx, |r| r.unknown_outputs(&there))?;
        for name in &gone {
            remove(&folder.join(name))?;
        }
        Ok(gone.len())
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    match fs_err::remove_file(path) {
        // Somebody else was faster.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
