//! Turns, requests and the inbox: one finalization, exactly-once answers and promotions.

mod support;

use serde_json::json;
use support::*;
use turnstone_core::event::EventKind;
use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::{
    MessageBody, PartBody, RequestState, SessionStatus, ToolState, UserRequest,
};
use turnstone_core::turn::{TurnEvent, TurnOutcome, TurnState};
use turnstone_store::{
    Context, EndTurn, LeaseTakeoverPolicy, NewTurn, PromptDelivery, Store, StoreError,
    TurnEndOutcome, WriteOutcome,
};

const SES: &str = "ses_a";

fn turn_id(text: &str) -> TurnId {
    text.parse().expect("turn id")
}

/// A store with a session, its lease, and an open turn in the given state.
fn in_turn(dir: &std::path::Path) -> (Store, Context) {
    let store = with_sessions(dir, &[SES]);
    let lease =
        store.leases().acquire(&ctx(), &sid(SES), LeaseTakeoverPolicy::IfDead).expect("lease");
    let owned = ctx().with_lease(&lease);
    let new = NewTurn {
        id: turn_id("trn_1"),
        message: user(SES, "msg_u", 1),
        parts: vec![text(SES, "msg_u", "prt_u", "do it")],
    };
    store.write(&owned, move |tx| tx.turns().begin(&new)).wait().expect("begins");
    step(&store, &owned, TurnEvent::Started).expect("starts");
    (store, owned)
}

fn step(store: &Store, ctx: &Context, event: TurnEvent) -> Result<TurnState, StoreError> {
    store.write(ctx, move |tx| tx.turns().transition(&sid(SES), &turn_id("trn_1"), &event)).wait()
}

fn end(outcome: TurnOutcome) -> EndTurn {
    EndTurn { session: sid(SES), turn: turn_id("trn_1"), outcome, error: None }
}

fn finish(
    store: &Store,
    ctx: &Context,
    outcome: TurnOutcome,
) -> Result<TurnEndOutcome, StoreError> {
    store.write(ctx, move |tx| tx.turns().end(&end(outcome))).wait()
}

fn ask(id: &str) -> UserRequest {
    serde_json::from_value(json!({
        "id": id, "sessionID": SES, "state": {"is": "pending"},
        "body": {"kind": "permission", "permission": "bash", "patterns": ["rm *"], "always": [],
                 "metadata": {}, "tool": {"messageID": "msg_a", "callID": "c1"}},
    }))
    .expect("request")
}

fn allow_once() -> RequestState {
    serde_json::from_value(json!({"is": "replied", "reply": "once"})).expect("state")
}

fn running_tool(id: &str) -> turnstone_core::model::Part {
    part(
        SES,
        "msg_a",
        id,
        json!({"type": "tool", "callID": "c1", "tool": "bash", "state":
        {"status": "running", "input": {"command": "make"}, "metadata": {"pid": 7}, "time": {"start": 5}}}),
    )
}

#[test]
fn ending_a_turn_closes_tools_texts_and_messages_atomically() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    store
        .write(&owned, |tx| {
            tx.messages().put(&assistant(SES, "msg_a", 2))?;
            tx.messages().put_part(&part(
                SES,
                "msg_a",
                "prt_t",
                json!({"type": "text", "text": "", "time": {"start": 3}}),
            ))?;
            tx.messages().append_text(&sid(SES), &pid("prt_t"), "so far")?;
            tx.messages().put_part(&running_tool("prt_x"))?;
            tx.requests().add(&ask("per_1"))
        })
        .wait()
        .expect("written");
    let commits = store.writer_stats().expect("stats").commits();
    let ended = finish(&store, &owned, TurnOutcome::Aborted).expect("ends");
    assert!(matches!(ended, TurnEndOutcome::Now(_)));
    assert_eq!(store.writer_stats().expect("stats").commits(), commits + 1);
    let message =
        store.read(&ctx(), |r| r.messages().get(&sid(SES), &mid("msg_a"))).expect("message");
    let MessageBody::Assistant(body) = &message.message.body else { panic!("an assistant") };
    assert!(body.time.completed.is_some() && body.error.is_some());
    let PartBody::Text(text) = &message.parts[0].body else { panic!("text") };
    assert_eq!(
        (text.text.as_str(), text.time.as_ref().and_then(|t| t.end.clone()).is_some()),
        ("so far", true)
    );
    let PartBody::Tool(tool) = &message.parts[1].body else { panic!("a tool") };
    let ToolState::Error { input, metadata, .. } = &tool.state else { panic!("closed") };
    assert_eq!(input, &json!({"command": "make"}), "what it had is kept");
    assert_eq!(metadata.as_ref().and_then(|m| m.get("pid")), Some(&json!(7)));
    assert_eq!(
        store.read(&ctx(), |r| r.requests().state("per_1")).expect("state"),
        RequestState::Withdrawn
    );
    assert_eq!(
        store.read(&ctx(), |r| r.sessions().status(&sid(SES))).expect("status"),
        SessionStatus::Idle
    );
}

