//! Changes of files: what is there, what a call writes, and what a formatter makes of it.

use std::path::PathBuf;
use std::time::Duration;

use turnstone_engine::{
    FileError, FileLock, FileReadResult, FileStamp, FileWriteRequest, WritePrecondition,
};

use super::accessed_path::AccessedPath;
use super::{ToolError, ToolHost, ToolSettings};

/// How often a call begins again because its file changed in between.
pub(crate) const MAX_ATTEMPTS: usize = 5;
/// How long a call waits before it tries to lock a file again.
const LOCK_INTERVAL: Duration = Duration::from_millis(50);
/// How often it tries: half a minute.
const MAX_LOCK_ATTEMPTS: usize = 600;

/// Why files were not written; all are as they were.
#[derive(Debug)]
pub(crate) enum ChangeFailure {
    /// A file changed since it was looked at: look again.
    Changed,
    /// The call fails.
    Failed(ToolError),
}

impl From<ToolError> for ChangeFailure {
    fn from(error: ToolError) -> Self {
        Self::Failed(error)
    }
}

/// A file that a call writes, and what it has to be before.
#[derive(Clone, Debug)]
pub(crate) struct FileChangeRequest {
    /// The real path.
    pub(crate) path: PathBuf,
    /// What the call saw.
    pub(crate) stamp: FileStamp,
    /// The bytes that the call saw; nothing if there was no file.
    pub(crate) old: Option<Vec<u8>>,
    /// The new bytes; nothing removes the file.
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Looks at a file that a call is going to change; the session has not read it by that.
pub(crate) fn view_file(
    host: &dyn ToolHost,
    path: &AccessedPath,
) -> Result<FileReadResult, ToolError> {
    if path.real.is_dir() {
        let shown = path.absolute.display();
        return Err(ToolError::failed(format!("{shown} is a directory, not a file.")));
    }
    let calls = host.engine().tool_calls();
    calls.view_file(&host.context(), &host.scope().session, &path.real).map_err(file_failure)
}

/// Writes files of a call as one change: all of them or, as far as the disk allows, none.
pub(crate) fn write_files(
    host: &dyn ToolHost,
    changes: &[FileChangeRequest],
) -> Result<(), ChangeFailure> {
    let paths: Vec<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
    let lock = lock_files(host, &paths)?;
    let request = |change: &FileChangeRequest| FileWriteRequest {
        path: change.path.clone(),
        expected: WritePrecondition::Stamp(change.stamp.clone()),
        bytes: change.bytes.clone(),
    };
    let writes: Vec<FileWriteRequest> = changes.iter().map(request).collect();
    let calls = host.engine().tool_calls();
    let written =
        calls.write_files(&host.context(), host.turn(), Some(host.part()), (&writes, lock));
    let mut refused = match written {
        Ok(report) => report.refused,
        Err(FileError::Stale { .. }) => return Err(ChangeFailure::Changed),
        Err(error) => return Err(ChangeFailure::Failed(file_failure(error))),
    };
    let Some(first) = refused.pop() else { return Ok(()) };
    let mut left: Vec<PathBuf> = refused.iter().filter_map(refused_path).collect();
    left.extend(refused_path(&first));
    restore_written(host, changes, &left)?;
    let is_changed = matches!(first, FileError::Stale { .. });
    Err(if is_changed { ChangeFailure::Changed } else { file_failure(first).into() })
}

/// Restores what was written before another file of the same call could not be.
fn restore_written(
    host: &dyn ToolHost,
    changes: &[FileChangeRequest],
    left: &[PathBuf],
) -> Result<(), ToolError> {
    let written: Vec<&FileChangeRequest> =
        changes.iter().filter(|change| !left.contains(&change.path)).collect();
    if written.is_empty() {
        return Ok(());
    }
    let paths: Vec<PathBuf> = written.iter().map(|change| change.path.clone()).collect();
    let back = |change: &&FileChangeRequest| FileWriteRequest {
        path: change.path.clone(),
        // The write recorded what it left: a save that came since is not overwritten.
        expected: WritePrecondition::Read,
        bytes: change.old.clone(),
    };
    let writes: Vec<FileWriteRequest> = written.iter().map(back).collect();
    let lock = lock_files(host, &paths)?;
    let calls = host.engine().tool_calls();
    let report =
        calls.write_files(&host.context(), host.turn(), Some(host.part()), (&writes, lock));
    let names = || {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        names.join(", ")
    };
    match report {
        Ok(report) if report.refused.is_empty() => Ok(()),
        Ok(_) | Err(_) => Err(ToolError::failed(format!(
            "Not all files could be written, and these may have been: {}. Read them again.",
            names()
        ))),
    }
}

fn refused_path(error: &FileError) -> Option<PathBuf> {
    match error {
        FileError::NeverRead { path }
        | FileError::Stale { path, .. }
        | FileError::Outside { path }
        | FileError::NotCovered { path, .. }
        | FileError::InvalidPath { path }
        | FileError::NamedTwice { path }
        | FileError::Locked { path } => Some(path.clone()),
        FileError::Engine(_) => None,
    }
}

/// Keeps all others from writing files; waits until no one else does.
fn lock_files(host: &dyn ToolHost, paths: &[PathBuf]) -> Result<FileLock, ToolError> {
    let calls = host.engine().tool_calls();
    let mut attempts = 0;
    loop {
        match calls.try_lock_files(&host.context(), &host.scope().session, paths) {
            Ok(lock) => return Ok(lock),
            Err(FileError::Locked { .. }) if attempts < MAX_LOCK_ATTEMPTS => {
                attempts += 1;
                if host.abort().wait(LOCK_INTERVAL) {
                    return Err(ToolError::Aborted);
                }
            }
            Err(error) => return Err(file_failure(error)),
        }
    }
}

/// Lets the formatter change files that were written, and records that the session knows the result.
pub(crate) fn format_files(
    host: &dyn ToolHost,
    settings: &ToolSettings,
    files: &[PathBuf],
) -> Result<bool, ToolError> {
    let Some(formatter) = &settings.formatter else { return Ok(false) };
    let formatted = formatter.format(host, files)?;
    let calls = host.engine().tool_calls();
    for file in &formatted {
        calls.read_file(&host.context(), &host.scope().session, file).map_err(file_failure)?;
    }
    Ok(!formatted.is_empty())
}

/// Returns what the model reads about a file that could not be read or written.
pub(crate) fn file_failure(error: FileError) -> ToolError {
    ToolError::failed(match error {
        FileError::NeverRead { path } => format!(
            "{} exists and has not been read in this session. Read it with the tool read first, then \
             write it.",
            path.display()
        ),
        FileError::Stale { path, .. } => format!(
            "{} has changed since it was read. Read it again with the tool read, then write it.",
            path.display()
        ),
        FileError::Outside { path } => format!(
            "{} is outside of the project, and files outside of it are not written.",
            path.display()
        ),
        FileError::NotCovered { path, reason } => format!(
            "{} cannot be written: the change could not be undone ({reason}).",
            path.display()
        ),
        other @ (FileError::InvalidPath { .. }
        | FileError::NamedTwice { .. }
        | FileError::Locked { .. }
        | FileError::Engine(_)) => other.to_string(),
    })
}

/// Returns what the model reads if a file changes again and again while a call wants to change it.
pub(crate) fn busy_file(path: &AccessedPath) -> ToolError {
    ToolError::failed(format!(
        "{} keeps changing and was not written. Read it again and retry.",
        path.absolute.display()
    ))
}
