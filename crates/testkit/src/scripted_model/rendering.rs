//! Answers in the words of each wire.

use serde_json::{Value, json};

use super::script::ScriptStep;
use super::server::ServedWire;
use crate::scripted_server::{ReplyPiece, ServerReply};

/// Renders one answer. `turn` makes the ids of its calls unique.
pub(super) fn render_answer(wire: ServedWire, steps: &[ScriptStep], turn: usize) -> ServerReply {
    let mut answer =
        AnswerRendering { wire, turn, pieces: Vec::new(), index: 0, has_calls: false, usage: None };
    answer.usage = steps
        .iter()
        .find_map(|step| if let ScriptStep::Usage(usage) = step { Some(*usage) } else { None });
    answer.begin();
    let is_whole = steps.iter().all(|step| answer.add_step(step));
    if is_whole {
        let reason = steps.iter().find_map(|step| {
            if let ScriptStep::Finish(reason) = step { Some(reason.as_str()) } else { None }
        });
        answer.finish(reason);
    }
    let events = ServerReply::events("");
    ServerReply { pieces: answer.pieces, ..events }
}

/// An answer that is being rendered.
struct AnswerRendering {
    wire: ServedWire,
    turn: usize,
    pieces: Vec<ReplyPiece>,
    /// The place of the next block or item.
    index: usize,
    has_calls: bool,
    usage: Option<[u64; 4]>,
}

impl AnswerRendering {
    fn event(&mut self, event: &Value) {
        let name = event["type"].as_str().map(|name| format!("event: {name}\n"));
        let named = matches!(self.wire, ServedWire::Anthropic | ServedWire::Responses);
        let name = name.filter(|_| named).unwrap_or_default();
        self.pieces.push(ReplyPiece::Bytes(format!("{name}data: {event}\n\n").into_bytes()));
    }

    fn begin(&mut self) {
        match self.wire {
            ServedWire::Chat => self.event(&chunk(&json!({"role": "assistant", "content": ""}))),
            ServedWire::Responses => {
                self.event(&json!({"type": "response.created", "response": {"id": "resp_1"}}));
            }
            ServedWire::Anthropic => {
                let [input, _, _, cached] = self.usage.unwrap_or_default();
                let usage = json!({"input_tokens": input.saturating_sub(cached),
                    "cache_read_input_tokens": cached, "output_tokens": 1});
                let message = json!({"id": "msg_1", "type": "message", "role": "assistant",
                    "model": "scripted", "content": [], "usage": usage});
                self.event(&json!({"type": "message_start", "message": message}));
            }
            ServedWire::Gemini => {}
        }
    }

    /// Adds a step. Returns false if the answer ends with it.
    fn add_step(&mut self, step: &ScriptStep) -> bool {
        match step {
            ScriptStep::Text(text, size) => self.text(&cut(text, *size)),
            ScriptStep::Reasoning(text, signature) => self.reasoning(text, signature.as_deref()),
            ScriptStep::Redacted(data) => self.redacted(data),
            ScriptStep::Call { call, tool, arguments, delta_chars, signature } => {
                let made_up = || format!("call_{}_{}", self.turn + 1, self.index + 1);
                let id = call.clone().unwrap_or_else(made_up);
                self.has_calls = true;
                self.call(&id, tool, &cut(arguments, *delta_chars), signature.as_deref());
            }
            ScriptStep::StreamError(error) => {
                let error = match self.wire {
                    ServedWire::Anthropic => json!({"type": "error", "error": error}),
                    ServedWire::Responses => {
                        json!({"type": "response.failed", "response": {"error": error}})
                    }
                    ServedWire::Chat | ServedWire::Gemini => json!({"error": error}),
                };
                self.event(&error);
                return false;
            }
            ScriptStep::Pause(time) => self.pieces.push(ReplyPiece::Pause(*time)),
            ScriptStep::WaitForFile(path) => {
                self.pieces.push(ReplyPiece::WaitForFile(path.clone()));
            }
            ScriptStep::Cut => {
                self.pieces.push(ReplyPiece::Cut);
                return false;
            }
            ScriptStep::End => return false,
            ScriptStep::Http { .. } | ScriptStep::Finish(_) | ScriptStep::Usage(_) => {}
        }
        true
    }

