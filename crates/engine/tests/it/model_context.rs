//! Context: compacted without losing a prompt, pruned only on request.

use proptest::prelude::*;
use serde_json::json;
use turnstone_core::context::{CLEARED_OUTPUT, CompactionSettings, ModelLimits, ModelTarget};
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{Message, MessageBody, ModelRef};
use turnstone_engine::{CompactionRequest, CompactionSummary, EngineError, Turn};
use turnstone_store::{PromptDelivery, StoreError};

use crate::engine_fixture::{EngineFixture, answer, ctx, messages, part, prompt};

pub(crate) fn target() -> ModelTarget {
    ModelTarget { provider: "p".into(), model: "m".into(), ..ModelTarget::default() }
}

pub(crate) fn wanted(overflow: bool) -> CompactionRequest {
    let model = ModelRef {
        provider: "p".into(),
        model: "m".into(),
        variant: None,
        extra: Default::default(),
    };
    CompactionRequest { agent: "build".into(), model, auto: overflow, overflow }
}

pub(crate) fn context_messages(case: &EngineFixture, session: &SessionId) -> Vec<String> {
    let context = case.engine.turns().contexts().model_context(&ctx(), session).expect("reads");
    context.iter().map(|(message, _)| message.id.as_str()[4..].to_owned()).collect()
}

/// An answer of one text, finished.
pub(crate) fn reply(case: &EngineFixture, turn: &Turn, id: &str, parent: &str, text: &str) {
    let mut message = answer(&turn.session, id, parent);
    finish(&mut message);
    let text = part(&message, id, json!({"type": "text", "text": text}));
    let put = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        tx.messages().put_part(&text)
    };
    case.engine.store().write(&turn.context(&ctx()), put).wait().expect("put");
}

pub(crate) fn finish(message: &mut Message) {
    if let MessageBody::Assistant(said) = &mut message.body {
        said.finish = Some("stop".into());
        said.time.completed = Some(2.into());
    }
}

pub(crate) fn summary(session: &SessionId, request: &MessageId, id: &str) -> CompactionSummary {
    let mut message = answer(session, id, &request.as_str()[4..]);
    finish(&mut message);
    if let MessageBody::Assistant(said) = &mut message.body {
        said.summary = Some(true);
    }
    CompactionSummary { message, text: format!("summary {id}") }
}

pub(crate) fn compact(
    case: &EngineFixture,
    turn: &Turn,
    request: &MessageId,
    settings: &CompactionSettings,
    id: &str,
) {
    let limits = ModelLimits { context: 100_000, input: 0, output: 8_000 };
    let planned = case.engine.turns().compaction().plan(
        &ctx(),
        &turn.session,
        request,
        &target(),
        (limits, settings),
    );
    let plan = planned.expect("a plan");
    let summary = summary(&turn.session, request, id);
    case.engine.turns().compaction().finish(&ctx(), turn, &plan, &summary).expect("finished");
}

/// A session of three turns, each a prompt and an answer.
pub(crate) fn three_turn_session(case: &EngineFixture) -> SessionId {
    let session = case.session("ses_a", None);
    for n in 1..=3 {
        let (prompted, answered) = (format!("u{n}"), format!("a{n}"));
        let turn = case.engine.turns().begin(&ctx(), prompt(&session, &prompted)).expect("begins");
        reply(case, &turn, &answered, &prompted, &"word ".repeat(900));
        case.end(&turn);
    }
    session
}

