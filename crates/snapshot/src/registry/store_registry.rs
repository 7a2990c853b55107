//! The registry of one data directory: finds, makes, re-links and lists stores.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fail::fail_point;
use fs_err::os::unix::fs::OpenOptionsExt;
use turnstone_core::model::FileIdentity;
use turnstone_core::time::EpochMillis;

use super::RootIdentity;
use super::root_resolution::ScopedWorktree;
use super::store_lookup::{StoreMatch, StoreRootState, closest_known_root, match_store};
use super::store_record::{
    RegistryError, RegistryIndex, StoreId, StoreRecord, TEMP_PREFIX, create_private_dir,
};
use crate::path::RelPath;
use crate::store_removal::{RemovalError, finish_removals, remove_store};
use crate::worktree::{RootPolicy, Worktree};

/// How a store came to be linked to its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLinkage {
    /// It was before.
    Known,
    /// The store is new.
    Created,
    /// The directory has moved from here; the store has followed it.
    Moved(PathBuf),
}

/// A directory and its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLocation {
    /// Names the store.
    pub id: StoreId,
    /// Where the store is.
    pub folder: PathBuf,
    /// The root of the worktree the store belongs to.
    pub root: PathBuf,
    /// Which directory that is: another one at its path is not captured in this store.
    pub identity: FileIdentity,
    /// The directory that was asked for, if it lies below the root.
    pub scope: Option<RelPath>,
    /// How the two came together.
    pub link: StoreLinkage,
}

/// A store, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedStore {
    /// Names the store.
    pub id: StoreId,
    /// Where it is.
    pub folder: PathBuf,
    /// Whose it is; `None` if it does not say so any more.
    pub root: Option<RootIdentity>,
    /// True if its directory is still there, and not another one at its path.
    pub root_exists: bool,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was last owned by a process.
    pub used: Option<EpochMillis>,
    /// Since when its directory is known to be gone.
    pub gone_since: Option<EpochMillis>,
}

/// Where a store remembers since when its directory is gone.
const GONE_FILE: &str = "gone";

/// The stores of one data directory.
#[derive(Clone, Debug)]
pub struct StoreRegistry {
    data: PathBuf,
    pub(super) stores: PathBuf,
}

pub(super) type StoreRoots = BTreeMap<StoreId, RootIdentity>;

impl StoreRegistry {
    /// The registry of a data directory; touches nothing.
    #[must_use]
    pub fn new(data: &Path) -> Self {
        Self { data: data.to_owned(), stores: data.join("store") }
    }

