//! Decodes answers of chat completions.

use serde_json::{Value, json};

use crate::model::{FinishReason, ModelEvent, ModelUsage};
use crate::wire::answer_blocks::{AnswerBlocks, BlockKind};
use crate::wire::call_ids::mint_call_id;
use crate::wire::provider_failure::ProviderFailure;
use crate::wire::wire_format::AnswerDecoder;

/// Reads the chunks of one answer.
#[derive(Default)]
pub(super) struct ChatAnswerDecoder {
    blocks: AnswerBlocks,
    calls: Vec<ChatCall>,
    /// OpenRouter's reasoning, which returns as it came.
    reasoning_details: Vec<Value>,
    finish: Option<String>,
    usage: Option<ModelUsage>,
    /// `[DONE]` came.
    is_done: bool,
}

/// A tool call that arrives in pieces.
#[derive(Default)]
struct ChatCall {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: String,
    signature: Option<String>,
    /// How much of the arguments was given out; `None` before the call was announced.
    announced: Option<usize>,
    is_called: bool,
}

impl AnswerDecoder for ChatAnswerDecoder {
    fn read_event(
        &mut self,
        data: &Value,
        output: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        if let Value::String(text) = data {
            self.is_done |= text.trim() == "[DONE]";
            return Ok(());
        }
        if !data["error"].is_null() || data["object"] == "error" {
            return Err(ProviderFailure::from_json(data));
        }
        for usage in [&data["usage"], &data["x_groq"]["usage"], &data["choices"][0]["usage"]] {
            self.usage = read_usage(usage).or(self.usage);
        }
        let choice = &data["choices"][0];
        // A server that does not stream answers with one whole message.
        for delta in [&choice["delta"], &choice["message"]] {
            self.read_delta(delta, output);
        }
        if let Value::String(reason) = &choice["finish_reason"]
            && !reason.is_empty()
        {
            self.finish = Some(reason.clone());
        }
        if self.finish.is_some() {
            self.call_all(output);
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.is_done
    }

    fn can_end(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, output: &mut Vec<ModelEvent>) -> Result<(), ProviderFailure> {
        let has_answered = !self.calls.is_empty()
            || self.blocks.is_open(BlockKind::Text)
            || self.blocks.is_open(BlockKind::Reasoning);
        let reason = match self.finish.as_deref() {
            Some("stop") if !self.calls.is_empty() => FinishReason::ToolCalls,
            Some("stop") => FinishReason::Stop,
            Some("length") => FinishReason::Length,
            Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
            Some("content_filter") => FinishReason::ContentFilter,
            Some("error") => {
                return Err(ProviderFailure::cut("the provider ended the answer with an error"));
            }
            Some(_) => FinishReason::Unknown,
            None if self.is_done && has_answered => FinishReason::Unknown,
            None => {
                return Err(ProviderFailure::cut(
                    "the stream ended before the answer was complete",
                ));
            }
        };
        self.end_reasoning(output);
        self.blocks.close_all(output);
        self.call_all(output);
        output.push(ModelEvent::Finished { reason, usage: self.usage });
        Ok(())
    }
}

impl ChatAnswerDecoder {
    fn read_delta(&mut self, delta: &Value, output: &mut Vec<ModelEvent>) {
        if delta.is_null() {
            return;
        }
        let reasoning = ["reasoning_content", "reasoning", "reasoning_text"];
        let reasoning = reasoning.into_iter().find_map(|name| delta[name].as_str());
        if let Some(text) = reasoning {
            self.blocks.push(BlockKind::Reasoning, text, output);
        }
        if let Value::Array(details) = &delta["reasoning_details"] {
            details.iter().for_each(|detail| self.add_detail(detail));
        }
        if let Value::String(text) = &delta["content"] {
            self.push_text(text, output);
        }
        // Mistral's reasoning models send a list.
        for part in delta["content"].as_array().into_iter().flatten() {
            self.read_part(part, output);
        }
        if let Value::String(text) = &delta["refusal"] {
            self.push_text(text, output);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.end_reasoning(output);
            self.read_call(call, output);
        }
    }

    fn push_text(&mut self, text: &str, output: &mut Vec<ModelEvent>) {
        if !text.is_empty() {
            self.end_reasoning(output);
            self.blocks.push(BlockKind::Text, text, output);
        }
    }

    fn read_part(&mut self, part: &Value, output: &mut Vec<ModelEvent>) {
        match part["type"].as_str() {
            Some("text") => self.push_text(part["text"].as_str().unwrap_or_default(), output),
            Some("thinking") => {
                for thought in part["thinking"].as_array().into_iter().flatten() {
                    let text = thought["text"].as_str().unwrap_or_default();
                    self.blocks.push(BlockKind::Reasoning, text, output);
                }
            }
            Some(_) | None => {}
        }
    }

    /// Keeps a detail; pieces of the same detail are joined.
    fn add_detail(&mut self, detail: &Value) {
        let same = |known: &&mut Value| {
            known["type"] == detail["type"] && known["index"] == detail["index"]
        };
        let Some(known) = self.reasoning_details.last_mut().filter(same) else {
            self.reasoning_details.push(detail.clone());
            return;
        };
        for (name, value) in detail.as_object().into_iter().flatten() {
            match (&mut known[name.as_str()], value) {
                (Value::String(text), Value::String(more))
                    if matches!(name.as_str(), "text" | "summary" | "data") =>
                {
                    text.push_str(more);
                }
                (_, Value::Null) => {}
                (slot, value) => *slot = value.clone(),
            }
        }
    }

