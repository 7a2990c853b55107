//! The chain: how captures are written down, found and listed.
//!
//! A capture is a commit (R9). Its first parent is the capture before it in its pin group; its last
//! parent is a commit of its coverage, shared by all captures with the same one, so that whatever
//! keeps the reference keeps both.

use std::io;
use std::sync::{Arc, PoisonError};

use fail::fail_point;
use gix::objs::Kind as ObjectKind;
use turnstone_core::time::Millis;

use crate::capture::{Capture, CaptureError, Captured, Content, Mode, Seen};
use crate::coverage::{Coverage, Scope};
use crate::expire::ID_TRAILER;
use crate::group::Group;
use crate::object::{Commit, Leaf, ObjectError, Oid, Packed, TreeEntry, Writer, build};
use crate::path::RelPath;
use crate::shadow::Shadow;
use crate::watch::JournalState;

const COVERAGE_FILE: &str = "coverage.json";
/// A pack with more bytes becomes durable before anybody has to wait for it.
const LARGE: u64 = 1 << 20;

impl Shadow {
    /// Writes the capture of some files down.
    pub(crate) fn write(
        &self,
        leaves: &[(RelPath, Leaf)],
        coverage: Coverage,
        is_guard: bool,
        writer: Writer,
        group: &Group,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        let known = self.repository.known();
        let mut made = Vec::new();
        let tree = build(leaves, &mut |oid| known(oid), &mut made)?;
        let about = self.describe(&coverage, &known, &mut made)?;
        let content = Content { tree, coverage: Arc::new(coverage), about, files: leaves.len() };
        let seen = Seen {
            changed: leaves.len(),
            reused: 0,
            mode: Mode::Named,
            journal: JournalState::Off,
            is_guard,
        };
        self.record(&content, &made, seen, writer, group, now)
    }

    /// Writes a capture down: pack, then reference; or finds that it is the group's last one.
    pub(crate) fn record(
        &self,
        content: &Content,
        made: &[Packed],
        seen: Seen,
        mut writer: Writer,
        group: &Group,
        now: Millis,
    ) -> Result<Captured, CaptureError> {
        made.iter().try_for_each(|packed| writer.add(packed))?;
        let mut early = None;
        if writer.bytes() > LARGE {
            // Nobody who writes a few named files waits for all of this to become durable (R6).
            self.admit(writer.bytes(), seen.is_guard)?;
            early = Some(self.repository.publish(writer, &content.tree)?);
            writer = self.repository.writer()?;
        }
        let chain = self.chain.lock().unwrap_or_else(PoisonError::into_inner);
        let tip = self.repository.find_ref(group.reference())?;
        let last = tip.map(|tip| self.repository.read_commit(&tip)).transpose()?;
        let Content { tree, coverage, about, files } = content;
        let captured = |id, time, is_new| Captured {
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
            return Ok(captured(id_of(&tip, last), time_of(last), false));
        }
        let commit = Commit {
            tree: *tree,
            parents: tip.into_iter().chain([*about]).collect(),
            seconds: now.0.div_euclid(1000),
            message: format!(
                "capture\n\nTurnstone-Group: {}\nTurnstone-Mode: {}\nTurnstone-Files: {files}\n\
                 Turnstone-Time: {}\n",
                group.name(),
                seen.mode.name(),
                now.0
            ),
        };
        let commit = Packed::new(ObjectKind::Commit, &commit.encode())?;
        let id = commit.oid;
        writer.add(&commit)?;
        self.admit(writer.bytes(), seen.is_guard)?;
        let held = self.repository.publish(writer, &id)?;
        fail_point!("snapshot::published", |_| Err(io::Error::other("failpoint").into()));
        self.repository.write_ref(group.reference(), &id)?;
        drop((early, held, chain));
        Ok(captured(id, now, true))
    }

    /// Pins the files a restore will write, so that nothing it needs can go while it runs.
    pub(crate) fn pin(
        &self,
        files: &[(RelPath, Leaf)],
        merges: &[Vec<u8>],
        group: &Group,
        now: Millis,
    ) -> Result<(), CaptureError> {
        let _held = self.hold_objects();
        let mut writer = self.repository.writer()?;
        let known = self.repository.known();
        for bytes in merges {
            let packed = Packed::new(ObjectKind::Blob, bytes)?;
            if !known(&packed.oid) {
                writer.add(&packed)?;
            }
        }
        self.write(files, named_coverage(), true, writer, group, now)?;
        Ok(())
    }

    /// Makes the commit of a coverage, which is the same for equal coverages.
    pub(crate) fn describe(
        &self,
        coverage: &Coverage,
        known: &dyn Fn(&Oid) -> bool,
        made: &mut Vec<Packed>,
    ) -> io::Result<Oid> {
        let text = serde_json::to_vec(coverage)?;
        let blob = Packed::new(ObjectKind::Blob, &text)?;
        let mut line = format!("100644 {COVERAGE_FILE}\0").into_bytes();
        line.extend_from_slice(&blob.oid.0);
        let tree = Packed::new(ObjectKind::Tree, &line)?;
        let message = "coverage\n".to_owned();
        let commit = Commit { tree: tree.oid, parents: Vec::new(), seconds: 0, message };
        let commit = Packed::new(ObjectKind::Commit, &commit.encode())?;
        let id = commit.oid;
        made.extend([blob, tree, commit].into_iter().filter(|packed| !known(&packed.oid)));
        Ok(id)
    }

    /// Finds a capture by its id.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Missing`] if this store has none of that id.
    pub fn get_capture(&self, id: &Oid) -> Result<Capture, ObjectError> {
        let commit = self.read_capture(id)?;
        let corrupt = || ObjectError::Corrupt(*id);
        let about = self.repository.read_commit(commit.parents.last().ok_or_else(corrupt)?)?;
        let lines = self.repository.read_tree(&about.tree)?;
        let blob = lines.iter().find_map(|(name, entry)| match entry {
            TreeEntry::Leaf(leaf) if name == COVERAGE_FILE.as_bytes() => Some(leaf.blob),
            TreeEntry::Leaf(_) | TreeEntry::Tree(_) => None,
        });
        let (_, text) = self.repository.read(&blob.ok_or_else(corrupt)?)?;
        let coverage = Arc::new(serde_json::from_slice(&text).map_err(|_| corrupt())?);
        Ok(Capture { id: *id, tree: commit.tree, coverage, time: time_of(&commit) })
    }

    /// Lists the captures of a pin group, newest first.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub fn list_captures(&self, group: &Group) -> Result<Vec<Oid>, ObjectError> {
        let commits = self.read_chain(group)?;
        Ok(commits.iter().map(|(oid, commit)| id_of(oid, commit)).collect())
    }
}

fn named_coverage() -> Coverage {
    Coverage { scope: Scope::Named, ..Coverage::default() }
}

pub(crate) fn time_of(commit: &Commit) -> Millis {
    let written = commit.trailer("Turnstone-Time").and_then(|text| text.parse().ok());
    Millis(written.unwrap_or(commit.seconds.saturating_mul(1000)))
}

/// The id of a capture: the name its commit had before any expiry wrote it anew.
pub(crate) fn id_of(oid: &Oid, commit: &Commit) -> Oid {
    commit.trailer(ID_TRAILER).and_then(|text| text.parse().ok()).unwrap_or(*oid)
}
