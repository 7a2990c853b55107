//! Commands inside a tool call that runs: what they write belongs to the call.
//!
//! The shell tool, hooks and formatters run this way. Each command has a change set of its own, for the part
//! of the call: a turn may have any number of them, and an undo of the turn undoes all.

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_core::id::PartId;
use turnstone_core::model::{Part, PartBody, ToolState};
use turnstone_core::time::EpochMillis;
use turnstone_process::{
    AttachError, AttachOptions, AttachOutcome, CommandControl, CommandEnvironment, CommandExit,
    CommandSpec, CommandStdio, OutputLimits, OutputRecorder, PreparedCommand, ProcessGroupId,
    SupervisorProgram, TraceOptions, TraceOutcome,
};
use turnstone_store::Context;

use super::begin::Commands;
use crate::captures::trace::CallTrace;
use crate::error::Result;
use crate::tool_calls::process_group::{keep_group, set_group};
use crate::tool_calls::tracked_call::{CallComparison, ClosedCall, TrackedCall};
use crate::turns::step::ToolFileAccess;
use crate::turns::turn::Turn;

/// A command of a tool call.
#[derive(Clone, Debug)]
pub struct CallCommand {
    /// How this program is started again to watch over it.
    pub supervisor: SupervisorProgram,
    /// A path, or a name to be looked up in the `PATH` of the command.
    pub program: OsString,
    /// The arguments, without the name.
    pub args: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// All variables that it gets.
    pub environment: Vec<(OsString, OsString)>,
    /// What it may do to files.
    pub access: ToolFileAccess,
    /// Whether to record what it writes, so that changes of others are not taken for its own.
    pub is_traced: bool,
    /// The time between SIGTERM and SIGKILL when it is ended.
    pub grace: Duration,
}

/// Where the output of a command goes, and who may end it.
pub struct CallCommandStreams<'a> {
    /// Gets standard output as it comes.
    pub stdout: &'a mut (dyn Write + Send),
    /// Gets standard error as it comes.
    pub stderr: &'a mut (dyn Write + Send),
    /// Receives the handle that ends the command, before this waits for it.
    pub started: &'a mut dyn FnMut(CommandControl),
}

/// What became of a command of a tool call.
#[derive(Debug)]
pub struct CallCommandReport {
    /// How it ended.
    pub end: CallCommandEnd,
    /// True if an abort of the turn was requested while it ran.
    pub is_aborted: bool,
    /// What it changed; nothing if it may change no files, or if that is not known yet.
    pub closed: Option<ClosedCall>,
}

/// How a command of a tool call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallCommandEnd {
    /// It ran and ended.
    Exited(CommandExit),
    /// It never ran: why.
    NotStarted(String),
    /// It is not known how it ended, and parts of it may still run: why. Recovery finds out what it changed.
    Lost(String),
}

/// Commands of one tool call that runs, and what clients see of it meanwhile.
#[derive(Clone, Copy)]
pub struct CallCommands<'a> {
    /// The commands of the engine.
    pub commands: &'a Commands,
    /// The turn.
    pub turn: &'a Turn,
    /// The tool call.
    pub part: &'a PartId,
    /// Returns a context with the present time.
    pub clock: &'a (dyn Fn() -> Context + Sync),
}

