//! The program `turnstone`: words in, one call, words out.
//!
//! Owns the command line, the streams, the exit code, and the only look at clock, environment and
//! randomness. Decides nothing about sessions: that is the business of the crates it calls.

mod app;
mod args;
mod choice;
mod clock;
mod command;
mod config;
mod error;
mod excludes;
mod exit;
mod figure;
mod moment;
mod place;
mod point;
mod reference;
mod scope;
mod settings;
mod text;
mod transcript;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use crate::app::App;
use crate::args::Cli;
use crate::config::Environment;
use crate::exit::Exit;
use crate::ui::Ui;

fn main() -> ExitCode {
    exit::guard(run).into()
}

fn run() -> Exit {
    let environment = Environment::read();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return ui::show_usage(&environment, &error),
    };
    // Started with nothing in its environment: it has no data directory and needs none.
    if let args::Command::Supervise = cli.command {
        return command::exec::supervise();
    }
    // From here on every file is closed to other users, whatever the mask of the user; programs that
    // are started, and directories of worktrees, get the user's.
    turnstone_snapshot::set_worktree_mask(turnstone_process::keep_files_private());
    if !cli.command.listens_to_signals() {
        turnstone_process::end_git_on_signals();
    }
    let mut ui = Ui::new(&environment, &cli.globals);
    config::start_tracing(cli.globals.verbose.max(cli.command.verbosity()));
    let done = App::new(environment, &cli.globals)
        .and_then(|app| command::run(&mut ui, &app, &cli.command))
        .and_then(|exit| ui.finish().map(|()| exit));
    match done {
        Ok(exit) => exit,
        Err(error) => ui.fail(&error),
    }
}
