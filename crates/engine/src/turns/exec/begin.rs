//! Beginning: turn, messages, tool call and window are stored before anything runs.

use std::path::Path;
use std::sync::Arc;

use turnstone_core::change::Evidence;
use turnstone_core::id::{MessageId, ProjectId, SessionId};
use turnstone_core::model::{Message, MessageFailure, MessageFailureKind, Part, Session};
use turnstone_core::terminal_text::strip_terminal_codes;
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_process::{ProcessGroupId, TraceOptions, TraceOutcome};
use turnstone_store::{Context, Store, StoreError};

use super::command_messages;
use super::command_origin::{CommandOrigin, ShellCommandOrigin};
use super::continued_session::{ContinuableSession, find_continuable};
use super::other_worktrees::{OtherWorktrees, WorktreeComparison};
use crate::captures::session_coverage::SnapshotAccess;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::captures::trace::CallTrace;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::tool_calls::process_group::set_group;
use crate::tool_calls::tracked_call::{ToolCalls, TrackedCall};
use crate::turns::exec::Aborts;
use crate::turns::turn::{Prompt, Turn, TurnLifecycle};

/// From so many files on a walk costs more than the watches.
const WATCH_THRESHOLD_FILES: usize = 20_000;

/// A command that runs as a turn.
pub struct CommandExecution {
    /// The turn.
    pub turn: Turn,
    /// The window around it.
    pub call: TrackedCall,
    /// Other commands in the same root: changes of both cannot be attributed (R3).
    pub concurrent: Vec<ConcurrentCommand>,
    pub(super) origin: CommandOrigin,
    pub(super) began: EpochMillis,
    pub(super) answer: Message,
    pub(super) part: Part,
    pub(super) others: OtherWorktrees,
}

impl CommandExecution {
    /// The message that holds the tool call.
    #[must_use]
    pub fn answer_id(&self) -> &MessageId {
        &self.answer.id
    }

    /// When it began.
    #[must_use]
    pub const fn began(&self) -> EpochMillis {
        self.began
    }

    /// Notes whether the command will be traced; asked for with [`Commands::prepare_trace`].
    pub fn record_trace(&mut self, outcome: &TraceOutcome) {
        self.call.trace = match outcome {
            TraceOutcome::Traced => CallTrace::Requested,
            TraceOutcome::NotRequested => CallTrace::NotRequested,
            TraceOutcome::Unavailable(why) => CallTrace::Unavailable(why.to_string()),
        };
    }

    /// The name of the tool call, for the file with its output.
    #[must_use]
    pub fn call_id(&self) -> &str {
        self.part.id.as_str()
    }
}

/// A command that runs in the same root at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConcurrentCommand {
    /// Its session.
    pub session: SessionId,
    /// What people call that session.
    pub title: String,
}

/// Whether the session of a command is stored, or to be created with its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionOrigin {
    Stored,
    New,
}

/// The messages of a command.
struct CommandRows {
    prompt: Prompt,
    answer: Message,
    part: Part,
}

/// Commands that run as turns.
#[derive(Clone)]
pub struct Commands {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) calls: ToolCalls,
    pub(crate) lifecycle: TurnLifecycle,
    pub(crate) aborts: Aborts,
}

impl Commands {
    /// Begins the turn of a command: everything is durable and captured when this returns.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs, or the capture
    /// failed: then the turn has ended and the command must not run.
    pub fn begin_exec(
        &self,
        ctx: &Context,
        session: &Session,
        line: &str,
    ) -> Result<CommandExecution> {
        self.begin_command(ctx, (session, SessionOrigin::Stored), CommandOrigin::Exec, line)
    }

    /// Begins the turn of a command in a new session, which is created in the same commit.
    ///
    /// # Errors
    ///
    /// As [`Self::begin_exec`].
    pub fn begin_exec_in_new_session(
        &self,
        ctx: &Context,
        session: &Session,
        line: &str,
    ) -> Result<CommandExecution> {
        self.begin_command(ctx, (session, SessionOrigin::New), CommandOrigin::Exec, line)
    }

    /// Finds the newest session of commands in exactly this directory, if a command can continue it: no turn
    /// or operation of it runs, and nothing of it is undone.
    ///
    /// # Errors
    ///
    /// The directory does not exist, or the database cannot be read.
    pub fn find_continuable(
        &self,
        ctx: &Context,
        project: &ProjectId,
        directory: &Path,
    ) -> Result<Option<ContinuableSession>> {
        let directory = fs_err::canonicalize(directory)?;
        Ok(self.store.read(ctx, |r| find_continuable(r, project, &directory))?)
    }

