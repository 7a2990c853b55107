//! Names that change places, and what happens to those that must go back.
//!
//! A file that is not ours is never unlinked here unless a newer one has taken its place.

use std::io;

use fail::fail_point;

use crate::file_hashing::read_once_in;
use crate::object_store::{TreeLeaf, hash_object};
use crate::stat_cache::leaf_mode_of;
use crate::worktree::{FileKind, NameInDir, WorktreeDir};

/// What the name of a file that made way ends with, where two names cannot change places.
const SPARE_SUFFIX: &[u8] = b"-old";

/// The second temporary name of a step.
pub(super) fn spare_name(temp: &[u8]) -> Vec<u8> {
    [temp, SPARE_SUFFIX].concat()
}

/// Lets two names change places, or does what comes nearest where that is not possible.
///
/// If it fails, `place` holds what it held or what another program saved since.
pub(super) fn exchange_names(temp: NameInDir<'_>, place: NameInDir<'_>) -> io::Result<()> {
    if temp.exchange(place)? {
        return Ok(());
    }
    // The present file moves aside, so no save can be overwritten; for a moment there
    // is no file. Linking it and renaming over it would lose a save made in between.
    let spare = spare_name(temp.name);
    let spare = NameInDir { dir: temp.dir, name: &spare };
    place.rename_no_replace(spare)?;
    fail_point!("snapshot::moved_aside");
    if let Err(error) = temp.rename_no_replace(place) {
        move_back(spare, place)?;
        return Err(error);
    }
    fail_point!("snapshot::moved_in");
    spare.rename_no_replace(temp)
}

/// Moves a file to the place it came from; if there is a newer one, that stays and this one is removed.
///
/// An empty directory in its place is removed.
pub(super) fn move_back(from: NameInDir<'_>, place: NameInDir<'_>) -> io::Result<()> {
    match from.rename_no_replace(place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    if !is_directory(place) {
        return from.unlink();
    }
    if !place.remove_empty_dir()? {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    from.rename_no_replace(place)
}

/// True if the name is a directory.
pub(super) fn is_directory(name: NameInDir<'_>) -> bool {
    matches!(name.dir.stat(name.name), Ok(Some(stat)) if stat.kind == FileKind::Directory)
}

/// Tells a name that is taken, or gone, from a disk that refuses.
pub(super) fn is_name_conflict(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    let kinds = [AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound];
    kinds.contains(&error.kind())
        || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// Takes a swap back: `place` gets its file again and `ours` is removed, unless it was overwritten.
pub(super) fn undo_exchange(
    temp: NameInDir<'_>,
    place: NameInDir<'_>,
    ours: Option<TreeLeaf>,
) -> io::Result<()> {
    match exchange_names(temp, place) {
        // Another program removed our file since: there is nothing to exchange.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return move_back(temp, place),
        done => done?,
    }
    match read_leaf(temp.dir, temp.name) {
        // Its origin is unknown, so it must not be removed.
        None => Err(io::Error::other("the displaced file cannot be read")),
        found if found == ours => temp.unlink(),
        Some(_) => {
            exchange_names(temp, place)?;
            temp.unlink()
        }
    }
}

/// What a name holds right now; `None` if it is no file or cannot be read.
pub(super) fn read_leaf(dir: &WorktreeDir, name: &[u8]) -> Option<TreeLeaf> {
    let mut data = Vec::new();
    let stat = read_once_in(dir, name, &mut data).ok()???;
    debug_assert_ne!(stat.kind, FileKind::Directory);
    let blob = hash_object(gix::objs::Kind::Blob, &data).ok()?;
    Some(TreeLeaf { blob, mode: leaf_mode_of(&stat) })
}
