//! Steps: what a model says and does is stored, and the next step sees it.

use serde_json::{Value, json};
use turnstone_core::context::ModelLimits;
use turnstone_core::model::{MessageBody, PartBody, ToolState};
use turnstone_core::turn::TurnState;
use turnstone_engine::PromptDelivery;

use crate::fixture::{FixtureOptions, RunFixture};

#[test]
fn prompt_is_answered_and_stored() {
    let case = RunFixture::new(&json!({"turns": [[
        {"reasoning": "I think."},
        {"text": "Hello.", "delta_chars": 2},
        {"usage": {"input": 100, "output": 10, "reasoning": 4, "cache_read": 30}},
    ]]}));
    let session = case.session();
    let prompt = case.prompt(&session, "hi");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);

    let messages = case.messages(&session);
    let (answer, parts) = messages.last().expect("an answer");
    let MessageBody::Assistant(said) = &answer.body else { panic!("{answer:?}") };
    assert_eq!(said.parent, prompt);
    assert_eq!(said.finish.as_deref(), Some("stop"));
    assert!(said.time.completed.is_some());
    let tokens = serde_json::to_value(&said.tokens).expect("json");
    let expected = json!({"total": 110, "input": 70, "output": 6, "reasoning": 4,
        "cache": {"read": 30, "write": 0}});
    assert_eq!(tokens, expected);
    assert_eq!(said.cost.as_f64(), Some(0.01));
    let kinds: Vec<&str> = parts.iter().map(|part| part.body.type_name()).collect();
    assert_eq!(kinds, ["step-start", "reasoning", "text", "step-finish"]);
    let PartBody::Text(text) = &parts[2].body else { panic!("{parts:?}") };
    assert_eq!(text.text, "Hello.");
    assert!(text.time.as_ref().is_some_and(|time| time.end.is_some()), "the text is sealed");
}

#[test]
fn calls_run_and_their_results_reach_the_next_step() {
    let case = RunFixture::new(&json!({"turns": [
        [
            {"tool": "put", "input": {"file": "a", "content": "1"}},
            {"tool": "put", "input": {"file": "b", "content": "2"}},
            {"tool": "Put", "input": {"file": "c", "content": "3"}},
        ],
        [{"text": "Done."}],
    ]}));
    let session = case.session();
    case.prompt(&session, "write");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);

    let calls = case.calls(&session);
    assert!(
        calls.iter().all(|call| matches!(call.state, ToolState::Completed { .. })),
        "{calls:?}"
    );
    for (name, content) in [("a", "1"), ("b", "2"), ("c", "3")] {
        let found = fs_err::read_to_string(case.root().join(name)).expect("written");
        assert_eq!(found, content);
    }
    let calls = case.calls(&session);
    assert!(
        calls.iter().all(|call| matches!(call.state, ToolState::Completed { .. })),
        "{calls:?}"
    );
    assert!(calls.iter().all(|call| call.tool == "put"), "the name is repaired");
    assert_eq!(case.answers(&session), ["Done."]);
    let answers = case.messages(&session);
    let patch = answers.iter().flat_map(|it| &it.1).find_map(|part| {
        if let PartBody::Patch(patch) = &part.body { Some(patch.files.len()) } else { None }
    });
    assert_eq!(patch, Some(3), "the step lists what it changed");
}

#[test]
fn broken_calls_are_answered_with_what_is_wrong() {
    let case = RunFixture::new(&json!({"turns": [
        [
            {"tool": "nothing", "input": {}},
            {"tool": "put", "arguments": "{\"file\": \"a\""},
            {"tool": "broken", "input": {}},
        ],
        [{"text": "I see."}],
    ]}));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);

    let errors: Vec<String> = case
        .calls(&session)
        .into_iter()
        .map(|call| match call.state {
            ToolState::Error { error, .. } => error,
            other @ (ToolState::Pending { .. }
            | ToolState::Running { .. }
            | ToolState::Completed { .. }) => panic!("{other:?}"),
        })
        .collect();
    assert!(errors[0].contains("There is no tool nothing"), "{errors:?}");
    assert!(errors[1].contains("not valid JSON") && errors[1].contains("{\"file\""), "{errors:?}");
    assert!(errors[2].contains("internal error"), "{errors:?}");
    assert_eq!(case.answers(&session), ["I see."]);
}

#[test]
fn failed_requests_are_repeated_and_leave_nothing_behind() {
    let case = RunFixture::new(&json!({"turns": [[
        {"text": "half"},
        {"error": {"message": "overloaded", "status": 529, "retry_after": 1}},
        {"text": "whole"},
    ]]}));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let texts = case.answers(&session);
    assert!(texts.iter().filter(|text| *text == "half").count() <= 1, "{texts:?}");
    assert_eq!(texts.last().map(String::as_str), Some("whole"));
}

#[test]
fn refused_requests_end_the_turn_with_the_reason() {
    let case = RunFixture::new(&json!({"turns": [[
        {"text": "half"},
        {"error": {"message": "no such key", "kind": "authentication", "status": 401}},
    ]]}));
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Failed]);
    let failure = serde_json::to_value(case.failure(&session).expect("a failure")).expect("json");
    assert_eq!(failure["name"], "ProviderAuthError");
    assert_eq!(failure["data"]["message"], "no such key");
    assert_eq!(case.answers(&session), ["half"], "what was said stays");
}

