//! The reconciliation report: what was found, and what became of each thing.

use std::collections::BTreeMap;

use serde::Serialize;
use turnstone_core::id::SessionId;
use turnstone_core::permission::{PermissionRule, RuleAction};

use crate::record_kind::RecordKind;

/// What an import found and what became of it; every thing found is counted exactly once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Where the things came from, in words.
    pub source: String,
    /// The count of each kind that was found.
    pub kinds: BTreeMap<RecordKind, KindCounts>,
    /// What people should know in addition to the counts; at most [`MAX_LISTED`].
    pub notes: Vec<String>,
    /// Permission rules the source carries that are stored and not in effect.
    pub untrusted: ImportedRules,
    /// Permission rules of the source that are in effect because the import is trusted.
    pub trusted: ImportedRules,
    /// The sessions that are as the source has them now: what was changed here is not among them.
    #[serde(skip)]
    pub sessions: Vec<SessionId>,
    /// The sessions of the source that were changed here since an earlier import.
    #[serde(skip)]
    pub changed_sessions: Vec<SessionId>,
}

/// The most skipped things, notes or rules a report lists of one sort; all of them are counted.
pub const MAX_LISTED: usize = 1_000;

/// What a source says about permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImportedRules {
    /// Rules of projects, sessions and prompts.
    pub rules: u64,
    /// Approvals of projects.
    pub approvals: u64,
    /// Commands that a project runs when a worktree of it is made.
    pub commands: u64,
    /// The first of them.
    pub listed: Vec<ImportedRule>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ImportedRule {
    /// What it belongs to, as `project ID`, `session ID` or `message ID`.
    pub of: String,
    /// The permission; `start` for a command.
    pub permission: String,
    /// What for.
    pub pattern: String,
    /// What follows.
    pub action: String,
}

impl ImportedRules {
    /// True if the source carries none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rules == 0 && self.approvals == 0 && self.commands == 0
    }

    pub(crate) fn add_rules(&mut self, of: &str, rules: &[PermissionRule]) {
        self.rules += rules.len() as u64;
        rules.iter().for_each(|rule| self.add_listed(of, rule));
    }

    pub(crate) fn add_approval(&mut self, of: &str, rule: &PermissionRule) {
        self.approvals += 1;
        self.add_listed(of, rule);
    }

    pub(crate) fn add_command(&mut self, of: &str, command: &str) {
        self.commands += 1;
        self.add_listed(of, &PermissionRule::new("start", command, RuleAction::Allow));
    }

    fn add_listed(&mut self, of: &str, rule: &PermissionRule) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(ImportedRule {
                of: to_printable(of),
                permission: to_printable(&rule.permission),
                pattern: to_printable(&rule.pattern),
                action: rule.action.as_str().to_owned(),
            });
        }
    }
}

/// The count of one kind: `found == imported + unchanged + orphaned + rejected_count`, always.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindCounts {
    /// How many the source holds.
    pub found: u64,
    /// How many were written, new or changed.
    pub imported: u64,
    /// How many were here already, the same.
    pub unchanged: u64,
    /// How many belong to something that was not imported; `orphans` says which and why.
    pub orphaned: u64,
    /// The first of the orphans.
    pub orphans: Vec<SkippedRecord>,
    /// How many could not be imported.
    pub rejected_count: u64,
    /// The first of these.
    pub rejected: Vec<SkippedRecord>,
}

/// One thing that was not imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRecord {
    /// Its name in the source.
    pub id: String,
    /// Why.
    pub reason: String,
}

/// What became of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordOutcome {
    /// It was written.
    Imported,
    /// It was here, the same.
    Unchanged,
    /// What it belongs to was not imported.
    Orphaned(String),
    /// It could not be imported.
    Rejected(String),
}

impl ImportReport {
    pub(crate) fn found_count(&self, kind: RecordKind) -> u64 {
        self.kinds.get(&kind).map_or(0, |counts| counts.found)
    }

    pub(crate) fn record_outcome(&mut self, kind: RecordKind, id: &str, outcome: RecordOutcome) {
        let counts = self.kinds.entry(kind).or_default();
        counts.found += 1;
        let add = |list: &mut Vec<SkippedRecord>, reason| {
            if list.len() < MAX_LISTED {
                list.push(SkippedRecord { id: to_printable(id), reason });
            }
        };
        match outcome {
            RecordOutcome::Imported => counts.imported += 1,
            RecordOutcome::Unchanged => counts.unchanged += 1,
            RecordOutcome::Orphaned(reason) => {
                counts.orphaned += 1;
                add(&mut counts.orphans, reason);
            }
            RecordOutcome::Rejected(reason) => {
                counts.rejected_count += 1;
                add(&mut counts.rejected, reason);
            }
        }
    }

    pub(crate) fn add_note(&mut self, text: &str) {
        if self.notes.len() < MAX_LISTED {
            self.notes.push(to_printable(text));
        }
    }
}

/// A foreign text made fit to be shown: no control characters, not longer than a line.
pub(crate) fn to_printable(text: &str) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(120).map(clean).collect();
    if text.chars().nth(120).is_some() {
        short.push('…');
    }
    short
}
