//! Change sets and operations: opened before, closed after, found again, rebuilt from the log.

mod support;

use serde_json::json;
use support::*;
use turnstone_core::change::{
    BoundedPaths, ChangeRoot, Evidence, FileChange, FileMode, GitPosition, Oid, PathImage,
    TraceReport, TreeLeaf, UncoveredReason,
};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ChangeId, OperationId, TurnId};
use turnstone_core::operation::{
    HeadTarget, OperationKind, SessionHead, UndoExtent, UndoneChangeSet,
};
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_core::turn::{TurnEvent, TurnOutcome};
use turnstone_store::{
    CloseChangeSet, Context, CopyChangeSet, EndTurn, FinishedOperation, LeaseTakeoverPolicy,
    NewChangeSet, NewOperation, NewTurn, Store, StoreError, WriteOutcome,
};

const SES: &str = "ses_a";

fn change_id(name: &str) -> ChangeId {
    format!("chg_{name}").parse().expect("an id")
}

fn operation_id(name: &str) -> OperationId {
    format!("opn_{name}").parse().expect("an id")
}

fn turn_id() -> TurnId {
    "trn_1".parse().expect("an id")
}

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn file(blob: &str) -> PathImage {
    let blob = Oid([blob.bytes().fold(0, u8::wrapping_add); 20]);
    PathImage::Present { leaf: TreeLeaf { blob, mode: FileMode::File }, perm: 0o644 }
}

fn point(head: &str) -> GitPosition {
    GitPosition { head: Some(head.to_owned()), ..GitPosition::default() }
}

fn open(name: &str, evidence: Evidence) -> NewChangeSet {
    NewChangeSet {
        id: change_id(name),
        turn: turn_id(),
        part: None,
        root: ChangeRoot { store: "store-1".to_owned(), path: "/w".to_owned() },
        evidence,
        outer: None,
        named: Vec::new(),
        outside: Vec::new(),
        before: Some("before".to_owned()),
        git: Some(point("one")),
        captured_from: None,
        continues: None,
    }
}

fn close(name: &str, evidence: Evidence, changes: Vec<FileChange>) -> CloseChangeSet {
    CloseChangeSet {
        id: change_id(name),
        evidence,
        after: Some("after".to_owned()),
        changes,
        not_covered: 2,
        git: Some(point("two")),
        trace: None,
    }
}

fn edit(text: &str) -> FileChange {
    FileChange { path: path(text), before: PathImage::Absent, after: file("b1") }
}

/// A store with a session whose turn runs.
fn in_turn(dir: &std::path::Path) -> (Store, Context) {
    let store = with_sessions(dir, &[SES, "ses_b"]);
    let lease =
        store.leases().acquire(&ctx(), &sid(SES), LeaseTakeoverPolicy::IfDead).expect("lease");
    let owned = ctx().with_lease(&lease);
    let new = NewTurn {
        id: turn_id(),
        message: user(SES, "msg_u", 1),
        parts: vec![text(SES, "msg_u", "prt_u", "do it")],
    };
    let begin = store.write(&owned, move |tx| {
        tx.turns().begin(&new)?;
        tx.turns().transition(&sid(SES), &turn_id(), &TurnEvent::Started)
    });
    begin.wait().expect("begins");
    (store, owned)
}

fn open_change_set(
    store: &Store,
    ctx: &Context,
    open: &NewChangeSet,
) -> Result<WriteOutcome, StoreError> {
    let open = open.clone();
    store.write(ctx, move |tx| tx.change_sets().open(&sid(SES), &open)).wait()
}

fn close_change_set(
    store: &Store,
    ctx: &Context,
    close: &CloseChangeSet,
) -> Result<WriteOutcome, StoreError> {
    let close = close.clone();
    store.write(ctx, move |tx| tx.change_sets().close(&sid(SES), &close)).wait()
}