#[test]
fn ending_twice_is_a_no_op_and_differently_is_rejected() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    assert!(matches!(finish(&store, &owned, TurnOutcome::Completed), Ok(TurnEndOutcome::Now(_))));
    let events = log(&store).len();
    assert_eq!(
        finish(&store, &owned, TurnOutcome::Completed).expect("again"),
        TurnEndOutcome::Already
    );
    assert!(matches!(finish(&store, &owned, TurnOutcome::Failed), Err(StoreError::Transition(_))));
    assert_eq!(log(&store).len(), events);
}

#[test]
fn second_turn_is_busy_while_first_is_open() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let again = NewTurn {
        id: turn_id("trn_1"),
        message: user(SES, "msg_u", 1),
        parts: vec![text(SES, "msg_u", "prt_u", "do it")],
    };
    let events = log(&store).len();
    store.write(&owned, move |tx| tx.turns().begin(&again)).wait().expect("a repeat");
    assert_eq!(log(&store).len(), events);
    let other = NewTurn { id: turn_id("trn_2"), message: user(SES, "msg_v", 2), parts: vec![] };
    let second = store.write(&owned, move |tx| tx.turns().begin(&other)).wait();
    assert!(matches!(second, Err(StoreError::Busy(_))));
    let stored = store.read(&ctx(), |r| r.messages().get(&sid(SES), &mid("msg_v")));
    assert!(matches!(stored, Err(StoreError::NoMessage { .. })), "nothing of it is stored");
}

#[test]
fn only_lease_holder_writes_during_a_turn() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let foreign = write(&store, |tx| tx.messages().put(&assistant(SES, "msg_b", 2)));
    assert!(matches!(foreign, Err(StoreError::Busy(_))));
    let removal = write(&store, |tx| tx.messages().remove(&sid(SES), &mid("msg_u")));
    assert!(matches!(removal, Err(StoreError::Busy(_))), "R45");
    // Metadata, todos, replies and shares need no lease (R27).
    write(&store, |tx| tx.sessions().set_todos(&sid(SES), &[])).expect("todos");
    write(&store, |tx| {
        tx.sessions().update(&sid(SES), |s| {
            s.title = "new".to_owned();
            Ok(())
        })
    })
    .expect("renamed");
    // A takeover fences the former holder.
    let second = open(dir.path());
    let taken =
        second.leases().acquire(&ctx(), &sid(SES), LeaseTakeoverPolicy::Force).expect("taken");
    let late = store.write(&owned, |tx| tx.messages().put(&assistant(SES, "msg_c", 2))).wait();
    assert!(matches!(late, Err(StoreError::Fenced(_))));
    second
        .write(&ctx().with_lease(&taken), |tx| tx.messages().put(&assistant(SES, "msg_d", 2)))
        .wait()
        .expect("the new holder writes");
}

#[test]
fn waiting_turn_survives_its_owner_and_can_be_answered() {
    let dir = tempfile::tempdir().expect("temp dir");
    {
        let (store, owned) = in_turn(dir.path());
        store
            .write(&owned, |tx| {
                tx.messages().put(&assistant(SES, "msg_a", 2))?;
                tx.messages().put_part(&running_tool("prt_x"))?;
                tx.requests().add(&ask("per_1"))
            })
            .wait()
            .expect("asked");
        step(&store, &owned, TurnEvent::Asked).expect("waits");
    }
    // R28: without an owner it stays waiting, with its request to be delivered again.
    let store = open(dir.path());
    assert!(store.turn_recovery().interrupted.is_empty());
    let pending = store.read(&ctx(), |r| r.requests().pending(None)).expect("requests");
    assert_eq!(pending, [ask("per_1")]);
    let id = ask("per_1").id;
    let answered = id.clone();
    assert_eq!(
        write(&store, move |tx| tx.requests().resolve(&answered, &allow_once())).expect("answered"),
        WriteOutcome::Updated
    );
    let repeated = id.clone();
    assert_eq!(
        write(&store, move |tx| tx.requests().resolve(&repeated, &allow_once())).expect("again"),
        WriteOutcome::No
    );
    let changed = write(&store, move |tx| tx.requests().resolve(&id, &RequestState::Withdrawn));
    assert!(matches!(changed, Err(StoreError::Conflict { .. })), "the first answer counts");
    // The next runner that leases the session resumes it, exactly once.
    let lease =
        store.leases().acquire(&ctx(), &sid(SES), LeaseTakeoverPolicy::IfDead).expect("lease");
    let owned = ctx().with_lease(&lease);
    assert_eq!(step(&store, &owned, TurnEvent::Answered).expect("resumes"), TurnState::Running);
    let events = log(&store).len();
    step(&store, &owned, TurnEvent::Answered).expect("a repeat");
    assert_eq!(log(&store).len(), events);
}