#[test]
fn unknown_agent_ends_the_turn_with_the_reason() {
    let case = RunFixture::new(&json!({"turns": [[{"text": "never"}]]}));
    let session = case.session();
    case.prompt_with(&session, "go", &json!({"agent": "nobody"}), PromptDelivery::Steer);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Failed]);
    let failure = case.failure(&session).expect("a failure");
    assert_eq!(failure.data["message"], "there is no agent nobody");
}

#[test]
fn prompts_during_a_run_steer_it_or_wait() {
    let dir = tempfile::tempdir().expect("temp dir");
    let go = dir.path().join("go");
    let case = RunFixture::new(&json!({"turns": [
        [{"text": "one"}, {"wait_for_file": go}],
        [{"text": "two"}],
        [{"text": "three"}],
    ]}));
    let session = case.session();
    case.prompt(&session, "first");
    case.wait_until("the first text", |it| it.answers(&session).iter().any(|text| text == "one"));
    let queued = case.prompt_with(&session, "later", &json!({}), PromptDelivery::Queue);
    let steering = case.prompt(&session, "now");
    fs_err::write(&go, "").expect("written");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed, TurnState::Completed]);

    assert_eq!(case.answers(&session), ["one", "two", "three"]);
    let parents: Vec<_> = case
        .messages(&session)
        .into_iter()
        .filter_map(|(message, _)| match message.body {
            MessageBody::Assistant(said) => Some(said.parent),
            MessageBody::User(_) => None,
        })
        .collect();
    assert_eq!(parents[1..], [steering, queued]);
}

#[test]
fn step_limit_withholds_tools() {
    let call = |number: u32| json!([{"tool": "put", "input": {"file": number.to_string(), "content": ""}}]);
    let script = json!({"turns": [call(1), call(2), [{"text": "That is it."}]],
        "without_tools": [{"text": "Out of steps."}]});
    let options = FixtureOptions { steps: Some(1), ..FixtureOptions::default() };
    let case = RunFixture::with(&script, options);
    let session = case.session();
    case.prompt(&session, "go");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    assert_eq!(case.calls(&session).len(), 1);
    assert_eq!(case.answers(&session), ["Out of steps."]);
}

#[test]
fn structured_answer_is_taken_from_its_call() {
    let case = RunFixture::new(&json!({"turns": [
        [{"tool": "StructuredOutput", "input": {"name": "ada"}}],
    ]}));
    let session = case.session();
    let format = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    case.prompt_with(&session, "go", &format, PromptDelivery::Steer);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let messages = case.messages(&session);
    let MessageBody::Assistant(said) = &messages.last().expect("one").0.body else { panic!() };
    assert_eq!(said.structured, Some(json!({"name": "ada"})));
}

#[test]
fn missing_structured_answer_is_a_failure() {
    let case = RunFixture::new(&json!({"turns": [[{"text": "I would rather talk."}]]}));
    let session = case.session();
    let format = json!({"format": {"type": "json_schema", "schema": {"type": "object"}}});
    case.prompt_with(&session, "go", &format, PromptDelivery::Steer);
    assert_eq!(case.wait_for_idle(&session), [TurnState::Failed]);
    let failure = serde_json::to_value(case.failure(&session).expect("a failure")).expect("json");
    assert_eq!(failure["name"], "StructuredOutputError");
}

#[test]
fn full_context_is_compacted_and_the_work_goes_on() {
    let long = "word ".repeat(2_000);
    let script = json!({"turns": [
        [{"text": long.clone()}, {"usage": {"input": 9_000, "output": 900}}],
        [{"text": "After."}, {"usage": {"input": 10, "output": 10}}],
    ], "without_tools": [{"text": "Summary."}, {"usage": {"input": 10, "output": 10}}]});
    let limits = ModelLimits { context: 10_000, input: 0, output: 1_000 };
    let case = RunFixture::with(&script, FixtureOptions { limits, ..FixtureOptions::default() });
    let session = case.session();
    case.prompt(&session, "first");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed]);
    let second = case.prompt(&session, "second");
    assert_eq!(case.wait_for_idle(&session), [TurnState::Completed, TurnState::Completed]);

    let summaries: Vec<Value> = case
        .messages(&session)
        .into_iter()
        .filter_map(|(message, _)| match message.body {
            MessageBody::Assistant(said) if said.summary == Some(true) => {
                Some(json!({"mode": said.mode, "finish": said.finish}))
            }
            MessageBody::Assistant(_) | MessageBody::User(_) => None,
        })
        .collect();
    assert_eq!(summaries, [json!({"mode": "compaction", "finish": "stop"})]);
    let (answer, _) = case.messages(&session).pop().expect("an answer");
    let MessageBody::Assistant(said) = &answer.body else { panic!("{answer:?}") };
    assert_ne!(said.parent, second, "the prompt is asked again behind the summary");
    assert_eq!(said.finish.as_deref(), Some("stop"));
}