fn end_turn(store: &Store, ctx: &Context) {
    let end = EndTurn {
        session: sid(SES),
        turn: turn_id(),
        outcome: TurnOutcome::Completed,
        error: None,
    };
    store.write(ctx, move |tx| tx.turns().end(&end)).wait().expect("ends");
}

fn assert_projections_match(store: &Store) {
    assert_eq!(store.maintenance().verify_projections().expect("replays"), []);
}

/// Proves R1, R5.
#[test]
fn change_set_round_trips() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let odd = RelPath::new(&b"a/\xff \"\n"[..]).expect("a path");
    let uncovered = PathImage::Uncovered { reason: UncoveredReason::TooLarge };
    let changes = vec![
        FileChange { path: odd, before: file("b0"), after: PathImage::Absent },
        FileChange { path: path("big"), before: uncovered, after: file("b2") },
    ];

    let (open, close) = (open("1", Evidence::Named), close("1", Evidence::Named, changes.clone()));
    assert_eq!(open_change_set(&store, &owned, &open).expect("opens"), WriteOutcome::Created);
    assert_eq!(open_change_set(&store, &owned, &open).expect("repeats"), WriteOutcome::No);
    let pending =
        store.read(&ctx(), |r| r.change_sets().list_open(Some("store-1"))).expect("reads");
    assert_eq!(pending.len(), 1);
    assert_eq!(close_change_set(&store, &owned, &close).expect("closes"), WriteOutcome::Updated);
    assert_eq!(close_change_set(&store, &owned, &close).expect("repeats"), WriteOutcome::No);

    let rows =
        store.read(&ctx(), |r| r.change_sets().of_turn(&sid(SES), &turn_id())).expect("reads");
    let [row] = rows.as_slice() else { panic!("one change set: {rows:?}") };
    assert_eq!(row.set.changes, changes);
    assert!(row.set.changes[0].is_covered() && !row.set.changes[1].is_covered());
    let git = row.set.git.as_ref().expect("both positions");
    assert_ne!(git.before, git.after);
    assert_eq!((row.before.as_deref(), row.after.as_deref()), (Some("before"), Some("after")));
    assert_eq!(row.not_covered, 2);
    assert!(row.closed > Some(row.opened));
    assert_projections_match(&store);
}

#[test]
fn closing_differently_or_unknown_change_set_is_rejected() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    open_change_set(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    close_change_set(&store, &owned, &close("1", Evidence::Window, vec![edit("a")]))
        .expect("closes");

    let other = close_change_set(&store, &owned, &close("1", Evidence::Window, vec![edit("b")]));
    assert!(matches!(other, Err(StoreError::Conflict { .. })), "{other:?}");
    let unknown = close_change_set(&store, &owned, &close("2", Evidence::Window, vec![]));
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
    let reused = open_change_set(&store, &owned, &open("1", Evidence::Named));
    assert!(matches!(reused, Err(StoreError::Conflict { .. })), "{reused:?}");
}

/// Proves R27, R32.
#[test]
fn fenced_owner_cannot_write_but_recovery_closes_its_change_set() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    open_change_set(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    let fenced = Context {
        lease: owned
            .lease
            .clone()
            .map(|lease| turnstone_store::Lease { epoch: lease.epoch - 1, ..lease }),
        ..owned.clone()
    };

    let refused = close_change_set(&store, &fenced, &close("1", Evidence::Window, vec![]));
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let recovered = close("1", Evidence::Recovered, vec![edit("a")]);
    let by_any_session =
        store.write(&ctx(), move |tx| tx.change_sets().recover(&sid(SES), &recovered));
    by_any_session.wait().expect("recovered");
    let rows = store.read(&ctx(), |r| r.change_sets().list(&sid(SES))).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Recovered);
    assert_projections_match(&store);
}

