//! Plans: what would be written, removed, merged, left alone; pure, from facts obtained first.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use super::merge::{Merged, merge};
use super::report::{Conflict, Why};
use crate::capture::{Capture, CaptureError};
use crate::coverage::Reason;
use crate::diff::Change;
use crate::hash::{Look, look};
use crate::image::Image;
use crate::object::{Leaf, LeafMode, ObjectError, Oid};
use crate::path::RelPath;
use crate::shadow::Shadow;

/// Why nothing was restored. No file has changed, except under [`Self::Unfinished`].
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// A tree or a file that is needed cannot be read: nothing is deleted on that account.
    #[error("what is to be restored cannot be read from the store")]
    Object(#[from] ObjectError),
    /// The present bytes could not be kept.
    #[error("the guard could not be made")]
    Guard(#[from] CaptureError),
    /// The plan could not be stored, or not be read.
    #[error("the plan could not be stored")]
    Io(#[from] io::Error),
    /// The disk refused half way: files were written that could neither be taken back nor made
    /// durable. The plan is kept, and [`Shadow::resume`] finishes it.
    #[error("the restore stopped half way; resume to finish")]
    Unfinished(#[source] io::Error),
}

/// What is wanted of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wish {
    /// Where.
    pub path: RelPath,
    /// The steps to what it should hold, each from where the one before led.
    pub links: Vec<WishLink>,
}

/// One step of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WishLink {
    /// What the path held when whatever is to be taken back had been done: changes since then are
    /// kept (three-way). Nothing: whatever is there makes way.
    pub base: Option<Image>,
    /// What it should hold.
    pub target: Image,
    /// Steps that are gone in memory first: the base is where they lead from what it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_by: Vec<WishLink>,
    /// The same for the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_by: Vec<WishLink>,
}

impl WishLink {
    /// A step between two images.
    #[must_use]
    pub const fn new(base: Option<Image>, target: Image) -> Self {
        Self { base, target, base_by: Vec::new(), target_by: Vec::new() }
    }
}

impl Wish {
    /// A wish of one step.
    #[must_use]
    pub fn new(path: RelPath, base: Option<Image>, target: Image) -> Self {
        Self { path, links: vec![WishLink::new(base, target)] }
    }
}

/// What a path holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No file.
    Absent,
    /// A file or a link.
    Present {
        /// Its bytes and mode.
        leaf: Leaf,
        /// Its permission bits; zero for a link.
        perm: u32,
    },
}

/// One path that will be written or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Where.
    pub path: RelPath,
    /// What it holds now; if it holds anything else when its turn comes, it is left alone.
    pub expected: State,
    /// What it will hold.
    pub target: State,
    /// True if the target is a merge with changes made since.
    pub merged: bool,
}

/// What a restore would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Paths to write or remove, sorted.
    pub steps: Vec<Step>,
    /// Paths that would be left as they are.
    pub conflicts: Vec<Conflict>,
    /// Paths that already hold what is wanted.
    pub unchanged: Vec<RelPath>,
    /// Paths nothing can be said of.
    pub not_covered: Vec<(RelPath, Reason)>,
    /// The bytes of merges, which no capture holds yet.
    pub merges: Vec<Vec<u8>>,
}

impl Plan {
    /// What takes this plan back: each path as it was, changes made since kept.
    #[must_use]
    pub fn inverse(&self) -> Vec<Wish> {
        let image = |state: &State| match state {
            State::Absent => Image::Absent,
            State::Present { leaf, perm } => Image::Present { leaf: *leaf, perm: *perm },
        };
        let wish = |step: &Step| {
            Wish::new(step.path.clone(), Some(image(&step.target)), image(&step.expected))
        };
        self.steps.iter().map(wish).collect()
    }
}

impl Shadow {
    /// Plans to bring paths to what is wished, keeping what was changed since.
    ///
    /// # Errors
    ///
    /// [`RestoreError::Object`] if anything that is needed cannot be read whole.
    pub fn plan(&self, wishes: &[Wish]) -> Result<Plan, RestoreError> {
        let wished: BTreeSet<&RelPath> = wishes.iter().map(|wish| &wish.path).collect();
        let by_path: BTreeMap<&RelPath, &Wish> =
            wishes.iter().map(|wish| (&wish.path, wish)).collect();
        let mut plan = Plan::default();
        for wish in by_path.values() {
            for leaf in wish.links.iter().filter_map(|link| link.target.leaf()) {
                self.repository.read_verified(&leaf.blob, Kind::Blob)?;
            }
            let disk = match look(&self.worktree, &wish.path) {
                // The link above it is to go by the same plan; then nothing is in the way.
                Look::Uncovered(Reason::BehindLink)
                    if wish.path.ancestors().any(|above| wished.contains(&above)) =>
                {
                    Look::Absent
                }
                disk @ (Look::Present(..) | Look::Absent | Look::Uncovered(_)) => disk,
            };
            self.decide(&mut plan, wish, disk)?;
        }
        Ok(plan)
    }

