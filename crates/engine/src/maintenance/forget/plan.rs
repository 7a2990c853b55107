//! What would go.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use turnstone_core::change::ChangeRoot;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::time::LogCursor;
use turnstone_snapshot::{ForgettableVersions, SnapshotHandle, patterns_match_path};
use turnstone_store::{Context, RedactionReport, Store};

use crate::captures::session_coverage::change_root_of;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::TraceFiles;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::maintenance::folder_entries::list_entries;
use crate::permissions::OperationGates;

/// Shorter lines are too common to be a secret.
const MIN_LINE_BYTES: usize = 8;

/// A session that changed such a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AffectedSession {
    /// The session.
    pub session: SessionId,
    /// Its turns that did.
    pub turns: Vec<TurnId>,
}

/// What would be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForgetPlan {
    /// Where.
    pub root: ChangeRoot,
    /// Which paths, as an ignore file would name them.
    pub patterns: Vec<String>,
    /// The paths they name, as captures and turns know them.
    pub paths: BTreeSet<String>,
    /// Sessions whose turns changed such paths.
    pub sessions: Vec<AffectedSession>,
    /// What the captures hold of them.
    pub captured: ForgettableVersions,
    /// Events, texts and values of the database that hold a line of them.
    pub ledger: RedactionReport,
    /// Spilled outputs that do.
    pub outputs: Vec<PathBuf>,
    /// Copies of the database, which are not touched.
    pub backups: Vec<PathBuf>,
}

impl ForgetPlan {
    /// Bytes of the versions that go.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.captured.versions.iter().map(|version| version.size).sum()
    }

    /// True if there is nothing to forget.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.captured.versions.is_empty() && self.sessions.is_empty() && self.ledger.answers == 0
    }
}

/// Forgetting: removes the bytes of paths from captures, database and output.
#[derive(Clone)]
pub struct PathEraser {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) gates: OperationGates,
    pub(crate) data: PathBuf,
    pub(crate) traces: TraceFiles,
}

impl PathEraser {
    /// Says what would be forgotten of the root that holds `directory`; changes nothing.
    ///
    /// # Errors
    ///
    /// [`EngineError::BadPattern`]; or a fact could not be obtained: then there is no plan.
    pub fn plan(&self, ctx: &Context, directory: &Path, patterns: &[String]) -> Result<ForgetPlan> {
        patterns.iter().try_for_each(|pattern| check_pattern(pattern))?;
        let handle = self.snapshots.open(directory, ctx.now)?;
        let captured = handle.reader().list_forgettable(patterns)?;
        let words = collect_lines(&handle, &captured)?;
        let mut paths: BTreeSet<String> =
            captured.versions.iter().map(|version| version.path.to_string()).collect();
        Ok(ForgetPlan {
            root: change_root_of(&handle),
            patterns: patterns.to_vec(),
            sessions: self.find_affected_sessions(ctx, &handle, patterns, &mut paths)?,
            paths,
            ledger: self.store.maintenance().redact(ctx, &words, true)?,
            outputs: self.find_outputs_containing(&words)?,
            backups: list_files(&self.data.join("backup"))?,
            captured,
        })
    }

    /// The sessions whose turns changed such paths, which are added to `found_paths`.
    fn find_affected_sessions(
        &self,
        ctx: &Context,
        handle: &SnapshotHandle,
        patterns: &[String],
        found_paths: &mut BTreeSet<String>,
    ) -> Result<Vec<AffectedSession>> {
        let store = handle.location().id.to_string();
        let all = (LogCursor(0), LogCursor(i64::MAX));
        let rows = self.store.read(ctx, |r| r.change_sets().between(&store, all.0, all.1))?;
        let mut found: BTreeMap<SessionId, Vec<TurnId>> = BTreeMap::new();
        for row in rows {
            let paths = row.set.changes.iter().map(|change| &change.path).chain(&row.named);
            let named: Vec<String> = paths
                .filter(|path| patterns_match_path(patterns, path))
                .map(ToString::to_string)
                .collect();
            let is_touched = !named.is_empty();
            found_paths.extend(named);
            if is_touched {
                let turns = found.entry(row.set.session).or_default();
                if !turns.contains(&row.set.turn) {
                    turns.push(row.set.turn);
                }
            }
        }
        Ok(found.into_iter().map(|(session, turns)| AffectedSession { session, turns }).collect())
    }

    /// The spilled outputs that hold one of these words.
    pub(crate) fn find_outputs_containing(&self, words: &BTreeSet<String>) -> Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for path in list_files(&self.data.join("output"))? {
            let bytes = fs_err::read(&path)?;
            let text = String::from_utf8_lossy(&bytes);
            if words.iter().any(|word| text.contains(word.as_str())) {
                found.push(path);
            }
        }
        Ok(found)
    }
}

/// The lines of all versions that are texts.
pub(super) fn collect_lines(
    handle: &SnapshotHandle,
    captured: &ForgettableVersions,
) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for version in &captured.versions {
        let Ok(text) = String::from_utf8(handle.reader().read_blob(&version.blob)?) else {
            continue;
        };
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE_BYTES);
        found.extend(lines.map(str::to_owned));
    }
    Ok(found)
}

/// The files of a folder; none if it is not there.
/// Refuses what would be more than one pattern, or none, in an ignore file: what passes the gate is what
/// is forgotten.
fn check_pattern(pattern: &str) -> Result<()> {
    let reason = if pattern.contains(['\n', '\r', '\0']) {
        "it has more than one line"
    } else if pattern.trim().is_empty() {
        "it is empty"
    } else if pattern.starts_with(['#', '!']) {
        "it is a comment or an exception; put a backslash before the first character to mean the name"
    } else {
        return Ok(());
    };
    Err(EngineError::BadPattern { pattern: pattern.to_owned(), reason })
}

fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = list_entries(folder)?.into_iter().filter(|(_, kind)| kind.is_file());
    Ok(files.map(|(path, _)| path).collect())
}
