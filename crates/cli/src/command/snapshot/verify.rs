//! `turnstone snapshot verify` and `git-dir`

use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use super::history::value;
use super::site::Site;
use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;
use crate::figure;
use crate::ui::{BAD, Ui, paint};

pub(super) fn run(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let verified = site.vault.verify()?;
    let exit = if verified.damaged.is_empty() { Exit::Ok } else { Exit::Refused };
    if ui.wants_json() {
        ui.json(&value(&verified)?)?;
        return Ok(exit);
    }
    for damage in &verified.damaged {
        let (object, what, group) = (damage.object, &damage.what, &damage.group);
        ui.line(&format!("{}  {object}  {what} (kept by {group})", paint(BAD, "damaged")))?;
    }
    let captures = figure::counted(verified.captures, "capture");
    let objects = figure::counted(verified.objects, "object");
    if verified.damaged.is_empty() {
        ui.note(&format!("{captures}, {objects}: all sound"));
    } else {
        let bad = figure::counted(verified.damaged.len(), "object");
        ui.note(&format!("{bad} damaged or missing, {objects} sound"));
        ui.hint("what is damaged cannot be restored; capture again with `snapshot track`");
    }
    Ok(exit)
}

pub(super) fn git_dir(ui: &mut Ui, app: &App) -> Result<Exit, CliError> {
    let site = Site::here(ui, app)?;
    let path = site.vault.git_dir()?;
    if ui.wants_json() {
        ui.json(&json!({ "path": path }))?;
    } else {
        ui.raw(path.as_os_str().as_bytes())?;
        ui.line("")?;
    }
    Ok(Exit::Ok)
}