    /// Walks the steps of a wish in memory; the path is written once, or not at all (R4).
    fn decide(&self, plan: &mut Plan, wish: &Wish, disk: Look) -> Result<(), RestoreError> {
        let path = wish.path.clone();
        let (expected, data) = match disk {
            Look::Absent => (State::Absent, Vec::new()),
            Look::Present(stat, leaf, data) => {
                let perm = if leaf.mode == LeafMode::Link { 0 } else { stat.perm };
                (State::Present { leaf, perm }, data)
            }
            Look::Uncovered(reason) => {
                plan.not_covered.push((path, reason));
                return Ok(());
            }
        };
        let mut at = Walked { state: expected, data: Some(data), merged: false };
        match self.follow(&mut at, &wish.links)? {
            Ok(()) => {}
            Err(Stopped::Conflict(why)) => {
                plan.conflicts.push(Conflict { path, why });
                return Ok(());
            }
            Err(Stopped::NotCovered(reason)) => {
                plan.not_covered.push((path, reason));
                return Ok(());
            }
        }
        if at.state == expected {
            plan.unchanged.push(path);
            return Ok(());
        }
        let Walked { state: target, data, merged } = at;
        if merged {
            plan.merges.extend(data);
        } else if wish.links.iter().any(|link| !link.target_by.is_empty()) {
            // It is none of the targets that were looked at.
            self.stored_bytes(target)?;
        }
        plan.steps.push(Step { path, expected, target, merged });
        Ok(())
    }

    /// Goes steps in memory, until one cannot be gone.
    fn follow(
        &self,
        at: &mut Walked,
        links: &[WishLink],
    ) -> Result<Result<(), Stopped>, RestoreError> {
        for link in links {
            let base = match &link.base {
                Some(base) => self.derive(base, &link.base_by)?.map(Some),
                None => Ok(None),
            };
            let (base, target) = match (base, self.derive(&link.target, &link.target_by)?) {
                (Ok(base), Ok(target)) => (base, target),
                (Err(why), _) | (_, Err(why)) => return Ok(Err(why)),
            };
            if let Err(why) = self.walk_link(at, base.as_ref(), target)? {
                return Ok(Err(Stopped::Conflict(why)));
            }
        }
        Ok(Ok(()))
    }

    /// Where steps lead from an image.
    fn derive(
        &self,
        image: &Image,
        by: &[WishLink],
    ) -> Result<Result<Walked, Stopped>, RestoreError> {
        let mut at = match known(image) {
            Ok(state) => Walked { state, data: None, merged: false },
            Err(reason) => return Ok(Err(Stopped::NotCovered(reason))),
        };
        Ok(self.follow(&mut at, by)?.map(|()| at))
    }

