//! Output of commands: data, messages, errors, progress and questions.

use std::error::Error as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ColorChoice;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;

use super::output_stream::{LogWriter, OutputStream};
use super::style::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, apply_style};
use super::table::TextTable;
use crate::environment::{self, GlobalArgs, StartupEnvironment, StreamTarget};
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::text;

/// Delay before a spinner appears.
const SPINNER_DELAY: Duration = Duration::from_millis(500);
/// Interval between spinner updates.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// Both output streams and their layout.
pub(crate) struct Ui {
    out: OutputStream,
    err: OutputStream,
    json: bool,
    width: Option<usize>,
    can_ask: bool,
    stderr_is_terminal: bool,
}

impl Ui {
    /// Creates the streams from environment and flags.
    pub(crate) fn new(environment: &StartupEnvironment, globals: &GlobalArgs) -> Self {
        let target = |found: StreamTarget| StreamTarget {
            colour: match globals.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => found.colour,
            },
            ..found
        };
        let terminal = environment.out.terminal;
        let width = globals.width.or(environment.width).map(usize::from);
        Self {
            out: OutputStream::new(Box::new(io::stdout()), target(environment.out)),
            err: OutputStream::new(Box::new(io::stderr()), target(environment.err)),
            json: globals.json,
            width: width.or_else(|| environment::terminal_width().filter(|_| terminal)),
            can_ask: environment.can_ask,
            stderr_is_terminal: environment.err.terminal,
        }
    }

    /// True if --json was given.
    pub(crate) const fn wants_json(&self) -> bool {
        self.json
    }

    /// A progress bar on stderr; hidden unless stderr is a terminal.
    pub(crate) fn progress_bar(&self, template: &str) -> ProgressBar {
        let target = match self.stderr_is_terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// Does `work` and shows a spinner on terminals if it takes long.
    pub(crate) fn with_spinner<T>(&self, message: &str, work: impl FnOnce() -> T) -> T {
        if !self.stderr_is_terminal {
            return work();
        }
        let bar = self.progress_bar("{spinner} {msg} ({elapsed})");
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                // No spinner for short work.
                std::thread::park_timeout(SPINNER_DELAY);
                while !is_done.load(Ordering::Relaxed) {
                    bar.set_message(message.to_owned());
                    bar.tick();
                    std::thread::park_timeout(SPINNER_INTERVAL);
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

    /// True if stdout uses colours.
    pub(crate) const fn has_colour(&self) -> bool {
        self.out.has_colour()
    }

    /// True if stderr is a terminal.
    pub(crate) const fn is_stderr_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Width to wrap to; `None` unless stdout is a terminal.
    pub(crate) const fn width(&self) -> Option<usize> {
        self.width
    }

    /// Prints a line of data.
    pub(crate) fn print_line(&mut self, text: &str) -> Result<(), CliError> {
        let written = self.out.push_styled(text).and_then(|()| self.out.push_styled("\n"));
        written.map_err(CliError::Output)
    }

    /// Prints bytes of data, unescaped unless stdout is a terminal.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.write_bytes(bytes).map_err(CliError::Output)
    }

    /// Prints a table.
    pub(crate) fn print_table(&mut self, grid: &TextTable) -> Result<(), CliError> {
        let lines = grid.render(self.width);
        lines.iter().try_for_each(|line| self.print_line(line))
    }

    /// Prints a JSON document with all unsafe characters escaped.
    pub(crate) fn print_json(&mut self, value: &Value) -> Result<(), CliError> {
        let text = text::escape_json(&serde_json::to_string_pretty(value)?);
        self.out
            .push_styled(&text)
            .and_then(|()| self.out.push_styled("\n"))
            .map_err(CliError::Output)
    }

    /// Prints a message to stderr.
    pub(crate) fn print_note(&mut self, text: &str) {
        // A failure to write messages does not stop the command.
        drop(self.out.flush());
        drop(self.err.push_styled(text).and_then(|()| self.err.push_styled("\n")));
        drop(self.err.flush());
    }

    /// Prints a secondary message to stderr.
    pub(crate) fn print_dim_note(&mut self, text: &str) {
        self.print_note(&apply_style(DIM_STYLE, text));
    }

    /// Prints a hint to stderr.
    pub(crate) fn print_hint(&mut self, text: &str) {
        self.print_note(&format!("{} {text}", apply_style(SUCCESS_STYLE, "hint:")));
    }

    /// Asks a yes-or-no question; without a terminal the answer is no.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<bool, CliError> {
        if !self.can_ask {
            return Ok(false);
        }
        drop(self.out.flush());
        drop(self.err.push_styled(&format!("{question} [y/N] ")).and_then(|()| self.err.flush()));
        let mut answer = String::new();
        let read = io::stdin().lock().read_line(&mut answer);
        read.map_err(|source| CliError::File {
            what: "cannot read the answer".to_owned(),
            source,
        })?;
        Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Writes the buffered output.
    ///
    /// # Errors
    ///
    /// [`CliError::Output`].
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }

    /// Prints an error with its causes and a hint.
    pub(crate) fn print_error(&mut self, error: &CliError) -> ProgramExit {
        let exit = error.exit_code();
        if exit == ProgramExit::BrokenPipe {
            return exit;
        }
        self.print_note(&format!(
            "{} {}",
            apply_style(ERROR_STYLE, "error:"),
            text::sanitize_block(&error.to_string())
        ));
        let mut cause = error.source();
        while let Some(inner) = cause {
            self.print_note(&format!("  {}", text::sanitize_block(&inner.to_string())));
            cause = inner.source();
        }
        if let Some(hint) = error.hint() {
            self.print_hint(&hint);
        }
        exit
    }
}

/// Prints help, the version or a usage error.
pub(crate) fn show_usage(environment: &StartupEnvironment, error: &clap::Error) -> ProgramExit {
    let (mut stream, exit) = if error.use_stderr() {
        (OutputStream::new(Box::new(io::stderr()), environment.err), ProgramExit::Usage)
    } else {
        (OutputStream::new(Box::new(io::stdout()), environment.out), ProgramExit::Ok)
    };
    let rendered = error.render();
    let is_help = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    // All other kinds may quote arguments, which are not trusted.
    let written = match is_help {
        true => stream.write_own_ansi(&rendered.ansi().to_string()),
        false => stream.push_styled(&style_usage_error(&rendered.to_string())),
    };
    match written.and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ProgramExit::BrokenPipe,
        Err(_) | Ok(()) => exit,
    }
}

/// Styles a usage error like other errors.
fn style_usage_error(text: &str) -> String {
    match text.strip_prefix("error:") {
        Some(rest) => format!("{}{rest}", apply_style(ERROR_STYLE, "error:")),
        None => text.to_owned(),
    }
}

/// Prints a last message; write errors are ignored.
pub(crate) fn print_panic_message(text: &str) {
    let mut stderr = LogWriter::new(io::stderr().is_terminal());
    drop(stderr.write_all(text.as_bytes()));
}