    fn text(&mut self, pieces: &[String]) {
        match self.wire {
            ServedWire::Chat => {
                pieces.iter().for_each(|text| self.event(&chunk(&json!({"content": text}))));
            }
            ServedWire::Responses => {
                let item = json!({"type": "message", "id": format!("msg_{}", self.index)});
                self.item(&item, |at| {
                    let delta = |text: &String| {
                        json!({"type": "response.output_text.delta",
                        "output_index": at, "item_id": format!("msg_{at}"), "delta": text})
                    };
                    pieces.iter().map(delta).collect()
                });
            }
            ServedWire::Anthropic => {
                let delta = |text: &String| json!({"type": "text_delta", "text": text});
                let deltas: Vec<Value> = pieces.iter().map(delta).collect();
                self.block(&json!({"type": "text", "text": ""}), &deltas);
            }
            ServedWire::Gemini => {
                pieces.iter().for_each(|text| self.event(&candidate(&json!({"text": text}))));
            }
        }
    }

    fn reasoning(&mut self, text: &str, signature: Option<&str>) {
        match self.wire {
            ServedWire::Chat => self.event(&chunk(&json!({"reasoning_content": text}))),
            ServedWire::Responses => {
                let item = json!({"type": "reasoning", "id": format!("rs_{}", self.index),
                    "summary": [], "encrypted_content": signature});
                self.item(&item, |at| {
                    vec![
                        json!({"type": "response.reasoning_summary_part.added", "output_index": at,
                               "summary_index": 0, "item_id": format!("rs_{at}")}),
                        json!({"type": "response.reasoning_summary_text.delta", "output_index": at,
                               "summary_index": 0, "item_id": format!("rs_{at}"), "delta": text}),
                    ]
                });
            }
            ServedWire::Anthropic => {
                let thinking = json!({"type": "thinking_delta", "thinking": text});
                let signed =
                    signature.map(|text| json!({"type": "signature_delta", "signature": text}));
                let deltas: Vec<Value> = std::iter::once(thinking).chain(signed).collect();
                self.block(&json!({"type": "thinking", "thinking": ""}), &deltas);
            }
            ServedWire::Gemini => {
                let mut part = json!({"text": text, "thought": true});
                if let Some(signature) = signature {
                    part["thoughtSignature"] = json!(signature);
                }
                self.event(&candidate(&part));
            }
        }
    }

    fn redacted(&mut self, data: &str) {
        if self.wire == ServedWire::Anthropic {
            self.block(&json!({"type": "redacted_thinking", "data": data}), &[]);
        }
    }

    fn call(&mut self, id: &str, tool: &str, pieces: &[String], signature: Option<&str>) {
        let whole = pieces.concat();
        match self.wire {
            ServedWire::Chat => {
                let at = self.index;
                self.index += 1;
                let begun = json!({"index": at, "id": id, "type": "function",
                    "function": {"name": tool, "arguments": ""}});
                self.event(&chunk(&json!({"tool_calls": [begun]})));
                for text in pieces {
                    let delta = json!({"index": at, "function": {"arguments": text}});
                    self.event(&chunk(&json!({"tool_calls": [delta]})));
                }
            }
            ServedWire::Responses => {
                let item = json!({"type": "function_call", "id": format!("fc_{}", self.index),
                    "call_id": id, "name": tool, "arguments": whole});
                self.item(&item, |at| {
                    let delta = |text: &String| {
                        json!({"type": "response.function_call_arguments.delta",
                        "output_index": at, "item_id": format!("fc_{at}"), "delta": text})
                    };
                    pieces.iter().map(delta).collect()
                });
            }
            ServedWire::Anthropic => {
                let delta =
                    |text: &String| json!({"type": "input_json_delta", "partial_json": text});
                let deltas: Vec<Value> = pieces.iter().map(delta).collect();
                self.block(
                    &json!({"type": "tool_use", "id": id, "name": tool, "input": {}}),
                    &deltas,
                );
            }
            ServedWire::Gemini => {
                // This wire has no broken arguments: the model's calls come as JSON.
                let args = serde_json::from_str::<Value>(&whole).unwrap_or(Value::Null);
                let mut part = json!({"functionCall": {"name": tool, "args": args, "id": id}});
                if let Some(signature) = signature {
                    part["thoughtSignature"] = json!(signature);
                }
                self.event(&candidate(&part));
            }
        }
    }

