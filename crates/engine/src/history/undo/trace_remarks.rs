//! What the traces of undone commands tell about files that an undo leaves alone.

use serde::{Deserialize, Serialize};
use turnstone_core::change::{BoundedPaths, ChangeRoot};
use turnstone_core::id::TurnId;
use turnstone_core::operation::UndoExtent;

use super::selection::ChangeSetUndoState;

/// What others changed while a traced command ran: an undo of the command leaves it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignChanges {
    /// Where.
    pub root: ChangeRoot,
    /// The turn of the command.
    pub turn: TurnId,
    /// The paths.
    pub paths: BoundedPaths,
}

/// Finds what others changed while the commands of change sets ran that are to be undone.
pub(super) fn find_foreign_changes(changes: &[ChangeSetUndoState]) -> Vec<ForeignChanges> {
    let undone = changes.iter().filter(|selected| selected.wanted != UndoExtent::Nothing);
    let foreign = |selected: &ChangeSetUndoState| {
        let set = &selected.row.set;
        let paths = set.trace.as_ref().map(|trace| &trace.others)?;
        let (root, turn, paths) = (set.root.clone(), set.turn.clone(), paths.clone());
        (!paths.is_empty()).then_some(ForeignChanges { root, turn, paths })
    };
    undone.filter_map(foreign).collect()
}
