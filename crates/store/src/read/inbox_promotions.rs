//! Where prompts of the inbox were taken up.

use turnstone_core::context::PromotedPrompt;
use turnstone_core::id::SessionId;

use super::reader::parse_id;
use crate::error::Result;
use crate::read::prompt_status::PromptQueries;

impl PromptQueries<'_> {
    /// The prompts of the inbox that were taken up, in that order, each with the newest message of
    /// that moment that did not come through the inbox itself (R29).
    ///
    /// # Errors
    ///
    /// [`crate::StoreError::NoSession`].
    pub fn promoted(&self, session: &SessionId) -> Result<Vec<PromotedPrompt>> {
        let num = self.read.session_num(session)?;
        let mut statement = self.read.conn.prepare_cached(
            "SELECT input.message,
                    (SELECT id FROM message WHERE message.session = ?1
                       AND message.num < event.cursor
                       AND NOT EXISTS (SELECT 1 FROM input AS other
                                       WHERE other.message = message.id AND other.session = ?1)
                     ORDER BY message.num DESC LIMIT 1)
             FROM input JOIN event ON event.session = ?1 AND event.seq = input.promoted
             WHERE input.session = ?1 AND input.promoted IS NOT NULL ORDER BY event.cursor",
        )?;
        let mut rows = statement.query([num])?;
        let mut taken = Vec::new();
        while let Some(row) = rows.next()? {
            let after: Option<String> = row.get(1)?;
            let message = parse_id(row.get(0)?)?;
            taken.push(PromotedPrompt { message, after: after.map(parse_id).transpose()? });
        }
        Ok(taken)
    }
}
