//! `turnstone completions`: scripts generated from the definitions of the help.

use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Print shell completions
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  turnstone completions fish > ~/.config/fish/completions/turnstone.fish"
)]
pub(crate) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

/// Prints the completion script of one shell.
///
/// # Errors
///
/// [`CliError::Output`].
pub(crate) fn run(ui: &mut Ui, args: &CompletionsArgs) -> Result<ProgramExit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::definition(), "turnstone", &mut script);
    ui.print_bytes(&script)?;
    Ok(ProgramExit::Ok)
}
