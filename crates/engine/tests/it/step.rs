//! Steps and tools: what a model call left behind, and turns that end once, whatever happens.

use serde_json::json;
use turnstone_core::id::SessionId;
use turnstone_core::model::{
    MessageBody, MessageFailure, MessageFailureKind, Part, PartBody, TokenCounts, ToolState,
};
use turnstone_core::tool_state::ToolPhase;
use turnstone_core::turn::{TurnOutcome, TurnState};
use turnstone_engine::{ModelStep, StepEnd, ToolFileAccess, Turn, UndoTarget};
use turnstone_store::{StoreError, TurnEndOutcome};

use crate::engine_fixture::{EngineFixture, answer, ctx, messages, part, prompt};

fn end() -> StepEnd {
    StepEnd {
        reason: "stop".into(),
        cost: 1.into(),
        tokens: TokenCounts::default(),
        structured: None,
    }
}

fn begin(case: &EngineFixture, turn: &Turn, id: &str) -> ModelStep {
    let parent = "1";
    case.engine
        .turns()
        .steps()
        .begin(&ctx(), turn, answer(&turn.session, id, parent))
        .expect("begins")
}

fn tool(session: &SessionId, message: &str, id: &str) -> Part {
    let message = answer(session, message, "1");
    let state = json!({"status": "running", "input": {}, "time": {"start": 1}});
    part(&message, id, json!({"type": "tool", "callID": id, "tool": "edit", "state": state}))
}

fn completed() -> ToolState {
    let state = json!({"status": "completed", "input": {}, "output": "done", "title": "t",
        "metadata": {}, "time": {"start": 1, "end": 2}});
    serde_json::from_value(state).expect("a state")
}

fn bodies(case: &EngineFixture, session: &SessionId) -> Vec<PartBody> {
    let found = messages(case, session);
    found.into_iter().flat_map(|one| one.parts).map(|part| part.body).collect()
}

fn snapshots(case: &EngineFixture, session: &SessionId) -> Vec<Option<String>> {
    let tree = |body: PartBody| {
        if let PartBody::StepStart(start) = body {
            Some(start.snapshot)
        } else if let PartBody::StepFinish(finish) = body {
            Some(finish.snapshot)
        } else {
            None
        }
    };
    bodies(case, session).into_iter().filter_map(tree).collect()
}

/// Proves R42, R21.
#[test]
fn steps_capture_after_baseline_and_list_own_files() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("theirs", Some("1"));
    let turn = case.begin(&session);
    let step = begin(&case, &turn, "a1");
    assert_eq!(step.snapshot, None, "no baseline, no capture of the whole");
    // A named write needs none; a window makes the baseline.
    case.edit(&turn, "named", Some("n"));
    let done = case.engine.turns().steps().end(&ctx(), &turn, &step, &end()).expect("ends");
    assert_eq!(done.files, [case.root().canonicalize().expect("real").join("named")]);
    assert_eq!(done.snapshot, None);
    case.shell(&turn, || case.put("shell", Some("s")));

    let step = begin(&case, &turn, "a2");
    let before = step.snapshot.clone().expect("a capture");
    case.put("theirs", Some("a person saved this"));
    case.edit(&turn, "named", Some("m"));
    let done = case.engine.turns().steps().end(&ctx(), &turn, &step, &end()).expect("ends");
    case.end(&turn);

    assert_ne!(done.snapshot.as_ref(), Some(&before));
    assert_eq!(done.files.len(), 1, "what a person saved is not the turn's: {:?}", done.files);
    let trees = snapshots(&case, &session);
    assert_eq!(trees, [None, None, Some(before.clone()), done.snapshot]);
    let patches: Vec<_> = bodies(&case, &session)
        .into_iter()
        .filter_map(|body| if let PartBody::Patch(patch) = body { Some(patch) } else { None })
        .collect();
    assert_eq!(patches.len(), 2);
    assert_eq!(patches[1].hash, before);
    let found = messages(&case, &session);
    let MessageBody::Assistant(said) = &found[2].message.body else { panic!("an answer") };
    assert_eq!((said.finish.as_deref(), &said.cost), (Some("stop"), &1.into()));
}

