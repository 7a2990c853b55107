//! Commands as turns, at the level of the engine; the program itself is tested with `cli`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use turnstone_core::change::Evidence;
use turnstone_core::model::{PartBody, ToolState};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_core::turn::{TurnEvent, TurnState};
use turnstone_engine::{
    AbortOutcome, CommandEnd, CommandExecution, Engine, EngineError, EngineSettings, NewSession,
    UndoOptions, UndoTarget,
};
use turnstone_process::{CommandExit, OutputLimits, OutputRecorder, OutputSource, ProcessGroupId};
use turnstone_snapshot::{CaptureMode, PinGroup};
use turnstone_store::{Actor, Context, StoreError};

use crate::engine_fixture::{EngineFixture, ctx};

fn begin(case: &EngineFixture) -> CommandExecution {
    let session = case
        .engine
        .projects()
        .create_session(&ctx(), &case.root(), &NewSession::default())
        .expect("a session");
    case.engine.turns().commands().begin_exec(&ctx(), &session, "make it so").expect("begins")
}

fn exited(output: &str) -> CommandEnd {
    let mut recorder = OutputRecorder::new(OutputLimits { head: 8, tail: 8, spill: 0 }, None);
    recorder.push(OutputSource::Stdout, output.as_bytes());
    CommandEnd::Exited {
        exit: CommandExit::Code(3),
        kept: Some(Box::new(recorder.finish())),
        aborted: false,
    }
}

/// A group of which nobody lives any more.
fn dead_group() -> ProcessGroupId {
    let boot_id = "another boot".to_owned();
    ProcessGroupId { pgid: 1, start_time: 1, session: 1, session_start_time: 1, boot_id }
}

fn call(case: &EngineFixture, execution: &CommandExecution) -> ToolState {
    let (session, name) = (&execution.turn.session, execution.call_id().parse().expect("an id"));
    let part = case
        .engine
        .store()
        .read(&ctx(), |r| r.messages().get_part(session, &name))
        .expect("a part");
    let PartBody::Tool(tool) = part.body else { panic!("a tool") };
    tool.state
}

/// Proves R32.
#[test]
fn command_runs_as_turn_with_call_and_window() {
    let case = EngineFixture::new();
    let mut execution = begin(&case);
    assert!(execution.call.is_covered() && execution.concurrent.is_empty());
    case.engine
        .turns()
        .commands()
        .record_process_group(&ctx(), &mut execution, &dead_group())
        .expect("noted");
    assert!(
        matches!(call(&case, &execution), ToolState::Running { metadata: Some(it), .. }
            if it["group"]["pgid"] == 1),
        "the processes are known before they run"
    );
    case.put("new", Some("new"));
    let (session, turn) = (execution.turn.session.clone(), execution.turn.id.clone());
    let id = execution.call_id().parse().expect("an id");

    let closed =
        case.engine.turns().commands().end(&ctx(), execution, &exited("0123456789abcdefghij"));

    let closed = closed.expect("ends").expect("compared");
    assert_eq!(closed.changes.len(), 1);
    let store = case.engine.store();
    let (turns, part) = store
        .read(&ctx(), |r| Ok((r.turns().list(&session)?, r.messages().get_part(&session, &id)?)))
        .expect("reads");
    assert_eq!((turns[0].id.clone(), turns[0].state), (turn, TurnState::Failed));
    let PartBody::Tool(tool) = part.body else { panic!("a tool") };
    let ToolState::Completed { output, metadata, .. } = tool.state else { panic!("completed") };
    assert_eq!(output, "01234567\n… 4 bytes left out …\ncdefghij");
    assert_eq!((&metadata["exit"], &metadata["truncated"]), (&3.into(), &true.into()));
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("new"), None);
}

/// Proves R32.
#[test]
fn recovery_closes_command_with_unseen_end() {
    let case = EngineFixture::new();
    let mut execution = begin(&case);
    case.engine
        .turns()
        .commands()
        .record_process_group(&ctx(), &mut execution, &dead_group())
        .expect("noted");
    let session = execution.turn.session.clone();
    case.put("new", Some("new"));
    let lost = CommandEnd::Lost("the supervisor died".to_owned());
    assert!(case.engine.turns().commands().end(&ctx(), execution, &lost).expect("ends").is_none());

    let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");

    assert_eq!(done.closed.len(), 1);
    let rows = case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Recovered);
    assert_eq!(rows[0].set.changes.len(), 1);
}

