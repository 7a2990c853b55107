//! `turnstone trust`: what a project's files may set.

use std::path::{Path, PathBuf};

use serde_json::json;
use turnstone_config::{Configuration, TrustedFiles};

use super::config::restricted_lines;
use crate::app::CliApp;
use crate::caller_check::require_person;
use crate::configuration::load_configuration;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format::format_counted;
use crate::text;
use crate::ui::Ui;

/// Trust the configuration files of a project
///
/// Opening a project does not mean trusting it. Until you trust its files, Turnstone ignores settings that
/// start programs (mcp, formatter, lsp, shell, hooks, plugin), select a scripted model, read variables or
/// files outside the project, name a server to share with, share sessions, switch undo off, or loosen
/// permissions.
///
/// Trust belongs to a file and its exact content: after a change, the file has to be trusted again.
/// Programs and scripts that a trusted file names are not checked. Your keys are never sent to an address
/// that a project chooses, trusted or not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone trust\n  turnstone trust ~/work/app --remove\n  \
    turnstone trust --list")]
pub(crate) struct TrustArgs {
    /// Directory of the project [default: the current directory]
    #[arg(value_name = "DIR", conflicts_with = "list")]
    directory: Option<PathBuf>,

    /// Stop trusting the project's files
    #[arg(long, conflicts_with = "list")]
    remove: bool,

    /// List all trusted files
    #[arg(long)]
    list: bool,

    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Changes or lists what is trusted.
///
/// # Errors
///
/// The record or the configuration cannot be read, the user does not confirm, or an agent runs this program.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &TrustArgs) -> Result<ProgramExit, CliError> {
    let data = app.layout().root();
    if args.list {
        return list(ui, &TrustedFiles::read(data)?);
    }
    require_person(app, "change which files are trusted")?;
    let directory = match &args.directory {
        Some(given) => app.directory()?.join(given),
        None => app.directory()?.to_owned(),
    };
    match args.remove {
        true => remove(ui, data, &directory),
        false => add(ui, app, args, &directory),
    }
}

fn list(ui: &mut Ui, trusted: &TrustedFiles) -> Result<ProgramExit, CliError> {
    let files = trusted.list();
    if ui.wants_json() {
        let file = |it: &turnstone_config::TrustedFile| json!({ "path": it.path, "current": it.is_current });
        ui.print_json(&files.iter().map(file).collect())?;
        return Ok(ProgramExit::Ok);
    }
    if files.is_empty() {
        ui.print_note("no file of a project is trusted");
    }
    for file in files {
        let path = text::sanitize_line(&file.path.display().to_string());
        let note = if file.is_current { "" } else { "  (has changed and is not trusted any more)" };
        ui.print_line(&format!("{path}{note}"))?;
    }
    Ok(ProgramExit::Ok)
}

/// Removes the trust even if the directory is gone or its configuration has a mistake.
fn remove(ui: &mut Ui, data: &Path, directory: &Path) -> Result<ProgramExit, CliError> {
    let real = fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut trusted = TrustedFiles::read(data)?;
    let removed = trusted.remove_below(&real);
    trusted.write(data)?;
    print_files(ui, "no longer trusted", &removed)
}

fn add(
    ui: &mut Ui,
    app: &CliApp,
    args: &TrustArgs,
    directory: &Path,
) -> Result<ProgramExit, CliError> {
    let (config, root) = load_configuration(app, directory)?;
    let lines = restricted_lines(&config);
    if lines.is_empty() {
        if ui.wants_json() {
            ui.print_json(&json!({ "trusted": [] }))?;
        }
        let root = text::sanitize_line(&root);
        ui.print_note(&format!("nothing in {root} waits for your trust"));
        return Ok(ProgramExit::Ok);
    }
    if !args.yes {
        for line in &lines {
            ui.print_note(line);
        }
        let settings = format_counted(lines.len(), "setting");
        if !ui.confirm(&format!("Trust these files and put {settings} in force?"))? {
            return Err(CliError::NotConfirmed);
        }
    }
    let data = app.layout().root();
    // The files are trusted as they were read and shown, whatever is in them by now.
    let files = trust(&config, data)?;
    print_files(ui, "trusted", &files)
}

fn trust(config: &Configuration, data: &Path) -> Result<Vec<PathBuf>, CliError> {
    let mut trusted = TrustedFiles::read(data)?;
    let files = config.trust_project_files(&mut trusted);
    trusted.write(data)?;
    Ok(files)
}

fn print_files(ui: &mut Ui, what: &str, files: &[PathBuf]) -> Result<ProgramExit, CliError> {
    if ui.wants_json() {
        let key = if what == "trusted" { "trusted" } else { "removed" };
        ui.print_json(&json!({ key: files }))?;
    }
    if files.is_empty() {
        ui.print_note("no file of this project was trusted");
    }
    for file in files {
        let path = text::sanitize_line(&file.display().to_string());
        ui.print_note(&format!("{what}: {path}"));
    }
    Ok(ProgramExit::Ok)
}
