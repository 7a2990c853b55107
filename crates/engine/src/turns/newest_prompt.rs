//! The newest prompt of a session: who answers next, and which tools it switched on or off.

use turnstone_core::id::SessionId;
use turnstone_core::model::{MessageBody, ModelRef, UserMessage};
use turnstone_store::ReadTx;

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
pub(crate) fn find_newest_prompt(
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