#[test]
fn compaction_keeps_tail_and_previous_summary() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false)).expect("begins");
    let limits = ModelLimits { context: 100_000, input: 0, output: 8_000 };
    let settings =
        CompactionSettings { preserve_recent_tokens: Some(1_500), ..CompactionSettings::default() };
    let planned = case.engine.turns().compaction().plan(
        &ctx(),
        &session,
        &request,
        &target(),
        (limits, &settings),
    );
    let plan = planned.expect("a plan");
    assert_eq!(plan.tail.as_ref().map(MessageId::as_str), Some("msg_u3"));
    assert_eq!(plan.head.len(), 4);
    assert_eq!(plan.previous, None);
    let done = summary(&session, &request, "s1");
    case.engine.turns().compaction().finish(&ctx(), &turn, &plan, &done).expect("finished");
    case.end(&turn);
    let name = request.as_str()[4..].to_owned();
    assert_eq!(context_messages(&case, &session), [name.as_str(), "s1", "u3", "a3"]);
    assert_eq!(messages(&case, &session).len(), 8, "nothing is gone from the database");

    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false)).expect("begins");
    let planned = case.engine.turns().compaction().plan(
        &ctx(),
        &session,
        &request,
        &target(),
        (limits, &settings),
    );
    assert_eq!(planned.expect("a plan").previous.as_deref(), Some("summary s1"));
    case.engine.turns().abort(&ctx(), &turn).expect("aborted");
    assert!(
        context_messages(&case, &session).contains(&"u3".to_owned()),
        "an unfinished one cuts nothing"
    );
}

#[test]
fn overflowing_turn_is_replayed() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let turn = case.engine.turns().begin(&ctx(), prompt(&session, "u4")).expect("begins");
    let request =
        case.engine.turns().compaction().request(&ctx(), &turn, &wanted(true)).expect("asked");
    let limits = ModelLimits { context: 100_000, input: 0, output: 8_000 };
    let none = CompactionSettings { tail_turns: Some(0), ..CompactionSettings::default() };
    let planned = case.engine.turns().compaction().plan(
        &ctx(),
        &session,
        &request,
        &target(),
        (limits, &none),
    );
    let plan = planned.expect("a plan");
    assert_eq!(plan.replay.as_ref().map(MessageId::as_str), Some("msg_u4"));
    assert_eq!((plan.head.len(), plan.tail), (6, None), "what is asked again is not summarised");
    case.end(&turn);
}

/// W33: the summary answers its own request, and a prompt that came meanwhile is answered too.
#[test]
fn prompt_during_compaction_is_kept_after_it() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false)).expect("begins");
    case.enqueue_prompt(prompt(&session, "late"), PromptDelivery::Queue).expect("kept");
    let none = CompactionSettings { tail_turns: Some(0), ..CompactionSettings::default() };
    let foreign = "msg_late".parse().expect("an id");
    let plan = case.engine.turns().compaction().plan(
        &ctx(),
        &session,
        &foreign,
        &target(),
        (ModelLimits::default(), &none),
    );
    let refused = plan.map(drop);
    assert!(matches!(refused, Err(EngineError::Store(StoreError::Invalid(_)))), "{refused:?}");
    compact(&case, &turn, &request, &none, "s1");
    case.end(&turn);
    let name = request.as_str()[4..].to_owned();
    assert_eq!(
        context_messages(&case, &session),
        [name.as_str(), "s1"],
        "the boundary is recognised"
    );
    let turn =
        case.engine.turns().begin_next(&ctx(), &session).expect("reads").expect("it is answered");
    assert_eq!(context_messages(&case, &session), [name.as_str(), "s1", "late"], "it is read last");
    case.end(&turn);
}

#[derive(Clone, Copy, Debug)]
enum ContextAction {
    Prompt,
    Compact,
    Finish,
    Answer,
    Die,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]
    /// W33: however prompts and compactions meet, each prompt is read and answered once, and a
    /// finished compaction cuts.
    #[test]
    fn random_prompts_and_compactions_lose_nothing(acts in proptest::collection::vec(
        prop_oneof![3 => Just(ContextAction::Prompt), 2 => Just(ContextAction::Compact), 2 => Just(ContextAction::Finish),
            3 => Just(ContextAction::Answer), 1 => Just(ContextAction::Die)], 1..16)) {
        let mut case = EngineFixture::new();
        let session = three_turn_session(&case);
        let none = CompactionSettings { tail_turns: Some(0), ..CompactionSettings::default() };
        let (mut sent, mut answered, mut finished) = (0, Vec::new(), 0);
        let mut running: Option<(Turn, MessageId)> = None;
        for act in acts.into_iter().chain([ContextAction::Finish]) {
            match act {
                ContextAction::Prompt => {
                    let one = prompt(&session, &format!("n{sent}"));
                    sent += 1;
                    case.enqueue_prompt( one, PromptDelivery::Queue).expect("kept");
                }
                ContextAction::Compact => if running.is_none() {
                    let begun = case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false));
                    running = Some(begun.expect("begins"));
                },
                ContextAction::Finish => if let Some((turn, request)) = running.take() {
                    finished += 1;
                    compact(&case, &turn, &request, &none, &format!("s{finished}"));
                    case.end(&turn);
                    let now = context_messages(&case, &session);
                    prop_assert_eq!(&now[..1], &[request.as_str()[4..].to_owned()]);
                },
                ContextAction::Answer => if running.is_none() {
                    answer_next(&case, &session, &mut answered);
                },
                ContextAction::Die => {
                    running = None;
                    case = case.reopen();
                    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
                }
            }
        }
        while answer_next(&case, &session, &mut answered) {}
        let all: Vec<String> = (0..sent).map(|n| format!("n{n}")).collect();
        prop_assert_eq!(answered, all, "each once, in their order");
    }
}

