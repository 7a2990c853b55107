//! What a session sees of a file, and when.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnstone_core::change::FileImage;
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_core::path::RelPath;
use turnstone_core::time::Millis;
use turnstone_snapshot::{Seen, Vault};
use turnstone_store::Context;

use super::error::FileError;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::image::{word, written};
use crate::root::{Cover, Located, locate};

/// A file at a moment.
///
/// Two stamps are of the same file content if their images are equal; a file that was only touched
/// is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Its bytes by name, and its mode.
    pub image: FileImage,
    /// When the file system says it was last written.
    pub modified: Option<Millis>,
    /// When it was looked at.
    pub seen: Millis,
}

/// A file as a session read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFile {
    /// Its real path.
    pub path: PathBuf,
    /// Its bytes; nothing if there is no such file.
    pub bytes: Option<Vec<u8>>,
    /// What is remembered of it.
    pub stamp: Stamp,
}

/// A file of a session's root.
pub(super) struct Placed {
    pub(super) vault: Arc<Vault>,
    pub(super) inside: RelPath,
    pub(super) real: PathBuf,
}

impl Placed {
    pub(super) fn see(&self) -> Result<Seen, FileError> {
        let seen = self.vault.see(&self.inside)?;
        match seen.uncovered() {
            Some(reason) => {
                Err(FileError::NotCovered { path: self.real.clone(), reason: word(reason) })
            }
            None => Ok(seen),
        }
    }
}

pub(super) fn stamp(seen: &Seen, now: Millis) -> Stamp {
    Stamp { image: written(&seen.image), modified: seen.modified.map(Millis), seen: now }
}

impl Engine {
    /// Reads a file for a session and remembers what it saw.
    ///
    /// # Errors
    ///
    /// [`FileError::Outside`] and [`FileError::NotCovered`]: nothing is remembered.
    pub fn read_file(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<ReadFile, FileError> {
        let owner = self.store.read(ctx, |r| r.get_session(session))?;
        let placed = self.place_file(ctx, &owner, path)?;
        let seen = placed.see()?;
        let stamp = stamp(&seen, ctx.now);
        self.remember(ctx, session, placed.real.clone(), stamp.clone());
        Ok(ReadFile { path: placed.real, bytes: seen.bytes, stamp })
    }

    /// What a session saw of a file last, if it did.
    ///
    /// # Errors
    ///
    /// As [`Engine::read_file`].
    pub fn find_stamp(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<Option<Stamp>, FileError> {
        let owner = self.store.read(ctx, |r| r.get_session(session))?;
        let placed = self.place_file(ctx, &owner, path)?;
        Ok(self.sights.find(session, &placed.real)?)
    }

    /// Remembers what a session saw, for every process of the data directory.
    pub(super) fn remember(&self, ctx: &Context, session: &SessionId, file: PathBuf, stamp: Stamp) {
        // A disk that is full must not make reading impossible: this process knows it all the same,
        // and another one asks for the file to be read again.
        let is_first = self.sights.put(session, file, stamp).unwrap_or(false);
        if is_first {
            let is_there = |one: &SessionId| {
                let found = self.store.read(ctx, |r| r.find_session(one))?;
                Ok::<_, EngineError>(found.is_some())
            };
            // What cannot be removed now goes another time.
            self.sights.sweep(is_there).ok();
        }
    }

    /// Finds the file behind a path; links on the way are resolved first (R16).
    pub(super) fn place_file(
        &self,
        ctx: &Context,
        session: &Session,
        path: &Path,
    ) -> Result<Placed, FileError> {
        let directory = Path::new(&session.directory);
        let outside = || FileError::Outside { path: directory.join(path) };
        let vault = match self.cover(session, ctx.now)? {
            Cover::Vault(vault) => vault,
            Cover::Refused(error) => {
                let reason = error.to_string();
                return Err(FileError::NotCovered { path: directory.join(path), reason });
            }
        };
        match locate(&vault, directory, path)? {
            Located::Inside { path: inside, .. } => {
                let real = vault.place().root.join(OsStr::from_bytes(inside.as_bytes()));
                Ok(Placed { vault, inside, real })
            }
            Located::Outside => Err(outside()),
        }
    }
}
