//! One script over all four wires: the same answers, and what is signed returns.

use turnstone_core::context::{AssistantContent, ToolOutput, ToolResult};
use turnstone_testkit::scripted_model::{ScriptedModelServer, ServedWire};

use super::*;

const SCRIPT: &str = r#"Do this: [
    [
        {"reasoning": "hm", "signature": "S"},
        {"text": "I read ü.", "delta_chars": 3},
        {"tool": "read", "input": {"filePath": "a"}, "delta_chars": 5, "signature": "T"},
        {"tool": "read", "call": "c2"},
        {"usage": {"input": 90, "output": 20, "reasoning": 0, "cache_read": 30}}
    ],
    [{"http": {"status": 429, "headers": {"retry-after-ms": "7"}, "body": {"error": {"message": "slow"}}}}, {"text": "Done."}],
    [{"text": "half"}, {"cut": true}],
    [{"text": "half"}, {"stream_error": {"type": "server_error", "code": "server_error", "message": "died"}}]
]"#;

fn settings(wire: ServedWire, server: &ScriptedModelServer) -> ProviderSettings {
    let (kind, name) = match wire {
        ServedWire::Chat => (WireKind::ChatCompletions, "openrouter"),
        ServedWire::Responses => (WireKind::Responses, "openai"),
        ServedWire::Anthropic => (WireKind::AnthropicMessages, "anthropic"),
        ServedWire::Gemini => (WireKind::Gemini, "google"),
    };
    ProviderSettings::new(name, kind, &server.url())
}

fn ask(provider: &dyn Provider, messages: &[ModelMessage]) -> Vec<Item> {
    let (sender, receiver) = channel();
    let request = ModelRequest { messages: messages.to_vec(), ..sample_request("gpt-5") };
    let call = provider.start(request, Box::new(move |item| drop(sender.send(item))));
    let items = receiver.iter().collect();
    drop(call);
    items
}

/// Turns an answer into the messages that follow it in the conversation.
fn remember(events: &[ModelEvent], messages: &mut Vec<ModelMessage>) {
    let (mut content, mut results) = (Vec::new(), Vec::new());
    let mut text = String::new();
    for event in events {
        match event {
            ModelEvent::TextDelta { text: more, .. }
            | ModelEvent::ReasoningDelta { text: more, .. } => {
                text.push_str(more);
            }
            ModelEvent::TextEnded { metadata, .. } => {
                let metadata = metadata.clone();
                content.push(AssistantContent::Text { text: std::mem::take(&mut text), metadata });
            }
            ModelEvent::ReasoningEnded { metadata, .. } => {
                let metadata = metadata.clone();
                content.push(AssistantContent::Reasoning {
                    text: std::mem::take(&mut text),
                    metadata,
                });
            }
            ModelEvent::ToolCalled { call, tool, arguments, metadata } => {
                let (call, tool, metadata) = (call.clone(), tool.clone(), metadata.clone());
                let output = ToolOutput::Text { text: "content".to_owned(), files: Vec::new() };
                results.push(ToolResult { call: call.clone(), tool: tool.clone(), output });
                let input = serde_json::from_str(arguments).unwrap();
                content.push(AssistantContent::ToolCall { call, tool, input, metadata });
            }
            ModelEvent::TextStarted { .. }
            | ModelEvent::ReasoningStarted { .. }
            | ModelEvent::ToolInputStarted { .. }
            | ModelEvent::ToolInputDelta { .. }
            | ModelEvent::Finished { .. } => {}
        }
    }
    messages.push(ModelMessage::Assistant(content));
    if !results.is_empty() {
        messages.push(ModelMessage::Tool(results));
    }
}

fn events_of(items: Vec<Item>) -> Vec<ModelEvent> {
    items.into_iter().map(Result::unwrap).collect()
}

#[test]
fn one_script_plays_the_same_over_every_wire() {
    for wire in ServedWire::ALL {
        let server = ScriptedModelServer::start(Some(7)).unwrap();
        let provider = provider(settings(wire, &server));
        let prompt = UserContent::Text { text: SCRIPT.to_owned() };
        let mut messages = vec![ModelMessage::User(vec![prompt])];
        let first = events_of(ask(provider.as_ref(), &messages));
        let lines = outline(&first);
        let text: String = lines.iter().filter_map(|line| line.strip_prefix("text: ")).collect();
        assert_eq!(text, "I read ü.", "{wire:?}");
        let calls: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("call ")?.split_once(' '))
            .map(|(_, call)| call.split(" {\"google").next().unwrap())
            .collect();
        assert_eq!(calls, ["read {\"filePath\":\"a\"}", "read {}"], "{wire:?}");
        assert_eq!(lines.last().unwrap(), "finish tool-calls 90/20/0/30/0", "{wire:?}");
        remember(&first, &mut messages);

        let slow = error_of(ask(provider.as_ref(), &messages));
        assert_eq!(
            (slow.kind, slow.retry_after),
            (ModelErrorKind::Retryable, Some(Duration::from_millis(7)))
        );
        let second = events_of(ask(provider.as_ref(), &messages));
        assert!(outline(&second).contains(&"text: Done.".to_owned()), "{wire:?}");
        // What is signed returned with the conversation.
        let body = server.requests().last().unwrap().text();
        let signed = match wire {
            ServedWire::Chat => "\"reasoning\":\"hm\"",
            ServedWire::Responses => "\"encrypted_content\":\"S\"",
            ServedWire::Anthropic => "\"signature\":\"S\"",
            ServedWire::Gemini => "\"thoughtSignature\":\"T\"",
        };
        assert!(body.contains(signed), "{wire:?}: {body}");

        remember(&second, &mut messages);
        for message in ["broke", "died"] {
            // A prompt without a script of its own.
            let image = turnstone_core::context::ModelFile {
                mime: "image/png".to_owned(),
                filename: None,
                url: "data:image/png;base64,AA==".to_owned(),
            };
            messages.push(ModelMessage::User(vec![UserContent::File(image)]));
            let error = error_of(ask(provider.as_ref(), &messages));
            assert_eq!(error.kind, ModelErrorKind::Retryable, "{wire:?}: {error}");
            assert!(error.message.contains(message), "{wire:?}: {error}");
            let half = AssistantContent::Text { text: "half".to_owned(), metadata: None };
            messages.push(ModelMessage::Assistant(vec![half]));
        }
    }
}

#[test]
fn requests_without_tools_or_script_get_a_fixed_answer() {
    let server = ScriptedModelServer::start(None).unwrap();
    for wire in ServedWire::ALL {
        let provider = provider(settings(wire, &server));
        let items = ask(provider.as_ref(), &sample_request("m").messages);
        let text = "text: There is no script in the prompt.".to_owned();
        assert!(outline(&events_of(items)).contains(&text), "{wire:?}");
        let (sender, receiver) = channel();
        let request = ModelRequest { tools: Vec::new(), ..sample_request("m") };
        let call = provider.start(request, Box::new(move |item| drop(sender.send(item))));
        let title = events_of(receiver.iter().collect());
        drop(call);
        assert!(outline(&title).contains(&"text: Scripted answer".to_owned()), "{wire:?}");
    }
}
