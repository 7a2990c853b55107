//! `turnstone completions`: generated from the same definitions as the help.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  turnstone completions fish > ~/.config/fish/completions/turnstone.fish"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the completions of one shell.
///
/// # Errors
///
/// [`CliError::Output`].
pub(crate) fn run(ui: &mut Ui, args: &CompletionsArgs) -> Result<ProgramExit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "turnstone", &mut script);
    ui.print_bytes(&script)?;
    Ok(ProgramExit::Ok)
}
