//! Decodes answers of Gemini.

use serde_json::{Value, json};

use crate::model::{FinishReason, ModelEvent, ModelUsage};
use crate::wire::answer_blocks::{AnswerBlocks, BlockKind};
use crate::wire::call_ids::mint_call_id;
use crate::wire::provider_failure::ProviderFailure;
use crate::wire::wire_format::AnswerDecoder;

/// Reads the chunks of one answer. Its end is the end of the stream.
#[derive(Default)]
pub(super) struct GeminiAnswerDecoder {
    blocks: AnswerBlocks,
    has_calls: bool,
    finish: Option<String>,
    usage: Option<ModelUsage>,
}

impl AnswerDecoder for GeminiAnswerDecoder {
    fn read_event(
        &mut self,
        data: &Value,
        output: &mut Vec<ModelEvent>,
    ) -> Result<(), ProviderFailure> {
        // A server that does not stream answers with a list of chunks.
        if let Value::Array(chunks) = data {
            return chunks.iter().try_for_each(|chunk| self.read_event(chunk, output));
        }
        if !data["error"].is_null() {
            return Err(ProviderFailure::from_json(data));
        }
        self.usage = read_usage(&data["usageMetadata"]).or(self.usage);
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let call = &part["functionCall"];
            if !call["partialArgs"].is_null() || call["willContinue"] == true {
                // Only options of the user's make a server send these; half a call must not run.
                return Err(ProviderFailure {
                    codes: vec!["invalid_request_error".to_owned()],
                    message: "arguments of tools that arrive in pieces are not supported"
                        .to_owned(),
                    ..ProviderFailure::default()
                });
            }
            self.read_part(part, output);
        }
        let blocked = &data["promptFeedback"]["blockReason"];
        for reason in [&candidate["finishReason"], blocked] {
            if let Value::String(reason) = reason {
                self.finish = Some(reason.clone());
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        false
    }

    fn can_end(&self) -> bool {
        self.finish.is_some()
    }

    fn finish(&mut self, output: &mut Vec<ModelEvent>) -> Result<(), ProviderFailure> {
        let reason = match self.finish.as_deref() {
            Some("STOP") if self.has_calls => FinishReason::ToolCalls,
            Some("STOP") => FinishReason::Stop,
            Some("MAX_TOKENS") => FinishReason::Length,
            Some(
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
                | "IMAGE_SAFETY" | "OTHER_SAFETY",
            ) => FinishReason::ContentFilter,
            Some("MALFORMED_FUNCTION_CALL") => {
                return Err(ProviderFailure::cut(
                    "the model wrote a tool call that cannot be read",
                ));
            }
            Some(_) => FinishReason::Unknown,
            None => {
                return Err(ProviderFailure::cut(
                    "the stream ended before the answer was complete",
                ));
            }
        };
        self.blocks.close_all(output);
        output.push(ModelEvent::Finished { reason, usage: self.usage });
        Ok(())
    }
}

impl GeminiAnswerDecoder {
    fn read_part(&mut self, part: &Value, output: &mut Vec<ModelEvent>) {
        let signature = part["thoughtSignature"].as_str();
        let metadata =
            signature.map(|signature| json!({"google": {"thoughtSignature": signature}}));
        if part["functionCall"].is_object() {
            self.blocks.close_all(output);
            self.call(&part["functionCall"], metadata, output);
            return;
        }
        let Value::String(text) = &part["text"] else { return };
        let (kind, other) = if part["thought"] == true {
            (BlockKind::Reasoning, BlockKind::Text)
        } else {
            (BlockKind::Text, BlockKind::Reasoning)
        };
        if !text.is_empty() {
            self.blocks.close(other, output);
            self.blocks.push(kind, text, output);
        }
        if let Some(metadata) = metadata {
            self.blocks.set_metadata(kind, metadata);
        }
    }

    fn call(&mut self, call: &Value, metadata: Option<Value>, output: &mut Vec<ModelEvent>) {
        self.has_calls = true;
        let tool = call["name"].as_str().unwrap_or_default().to_owned();
        let id = call["id"].as_str().filter(|id| !id.is_empty());
        let id = id.map_or_else(mint_call_id, str::to_owned);
        let arguments = &call["args"];
        let arguments = if arguments.is_null() { "{}".to_owned() } else { arguments.to_string() };
        output.push(ModelEvent::ToolInputStarted { call: id.clone(), tool: tool.clone() });
        output.push(ModelEvent::ToolInputDelta { call: id.clone(), text: arguments.clone() });
        output.push(ModelEvent::ToolCalled { call: id, tool, arguments, metadata });
    }
}

fn read_usage(usage: &Value) -> Option<ModelUsage> {
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    usage.is_object().then(|| ModelUsage {
        input: count("promptTokenCount") + count("toolUsePromptTokenCount"),
        output: count("candidatesTokenCount") + count("thoughtsTokenCount"),
        reasoning: count("thoughtsTokenCount"),
        cache_read: count("cachedContentTokenCount"),
        cache_write: 0,
        cost: None,
    })
}
