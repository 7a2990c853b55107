//! What `exec` says about the other worktrees of the project.

use turnstone_engine::ClosedCall;

use crate::number_format;
use crate::text;
use crate::ui::{Ui, WARNING_STYLE, apply_style};

/// Files that are named one by one.
const MAX_NAMED_FILES: usize = 10;

/// Says what a command changed in other worktrees, and what is not known; the latter once for each session.
pub(super) fn print_notes(ui: &mut Ui, closed: Option<&ClosedCall>, is_new: bool) {
    let Some(closed) = closed else { return };
    let mark = apply_style(WARNING_STYLE, "turnstone:");
    let recorded: usize = closed.other_roots.iter().map(|other| other.changes.len()).sum();
    if recorded > 0 {
        let count = number_format::format_counted(recorded, "change");
        ui.print_note(&format!(
            "{mark} {count} in other worktrees of this project belong to this turn"
        ));
    }
    for path in closed.unclaimed.iter().take(MAX_NAMED_FILES) {
        let path = text::sanitize_line(&path.to_string_lossy());
        ui.print_note(&format!(
            "{mark} {path} in another worktree changed meanwhile. The command was not traced, so the change \
             does not belong to this turn"
        ));
    }
    if closed.unclaimed.len() > MAX_NAMED_FILES {
        let more = closed.unclaimed.len() - MAX_NAMED_FILES;
        ui.print_note(&format!("{mark} and {}", number_format::format_counted(more, "more file")));
    }
    for root in closed.uncompared.iter().filter(|_| is_new) {
        let root = text::sanitize_line(&root.to_string_lossy());
        ui.print_note(&format!("{mark} changes in the other worktree {root} are not recorded"));
    }
}
