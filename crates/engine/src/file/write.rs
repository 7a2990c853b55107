//! Writes that compare and swap: a save that came in between is never lost.

use std::path::PathBuf;

use turnstone_core::change::FileImage;
use turnstone_core::id::PartId;
use turnstone_snapshot::{FileWrite, Seen, Why};
use turnstone_store::Context;

use super::error::FileError;
use super::sight::{Placed, Stamp, stamp};
use crate::call::Closed;
use crate::engine::Engine;
use crate::image::word;
use crate::turn::Turn;

/// What must be there before a file is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// What the session saw last; a file that exists must have been read.
    #[default]
    Read,
    /// What this stamp is of.
    Stamp(Stamp),
    /// Nothing: the file is to be made.
    Absent,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFile {
    /// Where, absolute or from the directory of the session.
    pub path: PathBuf,
    /// What must be there before.
    pub expected: Expected,
    /// The new bytes; nothing removes the file.
    pub bytes: Option<Vec<u8>>,
}

/// What came of writing several files.
#[derive(Debug)]
pub struct WrittenFiles {
    /// The change set; it has what was written and nothing else.
    pub closed: Closed,
    /// The files that were left alone, and why.
    pub refused: Vec<FileError>,
}

/// A file between compare and swap.
struct Ready {
    placed: Placed,
    seen: Seen,
    read: Stamp,
}

impl Engine {
    /// Writes one file, if it still is what the session believes it is.
    ///
    /// # Errors
    ///
    /// [`FileError::NeverRead`], [`FileError::Stale`], [`FileError::Outside`],
    /// [`FileError::NotCovered`]: the file is as it was. If the change set could not be closed,
    /// the file may be written and recovery finds out.
    pub fn write_file(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        write: &WriteFile,
    ) -> Result<Closed, FileError> {
        let mut done = self.write_files(ctx, turn, part, std::slice::from_ref(write))?;
        match done.refused.pop() {
            Some(refused) => Err(refused),
            None => Ok(done.closed),
        }
    }

    /// Writes several files as one call. All are checked before any is written.
    ///
    /// A file that somebody saves between the check and the write is left alone and among the
    /// refused; the others are written.
    ///
    /// # Errors
    ///
    /// As [`Engine::write_file`] if a check fails: then no file is written.
    pub fn write_files(
        &self,
        ctx: &Context,
        turn: &Turn,
        part: Option<&PartId>,
        writes: &[WriteFile],
    ) -> Result<WrittenFiles, FileError> {
        let session = self.store.read(ctx, |r| r.get_session(&turn.session))?;
        let mut placed = Vec::new();
        for write in writes {
            placed.push(self.place_file(ctx, &session, &write.path)?);
        }
        let files: Vec<PathBuf> = placed.iter().map(|one| one.real.clone()).collect();
        let lock = self.lock_files(&files)?;
        let mut ready = Vec::new();
        for (placed, write) in placed.into_iter().zip(writes) {
            ready.push(self.check(ctx, turn, placed, &write.expected)?);
        }
        let call = self.open_named(ctx, turn, part, &files)?;
        fail::fail_point!("engine::before_file_write");
        let written = self.swap(ctx, &call, &ready, writes);
        // Whatever came of it, what is there now is written down.
        let closed = self.close_call(ctx, turn, &call);
        let (refused, closed) = (written?, closed?);
        for one in &ready {
            let is_left = refused.iter().any(|error| path_of(error) == Some(&one.placed.real));
            if !is_left {
                let now = stamp(&one.placed.see()?, ctx.now);
                self.remember(ctx, &turn.session, one.placed.real.clone(), now);
            }
        }
        drop(lock);
        Ok(WrittenFiles { closed, refused })
    }

    /// Compares what is there with what the session believes.
    fn check(
        &self,
        ctx: &Context,
        turn: &Turn,
        placed: Placed,
        expected: &Expected,
    ) -> Result<Ready, FileError> {
        let seen = placed.see()?;
        let now = stamp(&seen, ctx.now);
        let nothing = || Stamp { image: FileImage::Absent, modified: None, seen: ctx.now };
        let read = match expected {
            Expected::Stamp(stamp) => stamp.clone(),
            Expected::Absent => nothing(),
            Expected::Read => match self.sights.find(&turn.session, &placed.real)? {
                Some(stamp) => stamp,
                None if now.image == FileImage::Absent => nothing(),
                None => return Err(FileError::NeverRead { path: placed.real }),
            },
        };
        if read.image != now.image {
            let (read, now) = (Box::new(read), Box::new(now));
            return Err(FileError::Stale { path: placed.real, read, now });
        }
        Ok(Ready { placed, seen, read })
    }

    /// Lets the snapshot store swap and judge; returns what it left alone.
    fn swap(
        &self,
        ctx: &Context,
        call: &crate::call::Call,
        ready: &[Ready],
        writes: &[WriteFile],
    ) -> Result<Vec<FileError>, FileError> {
        let (Some(vault), Some(guard)) = (&call.vault, &call.before) else {
            let path = ready.first().map(|one| one.placed.real.clone()).unwrap_or_default();
            return Err(FileError::NotCovered { path, reason: "refused".to_owned() });
        };
        let write = |(one, write): (&Ready, &WriteFile)| FileWrite {
            path: one.placed.inside.clone(),
            expected: one.seen.image,
            bytes: write.bytes.clone(),
        };
        let writes: Vec<FileWrite> = ready.iter().zip(writes).map(write).collect();
        let report = vault.write(&writes, guard, ctx.now)?;
        let mut refused = Vec::new();
        for one in ready {
            let path = one.placed.real.clone();
            let uncovered = report.not_covered.iter().find(|(at, _)| *at == one.placed.inside);
            let conflict = report.conflicts.iter().find(|it| it.path == one.placed.inside);
            match (uncovered, conflict.map(|conflict| conflict.why)) {
                (Some((_, reason)), _) => {
                    refused.push(FileError::NotCovered { path, reason: word(*reason) });
                }
                (None, Some(Why::Refused)) => {
                    let refused = std::io::Error::other("the disk refused the write");
                    return Err(refused.into());
                }
                (None, Some(_)) => {
                    let now = Box::new(stamp(&one.placed.see()?, ctx.now));
                    let read = Box::new(one.read.clone());
                    refused.push(FileError::Stale { path, read, now });
                }
                (None, None) => {}
            }
        }
        Ok(refused)
    }
}

fn path_of(error: &FileError) -> Option<&PathBuf> {
    match error {
        FileError::NeverRead { path }
        | FileError::Stale { path, .. }
        | FileError::Outside { path }
        | FileError::NotCovered { path, .. }
        | FileError::Locked { path } => Some(path),
        FileError::Engine(_) => None,
    }
}