/// Proves R3.
#[test]
fn concurrent_windows_are_reported_and_undone_together() {
    let case = EngineFixture::new();
    case.put("plan", Some("plan\n"));
    let outer = begin(&case);
    case.put("plan", Some("plan\nby one\n"));
    let inner = begin(&case);
    assert_eq!(inner.concurrent.len(), 1);
    assert_eq!(inner.concurrent[0].session, outer.turn.session);
    case.put("plan", Some("plan\nby one\nby two\n"));
    let (one, two) = (outer.turn.clone(), inner.turn.clone());
    case.engine.turns().commands().end(&ctx(), inner, &exited("")).expect("ends");
    case.engine.turns().commands().end(&ctx(), outer, &exited("")).expect("ends");

    let alone = case.plan(&two.session, &UndoTarget::Last);
    assert_eq!(alone.contended.len(), 1);
    let options = UndoOptions {
        other_turns: vec![(one.session.clone(), one.id.clone())],
        ..Default::default()
    };
    let which = UndoTarget::Turn(two.id.clone());
    let plan =
        case.engine.history().plan_undo(&ctx(), &two.session, &which, &options).expect("a plan");
    assert!(plan.contended.is_empty());
    let report = case.engine.history().apply(&ctx(), &plan).expect("applied");

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("plan").as_deref(), Some("plan\n"));
    // The other session knows that its turn is undone; redo restores both.
    let options = UndoOptions::default();
    let again = case.engine.history().plan_undo(&ctx(), &one.session, &UndoTarget::Last, &options);
    assert!(matches!(again, Err(EngineError::NothingToUndo(_))), "{again:?}");
    let report = case.redo(&two.session);
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("plan").as_deref(), Some("plan\nby one\nby two\n"));
}

/// Proves R37: a client may undo turns of its own session; for those of others a person is asked.
#[test]
fn client_cannot_undo_turns_of_other_clients_with_its_own() {
    let case = EngineFixture::new();
    let theirs = begin(&case);
    case.put("theirs", Some("x"));
    let their_turn = theirs.turn.clone();
    case.engine.turns().commands().end(&ctx(), theirs, &exited("")).expect("ends");
    let bob = Context::new(Actor::new("bob").expect("actor"), ctx().now);
    let projects = case.engine.projects();
    let session =
        projects.create_session(&bob, &case.root(), &NewSession::default()).expect("a session");
    let own = case.engine.turns().commands().begin_exec(&bob, &session, "x").expect("begins");
    case.put("own", Some("x"));
    case.engine.turns().commands().end(&bob, own, &exited("")).expect("ends");

    let undo = |other_turns| {
        let options = UndoOptions { other_turns, ..UndoOptions::default() };
        let history = case.engine.history();
        let plan = history.plan_undo(&bob, &session.id, &UndoTarget::Last, &options);
        history.apply(&bob, &plan.expect("a plan"))
    };
    let asked = undo(vec![(their_turn.session.clone(), their_turn.id.clone())]);
    assert!(matches!(asked, Err(EngineError::PermissionPending { .. })), "{asked:?}");
    assert!(case.read("theirs").is_some() && case.read("own").is_some());

    let report = undo(Vec::new()).expect("its own");
    assert!(report.is_complete(), "{report:?}");
    assert!(case.read("theirs").is_some() && case.read("own").is_none());
}

/// Proves R45.
#[test]
fn undo_rejects_running_turn_of_other_session() {
    let case = EngineFixture::new();
    let running = begin(&case);
    let done = begin(&case);
    let session = done.turn.session.clone();
    case.engine.turns().commands().end(&ctx(), done, &exited("")).expect("ends");
    let also = vec![(running.turn.session.clone(), running.turn.id.clone())];
    let options = UndoOptions { other_turns: also, ..Default::default() };
    let plan = case.engine.history().plan_undo(&ctx(), &session, &UndoTarget::Last, &options);
    assert!(matches!(plan, Err(EngineError::Store(StoreError::Busy(_)))), "{plan:?}");
}

/// R27, R45: the request is in the database, whichever process runs the turn; it needs no lease.
#[test]
fn abort_reaches_owner_or_ends_unowned_turn() {
    let case = EngineFixture::new();
    let running = begin(&case);
    let (turn, session) = (running.turn.clone(), running.turn.session.clone());
    let settings = turnstone_engine::EngineSettings::new(&case.dir.path().join("data"));
    let other = Engine::open(settings, crate::engine_fixture::NOW).expect("opens");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| case.engine.turns().aborts().wait(&ctx(), &turn, &over));
        for _ in 0..2 {
            let asked = other.turns().aborts().request(&ctx(), &session).expect("asked");
            assert_eq!(asked, AbortOutcome::Requested(turn.id.clone()));
        }
        assert!(waiting.join().expect("ends").expect("reads"));
    });
    let log = other.store().read(&ctx(), |r| r.log().after(LogCursor(0), 1000)).expect("reads");
    let asked = log.events.iter().filter(|event| event.kind.name() == "turn.abort_asked");
    assert_eq!(asked.count(), 1, "asking again changes nothing");
    let CommandEnd::Exited { exit, kept, .. } = exited("") else { panic!("exited") };
    let end = CommandEnd::Exited { exit, kept, aborted: true };
    case.engine.turns().commands().end(&ctx(), running, &end).expect("ends");
    let turns = other.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    assert_eq!(turns[0].state, TurnState::Aborted);
    assert_eq!(
        other.turns().aborts().request(&ctx(), &session).expect("asked"),
        AbortOutcome::NoOpenTurn
    );

    // Without a request, the wait ends when it is cancelled.
    let running = begin(&case);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| case.engine.turns().aborts().wait(&ctx(), &running.turn, &over));
        case.engine.turns().aborts().cancel_wait(&over);
        assert!(!waiting.join().expect("ends").expect("reads"));
    });
    // A turn that waits for an answer and whose process is gone is ended by the process that requests the abort (R28).
    let (turn, session) = (running.turn.clone(), running.turn.session.clone());
    let (name, id) = (session.clone(), turn.id.clone());
    let asks =
        move |tx: &turnstone_store::Tx<'_>| tx.turns().transition(&name, &id, &TurnEvent::Asked);
    case.engine.store().write(&turn.context(&ctx()), asks).wait().expect("waits");
    drop(running);
    let case = case.reopen();
    let asked = case.engine.turns().aborts().request(&ctx(), &session).expect("asked");
    assert_eq!(asked, AbortOutcome::Ended(turn.id));
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&session)).expect("reads");
    assert_eq!(turns[0].state, TurnState::Aborted);
}

