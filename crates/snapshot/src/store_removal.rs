//! Removing a whole store: only one that is a store, only below the folder of stores, only if no process
//! owns it.

use std::io;
use std::path::{Path, PathBuf};

use fail::fail_point;

use crate::object_store::random_hex;
use crate::snapshot_store::{StoreOpenError, acquire_owner_lock};

/// A store is renamed to this and a random suffix before it is deleted.
const REMOVED_PREFIX: &str = "tmp_turnstone_removed-";

/// Why a store was not removed; it is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// The folder does not lie directly in the folder of stores, or is a link.
    #[error("{0} is not a folder of the store directory")]
    Outside(PathBuf),
    /// The folder exists, but is not a snapshot store.
    #[error("{0} is not a snapshot store")]
    NotAStore(PathBuf),
    /// A process owns the store (R11).
    #[error("the snapshot store is in use by another process ({0})")]
    Locked(String),
    /// The disk reported an error.
    #[error("the snapshot store could not be removed")]
    Io(#[from] io::Error),
}

/// Removes the store `name` of the folder `stores`; returns how many bytes its packs had.
///
/// The store is renamed first: if the process is killed half way,
/// [`finish_removals`](crate::StoreRegistry::finish_removals) deletes the rest.
///
/// # Errors
///
/// See [`RemovalError`].
pub fn remove_store(stores: &Path, name: &str) -> Result<u64, RemovalError> {
    let folder = stores.join(name);
    let is_plain = Path::new(name).components().count() == 1
        && folder.file_name().is_some_and(|last| last == name);
    if !is_plain || !fs_err::symlink_metadata(&folder)?.is_dir() {
        return Err(RemovalError::Outside(folder));
    }
    if !is_store(&folder)? {
        return Err(RemovalError::NotAStore(folder));
    }
    let owner = match acquire_owner_lock(&folder) {
        Ok(owner) => owner,
        Err(StoreOpenError::Locked(who)) => return Err(RemovalError::Locked(who)),
        Err(StoreOpenError::Io(error)) => return Err(error.into()),
        Err(StoreOpenError::Root(_)) => return Err(RemovalError::NotAStore(folder)),
    };
    let bytes = crate::object_store::pack_bytes(&folder.join("git"))?;
    let dead = stores.join(format!("{REMOVED_PREFIX}{}", random_hex()?));
    fs_err::rename(&folder, &dead)?;
    fs_err::File::open(stores)?.sync_all()?;
    fail_point!("snapshot::store_renamed", |_| Err(io::Error::other("failpoint").into()));
    drop(owner);
    delete_renamed(&dead)?;
    Ok(bytes)
}

/// Finishes removals that were interrupted; returns how many.
pub(crate) fn finish_removals(stores: &Path) -> io::Result<usize> {
    let entries = match fs_err::read_dir(stores) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut count = 0;
    for entry in entries {
        let entry = entry?;
        let is_renamed =
            entry.file_name().to_str().is_some_and(|name| name.starts_with(REMOVED_PREFIX));
        if is_renamed {
            delete_renamed(&entry.path())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Deletes a renamed store; another process may be deleting it, too.
fn delete_renamed(folder: &Path) -> io::Result<()> {
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A store has an owner's lock file and a bare repository with our refs.
fn is_store(folder: &Path) -> io::Result<bool> {
    for file in ["keeper", "git/HEAD", "git/config"] {
        match fs_err::symlink_metadata(folder.join(file)) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    folder.join("git/refs/turnstone").try_exists()
}
