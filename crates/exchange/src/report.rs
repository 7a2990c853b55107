//! The reconciliation report: what was found, and what became of each thing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::kind::Kind;

/// What an import found and what became of it; every thing found is counted exactly once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Where the things came from, in words.
    pub source: String,
    /// The count of each kind that was found.
    pub kinds: BTreeMap<Kind, Tally>,
    /// What people should know beside the counts.
    pub notes: Vec<String>,
}

/// The count of one kind: `found == imported + unchanged + orphaned + rejected.len()`, always.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// How many the source holds.
    pub found: u64,
    /// How many were written, new or changed.
    pub imported: u64,
    /// How many were here already, the same.
    pub unchanged: u64,
    /// How many belong to something that was not imported; `orphans` says which and why.
    pub orphaned: u64,
    /// The orphans.
    pub orphans: Vec<Skipped>,
    /// What could not be imported.
    pub rejected: Vec<Skipped>,
}

impl Tally {
    /// True if every thing found is accounted for.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let counted = self.imported + self.unchanged + self.orphaned + self.rejected.len() as u64;
        self.found == counted && self.orphaned == self.orphans.len() as u64
    }
}

/// One thing that was not imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name in the source.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was written.
    Imported,
    /// It was here, the same.
    Unchanged,
    /// What it belongs to was not imported.
    Orphaned(String),
    /// It could not be imported.
    Rejected(String),
}

impl Report {
    /// The count of one kind; zeros if none was found.
    #[must_use]
    pub fn tally(&self, kind: Kind) -> Tally {
        self.kinds.get(&kind).cloned().unwrap_or_default()
    }

    /// True if nothing was orphaned or rejected.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.kinds.values().all(|tally| tally.orphaned == 0 && tally.rejected.is_empty())
    }

    pub(crate) fn tally_found(&self, kind: Kind) -> u64 {
        self.kinds.get(&kind).map_or(0, |tally| tally.found)
    }

    pub(crate) fn count(&mut self, kind: Kind, id: &str, outcome: Outcome) {
        let tally = self.kinds.entry(kind).or_default();
        tally.found += 1;
        let skipped = |reason| Skipped { id: printable(id), reason };
        match outcome {
            Outcome::Imported => tally.imported += 1,
            Outcome::Unchanged => tally.unchanged += 1,
            Outcome::Orphaned(reason) => {
                tally.orphaned += 1;
                tally.orphans.push(skipped(reason));
            }
            Outcome::Rejected(reason) => tally.rejected.push(skipped(reason)),
        }
    }
}

/// A foreign text made fit to be shown: no control characters, not longer than a line.
pub(crate) fn printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(120).map(clean).collect();
    if text.chars().nth(120).is_some() {
        short.push('…');
    }
    short
}