#[test]
fn tool_run_captures_before_and_reports_changes_after() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    begin(&case, &turn, "a1");
    let call = tool(&session, "a1", "t1");
    let touch = ToolFileAccess::Named(vec!["f".into()]);
    let run = case.engine.turns().steps().begin_tool(&ctx(), &turn, &call, &touch).expect("begins");
    case.put("f", Some("f"));
    let closed =
        case.engine.turns().steps().end_tool(&ctx(), &turn, run, completed()).expect("ends");
    assert_eq!(closed.expect("a change set").changes.len(), 1);
    let rows = case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    assert_eq!(rows[0].set.part, Some(call.id.clone()));
    // One that touches nothing has none.
    let call = tool(&session, "a1", "t2");
    let run = case
        .engine
        .turns()
        .steps()
        .begin_tool(&ctx(), &turn, &call, &ToolFileAccess::Nothing)
        .expect("begins");
    let closed =
        case.engine.turns().steps().end_tool(&ctx(), &turn, run, completed()).expect("ends");
    assert_eq!(closed, None);
    case.end(&turn);
}

/// No open tool, no open text, no answer without an end.
fn assert_all_closed(case: &EngineFixture, session: &SessionId) {
    for found in messages(case, session) {
        if let MessageBody::Assistant(said) = &found.message.body {
            assert!(said.time.completed.is_some());
            assert!(said.error.is_some() || said.finish.is_some(), "W3: an end says why");
        }
        for part in found.parts {
            if let PartBody::Tool(tool) = &part.body {
                assert!(!tool.state.phase().is_open());
            }
            if let PartBody::Text(text) = part.body {
                assert!(text.time.is_none_or(|time| time.end.is_some()));
            }
        }
    }
    let open =
        case.engine.store().read(&ctx(), |r| r.change_sets().list_open(None)).expect("reads");
    assert!(open.is_empty(), "{open:?}");
}

/// A turn in the middle of everything: text streams, one tool writes, one runs in a window.
fn begin_busy_turn(case: &EngineFixture, session: &SessionId) -> Turn {
    let turn = case.begin(session);
    begin(case, &turn, "a1");
    let message = answer(session, "a1", "1");
    let text = json!({"type": "text", "text": "", "time": {"start": 1}});
    let text = part(&message, "x1", text);
    let put = text.clone();
    let store = case.engine.store();
    store.write(&turn.context(&ctx()), move |tx| tx.messages().put_part(&put)).wait().expect("put");
    for delta in ["half ", "a sen"] {
        case.engine.turns().steps().append_text(&ctx(), &turn, &text.id, delta).expect("appended");
    }
    let named = ToolFileAccess::Named(vec!["f".into()]);
    let call = tool(session, "a1", "t1");
    drop(case.engine.turns().steps().begin_tool(&ctx(), &turn, &call, &named).expect("begins"));
    case.put("f", Some("written before the end"));
    let call = tool(session, "a1", "t2");
    drop(
        case.engine
            .turns()
            .steps()
            .begin_tool(&ctx(), &turn, &call, &ToolFileAccess::Anything)
            .expect("begins"),
    );
    case.put("g", Some("seen in the window"));
    turn
}

/// W2, W3, W14: one finalization, however the turn ends.
#[test]
fn failed_or_aborted_turn_closes_once_and_is_undoable() {
    for outcome in [TurnOutcome::Aborted, TurnOutcome::Failed] {
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        let turn = begin_busy_turn(&case, &session);
        let finish = || {
            if outcome == TurnOutcome::Aborted {
                return case.engine.turns().abort(&ctx(), &turn);
            }
            let error = MessageFailure::new(MessageFailureKind::UnknownError, "no");
            case.engine.turns().fail(&ctx(), &turn, error)
        };
        assert!(matches!(finish(), Ok(TurnEndOutcome::Now(_))));
        assert!(matches!(finish(), Ok(TurnEndOutcome::Already)), "twice is a retry");
        assert_all_closed(&case, &session);
        let text = bodies(&case, &session)
            .into_iter()
            .find_map(|body| if let PartBody::Text(text) = body { Some(text.text) } else { None });
        assert_eq!(text.as_deref(), Some("half a sen"), "what was streamed is there");
        let report = case.undo(&session, &UndoTarget::Last);
        assert!(report.is_complete(), "{report:?}");
        assert_eq!((case.read("f"), case.read("g")), (None, None));
    }
}

