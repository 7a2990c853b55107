//! The end of a loan: what captures need is copied into a pack of our own, and the lent ones go.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};
use std::sync::PoisonError;

use fail::fail_point;
use gix::objs::Kind;
use rayon::prelude::*;
use serde::Serialize;

use crate::hash::{Look, look};
use crate::object::{Commit, Leaf, ObjectError, Oid, PackFile, Packed, TreeEntry, build, entries};
use crate::path::RelPath;
use crate::shadow::Shadow;

/// Bytes of objects that are held at a time.
const BATCH: u64 = 24 << 20;

/// What came of settling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Settled {
    /// Objects that were copied.
    pub copied: usize,
    /// Of those, the ones that were damaged in the loan and made anew from the worktree.
    pub repaired: usize,
    /// Objects that were damaged in the loan and are nowhere else: captures lack them now.
    pub lost: Vec<Oid>,
    /// Lent packs that were given back.
    pub returned: usize,
}

/// An object that is needed, and what it must be.
type Need = (Oid, Kind);

impl Shadow {
    /// Copies what captures need of lent packs into our own and gives the lent ones back (R10).
    ///
    /// To be called when there is time. Captures go on meanwhile, but for a moment at the end. An
    /// object that is not what its name says is made anew from the worktree if that still has it;
    /// otherwise it is reported, and reading it is an error from then on. Killed anywhere, nothing is
    /// lost and the loan goes on.
    ///
    /// # Errors
    ///
    /// The store cannot be read or written; the loan goes on.
    pub fn settle(&self) -> Result<Settled, ObjectError> {
        let mut settled = Settled::default();
        if !self.repository.is_lent() {
            return Ok(settled);
        }
        {
            let _held = self.hold_objects();
            self.copy_needed(&mut settled)?;
            // While captures run, what is known of the worktree may be in use: judged at the end.
            settled.lost.clear();
        }
        fail_point!("snapshot::settling", |_| Err(io::Error::other("failpoint").into()));
        let running = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        // What captures began to rely on meanwhile: little, if anything.
        self.copy_needed(&mut settled)?;
        settled.lost.sort_unstable();
        self.note_lost(&settled.lost)?;
        let own = self.own_objects()?;
        // What no capture holds goes with them, though it may be remembered. Were the packs to go
        // first, a crash would leave files that are believed to be in them.
        self.forget_dropped(&|oid| own.contains(oid))?;
        drop(own);
        let packs = self.repository.packs()?;
        let lent: Vec<&PackFile> = packs.iter().filter(|pack| pack.is_lent()).collect();
        settled.returned = lent.len();
        self.repository.hide_packs(&lent)?;
        drop((taken, running));
        self.repository.discard_packs(&lent)?;
        Ok(settled)
    }

