//! The newest prompt of a session: who answers next, and which tools it switched on or off.

use turnstone_core::id::SessionId;
use turnstone_core::model::{ExtraFields, MessageBody, ModelRef, UserMessage};
use turnstone_store::{Context, ReadTx};

use crate::engine::Engine;
use crate::error::Result;

/// Messages read at a time.
const PAGE: usize = 20;

/// Who answers the next prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct NextAgent {
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: ModelRef,
}

/// The newest prompt before the head; one that still waits in the inbox is not it.
///
/// # Errors
///
/// [`turnstone_store::StoreError::NoSession`].
pub fn find_newest_prompt(
    reader: &ReadTx<'_>,
    session: &SessionId,
) -> turnstone_store::Result<Option<UserMessage>> {
    let waiting = reader.prompts().waiting(session)?;
    let head = reader.sessions().head(session)?.filter(|head| head.part.is_none());
    let mut behind = head.map(|head| head.message);
    let mut before: Option<String> = None;
    loop {
        let page = reader.messages().list(session, before.as_deref(), PAGE)?;
        for found in page.items.into_iter().rev() {
            let message = found.message;
            if let Some(first) = &behind {
                if *first == message.id {
                    behind = None;
                }
                continue;
            }
            let waits = waiting.iter().any(|one| one.message == message.id);
            match message.body {
                MessageBody::User(user) if !waits => return Ok(Some(user)),
                MessageBody::User(_) | MessageBody::Assistant(_) => {}
            }
        }
        match page.before {
            Some(next) => before = Some(next),
            None => return Ok(None),
        }
    }
}

impl Engine {
    /// Who answers the next prompt: the agent and the model of the newest one, else the session's.
    ///
    /// Answers are not asked, so it does not matter whether any are left.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn find_next_agent(&self, ctx: &Context, session: &SessionId) -> Result<Option<NextAgent>> {
        let (newest, session) = self
            .store
            .read(ctx, |r| Ok((find_newest_prompt(r, session)?, r.sessions().get(session)?)))?;
        if let Some(user) = newest {
            return Ok(Some(NextAgent { agent: user.agent, model: user.model }));
        }
        let (Some(agent), Some(model)) = (session.agent, session.model) else {
            return Ok(None);
        };
        let model = ModelRef {
            provider: model.provider,
            model: model.id,
            variant: model.variant,
            extra: ExtraFields::new(),
        };
        Ok(Some(NextAgent { agent, model }))
    }
}
