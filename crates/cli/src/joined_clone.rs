//! What a clone takes over from the project it joined, said where the person works in it.

use std::path::Path;

use turnstone_core::model::Project;
use turnstone_core::permission::RuleAction;
use turnstone_engine::Engine;
use turnstone_store::Context;

use crate::error::CliError;
use crate::number_format;
use crate::text;
use crate::ui::Ui;

/// Says that a directory is an unconfirmed clone of a known project, and how many of its allowances do not
/// hold there.
///
/// # Errors
///
/// The database cannot be read.
pub(crate) fn print_joined_clone(
    ui: &mut Ui,
    engine: &Engine,
    ctx: &Context,
    project: &Project,
    directory: &Path,
) -> Result<(), CliError> {
    if project.find_joined_clone(directory).is_none() {
        return Ok(());
    }
    let approved = engine.permissions().rules().list_approvals(ctx, &project.id)?;
    let stored = project.permission.clone().unwrap_or_default();
    let all: Vec<_> = stored.into_iter().chain(approved).collect();
    let allows = all.iter().filter(|rule| rule.action == RuleAction::Allow).count();
    let here = project.rules_in(directory, all);
    let held = allows - here.iter().filter(|rule| rule.action == RuleAction::Allow).count();
    let (id, home) = (&project.id, text::sanitize_line(&project.worktree));
    ui.print_note(&format!("turnstone: this clone belongs to the project {id} of {home}"));
    if held > 0 {
        let count = number_format::format_counted(held, "permission");
        ui.print_note(&format!("turnstone: {count} allowed there not in effect in this clone"));
        ui.print_hint(&format!("`turnstone project relink {id} .` puts them into effect"));
    }
    Ok(())
}
