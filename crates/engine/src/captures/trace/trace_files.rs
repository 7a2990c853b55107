//! The files with the traces of commands: one for each change set, until it is closed.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt;
use turnstone_core::id::ChangeId;
use turnstone_store::{Context, Store};

use crate::error::Result;

/// The folder with the traces of commands.
#[derive(Clone, Debug)]
pub(crate) struct TraceFiles {
    folder: PathBuf,
}

impl TraceFiles {
    pub(crate) fn new(data: &Path) -> Self {
        Self { folder: data.join("trace") }
    }

    /// Where the trace of a change set is.
    pub(crate) fn path(&self, change: &ChangeId) -> PathBuf {
        self.folder.join(change.as_str())
    }

    /// Makes the folder, closed to other users.
    pub(crate) fn create_folder(&self) -> io::Result<()> {
        fs_err::create_dir_all(&self.folder)?;
        fs_err::set_permissions(&self.folder, Permissions::from_mode(0o700))
    }

    /// What time it is for the files of this machine, in nanoseconds: a file that changes from now on has this time
    /// of change, or a later one.
    pub(crate) fn file_time(&self, change: &ChangeId) -> io::Result<i64> {
        self.create_folder()?;
        let path = self.folder.join(format!("{change}.time"));
        let file = fs_err::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        let meta = file.metadata()?;
        fs_err::remove_file(&path)?;
        Ok(meta.ctime().saturating_mul(1_000_000_000).saturating_add(meta.ctime_nsec()))
    }

    /// Removes the trace of a change set that is closed. A tracer that still appends to it is not disturbed.
    pub(crate) fn remove(&self, change: &ChangeId) -> io::Result<()> {
        remove_if_present(&self.path(change))
    }

    /// Removes the traces of change sets that are closed or gone.
    pub(crate) fn remove_closed(&self, store: &Store, ctx: &Context) -> Result<()> {
        let mut names = BTreeSet::new();
        match fs_err::read_dir(&self.folder) {
            Ok(entries) => {
                for entry in entries {
                    names.insert(entry?.file_name());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if names.is_empty() {
            return Ok(());
        }
        // Listed before: a trace is created after its change set was opened.
        let open = store.read(ctx, |r| r.change_sets().list_open(None))?;
        let is_open = |name: &std::ffi::OsString| {
            let stem = Path::new(name).file_stem().unwrap_or_default();
            let ids = open.iter().flat_map(|row| [Some(&row.set.id), row.continues.as_ref()]);
            ids.flatten().any(|id| id.as_str() == stem)
        };
        for name in names.iter().filter(|name| !is_open(name)) {
            remove_if_present(&self.folder.join(name))?;
        }
        Ok(())
    }
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
