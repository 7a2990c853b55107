//! Making a restore durable before it is recorded as done (R18).
//!
//! Every file was synced before it got its name, so what is left are the names: the directories of
//! the plan's paths and those above them. Only these are waited for. Syncing the file system would
//! wait for whatever else is being written to it, by a build for instance.

use std::collections::BTreeSet;
use std::io;

use fail::fail_point;
use rayon::prelude::*;
use rustix::io::Errno;

use super::plan::RestoreStep;
use crate::path::RelPath;
use crate::worktree::{Worktree, sync_file_system};

/// Threads that wait for the disk at the same time; it commits what they wait for together.
const MAX_SYNC_THREADS: usize = 32;
/// With more directories than this it is cheaper to wait for everything.
const MAX_SYNCED_FOLDERS: usize = 1000;

/// Threads for work of which each piece waits for the disk.
pub(super) fn sync_thread_pool(pieces: usize) -> io::Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(pieces.clamp(1, MAX_SYNC_THREADS));
    pool.build().map_err(io::Error::other)
}

/// Waits until the names that `steps` made, moved or removed are durable.
pub(super) fn sync_directories(worktree: &Worktree, steps: &[RestoreStep]) -> io::Result<()> {
    let mut folders = BTreeSet::new();
    for step in steps {
        if step.target.is_directory() {
            folders.insert(step.path.clone());
        }
        // Once a directory is there, so are those above it.
        step.path.ancestors().take_while(|folder| folders.insert(folder.clone())).for_each(drop);
        if folders.len() > MAX_SYNCED_FOLDERS {
            return sync_file_system(&worktree.open_dir(None)?);
        }
    }
    let folders: Vec<Option<RelPath>> = folders.into_iter().map(Some).chain([None]).collect();
    let sync = |folder: &Option<RelPath>| sync_folder(worktree, folder.as_ref());
    let synced: io::Result<Vec<bool>> = match folders.len() {
        0..=2 => folders.iter().map(sync).collect(),
        count => sync_thread_pool(count)?.install(|| folders.par_iter().map(sync).collect()),
    };
    match synced?.into_iter().all(|is_synced| is_synced) {
        true => Ok(()),
        false => sync_file_system(&worktree.open_dir(None)?),
    }
}

/// Syncs a folder; false if that is not possible. A disk that fails is an error, never a no.
fn sync_folder(worktree: &Worktree, folder: Option<&RelPath>) -> io::Result<bool> {
    fail_point!("snapshot::no_folder_sync", |_| Ok(false));
    let dir = match worktree.open_dir(folder) {
        Ok(dir) => dir,
        // It was removed with the last file in it, or is a file by now: the folder above tells.
        Err(error) => {
            let kind = error.kind();
            return Ok(matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory));
        }
    };
    match dir.sync().map_err(|error| (Errno::from_io_error(&error), error)) {
        Ok(()) => Ok(true),
        // Some file systems sync no directories.
        Err((Some(Errno::INVAL | Errno::NOTSUP | Errno::BADF), _)) => Ok(false),
        Err((_, error)) => Err(error),
    }
}