    /// Writes down, durably, what captures lack from now on, so that upkeep does not stop at it.
    fn note_lost(&self, lost: &[Oid]) -> io::Result<()> {
        if lost.is_empty() {
            return Ok(());
        }
        let mut all = self.list_lost()?;
        all.extend(lost);
        let temp = self.folder.join("lost.tmp");
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&serde_json::to_vec(&all)?)?;
        file.sync_all()?;
        fs_err::rename(&temp, self.folder.join("lost.json"))?;
        fs_err::File::open(&self.folder)?.sync_all()
    }

    /// Objects that were damaged when a loan ended, and that some captures lack, unless they came back.
    pub(crate) fn list_lost(&self) -> io::Result<BTreeSet<Oid>> {
        match fs_err::read(self.folder.join("lost.json")) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeSet::new()),
            Err(error) => Err(error),
        }
    }

    /// Everything that is in packs of our own.
    fn own_objects(&self) -> io::Result<HashSet<Oid>> {
        let mut own = HashSet::new();
        for pack in self.repository.packs()?.iter().filter(|pack| !pack.is_lent()) {
            own.extend(pack.entries()?.into_iter().map(|entry| entry.oid));
        }
        Ok(own)
    }

    fn copy_needed(&self, settled: &mut Settled) -> Result<(), ObjectError> {
        let own = self.own_objects()?;
        let mut repairs = Repairs { shadow: self, blobs: None, trees: None };
        let needs = self.needs(&own, &settled.lost, &mut repairs)?;
        let mut writer = self.repository.writer()?;
        let mut sample = None;
        for batch in self.batches(&needs) {
            let read: Vec<Option<Packed>> =
                batch.par_iter().map(|need| self.copy(need)).collect::<Result<_, _>>()?;
            for ((oid, kind), packed) in batch.iter().zip(read) {
                let packed = match packed {
                    Some(packed) => packed,
                    None => match repairs.find(oid, *kind)? {
                        Some(data) => {
                            settled.repaired += 1;
                            Packed::named(*oid, *kind, &data)?
                        }
                        None => {
                            settled.lost.push(*oid);
                            continue;
                        }
                    },
                };
                writer.add(&packed)?;
                settled.copied += 1;
                sample = Some(*oid);
            }
        }
        match sample {
            // Captures need what is in it, so git leaves it alone from the beginning.
            Some(sample) => {
                drop(self.repository.publish(writer, &sample)?);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Parts the needs so that each part fits into memory.
    fn batches<'n>(&self, needs: &'n [Need]) -> Vec<&'n [Need]> {
        let sizes = self.repository.sizes();
        let mut parts = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for (at, (oid, _)) in needs.iter().enumerate() {
            let size = sizes(oid).unwrap_or_default() + 256;
            if bytes + size > BATCH && at > start {
                parts.push(&needs[start..at]);
                (start, bytes) = (at, 0);
            }
            bytes += size;
        }
        parts.push(&needs[start..]);
        parts
    }

    /// Reads one object of a loan; nothing if it is damaged or missing.
    fn copy(&self, (oid, kind): &Need) -> Result<Option<Packed>, ObjectError> {
        match self.repository.read_verified(oid, *kind) {
            Ok(data) => Ok(Some(Packed::named(*oid, *kind, &data)?)),
            // Bytes that cannot be inflated are as bad as wrong ones; a disk that fails is told apart
            // nowhere below, and the loan is given back only after every object was looked for.
            Err(ObjectError::Corrupt(_) | ObjectError::Missing(_) | ObjectError::Io(_)) => Ok(None),
        }
    }

    /// Lists every object that a capture needs and that no pack of our own holds.
    fn needs(
        &self,
        own: &HashSet<Oid>,
        lost: &[Oid],
        repairs: &mut Repairs<'_>,
    ) -> Result<Vec<Need>, ObjectError> {
        let mut seen: HashSet<Oid> = lost.iter().copied().collect();
        let mut needs = Vec::new();
        let mut todo: Vec<Need> = Vec::new();
        todo.extend(self.repository.list_refs()?.into_values().map(|tip| (tip, Kind::Commit)));
        while let Some((oid, kind)) = todo.pop() {
            if !seen.insert(oid) {
                continue;
            }
            if !own.contains(&oid) {
                needs.push((oid, kind));
            }
            if kind == Kind::Commit {
                let commit: Commit = self.repository.read_commit(&oid)?;
                todo.push((commit.tree, Kind::Tree));
                todo.extend(commit.parents.into_iter().map(|parent| (parent, Kind::Commit)));
            }
            if kind == Kind::Tree {
                for (_, entry) in self.lines(&oid, repairs)? {
                    todo.push(match entry {
                        TreeEntry::Tree(tree) => (tree, Kind::Tree),
                        TreeEntry::Leaf(leaf) => (leaf.blob, Kind::Blob),
                    });
                }
            }
        }
        Ok(needs)
    }

    /// The lines of a tree, made anew if it is damaged; of a lost one there are none.
    fn lines(
        &self,
        oid: &Oid,
        repairs: &mut Repairs<'_>,
    ) -> Result<Vec<(Vec<u8>, TreeEntry)>, ObjectError> {
        match self.repository.read_tree(oid) {
            Ok(lines) => Ok(lines),
            Err(_) => match repairs.find(oid, Kind::Tree)? {
                Some(data) => entries(oid, &data),
                None => Ok(Vec::new()),
            },
        }
    }
}

/// Objects made anew from what is known of the worktree.
struct Repairs<'s> {
    shadow: &'s Shadow,
    /// Where the file with some bytes was last seen.
    blobs: Option<HashMap<Oid, RelPath>>,
    trees: Option<HashMap<Oid, Vec<u8>>>,
}

impl Repairs<'_> {
    fn find(&mut self, oid: &Oid, kind: Kind) -> io::Result<Option<Vec<u8>>> {
        match kind {
            Kind::Blob => Ok(self.blob(oid)),
            Kind::Tree => self.tree(oid),
            Kind::Commit | Kind::Tag => Ok(None),
        }
    }

    fn blob(&mut self, oid: &Oid) -> Option<Vec<u8>> {
        let shadow = self.shadow;
        let blobs = self.blobs.get_or_insert_with(|| {
            let files = shadow.picture().leaves();
            files.into_iter().map(|(path, leaf)| (leaf.blob, path)).collect()
        });
        match look(&shadow.worktree, blobs.get(oid)?) {
            Look::Present(_, leaf, data) if leaf.blob == *oid => Some(data),
            Look::Present(..) | Look::Absent | Look::Uncovered(_) => None,
        }
    }

    fn tree(&mut self, oid: &Oid) -> io::Result<Option<Vec<u8>>> {
        if self.trees.is_none() {
            let files: Vec<(RelPath, Leaf)> = self.shadow.picture().leaves();
            let mut made = Vec::new();
            build(&files, &mut |_| false, &mut made)?;
            let trees = made.iter().map(|packed| Ok((packed.oid, packed.data()?)));
            self.trees = Some(trees.collect::<io::Result<_>>()?);
        }
        Ok(self.trees.as_ref().and_then(|trees| trees.get(oid).cloned()))
    }
}
