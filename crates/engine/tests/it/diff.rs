//! Differences: only what the calls changed, and figures that are right.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::SessionFileDiff;
use turnstone_core::time::LogCursor;
use turnstone_engine::{DiffFormat, DiffTarget, SessionDiff, SessionPoint, UndoTarget};

use crate::conversation_fixture::mid;
use crate::engine_fixture::{EngineFixture, ctx};

fn files(diff: &SessionDiff) -> Vec<(&str, u64, u64, &str)> {
    let row = |it: &'_ SessionFileDiff| {
        let count = |number: &serde_json::Number| number.as_u64().expect("a count");
        (count(&it.additions), count(&it.deletions))
    };
    diff.files
        .iter()
        .map(|it| {
            let (additions, deletions) = row(it);
            let file = it.file.as_deref().expect("a name");
            (file, additions, deletions, it.status.as_deref().expect("a status"))
        })
        .collect()
}

fn diff(case: &EngineFixture, session: &SessionId, what: &DiffTarget) -> SessionDiff {
    case.engine.history().diffs().diff(&ctx(), session, what, DiffFormat::JsDiff).expect("differs")
}

fn turns(case: &EngineFixture, session: &SessionId) -> Vec<TurnId> {
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
    turns.into_iter().map(|turn| turn.id).collect()
}

#[test]
fn turn_diff_excludes_human_edits() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("1\n2\n3\n"));
    let turn = case.begin(&session);
    case.edit(&turn, "f", Some("1\ntwo\n3\n"));
    // A person writes between two calls of the turn.
    case.put("f", Some("zero\n1\ntwo\n3\n"));
    case.put("human", Some("mine\n"));
    case.edit(&turn, "f", Some("zero\n1\ntwo\n3\nfour\n"));
    case.edit(&turn, "new", Some("a\nb\n"));
    case.end(&turn);

    let diff = diff(&case, &session, &DiffTarget::Turn(turn.id.clone()));

    assert_eq!(files(&diff), [("f", 2, 1, "modified"), ("new", 2, 0, "added")]);
    let patch = diff.files[1].patch.as_deref().expect("a patch");
    let line = "=".repeat(67);
    let want = format!("Index: new\n{line}\n--- new\t\n+++ new\t\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    assert_eq!(patch, want, "as jsdiff prints it");
    let summary = diff.summary();
    assert_eq!(
        (summary.additions, summary.deletions, summary.files),
        (4.into(), 1.into(), 2.into())
    );
}

/// Proves W11.
#[test]
fn session_diff_excludes_undone_changes() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one\n")));
    case.run_turn(&session, "b", ("f", Some("one\ntwo\n")));
    let by_message = diff(&case, &session, &DiffTarget::Message(mid("a")));
    assert_eq!(files(&by_message), [("f", 1, 0, "added")]);
    let by_answer = diff(&case, &session, &DiffTarget::Message(mid("ba")));
    assert_eq!(files(&by_answer), [("f", 1, 0, "modified")]);
    let whole = || diff(&case, &session, &DiffTarget::Session);
    assert_eq!(files(&whole()), [("f", 2, 0, "added")]);
    assert_eq!(whole().summary().additions, 2.into());

    case.undo(&session, &UndoTarget::Last);
    assert_eq!(files(&whole()), [("f", 1, 0, "added")], "what is undone does not count");
    case.redo(&session);
    case.turn(&session, "f", None);
    assert_eq!(files(&whole()), [], "it came and went");
    let none = DiffTarget::Message(mid("none"));
    case.engine
        .history()
        .diffs()
        .diff(&ctx(), &session, &none, DiffFormat::JsDiff)
        .expect_err("no such message");
}

#[test]
fn points_diff_both_ways_and_across_branches() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one\n")));
    case.run_turn(&session, "b", ("f", Some("two\n")));
    case.undo(&session, &UndoTarget::Last);
    case.run_turn(&session, "c", ("g", Some("three\n")));
    let turns = turns(&case, &session);
    let between = |from: &SessionPoint, to: &SessionPoint| {
        diff(&case, &session, &DiffTarget::Points(Some(from.clone()), Some(to.clone())))
    };
    let (a, b, c) = (
        SessionPoint::After(turns[0].clone()),
        SessionPoint::After(turns[1].clone()),
        SessionPoint::After(turns[2].clone()),
    );
    assert_eq!(files(&between(&a, &b)), [("f", 1, 1, "modified")]);
    assert_eq!(files(&between(&b, &a)), [("f", 1, 1, "modified")]);
    assert_eq!(files(&between(&b, &c)), [("f", 1, 1, "modified"), ("g", 1, 0, "added")]);
    assert_eq!(files(&between(&c, &b)), [("f", 1, 1, "modified"), ("g", 0, 1, "deleted")]);
    assert_eq!(
        files(&between(&SessionPoint::Before(turns[0].clone()), &a)),
        [("f", 1, 0, "added")]
    );
    assert_eq!(files(&between(&c, &c)), []);
}

/// Proves R3.
#[test]
fn window_diff_excludes_named_and_child_changes() {
    let case = EngineFixture::new();
    let (a, b) = (case.session("ses_a", None), case.session("ses_b", None));
    let (one, two) = (case.begin(&a), case.begin(&b));
    let window = case.engine.tool_calls().open_window(&ctx(), &one, None).expect("opens");
    case.put("shell", Some("by shell\n"));
    case.edit(&two, "named", Some("by another\n"));
    case.engine.tool_calls().close(&ctx(), &one, &window).expect("closes");
    case.end(&one);
    case.end(&two);

    let diff =
        |session: &SessionId, turn: &TurnId| diff(&case, session, &DiffTarget::Turn(turn.clone()));
    assert_eq!(files(&diff(&a, &one.id)), [("shell", 1, 0, "added")]);
    assert_eq!(files(&diff(&b, &two.id)), [("named", 1, 0, "added")]);
}

