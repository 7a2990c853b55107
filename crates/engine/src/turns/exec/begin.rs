//! Beginning: turn, messages, tool call and window are written down before anything runs.

use std::sync::Arc;

use turnstone_core::change::Evidence;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, MessageFailure, MessageFailureKind, Part, Session};
use turnstone_core::time::EpochMillis;
use turnstone_core::turn::TurnOutcome;
use turnstone_process::ProcessGroupId;
use turnstone_store::{Context, Store, StoreError};

use super::command_messages;
use super::command_origin::{CommandOrigin, ShellCommandOrigin};
use crate::captures::session_coverage::SnapshotAccess;
use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::Result;
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
    /// Whoever else changes files there unseen: what both change cannot be told apart (R3).
    pub concurrent: Vec<ConcurrentCommand>,
    pub(super) origin: CommandOrigin,
    pub(super) began: EpochMillis,
    pub(super) answer: Message,
    pub(super) part: Part,
}

impl CommandExecution {
    /// The message that holds the tool call.
    #[must_use]
    pub fn answer_id(&self) -> &MessageId {
        &self.answer.id
    }

    /// The name of the tool call, for a file beside the ledger.
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
        self.begin_command(ctx, session, CommandOrigin::Exec, line)
    }

    /// The same for a command that a person runs in a conversation with a model.
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
            // In the ledger's own words: it is the only one who knows all sessions.
            let taken = self.store.write(ctx, move |tx| tx.messages().contains(&known)).wait()?;
            if taken {
                let id = id.to_string();
                return Err(StoreError::Conflict { kind: "message", id }.into());
            }
        }
        self.begin_command(ctx, session, CommandOrigin::Shell(Box::new(shell)), line)
    }

    fn begin_command(
        &self,
        ctx: &Context,
        session: &Session,
        manner: CommandOrigin,
        line: &str,
    ) -> Result<CommandExecution> {
        let prompt = self.command_prompt(ctx, session, &manner, line)?;
        let asked = prompt.message.id.clone();
        let turn = self.lifecycle.begin(ctx, prompt)?;
        let opened = self.open_command(ctx, &turn, session, (&asked, manner), line);
        if let Err(error) = &opened {
            let failure = MessageFailure::new(MessageFailureKind::UnknownError, &error.to_string());
            self.lifecycle.end(ctx, &turn, TurnOutcome::Failed, Some(failure))?;
        }
        opened
    }

    fn command_prompt(
        &self,
        ctx: &Context,
        session: &Session,
        manner: &CommandOrigin,
        line: &str,
    ) -> Result<Prompt> {
        let id = match manner.message() {
            Some(id) => id.clone(),
            None => self.lifecycle.new_message_id(ctx, &session.id)?,
        };
        let message = command_messages::prompt_message(id, &session.id, manner, ctx.now)?;
        let text = command_messages::prompt_text_part(
            self.id_generator.new_part_id(ctx.now)?,
            &message,
            manner,
            line,
        );
        Ok(Prompt { message, parts: vec![text] })
    }

    fn open_command(
        &self,
        ctx: &Context,
        turn: &Turn,
        session: &Session,
        (asked, manner): (&MessageId, CommandOrigin),
        line: &str,
    ) -> Result<CommandExecution> {
        // What the caller relied on held when the turn began (R43).
        let ctx = &ctx.without_expected_seq();
        let id = self.lifecycle.new_message_id(ctx, &session.id)?;
        let answer = command_messages::answer_message(id, session, (asked, &manner), ctx.now)?;
        let part = command_messages::running_call_part(
            self.id_generator.new_part_id(ctx.now)?,
            &answer,
            &manner,
            line,
            ctx.now,
        );
        let (put, with, name, now) = (answer.clone(), part.clone(), session.id.clone(), ctx.now);
        let write = move |tx: &turnstone_store::Tx<'_>| {
            tx.messages().put(&put)?;
            tx.messages().put_part(&with)?;
            // The session that was used last is the newest of its directory.
            tx.sessions().update(&name, |session| {
                session.time.updated = serde_json::Number::from(now.0);
                Ok(())
            })
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        self.watch_if_large(ctx, session)?;
        let call = self.calls.open_window(ctx, turn, Some(&part.id))?;
        let beside = self.find_concurrent_commands(ctx, &call)?;
        Ok(CommandExecution {
            turn: turn.clone(),
            call,
            concurrent: beside,
            origin: manner,
            began: ctx.now,
            answer,
            part,
        })
    }

    /// Starts the journal where a second walk would be dear: then what the command changed is named
    /// by the kernel. Small directories are walked: the kernel's watches are scarce, and a command
    /// may run for hours.
    fn watch_if_large(&self, ctx: &Context, session: &Session) -> Result<()> {
        if let SnapshotAccess::Available(vault) = self.snapshots.access(session, ctx.now)?
            && vault.maintenance().known_file_count() >= WATCH_THRESHOLD_FILES
        {
            // Where there can be none, captures walk as before.
            let _journal = vault.maintenance().start_journal();
        }
        Ok(())
    }

    /// The other windows on the root of a call.
    fn find_concurrent_commands(
        &self,
        ctx: &Context,
        call: &TrackedCall,
    ) -> Result<Vec<ConcurrentCommand>> {
        let Some(vault) = &call.snapshots else {
            return Ok(Vec::new());
        };
        let store = vault.location().id.to_string();
        let found = self.store.read(ctx, |r| {
            let open = r.change_sets().list_open(Some(&store))?;
            let outer = open.iter().find(|row| row.set.id == call.id);
            let outer = outer.and_then(|row| row.set.outer.clone());
            let mut found = Vec::new();
            for row in open {
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

    /// Writes down which processes a command is, before it runs: a crash must not lose them (R32).
    ///
    /// # Errors
    ///
    /// The ledger refused: then the command must not run.
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

    /// Shows what a command has written so far, to whoever looks while it runs.
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
        command_messages::set_output(&mut execution.part, output);
        let part = execution.part.clone();
        let context = execution.turn.context(ctx);
        self.store.write(&context, move |tx| tx.messages().put_part(&part)).wait()?;
        Ok(())
    }
}
