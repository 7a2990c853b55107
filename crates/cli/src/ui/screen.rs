//! The screen: what commands say, where it goes, and how errors are told.

use std::error::Error as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ColorChoice;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::stream::{LogWriter, Stream};
use super::style::{BAD, DIM, GOOD, paint};
use super::table::Grid;
use crate::config::{self, Environment, Globals, Surroundings};
use crate::error::CliError;
use crate::exit::Exit;
use crate::text;

/// What takes longer is shown to go on.
const LONG: Duration = Duration::from_millis(500);
/// How often that moves.
const TICK: Duration = Duration::from_millis(120);

/// Both streams, and how to lay text out for them.
pub(crate) struct Ui {
    out: Stream,
    err: Stream,
    json: bool,
    width: Option<usize>,
    can_ask: bool,
    bars: bool,
}

impl Ui {
    /// The streams as the environment and the flags want them.
    pub(crate) fn new(environment: &Environment, globals: &Globals) -> Self {
        let target = |found: Surroundings| Surroundings {
            colour: match globals.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => found.colour,
            },
            ..found
        };
        let terminal = environment.out.terminal;
        let told = globals.width.or(environment.width).map(usize::from);
        Self {
            out: Stream::new(Box::new(io::stdout()), target(environment.out)),
            err: Stream::new(Box::new(io::stderr()), target(environment.err)),
            json: globals.json,
            width: told.or_else(|| config::terminal_width().filter(|_| terminal)),
            can_ask: environment.can_ask,
            bars: environment.err.terminal,
        }
    }

    /// True if data is wanted as JSON.
    pub(crate) const fn wants_json(&self) -> bool {
        self.json
    }

    /// A progress bar on stderr; it is not there unless that is a terminal.
    pub(crate) fn bar(&self, template: &str) -> ProgressBar {
        let target = match self.bars {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Does something and shows a person who watches that it goes on, if it takes long.
    pub(crate) fn busy<T>(&self, words: &str, work: impl FnOnce() -> T) -> T {
        if !self.bars {
            return work();
        }
        let bar = self.bar("{spinner} {msg} ({elapsed})");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                // What is done in a moment needs no bar.
                std::thread::park_timeout(LONG);
                while !is_done.load(Ordering::Relaxed) {
                    bar.set_message(words.to_owned());
                    bar.tick();
                    std::thread::park_timeout(TICK);
                }
            });
            let done = work();
            is_done.store(true, Ordering::Relaxed);
            watcher.thread().unpark();
            drop(watcher.join());
            bar.finish_and_clear();
            done
        })
    }

    /// True if data is shown in colours.
    pub(crate) const fn has_colour(&self) -> bool {
        self.out.has_colour()
    }

    /// True if a person watches stderr.
    pub(crate) const fn is_watched(&self) -> bool {
        self.bars
    }

    /// The columns to lay text out for; none if the output is not read on a terminal.
    pub(crate) const fn width(&self) -> Option<usize> {
        self.width
    }

    /// Prints a line of data.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), CliError> {
        let written = self.out.push(text).and_then(|()| self.out.push("\n"));
        written.map_err(CliError::Output)
    }

    /// Prints bytes of data; a pipe gets them as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.raw(bytes).map_err(CliError::Output)
    }

    /// Prints a table.
    pub(crate) fn table(&mut self, grid: &Grid) -> Result<(), CliError> {
        let lines = grid.render(self.width);
        lines.iter().try_for_each(|line| self.line(line))
    }

    /// Prints the one JSON document; it holds no unsafe character, in a pipe neither.
    pub(crate) fn json(&mut self, value: &Value) -> Result<(), CliError> {
        let text = text::escape_json(&serde_json::to_string_pretty(value)?);
        self.out.push(&text).and_then(|()| self.out.push("\n")).map_err(CliError::Output)
    }

    /// Says something that is not data.
    pub(crate) fn note(&mut self, text: &str) {
        // Nobody is left to tell if this fails; the command goes on.
        drop(self.out.flush());
        drop(self.err.push(text).and_then(|()| self.err.push("\n")));
        drop(self.err.flush());
    }

    /// Says something that can be skipped.
    pub(crate) fn aside(&mut self, text: &str) {
        self.note(&paint(DIM, text));
    }

    /// Says which command helps.
    pub(crate) fn hint(&mut self, text: &str) {
        self.note(&format!("{} {text}", paint(GOOD, "hint:")));
    }

    /// Asks a question that is answered with yes or no; no terminal means no.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<bool, CliError> {
        if !self.can_ask {
            return Ok(false);
        }
        drop(self.out.flush());
        drop(self.err.push(&format!("{question} [y/N] ")).and_then(|()| self.err.flush()));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|source| CliError::File {
            what: "cannot read the answer".to_owned(),
            source,
        })?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Writes out what has gathered.
    ///
    /// # Errors
    ///
    /// [`CliError::Output`].
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }

    /// Tells an error with its causes and the command that helps.
    pub(crate) fn fail(&mut self, error: &CliError) -> Exit {
        let exit = error.exit();
        if exit == Exit::BrokenPipe {
            return exit;
        }
        self.note(&format!("{} {}", paint(BAD, "error:"), text::clean_block(&error.to_string())));
        let mut cause = error.source();
        while let Some(inner) = cause {
            self.note(&format!("  {}", text::clean_block(&inner.to_string())));
            cause = inner.source();
        }
        if let Some(hint) = error.hint() {
            self.hint(&hint);
        }
        exit
    }
}

/// Shows help, the version, or what is wrong with the command line.
pub(crate) fn show_usage(environment: &Environment, error: &clap::Error) -> Exit {
    let (mut stream, exit) = if error.use_stderr() {
        (Stream::new(Box::new(io::stderr()), environment.err), Exit::Usage)
    } else {
        (Stream::new(Box::new(io::stdout()), environment.out), Exit::Ok)
    };
    let rendered = error.render();
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    // Every other kind may quote arguments.
    let written = match is_help {
        true => stream.own(&rendered.ansi().to_string()),
        false => stream.push(&usage_error(&rendered.to_string())),
    };
    match written.and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
        Err(_) | Ok(()) => exit,
    }
}

/// The text of a usage error with the style of our other errors.
fn usage_error(text: &str) -> String {
    match text.strip_prefix("error:") {
        Some(rest) => format!("{}{rest}", paint(BAD, "error:")),
        None => text.to_owned(),
    }
}

/// Says a last thing before the program ends; whether anybody hears it does not matter.
pub(crate) fn last_words(text: &str) {
    let mut stderr = LogWriter::new(io::stderr().is_terminal());
    drop(stderr.write_all(text.as_bytes()));
}
