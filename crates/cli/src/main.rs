//! The program `turnstone`: words in, one call, words out.
//!
//! Owns the command line, the streams, the exit code, and the only look at clock, environment and
//! randomness. Decides nothing about sessions: that is the business of the crates it calls.

mod app;
mod args;
mod clock;
mod command;
mod config_file;
mod environment;
mod error;
mod exit_code;
mod id_prefix;
mod number_format;
mod point_lookup;
mod project_flag;
mod project_location;
mod session_lookup;
mod text;
mod time_format;
mod transcript;
mod ui;
mod user_git_config;

use std::process::ExitCode;

use clap::Parser;

use crate::app::CliApp;
use crate::args::Cli;
use crate::environment::StartupEnvironment;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

fn main() -> ExitCode {
    exit_code::catch_panics(run).into()
}

fn run() -> ProgramExit {
    let environment = StartupEnvironment::read();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ui::show_usage(&environment, &error),
    };
    // Started with nothing in its environment: it has no data directory and needs none.
    if let args::CliCommand::Supervise = cli.command {
        return command::exec::supervise();
    }
    // From here on every file is closed to other users, whatever the mask of the user; programs that
    // are started, and directories of worktrees, get the user's.
    turnstone_snapshot::set_worktree_mask(turnstone_process::keep_files_private());
    if !cli.command.listens_to_signals() {
        turnstone_process::end_git_on_signals();
    }
    let mut ui = Ui::new(&environment, &cli.globals);
    environment::start_tracing(cli.globals.verbose.max(cli.command.min_verbosity()));
    let done = CliApp::new(environment, &cli.globals)
        .and_then(|app| command::run(&mut ui, &app, &cli.command))
        .and_then(|exit| ui.flush().map(|()| exit));
    match done {
        Ok(exit) => exit,
        Err(error) => ui.print_error(&error),
    }
}
