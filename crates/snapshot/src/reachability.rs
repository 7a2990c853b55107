//! Reachability: which objects captures need, and how similar ones are sorted for deltas.
//!
//! Every tree is looked at once, so the cost follows what differs between captures.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use crate::object_store::{DeltaSortKey, ObjectError, ObjectRepository, Oid, TreeEntry};

/// Objects that were reached.
#[derive(Default)]
pub(crate) struct ReachableObjects {
    sort_keys: HashMap<Oid, DeltaSortKey>,
    /// The references that were followed.
    pub(crate) tips: BTreeMap<String, Oid>,
}

impl ReachableObjects {
    pub(crate) fn has(&self, oid: &Oid) -> bool {
        self.sort_keys.contains_key(oid)
    }

    pub(crate) fn len(&self) -> usize {
        self.sort_keys.len()
    }

    /// The sort key of an object among similar ones; commits get none, deltas of them save nothing.
    pub(crate) fn delta_sort_key(&self, oid: &Oid) -> Option<DeltaSortKey> {
        self.sort_keys.get(oid).copied().filter(|place| place.path != 0)
    }

    /// Follows a reference.
    pub(crate) fn add_tip(
        &mut self,
        repository: &ObjectRepository,
        name: &str,
        tip: &Oid,
    ) -> Result<(), ObjectError> {
        self.add_commit(repository, tip, &mut |_| {})?;
        self.tips.insert(name.to_owned(), *tip);
        Ok(())
    }

    /// Adds a commit and everything it needs, oldest first; `new` is called for each object.
    pub(crate) fn add_commit(
        &mut self,
        repository: &ObjectRepository,
        tip: &Oid,
        new: &mut dyn FnMut(&Oid),
    ) -> Result<(), ObjectError> {
        let mut todo = vec![*tip];
        let mut trees = Vec::new();
        while let Some(oid) = todo.pop() {
            if self.insert(&oid, 0, 0, new) {
                let commit = repository.read_commit(&oid)?;
                trees.push((commit.tree, commit.parents.is_empty()));
                todo.extend(commit.parents);
            }
        }
        for (tree, is_coverage) in trees.into_iter().rev() {
            // Coverages are like each other, and like no file.
            let prefix = if is_coverage { b"\0".to_vec() } else { Vec::new() };
            self.add_tree(repository, tree, prefix, new)?;
        }
        Ok(())
    }

    /// Adds a capture and what it needs, but not the captures before it.
    pub(crate) fn add_capture(
        &mut self,
        repository: &ObjectRepository,
        oid: &Oid,
        new: &mut dyn FnMut(&Oid),
    ) -> Result<(), ObjectError> {
        if self.insert(oid, 0, 0, new) {
            let commit = repository.read_commit(oid)?;
            let coverage = commit.parents.last().ok_or(ObjectError::Corrupt(*oid))?;
            self.add_commit(repository, coverage, new)?;
            self.add_tree(repository, commit.tree, Vec::new(), new)?;
        }
        Ok(())
    }

    /// Adds a tree at a path and everything below.
    pub(crate) fn add_tree(
        &mut self,
        repository: &ObjectRepository,
        tree: Oid,
        prefix: Vec<u8>,
        new: &mut dyn FnMut(&Oid),
    ) -> Result<(), ObjectError> {
        let mut todo = vec![(tree, prefix)];
        while let Some((oid, prefix)) = todo.pop() {
            let here = nonzero_hash(&prefix);
            if !self.insert(&oid, here, here, new) {
                continue;
            }
            for (name, entry) in repository.read_tree(&oid)? {
                let mut path = prefix.clone();
                path.extend_from_slice(&name);
                match entry {
                    TreeEntry::Leaf(leaf) => {
                        self.insert(&leaf.blob, nonzero_hash(&name), nonzero_hash(&path), new);
                    }
                    TreeEntry::Tree(tree) => {
                        path.push(b'/');
                        todo.push((tree, path));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds an unpinned object and what it needs, so that it stays complete while it stays.
    pub(crate) fn add_unpinned(
        &mut self,
        repository: &ObjectRepository,
        oid: &Oid,
    ) -> Result<(), ObjectError> {
        let done = match repository.read(oid)?.0 {
            gix::objs::Kind::Commit => self.add_commit(repository, oid, &mut |_| {}),
            gix::objs::Kind::Tree => self.add_tree(repository, *oid, b"\x01".to_vec(), &mut |_| {}),
            gix::objs::Kind::Blob | gix::objs::Kind::Tag => Ok(()),
        };
        match done {
            // Garbage that is not whole cannot be kept whole.
            Err(ObjectError::Missing(_)) => Ok(()),
            done => done,
        }
    }

    fn insert(&mut self, oid: &Oid, name: u64, path: u64, new: &mut dyn FnMut(&Oid)) -> bool {
        let age = self.sort_keys.len() as u32;
        if self.has(oid) {
            return false;
        }
        self.sort_keys.insert(*oid, DeltaSortKey { name, path, age });
        new(oid);
        true
    }
}

/// Follows every reference of a store.
pub(crate) fn reach_all_refs(
    repository: &ObjectRepository,
) -> Result<ReachableObjects, ObjectError> {
    let mut reach = ReachableObjects::default();
    for (name, tip) in repository.refs().list()? {
        reach.add_tip(repository, &name, &tip)?;
    }
    Ok(reach)
}

/// The bytes each object takes in the packs, once for each object.
pub(crate) fn stored_object_sizes(repository: &ObjectRepository) -> io::Result<HashMap<Oid, u64>> {
    let mut found = HashMap::new();
    for pack in repository.list_packs()? {
        for entry in pack.entries()? {
            found.entry(entry.oid).or_insert(entry.length);
        }
    }
    Ok(found)
}

/// Never zero: that is the mark of what is not lined up.
fn nonzero_hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish().max(1)
}
