//! `turnstone snapshot verify` and `git-dir`

use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::directory_store::DirectoryStore;
use super::list::to_json;
use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::ui::{ERROR_STYLE, Ui, apply_style};

pub(super) fn run(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let verified = store.handle.reader().verify_objects()?;
    let exit = if verified.damaged.is_empty() { ProgramExit::Ok } else { ProgramExit::Refused };
    if ui.wants_json() {
        ui.print_json(&to_json(&verified)?)?;
        return Ok(exit);
    }
    for damage in &verified.damaged {
        let (object, what, group) = (damage.object, &damage.what, &damage.group);
        ui.print_line(&format!(
            "{}  {object}  {what} (pinned by {group})",
            apply_style(ERROR_STYLE, "damaged")
        ))?;
    }
    let captures = number_format::format_counted(verified.captures, "capture");
    let objects = number_format::format_counted(verified.objects, "object");
    if verified.damaged.is_empty() {
        ui.print_note(&format!("verified {captures}, {objects}: no damage"));
    } else {
        let bad = number_format::format_counted(verified.damaged.len(), "object");
        ui.print_note(&format!("{bad} damaged or missing, {objects} intact"));
        ui.print_hint(
            "damaged files cannot be restored; capture again with `turnstone snapshot track`",
        );
    }
    Ok(exit)
}

pub(super) fn print_git_dir(ui: &mut Ui, app: &CliApp) -> Result<ProgramExit, CliError> {
    let store = DirectoryStore::open_current(ui, app)?;
    let path = store.handle.reader().git_dir()?;
    if ui.wants_json() {
        ui.print_json(&json!({ "path": path }))?;
    } else {
        ui.print_bytes(path.as_os_str().as_bytes())?;
        ui.print_line("")?;
    }
    Ok(ProgramExit::Ok)
}