/// Proves R3.
#[test]
fn overlapping_change_sets_are_found() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    for name in ["1", "2"] {
        open_change_set(&store, &owned, &open(name, Evidence::Window)).expect("opens");
    }
    for name in ["1", "2"] {
        close_change_set(&store, &owned, &close(name, Evidence::Window, vec![edit(name)]))
            .expect("closes");
    }
    open_change_set(&store, &owned, &open("3", Evidence::Window)).expect("opens");

    let rows = store.read(&ctx(), |r| r.change_sets().list(&sid(SES))).expect("reads");
    let between = |from: LogCursor, to: LogCursor| -> Vec<String> {
        let found = store.read(&ctx(), |r| r.change_sets().between("store-1", from, to));
        found.expect("reads").iter().map(|row| row.set.id.to_string()).collect()
    };
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(between(first.opened, first.closed.expect("closed")), ["chg_1", "chg_2"]);
    let end = LogCursor(i64::MAX);
    assert_eq!(between(second.closed.expect("closed"), end), ["chg_3"], "still open");
    assert_eq!(
        store.read(&ctx(), |r| r.change_sets().between("other", LogCursor(0), end)).expect("reads"),
        []
    );
}

/// Proves R23.
#[test]
fn large_change_set_fits_one_transaction() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let changes: Vec<FileChange> = (0..30_000).map(|n| edit(&format!("src/f{n:06}.rs"))).collect();
    open_change_set(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    close_change_set(&store, &owned, &close("1", Evidence::Window, changes.clone()))
        .expect("closes");

    let rows = store.read(&ctx(), |r| r.change_sets().list(&sid(SES))).expect("reads");
    assert_eq!(rows[0].set.changes, changes);
}

fn undo(name: &str) -> NewOperation {
    NewOperation {
        id: operation_id(name),
        kind: OperationKind::Undo,
        plan: json!({ "turns": ["trn_1"] }),
    }
}

fn plan_operation(store: &Store, new: &NewOperation) -> Result<WriteOutcome, StoreError> {
    let new = new.clone();
    store.write(&ctx(), move |tx| tx.operations().plan(&sid(SES), &new)).wait()
}

fn finish_operation(
    store: &Store,
    name: &str,
    head: HeadTarget,
    extent: UndoExtent,
) -> Result<WriteOutcome, StoreError> {
    let done = FinishedOperation {
        id: operation_id(name),
        head,
        taken: vec![UndoneChangeSet { change: change_id("1"), extent }],
        report: json!({ "restored": ["a"] }),
    };
    store.write(&ctx(), move |tx| tx.operations().finish(&sid(SES), &done)).wait()
}

/// Proves R45.
#[test]
fn operation_is_busy_during_a_turn_or_another_operation() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let busy = plan_operation(&store, &undo("1"));
    assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
    end_turn(&store, &owned);

    assert_eq!(plan_operation(&store, &undo("1")).expect("plans"), WriteOutcome::Created);
    assert_eq!(plan_operation(&store, &undo("1")).expect("repeats"), WriteOutcome::No);
    let second = plan_operation(&store, &undo("2"));
    assert!(matches!(second, Err(StoreError::Busy(_))), "{second:?}");
    let next = NewTurn {
        id: "trn_2".parse().expect("an id"),
        message: user(SES, "msg_v", 2),
        parts: Vec::new(),
    };
    let turn = store.write(&owned, move |tx| tx.turns().begin(&next)).wait();
    assert!(matches!(turn, Err(StoreError::Busy(_))), "{turn:?}");
    finish_operation(&store, "1", HeadTarget::Stay, UndoExtent::Nothing).expect("done");
    plan_operation(&store, &undo("2")).expect("plans");
}

/// Proves R45: an operation that moves no head may run next to a turn, one at a time.
#[test]
fn operation_during_a_turn_waits_only_for_other_operations() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let plan = |name: &str| {
        let new = undo(name);
        store.write(&ctx(), move |tx| tx.operations().plan_during_turn(&sid(SES), &new)).wait()
    };
    assert_eq!(plan("1").expect("plans"), WriteOutcome::Created);
    let second = plan("2");
    assert!(matches!(second, Err(StoreError::Busy(_))), "{second:?}");
    finish_operation(&store, "1", HeadTarget::Stay, UndoExtent::Nothing).expect("done");
    plan("2").expect("plans");
    end_turn(&store, &owned);
    finish_operation(&store, "2", HeadTarget::Stay, UndoExtent::Nothing).expect("done");
    assert_projections_match(&store);
}

