//! After a compaction: what is asked again, what makes the model go on, what clients see.

use serde_json::json;
use turnstone_core::context::{
    CLEARED_OUTPUT, CompactionSettings, INTERRUPTED_RESULT, ModelLimits, continuation_part,
    render_transcript, summarized_request, to_model_messages,
};
use turnstone_core::event::EventKind;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{MessageBody, MessageFailure, MessageFailureKind, PartBody};
use turnstone_core::time::SessionSeq;
use turnstone_engine::{CompactionPlan, Prompt, Turn};
use turnstone_store::MessageWithParts;

use crate::engine_fixture::{EngineFixture, answer, ctx, messages, part, prompt, user};
use crate::model_context::{context_messages, finish, summary, target, three_turn_session, wanted};

fn plan(case: &EngineFixture, session: &SessionId, request: &MessageId) -> CompactionPlan {
    let limits = ModelLimits { context: 100_000, input: 0, output: 8_000 };
    let settings =
        CompactionSettings { preserve_recent_tokens: Some(1_500), ..CompactionSettings::default() };
    let planned = case.engine.turns().compaction().plan(
        &ctx(),
        session,
        request,
        &target(),
        (limits, &settings),
    );
    planned.expect("a plan")
}

fn stored_message(case: &EngineFixture, session: &SessionId, id: &MessageId) -> MessageWithParts {
    let all = messages(case, session);
    all.into_iter().find(|one| one.message.id == *id).expect("it is there")
}

/// A session in which a prompt with a image has filled the context.
fn overflowing(case: &EngineFixture) -> (SessionId, Turn, MessageId) {
    let session = three_turn_session(case);
    let message = user(&session, "u4");
    let parts = [
        json!({"type": "text", "text": "look at this"}),
        json!({"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png,"}),
        json!({"type": "file", "mime": "text/plain", "filename": "b.txt", "url": "file:///b.txt"}),
    ];
    let parts =
        parts.iter().enumerate().map(|(n, it)| part(&message, &format!("u4{n}"), it.clone()));
    let prompt = Prompt { message: message.clone(), parts: parts.collect() };
    let turn = case.engine.turns().begin(&ctx(), prompt).expect("begins");
    let request =
        case.engine.turns().compaction().request(&ctx(), &turn, &wanted(true)).expect("asked");
    (session, turn, request)
}

/// 8.3: the request says who wanted it; the prompt before it is asked again without its media.
#[test]
fn overflow_compaction_replays_prompt_without_media() {
    let case = EngineFixture::new();
    let (session, turn, request) = overflowing(&case);
    let asked = stored_message(&case, &session, &request);
    let [body] = &asked.parts[..] else { panic!("one part") };
    let PartBody::Compaction(body) = &body.body else { panic!("a request") };
    assert_eq!((body.auto, body.overflow, &body.tail_start), (true, Some(true), &None));

    let plan = plan(&case, &session, &request);
    assert_eq!(plan.tail, None, "else the model would see the prompt twice, with its media");
    assert!(plan.continues);
    let done = summary(&session, &request, "s1");
    let next =
        case.engine.turns().compaction().finish(&ctx(), &turn, &plan, &done).expect("finished");
    let next = stored_message(&case, &session, &next.expect("it goes on"));
    let name = |id: &MessageId| id.as_str()[4..].to_owned();
    assert_eq!(
        context_messages(&case, &session),
        [name(&request), "s1".into(), name(&next.message.id)]
    );
    let read =
        case.engine.turns().contexts().model_messages(&ctx(), &session, &target()).expect("reads");
    let read = serde_json::to_value(&read).expect("json");
    let texts = [json!("look at this"), json!("[Attached image/png: a.png]")];
    let content = read[2]["content"].as_array().expect("content");
    assert_eq!(content.iter().map(|it| it["text"].clone()).collect::<Vec<_>>(), texts);
    let MessageBody::User(user) = &next.message.body else { panic!("a prompt") };
    assert_eq!((user.agent.as_str(), user.model.model.as_str()), ("build", "m"));
    case.end(&turn);
    case.assert_consistent();
}

/// 8.3: with nothing to ask again, a synthetic text makes the model go on; a person's request none.
#[test]
fn automatic_compaction_continues_manual_does_not() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    for (auto, name) in [(true, "s1"), (false, "s2")] {
        let mut wanted = wanted(false);
        wanted.auto = auto;
        let (turn, request) =
            case.engine.turns().compaction().begin(&ctx(), &session, &wanted).expect("begins");
        let plan = plan(&case, &session, &request);
        let done = summary(&session, &request, name);
        let next =
            case.engine.turns().compaction().finish(&ctx(), &turn, &plan, &done).expect("finished");
        assert_eq!(next.is_some(), auto);
        if let Some(next) = next {
            let next = stored_message(&case, &session, &next);
            let PartBody::Text(text) = &next.parts[0].body else { panic!("a text") };
            assert_eq!(text.synthetic, Some(true));
            assert_eq!(text.metadata, Some(json!({"compaction_continue": true})));
            assert_eq!(
                context_messages(&case, &session).last(),
                Some(&next.message.id.as_str()[4..].into())
            );
        }
        case.end(&turn);
    }
    // A caller can opt out.
    let mut quiet = wanted(false);
    quiet.auto = true;
    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &quiet).expect("begins");
    let plan = CompactionPlan { continues: false, ..plan(&case, &session, &request) };
    let done = summary(&session, &request, "s3");
    let next =
        case.engine.turns().compaction().finish(&ctx(), &turn, &plan, &done).expect("finished");
    assert_eq!(next, None);
    case.end(&turn);
    assert_ne!(
        continuation_part(true),
        continuation_part(false),
        "other words if something was left out"
    );
}

