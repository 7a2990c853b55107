//! The context of a model: compacted, pruned, and turned into the messages of a request.

use serde_json::Number;
use turnstone_core::context::{
    Entry, Limits, ModelMessage, ModelTarget, Settings, completed_compactions, filter_compacted,
    mark_compacted, model_size, place_prompts, recent_budget, replay_point, select_prune,
    select_tail, to_model_messages,
};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{
    Compaction, Extra, Message, MessageBody, ModelRef, Part, PartBody, Text, User, UserTime,
};
use turnstone_store::{Context, Reader, StoreError, Tx};

use crate::engine::Engine;
use crate::error::Result;
use crate::turn::{Prompt, Turn};

/// Messages read at a time.
const PAGE: usize = 50;
/// Parts marked in one transaction.
const AT_ONCE: usize = 100;

/// A compaction that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionRequest {
    /// The agent that goes on afterwards.
    pub agent: String,
    /// The model.
    pub model: ModelRef,
    /// Wanted by the program, not by a person.
    pub auto: bool,
    /// The context had overflowed.
    pub overflow: bool,
}

/// What a compaction is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionPlan {
    /// The message that asks for it.
    pub request: MessageId,
    /// What is summarised.
    pub head: Vec<Entry>,
    /// The first message that stays as it is.
    pub tail: Option<MessageId>,
    /// The prompt that is asked again afterwards.
    pub replay: Option<MessageId>,
    /// The summary before, which the new one takes up.
    pub previous: Option<String>,
}

/// A summary that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its message: an answer to the request, marked as a summary and finished.
    pub message: Message,
    /// Its words.
    pub text: String,
}

