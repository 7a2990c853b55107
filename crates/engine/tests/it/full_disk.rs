//! The disk of the data directory is full when a call ends, or before its changes are recorded.

use turnstone_core::change::{Evidence, UncoveredReason};
use turnstone_core::id::SessionId;
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    CommandEnd, CommandExecution, EngineError, NewSession, UndoOptions, UndoTarget,
};
use turnstone_process::{CommandExit, OutputLimits, OutputRecorder};
use turnstone_store::{ChangeSetRow, StoreError};
use turnstone_testkit::fixture::SeededRng;
use turnstone_testkit::small_disk::SmallDisk;
use turnstone_testkit::test_rounds;

use crate::engine_fixture::{EngineFixture, ctx};

const DISK_KIB: u64 = 4096;

/// A project whose data directory is on a small disk; nothing where none can be mounted.
fn fixture_on_small_disk() -> Option<(SmallDisk, EngineFixture)> {
    let disk = SmallDisk::mount(DISK_KIB).expect("a directory")?;
    let case = EngineFixture::with_data(disk.path());
    Some((disk, case))
}

fn begin(case: &EngineFixture) -> CommandExecution {
    let new = NewSession::default();
    let session = case.engine.projects().create_session(&ctx(), &case.root(), &new);
    let session = session.expect("a session");
    case.engine.turns().commands().begin_exec(&ctx(), &session, "make it so").expect("begins")
}

fn exited() -> CommandEnd {
    let kept = Box::new(OutputRecorder::new(OutputLimits::default(), None).finish());
    CommandEnd::Exited { exit: CommandExit::Code(0), kept: Some(kept), aborted: false }
}

/// Text of so many bytes that does not compress well.
fn noise(rng: &mut SeededRng, bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    rng.fill(&mut raw);
    raw.into_iter().map(|byte| char::from(b'!' + byte % 90)).collect()
}

fn change_sets(case: &EngineFixture, session: &SessionId) -> Vec<ChangeSetRow> {
    case.engine.store().read(&ctx(), |r| r.change_sets().list(session)).expect("reads")
}

fn turn_state(case: &EngineFixture, session: &SessionId) -> TurnState {
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
    turns[0].state
}

#[test]
fn closing_capture_without_space_takes_small_edits() {
    let Some((_disk, case)) = fixture_on_small_disk() else { return };
    let mut rng = SeededRng::new(1);
    case.put("small", Some("one\n"));
    case.put("gone", Some("gone\n"));
    let empty = case.root().join("empty");
    fs_err::create_dir(&empty).expect("made");
    let execution = begin(&case);
    let session = execution.turn.session.clone();
    case.put("small", Some("two\n"));
    case.put("gone", None);
    fs_err::remove_dir(&empty).expect("removed");
    case.put("new", Some("new\n"));
    let huge = noise(&mut rng, 6 << 20);
    case.put("huge", Some(&huge));

    let closed = case.engine.turns().commands().end(&ctx(), execution, &exited());

    let closed = closed.expect("ends").expect("compared");
    assert_eq!((closed.changes.len(), closed.not_covered, closed.is_pending), (5, 1, false));
    let lost: Vec<_> = closed.changes.iter().filter(|change| !change.is_covered()).collect();
    assert_eq!(lost[0].path.to_string(), "huge");
    assert_eq!(lost[0].after.uncovered_reason(), Some(UncoveredReason::NoSpace));
    assert_eq!(turn_state(&case, &session), TurnState::Completed);
    let report = case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("small").as_deref(), Some("one\n"));
    assert_eq!(case.read("gone").as_deref(), Some("gone\n"));
    assert_eq!(case.read("new"), None);
    assert!(empty.is_dir(), "directories are captured too");
    assert_eq!(case.read("huge"), Some(huge), "what is not covered stays");
    assert_eq!(report.not_covered.len(), 1, "{report:?}");
}

#[test]
fn recovery_waits_for_space_and_then_records() {
    let Some((disk, case)) = fixture_on_small_disk() else { return };
    case.put("a", Some("one\n"));
    let execution = begin(&case);
    let session = execution.turn.session.clone();
    case.put("a", Some(&noise(&mut SeededRng::new(2), 200 << 10)));
    // As if the process had been killed.
    drop(execution);
    let case = case.reopen();
    assert_eq!(turn_state(&case, &session), TurnState::Interrupted);
    disk.fill_leaving(100 << 10).expect("filled");

    for _ in 0..2 {
        let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers the rest");
        assert_eq!((done.pending.len(), done.closed.len()), (1, 0));
        assert_eq!(change_sets(&case, &session)[0].closed, None, "nothing is given up");
    }
    let options = UndoOptions::default();
    let planned = case.engine.history().plan_undo(&ctx(), &session, &UndoTarget::Last, &options);
    let refused = planned.expect_err("not known yet");
    assert!(matches!(refused, EngineError::ChangesPending(_)), "{refused}");
    assert!(
        case.engine.maintenance().ensure_recovered(&ctx(), &session).is_ok(),
        "reading goes on"
    );

    disk.free().expect("freed");
    let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!((done.pending.len(), done.closed.len()), (0, 1));
    assert_eq!(change_sets(&case, &session)[0].set.evidence, Evidence::Recovered);
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("a").as_deref(), Some("one\n"));
}