/// Proves R19.
#[test]
fn finishing_an_operation_moves_head_and_records_undone_extent() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    open_change_set(&store, &owned, &open("1", Evidence::Named)).expect("opens");
    close_change_set(&store, &owned, &close("1", Evidence::Named, vec![edit("a")]))
        .expect("closes");
    end_turn(&store, &owned);
    let state = |store: &Store| {
        let read = |r: &turnstone_store::ReadTx<'_>| {
            Ok((r.sessions().head(&sid(SES))?, r.change_sets().undone_extent(&change_id("1"))?))
        };
        store.read(&ctx(), read).expect("reads")
    };
    assert_eq!(state(&store), (None, UndoExtent::Nothing));

    let head = SessionHead { message: "msg_u".parse().expect("an id"), part: None };
    plan_operation(&store, &undo("1")).expect("plans");
    finish_operation(&store, "1", HeadTarget::To(head.clone()), UndoExtent::All).expect("done");
    assert_eq!(state(&store), (Some(head.clone()), UndoExtent::All));
    assert_projections_match(&store);

    let long = path(&"x".repeat(3000));
    plan_operation(&store, &undo("2")).expect("plans");
    let some = UndoExtent::Paths(vec![path("a"), long]);
    finish_operation(&store, "2", HeadTarget::Stay, some.clone()).expect("done");
    assert_eq!(state(&store), (Some(head), some));
    assert_projections_match(&store);

    plan_operation(&store, &undo("3")).expect("plans");
    finish_operation(&store, "3", HeadTarget::Tip, UndoExtent::Nothing).expect("done");
    assert_eq!(state(&store), (None, UndoExtent::Nothing));
    assert_projections_match(&store);
    let operations = store.read(&ctx(), |r| r.operations().list(&sid(SES))).expect("reads");
    assert_eq!(operations.len(), 3);
    assert_eq!(operations[0].plan, json!({ "turns": ["trn_1"] }));
    let end = operations[0].done.as_ref().expect("done");
    assert_eq!(end.report, json!({ "restored": ["a"] }));
}

/// Proves R25.
#[test]
fn moving_the_head_appends_a_numbered_session_event() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    end_turn(&store, &owned);
    let count_reports = |store: &Store| {
        let all = store.read(&ctx(), |r| r.sync().after(&sid(SES), -1, 1000)).expect("reads");
        all.iter().filter(|event| event.kind == EventKind::SessionUpdated).count()
    };
    let before = count_reports(&store);
    let head = SessionHead { message: "msg_u".parse().expect("an id"), part: None };
    // The clock stands still: the session looks the same and is still reported.
    for (name, to, count) in [
        ("1", HeadTarget::Stay, 0),
        ("2", HeadTarget::To(head.clone()), 1),
        ("3", HeadTarget::To(head), 2),
        ("4", HeadTarget::Tip, 3),
    ] {
        plan_operation(&store, &undo(name)).expect("plans");
        finish_operation(&store, name, to.clone(), UndoExtent::Nothing).expect("done");
        assert_eq!(count_reports(&store), before + count, "{name}");
        assert_eq!(
            finish_operation(&store, name, to, UndoExtent::Nothing).expect("again"),
            WriteOutcome::No
        );
        assert_eq!(count_reports(&store), before + count, "{name} repeated");
    }
    assert_projections_match(&store);
}

