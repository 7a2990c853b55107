//! Forgetting: paths leave every capture, and their bytes the store (R20).
//!
//! The request is recorded first and removed last, so that an interrupted one is finished later.
//! Captures keep their ids; of a forgotten path they say so, never that it was absent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use serde::{Deserialize, Serialize};
use turnstone_core::time::EpochMillis;

use crate::capture_chain::{build_coverage_commit, capture_id};
use crate::capture_expiry::rewrite_commit;
use crate::gc::GcOptions;
use crate::ignore_rules::IgnoreRules;
use crate::object_store::{Commit, ObjectError, ObjectRepository, Oid, PackedObject, TreeEntry};
use crate::path::RelPath;
use crate::path_image::UncoveredReason;
use crate::pin_group::PinGroup;
use crate::registry::write_json;
use crate::snapshot_store::SnapshotStore;

const TOMBSTONES_FILE: &str = "forgotten.json";

/// What a store has forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstones {
    /// Versions of paths whose bytes are gone.
    pub versions: BTreeSet<(RelPath, Oid)>,
    /// Patterns whose versions are being forgotten.
    pub pending: Vec<String>,
}

impl Tombstones {
    /// Reads those of the store in `folder`; none if it has forgotten nothing.
    ///
    /// # Errors
    ///
    /// They are there and cannot be read.
    pub fn read(folder: &Path) -> io::Result<Self> {
        match fs_err::read(folder.join(TOMBSTONES_FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error),
        }
    }
}

/// A version of a path that is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForgettableVersion {
    /// The file, below the root.
    pub path: RelPath,
    /// The name of its bytes.
    pub blob: Oid,
    /// Their size in bytes.
    pub size: u64,
}

/// What patterns name in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ForgettableVersions {
    /// Captures that hold such a path.
    pub captures: usize,
    /// Their groups, by name.
    pub groups: BTreeSet<String>,
    /// The versions, each once.
    pub versions: Vec<ForgettableVersion>,
}

/// The patterns of an ignore file; a folder includes everything below it.
pub(crate) struct ForgetPatterns(IgnoreRules);

impl ForgetPatterns {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self(IgnoreRules::default().with_patterns(patterns.join("\n").as_bytes(), b""))
    }

    pub(crate) fn matches(&self, path: &RelPath) -> bool {
        self.0.is_ignored(path.as_bytes(), false)
            || path.ancestors().any(|above| self.0.is_ignored(above.as_bytes(), true))
    }
}

/// True if patterns, written as in an ignore file, name a path.
#[must_use]
pub fn patterns_match_path(patterns: &[String], path: &RelPath) -> bool {
    ForgetPatterns::new(patterns).matches(path)
}

/// A tree without some paths, and what it had of them.
type FilteredTree = (Option<Oid>, Rc<Vec<(RelPath, Oid)>>);

/// One walk over all trees; what many captures share is looked at once.
struct TreeFilter<'f> {
    repository: &'f ObjectRepository,
    patterns: ForgetPatterns,
    seen: HashMap<(Oid, Vec<u8>), FilteredTree>,
    made: Vec<PackedObject>,
}

impl TreeFilter<'_> {
    fn filter_tree(&mut self, tree: &Oid, prefix: &[u8]) -> Result<FilteredTree, ObjectError> {
        let key = (*tree, prefix.to_vec());
        if let Some(found) = self.seen.get(&key) {
            return Ok(found.clone());
        }
        let (mut data, mut gone, mut kept) = (Vec::new(), Vec::new(), 0);
        for (name, entry) in self.repository.read_tree(tree)? {
            let mut path = prefix.to_vec();
            path.extend_from_slice(&name);
            let (mode, oid) = match entry {
                TreeEntry::Tree(below) => {
                    path.push(b'/');
                    let (oid, more) = self.filter_tree(&below, &path)?;
                    gone.extend(more.iter().cloned());
                    let Some(oid) = oid else { continue };
                    ("40000", oid)
                }
                TreeEntry::Leaf(leaf) => {
                    let path = RelPath::new(path).map_err(|_| ObjectError::Corrupt(*tree))?;
                    if self.patterns.matches(&path) {
                        gone.push((path, leaf.blob));
                        continue;
                    }
                    (leaf.mode.octal(), leaf.blob)
                }
            };
            kept += 1;
            data.extend_from_slice(mode.as_bytes());
            data.push(b' ');
            data.extend_from_slice(&name);
            data.push(0);
            data.extend_from_slice(&oid.0);
        }
        let oid = match (gone.is_empty(), kept) {
            (true, _) => Some(*tree),
            (false, 0) if !prefix.is_empty() => None,
            (false, _) => {
                let packed = PackedObject::new(Kind::Tree, &data)?;
                let oid = packed.oid;
                self.made.push(packed);
                Some(oid)
            }
        };
        let filtered = (oid, Rc::new(gone));
        self.seen.insert(key, filtered.clone());
        Ok(filtered)
    }
}

/// Removes paths from every capture and their bytes from the store (R20).
pub struct PathForgetter<'s> {
    pub(crate) store: &'s SnapshotStore,
}