impl Engine {
    /// What a model sees of a session, in the order it reads it.
    ///
    /// A prompt that waits in the inbox is not seen before it is taken up.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn context(&self, ctx: &Context, session: &SessionId) -> Result<Vec<Entry>> {
        Ok(self.store.read(ctx, |r| {
            let (waiting, taken) = (r.inbox(session)?, r.taken_up(session)?);
            let mut pulled = pull(r, session)?;
            pulled.retain(|(message, _)| !waiting.iter().any(|one| one.message == message.id));
            // A prompt that came before a compaction and was taken up after it.
            for one in &taken {
                let is_pulled = |id: &MessageId| pulled.iter().any(|(it, _)| it.id == *id);
                if one.after.as_ref().is_some_and(is_pulled) && !is_pulled(&one.message) {
                    match r.get_message(session, &one.message) {
                        Ok(found) => pulled.insert(0, (found.message, found.parts)),
                        // It is hidden: somebody took it back.
                        Err(StoreError::NoMessage { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            Ok(filter_compacted(place_prompts(pulled, &taken).into_iter().rev()))
        })?)
    }

    /// The messages of a request to a model (6.9).
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn model_messages(
        &self,
        ctx: &Context,
        session: &SessionId,
        target: &ModelTarget,
    ) -> Result<Vec<ModelMessage>> {
        Ok(to_model_messages(&self.context(ctx, session)?, target))
    }

    /// Begins a turn that compacts the context: its request is a message of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn runs; that turn asks with [`Engine::request_compaction`].
    pub fn begin_compaction(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &CompactionRequest,
    ) -> Result<(Turn, MessageId)> {
        let prompt = self.compaction_prompt(ctx, session, request)?;
        let id = prompt.message.id.clone();
        Ok((self.begin_turn(ctx, prompt)?, id))
    }

    /// Asks for a compaction inside a running turn.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if the turn is not this process's any more.
    pub fn request_compaction(
        &self,
        ctx: &Context,
        turn: &Turn,
        request: &CompactionRequest,
    ) -> Result<MessageId> {
        let Prompt { message, parts } = self.compaction_prompt(ctx, &turn.session, request)?;
        let id = message.id.clone();
        let write = move |tx: &Tx<'_>| {
            tx.put_message(&message)?;
            parts.iter().try_for_each(|part| tx.put_part(part).map(drop))
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(id)
    }

    fn compaction_prompt(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &CompactionRequest,
    ) -> Result<Prompt> {
        let id = self.new_message_id(ctx, session)?;
        let user = User {
            time: UserTime { created: Number::from(ctx.now.0), extra: Extra::new() },
            format: None,
            summary: None,
            agent: request.agent.clone(),
            model: request.model.clone(),
            system: None,
            tools: None,
            extra: Extra::new(),
        };
        let compaction = Compaction {
            auto: request.auto,
            overflow: request.overflow.then_some(true),
            tail_start: None,
            extra: Extra::new(),
        };
        let part = Part {
            id: self.mint.part(ctx.now)?,
            session: session.clone(),
            message: id.clone(),
            body: PartBody::Compaction(compaction),
        };
        let message = Message { id, session: session.clone(), body: MessageBody::User(user) };
        Ok(Prompt { message, parts: vec![part] })
    }

    /// Works out what a compaction summarises and what it keeps. Prompts that came after its
    /// request are neither: they stay behind it.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the message asks for no compaction.
    pub fn plan_compaction(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &MessageId,
        target: &ModelTarget,
        (limits, settings): (Limits, &Settings),
    ) -> Result<CompactionPlan> {
        let seen = self.context(ctx, session)?;
        let at = seen.iter().position(|(message, _)| message.id == *request);
        let compaction = at.and_then(|at| seen.get(at)).and_then(|(_, parts)| compaction(parts));
        let (Some(at), Some(compaction)) = (at, compaction) else {
            return Err(no_request(request).into());
        };
        let before = seen.get(..at).unwrap_or_default();
        let replay = (compaction.overflow == Some(true)).then(|| replay_point(&seen, at)).flatten();
        let before = before.get(..replay.unwrap_or(before.len())).unwrap_or(before);
        let done = completed_compactions(before);
        let hidden =
            |index: usize| done.iter().any(|pair| pair.request == index || pair.summary == index);
        let shown: Vec<Entry> = before
            .iter()
            .enumerate()
            .filter(|(index, _)| !hidden(*index))
            .map(|(_, entry)| entry.clone())
            .collect();
        let budget = recent_budget(limits, settings);
        let tail = select_tail(&shown, settings, budget, |part| model_size(part, target));
        let cut = tail.as_ref().map_or(shown.len(), |tail| tail.start);
        let previous = done.last().and_then(|pair| before.get(pair.summary));
        Ok(CompactionPlan {
            request: request.clone(),
            head: shown.get(..cut).unwrap_or_default().to_vec(),
            tail: tail.map(|tail| tail.id),
            replay: replay.and_then(|at| seen.get(at)).map(|(message, _)| message.id.clone()),
            previous: previous.map(|(_, parts)| words(parts)),
        })
    }

    /// Writes the summary of a compaction: its message, its words and where the tail begins, at once.
    ///
    /// The summary answers the message that asked for it, whatever was said since (W33).
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the summary answers another message or is not finished.
    pub fn finish_compaction(
        &self,
        ctx: &Context,
        turn: &Turn,
        plan: &CompactionPlan,
        summary: &Summary,
    ) -> Result<()> {
        let MessageBody::Assistant(said) = &summary.message.body else {
            return Err(no_request(&plan.request).into());
        };
        let is_finished = said.summary == Some(true) && said.finish.is_some();
        if said.parent != plan.request || !is_finished || said.error.is_some() {
            return Err(no_request(&plan.request).into());
        }
        let found = self.store.read(ctx, |r| r.get_message(&turn.session, &plan.request))?;
        let asked = found.parts.into_iter().find_map(|part| {
            if let PartBody::Compaction(it) = part.body { Some((part.id, it)) } else { None }
        });
        let Some((id, mut compaction)) = asked else {
            return Err(no_request(&plan.request).into());
        };
        compaction.tail_start.clone_from(&plan.tail);
        let request = Part {
            id,
            session: turn.session.clone(),
            message: plan.request.clone(),
            body: PartBody::Compaction(compaction),
        };
        let text = Part {
            id: self.mint.part(ctx.now)?,
            session: turn.session.clone(),
            message: summary.message.id.clone(),
            body: PartBody::Text(Text { text: summary.text.clone(), ..Text::default() }),
        };
        let message = summary.message.clone();
        let write = move |tx: &Tx<'_>| {
            tx.put_message(&message)?;
            tx.put_part(&text)?;
            tx.put_part(&request)
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }

    /// Clears old tool outputs from a model's view, if `on`; the outputs stay stored (8.5).
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while another process runs a turn: nothing more is cleared.
    pub fn prune(
        &self,
        ctx: &Context,
        session: &SessionId,
        turn: Option<&Turn>,
        on: bool,
    ) -> Result<Vec<PartId>> {
        if !on {
            return Ok(Vec::new());
        }
        let seen = self.context(ctx, session)?;
        let chosen = select_prune(&seen);
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
        for parts in marked.chunks(AT_ONCE) {
            let parts = parts.to_vec();
            let write =
                move |tx: &Tx<'_>| parts.iter().try_for_each(|part| tx.put_part(part).map(drop));
            self.store.write(&ctx, write).wait()?;
        }
        Ok(marked.into_iter().map(|part| part.id).collect())
    }
}

fn no_request(message: &MessageId) -> StoreError {
    StoreError::Invalid(format!("this is no finished compaction of {message}"))
}

fn compaction(parts: &[Part]) -> Option<&Compaction> {
    parts.iter().find_map(|part| {
        if let PartBody::Compaction(compaction) = &part.body { Some(compaction) } else { None }
    })
}

/// The words of a message.
fn words(parts: &[Part]) -> String {
    let text = |part: &Part| {
        if let PartBody::Text(text) = &part.body { Some(text.text.clone()) } else { None }
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// The messages of a session in stream order, as far back as its newest compaction reaches.
fn pull(reader: &Reader<'_>, session: &SessionId) -> turnstone_store::Result<Vec<Entry>> {
    let mut pages = Pages::new(reader, session);
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

/// The messages of a session, newest first, read as far as they are wanted.
struct Pages<'r, 's> {
    reader: &'r Reader<'r>,
    session: &'s SessionId,
    before: Option<String>,
    page: Vec<Entry>,
    end: bool,
}

impl<'r, 's> Pages<'r, 's> {
    fn new(reader: &'r Reader<'r>, session: &'s SessionId) -> Self {
        Self { reader, session, before: None, page: Vec::new(), end: false }
    }

    fn next(&mut self) -> turnstone_store::Result<Option<Entry>> {
        if self.page.is_empty() && !self.end {
            let read = self.reader.list_messages(self.session, self.before.as_deref(), PAGE)?;
            self.page = read.items.into_iter().map(|one| (one.message, one.parts)).collect();
            self.before = read.before;
            self.end = self.before.is_none();
        }
        Ok(self.page.pop())
    }
}
