//! Change sets and operations: opened before, closed after, found again, rebuilt from the log.

mod support;

use serde_json::json;
use support::*;
use turnstone_core::change::{Evidence, FileChange, FileImage, FileMode, GitPoint, Root};
use turnstone_core::event::EventKind;
use turnstone_core::id::{ChangeId, OperationId, TurnId};
use turnstone_core::operation::{Extent, Head, HeadMove, OperationKind, Taken};
use turnstone_core::path::RelPath;
use turnstone_core::time::Cursor;
use turnstone_core::turn::{Outcome, TurnEvent};
use turnstone_store::{
    Changed, CloseChange, Context, DoneOperation, EndTurn, NewOperation, NewTurn, OpenChange,
    Store, StoreError, Takeover,
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

fn file(blob: &str) -> FileImage {
    FileImage::Present { blob: blob.to_owned(), mode: FileMode::File, perm: 0o644 }
}

fn point(head: &str) -> GitPoint {
    GitPoint { head: Some(head.to_owned()), ..GitPoint::default() }
}

fn open(name: &str, evidence: Evidence) -> OpenChange {
    OpenChange {
        id: change_id(name),
        turn: turn_id(),
        part: None,
        root: Root { store: "store-1".to_owned(), path: "/w".to_owned() },
        evidence,
        outer: None,
        named: Vec::new(),
        before: Some("before".to_owned()),
        git: Some(point("one")),
    }
}

fn close(name: &str, evidence: Evidence, changes: Vec<FileChange>) -> CloseChange {
    CloseChange {
        id: change_id(name),
        evidence,
        after: Some("after".to_owned()),
        changes,
        not_covered: 2,
        git: Some(point("two")),
    }
}

fn edit(text: &str) -> FileChange {
    FileChange { path: path(text), before: FileImage::Absent, after: file("b1") }
}

/// A store with a session whose turn runs.
fn in_turn(dir: &std::path::Path) -> (Store, Context) {
    let store = with_sessions(dir, &[SES, "ses_b"]);
    let lease = store.lease(&ctx(), &sid(SES), Takeover::IfDead).expect("lease");
    let owned = ctx().leased(&lease);
    let new = NewTurn {
        id: turn_id(),
        message: user(SES, "msg_u", 1),
        parts: vec![text(SES, "msg_u", "prt_u", "do it")],
    };
    let begin = store.write(&owned, move |tx| {
        tx.begin_turn(&new)?;
        tx.move_turn(&sid(SES), &turn_id(), &TurnEvent::Started)
    });
    begin.wait().expect("begins");
    (store, owned)
}

fn opens(store: &Store, ctx: &Context, open: &OpenChange) -> Result<Changed, StoreError> {
    let open = open.clone();
    store.write(ctx, move |tx| tx.open_change(&sid(SES), &open)).wait()
}

fn closes(store: &Store, ctx: &Context, close: &CloseChange) -> Result<Changed, StoreError> {
    let close = close.clone();
    store.write(ctx, move |tx| tx.close_change(&sid(SES), &close)).wait()
}

fn ends(store: &Store, ctx: &Context) {
    let end =
        EndTurn { session: sid(SES), turn: turn_id(), outcome: Outcome::Completed, error: None };
    store.write(ctx, move |tx| tx.end_turn(&end)).wait().expect("ends");
}

fn sound(store: &Store) {
    assert_eq!(store.verify_projections(&ctx()).expect("replays"), []);
}

#[test]
fn a_change_set_is_read_back_as_it_was_written_r1_r5() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let odd = RelPath::new(&b"a/\xff \"\n"[..]).expect("a path");
    let uncovered = FileImage::Uncovered { reason: "too_large".to_owned() };
    let changes = vec![
        FileChange { path: odd, before: file("b0"), after: FileImage::Absent },
        FileChange { path: path("big"), before: uncovered, after: file("b2") },
    ];

    let (open, close) = (open("1", Evidence::Named), close("1", Evidence::Named, changes.clone()));
    assert_eq!(opens(&store, &owned, &open).expect("opens"), Changed::Created);
    assert_eq!(opens(&store, &owned, &open).expect("repeats"), Changed::No);
    let pending = store.read(&ctx(), |r| r.open_changes(Some("store-1"))).expect("reads");
    assert_eq!(pending.len(), 1);
    assert_eq!(closes(&store, &owned, &close).expect("closes"), Changed::Updated);
    assert_eq!(closes(&store, &owned, &close).expect("repeats"), Changed::No);

    let rows = store.read(&ctx(), |r| r.turn_changes(&sid(SES), &turn_id())).expect("reads");
    let [row] = rows.as_slice() else { panic!("one change set: {rows:?}") };
    assert_eq!(row.set.changes, changes);
    assert!(row.set.changes[0].is_covered() && !row.set.changes[1].is_covered());
    assert!(row.set.git.as_ref().expect("both points").has_moved());
    assert_eq!((row.before.as_deref(), row.after.as_deref()), (Some("before"), Some("after")));
    assert_eq!(row.not_covered, 2);
    assert!(row.closed > Some(row.opened));
    sound(&store);
}

