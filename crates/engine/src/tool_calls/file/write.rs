//! Writes that compare and swap: a save that came in between is never lost.

use std::collections::BTreeSet;
use std::path::PathBuf;

use turnstone_core::change::PathImage;
use turnstone_core::id::{PartId, SessionId};
use turnstone_snapshot::{ConditionalWrite, ConflictReason, PathState, SnapshotError, WrittenPath};
use turnstone_store::Context;

use super::error::FileError;
use super::lock::{FileLock, try_lock_files};
use super::read::{FileStamp, LocatedFile, make_stamp};
use crate::tool_calls::tracked_call::{ClosedCall, ToolCalls, TrackedCall};
use crate::turns::turn::Turn;

/// What must be there before a file is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WritePrecondition {
    /// What the session saw last; a file that exists must have been read.
    #[default]
    Read,
    /// What this stamp is of.
    Stamp(FileStamp),
    /// Nothing: the file is to be made.
    Absent,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileWriteRequest {
    /// Where, absolute or from the directory of the session.
    pub path: PathBuf,
    /// What must be there before.
    pub expected: WritePrecondition,
    /// The new bytes; nothing removes the file.
    pub bytes: Option<Vec<u8>>,
}

/// What came of writing several files.
#[derive(Debug)]
pub struct FileWriteReport {
    /// The change set; it has what was written and nothing else.
    pub closed: ClosedCall,
    /// The files that were left alone, and why.
    pub refused: Vec<FileError>,
}

/// A file between compare and swap.
struct CheckedWrite {
    placed: LocatedFile,
    seen: PathState,
    read: FileStamp,
}

impl CheckedWrite {
    fn conditional(&self, write: &FileWriteRequest) -> ConditionalWrite {
        ConditionalWrite {
            path: self.placed.relative.clone(),
            expected: self.seen.image,
            bytes: write.bytes.clone(),
        }
    }

    fn is_refused(&self, refused: &[FileError]) -> bool {
        refused.iter().any(|error| error_path(error) == Some(&self.placed.real))
    }
}

impl ToolCalls {
    /// Writes one file if it still has the content that the session last saw.
    ///
    /// # Errors
    ///
    /// [`FileError::NeverRead`], [`FileError::Stale`], [`FileError::Outside`], [`FileError::Locked`],
    /// [`FileError::NotCovered`], [`FileError::InvalidPath`]: the file is as it was. If the change set could not be closed,
    /// the file may be written and recovery finds out.
    pub fn write_file(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        write: &FileWriteRequest,
    ) -> Result<ClosedCall, FileError> {
        let lock = self.try_lock_files(ctx, &turn.session, std::slice::from_ref(&write.path))?;
        let writes = std::slice::from_ref(write);
        let mut done = self.write_files(ctx, turn, part, (writes, lock))?;
        match done.refused.pop() {
            Some(refused) => Err(refused),
            None => Ok(done.closed),
        }
    }

    /// Writes several files as one call, under a lock that [`Self::try_lock_files`] gave for their paths. All
    /// are checked before any is written.
    ///
    /// A file that is saved between the check and the write is left alone and among the
    /// refused; the others are written.
    ///
    /// # Errors
    ///
    /// As [`Self::write_file`] if a check fails, or [`FileError::NamedTwice`]: then no file is written.
    pub fn write_files(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        (writes, lock): (&[FileWriteRequest], FileLock),
    ) -> Result<FileWriteReport, FileError> {
        let session = self.store.read(ctx, |r| r.sessions().get(&turn.session))?;
        let mut placed = Vec::new();
        for write in writes {
            placed.push(self.locate_file(ctx, &session, &write.path)?);
        }
        let files: Vec<PathBuf> = placed.iter().map(|one| one.real.clone()).collect();
        let mut seen = BTreeSet::new();
        if let Some(path) = files.iter().find(|path| !seen.insert(*path)).cloned() {
            return Err(FileError::NamedTwice { path });
        }
        // A link on the way changed since: the lock is on another file.
        if let Some(other) = files.iter().find(|file| !lock.is_on(file)) {
            return Err(FileError::Locked { path: other.clone() });
        }
        let mut ready = Vec::new();
        for (placed, write) in placed.into_iter().zip(writes) {
            ready.push(self.check_precondition(ctx, turn, placed, &write.expected)?);
        }
        let mut call = self.open_named(ctx, turn, part, &files)?;
        fail::fail_point!("engine::before_file_write");
        let swapped = self.swap_files(ctx, &call, &ready, writes);
        fail::fail_point!("engine::after_file_write");
        if let Ok(refused) = &swapped {
            call.written = list_written(&call, &ready, writes, refused)?;
        }
        // In any case, the present state is recorded.
        let closed = self.close(ctx, turn, &call);
        let (refused, closed) = (swapped?, closed?);
        for one in ready.iter().filter(|one| !one.is_refused(&refused)) {
            let now = make_stamp(&one.placed.read_state()?, ctx.now);
            // A save that came since is one that the session has not seen.
            let written = call.written.iter().flatten();
            let mut written = written.filter(|file| file.path == one.placed.relative);
            let stamp = match written.next() {
                Some(file) if file.image != now.image => {
                    FileStamp { image: file.image, modified: None, seen: ctx.now }
                }
                Some(_) | None => now,
            };
            self.record_read(ctx, &turn.session, one.placed.real.clone(), stamp);
        }
        drop(lock);
        Ok(FileWriteReport { closed, refused })
    }

