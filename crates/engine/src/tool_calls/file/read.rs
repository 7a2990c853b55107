//! What a session sees of a file, and when.

use std::ffi::OsStr;
use std::io;
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
use super::read_stamps::StampOrder;
use crate::captures::session_coverage::{PathLocation, SnapshotAccess, locate_path};
use crate::error::EngineError;
use crate::permissions::is_link_circle;
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

/// True for a path that no file can have, as the system sees it: through a file, or in a circle of links.
fn leads_nowhere(path: &Path) -> io::Result<bool> {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory};
    let error = match fs_err::symlink_metadata(path) {
        Ok(found) => return Ok(found.is_symlink() && is_link_circle(path)?),
        Err(error) => error,
    };
    let is_impossible = [InvalidFilename, InvalidInput, NotADirectory].contains(&error.kind());
    Ok(is_impossible || is_link_circle(path)?)
}

/// True for a path that names a file, as far as that can be seen without looking.
fn is_file_path(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    !bytes.is_empty() && !bytes.contains(&0) && !bytes.ends_with(b"/")
}

pub(super) fn make_stamp(seen: &PathState, now: EpochMillis) -> FileStamp {
    FileStamp { image: seen.image, modified: seen.modified.map(EpochMillis), seen: now }
}

impl ToolCalls {
    /// Reads a file for a session and remembers what it saw.
    ///
    /// # Errors
    ///
    /// [`FileError::Outside`], [`FileError::NotCovered`] and [`FileError::InvalidPath`]: nothing is remembered.
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

    /// Reads a file for a session without recording that the session saw it: its caller shows no one the
    /// content, and the session may not overwrite the file because of it.
    ///
    /// # Errors
    ///
    /// As [`Self::read_file`].
    pub fn view_file(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<FileReadResult, FileError> {
        let owner = self.store.read(ctx, |r| r.sessions().get(session))?;
        let placed = self.locate_file(ctx, &owner, path)?;
        let seen = placed.read_state()?;
        let stamp = make_stamp(&seen, ctx.now);
        Ok(FileReadResult { path: placed.real, bytes: seen.bytes, stamp })
    }

    /// Reads a file that a session is about to replace as a whole, if it is what the session saw last.
    ///
    /// # Errors
    ///
    /// [`FileError::NeverRead`] and [`FileError::Stale`], and as [`Self::read_file`].
    pub fn view_file_to_replace(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<FileReadResult, FileError> {
        let found = self.view_file(ctx, session, path)?;
        let seen = self.read_stamps.find(session, &found.path)?;
        match seen {
            _ if found.stamp.image == PathImage::Absent => Ok(found),
            None => Err(FileError::NeverRead { path: found.path }),
            Some(seen) if seen.image == found.stamp.image => Ok(found),
            Some(seen) => Err(FileError::Stale {
                path: found.path,
                read: Box::new(seen),
                now: Box::new(found.stamp),
            }),
        }
    }

    /// How many bytes a file has, before it is read; none if there is no such file.
    ///
    /// # Errors
    ///
    /// As [`Self::read_file`].
    pub fn measure_file(
        &self,
        ctx: &Context,
        session: &SessionId,
        path: &Path,
    ) -> Result<u64, FileError> {
        let owner = self.store.read(ctx, |r| r.sessions().get(session))?;
        let placed = self.locate_file(ctx, &owner, path)?;
        match fs_err::symlink_metadata(&placed.real) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error.into()),
        }
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
        let order = self.read_stamps.record(session, file, stamp);
        if matches!(order, Ok(StampOrder::First)) {
            let is_there = |one: &SessionId| {
                let found = self.store.read(ctx, |r| r.sessions().find(one))?;
                Ok::<_, EngineError>(found.is_some())
            };
            // What cannot be removed now is removed another time.
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
        if !is_file_path(path) || leads_nowhere(&directory.join(path))? {
            return Err(FileError::InvalidPath { path: path.to_owned() });
        }
        let outside = || FileError::Outside { path: directory.join(path) };
        let handle = match self.snapshots.open_for_session(session, ctx.now)? {
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