    /// Begins the turn of a command in a session that was found continuable; `None` if the session has changed
    /// since, because another command or an undo came first.
    ///
    /// # Errors
    ///
    /// As [`Self::begin_exec`].
    pub fn begin_exec_continuing(
        &self,
        ctx: &Context,
        found: &ContinuableSession,
        line: &str,
    ) -> Result<Option<CommandExecution>> {
        let ctx = ctx.clone().with_expected_seq(found.seq);
        match self.begin_exec(&ctx, &found.session, line) {
            Ok(execution) => Ok(Some(execution)),
            Err(EngineError::Store(
                StoreError::Busy(id) | StoreError::Stale { session: id, .. },
            )) if id == found.session.id => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the session of a command that could not be started: nothing happened in it.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn discard_session(&self, ctx: &Context, session: &SessionId) -> Result<()> {
        self.store.delete_session(ctx, session)?;
        Ok(())
    }

    /// Begins the turn of a command that a person runs in a conversation with a model.
    ///
    /// # Errors
    ///
    /// As [`Self::begin_exec`], and [`turnstone_store::StoreError::Conflict`] if the id of its
    /// message is taken.
    pub fn begin_shell(
        &self,
        ctx: &Context,
        session: &Session,
        shell: ShellCommandOrigin,
        line: &str,
    ) -> Result<CommandExecution> {
        if let Some(id) = &shell.message {
            let known = id.clone();
            // Only the database knows the messages of all sessions.
            let taken = self.store.write(ctx, move |tx| tx.messages().contains(&known)).wait()?;
            if taken {
                let id = id.to_string();
                return Err(StoreError::Conflict { kind: "message", id }.into());
            }
        }
        let origin = CommandOrigin::Shell(Box::new(shell));
        self.begin_command(ctx, (session, SessionOrigin::Stored), origin, line)
    }

    fn begin_command(
        &self,
        ctx: &Context,
        (session, session_origin): (&Session, SessionOrigin),
        origin: CommandOrigin,
        line: &str,
    ) -> Result<CommandExecution> {
        let (ctx, newest) = match session_origin {
            SessionOrigin::New => (ctx.clone(), None),
            SessionOrigin::Stored => {
                let ctx = self.lifecycle.prepare(ctx, &session.id)?;
                let newest =
                    self.store.read(&ctx, |r| r.messages().greatest_recent_id(&session.id))?;
                (ctx, newest)
            }
        };
        let (ctx, rows) = (&ctx, self.build_rows(&ctx, session, newest, &origin, line)?);
        let created = (session_origin == SessionOrigin::New).then(|| session.clone());
        let (answer, part) = (rows.answer.clone(), rows.part.clone());
        let (name, now) = (session.id.clone(), ctx.now);
        let more = move |tx: &turnstone_store::Tx<'_>| {
            tx.messages().put(&answer)?;
            tx.messages().put_part(&part)?;
            // The session that was used last is the newest of its directory.
            tx.sessions().update(&name, |session| {
                session.time.updated = serde_json::Number::from(now.0);
                Ok(())
            })?;
            Ok(())
        };
        let turn = self.lifecycle.begin_prepared(ctx, created, rows.prompt, more)?;
        // What the caller relied on held when the turn began (R43).
        let ctx = &ctx.without_expected_seq();
        let opened = self.open_command(ctx, &turn, session, &rows.part);
        match opened {
            Ok((call, concurrent)) => {
                let others = match (&origin, &call.snapshots) {
                    (CommandOrigin::Exec, Some(own)) => {
                        WorktreeComparison { commands: self }.open_all(ctx, session, own)
                    }
                    (CommandOrigin::Exec, None) | (CommandOrigin::Shell(_), _) => {
                        OtherWorktrees::default()
                    }
                };
                let (answer, part, began) = (rows.answer, rows.part, ctx.now);
                Ok(CommandExecution { turn, call, concurrent, origin, began, answer, part, others })
            }
            Err(error) => {
                let failure =
                    MessageFailure::new(MessageFailureKind::UnknownError, &error.to_string());
                self.lifecycle.end(ctx, &turn, TurnOutcome::Failed, Some(failure))?;
                Err(error)
            }
        }
    }

    /// The messages of a command: its prompt, and the answer with the running tool call.
    fn build_rows(
        &self,
        ctx: &Context,
        session: &Session,
        newest: Option<MessageId>,
        origin: &CommandOrigin,
        line: &str,
    ) -> Result<CommandRows> {
        let asked = match origin.message() {
            Some(id) => id.clone(),
            None => self.id_generator.new_message_id_after(newest.as_ref(), ctx.now)?,
        };
        let newest = newest.filter(|newest| newest.as_str() > asked.as_str());
        let after = newest.as_ref().unwrap_or(&asked);
        let id = self.id_generator.new_message_id_after(Some(after), ctx.now)?;
        let answer = command_messages::answer_message(id, session, (&asked, origin), ctx.now)?;
        let message = command_messages::prompt_message(asked, &session.id, origin, ctx.now)?;
        let text_id = self.id_generator.new_part_id(ctx.now)?;
        let text = command_messages::prompt_text_part(text_id, &message, origin, line);
        let part_id = self.id_generator.new_part_id(ctx.now)?;
        let part = command_messages::running_call_part(part_id, &answer, origin, line, ctx.now);
        Ok(CommandRows { prompt: Prompt { message, parts: vec![text] }, answer, part })
    }

    /// Captures what is there before the command runs and opens its window.
    fn open_command(
        &self,
        ctx: &Context,
        turn: &Turn,
        session: &Session,
        part: &Part,
    ) -> Result<(TrackedCall, Vec<ConcurrentCommand>)> {
        self.watch_if_large(ctx, session)?;
        let call = self.calls.open_window_in(ctx, turn, session, Some(&part.id))?;
        let concurrent = self.find_concurrent_commands(ctx, &call)?;
        Ok((call, concurrent))
    }

    /// Starts the journal where a second walk would be expensive: then the kernel names what the command
    /// changed. Small directories are walked: the kernel's watches are scarce, and a command
    /// may run for hours.
    pub(super) fn watch_if_large(&self, ctx: &Context, session: &Session) -> Result<()> {
        if let SnapshotAccess::Available(handle) =
            self.snapshots.open_for_session(session, ctx.now)?
            && handle.maintenance().known_file_count() >= WATCH_THRESHOLD_FILES
        {
            // Where there can be none, captures walk as before.
            let _journal = handle.maintenance().start_journal();
        }
        Ok(())
    }

    /// The other windows on the root of a call.
    fn find_concurrent_commands(
        &self,
        ctx: &Context,
        call: &TrackedCall,
    ) -> Result<Vec<ConcurrentCommand>> {
        let Some(handle) = &call.snapshots else {
            return Ok(Vec::new());
        };
        let store = handle.location().id.to_string();
        let found = self.store.read(ctx, |r| {
            let open = r.change_sets().list_open(Some(&store))?;
            let outer = open.iter().find(|row| row.set.id == call.id);
            let outer = outer.and_then(|row| row.set.outer.clone());
            let mut found = Vec::new();
            // What processes of an ended command write is known path by path.
            for row in open.into_iter().filter(|row| row.continues.is_none()) {
                let set = row.set;
                let is_other = set.id != call.id && Some(&set.id) != outer.as_ref();
                if is_other && set.evidence != Evidence::Named {
                    let title = r.sessions().find(&set.session)?.map(|session| session.title);
                    let title = title.unwrap_or_default();
                    found.push(ConcurrentCommand { session: set.session, title });
                }
            }
            Ok(found)
        })?;
        Ok(found)
    }

    /// Where the trace of a command is to be written, so that its changes can be distinguished from those of others.
    ///
    /// # Errors
    ///
    /// The folder cannot be created.
    pub fn prepare_trace(&self, execution: &CommandExecution) -> Result<TraceOptions> {
        self.calls.traces.create_folder()?;
        Ok(TraceOptions { log: self.calls.traces.path(&execution.call.id) })
    }

    /// Stores the process group of a command, before it runs: a crash must not lose it (R32).
    ///
    /// # Errors
    ///
    /// The database refused: then the command must not run.
    pub fn record_process_group(
        &self,
        ctx: &Context,
        execution: &mut CommandExecution,
        group: &ProcessGroupId,
    ) -> Result<()> {
        set_group(&mut execution.part, group);
        let part = execution.part.clone();
        let context = execution.turn.context(ctx);
        self.store.write(&context, move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }

    /// Stores what a command has written so far, for clients that watch it and in case this process is killed.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Fenced`] if the turn is not this process's any more.
    pub fn record_partial_output(
        &self,
        ctx: &Context,
        execution: &mut CommandExecution,
        output: &str,
    ) -> Result<()> {
        match &execution.origin {
            CommandOrigin::Exec => {
                let words = strip_terminal_codes(output);
                command_messages::set_output(&mut execution.part, &words);
            }
            CommandOrigin::Shell(_) => command_messages::set_output(&mut execution.part, output),
        }
        let part = execution.part.clone();
        let context = execution.turn.context(ctx);
        self.store.write(&context, move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }
}