/// 8.3: `session.compacted` is the one event that makes the summary of a request finished.
#[test]
fn streamed_summary_is_stored_and_announced_once() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false)).expect("begins");
    let plan = plan(&case, &session, &request);
    let mut open = answer(&session, "s1", &request.as_str()[4..]);
    if let MessageBody::Assistant(said) = &mut open.body {
        said.summary = Some(true);
    }
    let text = part(&open, "s1", json!({"type": "text", "text": "", "time": {"start": 1}}));
    let id = text.id.clone();
    let put = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&open)?;
        tx.messages().put_part(&text)
    };
    case.engine.store().write(&turn.context(&ctx()), put).wait().expect("put");
    case.engine
        .turns()
        .steps()
        .append_text(&ctx(), &turn, &id, "streamed words")
        .expect("appended");
    assert!(
        context_messages(&case, &session).contains(&"u1".to_owned()),
        "not finished, so nothing is cut"
    );
    let done = summary(&session, &request, "s1");
    case.engine.turns().compaction().finish(&ctx(), &turn, &plan, &done).expect("finished");
    case.end(&turn);
    let summary = stored_message(&case, &session, &done.message.id);
    let [one] = &summary.parts[..] else { panic!("one text: {:?}", summary.parts) };
    assert!(matches!(&one.body, PartBody::Text(text) if text.text == "streamed words"));

    let page =
        case.engine.store().read(&ctx(), |r| r.log().stream_after(&session, SessionSeq(0), 1000));
    let mut announced = 0;
    for event in page.expect("reads").events {
        let Some(payload) = event.payload.filter(|_| event.kind == EventKind::MessageUpdated)
        else {
            continue;
        };
        let body: MessageBody = serde_json::from_value(payload["data"].clone()).expect("a body");
        let mut message = done.message.clone();
        message.body = body;
        announced += usize::from(summarized_request(&message) == Some(&request));
    }
    assert_eq!(announced, 1);
}

/// 8.3: a summary that overflows itself is an error on its message, and cuts nothing.
#[test]
fn failed_compaction_marks_summary_and_keeps_context() {
    let case = EngineFixture::new();
    let session = three_turn_session(&case);
    let (turn, request) =
        case.engine.turns().compaction().begin(&ctx(), &session, &wanted(false)).expect("begins");
    let plan = plan(&case, &session, &request);
    let mut message = answer(&session, "s1", &request.as_str()[4..]);
    if let MessageBody::Assistant(said) = &mut message.body {
        said.summary = Some(true);
    }
    let failure = MessageFailure::new(MessageFailureKind::ContextOverflowError, "too long");
    let fail = |message| case.engine.turns().compaction().fail(&ctx(), &turn, &plan, message);
    fail((&message, failure.clone())).expect("written");
    assert!(fail((&answer(&session, "x", "u1"), failure.clone())).is_err(), "of another message");
    case.end(&turn);
    let MessageBody::Assistant(said) = stored_message(&case, &session, &message.id).message.body
    else {
        panic!("an answer")
    };
    assert_eq!((said.finish.as_deref(), said.error), (Some("error"), Some(failure)));
    assert!(said.time.completed.is_some());
    assert!(context_messages(&case, &session).contains(&"u1".to_owned()));
}

/// 8.3: what is summarised is one text: who said what, outputs cut, media named.
#[test]
fn compaction_transcript_is_plain_text() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.engine.turns().begin(&ctx(), prompt(&session, "u1")).expect("begins");
    let mut message = answer(&session, "a1", "u1");
    finish(&mut message);
    let done = |output: &str, extra: serde_json::Value| {
        let mut state = json!({"status": "completed", "input": {"n": 1}, "output": output,
            "title": "t", "metadata": {}, "time": {"start": 1, "end": 2}});
        if let (Some(state), Some(extra)) = (state.as_object_mut(), extra.as_object()) {
            state.extend(extra.clone());
        }
        json!({"type": "tool", "callID": "c", "tool": "bash", "state": state})
    };
    let image = json!({"type": "file", "mime": "image/png", "filename": "p.png", "url": "data:,"});
    let bodies = [
        json!({"type": "reasoning", "text": "I think", "time": {"start": 1}}),
        json!({"type": "text", "text": "I say"}),
        done(&"x".repeat(2_500), json!({"attachments": [image]})),
        done("old", json!({"time": {"start": 1, "end": 2, "compacted": 3}})),
        json!({"type": "tool", "callID": "c", "tool": "read", "state": {"status": "running",
            "input": {}, "time": {"start": 1}}}),
    ];
    let parts: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(n, it)| part(&message, &format!("a{n}"), it.clone()))
        .collect();
    let asked = messages(&case, &session).remove(0);
    let entries = [(asked.message, asked.parts), (message, parts)];
    let text = render_transcript(&entries);
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(paragraphs[..3], ["User: u1", "Assistant, thinking: I think", "Assistant: I say"]);
    assert_eq!(paragraphs[3], r#"Call of bash: {"n":1}"#);
    let output =
        format!("{}\n[500 more characters]\n[Attached image/png: p.png]", "x".repeat(2_000));
    assert_eq!(paragraphs[4], format!("Result of bash: {output}"));
    assert_eq!(paragraphs[6], format!("Result of bash: {CLEARED_OUTPUT}"));
    assert_eq!(paragraphs[8], format!("Result of read: {INTERRUPTED_RESULT}"));
    assert_eq!(paragraphs.len(), 9);
    assert!(!to_model_messages(&entries, &target()).is_empty(), "the same, as a model gets it");
    case.end(&turn);
}