#[test]
fn answer_must_match_request_kind() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = with_sessions(dir.path(), &[SES]);
    write(&store, |tx| tx.requests().add(&ask("per_1"))).expect("asked");
    let id = ask("per_1").id;
    let wrong = write(&store, move |tx| {
        tx.requests().resolve(&id, &RequestState::Answered { answers: vec![] })
    });
    assert!(matches!(wrong, Err(StoreError::Invalid(_))));
    let unknown: UserRequest = ask("per_2");
    let missing = write(&store, move |tx| tx.requests().resolve(&unknown.id, &allow_once()));
    assert!(matches!(missing, Err(StoreError::NotFound { .. })));
    let mut other = ask("per_1");
    if let turnstone_core::model::RequestBody::Permission(body) = &mut other.body {
        body.permission = "edit".to_owned();
    }
    let taken = write(&store, move |tx| tx.requests().add(&other));
    assert!(matches!(taken, Err(StoreError::Conflict { .. })));
}

#[test]
fn prompts_during_a_run_are_admitted_once_and_promoted_once() {
    // R29, and the races of a crash: two runners promote at the same time.
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let admit = |id: &'static str, words: &'static str, delivery| {
        write(&store, move |tx| {
            tx.prompts().admit(
                &user(SES, id, 3),
                &[text(SES, id, &format!("prt_{id}"), words)],
                delivery,
            )
        })
    };
    let first = admit("msg_1", "first", PromptDelivery::Queue).expect("admitted");
    admit("msg_2", "steer it", PromptDelivery::Steer).expect("admitted");
    admit("msg_3", "third", PromptDelivery::Queue).expect("admitted");
    assert_eq!(admit("msg_1", "first", PromptDelivery::Queue).expect("a repeat"), first);
    assert!(matches!(
        admit("msg_1", "other words", PromptDelivery::Queue),
        Err(StoreError::Conflict { .. })
    ));
    assert!(matches!(
        admit("msg_1", "first", PromptDelivery::Steer),
        Err(StoreError::Conflict { .. })
    ));
    assert!(
        matches!(admit("msg_u", "do it", PromptDelivery::Steer), Err(StoreError::Conflict { .. })),
        "used by a turn"
    );
    let waiting = store.read(&ctx(), |r| r.prompts().waiting(&sid(SES))).expect("inbox");
    assert_eq!(
        waiting.iter().map(|a| a.message.as_str()).collect::<Vec<_>>(),
        ["msg_1", "msg_2", "msg_3"]
    );
    // A steer admitted after the cutoff waits for the next call.
    let cutoff = first.admitted;
    let none = store
        .write(&owned, move |tx| {
            tx.prompts().promote(&sid(SES), PromptDelivery::Steer, Some(cutoff))
        })
        .wait();
    assert_eq!(none.expect("nothing yet"), None);
    finish(&store, &owned, TurnOutcome::Aborted).expect("abort keeps the inbox");
    let other = open(dir.path());
    let mut taken: Vec<String> = std::thread::scope(|scope| {
        let runners: Vec<_> = [&store, &other, &store, &other]
            .into_iter()
            .map(|store| {
                scope.spawn(move || {
                    store
                        .write(&ctx(), |tx| {
                            tx.prompts().promote(&sid(SES), PromptDelivery::Queue, None)
                        })
                        .wait()
                        .expect("promotes")
                })
            })
            .collect();
        runners.into_iter().filter_map(|r| r.join().expect("runs")).map(String::from).collect()
    });
    taken.sort();
    assert_eq!(taken, ["msg_1", "msg_3"], "each exactly once");
    let order: Vec<_> =
        log(&store).into_iter().filter(|e| e.kind == EventKind::InputPromoted).collect();
    assert_eq!(
        order[0].payload.as_ref().and_then(|p| p["id"].as_str()),
        Some("msg_1"),
        "first in, first out"
    );
}

#[test]
fn retry_status_lasts_until_next_transition() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let retry: SessionStatus = serde_json::from_value(
        json!({"type": "retry", "attempt": 2, "message": "overloaded", "next": 9}),
    )
    .expect("status");
    let shown = retry.clone();
    store
        .write(&owned, move |tx| tx.turns().set_retry(&sid(SES), &turn_id("trn_1"), &retry))
        .wait()
        .expect("set");
    assert_eq!(store.read(&ctx(), |r| r.sessions().status(&sid(SES))).expect("status"), shown);
    step(&store, &owned, TurnEvent::Asked).expect("waits");
    assert_eq!(
        store.read(&ctx(), |r| r.sessions().status(&sid(SES))).expect("status"),
        SessionStatus::Busy
    );
    assert!(store.maintenance().verify_projections().expect("verifies").is_empty());
}

#[test]
fn begin_turn_stores_agent_and_model() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, _) = in_turn(dir.path());
    let accepted =
        log(&store).into_iter().find(|e| e.kind == EventKind::TurnAccepted).expect("accepted");
    let payload = accepted.payload.expect("payload");
    assert_eq!(payload["by"]["agent"], "build");
    assert_eq!(payload["by"]["model"]["modelID"], "m");
    let session: SessionId = sid(SES);
    let turns = store.read(&ctx(), |r| r.turns().list(&session)).expect("turns");
    assert_eq!((turns.len(), turns[0].state), (1, TurnState::Running));
}