    /// Finds the store of a directory; `None` if it has none. A moved directory is not re-linked.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn find_store(
        &self,
        directory: &Path,
        policy: &RootPolicy,
    ) -> Result<Option<(StoreLocation, Worktree)>, RegistryError> {
        let known = self.load_roots()?;
        let ScopedWorktree { worktree, scope } = self.resolve_root(directory, policy, &known)?;
        let facts = RootIdentity::read_from(&worktree);
        let found = match_store(&facts, &known, |id, facts| self.root_state(id, facts));
        let (id, link) = match found {
            StoreMatch::SamePath(id) => (id, StoreLinkage::Known),
            StoreMatch::Moved(id, from) => (id, StoreLinkage::Moved(from)),
            StoreMatch::NotFound => return Ok(None),
        };
        Ok(Some((self.location_of(id, facts, scope, link), worktree)))
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
        let target = self.resolve_root(directory, policy, &self.load_roots()?)?;
        Ok(RootIdentity::read_from(&target.worktree).path)
    }

    /// Finds the closest root at or above a real path that is captured; `None` if there is none. For
    /// directories outside of checkouts.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn find_captured_root(
        &self,
        real: &Path,
        policy: &RootPolicy,
    ) -> Result<Option<PathBuf>, RegistryError> {
        let known = self.load_roots()?;
        let usable = |root: &&Path| **root == *real || !policy.refuses(root);
        let closest = closest_known_root(real, &known, |id, facts| self.root_state(id, facts));
        Ok(closest.filter(usable).map(Path::to_owned))
    }

    /// Finds a store by its id; `None` if there is none, or it does not say any more whose it is.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn find_store_by_id(&self, id: &StoreId) -> Result<Option<StoreLocation>, RegistryError> {
        let root = self.load_roots()?.remove(id);
        Ok(root.map(|root| self.location_of(id.clone(), root, None, StoreLinkage::Known)))
    }

    /// Lists the roots of all stores, as they were when their stores were last opened.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn list_roots(&self) -> Result<Vec<RootIdentity>, RegistryError> {
        Ok(self.load_roots()?.into_values().collect())
    }

    /// Lists where all stores are, with the roots they had when they were last opened.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn list_locations(&self) -> Result<Vec<StoreLocation>, RegistryError> {
        let roots = self.load_roots()?.into_iter();
        let locate = |(id, facts): (StoreId, RootIdentity)| {
            self.location_of(id, facts, None, StoreLinkage::Known)
        };
        Ok(roots.map(locate).collect())
    }

    /// Finds the store of a directory, re-links one whose directory has moved, or makes one (R12).
    ///
    /// The store is that of the checkout around the directory, else of the closest directory above
    /// it that has one, else its own.
    ///
    /// # Errors
    ///
    /// See [`RegistryError`].
    pub fn open_store(
        &self,
        directory: &Path,
        policy: &RootPolicy,
        now: EpochMillis,
    ) -> Result<(StoreLocation, Worktree), RegistryError> {
        let known = self.load_roots()?;
        let ScopedWorktree { worktree, scope } = self.resolve_root(directory, policy, &known)?;
        let facts = RootIdentity::read_from(&worktree);
        // Most of the time nothing is new, and no lock is needed.
        let in_place = |_: &StoreId, _: &RootIdentity| StoreRootState::InPlace;
        if let StoreMatch::SamePath(id) = match_store(&facts, &known, in_place)
            && known.get(&id) == Some(&facts)
            && StoreRecord::read(&self.stores, &id).is_ok_and(|record| record.root == facts)
        {
            return Ok((self.location_of(id, facts, scope, StoreLinkage::Known), worktree));
        }
        let (id, link) = self.link_store(&facts, now)?;
        Ok((self.location_of(id, facts, scope, link), worktree))
    }

    fn location_of(
        &self,
        id: StoreId,
        facts: RootIdentity,
        scope: Option<RelPath>,
        link: StoreLinkage,
    ) -> StoreLocation {
        let (folder, identity) = (self.stores.join(id.as_str()), facts.file_identity());
        StoreLocation { id, folder, root: facts.path, identity, scope, link }
    }

    /// Decides and records which store belongs to the directory, under the registry lock.
    fn link_store(
        &self,
        facts: &RootIdentity,
        now: EpochMillis,
    ) -> Result<(StoreId, StoreLinkage), RegistryError> {
        // An existing directory keeps its permissions.
        if !self.data.try_exists()? {
            create_private_dir(&self.data)?;
        }
        create_private_dir(&self.stores)?;
        let lock = self.lock_registry()?;
        self.remove_unfinished_stores()?;
        let mut known = self.read_records()?;
        let state = |id: &StoreId, facts: &RootIdentity| self.root_state(id, facts);
        let (id, link) = match match_store(facts, &known, state) {
            StoreMatch::SamePath(id) => (id, StoreLinkage::Known),
            StoreMatch::Moved(id, from) => (id, StoreLinkage::Moved(from)),
            StoreMatch::NotFound => (self.create_store(facts, now)?, StoreLinkage::Created),
        };
        if link != StoreLinkage::Created {
            // A directory that was relinked has several stores, which stay together.
            let former = known.get(&id).cloned();
            // Projects that recorded the former directory recognise its successor.
            if let Some(former) = former.as_ref().filter(|_| link == StoreLinkage::Known)
                && !former.has_same_path_and_identity(facts)
            {
                let folder = self.stores.join(id.as_str());
                Self::record_former_root(&folder, former.file_identity())?;
            }
            let is_linked = |other: &RootIdentity| former.as_ref() == Some(other);
            for (other, linked) in known.iter_mut().filter(|(_, facts)| is_linked(facts)) {
                self.write_record(other, facts, now)?;
                linked.clone_from(facts);
            }
        }
        fail_point!("registry::recorded", |_| Err(io::Error::other("failpoint").into()));
        known.insert(id.clone(), facts.clone());
        RegistryIndex::new(known).write(&self.stores)?;
        drop(lock);
        Ok((id, link))
    }

    pub(super) fn lock_registry(&self) -> io::Result<std::fs::File> {
        let mut options = fs_err::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let (file, _) = options.open(self.stores.join("registry.lock"))?.into_parts();
        file.lock()?;
        Ok(file)
    }

    /// Creates a store that has its record from the start.
    fn create_store(&self, facts: &RootIdentity, now: EpochMillis) -> io::Result<StoreId> {
        let id = StoreId::generate()?;
        let temp = self.stores.join(format!("{TEMP_PREFIX}{id}"));
        create_private_dir(&temp)?;
        StoreRecord::new(id.clone(), facts.clone(), now).write(&temp)?;
        fs_err::rename(&temp, self.stores.join(id.as_str()))?;
        fs_err::File::open(&self.stores)?.sync_all()?;
        Ok(id)
    }

    /// Removes stores whose creation was interrupted. The lock is held, so none is being created.
    fn remove_unfinished_stores(&self) -> io::Result<()> {
        for entry in fs_err::read_dir(&self.stores)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(TEMP_PREFIX) {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    /// The folders that are named like a store; links are skipped.
    fn list_store_ids(&self) -> io::Result<BTreeSet<StoreId>> {
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
    pub(super) fn load_roots(&self) -> Result<StoreRoots, RegistryError> {
        let folders = self.list_store_ids()?;
        match RegistryIndex::read(&self.stores)? {
            Some(index) if index.stores.keys().eq(&folders) => Ok(index.stores),
            Some(_) | None => self.read_records(),
        }
    }

    /// Asks every store whose it is. One that does not know is asked for in the index.
    pub(super) fn read_records(&self) -> Result<StoreRoots, RegistryError> {
        let index =
            RegistryIndex::read(&self.stores)?.map(|index| index.stores).unwrap_or_default();
        let mut known = StoreRoots::new();
        for id in self.list_store_ids()? {
            match StoreRecord::read(&self.stores, &id) {
                Ok(record) => drop(known.insert(id, record.root)),
                Err(RegistryError::TooNew { path, version }) => {
                    return Err(RegistryError::TooNew { path, version });
                }
                Err(_) => drop(index.get(&id).map(|facts| known.insert(id, facts.clone()))),
            }
        }
        Ok(known)
    }

    /// Lists the stores by id; `used` is what their owner recorded.
    ///
    /// # Errors
    ///
    /// The data directory cannot be read.
    pub fn list_stores(&self) -> Result<Vec<ListedStore>, RegistryError> {
        let known = self.read_records()?;
        let list = |id: StoreId| {
            let folder = self.stores.join(id.as_str());
            let root = known.get(&id).cloned();
            let moment = |name: &str| {
                let text = fs_err::read_to_string(folder.join(name)).ok()?;
                text.trim().parse().ok().map(EpochMillis)
            };
            ListedStore {
                root_exists: root.as_ref().is_some_and(|root| self.has_directory(&id, root)),
                bytes: directory_size(&folder),
                used: moment("used"),
                gone_since: moment(GONE_FILE),
                id,
                folder,
                root,
            }
        };
        Ok(self.list_store_ids()?.into_iter().map(list).collect())
    }

    /// Removes stores whose directory has been gone for `keep` milliseconds; returns them (R41).
    ///
    /// The time counts from when this was first called and the directory was not there, so that a
    /// disk that is not mounted today costs nothing. With `dry_run` nothing is changed.
    ///
    /// # Errors
    ///
    /// The data directory cannot be read or written. A store that a process owns stays.
    pub fn remove_orphaned_stores(
        &self,
        keep: i64,
        now: EpochMillis,
        dry_run: bool,
    ) -> Result<Vec<ListedStore>, RegistryError> {
        if !dry_run {
            self.finish_removals()?;
        }
        let mut removed = Vec::new();
        for store in
            self.list_stores()?.into_iter().filter(|it| it.root.is_some() && !it.root_exists)
        {
            let since = store.gone_since.unwrap_or(now);
            if store.gone_since.is_none() && !dry_run {
                fs_err::write(store.folder.join(GONE_FILE), now.0.to_string())?;
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

    /// Finishes removals of stores that were interrupted; returns how many.
    ///
    /// # Errors
    ///
    /// The data directory cannot be read or written.
    pub fn finish_removals(&self) -> Result<usize, RegistryError> {
        Ok(finish_removals(&self.stores)?)
    }

    /// Stores when a store was used last; for people, so it need not be durable.
    pub(crate) fn record_use(folder: &Path, now: EpochMillis) -> io::Result<()> {
        match fs_err::remove_file(folder.join(GONE_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let temp = folder.join("used.tmp");
        fs_err::File::create(&temp)?.write_all(now.0.to_string().as_bytes())?;
        fs_err::rename(&temp, folder.join("used"))
    }
}

/// Adds up the sizes of the files below a folder; files that are removed meanwhile are not counted.
fn directory_size(folder: &Path) -> u64 {
    let Ok(entries) = fs_err::read_dir(folder) else {
        return 0;
    };
    let size = |entry: fs_err::DirEntry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => directory_size(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