#[test]
fn a_change_set_closed_differently_is_refused_and_an_unknown_one_named() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    opens(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    closes(&store, &owned, &close("1", Evidence::Window, vec![edit("a")])).expect("closes");

    let other = closes(&store, &owned, &close("1", Evidence::Window, vec![edit("b")]));
    assert!(matches!(other, Err(StoreError::Conflict { .. })), "{other:?}");
    let unknown = closes(&store, &owned, &close("2", Evidence::Window, vec![]));
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
    let reused = opens(&store, &owned, &open("1", Evidence::Named));
    assert!(matches!(reused, Err(StoreError::Conflict { .. })), "{reused:?}");
}

#[test]
fn a_fenced_owner_writes_no_change_set_but_recovery_closes_its_window_r27_r32() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    opens(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    let fenced = Context {
        lease: owned
            .lease
            .clone()
            .map(|lease| turnstone_store::Lease { epoch: lease.epoch - 1, ..lease }),
        ..owned.clone()
    };

    let refused = closes(&store, &fenced, &close("1", Evidence::Window, vec![]));
    assert!(matches!(refused, Err(StoreError::Fenced(_))), "{refused:?}");
    let recovered = close("1", Evidence::Recovered, vec![edit("a")]);
    let by_anybody = store.write(&ctx(), move |tx| tx.recover_change(&sid(SES), &recovered));
    by_anybody.wait().expect("recovered");
    let rows = store.read(&ctx(), |r| r.changes(&sid(SES))).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Recovered);
    sound(&store);
}

#[test]
fn change_sets_that_were_open_at_the_same_time_are_found_r3() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    for name in ["1", "2"] {
        opens(&store, &owned, &open(name, Evidence::Window)).expect("opens");
    }
    for name in ["1", "2"] {
        closes(&store, &owned, &close(name, Evidence::Window, vec![edit(name)])).expect("closes");
    }
    opens(&store, &owned, &open("3", Evidence::Window)).expect("opens");

    let rows = store.read(&ctx(), |r| r.changes(&sid(SES))).expect("reads");
    let between = |from: Cursor, to: Cursor| -> Vec<String> {
        let found = store.read(&ctx(), |r| r.changes_between("store-1", from, to));
        found.expect("reads").iter().map(|row| row.set.id.to_string()).collect()
    };
    let (first, second) = (&rows[0], &rows[1]);
    assert_eq!(between(first.opened, first.closed.expect("closed")), ["chg_1", "chg_2"]);
    let end = Cursor(i64::MAX);
    assert_eq!(between(second.closed.expect("closed"), end), ["chg_3"], "still open");
    assert_eq!(
        store.read(&ctx(), |r| r.changes_between("other", Cursor(0), end)).expect("reads"),
        []
    );
}

#[test]
fn a_change_set_of_many_paths_is_one_small_transaction_r23() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let changes: Vec<FileChange> = (0..30_000).map(|n| edit(&format!("src/f{n:06}.rs"))).collect();
    opens(&store, &owned, &open("1", Evidence::Window)).expect("opens");
    closes(&store, &owned, &close("1", Evidence::Window, changes.clone())).expect("closes");

    let rows = store.read(&ctx(), |r| r.changes(&sid(SES))).expect("reads");
    assert_eq!(rows[0].set.changes, changes);
}

fn undo(name: &str) -> NewOperation {
    NewOperation {
        id: operation_id(name),
        kind: OperationKind::Undo,
        plan: json!({ "turns": ["trn_1"] }),
    }
}

fn plans(store: &Store, new: &NewOperation) -> Result<Changed, StoreError> {
    let new = new.clone();
    store.write(&ctx(), move |tx| tx.plan_operation(&sid(SES), &new)).wait()
}

fn done(store: &Store, name: &str, head: HeadMove, extent: Extent) -> Result<Changed, StoreError> {
    let done = DoneOperation {
        id: operation_id(name),
        head,
        taken: vec![Taken { change: change_id("1"), extent }],
        report: json!({ "restored": ["a"] }),
    };
    store.write(&ctx(), move |tx| tx.finish_operation(&sid(SES), &done)).wait()
}

#[test]
fn an_operation_waits_for_the_turn_and_for_the_operation_before_it_r45() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    let busy = plans(&store, &undo("1"));
    assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
    ends(&store, &owned);

    assert_eq!(plans(&store, &undo("1")).expect("plans"), Changed::Created);
    assert_eq!(plans(&store, &undo("1")).expect("repeats"), Changed::No);
    let second = plans(&store, &undo("2"));
    assert!(matches!(second, Err(StoreError::Busy(_))), "{second:?}");
    let next = NewTurn {
        id: "trn_2".parse().expect("an id"),
        message: user(SES, "msg_v", 2),
        parts: Vec::new(),
    };
    let turn = store.write(&owned, move |tx| tx.begin_turn(&next)).wait();
    assert!(matches!(turn, Err(StoreError::Busy(_))), "{turn:?}");
    done(&store, "1", HeadMove::Stay, Extent::Nothing).expect("done");
    plans(&store, &undo("2")).expect("plans");
}

