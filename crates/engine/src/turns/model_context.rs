//! The context of a model: what it sees of a session, pruned, as the messages of a request.

use std::sync::Arc;

use turnstone_core::context::{
    ContextMessage, ModelMessage, ModelTarget, filter_compacted, mark_compacted,
    place_promoted_prompts, select_outputs_to_prune, to_model_messages,
};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{Part, PartBody};
use turnstone_store::{Context, ReadTx, Store, StoreError, Tx};

use crate::error::Result;
use crate::turns::turn::Turn;

/// Messages read at a time.
const PAGE: usize = 50;
/// Parts marked in one transaction.
const PRUNE_BATCH: usize = 100;

/// What a model sees of a session.
#[derive(Clone)]
pub struct ModelContexts {
    pub(crate) store: Arc<Store>,
}

impl ModelContexts {
    /// What a model sees of a session, in the order it reads it.
    ///
    /// A prompt that waits in the inbox is not seen before it is taken up.
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn model_context(&self, ctx: &Context, session: &SessionId) -> Result<Vec<ContextMessage>> {
        Ok(self.store.read(ctx, |r| {
            let (waiting, taken) = (r.prompts().waiting(session)?, r.prompts().promoted(session)?);
            let mut pulled = read_since_compaction(r, session)?;
            pulled.retain(|(message, _)| !waiting.iter().any(|one| one.message == message.id));
            // A prompt that came before a compaction and was taken up after it.
            for one in &taken {
                let is_pulled = |id: &MessageId| pulled.iter().any(|(it, _)| it.id == *id);
                if one.after.as_ref().is_some_and(is_pulled) && !is_pulled(&one.message) {
                    match r.messages().get(session, &one.message) {
                        Ok(found) => pulled.insert(0, (found.message, found.parts)),
                        // It is hidden by an undo.
                        Err(StoreError::NoMessage { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(filter_compacted(place_promoted_prompts(pulled, &taken).into_iter().rev()))
        })?)
    }

    /// The messages of a request to a model (6.9).
    ///
    /// # Errors
    ///
    /// The database refused.
    pub fn model_messages(
        &self,
        ctx: &Context,
        session: &SessionId,
        target: &ModelTarget,
    ) -> Result<Vec<ModelMessage>> {
        Ok(to_model_messages(&self.model_context(ctx, session)?, target))
    }

    /// Clears old tool outputs from a model's view, if `on`; the outputs stay stored (8.5).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while another process runs a turn: nothing more is cleared.
    pub fn prune_tool_outputs(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: Option<&Turn>,
        on: bool,
    ) -> Result<Vec<PartId>> {
        if !on {
            return Ok(Vec::new());
        }
        let seen = self.model_context(ctx, session)?;
        let chosen = select_outputs_to_prune(&seen);
        let mut marked: Vec<Part> = Vec::new();
        for part in seen.into_iter().flat_map(|(_, parts)| parts) {
            let mut part = part;
            if !chosen.contains(&part.id) {
                continue;
            }
            let PartBody::Tool(tool) = &mut part.body else { continue };
            if let Some(state) = mark_compacted(&tool.state, ctx.now) {
                tool.state = state;
                marked.push(part);
            }
        }
        let ctx = turn.map_or_else(|| ctx.clone(), |turn| turn.context(ctx));
        for parts in marked.chunks(PRUNE_BATCH) {
            let parts = parts.to_vec();
            let write = move |tx: &Tx<'_>| {
                parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
            };
            self.store.write(&ctx, write).wait()?;
        }
        Ok(marked.into_iter().map(|part| part.id).collect())
    }
}

/// The messages of a session in stream order, as far back as its newest compaction reaches.
fn read_since_compaction(
    reader: &ReadTx<'_>,
    session: &SessionId,
) -> turnstone_store::Result<Vec<ContextMessage>> {
    let mut pages = MessagePages::new(reader, session);
    let (mut pulled, mut broken) = (Vec::new(), None);
    let newest_first = std::iter::from_fn(|| match pages.next() {
        Ok(entry) => {
            pulled.extend(entry.clone());
            entry
        }
        Err(error) => {
            broken = Some(error);
            None
        }
    });
    drop(filter_compacted(newest_first));
    pulled.reverse();
    broken.map_or(Ok(pulled), Err)
}

/// The messages of a session, newest first, read on demand.
struct MessagePages<'r, 's> {
    reader: &'r ReadTx<'r>,
    session: &'s SessionId,
    before: Option<String>,
    page: Vec<ContextMessage>,
    end: bool,
}

impl<'r, 's> MessagePages<'r, 's> {
    fn new(reader: &'r ReadTx<'r>, session: &'s SessionId) -> Self {
        Self { reader, session, before: None, page: Vec::new(), end: false }
    }

    fn next(&mut self) -> turnstone_store::Result<Option<ContextMessage>> {
        if self.page.is_empty() && !self.end {
            let read = self.reader.messages().list(self.session, self.before.as_deref(), PAGE)?;
            self.page = read.items.into_iter().map(|one| (one.message, one.parts)).collect();
            self.before = read.before;
            self.end = self.before.is_none();
        }
        Ok(self.page.pop())
    }
}
