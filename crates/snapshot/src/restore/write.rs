//! Writes on behalf of a tool: the same swap and judgement, without an operation of their own.

use fail::fail_point;
use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use super::plan::{Plan, RestoreError, State, Step};
use super::report::Report;
use super::stored::{Stored, mint};
use crate::coverage::Reason;
use crate::hash::{Look, look};
use crate::image::Image;
use crate::object::{Leaf, LeafMode, Oid};
use crate::path::RelPath;
use crate::shadow::Shadow;

/// The permission bits of a file nobody had before.
const USUAL: u32 = 0o644;

/// A file a tool wants to have other bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileWrite {
    /// Which.
    pub path: RelPath,
    /// What the tool believes is there; anything else is left alone.
    pub expected: Image,
    /// The new bytes; nothing removes the file.
    pub bytes: Option<Vec<u8>>,
}

/// What is at a path at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its image; uncovered if it cannot be looked at.
    pub image: Image,
    /// Its bytes, if it is a file or a link.
    pub bytes: Option<Vec<u8>>,
    /// When it was last written, in milliseconds since the epoch.
    pub modified: Option<i64>,
}

impl Shadow {
    /// Looks at one path, following no link.
    #[must_use]
    pub fn see(&self, path: &RelPath) -> Seen {
        match look(&self.worktree, path) {
            Look::Absent => Seen { image: Image::Absent, bytes: None, modified: None },
            Look::Uncovered(reason) => {
                Seen { image: Image::Uncovered { reason }, bytes: None, modified: None }
            }
            Look::Present(stat, leaf, data) => {
                let perm = if leaf.mode == LeafMode::Link { 0 } else { stat.perm };
                let image = Image::Present { leaf, perm };
                Seen { image, bytes: Some(data), modified: Some(stat.mtime / 1_000_000) }
            }
        }
    }

    /// Writes files that still hold what their writer believes; the others are conflicts.
    ///
    /// `guard` is a capture that holds the present bytes: the caller made and keeps it, and nothing
    /// is written that is not in it. After a crash, [`Shadow::resume`] finishes the work.
    ///
    /// # Errors
    ///
    /// See [`RestoreError`]; no file has changed, except under [`RestoreError::Unfinished`].
    pub fn write_files(&self, writes: &[FileWrite], guard: &Oid) -> Result<Report, RestoreError> {
        let mut plan = Plan::default();
        for write in writes {
            let expected = match write.expected {
                Image::Present { leaf, perm } => State::Present { leaf, perm },
                Image::Absent => State::Absent,
                Image::Uncovered { reason } => {
                    plan.not_covered.push((write.path.clone(), reason));
                    continue;
                }
            };
            let target = target(expected, write.bytes.as_deref())?;
            let path = write.path.clone();
            if target == expected {
                plan.unchanged.push(path);
                continue;
            }
            plan.merges.extend(write.bytes.clone());
            plan.steps.push(Step { path, expected, target, merged: write.bytes.is_some() });
        }
        self.worktree.check().map_err(|error| RestoreError::Guard(error.into()))?;
        let guard = self.get_capture(guard)?;
        let stored = Stored { id: mint()?, guard: guard.id, plan, left: None, entry: None };
        stored.save(&self.folder)?;
        fail_point!("snapshot::write_stored", |_| Err(std::io::Error::other("failpoint").into()));
        self.run(&stored, &guard)
    }
}

/// The file with its new bytes: what it was, it stays.
fn target(expected: State, bytes: Option<&[u8]>) -> Result<State, RestoreError> {
    let Some(bytes) = bytes else {
        return Ok(State::Absent);
    };
    let blob = Oid::of(Kind::Blob, bytes)?;
    let (mode, perm) = match expected {
        State::Present { leaf, perm } if leaf.mode != LeafMode::Link => (leaf.mode, perm),
        State::Present { .. } | State::Absent => (LeafMode::File, USUAL),
    };
    Ok(State::Present { leaf: Leaf { blob, mode }, perm })
}

impl Seen {
    /// Why it cannot be looked at, if it cannot.
    #[must_use]
    pub const fn uncovered(&self) -> Option<Reason> {
        match self.image {
            Image::Uncovered { reason } => Some(reason),
            Image::Present { .. } | Image::Absent => None,
        }
    }
}
