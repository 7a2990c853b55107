//! Where things are in the data directory (R46): every path is made here.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err as fs;
use fs_err::os::unix::fs::OpenOptionsExt;

use crate::error::DatabaseOpenError;

/// The data directory: `turnstone.db`, `blob/`, `store/`, `worktree/`, `lock/`, `backup/`.
#[derive(Clone, Debug)]
pub struct DataLayout {
    root: PathBuf,
}

impl DataLayout {
    /// The layout below `root`; touches nothing.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Makes the directory and its folders, closed to other users.
    ///
    /// # Errors
    ///
    /// [`DatabaseOpenError::Directory`] if that is not possible.
    pub fn create(&self) -> Result<(), DatabaseOpenError> {
        let fail = |path: &Path, error: std::io::Error| DatabaseOpenError::Directory {
            path: path.to_path_buf(),
            reason: error.to_string(),
        };
        self.make_root().map_err(|e| fail(&self.root, e))?;
        for folder in [self.blobs(), self.locks(), self.backups()] {
            if !folder.exists() {
                create_private_dir(&folder).map_err(|e| fail(&folder, e))?;
            }
        }
        sync_dir(&self.root).map_err(|e| fail(&self.root, e))
    }

    /// Makes the data directory, or closes one that is empty or ours; a directory with other things
    /// in it keeps the permissions its owner gave it.
    fn make_root(&self) -> std::io::Result<()> {
        if self.root.exists() {
            if !self.root.is_dir() {
                return Err(std::io::Error::other("it is not a directory"));
            }
            let ours = self.database().exists() || fs::read_dir(&self.root)?.next().is_none();
            return if ours { restrict_to_owner(&self.root) } else { Ok(()) };
        }
        let above: Vec<&Path> = self.root.ancestors().skip(1).collect();
        let existing = above.iter().position(|p| p.exists()).unwrap_or(above.len());
        fs::create_dir_all(&self.root)?;
        restrict_to_owner(&self.root)?;
        // A directory lasts once the one that names it is on disk.
        for parent in above.into_iter().take(existing + 1) {
            sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
        }
        Ok(())
    }

    /// The data directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The one database.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.root.join("turnstone.db")
    }

    /// The database while it is created; it gets its name when it is complete.
    #[must_use]
    pub(crate) fn unfinished_database(&self) -> PathBuf {
        self.root.join("turnstone.db.new")
    }

    /// The write-ahead log of the database.
    #[must_use]
    pub fn wal(&self) -> PathBuf {
        self.root.join("turnstone.db-wal")
    }

    /// Large values, by content.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blob")
    }

    /// Lock and owner files.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// When maintenance of the database last finished.
    #[must_use]
    pub(crate) fn last_maintenance(&self) -> PathBuf {
        self.locks().join("maintained")
    }

    /// Backups made before upgrades and on request.
    #[must_use]
    pub fn backups(&self) -> PathBuf {
        self.root.join("backup")
    }
}

/// Closes a directory to other users.
fn restrict_to_owner(path: &Path) -> std::io::Result<()> {
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    fs::File::open(path)?.sync_all()
}

/// Makes a folder that only its owner may enter.
pub(crate) fn create_private_dir(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Opens or makes a file that only its owner may read.
pub(crate) fn open_private_file(path: &Path) -> std::io::Result<std::fs::File> {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Ok(file.into_parts().0)
}