    /// Goes one step: restores, merges, finds it done already, or says why it cannot be gone.
    fn walk_link(
        &self,
        at: &mut Walked,
        base: Option<&Walked>,
        target: Walked,
    ) -> Result<Result<(), Why>, RestoreError> {
        let from = base.map(|base| base.state);
        // Done already, or a step that leads nowhere: whatever is there now came later and stays.
        if at.state == target.state || from == Some(target.state) {
            return Ok(Ok(()));
        }
        if from.is_none_or(|base| leaf_of(base) == leaf_of(at.state)) {
            *at = target;
        } else if leaf_of(at.state) != leaf_of(target.state) {
            match self.join(base, at, &target)? {
                Ok((state, bytes)) => *at = Walked { state, data: Some(bytes), merged: true },
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(()))
    }

    fn stored_bytes(&self, state: State) -> Result<Vec<u8>, RestoreError> {
        match leaf_of(state) {
            Some(leaf) => Ok(self.repository.read_verified(&leaf.blob, Kind::Blob)?),
            None => Ok(Vec::new()),
        }
    }

    /// Merges what is there with what is wanted, if both are text.
    fn join(
        &self,
        base: Option<&Walked>,
        disk: &Walked,
        target: &Walked,
    ) -> Result<Result<(State, Vec<u8>), Why>, RestoreError> {
        let Some(base) = base else { return Ok(Err(Why::NotMergeable)) };
        let sides = [base.state, disk.state, target.state].map(leaf_of);
        let [Some(was), Some(ours), Some(theirs)] = sides else {
            return Ok(Err(Why::NotMergeable));
        };
        if [was, ours, theirs].iter().any(|leaf| leaf.mode == LeafMode::Link) {
            return Ok(Err(Why::NotMergeable));
        }
        let read = |side: &Walked| match &side.data {
            Some(data) => Ok(data.clone()),
            None => self.stored_bytes(side.state),
        };
        let bytes = match merge(&read(base)?, &read(disk)?, &read(target)?) {
            Merged::Text(bytes) => bytes,
            Merged::Overlap => return Ok(Err(Why::Overlap)),
            Merged::NotText => return Ok(Err(Why::NotMergeable)),
        };
        // The mode is a change like any other: whoever changed it last against the base has it.
        let kept = if ours.mode == was.mode { target.state } else { disk.state };
        let (mode, perm) = match kept {
            State::Present { leaf, perm } => (leaf.mode, perm),
            State::Absent => (ours.mode, 0o600),
        };
        let blob = Oid::of(Kind::Blob, &bytes)?;
        Ok(Ok((State::Present { leaf: Leaf { blob, mode }, perm }, bytes)))
    }

    /// Plans to make the worktree, or some paths of it, equal to `target`; `now` is a fresh capture.
    ///
    /// With `keep_added`, files that `target` does not have stay.
    ///
    /// # Errors
    ///
    /// As [`Shadow::plan`].
    pub fn plan_restore(
        &self,
        target: &Capture,
        now: &Capture,
        paths: Option<&BTreeSet<RelPath>>,
        keep_added: bool,
    ) -> Result<Plan, RestoreError> {
        let chosen = |path: &RelPath| {
            paths.is_none_or(|paths| {
                paths.contains(path) || path.ancestors().any(|above| paths.contains(&above))
            })
        };
        let mut changes = self.changes(now, target)?;
        changes.extend(self.permission_changes(now, target)?);
        let wishes: Vec<Wish> = changes
            .into_iter()
            .filter(|change| chosen(&change.path))
            .filter(|change| !(keep_added && change.after == Image::Absent))
            .map(|change| {
                let base = matches!(change.before, Image::Uncovered { .. });
                Wish::new(change.path, base.then_some(change.before), change.after)
            })
            .collect();
        self.plan(&wishes)
    }
}

impl Shadow {
    /// Lists files whose bytes are the same and whose permission bits are not (R18).
    pub(crate) fn permission_changes(
        &self,
        one: &Capture,
        other: &Capture,
    ) -> Result<Vec<Change>, ObjectError> {
        let (before, after) = (&one.coverage.permissions, &other.coverage.permissions);
        if before == after {
            return Ok(Vec::new());
        }
        let images = |(path, leaf): (RelPath, Leaf), also: Option<Leaf>| {
            let before = Image::present(one, &path, leaf);
            let after = Image::present(other, &path, leaf);
            (also == Some(leaf) && before != after).then_some(Change { path, before, after })
        };
        if (before.file, before.exec) != (after.file, after.exec) {
            // What is usual is another now, so any file may differ.
            let mut also = self.leaves(&other.tree)?;
            let leaves = self.leaves(&one.tree)?.into_iter();
            let change = |found: (RelPath, Leaf)| {
                let also = also.remove(&found.0);
                images(found, also)
            };
            return Ok(leaves.filter_map(change).collect());
        }
        let listed: BTreeSet<&(RelPath, u32)> = before.other.iter().collect();
        let relisted: BTreeSet<&(RelPath, u32)> = after.other.iter().collect();
        let paths: BTreeSet<&RelPath> =
            listed.symmetric_difference(&relisted).map(|(path, _)| path).collect();
        let mut found = Vec::new();
        for path in paths {
            if let Some(leaf) = self.image(one, path)?.leaf() {
                let also = self.image(other, path)?.leaf();
                found.extend(images((path.clone(), leaf), also));
            }
        }
        Ok(found)
    }
}

/// Where the walk along the steps of a wish has come.
struct Walked {
    state: State,
    /// The bytes, unless the store has them.
    data: Option<Vec<u8>>,
    merged: bool,
}

/// Why a walk goes no further.
enum Stopped {
    Conflict(Why),
    NotCovered(Reason),
}

/// An image on which something may be built; otherwise the reason.
fn known(image: &Image) -> Result<State, Reason> {
    match image {
        Image::Present { leaf, perm } => Ok(State::Present { leaf: *leaf, perm: *perm }),
        Image::Absent => Ok(State::Absent),
        Image::Uncovered { reason } => Err(*reason),
    }
}

pub(super) fn leaf_of(state: State) -> Option<Leaf> {
    match state {
        State::Present { leaf, .. } => Some(leaf),
        State::Absent => None,
    }
}
