//! Decodes answers of Anthropic's messages.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{FinishReason, ModelEvent, ModelUsage};
use crate::wire::provider_failure::ProviderFailure;
use crate::wire::wire_format::AnswerDecoder;

/// Reads the events of one answer.
#[derive(Default)]
pub(super) struct AnthropicAnswerDecoder {
    blocks: BTreeMap<u64, AnthropicBlock>,
    /// How many blocks were begun: a stream that begins again numbers them from zero again.
    begun: usize,
    counts: ReportedTokens,
    has_usage: bool,
    stop_reason: Option<String>,
    is_complete: bool,
}

/// An open block.
enum AnthropicBlock {
    Text {
        id: String,
    },
    Thinking {
        id: String,
        metadata: Option<Value>,
        signature: String,
    },
    ToolUse {
        call: String,
        tool: String,
        arguments: String,
        whole: Value,
    },
    /// What the provider does for itself, such as its own searches.
    Other,
}

/// Counts of tokens; each event replaces those that it names.
#[derive(Default)]
struct ReportedTokens {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
}

impl AnswerDecoder for AnthropicAnswerDecoder {
    fn read_event(
        &mut self,
        data: &Value,
        output: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let index = data["index"].as_u64().unwrap_or(0);
        match data["type"].as_str() {
            Some("message_start") => {
                self.drop_open_blocks(output);
                self.read_usage(&data["message"]["usage"]);
            }
            Some("content_block_start") => self.start_block(index, &data["content_block"], output),
            Some("content_block_delta") => self.read_delta(index, &data["delta"], output),
            Some("content_block_stop") => self.stop_block(index, output),
            Some("message_delta") => {
                self.read_usage(&data["usage"]);
                if let Value::String(reason) = &data["delta"]["stop_reason"] {
                    self.stop_reason = Some(reason.clone());
                }
            }
            Some("message_stop") => self.is_complete = true,
            Some("message") => self.read_whole_message(data, output),
            Some("error") => return Err(ProviderFailure::from_json(data)),
            // Pings, and what a later version adds.
            Some(_) => {}
            None if !data["error"].is_null() => return Err(ProviderFailure::from_json(data)),
            None => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn can_end(&self) -> bool {
        self.is_complete || self.stop_reason.is_some()
    }

    fn finish(&mut self, output: &mut Vec<ModelEvent>) -> Result<(), ProviderFailure> {
        let reason = match self.stop_reason.as_deref() {
            Some("end_turn" | "stop_sequence" | "pause_turn") => FinishReason::Stop,
            Some("tool_use") => FinishReason::ToolCalls,
            Some("max_tokens" | "model_context_window_exceeded") => FinishReason::Length,
            Some("refusal") => FinishReason::ContentFilter,
            Some(_) => FinishReason::Unknown,
            None if self.is_complete => FinishReason::Unknown,
            None => {
                return Err(ProviderFailure::cut(
                    "the stream ended before the answer was complete",
                ));
            }
        };
        self.drop_open_blocks(output);
        let ReportedTokens { input, cache_read, cache_write, output: answer } = self.counts;
        let usage = ModelUsage {
            input: input + cache_read + cache_write,
            output: answer,
            cache_read,
            cache_write,
            ..ModelUsage::default()
        };
        output.push(ModelEvent::Finished { reason, usage: self.has_usage.then_some(usage) });
        Ok(())
    }
}

impl AnthropicAnswerDecoder {
    fn read_usage(&mut self, usage: &Value) {
        let counts = [
            ("input_tokens", &mut self.counts.input),
            ("cache_read_input_tokens", &mut self.counts.cache_read),
            ("cache_creation_input_tokens", &mut self.counts.cache_write),
            ("output_tokens", &mut self.counts.output),
        ];
        for (name, slot) in counts {
            if let Some(count) = usage[name].as_u64() {
                *slot = count;
                self.has_usage = true;
            }
        }
    }

    /// Reads the answer of a server that does not stream.
    fn read_whole_message(&mut self, message: &Value, output: &mut Vec<ModelEvent>) {
        self.read_usage(&message["usage"]);
        for (index, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            self.start_block(index, block, output);
            self.stop_block(index, output);
        }
        self.stop_reason = message["stop_reason"].as_str().map(str::to_owned);
        self.is_complete = true;
    }

    /// Ends what can still be ended. A call that never ended is not made: it may be incomplete.
    fn drop_open_blocks(&mut self, output: &mut Vec<ModelEvent>) {
        self.blocks.retain(|_, block| !matches!(block, AnthropicBlock::ToolUse { .. }));
        let open: Vec<u64> = self.blocks.keys().copied().collect();
        open.into_iter().for_each(|index| self.stop_block(index, output));
    }

    fn start_block(&mut self, index: u64, block: &Value, output: &mut Vec<ModelEvent>) {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        self.begun += 1;
        let number = self.begun;
        let opened = match block["type"].as_str() {
            Some("text") => {
                let id = format!("text-{number}");
                output.push(ModelEvent::TextStarted { id: id.clone(), metadata: None });
                AnthropicBlock::Text { id }
            }
            Some("thinking") => {
                let id = format!("reasoning-{number}");
                output.push(ModelEvent::ReasoningStarted { id: id.clone(), metadata: None });
                AnthropicBlock::Thinking { id, metadata: None, signature: text("signature") }
            }
            Some("redacted_thinking") => {
                let id = format!("reasoning-{number}");
                let metadata = Some(json!({"anthropic": {"redactedData": text("data")}}));
                let started =
                    ModelEvent::ReasoningStarted { id: id.clone(), metadata: metadata.clone() };
                output.push(started);
                AnthropicBlock::Thinking { id, metadata, signature: String::new() }
            }
            Some("tool_use") => {
                let (call, tool) = (text("id"), text("name"));
                let started =
                    ModelEvent::ToolInputStarted { call: call.clone(), tool: tool.clone() };
                output.push(started);
                let whole = block["input"].clone();
                AnthropicBlock::ToolUse { call, tool, arguments: String::new(), whole }
            }
            Some(_) | None => AnthropicBlock::Other,
        };
        self.blocks.insert(index, opened);
        // Some services put the beginning of the text here.
        for (name, kind) in [("text", "text_delta"), ("thinking", "thinking_delta")] {
            if !text(name).is_empty() {
                self.read_delta(index, &json!({"type": kind, name: text(name)}), output);
            }
        }
    }

    fn read_delta(&mut self, index: u64, delta: &Value, output: &mut Vec<ModelEvent>) {
        let text = |name: &str| delta[name].as_str().unwrap_or_default().to_owned();
        match (delta["type"].as_str(), self.blocks.get_mut(&index)) {
            (Some("text_delta"), Some(AnthropicBlock::Text { id })) => {
                output.push(ModelEvent::TextDelta { id: id.clone(), text: text("text") });
            }
            (Some("thinking_delta"), Some(AnthropicBlock::Thinking { id, .. })) => {
                output.push(ModelEvent::ReasoningDelta { id: id.clone(), text: text("thinking") });
            }
            (Some("signature_delta"), Some(AnthropicBlock::Thinking { signature, .. })) => {
                signature.push_str(&text("signature"));
            }
            (Some("input_json_delta"), Some(AnthropicBlock::ToolUse { call, arguments, .. })) => {
                let text = text("partial_json");
                arguments.push_str(&text);
                if !text.is_empty() {
                    output.push(ModelEvent::ToolInputDelta { call: call.clone(), text });
                }
            }
            // Citations, blocks of the provider itself.
            (_, _) => {}
        }
    }

    fn stop_block(&mut self, index: u64, output: &mut Vec<ModelEvent>) {
        match self.blocks.remove(&index) {
            Some(AnthropicBlock::Text { id }) => {
                output.push(ModelEvent::TextEnded { id, metadata: None });
            }
            Some(AnthropicBlock::Thinking { id, metadata, signature }) => {
                let signed =
                    (!signature.is_empty()).then(|| json!({"anthropic": {"signature": signature}}));
                output.push(ModelEvent::ReasoningEnded { id, metadata: signed.or(metadata) });
            }
            Some(AnthropicBlock::ToolUse { call, tool, arguments, whole }) => {
                let arguments = match (arguments.is_empty(), whole) {
                    (false, _) => arguments,
                    (true, Value::Object(fields)) => Value::Object(fields).to_string(),
                    (true, _) => "{}".to_owned(),
                };
                output.push(ModelEvent::ToolCalled { call, tool, arguments, metadata: None });
            }
            Some(AnthropicBlock::Other) | None => {}
        }
    }
}
