//! Writes the events of a model as parts of its answer. Each is durable before a client sees it (R24).

use std::collections::HashMap;

use serde_json::{Map, Number, Value, json};
use turnstone_core::call_context::Context;
use turnstone_core::id::MessageId;
use turnstone_core::model::{
    ExtraFields, Part, PartBody, PartTime, ReasoningPart, TextPart, ToolPart, ToolState,
};
use turnstone_engine::{Engine, Result, Turn};

use crate::model::ModelEvent;

/// A call whose arguments are complete.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestedCall {
    /// Its part, which is pending.
    pub(crate) part: Part,
    /// The provider's name of the call.
    pub(crate) call: String,
    /// The tool, as the model names it.
    pub(crate) tool: String,
    /// The arguments, as the model wrote them.
    pub(crate) arguments: String,
}

/// A block of text or reasoning that is not complete.
struct OpenBlock {
    part: Part,
    text: String,
}

/// Writes one answer.
pub(crate) struct AnswerWriter<'e> {
    engine: &'e Engine,
    turn: &'e Turn,
    message: MessageId,
    blocks: HashMap<String, OpenBlock>,
    /// The blocks in the order in which they began.
    order: Vec<String>,
    calls: HashMap<String, Part>,
    /// How many bytes the model has written, for the estimate of a missing usage.
    pub(crate) written: usize,
    /// The text of the answer that is not reasoning.
    pub(crate) text: String,
}

impl<'e> AnswerWriter<'e> {
    pub(crate) fn new(engine: &'e Engine, turn: &'e Turn, message: MessageId) -> Self {
        Self {
            engine,
            turn,
            message,
            blocks: HashMap::new(),
            order: Vec::new(),
            calls: HashMap::new(),
            written: 0,
            text: String::new(),
        }
    }

    /// Writes one event; returns the call that it completes.
    ///
    /// # Errors
    ///
    /// The database refused: the answer cannot go on.
    pub(crate) fn write(
        &mut self,
        ctx: &Context,
        event: ModelEvent,
    ) -> Result<Option<RequestedCall>> {
        match event {
            ModelEvent::TextStarted { id, metadata } => {
                let time = Some(start_time(ctx));
                let text = TextPart { time, metadata, ..TextPart::default() };
                self.open_block(ctx, id, PartBody::Text(text))?;
            }
            ModelEvent::ReasoningStarted { id, metadata } => {
                let (time, extra) = (start_time(ctx), ExtraFields::new());
                let body = ReasoningPart { text: String::new(), metadata, time, extra };
                self.open_block(ctx, id, PartBody::Reasoning(body))?;
            }
            ModelEvent::TextDelta { id, text } => {
                self.text.push_str(&text);
                self.append(ctx, &id, &text)?;
            }
            ModelEvent::ReasoningDelta { id, text } => self.append(ctx, &id, &text)?,
            ModelEvent::TextEnded { id, metadata }
            | ModelEvent::ReasoningEnded { id, metadata } => {
                if let Some(block) = self.blocks.remove(&id) {
                    self.seal(ctx, block, metadata)?;
                }
            }
            ModelEvent::ToolInputStarted { call, tool } => {
                self.pending_part(ctx, &call, &tool, None)?;
            }
            ModelEvent::ToolInputDelta { text, .. } => self.written += text.len(),
            ModelEvent::ToolCalled { call, tool, arguments, metadata } => {
                let part = self.pending_part(ctx, &call, &tool, metadata)?;
                return Ok(Some(RequestedCall { part, call, tool, arguments }));
            }
            ModelEvent::Finished { .. } => {}
        }
        Ok(None)
    }

    /// Ends every block that is still open: the answer is complete, or was cut off.
    pub(crate) fn seal_all(&mut self, ctx: &Context) -> Result<()> {
        for id in std::mem::take(&mut self.order) {
            if let Some(block) = self.blocks.remove(&id) {
                self.seal(ctx, block, None)?;
            }
        }
        Ok(())
    }

    /// Forgets what a failed attempt wrote; the engine removes it from the answer.
    pub(crate) fn discard(&mut self) {
        self.blocks.clear();
        self.order.clear();
        self.calls.clear();
        self.text.clear();
        self.written = 0;
    }

    fn open_block(&mut self, ctx: &Context, id: String, body: PartBody) -> Result<()> {
        let part = self.new_part(ctx, body)?;
        self.engine.turns().steps().put_part(ctx, self.turn, part.clone())?;
        self.order.push(id.clone());
        if let Some(before) = self.blocks.insert(id, OpenBlock { part, text: String::new() }) {
            self.seal(ctx, before, None)?;
        }
        Ok(())
    }

