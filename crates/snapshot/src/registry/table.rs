//! The registry of one data directory: finds, makes, re-links and lists stores.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fail::fail_point;
use fs_err::os::unix::fs::OpenOptionsExt;
use turnstone_core::time::Millis;

use super::RootFacts;
use super::facts::checkout_above;
use super::file::{Index, Record, RegistryError, StoreId, TEMP_PREFIX, private_folder};
use super::find::{Found, closest, find};
use crate::path::RelPath;
use crate::removal::{RemovalError, remove_store};
use crate::worktree::{RootError, RootPolicy, Worktree};

/// How a store came to be linked to its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// It was before.
    Known,
    /// The store is new.
    Made,
    /// The directory has moved from here; the store has followed it.
    Moved(PathBuf),
}

/// A directory and its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The store.
    pub id: StoreId,
    /// Where the store is.
    pub folder: PathBuf,
    /// The root of the worktree the store belongs to.
    pub root: PathBuf,
    /// The directory that was asked for, if it lies below the root.
    pub scope: Option<RelPath>,
    /// How the two came together.
    pub link: Link,
}

/// A store, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedStore {
    /// The store.
    pub id: StoreId,
    /// Where it is.
    pub folder: PathBuf,
    /// Whose it is; nothing if it does not say so any more.
    pub root: Option<RootFacts>,
    /// True if its directory is still there.
    pub root_exists: bool,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When somebody last kept it.
    pub used: Option<Millis>,
    /// Since when its directory is known to be gone.
    pub gone_since: Option<Millis>,
}

/// Where a store remembers since when its directory is gone.
const GONE: &str = "gone";

/// The stores of one data directory.
#[derive(Clone, Debug)]
pub struct Registry {
    data: PathBuf,
    stores: PathBuf,
}

type Stores = BTreeMap<StoreId, RootFacts>;

