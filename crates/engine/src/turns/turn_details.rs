//! What a turn says next to its answers: usage so far, to-dos, titles, summaries, and attempts that failed.

use serde_json::Number;
use turnstone_core::id::MessageId;
use turnstone_core::model::{MessageBody, SessionStatus, Todo, TokenCounts, UserSummary};
use turnstone_store::{Context, StoreError, Tx};

use crate::error::Result;
use crate::turns::step::Steps;
use crate::turns::step_usage::{StepUsage, reported_usage};
use crate::turns::turn::Turn;

impl Steps {
    /// Stores what the open step of an answer used so far; what is left out stays as it was reported before. Returns
    /// false, and stores nothing, if the answer has no open step.
    ///
    /// If the step never ends, the end of its turn takes these figures over.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`]; otherwise as [`Self::set_todos`].
    pub fn report_usage(
        &self,
        ctx: &Context,
        turn: &Turn,
        message: &MessageId,
        usage: StepUsage,
    ) -> Result<bool> {
        let mut found = self.store.read(ctx, |r| r.messages().get(&turn.session, message))?;
        if !usage.apply_to(&mut found) {
            return Ok(false);
        }
        let answer = found.message;
        self.store.write(&turn.context(ctx), move |tx| tx.messages().put(&answer)).wait()?;
        Ok(true)
    }

    /// What was reported of the open step of an answer; zeros if nothing was.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoMessage`].
    pub fn reported_usage(
        &self,
        ctx: &Context,
        turn: &Turn,
        message: &MessageId,
    ) -> Result<(Number, TokenCounts)> {
        let found = self.store.read(ctx, |r| r.messages().get(&turn.session, message))?;
        Ok(reported_usage(found))
    }

    /// Replaces the to-do list of the turn's session. An undo of the turn undoes it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if another process has the turn by now, as everything here.
    pub fn set_todos(&self, ctx: &Context, turn: &Turn, todos: Vec<Todo>) -> Result<()> {
        let session = turn.session.clone();
        let write = move |tx: &Tx<'_>| tx.sessions().set_todos(&session, &todos);
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }

    /// Gives the turn's session a title.
    ///
    /// # Errors
    ///
    /// As [`Self::set_todos`].
    pub fn set_session_title(&self, ctx: &Context, turn: &Turn, title: String) -> Result<()> {
        let session = turn.session.clone();
        let write = move |tx: &Tx<'_>| {
            tx.sessions().update(&session, |session| {
                session.title.clone_from(&title);
                Ok(())
            })
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }

    /// Stores what the turn of a prompt was about, with the prompt; its diffs stay as they are.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the message is no prompt; otherwise as [`Self::set_todos`].
    pub fn set_prompt_summary(
        &self,
        ctx: &Context,
        turn: &Turn,
        message: &MessageId,
        (title, body): (Option<String>, Option<String>),
    ) -> Result<()> {
        let found = self.store.read(ctx, |r| r.messages().get(&turn.session, message))?;
        let mut prompt = found.message;
        let MessageBody::User(user) = &mut prompt.body else {
            return Err(StoreError::Invalid(format!("{message} is no prompt")).into());
        };
        let summary = user.summary.get_or_insert_with(|| UserSummary {
            title: None,
            body: None,
            diffs: Vec::new(),
            extra: turnstone_core::model::ExtraFields::new(),
        });
        summary.title = title.or_else(|| summary.title.take());
        summary.body = body.or_else(|| summary.body.take());
        self.store.write(&turn.context(ctx), move |tx| tx.messages().put(&prompt)).wait()?;
        Ok(())
    }

    /// Shows what the turn is doing: it waits for its next attempt, or is busy again.
    ///
    /// # Errors
    ///
    /// [`StoreError::Transition`] if the turn has ended; otherwise as [`Self::set_todos`].
    pub fn show_status(&self, ctx: &Context, turn: &Turn, status: SessionStatus) -> Result<()> {
        let (session, id) = (turn.session.clone(), turn.id.clone());
        let write = move |tx: &Tx<'_>| tx.turns().set_retry(&session, &id, &status);
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }
}