impl PathForgetter<'_> {
    fn new_tree_filter(&self, patterns: &[String]) -> TreeFilter<'_> {
        let patterns = ForgetPatterns::new(patterns);
        TreeFilter {
            repository: &self.store.repository,
            patterns,
            seen: HashMap::new(),
            made: Vec::new(),
        }
    }

    /// Lists what patterns name in all captures, guards included.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list(&self, patterns: &[String]) -> Result<ForgettableVersions, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let mut filter = self.new_tree_filter(patterns);
        let (mut found, mut versions) = (ForgettableVersions::default(), BTreeMap::new());
        for tip in self.store.repository.refs().list()?.into_values() {
            for (_, commit) in self.store.captures().read_chain_from(tip)? {
                let (_, gone) = filter.filter_tree(&commit.tree, b"")?;
                if gone.is_empty() {
                    continue;
                }
                found.captures += 1;
                found.groups.extend(commit.trailer("Turnstone-Group").map(str::to_owned));
                for (path, blob) in gone.iter() {
                    versions
                        .insert((path.clone(), *blob), self.store.repository.object_size(blob)?);
                }
            }
        }
        let version = |((path, blob), size)| ForgettableVersion { path, blob, size };
        found.versions = versions.into_iter().map(version).collect();
        Ok(found)
    }

    /// Writes down that what patterns name is to be forgotten, and which versions that are.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written.
    pub fn begin(&self, patterns: &[String]) -> Result<(), ObjectError> {
        let found = self.list(patterns)?;
        let mut tombstones = Tombstones::read(&self.store.directory)?;
        tombstones.versions.extend(found.versions.into_iter().map(|it| (it.path, it.blob)));
        tombstones.pending.extend(patterns.iter().cloned());
        Ok(write_json(&self.store.directory.join(TOMBSTONES_FILE), &tombstones)?)
    }

    /// Takes the paths out of every capture and drops their bytes; returns how many captures were
    /// rewritten. Does nothing if there is nothing to forget.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; do it again.
    pub fn finish(&self, now: EpochMillis) -> Result<usize, ObjectError> {
        let mut tombstones = Tombstones::read(&self.store.directory)?;
        if tombstones.pending.is_empty() {
            return Ok(0);
        }
        let count = self.rewrite_captures_without(&tombstones.pending)?;
        fail_point!("snapshot::forgotten", |_| Err(io::Error::other("failpoint").into()));
        let patterns = ForgetPatterns::new(&tombstones.pending);
        self.store.operations().drop_merged_bytes(&|path| patterns.matches(path))?;
        let live: BTreeSet<PinGroup> = self
            .store
            .captures()
            .list_chains()?
            .into_keys()
            .map(|name| PinGroup::new(&name))
            .collect();
        let (keep, effort) = (i64::MAX, u64::MAX);
        self.store.collector().collect(&GcOptions {
            live: &live,
            now,
            keep,
            effort,
            dry_run: false,
        })?;
        tombstones.pending.clear();
        write_json(&self.store.directory.join(TOMBSTONES_FILE), &tombstones)?;
        Ok(count)
    }

    fn rewrite_captures_without(&self, patterns: &[String]) -> Result<usize, ObjectError> {
        let _held = self.store.lock_objects_shared();
        let chain = self.store.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut filter = self.new_tree_filter(patterns);
        let (mut writer, mut tips, mut count) =
            (self.store.repository.new_pack_writer()?, Vec::new(), 0);
        for (name, tip) in self.store.repository.refs().list()? {
            let mut above = None;
            let mut is_new = false;
            for (oid, commit) in self.store.captures().read_chain_from(tip)?.iter().rev() {
                let (tree, gone) = filter.filter_tree(&commit.tree, b"")?;
                if gone.is_empty() && !is_new {
                    above = Some(*oid);
                    continue;
                }
                count += usize::from(!gone.is_empty());
                is_new = true;
                let mut copy = rewrite_commit(oid, commit, above)?;
                if !gone.is_empty() {
                    copy.tree = tree.unwrap_or(copy.tree);
                    let about =
                        self.build_forgotten_coverage(oid, commit, &gone, &mut filter.made)?;
                    copy.parents = above.into_iter().chain([about]).collect();
                }
                let packed = PackedObject::new(Kind::Commit, &copy.encode())?;
                writer.add(&packed)?;
                above = Some(packed.oid);
            }
            tips.extend(above.filter(|_| is_new).map(|tip| (name, tip)));
        }
        filter.made.iter().try_for_each(|packed| writer.add(packed))?;
        if let Some((_, sample)) = tips.first() {
            let held = self.store.repository.publish_pack(writer, sample)?;
            fail_point!("snapshot::forget_packed", |_| Err(io::Error::other("failpoint").into()));
            for (name, tip) in &tips {
                self.store.repository.refs().write(name, tip)?;
            }
            drop(held);
        }
        drop(chain);
        Ok(count)
    }

    /// The coverage of a capture, with some paths marked as forgotten.
    fn build_forgotten_coverage(
        &self,
        oid: &Oid,
        commit: &Commit,
        gone: &[(RelPath, Oid)],
        made: &mut Vec<PackedObject>,
    ) -> Result<Oid, ObjectError> {
        let capture = self.store.captures().get(&capture_id(oid, commit))?;
        let mut coverage = (*capture.coverage).clone();
        coverage
            .skipped
            .extend(gone.iter().map(|(path, _)| (path.clone(), UncoveredReason::Forgotten)));
        coverage.skipped.sort_by(|one, other| one.0.cmp(&other.0));
        coverage.skipped.dedup_by(|one, other| one.0 == other.0);
        // A directory whose last captured file is forgotten was there all the same.
        if let Some(directories) = &mut coverage.directories {
            directories.bare.extend(gone.iter().flat_map(|(path, _)| path.ancestors()));
            directories.bare.sort();
            directories.bare.dedup();
        }
        let known = self.store.repository.existence_check();
        Ok(build_coverage_commit(&coverage, &known, made)?)
    }
}