impl Registry {
    /// The registry of a data directory; touches nothing.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), stores: data.join("store") }
    }

    /// Finds the store of a directory; nothing if it has none. A moved directory is not re-linked.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn find(
        &self,
        directory: &Path,
        policy: &RootPolicy,
    ) -> Result<Option<(Place, Worktree)>, RegistryError> {
        let known = self.load()?;
        let Target { worktree, scope } = target(directory, policy, &known)?;
        let facts = RootFacts::of(&worktree);
        let found = find(&facts, &known, RootFacts::is_in_place);
        let (id, link) = match found {
            Found::Here(id) => (id, Link::Known),
            Found::Moved(id, from) => (id, Link::Moved(from)),
            Found::Nowhere => return Ok(None),
        };
        Ok(Some((self.place(id, facts.path, scope, link), worktree)))
    }

    /// Finds the root that the store of a directory covers, or would cover if it were made.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn find_root(
        &self,
        directory: &Path,
        policy: &RootPolicy,
    ) -> Result<PathBuf, RegistryError> {
        let target = target(directory, policy, &self.load()?)?;
        Ok(RootFacts::of(&target.worktree).path)
    }

    /// Finds the store of a directory, re-links one whose directory has moved, or makes one (R12).
    ///
    /// The store is that of the checkout around the directory, else of the closest directory above
    /// it that has one, else its own.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn open(
        &self,
        directory: &Path,
        policy: &RootPolicy,
        now: Millis,
    ) -> Result<(Place, Worktree), RegistryError> {
        let known = self.load()?;
        let Target { worktree, scope } = target(directory, policy, &known)?;
        let facts = RootFacts::of(&worktree);
        // Most of the time nothing is new, and nobody has to wait for anybody.
        if let Found::Here(id) = find(&facts, &known, |_| true)
            && known.get(&id) == Some(&facts)
            && Record::read(&self.stores, &id).is_ok_and(|record| record.root == facts)
        {
            return Ok((self.place(id, facts.path, scope, Link::Known), worktree));
        }
        let (id, link) = self.link(&facts, now)?;
        Ok((self.place(id, facts.path, scope, link), worktree))
    }

    fn place(&self, id: StoreId, root: PathBuf, scope: Option<RelPath>, link: Link) -> Place {
        let folder = self.stores.join(id.as_str());
        Place { id, folder, root, scope, link }
    }

    /// Decides and writes down whose store it is, while nobody else does.
    fn link(&self, facts: &RootFacts, now: Millis) -> Result<(StoreId, Link), RegistryError> {
        // A directory somebody else made keeps the permissions its owner gave it.
        if !self.data.try_exists()? {
            private_folder(&self.data)?;
        }
        private_folder(&self.stores)?;
        let lock = self.lock()?;
        self.sweep()?;
        let mut known = self.read_records()?;
        let (id, link) = match find(facts, &known, RootFacts::is_in_place) {
            Found::Here(id) => (id, Link::Known),
            Found::Moved(id, from) => (id, Link::Moved(from)),
            Found::Nowhere => (self.make(facts, now)?, Link::Made),
        };
        if link != Link::Made {
            let made = Record::read(&self.stores, &id).map_or(now, |record| record.made);
            let record = Record::new(id.clone(), facts.clone(), made);
            record.write(&self.stores.join(id.as_str()))?;
        }
        fail_point!("registry::recorded", |_| Err(io::Error::other("failpoint").into()));
        known.insert(id.clone(), facts.clone());
        Index::new(known).write(&self.stores)?;
        drop(lock);
        Ok((id, link))
    }

    fn lock(&self) -> io::Result<std::fs::File> {
        let mut options = fs_err::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let (file, _) = options.open(self.stores.join("registry.lock"))?.into_parts();
        file.lock()?;
        Ok(file)
    }

    /// Makes a store that says whose it is from its first moment.
    fn make(&self, facts: &RootFacts, now: Millis) -> io::Result<StoreId> {
        let id = StoreId::mint()?;
        let temp = self.stores.join(format!("{TEMP_PREFIX}{id}"));
        private_folder(&temp)?;
        Record::new(id.clone(), facts.clone(), now).write(&temp)?;
        fs_err::rename(&temp, self.stores.join(id.as_str()))?;
        fs_err::File::open(&self.stores)?.sync_all()?;
        Ok(id)
    }

    /// Removes stores that were never finished. The lock is held, so nobody is about to.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs_err::read_dir(&self.stores)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The folders that are named like a store; a link is none.
    fn folders(&self) -> io::Result<BTreeSet<StoreId>> {
        let entries = match fs_err::read_dir(&self.stores) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
            Err(error) => return Err(error),
        };
        let mut found = BTreeSet::new();
        for entry in entries {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
                found.insert(id);
            }
        }
        Ok(found)
    }

    /// Whose the stores are: by the index, if it names the stores that are there; else by themselves.
    fn load(&self) -> Result<Stores, RegistryError> {
        let folders = self.folders()?;
        match Index::read(&self.stores)? {
            Some(index) if index.stores.keys().eq(&folders) => Ok(index.stores),
            Some(_) | None => self.read_records(),
        }
    }

    /// Asks every store whose it is. One that does not know is asked for in the index.
    fn read_records(&self) -> Result<Stores, RegistryError> {
        let index = Index::read(&self.stores)?.map(|index| index.stores).unwrap_or_default();
        let mut known = Stores::new();
        for id in self.folders()? {
            match Record::read(&self.stores, &id) {
                Ok(record) => drop(known.insert(id, record.root)),
                Err(RegistryError::TooNew { path, version }) => {
                    return Err(RegistryError::TooNew { path, version });
                }
                Err(_) => drop(index.get(&id).map(|facts| known.insert(id, facts.clone()))),
            }
        }
        Ok(known)
    }

    /// Lists the stores, by id; `used` is what the keeper wrote.
    ///
    /// # Errors
    ///
    /// The data directory cannot be read.
    pub fn list(&self) -> Result<Vec<ListedStore>, RegistryError> {
        let known = self.read_records()?;
        let list = |id: StoreId| {
            let folder = self.stores.join(id.as_str());
            let root = known.get(&id).cloned();
            let moment = |name: &str| {
                let text = fs_err::read_to_string(folder.join(name)).ok()?;
                text.trim().parse().ok().map(Millis)
            };
            ListedStore {
                root_exists: root.as_ref().is_some_and(|root| root.path.is_dir()),
                bytes: bytes_below(&folder),
                used: moment("used"),
                gone_since: moment(GONE),
                id,
                folder,
                root,
            }
        };
        Ok(self.folders()?.into_iter().map(list).collect())
    }

    /// Removes stores whose directory has been gone for `keep` milliseconds; returns them (R41).
    ///
    /// The time counts from when this was first called and the directory was not there, so that a
    /// disk that is not mounted today costs nothing. With `dry_run` nothing is changed.
    ///
    /// # Errors
    ///
    /// The data directory cannot be read or written. A store that somebody keeps stays.
    pub fn remove_gone(
        &self,
        keep: i64,
        now: Millis,
        dry_run: bool,
    ) -> Result<Vec<ListedStore>, RegistryError> {
        let mut removed = Vec::new();
        for store in self.list()?.into_iter().filter(|it| it.root.is_some() && !it.root_exists) {
            let since = store.gone_since.unwrap_or(now);
            if store.gone_since.is_none() && !dry_run {
                fs_err::write(store.folder.join(GONE), now.0.to_string())?;
            }
            if now.since(since) < keep {
                continue;
            }
            match dry_run {
                true => removed.push(store),
                false => match remove_store(&self.stores, store.id.as_str()) {
                    Ok(_) => removed.push(store),
                    Err(RemovalError::Io(error)) => return Err(error.into()),
                    Err(_) => {}
                },
            }
        }
        Ok(removed)
    }

    /// Remembers that a store was kept; for people, so it need not be durable.
    pub(crate) fn note_use(folder: &Path, now: Millis) -> io::Result<()> {
        match fs_err::remove_file(folder.join(GONE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let temp = folder.join("used.tmp");
        fs_err::File::create(&temp)?.write_all(now.0.to_string().as_bytes())?;
        fs_err::rename(&temp, folder.join("used"))
    }
}

/// The root a directory belongs to, open, and where in it the directory is.
struct Target {
    worktree: Worktree,
    scope: Option<RelPath>,
}

fn target(directory: &Path, policy: &RootPolicy, known: &Stores) -> Result<Target, RegistryError> {
    use std::os::unix::ffi::OsStrExt;
    let unusable = |source| RootError::Unusable { path: directory.to_owned(), source };
    let real = fs_err::canonicalize(directory).map_err(unusable)?;
    // A home that is itself a checkout is no reason to capture all of it for one folder in it.
    let usable = |root: &&Path| **root == *real || !policy.refuses(root);
    let root = checkout_above(&real).filter(usable);
    let root = root.or_else(|| closest(&real, known).filter(usable)).unwrap_or(&real);
    // Whoever asked for it once by name need not do so again.
    let by_name = policy.by_name || known.values().any(|facts| facts.path == root);
    let worktree = Worktree::open(root, &RootPolicy { by_name, ..policy.clone() })?;
    let below = real.strip_prefix(root).unwrap_or(Path::new("")).as_os_str().as_bytes();
    let inside = |_| RegistryError::InsideGit(real.clone());
    let scope = match below.is_empty() {
        true => None,
        false => Some(RelPath::new(below).map_err(inside)?),
    };
    Ok(Target { worktree, scope })
}

/// Adds up the files below a folder; what goes meanwhile is not counted.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs_err::read_dir(folder) else {
        return 0;
    };
    let size = |entry: fs_err::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