/// Proves R25.
#[test]
fn operation_end_is_a_boundary() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    end_turn(&store, &owned);
    plan_operation(&store, &undo("1")).expect("plans");
    finish_operation(&store, "1", HeadTarget::Stay, UndoExtent::Nothing).expect("done");

    let seq = store.read(&ctx(), |r| r.sessions().seq(&sid(SES))).expect("reads");
    let at = store
        .read(&ctx(), |r| r.history().session_at_boundary(&sid(SES), seq))
        .expect("a boundary");
    assert_eq!(at.messages.len(), 1);
}

#[test]
fn deleting_a_session_removes_change_sets_and_operations() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    open_change_set(&store, &owned, &open("1", Evidence::Named)).expect("opens");
    close_change_set(&store, &owned, &close("1", Evidence::Named, vec![edit("a")]))
        .expect("closes");
    end_turn(&store, &owned);
    plan_operation(&store, &undo("1")).expect("plans");
    finish_operation(&store, "1", HeadTarget::Stay, UndoExtent::All).expect("done");

    store.delete_session(&ctx(), &sid(SES)).expect("deletes");
    assert!(store.maintenance().purge_deleted(&ctx(), 100).expect("purges"));
    assert_eq!(
        store.read(&ctx(), |r| r.change_sets().undone_extent(&change_id("1"))).expect("reads"),
        UndoExtent::Nothing
    );
    let all = store
        .read(&ctx(), |r| r.change_sets().between("store-1", LogCursor(0), LogCursor(i64::MAX)));
    assert_eq!(all.expect("reads"), []);
    assert_projections_match(&store);
}

/// Earlier versions read a traced change set as a window.
#[test]
fn traced_change_set_is_stored_as_a_window_that_was_traced() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let opened = NewChangeSet { captured_from: Some(5), ..open("1", Evidence::Window) };
    open_change_set(&store, &owned, &opened).expect("opens");
    let others = BoundedPaths::new(vec![path("theirs")]);
    let report = TraceReport { others, shared: vec![path("a")], ..TraceReport::default() };
    let traced = close("1", Evidence::Traced, vec![edit("a")]);
    let traced = CloseChangeSet { trace: Some(report.clone()), ..traced };
    close_change_set(&store, &owned, &traced).expect("closes");

    let rows = store.read(&ctx(), |r| r.change_sets().list(&sid(SES))).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Traced);
    assert_eq!(rows[0].set.trace, Some(report));
    assert_eq!(rows[0].captured_from, Some(5));
    let log = store.read(&ctx(), |r| r.log().stream_after(&sid(SES), SessionSeq(0), 100));
    let events = log.expect("reads").events;
    let event = events.iter().find(|event| event.kind == EventKind::ChangeClosed).expect("closed");
    let payload = event.payload.as_ref().expect("a payload");
    assert_eq!((&payload["evidence"], &payload["traced"]), (&json!("window"), &json!(true)));
    assert_projections_match(&store);
}

#[test]
fn copies_are_traced_too_and_reasons_for_no_trace_are_kept() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let copied = (LogCursor(1), LogCursor(2));
    let copy = CopyChangeSet { open: open("1", Evidence::Traced), copied };
    let end = close("1", Evidence::Traced, vec![edit("a")]);
    let copied = store.write(&owned, move |tx| tx.change_sets().copy(&sid(SES), &copy, &end));
    copied.wait().expect("copies");
    open_change_set(&store, &owned, &open("2", Evidence::Window)).expect("opens");
    let untraced = Some("another program traces it".to_owned());
    let report = TraceReport { untraced, ..TraceReport::default() };
    let end = close("2", Evidence::Window, vec![edit("b")]);
    let end = CloseChangeSet { trace: Some(report.clone()), ..end };
    close_change_set(&store, &owned, &end).expect("closes");

    let rows = store.read(&ctx(), |r| r.change_sets().list(&sid(SES))).expect("reads");
    assert_eq!((rows[0].set.evidence, &rows[0].set.trace), (Evidence::Traced, &None));
    assert_eq!((rows[1].set.evidence, &rows[1].set.trace), (Evidence::Window, &Some(report)));
}
