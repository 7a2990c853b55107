//! What a compaction has come to already, so that it is done once.

use std::collections::BTreeSet;

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::MessageBody;
use turnstone_store::{Context, ReadTx, StoreError};

use crate::error::Result;
use crate::turns::compaction::Compaction;

impl Compaction {
    /// The summary that answers the request of a compaction, whether it is complete or being written; none if
    /// all attempts have failed.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn find_summary(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &MessageId,
    ) -> Result<Option<MessageId>> {
        Ok(self.store.read(ctx, |r| {
            for row in r.messages().outline(session)?.into_iter().rev() {
                if row.message == *request {
                    break;
                }
                if !row.is_user && is_summary_of(r, session, &row.message, request)? {
                    return Ok(Some(row.message));
                }
            }
            Ok(None)
        })?)
    }

    /// The prompt with which the model goes on after a summary, if it was written already: the first message behind
    /// the summary that no person sent.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn find_followup_prompt(
        &self,
        ctx: &Context,
        session: &SessionId,
        summary: &MessageId,
    ) -> Result<Option<MessageId>> {
        Ok(self.store.read(ctx, |r| {
            let turns = r.turns().list(session)?.into_iter().map(|turn| turn.message);
            let taken = r.prompts().promoted(session)?.into_iter().map(|one| one.message);
            let waiting = r.prompts().waiting(session)?.into_iter().map(|one| one.message);
            let sent: BTreeSet<MessageId> = turns.chain(taken).chain(waiting).collect();
            let rows = r.messages().outline(session)?;
            let behind = rows.into_iter().skip_while(|row| row.message != *summary).skip(1);
            let is_compaction = |(_, kind): &(_, String)| kind == "compaction";
            let before_next = behind.take_while(|row| !row.parts.iter().any(is_compaction));
            let mut found = before_next.filter(|row| row.is_user && !sent.contains(&row.message));
            Ok(found.next().map(|row| row.message))
        })?)
    }
}

/// True for a summary that answers the request and has not failed.
fn is_summary_of(
    r: &ReadTx<'_>,
    session: &SessionId,
    message: &MessageId,
    request: &MessageId,
) -> Result<bool, StoreError> {
    let MessageBody::Assistant(said) = r.messages().get(session, message)?.message.body else {
        return Ok(false);
    };
    Ok(said.summary == Some(true) && said.parent == *request && said.error.is_none())
}
