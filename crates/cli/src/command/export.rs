//! `turnstone export`: writes a session in OpenCode's export format.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fs_err::os::unix::fs::OpenOptionsExt;
use turnstone_core::lone_surrogates::encode_json;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::id_prefix::IdPrefix;
use crate::ui::{ID_STYLE, Ui, apply_style};

/// Export a session in OpenCode's format
///
/// The output is always JSON. `turnstone import` and `opencode import` can read it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone export ses_e21d > session.json\n  \
                        turnstone export ses_e21d --sanitize -o report.json")]
pub(crate) struct ExportArgs {
    /// Session ID or unique prefix
    #[arg(value_name = "ID")]
    session: IdPrefix,

    /// Replace texts, paths, inputs and outputs with placeholders
    #[arg(long)]
    sanitize: bool,

    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Writes the document.
///
/// # Errors
///
/// [`CliError::Export`], or [`CliError::File`] if the file cannot be written.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ExportArgs) -> Result<ProgramExit, CliError> {
    let (store, ctx) = (app.open_store()?, app.context());
    let id = args.session.resolve_session(&store, &ctx)?;
    let document = turnstone_exchange::export_session(&store, &ctx, &id, args.sanitize)?;
    let Some(path) = &args.output else {
        ui.print_json(&document)?;
        return Ok(ProgramExit::Ok);
    };
    let text = serde_json::to_string_pretty(&document)?;
    let mut text = encode_json(&text).into_owned();
    text.push('\n');
    write_private(path, text.as_bytes()).map_err(|source| CliError::File {
        what: format!("cannot write {}", path.display()),
        source,
    })?;
    ui.print_note(&format!("exported {} to {}", apply_style(ID_STYLE, &id), path.display()));
    Ok(ProgramExit::Ok)
}

/// Writes a file that only its owner can read, also when it replaces a readable one.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs_err::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    if file.metadata()?.is_file() {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    file.write_all(bytes)
}