/// Proves W2.
#[test]
fn turn_of_dead_process_is_closed_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    begin_busy_turn(&case, &session);
    let case = case.reopen();
    let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    // Opening has ended the turn already; what its calls changed is found out now.
    assert_eq!((done.interrupted.len(), done.closed.len()), (0, 2));
    assert_all_closed(&case, &session);
    let again = case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!((again.interrupted.len(), again.closed.len()), (0, 0), "once");
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    assert_eq!(turns[0].state, TurnState::Interrupted);
    let states: Vec<ToolPhase> =
        bodies(&case, &session)
            .iter()
            .filter_map(|body| {
                if let PartBody::Tool(tool) = body { Some(tool.state.phase()) } else { None }
            })
            .collect();
    assert_eq!(states, [ToolPhase::Error, ToolPhase::Error]);
}

#[test]
fn next_agent_comes_from_newest_prompt() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    assert_eq!(case.engine.turns().find_next_agent(&ctx(), &session).expect("reads"), None);
    let model = json!({"id": "m0", "providerID": "p0"});
    let set = move |tx: &turnstone_store::Tx<'_>| {
        tx.sessions().update(&"ses_a".parse().expect("an id"), |session| {
            session.agent = Some("plan".into());
            session.model = serde_json::from_value(model.clone()).ok();
            Ok(())
        })
    };
    case.engine.store().write(&ctx(), set).wait().expect("set");
    let next = case
        .engine
        .turns()
        .find_next_agent(&ctx(), &session)
        .expect("reads")
        .expect("the session's");
    assert_eq!((next.agent.as_str(), next.model.model.as_str()), ("plan", "m0"));

    let mut first = prompt(&session, "u1");
    let MessageBody::User(user) = &mut first.message.body else { panic!("a person") };
    (user.agent, user.model.model) = ("build".into(), "m7".into());
    let turn = case.engine.turns().begin(&ctx(), first).expect("begins");
    begin(&case, &turn, "a1");
    case.engine.turns().abort(&ctx(), &turn).expect("ends");
    // Every answer is dropped.
    let id = "msg_a1".parse().expect("an id");
    let name = session.clone();
    let drop = move |tx: &turnstone_store::Tx<'_>| tx.messages().remove(&name, &id);
    case.engine.store().write(&ctx(), drop).wait().expect("dropped");

    let next = case
        .engine
        .turns()
        .find_next_agent(&ctx(), &session)
        .expect("reads")
        .expect("the prompt's");
    assert_eq!((next.agent.as_str(), next.model.model.as_str()), ("build", "m7"));
}

/// W27: what a step names is pinned by its session, so no collection takes it away.
#[test]
fn step_captures_survive_garbage_collection() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let turn = case.begin(&session);
    case.shell(&turn, || case.put("f", Some("two")));
    let step = begin(&case, &turn, "a1");
    case.edit(&turn, "f", Some("three"));
    let done = case.engine.turns().steps().end(&ctx(), &turn, &step, &end()).expect("ends");
    case.end(&turn);
    let handle =
        case.engine.snapshots().open(&case.root(), crate::engine_fixture::NOW).expect("opens");
    let later =
        turnstone_core::time::EpochMillis(crate::engine_fixture::NOW.0 + 90 * 24 * 3_600_000);
    let sweep = turnstone_snapshot::GcRequest {
        live: [session.as_str().to_owned()].into(),
        deleted: std::collections::BTreeSet::new(),
        keep: 0,
        effort: u64::MAX,
        dry_run: false,
        now: later,
    };
    handle.maintenance().collect_garbage(&sweep).expect("collected");
    for tree in [step.snapshot, done.snapshot] {
        handle.reader().find_capture(&tree.expect("a tree")).expect("it is there");
    }
    assert!(case.undo(&session, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f").as_deref(), Some("one"));
}

/// W17, R45: busy is in the database, so every process gives the same answer.
#[test]
fn second_engine_cannot_run_a_leased_session() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let settings = turnstone_engine::EngineSettings::new(&case.dir.path().join("data"));
    let other =
        turnstone_engine::Engine::open(settings, crate::engine_fixture::NOW).expect("opens");
    let refused = other.turns().begin(&ctx(), prompt(&session, "u9")).map(drop);
    let busy = matches!(refused, Err(turnstone_engine::EngineError::Store(StoreError::Busy(_))));
    assert!(busy, "{refused:?}");
    let refused =
        other.history().plan_undo(&ctx(), &session, &UndoTarget::Last, &Default::default());
    let plan = refused.expect("a plan changes nothing");
    assert!(other.history().apply(&ctx(), &plan).is_err(), "R45: no undo while a turn runs");
    case.end(&turn);
}