/// R8, R11: in a large directory the second capture looks at what the kernel named.
#[test]
fn large_directory_is_watched_instead_of_walked() {
    let case = EngineFixture::new();
    for folder in 0..200 {
        let folder = case.root().join(format!("d{folder}"));
        fs_err::create_dir(&folder).expect("made");
        for file in 0..100 {
            fs_err::write(folder.join(format!("f{file}")), "").expect("written");
        }
    }
    // The first one learns how large it is; the second one watches.
    for round in 0..2 {
        let execution = begin(&case);
        let session = execution.turn.session.clone();
        case.put("d7/new", Some("new"));
        let closed =
            case.engine.turns().commands().end(&ctx(), execution, &exited("")).expect("ends");
        assert_eq!(closed.expect("compared").changes.len(), 1, "round {round}");
        let handle =
            case.engine.snapshots().open(&case.root(), crate::engine_fixture::NOW).expect("opens");
        let looked =
            handle.capture(&PinGroup::new("look"), crate::engine_fixture::NOW).expect("captured");
        let wanted = if round == 0 { CaptureMode::Walk } else { CaptureMode::Journal };
        assert_eq!(looked.mode, wanted, "round {round}");
        case.undo(&session, &UndoTarget::Last);
        assert_eq!(case.read("d7/new"), None);
    }
    // After a long command the user does not notice that the journal is compared with a walk.
    let execution = begin(&case);
    case.put("d8/new", Some("new"));
    let later = ctx().at_time(EpochMillis(crate::engine_fixture::NOW.0 + 60_000));
    case.engine.turns().commands().end(&later, execution, &exited("")).expect("ends");
    let handle =
        case.engine.snapshots().open(&case.root(), crate::engine_fixture::NOW).expect("opens");
    assert_eq!(handle.maintenance().start_journal().expect("the owner").audits, 1);
}

/// Proves R22 and R45. Before the command runs, one commit stores session, turn, messages and tool call, one the
/// window with its capture, one the process group; after it, one commit stores everything else.
#[test]
fn short_command_costs_one_recovery_and_four_commits() {
    let case = EngineFixture::new();
    let (data, root) = (case.dir.path().join("data"), case.root());
    drop(begin(&case));
    drop(case.engine);
    let scenario = fail::FailScenario::setup();
    let recoveries = Arc::new(AtomicUsize::new(0));
    let counted = recoveries.clone();
    let count = move || {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    fail::cfg_callback("store::recover_turns", count).expect("set");
    let settings = EngineSettings::new(&data);

    let (engine, recovered) = Engine::open_recovered(settings, &ctx()).expect("opens");
    recovered.expect("recovers");
    let commits = || engine.store().writer_stats().expect("writes").commits();
    let (commands, before) = (engine.turns().commands(), commits());
    let session = engine.projects().draft_session(&ctx(), &root, &NewSession::default());
    let session = session.expect("a session");
    let mut execution =
        commands.begin_exec_in_new_session(&ctx(), &session, "true").expect("begins");
    commands.record_process_group(&ctx(), &mut execution, &dead_group()).expect("recorded");
    fs_err::write(root.join("new"), "new").expect("written");
    let closed = commands.end(&ctx(), execution, &exited("done")).expect("ends");

    assert_eq!(commits() - before, 4);
    assert_eq!(recoveries.load(Ordering::SeqCst), 1);
    assert_eq!(closed.expect("compared").changes.len(), 1);
    let stored = engine.store().read(&ctx(), |r| r.sessions().get(&session.id)).expect("stored");
    assert_eq!(stored.summary.map(|it| it.files), Some(1.into()), "the summary has the change");
    assert!(
        !engine.store().leases().is_held(&ctx(), &session.id).expect("known"),
        "the lease is free"
    );
    scenario.teardown();
}
