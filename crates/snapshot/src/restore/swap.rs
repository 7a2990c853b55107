//! Names that change places, and what happens to those that must go back.
//!
//! A file that is not ours is never unlinked here unless a newer one stands where it would go.

use std::io;

use fail::fail_point;

use crate::cache::mode_of;
use crate::hash::attempt_in;
use crate::object::{Leaf, Oid};
use crate::worktree::{Dir, Kind, Name};

/// What the name of a file that made way ends with, where two names cannot change places.
const SPARE: &[u8] = b"-old";

/// The second temporary name of a step.
pub(super) fn spare_name(temp: &[u8]) -> Vec<u8> {
    [temp, SPARE].concat()
}

/// Lets two names change places, or does what comes nearest where that is not possible.
///
/// If it fails, `place` holds what it held or what somebody saved since.
pub(super) fn swap(temp: Name<'_>, place: Name<'_>) -> io::Result<()> {
    if temp.exchange(place)? {
        return Ok(());
    }
    // Whatever stands there moves aside as it is, so no save can be overwritten; for a moment there
    // is no file. Linking it and renaming over it would lose a save made in between.
    let spare = spare_name(temp.name);
    let spare = Name { dir: temp.dir, name: &spare };
    place.rename_new(spare)?;
    fail_point!("snapshot::moved_aside");
    if let Err(error) = temp.rename_new(place) {
        put_back(spare, place)?;
        return Err(error);
    }
    fail_point!("snapshot::moved_in");
    spare.rename_new(temp)
}

/// Moves a file to the place it came from; if there is a newer one, that stays and this one goes.
///
/// A directory that stands there makes way if it is empty.
pub(super) fn put_back(from: Name<'_>, place: Name<'_>) -> io::Result<()> {
    match from.rename_new(place) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        done => return done,
    }
    if !is_directory(place) {
        return from.unlink();
    }
    if !place.remove_empty_dir()? {
        return Err(io::ErrorKind::DirectoryNotEmpty.into());
    }
    from.rename_new(place)
}

/// Tells whether a directory stands at a name.
pub(super) fn is_directory(name: Name<'_>) -> bool {
    matches!(name.dir.stat(name.name), Ok(Some(stat)) if stat.kind == Kind::Directory)
}

/// Tells a name that is taken, or gone, from a disk that refuses.
pub(super) fn is_obstacle(error: &io::Error) -> bool {
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    let kinds = [AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound];
    kinds.contains(&error.kind())
        || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// Takes a swap back: `place` gets its file again and `ours` goes, unless it was saved over.
pub(super) fn swap_back(temp: Name<'_>, place: Name<'_>, ours: Option<Leaf>) -> io::Result<()> {
    match swap(temp, place) {
        // Somebody removed ours since: then there is nothing to change places with.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return put_back(temp, place),
        done => done?,
    }
    match leaf_at(temp.dir, temp.name) {
        // It cannot be told whose it is, so it is not ours to remove.
        None => Err(io::Error::other("the displaced file cannot be read")),
        found if found == ours => temp.unlink(),
        Some(_) => {
            swap(temp, place)?;
            temp.unlink()
        }
    }
}

/// What a name holds right now; nothing if it is no file or cannot be read.
pub(super) fn leaf_at(dir: &Dir, name: &[u8]) -> Option<Leaf> {
    let mut data = Vec::new();
    let stat = attempt_in(dir, name, &mut data).ok()???;
    debug_assert_ne!(stat.kind, Kind::Directory);
    let blob = Oid::of(gix::objs::Kind::Blob, &data).ok()?;
    Some(Leaf { blob, mode: mode_of(&stat) })
}
