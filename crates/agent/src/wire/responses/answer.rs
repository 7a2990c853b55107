//! Decodes answers of OpenAI's responses.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::model::{FinishReason, ModelEvent, ModelUsage};
use crate::wire::call_ids::mint_call_id;
use crate::wire::provider_failure::ProviderFailure;
use crate::wire::wire_format::AnswerDecoder;

/// Reads the events of one answer.
#[derive(Default)]
pub(super) struct ResponsesAnswerDecoder {
    /// Items under way, by their place in the answer.
    items: BTreeMap<u64, ResponseItem>,
    has_calls: bool,
    usage: Option<ModelUsage>,
    reason: Option<FinishReason>,
}

/// An item under way.
enum ResponseItem {
    Reasoning {
        id: Value,
        /// The number of the part that is open.
        open: Option<String>,
        /// The parts that were begun.
        parts: Vec<String>,
    },
    Message {
        id: Value,
        /// Text was given out already.
        is_open: bool,
    },
    Call {
        call: String,
        tool: String,
        arguments: String,
    },
}

impl AnswerDecoder for ResponsesAnswerDecoder {
    fn read_event(
        &mut self,
        data: &Value,
        output: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        let place = data["output_index"].as_u64().unwrap_or(0);
        let delta = data["delta"].as_str().unwrap_or_default();
        match data["type"].as_str().unwrap_or_default() {
            "response.output_item.added" => self.add_item(place, &data["item"], output),
            "response.output_item.done" => self.end_item(place, &data["item"], output),
            "response.reasoning_summary_part.added" => {
                self.open_part(place, &summary_part(&data["summary_index"]), output);
            }
            "response.reasoning_summary_text.delta" => {
                self.push_reasoning(place, &summary_part(&data["summary_index"]), delta, output);
            }
            "response.reasoning_text.delta" => {
                let part = format!("text-{}", data["content_index"].as_u64().unwrap_or(0));
                self.push_reasoning(place, &part, delta, output);
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.push_text(place, &data["item_id"], delta, output);
            }
            "response.function_call_arguments.delta" => {
                if let Some(ResponseItem::Call { call, arguments, .. }) = self.items.get_mut(&place)
                    && !delta.is_empty()
                {
                    arguments.push_str(delta);
                    let (call, text) = (call.clone(), delta.to_owned());
                    output.push(ModelEvent::ToolInputDelta { call, text });
                }
            }
            "response.completed" | "response.incomplete" => self.complete(&data["response"]),
            "response.failed" => return Err(ProviderFailure::from_json(&data["response"])),
            "error" => return Err(ProviderFailure::from_json(data)),
            // The answer of a server that does not stream.
            "" if data["object"] == "response" && data["error"].is_null() => {
                let items = data["output"].as_array().into_iter().flatten();
                (0..).zip(items).for_each(|(place, item)| self.end_item(place, item, output));
                self.complete(data);
            }
            "" if !data["error"].is_null() => return Err(ProviderFailure::from_json(data)),
            _ => {}
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.reason.is_some()
    }

    fn can_end(&self) -> bool {
        self.reason.is_some()
    }

    fn finish(&mut self, output: &mut Vec<ModelEvent>) -> Result<(), ProviderFailure> {
        let Some(reason) = self.reason else {
            return Err(ProviderFailure::cut("the stream ended before the answer was complete"));
        };
        let open: Vec<u64> = self.items.keys().copied().collect();
        for place in open {
            // Calls that never ended are not made: their arguments may be incomplete.
            if let Some(ResponseItem::Reasoning { .. } | ResponseItem::Message { .. }) =
                self.items.get(&place)
            {
                self.end_item(place, &Value::Null, output);
            }
        }
        output.push(ModelEvent::Finished { reason, usage: self.usage });
        Ok(())
    }
}

/// Returns the name of a part of a summary within its item.
fn summary_part(index: &Value) -> String {
    format!("summary-{}", index.as_u64().unwrap_or(0))
}

fn part_id(place: u64, part: &str) -> String {
    format!("reasoning-{place}-{part}")
}

impl ResponsesAnswerDecoder {
    fn add_item(&mut self, place: u64, item: &Value, output: &mut Vec<ModelEvent>) {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        let added = match item["type"].as_str() {
            Some("reasoning") => {
                ResponseItem::Reasoning { id: item["id"].clone(), open: None, parts: Vec::new() }
            }
            Some("message") => ResponseItem::Message { id: item["id"].clone(), is_open: false },
            Some("function_call") => {
                let mut call = text("call_id");
                if call.is_empty() {
                    call = mint_call_id();
                }
                let tool = text("name");
                let started =
                    ModelEvent::ToolInputStarted { call: call.clone(), tool: tool.clone() };
                output.push(started);
                ResponseItem::Call { call, tool, arguments: String::new() }
            }
            // Searches and other tools of the provider itself.
            Some(_) | None => return,
        };
        self.items.insert(place, added);
    }

    fn open_part(&mut self, place: u64, part: &str, output: &mut Vec<ModelEvent>) {
        let Some(ResponseItem::Reasoning { id, open, parts }) = self.items.get_mut(&place) else {
            return;
        };
        if open.as_deref() == Some(part) || parts.iter().any(|known| known == part) {
            return;
        }
        if let Some(ended) = open.replace(part.to_owned()) {
            let metadata = Some(reasoning_metadata(id, &Value::Null));
            output.push(ModelEvent::ReasoningEnded { id: part_id(place, &ended), metadata });
        }
        parts.push(part.to_owned());
        let metadata = Some(reasoning_metadata(id, &Value::Null));
        output.push(ModelEvent::ReasoningStarted { id: part_id(place, part), metadata });
    }

