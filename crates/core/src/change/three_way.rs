//! Three-way steps: the history of one path as steps of an undo or redo (R4).

use serde::{Deserialize, Serialize};

use super::PathImage;

/// Direction in which a range is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDirection {
    /// Undo: newest first, from after to before.
    Undo,
    /// Redo: oldest first, from before to after.
    Redo,
}

/// One three-way step: where the path still holds `base`, it gets `target`; changes made since stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreeWayStep {
    /// What the path held when the changes to be undone had been made: changes since then are kept.
    /// `None`: the target replaces any content.
    pub base: Option<PathImage>,
    /// What the path should hold.
    pub target: PathImage,
    /// Steps applied to `base` in memory first; their result is the base.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_by: Vec<ThreeWayStep>,
    /// Steps applied to `target` in memory first; their result is the target.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_by: Vec<ThreeWayStep>,
}

impl ThreeWayStep {
    /// A step between two images.
    #[must_use]
    pub const fn new(base: Option<PathImage>, target: PathImage) -> Self {
        Self { base, target, base_by: Vec::new(), target_by: Vec::new() }
    }
}

/// Builds the steps for one path from its changes, given oldest first as `(before, after)`.
///
/// Two changes become one step only if the second began where the first ended: otherwise the
/// file was changed in between, and two steps keep that change.
#[must_use]
pub fn three_way_steps(
    changes: &[(PathImage, PathImage)],
    direction: StepDirection,
) -> Vec<ThreeWayStep> {
    let mut runs: Vec<(PathImage, PathImage)> = Vec::new();
    for (before, after) in changes {
        match runs.last_mut() {
            Some(run) if run.1 == *before => run.1 = *after,
            _ => runs.push((*before, *after)),
        }
    }
    let link = |(before, after): (PathImage, PathImage)| match direction {
        StepDirection::Undo => ThreeWayStep::new(Some(after), before),
        StepDirection::Redo => ThreeWayStep::new(Some(before), after),
    };
    let links = runs.into_iter().map(link);
    match direction {
        StepDirection::Undo => links.rev().collect(),
        StepDirection::Redo => links.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{FileMode, Oid, TreeLeaf};

    fn file(blob: &str) -> PathImage {
        let blob = Oid([blob.as_bytes()[0]; 20]);
        PathImage::Present { leaf: TreeLeaf { blob, mode: FileMode::File }, perm: 0o644 }
    }

    fn image_pairs(links: &[ThreeWayStep]) -> Vec<(PathImage, PathImage)> {
        links.iter().filter_map(|link| Some((link.base?, link.target))).collect()
    }

    /// Proves R4.
    #[test]
    fn adjacent_changes_become_one_step() {
        let changes =
            [(PathImage::Absent, file("a")), (file("a"), file("b")), (file("b"), file("c"))];

        let back = three_way_steps(&changes, StepDirection::Undo);
        assert_eq!(image_pairs(&back), [(file("c"), PathImage::Absent)]);
        let forth = three_way_steps(&changes, StepDirection::Redo);
        assert_eq!(image_pairs(&forth), [(PathImage::Absent, file("c"))]);
    }

    /// Proves R4.
    #[test]
    fn foreign_edit_in_between_splits_steps() {
        // Between the two changes a person turned b into x.
        let changes = [(file("a"), file("b")), (file("x"), file("y"))];

        let back = three_way_steps(&changes, StepDirection::Undo);
        assert_eq!(image_pairs(&back), [(file("y"), file("x")), (file("b"), file("a"))]);
        let forth = three_way_steps(&changes, StepDirection::Redo);
        assert_eq!(image_pairs(&forth), [(file("a"), file("b")), (file("x"), file("y"))]);
    }

    #[test]
    fn no_changes_give_no_steps() {
        assert!(three_way_steps(&[], StepDirection::Undo).is_empty());
    }
}
