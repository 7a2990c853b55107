//! The chain: how captures are written down, found and listed.
//!
//! A capture is a commit (R9). Its first parent is the capture before it in its pin group; its last
//! parent is a commit of its coverage, shared by all captures with the same one, so that whatever
//! keeps the reference keeps both.

use std::io;
use std::sync::{Arc, PoisonError};

use fail::fail_point;
use gix::objs::Kind as ObjectKind;
use turnstone_core::time::EpochMillis;

use crate::capture::{
    Capture, CaptureContent, CaptureError, CaptureMode, CaptureOutcome, CaptureStats,
};
use crate::capture_expiry::ID_TRAILER;
use crate::coverage::{CaptureCoverage, CaptureScope};
use crate::file_watch::JournalState;
use crate::object_store::{Commit, Oid, PackWriter, PackedObject, TreeLeaf, build_trees};
use crate::path::RelPath;
use crate::pin_group::PinGroup;
use crate::snapshot_store::SnapshotStore;

pub(crate) const COVERAGE_FILE: &str = "coverage.json";
/// A pack with more bytes becomes durable before anybody has to wait for it.
const EARLY_SYNC_BYTES: u64 = 1 << 20;

impl SnapshotStore {
    /// Writes the capture of some files down.
    pub(crate) fn write_named_capture(
        &self,
        leaves: &[(RelPath, TreeLeaf)],
        coverage: CaptureCoverage,
        is_guard: bool,
        writer: PackWriter,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, CaptureError> {
        let known = self.repository.existence_check();
        let mut made = Vec::new();
        let tree = build_trees(leaves, &mut |oid| known(oid), &mut made)?;
        let about = build_coverage_commit(&coverage, &known, &mut made)?;
        let content = CaptureContent {
            tree,
            coverage: Arc::new(coverage),
            coverage_commit: about,
            files: leaves.len(),
        };
        let seen = CaptureStats {
            changed: leaves.len(),
            reused: 0,
            mode: CaptureMode::Named,
            journal: JournalState::Off,
            is_guard,
        };
        self.append_capture(&content, &made, seen, writer, group, now)
    }

    /// Writes a capture down: pack, then reference; or finds that it is the group's last one.
    pub(crate) fn append_capture(
        &self,
        content: &CaptureContent,
        made: &[PackedObject],
        seen: CaptureStats,
        mut writer: PackWriter,
        group: &PinGroup,
        now: EpochMillis,
    ) -> Result<CaptureOutcome, CaptureError> {
        made.iter().try_for_each(|packed| writer.add(packed))?;
        let mut early = None;
        if writer.estimated_bytes() > EARLY_SYNC_BYTES {
            // A capture of a few named files must not wait for all of this to become durable (R6).
            self.budget().check(writer.estimated_bytes(), seen.is_guard)?;
            early = Some(self.repository.publish_pack(writer, &content.tree)?);
            writer = self.repository.new_pack_writer()?;
        }
        let chain = self.chain_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let tip = self.repository.refs().find(group.reference())?;
        let last = tip.map(|tip| self.repository.read_commit(&tip)).transpose()?;
        let CaptureContent { tree, coverage, coverage_commit: about, files } = content;
        let captured = |id, time, is_new| CaptureOutcome {
            capture: Capture { id, tree: *tree, coverage: coverage.clone(), time },
            files: *files,
            changed: seen.changed,
            reused: seen.reused,
            mode: seen.mode,
            journal: seen.journal,
            is_new,
        };
        if let (Some(tip), Some(last)) = (tip, &last)
            && last.tree == *tree
            && last.parents.last() == Some(about)
        {
            return Ok(captured(capture_id(&tip, last), capture_time(last), false));
        }
        let commit = build_capture_commit(content, tip, seen.mode, group, now);
        let commit = PackedObject::new(ObjectKind::Commit, &commit.encode())?;
        let id = commit.oid;
        writer.add(&commit)?;
        self.budget().check(writer.estimated_bytes(), seen.is_guard)?;
        let held = self.repository.publish_pack(writer, &id)?;
        fail_point!("snapshot::published", |_| Err(io::Error::other("failpoint").into()));
        self.repository.refs().write(group.reference(), &id)?;
        drop((early, held, chain));
        Ok(captured(id, now, true))
    }
}

/// Makes the commit of a capture, which follows `previous` in its group.
pub(crate) fn build_capture_commit(
    content: &CaptureContent,
    previous: Option<Oid>,
    mode: CaptureMode,
    group: &PinGroup,
    now: EpochMillis,
) -> Commit {
    Commit {
        tree: content.tree,
        parents: previous.into_iter().chain([content.coverage_commit]).collect(),
        seconds: now.0.div_euclid(1000),
        message: format!(
            "capture\n\nTurnstone-Group: {}\nTurnstone-Mode: {}\nTurnstone-Files: {}\n\
             Turnstone-Time: {}\n",
            group.name(),
            mode.as_str(),
            content.files,
            now.0
        ),
    }
}

/// Pins the files a restore will write, so that nothing it needs can go while it runs.
pub(crate) fn pin_restore_targets(
    store: &SnapshotStore,
    files: &[(RelPath, TreeLeaf)],
    merges: &[Vec<u8>],
    group: &PinGroup,
    now: EpochMillis,
) -> Result<(), CaptureError> {
    let _held = store.lock_objects_shared();
    let mut writer = store.repository.new_pack_writer()?;
    let known = store.repository.existence_check();
    for bytes in merges {
        let packed = PackedObject::new(ObjectKind::Blob, bytes)?;
        if !known(&packed.oid) {
            writer.add(&packed)?;
        }
    }
    store.write_named_capture(files, named_coverage(), true, writer, group, now)?;
    Ok(())
}

/// Makes the commit of a coverage, which is the same for equal coverages.
pub(crate) fn build_coverage_commit(
    coverage: &CaptureCoverage,
    known: &dyn Fn(&Oid) -> bool,
    made: &mut Vec<PackedObject>,
) -> io::Result<Oid> {
    let text = serde_json::to_vec(coverage)?;
    let blob = PackedObject::new(ObjectKind::Blob, &text)?;
    let mut line = format!("100644 {COVERAGE_FILE}\0").into_bytes();
    line.extend_from_slice(&blob.oid.0);
    let tree = PackedObject::new(ObjectKind::Tree, &line)?;
    let message = "coverage\n".to_owned();
    let commit = Commit { tree: tree.oid, parents: Vec::new(), seconds: 0, message };
    let commit = PackedObject::new(ObjectKind::Commit, &commit.encode())?;
    let id = commit.oid;
    made.extend([blob, tree, commit].into_iter().filter(|packed| !known(&packed.oid)));
    Ok(id)
}

fn named_coverage() -> CaptureCoverage {
    CaptureCoverage { scope: CaptureScope::Named, ..CaptureCoverage::default() }
}

pub(crate) fn capture_time(commit: &Commit) -> EpochMillis {
    let written = commit.trailer("Turnstone-Time").and_then(|text| text.parse().ok());
    EpochMillis(written.unwrap_or(commit.seconds.saturating_mul(1000)))
}

/// The id of a capture: the name its commit had before expiry rewrote it.
pub(crate) fn capture_id(oid: &Oid, commit: &Commit) -> Oid {
    commit.trailer(ID_TRAILER).and_then(|text| text.parse().ok()).unwrap_or(*oid)
}
