//! References: one for each pin group, loose or packed, written durably.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use fail::fail_point;

use super::Oid;
use super::pack_writer::TEMP_PREFIX;
use super::ref_lock::{self, DraftFile};

/// Where the references of pin groups live.
const REFS_DIR: &str = "refs/turnstone";

/// The references of one repository: one for each pin group.
#[derive(Clone, Copy)]
pub(crate) struct GroupRefs<'g> {
    pub(super) git_dir: &'g Path,
}

impl GroupRefs<'_> {
    /// Lists every pin group's reference and what it names.
    pub(crate) fn list(self) -> io::Result<BTreeMap<String, Oid>> {
        list_refs(self.git_dir)
    }

    /// Finds what the reference of a pin group names.
    pub(crate) fn find(self, name: &str) -> io::Result<Option<Oid>> {
        match read_loose(self.git_dir, name)? {
            Some(oid) => Ok(Some(oid)),
            None => Ok(list_refs(self.git_dir)?.remove(name)),
        }
    }

    /// Makes a reference name `oid`, durably, whole or not at all.
    pub(crate) fn write(self, name: &str, oid: &Oid) -> io::Result<()> {
        let folder = self.git_dir.join(REFS_DIR);
        let mut draft = DraftFile::new(self.git_dir)?;
        draft.write(format!("{oid}\n").as_bytes())?;
        fail_point!("snapshot::ref_synced", |_| Err(io::Error::other("failpoint")));
        draft.lock(&folder.join(name))?.commit()?;
        fs_err::File::open(&folder)?.sync_all()?;
        fail_point!("snapshot::ref_durable", |_| Err(io::Error::other("failpoint")));
        Ok(())
    }

    /// Forgets references, packed ones first, so that a loose one never uncovers an older packed one.
    pub(crate) fn remove(self, names: &BTreeSet<String>) -> io::Result<()> {
        let path = self.git_dir.join("packed-refs");
        if path.try_exists()? {
            let mut lock = DraftFile::new(self.git_dir)?.lock(&path)?;
            let text = fs_err::read_to_string(&path)?;
            let stays =
                |line: &&str| parse_packed_ref(line).is_none_or(|(name, _)| !names.contains(&name));
            let kept: String = text.lines().filter(stays).map(|line| format!("{line}\n")).collect();
            lock.write(kept.as_bytes())?;
            lock.commit()?;
            fs_err::File::open(self.git_dir)?.sync_all()?;
        }
        let folder = self.git_dir.join(REFS_DIR);
        for name in names {
            DraftFile::new(self.git_dir)?.lock(&folder.join(name))?.remove()?;
        }
        fs_err::create_dir_all(&folder)?;
        fs_err::File::open(&folder)?.sync_all()
    }
}

/// Lists the references and what they name; loose ones win over packed ones.
fn list_refs(git_dir: &Path) -> io::Result<BTreeMap<String, Oid>> {
    let mut found = BTreeMap::new();
    match fs_err::read_to_string(git_dir.join("packed-refs")) {
        Ok(text) => found.extend(text.lines().filter_map(parse_packed_ref)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let loose = match fs_err::read_dir(git_dir.join(REFS_DIR)) {
        Ok(loose) => loose,
        // Git removes a folder in which it finds nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(error) => return Err(error),
    };
    for entry in loose {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| is_group_ref(name)) else {
            continue;
        };
        if let Some(oid) = read_loose(git_dir, name)? {
            found.insert(name.to_owned(), oid);
        }
    }
    Ok(found)
}

fn parse_packed_ref(line: &str) -> Option<(String, Oid)> {
    let (oid, name) = line.split_once(' ')?;
    let name = name.strip_prefix(REFS_DIR)?.strip_prefix('/')?;
    Some((name.to_owned(), oid.parse().ok()?))
}

/// Locks of git and our own temporary files are no references.
fn is_group_ref(name: &str) -> bool {
    !name.ends_with(".lock") && !name.starts_with(TEMP_PREFIX)
}

fn read_loose(git_dir: &Path, name: &str) -> io::Result<Option<Oid>> {
    match fs_err::read_to_string(git_dir.join(REFS_DIR).join(name)) {
        Ok(text) => {
            let oid = text.trim_end().parse();
            Ok(Some(oid.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes locks that sudden death left.
pub(super) fn remove_stale_ref_locks(git_dir: &Path) -> io::Result<()> {
    ref_lock::remove_stale_locks(git_dir, &[git_dir, &git_dir.join(REFS_DIR)])
}
