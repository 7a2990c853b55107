//! Verification: every object that a capture needs exists and matches its hash.

use std::collections::{BTreeMap, BTreeSet};

use gix::objs::Kind;
use rayon::prelude::*;
use serde::Serialize;

use crate::disk_usage::StoreInspection;
use crate::object_store::{Commit, ObjectError, ObjectRepository, Oid, TreeEntry, parse_tree};

/// An object that is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamagedObject {
    /// The object.
    pub object: Oid,
    /// What is wrong with it.
    pub what: String,
    /// A pin group that needs it.
    pub group: String,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Captures that were followed.
    pub captures: usize,
    /// Objects that were read and are sound.
    pub objects: usize,
    /// Their bytes, unpacked.
    pub bytes: u64,
    /// What is not sound; nothing else is.
    pub damaged: Vec<DamagedObject>,
}

impl StoreInspection<'_> {
    /// Reads every object that is pinned and compares it with its name.
    ///
    /// # Errors
    ///
    /// The references cannot be read. Damage is no error: it is in the answer.
    pub fn verify_objects(&self) -> Result<VerifyReport, ObjectError> {
        let mut run = VerifyRun {
            repository: &self.store.repository,
            done: VerifyReport::default(),
            seen: BTreeSet::new(),
        };
        let mut blobs = BTreeMap::new();
        for (reference, tip) in self.store.repository.refs().list()? {
            run.verify_group(&reference, tip, &mut blobs);
        }
        let read = |(oid, group): (&Oid, &String)| {
            let read = self.store.repository.read_verified(oid, Kind::Blob);
            read.map(|data| data.len() as u64)
                .map_err(|error| to_damaged_object(oid, group, &error))
        };
        let all: Vec<Result<u64, DamagedObject>> = blobs.par_iter().map(read).collect();
        for one in all {
            match one {
                Ok(bytes) => {
                    run.done.objects += 1;
                    run.done.bytes += bytes;
                }
                Err(damage) => run.done.damaged.push(damage),
            }
        }
        // What a collection dropped meanwhile was not damaged.
        let pinned = self.store.repository.refs().list()?;
        run.done.damaged.retain(|damage| pinned.contains_key(&damage.group));
        Ok(run.done)
    }
}

struct VerifyRun<'s> {
    repository: &'s ObjectRepository,
    done: VerifyReport,
    seen: BTreeSet<Oid>,
}

impl VerifyRun<'_> {
    /// Reads the commits and trees of a group; gathers the names of its files' bytes.
    fn verify_group(&mut self, group: &str, tip: Oid, blobs: &mut BTreeMap<Oid, String>) {
        let (mut commits, mut trees) = (vec![tip], Vec::new());
        while let Some(oid) = commits.pop() {
            let Some(data) = self.read_first_time(&oid, Kind::Commit, group) else { continue };
            match Commit::decode(&oid, &data) {
                Ok(commit) => {
                    self.done.captures += usize::from(commit.trailer("Turnstone-Time").is_some());
                    trees.push(commit.tree);
                    commits.extend(commit.parents);
                }
                Err(error) => self.done.damaged.push(to_damaged_object(&oid, group, &error)),
            }
        }
        while let Some(oid) = trees.pop() {
            let Some(data) = self.read_first_time(&oid, Kind::Tree, group) else { continue };
            match parse_tree(&oid, &data) {
                Ok(lines) => lines.into_iter().for_each(|(_, entry)| match entry {
                    TreeEntry::Tree(tree) => trees.push(tree),
                    TreeEntry::Leaf(leaf) => {
                        blobs.entry(leaf.blob).or_insert_with(|| group.to_owned());
                    }
                }),
                Err(error) => self.done.damaged.push(to_damaged_object(&oid, group, &error)),
            }
        }
    }

    /// Reads an object the first time it is met.
    fn read_first_time(&mut self, oid: &Oid, kind: Kind, group: &str) -> Option<Vec<u8>> {
        if !self.seen.insert(*oid) {
            return None;
        }
        match self.repository.read_verified(oid, kind) {
            Ok(data) => {
                self.done.objects += 1;
                self.done.bytes += data.len() as u64;
                Some(data)
            }
            Err(error) => {
                self.done.damaged.push(to_damaged_object(oid, group, &error));
                None
            }
        }
    }
}

fn to_damaged_object(oid: &Oid, group: &str, error: &ObjectError) -> DamagedObject {
    let what = match error {
        ObjectError::Missing(_) => "missing".to_owned(),
        ObjectError::Corrupt(_) => "not what its name says".to_owned(),
        ObjectError::Io(error) => error.to_string(),
    };
    DamagedObject { object: *oid, what, group: group.to_owned() }
}
