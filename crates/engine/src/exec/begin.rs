//! Beginning: turn, messages, tool call and window are written down before anything runs.

use turnstone_core::change::Evidence;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Failure, FailureKind, Message, Part, Session};
use turnstone_core::time::Millis;
use turnstone_core::turn::Outcome;
use turnstone_process::GroupId;
use turnstone_store::{Context, StoreError};

use super::manner::{Manner, Shell};
use super::rows;
use crate::call::Call;
use crate::engine::Engine;
use crate::error::Result;
use crate::root::Cover;
use crate::turn::{Prompt, Turn};

/// From so many files on a walk costs more than the watches.
const LARGE: usize = 20_000;

/// A command that runs as a turn.
pub struct Execution {
    /// The turn.
    pub turn: Turn,
    /// The window around it.
    pub call: Call,
    /// Whoever else changes files there unseen: what both change cannot be told apart (R3).
    pub beside: Vec<Beside>,
    pub(super) manner: Manner,
    pub(super) began: Millis,
    pub(super) answer: Message,
    pub(super) part: Part,
}

impl Execution {
    /// The message that holds the tool call.
    #[must_use]
    pub fn answer(&self) -> &MessageId {
        &self.answer.id
    }

    /// The name of the tool call, for a file beside the ledger.
    #[must_use]
    pub fn name(&self) -> &str {
        self.part.id.as_str()
    }
}

/// A command that runs in the same root at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Its session.
    pub session: SessionId,
    /// What people call that session.
    pub title: String,
}

impl Engine {
    /// Begins the turn of a command: everything is durable and captured when this returns.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Busy`] while a turn of the session runs, or the capture
    /// failed: then the turn has ended and the command must not run.
    pub fn begin_exec(&self, ctx: &Context, session: &Session, line: &str) -> Result<Execution> {
        self.begin_as(ctx, session, Manner::Exec, line)
    }

    /// The same for a command that a person runs in a conversation with a model.
    ///
    /// # Errors
    ///
    /// As [`Engine::begin_exec`], and [`turnstone_store::StoreError::Conflict`] if the id of its
    /// message is taken.
    pub fn begin_shell(
        &self,
        ctx: &Context,
        session: &Session,
        shell: Shell,
        line: &str,
    ) -> Result<Execution> {
        if let Some(id) = &shell.message {
            let known = id.clone();
            // In the ledger's own words: it is the only one who knows all sessions.
            let taken = self.store.write(ctx, move |tx| tx.has_message(&known)).wait()?;
            if taken {
                let id = id.to_string();
                return Err(StoreError::Conflict { kind: "message", id }.into());
            }
        }
        self.begin_as(ctx, session, Manner::Shell(shell), line)
    }

    fn begin_as(
        &self,
        ctx: &Context,
        session: &Session,
        manner: Manner,
        line: &str,
    ) -> Result<Execution> {
        let prompt = self.exec_prompt(ctx, session, &manner, line)?;
        let asked = prompt.message.id.clone();
        let turn = self.begin_turn(ctx, prompt)?;
        let opened = self.open_exec(ctx, &turn, session, (&asked, manner), line);
        if let Err(error) = &opened {
            let failure = Failure::new(FailureKind::UnknownError, &error.to_string());
            self.end_turn(ctx, &turn, Outcome::Failed, Some(failure))?;
        }
        opened
    }

    fn exec_prompt(
        &self,
        ctx: &Context,
        session: &Session,
        manner: &Manner,
        line: &str,
    ) -> Result<Prompt> {
        let id = match manner {
            Manner::Shell(Shell { message: Some(id), .. }) => id.clone(),
            Manner::Exec | Manner::Shell(_) => self.new_message_id(ctx, &session.id)?,
        };
        let message = rows::prompt(id, &session.id, manner, ctx.now)?;
        let text = rows::text(self.mint.part(ctx.now)?, &message, manner, line);
        Ok(Prompt { message, parts: vec![text] })
    }

    fn open_exec(
        &self,
        ctx: &Context,
        turn: &Turn,
        session: &Session,
        (asked, manner): (&MessageId, Manner),
        line: &str,
    ) -> Result<Execution> {
        // What the caller relied on held when the turn began (R43).
        let ctx = &ctx.settled();
        let id = self.new_message_id(ctx, &session.id)?;
        let answer = rows::answer(id, session, (asked, &manner), ctx.now)?;
        let part = rows::call(self.mint.part(ctx.now)?, &answer, &manner, line, ctx.now);
        let (put, with, name, now) = (answer.clone(), part.clone(), session.id.clone(), ctx.now);
        let write = move |tx: &turnstone_store::Tx<'_>| {
            tx.put_message(&put)?;
            tx.put_part(&with)?;
            // The session that was used last is the newest of its directory.
            tx.update_session(&name, |session| {
                session.time.updated = serde_json::Number::from(now.0);
                Ok(())
            })
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        self.watch_if_large(ctx, session)?;
        let call = self.open_window(ctx, turn, Some(&part.id))?;
        let beside = self.windows_beside(ctx, &call)?;
        Ok(Execution { turn: turn.clone(), call, beside, manner, began: ctx.now, answer, part })
    }

    /// Starts the journal where a second walk would be dear: then what the command changed is named
    /// by the kernel. Small directories are walked: the kernel's watches are scarce, and a command
    /// may run for hours.
    fn watch_if_large(&self, ctx: &Context, session: &Session) -> Result<()> {
        if let Cover::Vault(vault) = self.cover(session, ctx.now)?
            && vault.known_files() >= LARGE
        {
            // Where there can be none, captures walk as before.
            let _journal = vault.watch();
        }
        Ok(())
    }

    /// The other windows on the root of a call.
    fn windows_beside(&self, ctx: &Context, call: &Call) -> Result<Vec<Beside>> {
        let Some(vault) = &call.vault else {
            return Ok(Vec::new());
        };
        let store = vault.place().id.to_string();
        let found = self.store.read(ctx, |r| {
            let open = r.open_changes(Some(&store))?;
            let outer = open.iter().find(|row| row.set.id == call.id);
            let outer = outer.and_then(|row| row.set.outer.clone());
            let mut found = Vec::new();
            for row in open {
                let set = row.set;
                let is_other = set.id != call.id && Some(&set.id) != outer.as_ref();
                if is_other && set.evidence != Evidence::Named {
                    let title = r.find_session(&set.session)?.map(|session| session.title);
                    let title = title.unwrap_or_default();
                    found.push(Beside { session: set.session, title });
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
    pub fn note_group(
        &self,
        ctx: &Context,
        execution: &mut Execution,
        group: &GroupId,
    ) -> Result<()> {
        rows::set_group(&mut execution.part, group);
        let part = execution.part.clone();
        let context = execution.turn.context(ctx);
        self.store.write(&context, move |tx| tx.put_part(&part)).wait()?;
        Ok(())
    }
    /// Shows what a command has written so far, to whoever looks while it runs.
    ///
    /// # Errors
    ///
    /// [`turnstone_store::StoreError::Fenced`] if the turn is not this process's any more.
    pub fn note_output(
        &self,
        ctx: &Context,
        execution: &mut Execution,
        output: &str,
    ) -> Result<()> {
        rows::set_output(&mut execution.part, output);
        let part = execution.part.clone();
        let context = execution.turn.context(ctx);
        self.store.write(&context, move |tx| tx.put_part(&part)).wait()?;
        Ok(())
    }
}
