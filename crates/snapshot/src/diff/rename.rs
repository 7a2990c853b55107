//! Renames, for display only: which deleted file an added one looks like.
//!
//! Nothing acts on them (W37). Equal bytes are paired first; the rest by the lines they share, within a
//! fixed number of comparisons.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::file_diffs::DiffSide;
use crate::object_store::Oid;
use crate::path::RelPath;

/// Files on either side that are compared by their lines.
const MAX_CANDIDATES: usize = 200;
/// Larger files are paired by equal bytes only.
const MAX_BYTES: usize = 1 << 20;
/// So alike, in percent, two files must be.
const MIN_SIMILARITY_PERCENT: usize = 50;

/// A deleted file and the added one it may have become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedRename {
    /// The deleted file.
    pub from: RelPath,
    /// The added file.
    pub to: RelPath,
    /// How much of the bytes they share, in percent.
    pub similarity: usize,
}

/// A file that came or went.
struct RenameCandidate {
    path: RelPath,
    blob: Oid,
    size: usize,
    /// Bytes of lines, by a hash of the line; `None` if it is too large.
    lines: Option<HashMap<u64, usize>>,
}

impl RenameCandidate {
    fn new(path: &RelPath, bytes: &DiffSide, is_full: bool) -> Option<Self> {
        let (leaf, data) = bytes.as_ref()?;
        let lines = (data.len() <= MAX_BYTES && !is_full).then(|| line_hashes(data));
        Some(Self { path: path.clone(), blob: leaf.blob, size: data.len(), lines })
    }

    /// How much of the larger one both share, in percent.
    fn similarity(&self, other: &Self) -> usize {
        let (Some(one), Some(two)) = (&self.lines, &other.lines) else {
            return 0;
        };
        let larger = self.size.max(other.size);
        if larger == 0 || self.size.min(other.size) * 100 < larger * MIN_SIMILARITY_PERCENT {
            return 0;
        }
        let shared =
            |(line, bytes): (&u64, &usize)| two.get(line).copied().unwrap_or(0).min(*bytes);
        one.iter().map(shared).sum::<usize>() * 100 / larger
    }
}

fn line_hashes(data: &[u8]) -> HashMap<u64, usize> {
    let mut found = HashMap::new();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        *found.entry(hasher.finish()).or_default() += line.len();
    }
    found
}

/// Files that came and went, to be paired.
#[derive(Default)]
pub(super) struct RenameDetector {
    gone: Vec<RenameCandidate>,
    come: Vec<RenameCandidate>,
}

impl RenameDetector {
    /// Remembers a file if it came or went.
    pub(super) fn add(&mut self, path: &RelPath, old: &DiffSide, new: &DiffSide) {
        let list = match (old, new) {
            (Some(_), None) => &mut self.gone,
            (None, Some(_)) => &mut self.come,
            (Some(_), Some(_)) | (None, None) => return,
        };
        let is_full = list.len() >= MAX_CANDIDATES;
        list.extend(
            RenameCandidate::new(path, old, is_full)
                .or_else(|| RenameCandidate::new(path, new, is_full)),
        );
    }

    /// Finds the pairs; true if some files were not compared by their lines.
    pub(super) fn detect(mut self) -> (Vec<DetectedRename>, bool) {
        let is_cut = self.gone.len().max(self.come.len()) > MAX_CANDIDATES;
        let mut found = self.take_equal_pairs();
        let mut scored = Vec::new();
        for (from, gone) in self.gone.iter().enumerate() {
            for (to, come) in self.come.iter().enumerate() {
                let similarity = gone.similarity(come);
                if similarity >= MIN_SIMILARITY_PERCENT {
                    scored.push((std::cmp::Reverse(similarity), from, to));
                }
            }
        }
        scored.sort_unstable();
        let (mut used_from, mut used_to) = (BTreeSet::new(), BTreeSet::new());
        for (std::cmp::Reverse(similarity), from, to) in scored {
            if used_from.contains(&from) || used_to.contains(&to) {
                continue;
            }
            used_from.insert(from);
            used_to.insert(to);
            let (from, to) = (self.gone[from].path.clone(), self.come[to].path.clone());
            found.push(DetectedRename { from, to, similarity });
        }
        found.sort_by(|one, other| one.to.cmp(&other.to));
        (found, is_cut && !self.gone.is_empty() && !self.come.is_empty())
    }

    /// Takes out the pairs with equal bytes; of several the one with the same name, else the first.
    fn take_equal_pairs(&mut self) -> Vec<DetectedRename> {
        let mut by_blob = HashMap::<Oid, Vec<RelPath>>::new();
        for gone in self.gone.iter().filter(|gone| gone.size > 0) {
            by_blob.entry(gone.blob).or_default().push(gone.path.clone());
        }
        let mut found = Vec::new();
        self.come.retain(|come| {
            let Some(paths) = by_blob.get_mut(&come.blob).filter(|paths| !paths.is_empty()) else {
                return true;
            };
            let same_name = paths.iter().position(|path| path.name() == come.path.name());
            let from = paths.remove(same_name.unwrap_or(0));
            found.push(DetectedRename { from, to: come.path.clone(), similarity: 100 });
            false
        });
        let taken: BTreeSet<RelPath> = found.iter().map(|rename| rename.from.clone()).collect();
        self.gone.retain(|gone| !taken.contains(&gone.path));
        found
    }
}
