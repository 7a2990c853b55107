//! `turnstone man`: pages generated from the definitions of the help.

use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::number_format;
use crate::ui::Ui;

/// Print the man page, or write one per command into a directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  turnstone man | man -l -\n  turnstone man ~/.local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// Directory to write a page for every command to [default: print the main page]
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

/// Prints the main page, or writes all of them.
///
/// # Errors
///
/// [`CliError::File`] if a page cannot be written.
pub(crate) fn run(ui: &mut Ui, args: &ManArgs) -> Result<ProgramExit, CliError> {
    let Some(directory) = &args.directory else {
        ui.print_bytes(&render_page(Cli::definition())?)?;
        return Ok(ProgramExit::Ok);
    };
    let file = |source| CliError::File { what: "cannot write the man pages".to_owned(), source };
    turnstone_process::with_user_mask(|| fs_err::create_dir_all(directory)).map_err(file)?;
    let mut command = Cli::definition();
    command.build();
    let write = || write_pages(&command, "turnstone", directory);
    // Man pages are readable by all users.
    let written = turnstone_process::with_user_mask(write)?;
    ui.print_note(&format!(
        "wrote {} to {}",
        number_format::format_counted(written, "page"),
        directory.display()
    ));
    Ok(ProgramExit::Ok)
}

fn render_page(command: clap::Command) -> Result<Vec<u8>, CliError> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(CliError::Output)?;
    Ok(page)
}

/// Writes the page of a command and those of its subcommands; returns how many.
fn write_pages(command: &clap::Command, name: &str, directory: &Path) -> Result<usize, CliError> {
    let path = directory.join(format!("{name}.1"));
    let titled = command.clone().name(name.to_owned());
    fs_err::write(&path, render_page(titled)?)
        .map_err(|source| CliError::File { what: "cannot write a man page".to_owned(), source })?;
    let mut written = 1;
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for inner in visible {
        written += write_pages(inner, &format!("{name}-{}", inner.get_name()), directory)?;
    }
    Ok(written)
}
