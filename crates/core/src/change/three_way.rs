//! Three-way steps: the history of one path as steps of an undo or redo (R4).

use super::FileImage;

/// Direction in which a range is processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepDirection {
    /// Undo: newest first, from after to before.
    Undo,
    /// Redo: oldest first, from before to after.
    Redo,
}

/// One three-way step: `base` becomes `target`, and later changes to the file are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreeWayStep {
    /// Content of the path if it has not changed since.
    pub base: FileImage,
    /// Content after the step.
    pub target: FileImage,
}

/// Builds the steps for one path from its changes, given oldest first as `(before, after)`.
///
/// Two changes become one step only if the second began where the first ended: otherwise the
/// file was changed in between, and two steps keep that change.
#[must_use]
pub fn three_way_steps(
    changes: &[(FileImage, FileImage)],
    direction: StepDirection,
) -> Vec<ThreeWayStep> {
    let mut runs: Vec<(FileImage, FileImage)> = Vec::new();
    for (before, after) in changes {
        match runs.last_mut() {
            Some(run) if run.1 == *before => run.1.clone_from(after),
            _ => runs.push((before.clone(), after.clone())),
        }
    }
    let link = |(before, after): (FileImage, FileImage)| match direction {
        StepDirection::Undo => ThreeWayStep { base: after, target: before },
        StepDirection::Redo => ThreeWayStep { base: before, target: after },
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
    use crate::change::FileMode;

    fn file(blob: &str) -> FileImage {
        FileImage::Present { blob: blob.to_owned(), mode: FileMode::File, perm: 0o644 }
    }

    fn shown(links: &[ThreeWayStep]) -> Vec<(FileImage, FileImage)> {
        links.iter().map(|link| (link.base.clone(), link.target.clone())).collect()
    }

    /// Proves R4.
    #[test]
    fn adjacent_changes_become_one_step() {
        let changes =
            [(FileImage::Absent, file("a")), (file("a"), file("b")), (file("b"), file("c"))];

        let back = three_way_steps(&changes, StepDirection::Undo);
        assert_eq!(shown(&back), [(file("c"), FileImage::Absent)]);
        let forth = three_way_steps(&changes, StepDirection::Redo);
        assert_eq!(shown(&forth), [(FileImage::Absent, file("c"))]);
    }

    /// Proves R4.
    #[test]
    fn foreign_edit_in_between_splits_steps() {
        // Between the two changes a person turned b into x.
        let changes = [(file("a"), file("b")), (file("x"), file("y"))];

        let back = three_way_steps(&changes, StepDirection::Undo);
        assert_eq!(shown(&back), [(file("y"), file("x")), (file("b"), file("a"))]);
        let forth = three_way_steps(&changes, StepDirection::Redo);
        assert_eq!(shown(&forth), [(file("a"), file("b")), (file("x"), file("y"))]);
    }

    #[test]
    fn no_changes_give_no_steps() {
        assert!(three_way_steps(&[], StepDirection::Undo).is_empty());
    }
}