impl CallCommands<'_> {
    /// Runs a command inside a tool call that runs, from its opening capture to the end of its change set. Takes as
    /// long as the command does.
    ///
    /// # Errors
    ///
    /// The opening capture or the database failed: the command has not run. The closing capture or the database failed
    /// afterwards: the change set stays open and recovery closes it.
    pub fn run(
        &self,
        command: &CallCommand,
        streams: CallCommandStreams<'_>,
    ) -> Result<CallCommandReport> {
        let ctx = (self.clock)().without_expected_seq();
        let mut call = self.open(&ctx, &command.access)?;
        let prepared = match self.prepare(command, call.as_mut()) {
            Ok(prepared) => prepared,
            Err(why) => {
                // Nothing ran: the change set closes without changes of this command.
                let closed = self.close(ctx.now, call)?;
                let end = CallCommandEnd::NotStarted(why);
                return Ok(CallCommandReport { end, is_aborted: false, closed });
            }
        };
        let group = prepared.group().clone();
        let (end, is_aborted) = self.attach(prepared, streams);
        let end = match end {
            CallCommandEnd::Lost(why) => end_lost_group(&group, command.grace, &why),
            CallCommandEnd::Exited(_) | CallCommandEnd::NotStarted(_) => end,
        };
        let closed = match end {
            // What still runs keeps writing.
            CallCommandEnd::Lost(_) => None,
            CallCommandEnd::Exited(_) | CallCommandEnd::NotStarted(_) => {
                self.close(ctx.now, call)?
            }
        };
        Ok(CallCommandReport { end, is_aborted, closed })
    }

    fn open(&self, ctx: &Context, access: &ToolFileAccess) -> Result<Option<TrackedCall>> {
        match access {
            ToolFileAccess::Nothing => Ok(None),
            ToolFileAccess::Named(paths) => {
                self.commands.calls.open_named(ctx, self.turn, Some(self.part), paths).map(Some)
            }
            ToolFileAccess::Anything => {
                let session =
                    self.commands.store.read(ctx, |r| r.sessions().get(&self.turn.session))?;
                self.commands.watch_if_large(ctx, &session)?;
                let call = self.commands.calls.open_window_in(
                    ctx,
                    self.turn,
                    &session,
                    Some(self.part),
                )?;
                Ok(Some(call))
            }
        }
    }

    /// Makes the process of a command and records its group; the command has not begun to run.
    fn prepare(
        &self,
        command: &CallCommand,
        call: Option<&mut TrackedCall>,
    ) -> std::result::Result<PreparedCommand, String> {
        let mut spec = CommandSpec::new(&command.program, &command.directory)
            .args(&command.args)
            .env(CommandEnvironment::exact(command.environment.iter().cloned()));
        spec.grace = command.grace;
        if let Some(call) = call.as_deref().filter(|call| call.named.is_none())
            && command.is_traced
        {
            self.commands.calls.traces.create_folder().map_err(|error| describe(&error))?;
            spec.trace = Some(TraceOptions { log: self.commands.calls.traces.path(&call.id) });
        }
        let stdio = CommandStdio::Pipes { stdin: None };
        let prepared =
            command.supervisor.prepare(&spec, stdio).map_err(|error| describe(&error))?;
        if let Some(call) = call.filter(|call| call.named.is_none()) {
            call.trace = match prepared.trace() {
                TraceOutcome::Traced => CallTrace::Requested,
                TraceOutcome::NotRequested => CallTrace::NotRequested,
                TraceOutcome::Unavailable(why) => CallTrace::Unavailable(why.to_string()),
            };
        }
        // Before it runs: recovery finds its processes after a crash (R32).
        let recorded = self.update_running_part(|part| set_group(part, prepared.group()));
        recorded.map_err(|error| describe(&error))?;
        Ok(prepared)
    }

    fn attach(
        &self,
        prepared: PreparedCommand,
        streams: CallCommandStreams<'_>,
    ) -> (CallCommandEnd, bool) {
        let CallCommandStreams { stdout, stderr, started } = streams;
        let running = match prepared.start() {
            Ok(running) => running,
            Err(error) => return (CallCommandEnd::NotStarted(describe(&error)), false),
        };
        started(running.control());
        let mut recorder = OutputRecorder::new(OutputLimits { head: 0, tail: 0, spill: 0 }, None);
        let options = AttachOptions {
            recorder: &mut recorder,
            stdout,
            stderr,
            terminal: None,
            signals: None,
        };
        let ctx = (self.clock)();
        let (ended, is_aborted) = self.commands.attach(&ctx, self.turn, running, options);
        let end = match ended {
            Ok(AttachOutcome { exit, .. }) => CallCommandEnd::Exited(exit),
            // It was ended with its supervisor: nothing of it runs any more.
            Err(AttachError::SupervisorDied) => CallCommandEnd::Exited(CommandExit::Signal(9)),
            Err(error @ (AttachError::MayStillRun(_) | AttachError::Io(_))) => {
                CallCommandEnd::Lost(describe(&error))
            }
        };
        (end, is_aborted)
    }

    fn close(&self, began: EpochMillis, call: Option<TrackedCall>) -> Result<Option<ClosedCall>> {
        let Some(call) = call else { return Ok(None) };
        let ctx = (self.clock)().without_expected_seq();
        let (closed, sets) = self.commands.compare_at_end(&ctx, self.turn, &call, began)?;
        let (session, continuation) =
            (self.turn.session.clone(), closed.continuation_for(self.part));
        let write = move |tx: &turnstone_store::Tx<'_>| {
            sets.iter().try_for_each(|set| tx.change_sets().close(&session, set).map(drop))?;
            // The window of the processes that go on opens with the end of the command's.
            continuation.iter().try_for_each(|next| tx.change_sets().open(&session, next).map(drop))
        };
        self.commands.store.write(&self.turn.context(&ctx), write).wait()?;
        CallComparison(&self.commands.calls).remove_traces(&call, &closed);
        Ok(Some(closed))
    }

    /// Replaces the title and metadata that clients show of a tool call that runs; the record of its processes stays.
    /// Does nothing if the call does not run any more.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Fenced`] if another process has the turn by now.
    pub fn show(&self, title: Option<&str>, metadata: &Map<String, Value>) -> Result<()> {
        self.update_running_part(|part| {
            let PartBody::Tool(tool) = &mut part.body else { return };
            if let ToolState::Running { title: shown, metadata: known, .. } = &mut tool.state {
                let mut all = metadata.clone();
                keep_group(known.as_ref(), &mut all);
                *known = Some(json!(all));
                *shown = title.map(str::to_owned);
            }
        })
    }

    fn update_running_part(&self, update: impl FnOnce(&mut Part)) -> Result<()> {
        let ctx = (self.clock)().without_expected_seq();
        let (session, id) = (&self.turn.session, self.part);
        let mut part = self.commands.store.read(&ctx, |r| r.messages().get_part(session, id))?;
        let before = part.clone();
        update(&mut part);
        if part == before {
            return Ok(());
        }
        let context = self.turn.context(&ctx);
        self.commands.store.write(&context, move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }
}

/// Ends what is left of a command whose supervisor failed.
fn end_lost_group(group: &ProcessGroupId, grace: Duration, why: &str) -> CallCommandEnd {
    match group.end(grace) {
        Ok(_) => CallCommandEnd::Exited(CommandExit::Signal(9)),
        Err(error) => CallCommandEnd::Lost(format!("{why}: {error}")),
    }
}

fn describe(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