    fn append(&mut self, ctx: &Context, id: &str, text: &str) -> Result<()> {
        self.written += text.len();
        let Some(block) = self.blocks.get_mut(id) else { return Ok(()) };
        if text.is_empty() {
            return Ok(());
        }
        let part = block.part.id.clone();
        self.engine.turns().steps().append_text(ctx, self.turn, &part, text)?;
        block.text.push_str(text);
        Ok(())
    }

    fn seal(&self, ctx: &Context, block: OpenBlock, metadata: Option<Value>) -> Result<()> {
        let OpenBlock { mut part, text } = block;
        let end = Some(Number::from(ctx.now.0));
        if let PartBody::Text(body) = &mut part.body {
            body.text = text;
            body.metadata = metadata.or_else(|| body.metadata.take());
            if let Some(time) = &mut body.time {
                time.end = end;
            }
        } else if let PartBody::Reasoning(body) = &mut part.body {
            body.text = text;
            body.metadata = metadata.or_else(|| body.metadata.take());
            body.time.end = end;
        }
        self.engine.turns().steps().put_part(ctx, self.turn, part)
    }

    /// Returns the part of a call, and writes it if there is none yet or if it has metadata now.
    fn pending_part(
        &mut self,
        ctx: &Context,
        call: &str,
        tool: &str,
        metadata: Option<Value>,
    ) -> Result<Part> {
        let known = self.calls.get(call).cloned();
        if let (Some(part), None) = (&known, &metadata) {
            return Ok(part.clone());
        }
        let state = ToolState::Pending {
            input: Value::Object(Map::new()),
            raw: String::new(),
            extra: ExtraFields::new(),
        };
        let (call_name, tool) = (call.to_owned(), tool.to_owned());
        let body = ToolPart { call: call_name, tool, state, metadata, extra: ExtraFields::new() };
        let mut part = self.new_part(ctx, PartBody::Tool(Box::new(body)))?;
        if let Some(known) = known {
            part.id = known.id;
        }
        self.engine.turns().steps().put_part(ctx, self.turn, part.clone())?;
        self.calls.insert(call.to_owned(), part.clone());
        Ok(part)
    }

    fn new_part(&self, ctx: &Context, body: PartBody) -> Result<Part> {
        let id = self.engine.turns().new_part_id(ctx)?;
        let (session, message) = (self.turn.session.clone(), self.message.clone());
        Ok(Part { id, session, message, body })
    }
}

/// Joins neighbouring pieces of the same block, so that a burst of them is one write.
pub(crate) fn coalesce_deltas(events: Vec<ModelEvent>) -> Vec<ModelEvent> {
    let mut joined: Vec<ModelEvent> = Vec::with_capacity(events.len());
    for event in events {
        match (joined.last_mut(), &event) {
            (
                Some(ModelEvent::TextDelta { id: last, text: all }),
                ModelEvent::TextDelta { id, text },
            )
            | (
                Some(ModelEvent::ReasoningDelta { id: last, text: all }),
                ModelEvent::ReasoningDelta { id, text },
            ) if last == id => all.push_str(text),
            _ => joined.push(event),
        }
    }
    joined
}

fn start_time(ctx: &Context) -> PartTime {
    PartTime { start: Number::from(ctx.now.0), end: None, extra: ExtraFields::new() }
}

/// Reads the arguments of a call. A model that writes none means an empty object.
///
/// # Errors
///
/// What is wrong, for the model to read.
pub(crate) fn parse_arguments(text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err("the arguments are not a JSON object".to_owned()),
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_deltas_of_a_block_become_one() {
        let text = |id: &str, text: &str| ModelEvent::TextDelta {
            id: id.to_owned(),
            text: text.to_owned(),
        };
        let joined =
            coalesce_deltas(vec![text("1", "a"), text("1", "b"), text("2", "c"), text("1", "d")]);
        assert_eq!(joined, [text("1", "ab"), text("2", "c"), text("1", "d")]);
    }

    #[test]
    fn arguments_must_be_an_object() {
        assert_eq!(parse_arguments(" "), Ok(json!({})));
        assert_eq!(parse_arguments(r#"{"a":1}"#), Ok(json!({"a": 1})));
        assert!(parse_arguments("[1]").is_err());
        assert!(parse_arguments(r#"{"a":"#).is_err());
    }
}
