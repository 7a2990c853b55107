//! References: one for each pin group, loose or packed, written durably.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fail::fail_point;

use super::Oid;
use super::pack::{TEMP_PREFIX, random};

/// A durable file of the repository that gets a second name where git is to keep away for a moment.
pub(super) const MARK: &str = "turnstone-mark";
/// What it says, so that a mark of a dead process of ours is known.
pub(super) const MARK_TEXT: &str = "turnstone: a capture is being written\n";
/// How often a lock that git holds is tried, and how long is waited in between.
const TRIES: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

/// Where the references of pin groups live.
const FOLDER: &str = "refs/turnstone";

/// Lists the references and what they name; loose ones win over packed ones.
pub(super) fn list(git_dir: &Path) -> io::Result<BTreeMap<String, Oid>> {
    let mut found = BTreeMap::new();
    match fs_err::read_to_string(git_dir.join("packed-refs")) {
        Ok(text) => found.extend(text.lines().filter_map(packed)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for entry in fs_err::read_dir(git_dir.join(FOLDER))? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| is_group(name)) else {
            continue;
        };
        if let Some(oid) = read_loose(git_dir, name)? {
            found.insert(name.to_owned(), oid);
        }
    }
    Ok(found)
}

fn packed(line: &str) -> Option<(String, Oid)> {
    let (oid, name) = line.split_once(' ')?;
    let name = name.strip_prefix(FOLDER)?.strip_prefix('/')?;
    Some((name.to_owned(), oid.parse().ok()?))
}

/// Locks of git and our own temporary files are no references.
fn is_group(name: &str) -> bool {
    !name.ends_with(".lock") && !name.starts_with(TEMP_PREFIX)
}

/// Reads what a reference names.
pub(super) fn find(git_dir: &Path, name: &str) -> io::Result<Option<Oid>> {
    match read_loose(git_dir, name)? {
        Some(oid) => Ok(Some(oid)),
        None => Ok(list(git_dir)?.remove(name)),
    }
}

fn read_loose(git_dir: &Path, name: &str) -> io::Result<Option<Oid>> {
    match fs_err::read_to_string(git_dir.join(FOLDER).join(name)) {
        Ok(text) => {
            let oid = text.trim_end().parse();
            Ok(Some(oid.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a reference name `oid`, durably, whole or not at all.
pub(super) fn write(git_dir: &Path, name: &str, oid: &Oid) -> io::Result<()> {
    let folder = git_dir.join(FOLDER);
    let temp = folder.join(format!("{TEMP_PREFIX}{}", random()?));
    let mut file = fs_err::File::create_new(&temp)?;
    file.write_all(format!("{oid}\n").as_bytes())?;
    file.sync_all()?;
    fail_point!("snapshot::ref_synced", |_| Err(io::Error::other("failpoint")));
    let locked = Lock::take(git_dir, &folder.join(name))?;
    fs_err::rename(&temp, folder.join(name))?;
    fail_point!("snapshot::ref_locked", |_| Err(io::Error::other("failpoint")));
    drop(locked);
    fs_err::File::open(&folder)?.sync_all()?;
    fail_point!("snapshot::ref_durable", |_| Err(io::Error::other("failpoint")));
    Ok(())
}

/// Forgets references, packed ones first, so that a loose one never uncovers an older packed one.
pub(super) fn remove(git_dir: &Path, names: &BTreeSet<String>) -> io::Result<()> {
    let path = git_dir.join("packed-refs");
    let locked = Lock::take(git_dir, &path)?;
    if let Ok(text) = fs_err::read_to_string(&path) {
        let stays = |line: &&str| packed(line).is_none_or(|(name, _)| !names.contains(&name));
        let kept: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
        let temp = git_dir.join(format!("{TEMP_PREFIX}packed-refs"));
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(kept.as_bytes())?;
        file.sync_all()?;
        fs_err::rename(&temp, &path)?;
        fs_err::File::open(git_dir)?.sync_all()?;
    }
    drop(locked);
    let folder = git_dir.join(FOLDER);
    for name in names {
        match fs_err::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs_err::File::open(&folder)?.sync_all()
}

/// The lock git itself takes: `git gc` moves references about, and must not overwrite a newer one.
struct Lock(PathBuf);

impl Lock {
    fn take(git_dir: &Path, path: &Path) -> io::Result<Self> {
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = PathBuf::from(lock);
        for _ in 0..TRIES {
            match mark(&git_dir.join(MARK), &lock) {
                Ok(()) => return Ok(Self(lock)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
        let text = format!("{} is locked by git", path.display());
        Err(io::Error::new(io::ErrorKind::WouldBlock, text))
    }
}

/// A second name for a file is made whole or not at all, with what it says; not every disk has them.
pub(super) fn mark(source: &Path, path: &Path) -> io::Result<()> {
    match fs_err::hard_link(source, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            fs_err::File::create_new(path)?.write_all(MARK_TEXT.as_bytes())
        }
        done => done,
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be removed now is swept at the next open.
        fs_err::remove_file(&self.0).ok();
    }
}