#[test]
fn one_event_moves_the_head_and_says_what_is_taken_back_r19() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    opens(&store, &owned, &open("1", Evidence::Named)).expect("opens");
    closes(&store, &owned, &close("1", Evidence::Named, vec![edit("a")])).expect("closes");
    ends(&store, &owned);
    let state = |store: &Store| {
        let read =
            |r: &turnstone_store::Reader<'_>| Ok((r.head(&sid(SES))?, r.taken(&change_id("1"))?));
        store.read(&ctx(), read).expect("reads")
    };
    assert_eq!(state(&store), (None, Extent::Nothing));

    let head = Head { message: "msg_u".parse().expect("an id"), part: None };
    plans(&store, &undo("1")).expect("plans");
    done(&store, "1", HeadMove::To(head.clone()), Extent::All).expect("done");
    assert_eq!(state(&store), (Some(head.clone()), Extent::All));
    sound(&store);

    let long = path(&"x".repeat(3000));
    plans(&store, &undo("2")).expect("plans");
    let some = Extent::Paths(vec![path("a"), long]);
    done(&store, "2", HeadMove::Stay, some.clone()).expect("done");
    assert_eq!(state(&store), (Some(head), some));
    sound(&store);

    plans(&store, &undo("3")).expect("plans");
    done(&store, "3", HeadMove::Tip, Extent::Nothing).expect("done");
    assert_eq!(state(&store), (None, Extent::Nothing));
    sound(&store);
    let operations = store.read(&ctx(), |r| r.operations(&sid(SES))).expect("reads");
    assert_eq!(operations.len(), 3);
    assert_eq!(operations[0].plan, json!({ "turns": ["trn_1"] }));
    let end = operations[0].done.as_ref().expect("done");
    assert_eq!(end.report, json!({ "restored": ["a"] }));
}

#[test]
fn a_session_that_stands_elsewhere_is_written_anew_and_numbered_r25() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    ends(&store, &owned);
    let told = |store: &Store| {
        let all = store.read(&ctx(), |r| r.sync_after(&sid(SES), -1, 1000)).expect("reads");
        all.iter().filter(|event| event.kind == EventKind::SessionUpdated).count()
    };
    let before = told(&store);
    let head = Head { message: "msg_u".parse().expect("an id"), part: None };
    // The clock stands still: the session looks the same and is told all the same.
    for (name, to, count) in [
        ("1", HeadMove::Stay, 0),
        ("2", HeadMove::To(head.clone()), 1),
        ("3", HeadMove::To(head), 2),
        ("4", HeadMove::Tip, 3),
    ] {
        plans(&store, &undo(name)).expect("plans");
        done(&store, name, to.clone(), Extent::Nothing).expect("done");
        assert_eq!(told(&store), before + count, "{name}");
        assert_eq!(done(&store, name, to, Extent::Nothing).expect("again"), Changed::No);
        assert_eq!(told(&store), before + count, "{name} repeated");
    }
    sound(&store);
}

#[test]
fn the_end_of_an_operation_is_a_place_to_go_back_to_r25() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    ends(&store, &owned);
    plans(&store, &undo("1")).expect("plans");
    done(&store, "1", HeadMove::Stay, Extent::Nothing).expect("done");

    let seq = store.read(&ctx(), |r| r.session_seq(&sid(SES))).expect("reads");
    let at = store.read(&ctx(), |r| r.session_at(&sid(SES), seq)).expect("a boundary");
    assert_eq!(at.messages.len(), 1);
}

#[test]
fn a_deleted_session_takes_its_change_sets_and_operations_along() {
    let dir = tempfile::tempdir().expect("temp dir");
    let (store, owned) = in_turn(dir.path());
    opens(&store, &owned, &open("1", Evidence::Named)).expect("opens");
    closes(&store, &owned, &close("1", Evidence::Named, vec![edit("a")])).expect("closes");
    ends(&store, &owned);
    plans(&store, &undo("1")).expect("plans");
    done(&store, "1", HeadMove::Stay, Extent::All).expect("done");

    store.delete_session(&ctx(), &sid(SES)).expect("deletes");
    assert!(store.purge_some(&ctx(), 100).expect("purges"));
    assert_eq!(store.read(&ctx(), |r| r.taken(&change_id("1"))).expect("reads"), Extent::Nothing);
    let all = store.read(&ctx(), |r| r.changes_between("store-1", Cursor(0), Cursor(i64::MAX)));
    assert_eq!(all.expect("reads"), []);
    sound(&store);
}
