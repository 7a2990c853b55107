//! Output of commands: data, messages, errors, progress and questions.

use std::error::Error as _;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::ColorChoice;
use clap::error::ErrorKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::Value;
use turnstone_core::lone_surrogates::encode_json;

use super::answer_input::{self, AnswerInput};
use super::output_stream::{LogWriter, OutputStream};
use super::pager::{PagedOutput, find_pager};
use super::secret_prompt;
use super::style::{DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, apply_style};
use super::table::TextTable;
use crate::command::exec::quote_os_word;
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
    answers: AnswerInput,
    stderr_is_terminal: bool,
    pager: Option<PagedOutput>,
    /// Messages that are printed when the pager is closed.
    deferred_notes: String,
    /// How the program has to be started for the same data, with the flags that were given.
    program: String,
}

impl Ui {
    /// Creates the streams from environment and flags; `is_paged` for a command whose output may be long.
    pub(crate) fn new(
        environment: &StartupEnvironment,
        globals: &GlobalArgs,
        is_paged: bool,
    ) -> Self {
        let target = |found: StreamTarget| StreamTarget {
            colour: match globals.color {
                ColorChoice::Always => true,
                ColorChoice::Never => false,
                ColorChoice::Auto => found.colour,
            },
            ..found
        };
        let terminal = environment.out.terminal;
        let wants_pager = is_paged && terminal && !globals.json && !globals.no_pager;
        let pager = find_pager(environment).filter(|_| wants_pager).map(PagedOutput::new);
        let stdout: Box<dyn Write> = match &pager {
            Some(pager) => Box::new(pager.clone()),
            None => Box::new(io::stdout()),
        };
        let width = globals.width.or(environment.width).map(usize::from);
        Self {
            out: OutputStream::new(stdout, target(environment.out)),
            err: OutputStream::new(Box::new(io::stderr()), target(environment.err)),
            json: globals.json,
            width: width.or_else(|| environment::terminal_width().filter(|_| terminal)),
            can_ask: environment.can_ask,
            answers: AnswerInput::default(),
            stderr_is_terminal: environment.err.terminal,
            pager,
            deferred_notes: String::new(),
            program: match &globals.data {
                Some(data) => format!("turnstone --data {}", quote_os_word(data.as_os_str())),
                None => "turnstone".to_owned(),
            },
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

    /// True if the user can answer a question.
    pub(crate) const fn can_ask(&self) -> bool {
        self.can_ask
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

    /// Prints a piece of data at once, without a line end of its own.
    pub(crate) fn print_piece(&mut self, text: &str) -> Result<(), CliError> {
        let written = self.out.push_styled(text).and_then(|()| self.out.flush());
        written.map_err(CliError::Output)
    }

    /// Prints a piece of a message at once, without a line end of its own.
    pub(crate) fn print_note_piece(&mut self, text: &str) {
        drop(self.out.flush());
        drop(self.err.push_styled(text).and_then(|()| self.err.flush()));
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
        let text = text::escape_json(&encode_json(&serde_json::to_string_pretty(value)?));
        self.out
            .push_styled(&text)
            .and_then(|()| self.out.push_styled("\n"))
            .map_err(CliError::Output)
    }

    /// Prints a message to stderr.
    pub(crate) fn print_note(&mut self, text: &str) {
        if self.pager.is_some() {
            self.deferred_notes.push_str(text);
            self.deferred_notes.push('\n');
            return;
        }
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
        let text = self.name_program(text);
        self.print_note(&format!("{} {text}", apply_style(SUCCESS_STYLE, "hint:")));
    }

    /// Gives the commands of a hint the flags without which they would be about other data.
    fn name_program(&self, hint: &str) -> String {
        hint.replace("`turnstone ", &format!("`{} ", self.program))
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

    /// Begins to ask for a line: forgets what was typed before, which was no answer, and shows `question`.
    pub(crate) fn begin_question(&mut self, question: &str) {
        self.answers.discard_typed();
        self.print_note_piece(question);
    }

    /// Returns the next line that was typed, if there is one within `wait`; an empty one at the end of the input.
    ///
    /// # Errors
    ///
    /// [`CliError::File`] if standard input cannot be read.
    pub(crate) fn poll_answer(&mut self, wait: Duration) -> Result<Option<String>, CliError> {
        self.answers
            .poll_line(wait)
            .map_err(|source| CliError::File { what: "cannot read the answer".to_owned(), source })
    }

    /// Reads all text of standard input, unless it is a terminal.
    ///
    /// # Errors
    ///
    /// [`CliError::File`] if it cannot be read, is no text, or longer than `limit`.
    pub(crate) fn read_piped_text(&mut self, limit: usize) -> Result<Option<String>, CliError> {
        answer_input::read_piped_text(limit).map_err(|source| CliError::File {
            what: "cannot read standard input".to_owned(),
            source,
        })
    }

    /// Writes the buffered output.
    ///
    /// # Errors
    ///
    /// [`CliError::Output`].
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::Output)
    }

    /// Writes the buffered output, waits until the reader has closed the pager, and prints the messages that
    /// waited for that.
    ///
    /// # Errors
    ///
    /// [`CliError::Output`]. A pager that was closed early is no error.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        let flushed = self.flush();
        match (self.close_pager(), flushed) {
            (true, Err(error)) if error.exit_code() == ProgramExit::BrokenPipe => Ok(()),
            (_, flushed) => flushed,
        }
    }

    /// Waits until the reader has closed the pager; false if there is none.
    fn close_pager(&mut self) -> bool {
        let Some(pager) = self.pager.take() else { return false };
        pager.finish();
        let notes = std::mem::take(&mut self.deferred_notes);
        drop(self.err.push_styled(&notes).and_then(|()| self.err.flush()));
        true
    }

    /// Reads a secret of at most `limit` bytes from standard input; a terminal does not show it.
    ///
    /// # Errors
    ///
    /// [`CliError::File`] if standard input cannot be read or is too long.
    pub(crate) fn read_secret(&mut self, question: &str, limit: usize) -> Result<String, CliError> {
        if secret_prompt::is_typed() {
            drop(self.err.push_styled(question).and_then(|()| self.err.flush()));
        }
        secret_prompt::read_secret(limit).map_err(|source| CliError::File {
            what: "cannot read the secret from standard input".to_owned(),
            source,
        })
    }

    /// Prints an error with its causes and a hint.
    pub(crate) fn print_error(&mut self, error: &CliError) -> ProgramExit {
        let exit = error.exit_code();
        if exit != ProgramExit::BrokenPipe {
            // What was printed before the error is shown first.
            drop(self.flush());
        }
        let was_paged = self.close_pager();
        if exit == ProgramExit::BrokenPipe {
            return if was_paged { ProgramExit::Ok } else { exit };
        }
        let mut causes = Vec::new();
        let mut cause = error.source();
        while let Some(inner) = cause {
            causes.push(inner.to_string());
            cause = inner.source();
        }
        if self.json {
            let report = ErrorReport {
                kind: exit.error_kind(),
                message: error.to_string(),
                causes,
                hint: error.hint().map(|hint| self.name_program(&hint)),
            };
            drop(self.flush());
            report.write(&mut self.err);
            return exit;
        }
        self.print_note(&format!(
            "{} {}",
            apply_style(ERROR_STYLE, "error:"),
            text::sanitize_block(&error.to_string())
        ));
        for cause in causes {
            self.print_note(&format!("  {}", text::sanitize_block(&cause)));
        }
        if let Some(hint) = error.hint() {
            self.print_hint(&hint);
        }
        exit
    }
}

/// An error as JSON: one line on stderr, the last one.
#[derive(Serialize)]
struct ErrorReport {
    kind: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl ErrorReport {
    /// Writes the line; a failure to write messages does not stop the command.
    fn write(&self, stream: &mut OutputStream) {
        let line = serde_json::to_string(&serde_json::json!({ "error": self })).unwrap_or_default();
        let line = text::escape_json(&line);
        drop(stream.push_styled(&line).and_then(|()| stream.push_styled("\n")));
        drop(stream.flush());
    }

    /// A usage error: its first paragraph says what is wrong, the others what is right.
    fn from_usage(rendered: &str) -> Self {
        let text = rendered.strip_prefix("error: ").unwrap_or(rendered);
        let (message, hint) = text.split_once("\n\n").unwrap_or((text, ""));
        let hint = Some(hint.trim().to_owned()).filter(|hint| !hint.is_empty());
        let kind = ProgramExit::Usage.error_kind();
        Self { kind, message: message.trim().to_owned(), causes: Vec::new(), hint }
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
    let options = environment.args.iter().take_while(|word| *word != "--");
    if error.use_stderr() && !is_help && options.into_iter().any(|word| word == "--json") {
        ErrorReport::from_usage(&rendered.to_string()).write(&mut stream);
        return exit;
    }
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