    /// Compares the file with what the session last saw.
    fn check_precondition(
        &self,
        ctx: &Context,
        turn: &Turn,
        placed: LocatedFile,
        expected: &WritePrecondition,
    ) -> Result<CheckedWrite, FileError> {
        let seen = placed.read_state()?;
        let now = make_stamp(&seen, ctx.now);
        let nothing = || FileStamp { image: PathImage::Absent, modified: None, seen: ctx.now };
        let read = match expected {
            WritePrecondition::Stamp(stamp) => stamp.clone(),
            WritePrecondition::Absent => nothing(),
            WritePrecondition::Read => match self.read_stamps.find(&turn.session, &placed.real)? {
                Some(stamp) => stamp,
                None if now.image == PathImage::Absent => nothing(),
                None => return Err(FileError::NeverRead { path: placed.real }),
            },
        };
        if read.image != now.image {
            let (read, now) = (Box::new(read), Box::new(now));
            return Err(FileError::Stale { path: placed.real, read, now });
        }
        Ok(CheckedWrite { placed, seen, read })
    }

    /// Lets the snapshot store swap and judge; returns what it left alone.
    fn swap_files(
        &self,
        ctx: &Context,
        call: &TrackedCall,
        ready: &[CheckedWrite],
        writes: &[FileWriteRequest],
    ) -> Result<Vec<FileError>, FileError> {
        let (Some(handle), Some(guard)) = (&call.snapshots, &call.before) else {
            let path = ready.first().map(|one| one.placed.real.clone()).unwrap_or_default();
            return Err(FileError::NotCovered { path, reason: "refused".to_owned() });
        };
        let writes: Vec<ConditionalWrite> =
            ready.iter().zip(writes).map(|(one, write)| one.conditional(write)).collect();
        let report = handle.write_files(&writes, guard, ctx.now)?;
        let mut refused = Vec::new();
        for one in ready {
            let path = one.placed.real.clone();
            let uncovered = report.not_covered.iter().find(|(at, _)| *at == one.placed.relative);
            let conflict = report.conflicts.iter().find(|it| it.path == one.placed.relative);
            match (uncovered, conflict.map(|conflict| conflict.why)) {
                (Some((_, reason)), _) => {
                    refused
                        .push(FileError::NotCovered { path, reason: reason.as_str().to_owned() });
                }
                (None, Some(ConflictReason::Refused)) => {
                    let refused = std::io::Error::other("the disk refused the write");
                    return Err(refused.into());
                }
                (None, Some(ConflictReason::ReadOnly)) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::PermissionDenied).into());
                }
                (None, Some(ConflictReason::NoSpace)) => {
                    return Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into());
                }
                (None, Some(_)) => {
                    let now = Box::new(make_stamp(&one.placed.read_state()?, ctx.now));
                    let read = Box::new(one.read.clone());
                    refused.push(FileError::Stale { path, read, now });
                }
                (None, None) => {}
            }
        }
        Ok(refused)
    }

    /// Keeps everybody else from writing the files that a session means by `paths`, until the lock is dropped;
    /// all of them or none. It never waits.
    ///
    /// # Errors
    ///
    /// [`FileError::Locked`] if somebody else does so; [`FileError::Outside`] and
    /// [`FileError::NotCovered`] if a file is none that the session writes.
    pub fn try_lock_files(
        &self,
        ctx: &Context,
        session: &SessionId,
        paths: &[PathBuf],
    ) -> Result<FileLock, FileError> {
        let session = self.store.read(ctx, |r| r.sessions().get(session))?;
        let mut files = BTreeSet::new();
        for path in paths {
            files.insert(self.locate_file(ctx, &session, path)?.real);
        }
        try_lock_files(&self.lock_folder, &files)
    }
}

/// Lists what is at the paths of a call once its files are written: what was written, or what was there before.
/// `None` if the call names other paths too, so that the disk has to be asked.
fn list_written(
    call: &TrackedCall,
    ready: &[CheckedWrite],
    writes: &[FileWriteRequest],
    refused: &[FileError],
) -> Result<Option<Vec<WrittenPath>>, FileError> {
    let (Some(handle), Some(before)) = (&call.snapshots, &call.before) else { return Ok(None) };
    let paths: BTreeSet<_> = ready.iter().map(|one| one.placed.relative.clone()).collect();
    if call.named.as_ref() != Some(&paths) || !call.other_roots.is_empty() {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(ready.len());
    for (one, write) in ready.iter().zip(writes) {
        let conditional = one.conditional(write);
        found.push(match one.is_refused(refused) {
            true => {
                let image = handle.reader().path_image(before, &conditional.path)?;
                WrittenPath { path: conditional.path, image, bytes: None }
            }
            false => conditional.to_written_path().map_err(SnapshotError::from)?,
        });
    }
    Ok(Some(found))
}

fn error_path(error: &FileError) -> Option<&PathBuf> {
    match error {
        FileError::NeverRead { path }
        | FileError::Stale { path, .. }
        | FileError::Outside { path }
        | FileError::NotCovered { path, .. }
        | FileError::InvalidPath { path }
        | FileError::NamedTwice { path }
        | FileError::Locked { path } => Some(path),
        FileError::Engine(_) => None,
    }
}
