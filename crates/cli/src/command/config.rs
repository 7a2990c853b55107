//! `turnstone config`: shows and checks the configuration of agents and models.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_config::{ConfigFileSummary, Configuration};
use turnstone_core::redact::{redact, redact_text};

use crate::app::CliApp;
use crate::configuration::load_configuration;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format::format_counted;
use crate::text;
use crate::ui::Ui;

/// Settings that OpenCode acts on and Turnstone does not, and why.
const UNSUPPORTED: [(&str, &str); 2] = [
    (
        "plugin",
        "plugins are JavaScript of OpenCode and are not run; a command in `hooks` can run around tools",
    ),
    ("lsp", "language servers are not run"),
];

/// Subcommands of `config`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the settings that are in force in a directory
    ///
    /// The settings are merged from all files and variables. Secrets are hidden, and `{env:…}` and
    /// `{file:…}` are shown as they are written.
    #[command(after_help = "Example:\n  turnstone config show")]
    Show {
        /// Directory of the project [default: the current directory]
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Check all configuration files of a directory
    ///
    /// Reports a mistake with its file, line and key. Otherwise lists the files, the settings that are
    /// not in force because you do not trust the project, and settings of OpenCode that Turnstone does
    /// not support: JavaScript plugins and language servers are not run.
    #[command(after_help = "Example:\n  turnstone config check")]
    Check {
        /// Directory of the project [default: the current directory]
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// Runs a subcommand.
///
/// # Errors
///
/// The configuration has a mistake.
pub(crate) fn run(
    ui: &mut Ui,
    app: &CliApp,
    command: &ConfigCommand,
) -> Result<ProgramExit, CliError> {
    let (ConfigCommand::Show { directory } | ConfigCommand::Check { directory }) = command;
    let directory = match directory {
        Some(given) => app.directory()?.join(given),
        None => app.directory()?.to_owned(),
    };
    let (config, _) = load_configuration(app, &directory)?;
    match command {
        ConfigCommand::Show { .. } => show(ui, &config),
        ConfigCommand::Check { .. } => check(ui, &config),
    }
}

fn show(ui: &mut Ui, config: &Configuration) -> Result<ProgramExit, CliError> {
    let mut settings = Value::Object(config.shown_settings().clone());
    redact(&mut settings);
    if ui.wants_json() {
        ui.print_json(&settings)?;
        return Ok(ProgramExit::Ok);
    }
    for line in serde_json::to_string_pretty(&settings)?.lines() {
        ui.print_line(&text::sanitize_line(line))?;
    }
    print_trust_hint(ui, config);
    Ok(ProgramExit::Ok)
}

fn check(ui: &mut Ui, config: &Configuration) -> Result<ProgramExit, CliError> {
    let files = config.files();
    let notices = unsupported_settings(config, &files);
    if ui.wants_json() {
        let files: Vec<Value> = files.iter().map(file_json).collect();
        ui.print_json(&json!({ "files": files, "unsupported": notices }))?;
        return Ok(ProgramExit::Ok);
    }
    for file in &files {
        let note = match (file.is_of_project, file.is_trusted) {
            (false, _) => "yours",
            (true, true) => "of the project, trusted",
            (true, false) => "of the project",
        };
        let path = text::sanitize_line(&redact_text(&file.path.display().to_string()));
        ui.print_line(&format!("{path}  ({note})"))?;
    }
    for line in restricted_lines(config) {
        ui.print_line(&line)?;
    }
    for (key, reason) in &notices {
        ui.print_line(&format!("not supported: {key}: {reason}"))?;
    }
    ui.print_note(&format!("no mistakes in {}", format_counted(files.len(), "file")));
    print_trust_hint(ui, config);
    Ok(ProgramExit::Ok)
}

fn print_trust_hint(ui: &mut Ui, config: &Configuration) {
    let waiting = config.files().iter().map(|file| file.restricted.len()).sum::<usize>();
    if waiting > 0 {
        let waiting = format_counted(waiting, "setting");
        ui.print_hint(&format!(
            "{waiting} of the project not in force; read the files, then run `turnstone trust`"
        ));
    }
}

/// One line per setting of the project that is not in force: file, line, key and reason.
pub(super) fn restricted_lines(config: &Configuration) -> Vec<String> {
    let mut lines = Vec::new();
    for file in config.files() {
        for (key, line) in &file.restricted {
            let path = file.path.display();
            let place = line.map_or_else(|| path.to_string(), |line| format!("{path}:{line}"));
            let (place, key) = (redact_text(&place), redact_text(&key_text(key)));
            lines.push(text::sanitize_line(&format!("not in force: {place}: {key}")));
        }
    }
    lines
}

fn key_text(key: &turnstone_config::RestrictedKey) -> String {
    format!("{} ({})", key.dotted(), key.reason.as_str())
}

/// The settings that are not supported, wherever they are set.
fn unsupported_settings(
    config: &Configuration,
    files: &[ConfigFileSummary],
) -> Vec<(&'static str, &'static str)> {
    let is_set = |wanted: &str| {
        let restricted = files.iter().flat_map(|file| &file.restricted);
        // `false` asks for nothing.
        let setting = config.shown_settings().get(wanted);
        setting.is_some_and(|setting| setting != &Value::Bool(false))
            || restricted.clone().any(|(key, _)| key.key == [wanted])
    };
    UNSUPPORTED.into_iter().filter(|(key, _)| is_set(key)).collect()
}

fn file_json(file: &ConfigFileSummary) -> Value {
    let restricted = file.restricted.iter().map(|(key, line)| {
        json!({ "key": redact_text(&key.dotted()), "line": line, "reason": key.reason.as_str() })
    });
    json!({
        "path": redact_text(&file.path.display().to_string()), "project": file.is_of_project,
        "trusted": file.is_trusted, "not_in_force": restricted.collect::<Vec<_>>(),
    })
}
