//! Compaction: old messages are summarised, new ones stay, and no prompt is lost.

use std::sync::Arc;

use serde_json::Number;
use turnstone_core::context::{
    CompactionSettings, ContextMessage, ModelLimits, ModelTarget, completed_compactions,
    continuation_part, estimate_model_tokens, find_replay_point, render_transcript,
    replay_prompt_parts, select_tail, tail_budget,
};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{
    CompactionPart, ExtraFields, Message, MessageBody, MessageFailure, ModelRef, Part, PartBody,
    TextPart, UserMessage, UserTime,
};
use turnstone_store::{Context, MessageWithParts, Store, StoreError, Tx};

use crate::error::Result;
use crate::id_generator::IdGenerator;
use crate::turns::model_context::ModelContexts;
use crate::turns::step::mark_compacting;
use crate::turns::turn::{Prompt, Turn, TurnLifecycle};

/// A compaction that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionRequest {
    /// The agent that continues afterwards.
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
    pub head: Vec<ContextMessage>,
    /// The first message that stays as it is.
    pub tail: Option<MessageId>,
    /// The prompt that is asked again afterwards.
    pub replay: Option<MessageId>,
    /// The summary before, which the new one takes up.
    pub previous: Option<String>,
    /// The model continues afterwards: with the repeated prompt, or with a prompt to continue.
    /// As in the automatic request; set it to change that.
    pub continues: bool,
}

impl CompactionPlan {
    /// What is summarised, as one plain text.
    #[must_use]
    pub fn transcript(&self) -> String {
        render_transcript(&self.head)
    }
}

/// A summary that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionSummary {
    /// Its message: an answer to the request, marked as a summary and finished.
    pub message: Message,
    /// Its words.
    pub text: String,
}

/// Compactions: a summary takes the place of old messages in a model's view.
#[derive(Clone)]
pub struct Compaction {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) lifecycle: TurnLifecycle,
    pub(crate) contexts: ModelContexts,
}

impl Compaction {
    /// Begins a turn that compacts the context: its request is a separate message.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] while a turn runs; that turn asks with [`Self::request`].
    pub fn begin(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &CompactionRequest,
    ) -> Result<(Turn, MessageId)> {
        let prompt = self.new_prompt(ctx, session, request)?;
        let id = prompt.message.id.clone();
        Ok((self.lifecycle.begin(ctx, prompt)?, id))
    }

    /// Asks for a compaction inside a running turn.
    ///
    /// # Errors
    ///
    /// [`StoreError::Fenced`] if the turn is not this process's any more.
    pub fn request(
        &self,
        ctx: &Context,
        turn: &Turn,
        request: &CompactionRequest,
    ) -> Result<MessageId> {
        let Prompt { message, parts } = self.new_prompt(ctx, &turn.session, request)?;
        let id = message.id.clone();
        let write = move |tx: &Tx<'_>| {
            tx.messages().put(&message)?;
            parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(id)
    }