/// Proves R21.
#[test]
fn revert_view_matches_opencode_shape() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "a", ("f", Some("one\n")));
    case.run_turn(&session, "b", ("g", Some("two\n")));
    let view = || case.engine.history().reverts().view(&ctx(), &session).expect("reads");
    assert!(view().is_none());

    for message in ["b", "a"] {
        case.engine
            .history()
            .reverts()
            .revert(&ctx(), &session, &mid(message), None)
            .expect("reverts");
    }
    let shown = view().expect("reverted");
    assert_eq!((shown.message, shown.part), (mid("a"), None));
    assert_eq!(shown.snapshot.map(|tree| tree.len()), Some(40));
    let diff = shown.diff.expect("a difference");
    assert!(diff.contains("-one") && diff.contains("-two"), "{diff}");

    case.engine.history().reverts().revert(&ctx(), &session, &mid("b"), None).expect("reverts");
    let diff = view().expect("reverted").diff.expect("a difference");
    assert!(!diff.contains("one") && diff.contains("-two"), "{diff}");
    case.engine.history().reverts().unrevert(&ctx(), &session).expect("unreverts");
    assert!(view().is_none());
    // A turn that changed nothing has a head and no guard.
    let turn = case.begin_prompted_turn(&session, "c");
    case.end(&turn);
    case.engine.history().reverts().revert(&ctx(), &session, &mid("c"), None).expect("reverts");
    let shown = view().expect("reverted");
    assert_eq!((shown.snapshot, shown.diff), (None, None));
}

/// The summary of the session's row.
fn summary(case: &EngineFixture, session: &SessionId) -> Option<(u64, u64, u64)> {
    let row = case.engine.store().read(&ctx(), |r| r.sessions().get(session)).expect("reads");
    let count = |number: serde_json::Number| number.as_u64().expect("a count");
    row.summary.map(|it| (count(it.additions), count(it.deletions), count(it.files)))
}

/// Proves W11.
#[test]
fn session_summary_is_written_with_turn_end() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin_prompted_turn(&session, "z");
    case.end(&turn);
    assert_eq!(summary(&case, &session), None, "it has changed nothing");
    case.put("f", Some("1\n2\n"));
    case.run_turn(&session, "a", ("f", Some("1\ntwo\n")));
    assert_eq!(summary(&case, &session), Some((1, 1, 1)));
    // A person's lines are nobody's turn.
    case.put("f", Some("zero\n1\ntwo\n"));
    case.run_turn(&session, "b", ("g", Some("g\n")));
    assert_eq!(summary(&case, &session), Some((2, 1, 2)));
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(summary(&case, &session), Some((1, 1, 1)), "with the undo");
    case.undo(&session, &UndoTarget::Last);
    assert_eq!(summary(&case, &session), Some((0, 0, 0)));
    case.redo(&session);
    assert_eq!(summary(&case, &session), Some((1, 1, 1)), "with the redo");

    // Nothing is said after the turn has ended (W11); each change is one event, and so is each place
    // the session goes to.
    let log =
        case.engine.store().read(&ctx(), |r| r.log().after(LogCursor(0), 1000)).expect("reads");
    let kinds: Vec<&str> = log.events.iter().map(|event| event.kind.name()).collect();
    let after: Vec<&&str> =
        kinds.iter().skip_while(|kind| **kind != "change.closed").take(9).collect();
    let at = |name: &str| after.iter().position(|kind| **kind == name);
    assert!(at("session.updated") < at("turn.ended"), "{after:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == "session.updated").count(), 8, "{kinds:?}");
}

#[test]
fn recovery_updates_session_summary() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let call =
        case.engine.tool_calls().open_named(&ctx(), &turn, None, &["f".into()]).expect("opens");
    case.put("f", Some("one\n"));
    drop((turn, call));
    let case = case.reopen();
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!(summary(&case, &session), Some((1, 0, 1)));
}

#[test]
fn git_format_patches_apply_with_git() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let lines = |changed: &str| format!("1\n2\n3\n4\n{changed}\n6\n7\n8\n9\n");
    case.put("f", Some(&lines("5")));
    case.run_turn(&session, "a", ("f", Some(&lines("five"))));
    let shown = case.engine.history().diffs().diff(
        &ctx(),
        &session,
        &DiffTarget::Session,
        DiffFormat::Git(1),
    );
    let patch = shown.expect("differs").files[0].patch.clone().expect("a patch");
    assert!(patch.starts_with("diff --git a/f b/f\n"), "{patch}");
    assert!(patch.ends_with("@@ -4,3 +4,3 @@\n 4\n-5\n+five\n 6\n"), "{patch}");
    // From the beginning to a point, and from a point to the present.
    let first = SessionPoint::After(turns(&case, &session)[0].clone());
    let until = diff(&case, &session, &DiffTarget::Points(None, Some(first.clone())));
    assert_eq!(files(&until), [("f", 1, 1, "modified")]);
    assert_eq!(files(&diff(&case, &session, &DiffTarget::Points(Some(first), None))), []);
}
