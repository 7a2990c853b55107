//! The program `turnstone`: parses the command line, calls one service, prints the result.
//!
//! Owns the command line, the output streams and the exit code, and is the only crate that reads the
//! clock and the environment. All decisions about sessions are made by the crates it calls.

mod agent_settings;
mod app;
mod args;
mod caller_check;
mod clock;
mod command;
mod config_file;
mod configuration;
mod database_maintenance;
mod environment;
mod error;
mod exit_code;
mod id_prefix;
mod joined_clone;
mod number_format;
mod point_lookup;
mod project_flag;
mod project_location;
mod session_lookup;
mod text;
mod time_format;
mod trace_probe;
mod trace_text;
mod transcript;
mod turn_ref;
mod ui;
mod user_git_config;

use std::process::ExitCode;

use mimalloc::MiMalloc;

use crate::app::CliApp;
use crate::args::Cli;
use crate::environment::StartupEnvironment;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// The system's allocator keeps most of what a capture of many files has freed: twice the memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    exit_code::catch_panics(run).into()
}

fn run() -> ProgramExit {
    let environment = StartupEnvironment::read();
    let cli = match Cli::parse_from_args(&environment.args) {
        Ok(cli) => cli,
        Err(error) => return ui::show_usage(&environment, &error),
    };
    // The supervisor starts with an empty environment and needs no data directory.
    if let args::CliCommand::Supervise { .. } = cli.command {
        return command::exec::supervise();
    }
    // From here on all new files are private to the user, whatever the umask. Started programs and
    // worktree directories get the user's own umask.
    turnstone_snapshot::set_worktree_mask(turnstone_process::keep_files_private());
    if !cli.command.listens_to_signals() {
        turnstone_process::end_git_on_signals();
    }
    let mut ui = Ui::new(&environment, &cli.globals, cli.command.is_paged());
    environment::start_tracing(cli.globals.verbose.max(cli.command.min_verbosity()));
    let done = CliApp::new(environment, &cli.globals).and_then(|app| {
        let exit = command::run_command(&mut ui, &app, &cli.command)?;
        ui.finish()?;
        database_maintenance::maintain_if_due(&app, &cli.command);
        Ok(exit)
    });
    match done {
        Ok(exit) => exit,
        Err(error) => ui.print_error(&error),
    }
}