    fn new_prompt(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &CompactionRequest,
    ) -> Result<Prompt> {
        let id = self.lifecycle.new_message_id(ctx, session)?;
        let user = UserMessage {
            time: UserTime { created: Number::from(ctx.now.0), extra: ExtraFields::new() },
            format: None,
            summary: None,
            agent: request.agent.clone(),
            model: request.model.clone(),
            system: None,
            tools: None,
            extra: ExtraFields::new(),
        };
        let compaction = CompactionPart {
            auto: request.auto,
            overflow: request.overflow.then_some(true),
            tail_start: None,
            extra: ExtraFields::new(),
        };
        let part = Part {
            id: self.id_generator.new_part_id(ctx.now)?,
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
    pub fn plan(
        &self,
        ctx: &Context,
        session: &SessionId,
        request: &MessageId,
        target: &ModelTarget,
        (limits, settings): (ModelLimits, &CompactionSettings),
    ) -> Result<CompactionPlan> {
        let seen = self.contexts.model_context(ctx, session)?;
        let at = seen.iter().position(|(message, _)| message.id == *request);
        let compaction =
            at.and_then(|at| seen.get(at)).and_then(|(_, parts)| find_compaction(parts));
        let (Some(at), Some(compaction)) = (at, compaction) else {
            return Err(not_a_compaction(request).into());
        };
        let before = seen.get(..at).unwrap_or_default();
        let replay =
            (compaction.overflow == Some(true)).then(|| find_replay_point(&seen, at)).flatten();
        let before = before.get(..replay.unwrap_or(before.len())).unwrap_or(before);
        let done = completed_compactions(before);
        let hidden =
            |index: usize| done.iter().any(|pair| pair.request == index || pair.summary == index);
        let shown: Vec<ContextMessage> = before
            .iter()
            .enumerate()
            .filter(|(index, _)| !hidden(*index))
            .map(|(_, entry)| entry.clone())
            .collect();
        let budget = tail_budget(limits, settings);
        // A repeated prompt lies between such a tail and the request: it would be seen twice.
        let tail = match replay {
            Some(_) => None,
            None => {
                select_tail(&shown, settings, budget, |part| estimate_model_tokens(part, target))
            }
        };
        let cut = tail.as_ref().map_or(shown.len(), |tail| tail.start);
        let previous = done.last().and_then(|pair| before.get(pair.summary));
        Ok(CompactionPlan {
            request: request.clone(),
            head: shown.get(..cut).unwrap_or_default().to_vec(),
            tail: tail.map(|tail| tail.id),
            replay: replay.and_then(|at| seen.get(at)).map(|(message, _)| message.id.clone()),
            previous: previous.map(|(_, parts)| join_text_parts(parts)),
            continues: compaction.auto,
        })
    }

    /// Writes the summary of a compaction at once: its message, its words, where the tail begins,
    /// and what makes the model go on, whose message is returned.
    ///
    /// The summary answers the message that asked for it, whatever was said since (W33). Words that
    /// were streamed into the message already are not written again. Clients know the event as
    /// `session.compacted`, see [`turnstone_core::context::summarized_request`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the summary answers another message or is not finished.
    pub fn finish(
        &self,
        ctx: &Context,
        turn: &Turn,
        plan: &CompactionPlan,
        summary: &CompactionSummary,
    ) -> Result<Option<MessageId>> {
        let MessageBody::Assistant(said) = &summary.message.body else {
            return Err(not_a_compaction(&plan.request).into());
        };
        let is_finished = said.summary == Some(true) && said.finish.is_some();
        if said.parent != plan.request || !is_finished || said.error.is_some() {
            return Err(not_a_compaction(&plan.request).into());
        }
        let asked = self.store.read(ctx, |r| r.messages().get(&turn.session, &plan.request))?;
        let mut parts = vec![with_tail_start(&asked, plan)?];
        if !self.has_summary_text(ctx, &summary.message)? {
            parts.push(Part {
                id: self.id_generator.new_part_id(ctx.now)?,
                session: turn.session.clone(),
                message: summary.message.id.clone(),
                body: PartBody::Text(TextPart {
                    text: summary.text.clone(),
                    ..TextPart::default()
                }),
            });
        }
        let next =
            if plan.continues { Some(self.followup_prompt(ctx, &asked, plan)?) } else { None };
        let id = next.as_ref().map(|next| next.message.id.clone());
        let session = turn.session.clone();
        let mut messages = vec![summary.message.clone()];
        if let Some(Prompt { message, parts: more }) = next {
            messages.push(message);
            parts.extend(more);
        }
        let write = move |tx: &Tx<'_>| {
            mark_compacting(tx, &session, None)?;
            messages.iter().try_for_each(|message| tx.messages().put(message).map(drop))?;
            parts.iter().try_for_each(|part| tx.messages().put_part(part).map(drop))
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(id)
    }

    /// Writes that a compaction failed: its summary ends with an error and cuts nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::Invalid`] if the message is no answer to the request.
    pub fn fail(
        &self,
        ctx: &Context,
        turn: &Turn,
        plan: &CompactionPlan,
        (message, failure): (&Message, MessageFailure),
    ) -> Result<()> {
        let mut message = message.clone();
        match &mut message.body {
            MessageBody::Assistant(said) if said.parent == plan.request => {
                said.finish = Some("error".to_owned());
                said.error = Some(failure);
                said.time.completed = Some(Number::from(ctx.now.0));
            }
            MessageBody::Assistant(_) | MessageBody::User(_) => {
                return Err(not_a_compaction(&plan.request).into());
            }
        }
        let write = move |tx: &Tx<'_>| {
            mark_compacting(tx, &message.session, None)?;
            tx.messages().put(&message)
        };
        self.store.write(&turn.context(ctx), write).wait()?;
        Ok(())
    }

    /// True if a summary has words already.
    fn has_summary_text(&self, ctx: &Context, message: &Message) -> Result<bool> {
        let found = self.store.read(ctx, |r| r.messages().get(&message.session, &message.id));
        match found {
            Ok(found) => Ok(!join_text_parts(&found.parts).is_empty()),
            Err(StoreError::NoMessage { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What the model is asked after a compaction.
    fn followup_prompt(
        &self,
        ctx: &Context,
        asked: &MessageWithParts,
        plan: &CompactionPlan,
    ) -> Result<Prompt> {
        let session = &asked.message.session;
        let (mut message, bodies) = match &plan.replay {
            Some(again) => {
                let found = self.store.read(ctx, |r| r.messages().get(session, again))?;
                (found.message, replay_prompt_parts(&found.parts))
            }
            None => {
                let overflow = find_compaction(&asked.parts).and_then(|it| it.overflow);
                (asked.message.clone(), vec![continuation_part(overflow == Some(true))])
            }
        };
        message.id = self.lifecycle.new_message_id(ctx, session)?;
        if let MessageBody::User(user) = &mut message.body {
            user.time.created = Number::from(ctx.now.0);
            user.summary = None;
        }
        let mut parts = Vec::new();
        for body in bodies {
            let (session, id) = (session.clone(), self.id_generator.new_part_id(ctx.now)?);
            parts.push(Part { id, session, message: message.id.clone(), body });
        }
        Ok(Prompt { message, parts })
    }
}

/// The request of a compaction with the place its tail begins at.
fn with_tail_start(asked: &MessageWithParts, plan: &CompactionPlan) -> Result<Part, StoreError> {
    for part in &asked.parts {
        if let PartBody::Compaction(found) = &part.body {
            let compaction = CompactionPart { tail_start: plan.tail.clone(), ..found.clone() };
            return Ok(Part { body: PartBody::Compaction(compaction), ..part.clone() });
        }
    }
    Err(not_a_compaction(&plan.request))
}

fn not_a_compaction(message: &MessageId) -> StoreError {
    StoreError::Invalid(format!("this is no finished compaction of {message}"))
}

fn find_compaction(parts: &[Part]) -> Option<&CompactionPart> {
    parts.iter().find_map(|part| {
        if let PartBody::Compaction(compaction) = &part.body { Some(compaction) } else { None }
    })
}

/// The words of a message.
fn join_text_parts(parts: &[Part]) -> String {
    let text = |part: &Part| {
        if let PartBody::Text(text) = &part.body { Some(text.text.clone()) } else { None }
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