/// Answers the next prompt of the inbox, which must be the last thing a model reads.
fn answer_next(case: &EngineFixture, session: &SessionId, answered: &mut Vec<String>) -> bool {
    let Some(turn) = case.engine.turns().begin_next(&ctx(), session).expect("reads") else {
        return false;
    };
    let last = context_messages(case, session).pop().expect("something");
    reply(case, &turn, &format!("r-{last}"), &last, "answered");
    case.end(&turn);
    answered.push(last);
    true
}

/// A tool call of `size` characters of output in every one of `count` turns.
fn tools(case: &EngineFixture, session: &SessionId, count: usize, size: usize) {
    for n in 0..count {
        let prompted = format!("u{n}");
        let turn = case.engine.turns().begin(&ctx(), prompt(session, &prompted)).expect("begins");
        let mut message = answer(session, &format!("a{n}"), &prompted);
        finish(&mut message);
        let state = json!({"status": "completed", "input": {}, "output": "x".repeat(size),
            "title": "t", "metadata": {}, "time": {"start": 1, "end": 2}});
        let call = json!({"type": "tool", "callID": "c", "tool": "bash", "state": state});
        let call = part(&message, &format!("t{n}"), call);
        let put = move |tx: &turnstone_store::Tx<'_>| {
            tx.messages().put(&message)?;
            tx.messages().put_part(&call)
        };
        case.engine.store().write(&turn.context(&ctx()), put).wait().expect("put");
        case.end(&turn);
    }
}

#[test]
fn pruning_is_opt_in_and_keeps_stored_outputs() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    // 15,000 tokens each: two turns are passed over, 40,000 tokens protected, the rest goes.
    tools(&case, &session, 8, 60_000);
    assert!(
        case.engine
            .turns()
            .contexts()
            .prune_tool_outputs(&ctx(), &session, None, false)
            .expect("off")
            .is_empty()
    );
    let cleared = case
        .engine
        .turns()
        .contexts()
        .prune_tool_outputs(&ctx(), &session, None, true)
        .expect("pruned");
    let names: Vec<&str> = cleared.iter().map(|id| &id.as_str()[4..]).collect();
    assert_eq!(names, ["t0", "t1", "t2", "t3"]);
    assert!(
        case.engine
            .turns()
            .contexts()
            .prune_tool_outputs(&ctx(), &session, None, true)
            .expect("again")
            .is_empty(),
        "once"
    );
    let read =
        case.engine.turns().contexts().model_messages(&ctx(), &session, &target()).expect("reads");
    let read = serde_json::to_string(&read).expect("json");
    assert_eq!(read.matches(CLEARED_OUTPUT).count(), 4);
    let stored = serde_json::to_string(&messages(&case, &session)[1].parts[0].body).expect("json");
    assert!(stored.len() > 60_000, "the output stays");
}

#[test]
fn small_outputs_are_not_pruned() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    tools(&case, &session, 6, 60_000);
    assert!(
        case.engine
            .turns()
            .contexts()
            .prune_tool_outputs(&ctx(), &session, None, true)
            .expect("pruned")
            .len()
            < 3
    );
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    tools(&case, &session, 4, 60_000);
    assert!(
        case.engine
            .turns()
            .contexts()
            .prune_tool_outputs(&ctx(), &session, None, true)
            .expect("pruned")
            .is_empty()
    );
}
