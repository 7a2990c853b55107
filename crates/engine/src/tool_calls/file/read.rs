//! What a session sees of a file, and when.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use turnstone_core::change::PathImage;
use turnstone_core::id::SessionId;
use turnstone_core::model::Session;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{PathState, SnapshotHandle};
use turnstone_store::Context;

use super::error::FileError;
use crate::captures::session_coverage::{PathLocation, SnapshotAccess, locate_path};
use crate::error::EngineError;
use crate::tool_calls::tracked_call::ToolCalls;

/// A file at a moment.
///
/// Two stamps are of the same file content if their images are equal; a file that was only touched
/// is not changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// Its bytes by name, and its mode.
    pub image: PathImage,
    /// When the file system says it was last written.
    pub modified: Option<EpochMillis>,
    /// When it was looked at.
    pub seen: EpochMillis,
}

/// A file as a session read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReadResult {
    /// Its real path.
    pub path: PathBuf,
    /// Its bytes; nothing if there is no such file.
    pub bytes: Option<Vec<u8>>,
    /// What is remembered of it.
    pub stamp: FileStamp,
}

/// A file of a session's root.
pub(super) struct LocatedFile {
    pub(super) handle: Arc<SnapshotHandle>,
    pub(super) relative: RelPath,
    pub(super) real: PathBuf,
}

impl LocatedFile {
    pub(super) fn read_state(&self) -> Result<PathState, FileError> {
        let seen = self.handle.reader().read_path(&self.relative)?;
        match seen.image.uncovered_reason() {
            Some(reason) => Err(FileError::NotCovered {
                path: self.real.clone(),
                reason: reason.as_str().to_owned(),
            }),
            None => Ok(seen),
        }
    }
}

pub(super) fn make_stamp(seen: &PathState, now: EpochMillis) -> FileStamp {
    FileStamp { image: seen.image, modified: seen.modified.map(EpochMillis), seen: now }
}

impl ToolCalls {
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
    ) -> Result<FileReadResult, FileError> {
        let owner = self.store.read(ctx, |r| r.sessions().get(session))?;
        let placed = self.locate_file(ctx, &owner, path)?;
        let seen = placed.read_state()?;
        let stamp = make_stamp(&seen, ctx.now);
        self.record_read(ctx, session, placed.real.clone(), stamp.clone());
        Ok(FileReadResult { path: placed.real, bytes: seen.bytes, stamp })
    }

    /// What a session saw of a file last, if it did.
    ///
    /// # Errors
    ///
    /// As [`Self::read_file`].
    pub fn find_read_stamp(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<Option<FileStamp>, FileError> {
        let owner = self.store.read(ctx, |r| r.sessions().get(session))?;
        let placed = self.locate_file(ctx, &owner, path)?;
        Ok(self.read_stamps.find(session, &placed.real)?)
    }

    /// Remembers what a session saw, for every process of the data directory.
    pub(crate) fn record_read(
        &self,
        ctx: &Context,
        session: &SessionId,
        file: PathBuf,
        stamp: FileStamp,
    ) {
        // A disk that is full must not make reading impossible: this process knows it all the same,
        // and another one asks for the file to be read again.
        let is_first = self.read_stamps.put(session, file, stamp).unwrap_or(false);
        if is_first {
            let is_there = |one: &SessionId| {
                let found = self.store.read(ctx, |r| r.sessions().find(one))?;
                Ok::<_, EngineError>(found.is_some())
            };
            // What cannot be removed now goes another time.
            self.read_stamps.remove_deleted_sessions(is_there).ok();
        }
    }

    /// Finds the file behind a path; links on the way are resolved first (R16).
    pub(super) fn locate_file(
        &self,
        ctx: &Context,
        session: &Session,
        path: &Path,
    ) -> Result<LocatedFile, FileError> {
        let directory = Path::new(&session.directory);
        let outside = || FileError::Outside { path: directory.join(path) };
        let handle = match self.snapshots.access(session, ctx.now)? {
            SnapshotAccess::Available(handle) => handle,
            SnapshotAccess::Refused(error) => {
                let reason = error.to_string();
                return Err(FileError::NotCovered { path: directory.join(path), reason });
            }
        };
        match locate_path(&handle, directory, path)? {
            PathLocation::Inside { path: inside, .. } => {
                let real = handle.location().root.join(OsStr::from_bytes(inside.as_bytes()));
                Ok(LocatedFile { handle, relative: inside, real })
            }
            PathLocation::Outside => Err(outside()),
        }
    }
}