    /// Adds an item of a response, with what comes between its beginning and its end.
    fn item(&mut self, item: &Value, deltas: impl FnOnce(usize) -> Vec<Value>) {
        let at = self.index;
        self.index += 1;
        let mut begun = item.clone();
        if item["arguments"].is_string() {
            begun["arguments"] = json!("");
        }
        self.event(
            &json!({"type": "response.output_item.added", "output_index": at, "item": begun}),
        );
        deltas(at).iter().for_each(|delta| self.event(delta));
        self.event(&json!({"type": "response.output_item.done", "output_index": at, "item": item}));
    }

    /// Adds a block of a message.
    fn block(&mut self, block: &Value, deltas: &[Value]) {
        let at = self.index;
        self.index += 1;
        self.event(&json!({"type": "content_block_start", "index": at, "content_block": block}));
        for delta in deltas {
            self.event(&json!({"type": "content_block_delta", "index": at, "delta": delta}));
        }
        self.event(&json!({"type": "content_block_stop", "index": at}));
    }

    fn finish(&mut self, reason: Option<&str>) {
        let usage = self.usage;
        let by_default = |with_calls, without| if self.has_calls { with_calls } else { without };
        match self.wire {
            ServedWire::Chat => {
                let reason = reason.unwrap_or_else(|| by_default("tool_calls", "stop"));
                let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
                self.event(&json!({"id": "chatcmpl-1", "choices": [choice]}));
                if let Some([input, output, reasoning, cached]) = usage {
                    let usage = json!({"prompt_tokens": input, "completion_tokens": output,
                        "total_tokens": input + output,
                        "prompt_tokens_details": {"cached_tokens": cached},
                        "completion_tokens_details": {"reasoning_tokens": reasoning}});
                    self.event(&json!({"id": "chatcmpl-1", "choices": [], "usage": usage}));
                }
                self.pieces.push(ReplyPiece::Bytes(b"data: [DONE]\n\n".to_vec()));
            }
            ServedWire::Responses => {
                let usage = usage.map(|[input, output, reasoning, cached]| {
                    json!({"input_tokens": input, "output_tokens": output,
                        "total_tokens": input + output,
                        "input_tokens_details": {"cached_tokens": cached},
                        "output_tokens_details": {"reasoning_tokens": reasoning}})
                });
                let details = reason.map(|reason| json!({"reason": reason}));
                let kind =
                    if reason.is_some() { "response.incomplete" } else { "response.completed" };
                let response =
                    json!({"id": "resp_1", "usage": usage, "incomplete_details": details});
                self.event(&json!({"type": kind, "response": response}));
            }
            ServedWire::Anthropic => {
                let reason = reason.unwrap_or_else(|| by_default("tool_use", "end_turn"));
                let usage =
                    usage.map_or_else(|| json!({}), |usage| json!({"output_tokens": usage[1]}));
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                self.event(&json!({"type": "message_delta", "delta": delta, "usage": usage}));
                self.event(&json!({"type": "message_stop"}));
            }
            ServedWire::Gemini => {
                let mut last = candidate(&json!({"text": ""}));
                last["candidates"][0]["finishReason"] = json!(reason.unwrap_or("STOP"));
                if let Some([input, output, reasoning, cached]) = usage {
                    last["usageMetadata"] = json!({"promptTokenCount": input,
                        "candidatesTokenCount": output.saturating_sub(reasoning),
                        "thoughtsTokenCount": reasoning, "cachedContentTokenCount": cached});
                }
                self.event(&last);
            }
        }
    }
}

fn chunk(delta: &Value) -> Value {
    json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "scripted",
           "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn candidate(part: &Value) -> Value {
    json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]})
}

/// Cuts a text into pieces of so many characters.
fn cut(text: &str, size: Option<usize>) -> Vec<String> {
    let Some(size) = size.filter(|size| *size > 0) else { return vec![text.to_owned()] };
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(size).map(|piece| piece.iter().collect()).collect()
}
