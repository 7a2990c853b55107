//! What a person sees of a run: text as it comes, one line for each tool, retries, and a spinner.

use std::collections::{HashMap, HashSet};

use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Message, MessageBody, Part, PartBody, SessionStatus, ToolState};
use turnstone_core::time::EpochMillis;

use crate::error::CliError;
use crate::number_format;
use crate::text;
use crate::time_format;
use crate::transcript::call_line;
use crate::ui::{ActivitySpinner, DIM_STYLE, Ui, WARNING_STYLE, apply_style};

/// What the spinner says while the model has said nothing.
const THINKING: &str = "thinking";

/// Shows a run on a terminal.
pub(super) struct TerminalEvents {
    session: SessionId,
    shows_reasoning: bool,
    spinner: ActivitySpinner,
    activity: String,
    /// Messages of models: the text of others is not repeated.
    answers: HashSet<MessageId>,
    /// How many bytes of a text or a reasoning are on the screen, and which of both it is.
    printed: HashMap<PartId, PrintedText>,
    ended_calls: HashSet<PartId>,
    /// The stream whose last line has no end yet.
    open_line: Option<PieceStream>,
}

/// Where a piece of text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceStream {
    /// The answer: stdout.
    Answer,
    /// The reasoning: stderr.
    Reasoning,
}

struct PrintedText {
    bytes: usize,
    is_reasoning: bool,
}

impl TerminalEvents {
    pub(super) fn new(ui: &Ui, session: &SessionId, shows_reasoning: bool) -> Self {
        Self {
            session: session.clone(),
            shows_reasoning,
            spinner: ActivitySpinner::new(ui),
            activity: THINKING.to_owned(),
            answers: HashSet::new(),
            printed: HashMap::new(),
            ended_calls: HashSet::new(),
            open_line: None,
        }
    }

    /// Turns the spinner while nothing happens.
    pub(super) fn idle(&mut self) {
        if self.open_line.is_none() {
            self.spinner.tick(&self.activity);
        }
    }

    /// Removes the spinner and ends an open line, so that something else can be printed.
    pub(super) fn interrupt(&mut self, ui: &mut Ui) -> Result<(), CliError> {
        self.spinner.clear();
        self.end_line(ui)
    }

    fn end_line(&mut self, ui: &mut Ui) -> Result<(), CliError> {
        match self.open_line.take() {
            Some(PieceStream::Answer) => ui.print_piece("\n"),
            Some(PieceStream::Reasoning) => {
                ui.print_note_piece("\n");
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn message(&mut self, message: &Message) {
        if matches!(message.body, MessageBody::Assistant(_)) {
            self.answers.insert(message.id.clone());
        }
    }

    /// Shows that a request is repeated; `now` is the time of the event.
    pub(super) fn status(
        &mut self,
        ui: &mut Ui,
        status: &SessionStatus,
        now: EpochMillis,
    ) -> Result<(), CliError> {
        let SessionStatus::Retry { attempt, message, next, .. } = status else {
            self.activity = THINKING.to_owned();
            return Ok(());
        };
        self.interrupt(ui)?;
        let wait = time_format::number_to_millis(next).saturating_sub(now.0).max(0);
        let wait = number_format::format_duration(wait);
        let mark = apply_style(WARNING_STYLE, "retry");
        let words = text::sanitize_line(message);
        ui.print_note(&format!("{mark} {attempt} in {wait}: {words}"));
        self.activity = format!("waiting {wait} for retry {attempt}");
        Ok(())
    }

    /// Shows what is new in a part; `is_child` for one of a subagent.
    pub(super) fn part(&mut self, ui: &mut Ui, part: &Part) -> Result<(), CliError> {
        let is_child = part.session != self.session;
        match &part.body {
            PartBody::Text(said) if !is_child && self.answers.contains(&part.message) => {
                let is_sealed = said.time.as_ref().is_some_and(|time| time.end.is_some());
                self.text(ui, (&part.id, false), &said.text, is_sealed)
            }
            PartBody::Reasoning(said) if !is_child && self.shows_reasoning => {
                self.text(ui, (&part.id, true), &said.text, said.time.end.is_some())
            }
            PartBody::Tool(tool) => {
                let summary = call_line(tool, ui.width());
                match &tool.state {
                    ToolState::Pending { .. } | ToolState::Running { .. } => {
                        self.activity = summary.plain;
                        return Ok(());
                    }
                    ToolState::Completed { .. } | ToolState::Error { .. } => {}
                }
                if !self.ended_calls.insert(part.id.clone()) {
                    return Ok(());
                }
                self.activity = THINKING.to_owned();
                self.interrupt(ui)?;
                let indent = if is_child { "  " } else { "" };
                ui.print_note(&format!("{indent}{}", summary.styled));
                if let Some(reason) = summary.failure {
                    ui.print_dim_note(&format!("{indent}    {reason}"));
                }
                Ok(())
            }
            PartBody::Compaction(_) => {
                self.interrupt(ui)?;
                ui.print_dim_note("the conversation is summarized to make room");
                Ok(())
            }
            PartBody::Text(_)
            | PartBody::Reasoning(_)
            | PartBody::File(_)
            | PartBody::Agent(_)
            | PartBody::StepStart(_)
            | PartBody::StepFinish(_)
            | PartBody::Snapshot(_)
            | PartBody::Patch(_)
            | PartBody::Subtask(_)
            | PartBody::Retry(_)
            | PartBody::Opaque(_) => Ok(()),
        }
    }

    /// Shows appended text of a part that was shown before.
    pub(super) fn delta(&mut self, ui: &mut Ui, part: &PartId, more: &str) -> Result<(), CliError> {
        let Some(printed) = self.printed.get_mut(part) else { return Ok(()) };
        printed.bytes += more.len();
        let is_reasoning = printed.is_reasoning;
        self.piece(ui, more, is_reasoning)
    }

    /// Says that text on the screen does not count: the request that gave it failed.
    pub(super) fn removed(&mut self, ui: &mut Ui, part: &PartId) -> Result<(), CliError> {
        let gone = self.printed.remove(part);
        if gone.is_some_and(|gone| gone.bytes > 0) {
            self.interrupt(ui)?;
            ui.print_dim_note("(this answer broke off; the model begins again)");
        }
        Ok(())
    }

    fn text(
        &mut self,
        ui: &mut Ui,
        (id, is_reasoning): (&PartId, bool),
        whole: &str,
        is_sealed: bool,
    ) -> Result<(), CliError> {
        let known = self.printed.entry(id.clone());
        let known = known.or_insert(PrintedText { bytes: 0, is_reasoning });
        let more = whole.get(known.bytes..).unwrap_or_default().to_owned();
        known.bytes = known.bytes.max(whole.len());
        self.piece(ui, &more, is_reasoning)?;
        if is_sealed { self.end_line(ui) } else { Ok(()) }
    }

    fn piece(&mut self, ui: &mut Ui, more: &str, is_reasoning: bool) -> Result<(), CliError> {
        if more.is_empty() {
            return Ok(());
        }
        self.spinner.clear();
        let stream = if is_reasoning { PieceStream::Reasoning } else { PieceStream::Answer };
        if self.open_line.is_some_and(|open| open != stream) {
            self.end_line(ui)?;
        }
        self.open_line = (!more.ends_with('\n')).then_some(stream);
        match stream {
            PieceStream::Answer => ui.print_piece(more),
            PieceStream::Reasoning => {
                ui.print_note_piece(&apply_style(DIM_STYLE, more));
                Ok(())
            }
        }
    }
}