    fn push_reasoning(&mut self, place: u64, part: &str, text: &str, output: &mut Vec<ModelEvent>) {
        self.open_part(place, part, output);
        let is_open = matches!(
            self.items.get(&place),
            Some(ResponseItem::Reasoning { open: Some(open), .. }) if open == part
        );
        if is_open && !text.is_empty() {
            let id = part_id(place, part);
            output.push(ModelEvent::ReasoningDelta { id, text: text.to_owned() });
        }
    }

    fn push_text(&mut self, place: u64, id: &Value, text: &str, output: &mut Vec<ModelEvent>) {
        if text.is_empty() {
            return;
        }
        let opened = ResponseItem::Message { id: id.clone(), is_open: false };
        let item = self.items.entry(place).or_insert(opened);
        let ResponseItem::Message { id: item, is_open } = item else { return };
        let id = format!("text-{place}");
        if !std::mem::replace(is_open, true) {
            let metadata = Some(json!({"openai": {"itemId": item}}));
            output.push(ModelEvent::TextStarted { id: id.clone(), metadata });
        }
        output.push(ModelEvent::TextDelta { id, text: text.to_owned() });
    }

    /// Ends an item. Whatever was not streamed is taken from the whole item.
    fn end_item(&mut self, place: u64, item: &Value, output: &mut Vec<ModelEvent>) {
        if !self.items.contains_key(&place) {
            self.add_item(place, item, output);
        }
        match self.items.get(&place) {
            Some(ResponseItem::Reasoning { .. }) => self.end_reasoning(place, item, output),
            Some(ResponseItem::Message { is_open, .. }) => {
                if !is_open {
                    for part in item["content"].as_array().into_iter().flatten() {
                        let text = part["text"].as_str().or(part["refusal"].as_str());
                        self.push_text(place, &item["id"], text.unwrap_or_default(), output);
                    }
                }
                if let Some(ResponseItem::Message { id, is_open: true }) = self.items.remove(&place)
                {
                    let metadata = Some(json!({"openai": {"itemId": id}}));
                    output.push(ModelEvent::TextEnded { id: format!("text-{place}"), metadata });
                }
            }
            Some(ResponseItem::Call { .. }) => self.end_call(place, item, output),
            None => {}
        }
    }

    fn end_reasoning(&mut self, place: u64, item: &Value, output: &mut Vec<ModelEvent>) {
        for (index, part) in item["summary"].as_array().into_iter().flatten().enumerate() {
            let name = format!("summary-{index}");
            let is_known = matches!(
                self.items.get(&place),
                Some(ResponseItem::Reasoning { parts, .. }) if parts.contains(&name)
            );
            if !is_known {
                let text = part["text"].as_str().unwrap_or_default();
                self.push_reasoning(place, &name, text, output);
            }
        }
        let encrypted = &item["encrypted_content"];
        if encrypted.is_string() {
            // Encrypted reasoning returns even if nothing of it can be read.
            let is_empty =
                matches!(self.items.get(&place), Some(ResponseItem::Reasoning { open: None, .. }));
            if is_empty {
                self.open_part(place, "summary-0", output);
            }
        }
        if let Some(ResponseItem::Reasoning { id, open: Some(open), .. }) =
            self.items.remove(&place)
        {
            let metadata = Some(reasoning_metadata(&id, encrypted));
            output.push(ModelEvent::ReasoningEnded { id: part_id(place, &open), metadata });
        }
    }

    fn end_call(&mut self, place: u64, item: &Value, output: &mut Vec<ModelEvent>) {
        let Some(ResponseItem::Call { call, tool, arguments }) = self.items.remove(&place) else {
            return;
        };
        let whole = item["arguments"].as_str().filter(|text| !text.is_empty());
        let whole = whole.map_or(arguments, str::to_owned);
        let arguments = if whole.trim().is_empty() { "{}".to_owned() } else { whole };
        let tool = item["name"].as_str().map_or(tool, str::to_owned);
        self.has_calls = true;
        output.push(ModelEvent::ToolCalled { call, tool, arguments, metadata: None });
    }

    fn complete(&mut self, response: &Value) {
        self.usage = read_usage(&response["usage"]);
        let incomplete = response["incomplete_details"]["reason"].as_str();
        self.reason = Some(match incomplete {
            Some("max_output_tokens") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            Some(_) => FinishReason::Unknown,
            None if self.has_calls => FinishReason::ToolCalls,
            None => FinishReason::Stop,
        });
    }
}

fn reasoning_metadata(id: &Value, encrypted: &Value) -> Value {
    json!({"openai": {"itemId": id, "reasoningEncryptedContent": encrypted}})
}

fn read_usage(usage: &Value) -> Option<ModelUsage> {
    let count = |value: &Value| value.as_u64().unwrap_or(0);
    let details = &usage["input_tokens_details"];
    usage.is_object().then(|| ModelUsage {
        input: count(&usage["input_tokens"]),
        output: count(&usage["output_tokens"]),
        reasoning: count(&usage["output_tokens_details"]["reasoning_tokens"]),
        cache_read: count(&details["cached_tokens"]),
        cache_write: count(&details["cache_write_tokens"]),
        cost: usage["cost"].as_f64(),
    })
}