    /// Ends the reasoning. Details without any text are carried by a block without text.
    fn end_reasoning(&mut self, output: &mut Vec<ModelEvent>) {
        let details = std::mem::take(&mut self.reasoning_details);
        if !details.is_empty() {
            self.blocks.open(BlockKind::Reasoning, output);
            let metadata = json!({"openrouter": {"reasoning_details": details}});
            self.blocks.set_metadata(BlockKind::Reasoning, metadata);
        }
        self.blocks.close(BlockKind::Reasoning, output);
    }

    fn read_call(&mut self, delta: &Value, output: &mut Vec<ModelEvent>) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (id, tool) = (text(&delta["id"]), text(&delta["function"]["name"]));
        let position = self.find_call(delta["index"].as_u64(), &id, &tool);
        let position = position.unwrap_or_else(|| {
            self.call_complete(output);
            self.calls.push(ChatCall { index: delta["index"].as_u64(), ..ChatCall::default() });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(position) else { return };
        if call.id.is_empty() {
            call.id = id;
        }
        if call.tool.is_empty() {
            call.tool = tool;
        }
        let arguments = &delta["function"]["arguments"];
        if let Value::String(arguments) = arguments {
            call.arguments.push_str(arguments);
        } else if arguments.is_object() {
            // Some local servers send them whole.
            call.arguments = arguments.to_string();
        }
        let signature = &delta["extra_content"]["google"]["thought_signature"];
        call.signature = signature.as_str().map(str::to_owned).or_else(|| call.signature.take());
        call.announce(output);
    }

    /// Returns the call that a piece belongs to, or `None` if it begins a new one.
    fn find_call(&self, index: Option<u64>, id: &str, tool: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1)?;
        let position = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None => last,
        };
        let call = self.calls.get(position)?;
        // Some servers give every call the same index, or none; then a new name begins a new call.
        let is_other = !id.is_empty() && !tool.is_empty() && !call.id.is_empty() && call.id != id;
        let is_whole_call = index.is_none() && id.is_empty() && !tool.is_empty();
        if is_other || is_whole_call { None } else { Some(position) }
    }

    /// Calls what is complete although the answer goes on: a JSON object cannot grow any more.
    fn call_complete(&mut self, output: &mut Vec<ModelEvent>) {
        for call in &mut self.calls {
            let arguments = serde_json::from_str::<serde_json::Map<String, Value>>(&call.arguments);
            if arguments.is_ok() {
                call.call(output);
            }
        }
    }

    fn call_all(&mut self, output: &mut Vec<ModelEvent>) {
        self.calls.iter_mut().for_each(|call| call.call(output));
    }
}

impl ChatCall {
    /// Gives out what is known of the call; its name may come late.
    fn announce(&mut self, output: &mut Vec<ModelEvent>) {
        if self.tool.is_empty() || self.is_called {
            return;
        }
        if self.id.is_empty() {
            self.id = mint_call_id();
        }
        let (call, tool) = (self.id.clone(), self.tool.clone());
        let given = *self.announced.get_or_insert_with(|| {
            output.push(ModelEvent::ToolInputStarted { call: call.clone(), tool });
            0
        });
        if let Some(text) = self.arguments.get(given..).filter(|text| !text.is_empty()) {
            output.push(ModelEvent::ToolInputDelta { call, text: text.to_owned() });
            self.announced = Some(self.arguments.len());
        }
    }

    fn call(&mut self, output: &mut Vec<ModelEvent>) {
        self.announce(output);
        // A call without a name cannot be run; the loop sees an answer that ends without it.
        if self.tool.is_empty() || std::mem::replace(&mut self.is_called, true) {
            return;
        }
        let is_blank = self.arguments.trim().is_empty();
        let arguments = if is_blank { "{}".to_owned() } else { self.arguments.clone() };
        let signature = self.signature.take();
        let metadata =
            signature.map(|signature| json!({"google": {"thoughtSignature": signature}}));
        let (call, tool) = (self.id.clone(), self.tool.clone());
        output.push(ModelEvent::ToolCalled { call, tool, arguments, metadata });
    }
}

fn read_usage(usage: &Value) -> Option<ModelUsage> {
    if !usage.is_object() {
        return None;
    }
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let (input, mut output) = (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]));
    let details = &usage["prompt_tokens_details"];
    let reasoning = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    // Some providers count reasoning next to the output instead of in it.
    if reasoning > 0 && count(&usage["total_tokens"]) == input + output + reasoning {
        output += reasoning;
    }
    // Some servers send zeros instead of counting.
    if input + output == 0 {
        return None;
    }
    let cached = details["cached_tokens"].as_u64();
    Some(ModelUsage {
        input,
        output: output.max(reasoning),
        reasoning,
        cache_read: cached.unwrap_or_else(|| count(&usage["prompt_cache_hit_tokens"])),
        cache_write: count(&details["cache_write_tokens"]),
        cost: usage["cost"].as_f64(),
    })
}