#[test]
fn recovery_gives_up_only_what_the_disk_can_never_hold() {
    let Some((_disk, case)) = fixture_on_small_disk() else { return };
    case.put("a", Some("one\n"));
    let execution = begin(&case);
    let session = execution.turn.session.clone();
    case.put("a", Some("two\n"));
    case.put("huge", Some(&noise(&mut SeededRng::new(3), 6 << 20)));
    drop(execution);
    let case = case.reopen();
    let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!((done.pending.len(), done.closed.len()), (0, 1));
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("a").as_deref(), Some("one\n"));
    assert!(case.read("huge").is_some());
}

/// The process lives, so no other may end its turn.
#[test]
fn end_of_turn_is_stored_once_there_is_space() {
    let Some((disk, case)) = fixture_on_small_disk() else { return };
    case.put("a", Some("one\n"));
    let execution = begin(&case);
    let session = execution.turn.session.clone();
    case.put("a", Some("two\n"));
    disk.fill().expect("filled");

    let ended = case.engine.turns().commands().end(&ctx(), execution, &exited());

    let full = ended.expect_err("no space for the end");
    assert!(matches!(full, EngineError::Store(StoreError::Full { .. })), "{full}");
    assert_eq!(turn_state(&case, &session), TurnState::Running);
    disk.free().expect("freed");
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!(turn_state(&case, &session), TurnState::Completed);
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("a").as_deref(), Some("one\n"));
}

#[test]
fn failed_closing_capture_ends_the_turn() {
    let scenario = fail::FailScenario::setup();
    let case = EngineFixture::new();
    case.put("a", Some("one\n"));
    let execution = begin(&case);
    let session = execution.turn.session.clone();
    case.put("a", Some("two\n"));
    fail::cfg("engine::compare_command", "return").expect("set");

    let ended = case.engine.turns().commands().end(&ctx(), execution, &exited());

    assert!(ended.is_err(), "it is reported");
    assert_eq!(turn_state(&case, &session), TurnState::Completed);
    assert_eq!(change_sets(&case, &session)[0].closed, None);
    scenario.teardown();
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(case.read("a").as_deref(), Some("one\n"), "recovery found out what changed");
}

/// Random files, and a random amount of space at the end of the command.
#[test]
fn any_amount_of_space_leaves_every_change_recorded_or_named() {
    for seed in 0..test_rounds::choose_rounds(7, 6) {
        let Some((disk, case)) = fixture_on_small_disk() else { return };
        let mut rng = SeededRng::new(seed);
        let names: Vec<String> = (0..8).map(|n| format!("f{n}")).collect();
        names.iter().for_each(|name| case.put(name, Some(&format!("before {name}\n"))));
        let execution = begin(&case);
        let session = execution.turn.session.clone();
        for name in &names {
            let size = rng.choose(&[10, 5_000, 300_000]).copied().unwrap_or(10);
            case.put(name, Some(&noise(&mut rng, size)));
        }
        let left = rng.below(600 << 10);
        disk.fill_leaving(left).expect("filled");
        let ended = case.engine.turns().commands().end(&ctx(), execution, &exited());
        drop(ended);
        disk.free().expect("freed");

        let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");

        assert_eq!(done.pending, [], "seed {seed}, {left} bytes");
        assert!(!turn_state(&case, &session).is_open(), "seed {seed}, {left} bytes");
        let sets = change_sets(&case, &session);
        assert!(sets[0].closed.is_some(), "seed {seed}, {left} bytes");
        let changes = &sets[0].set.changes;
        assert_eq!(changes.len(), names.len(), "seed {seed}, {left} bytes: {changes:?}");
        case.undo(&session, &UndoTarget::Last);
        for change in changes {
            let (name, is_covered) = (change.path.to_string(), change.is_covered());
            let is_back = case.read(&name) == Some(format!("before {name}\n"));
            assert_eq!(is_back, is_covered, "seed {seed}, {left} bytes: {name}");
        }
    }
}
