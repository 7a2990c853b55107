//! Differences: only what the calls changed, and figures that are right.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::FileDiff;
use turnstone_engine::{Differences, Point, Which};

use crate::support::{Case, ctx};
use crate::talk::mid;

fn files(diff: &Differences) -> Vec<(&str, u64, u64, &str)> {
    let row = |it: &'_ FileDiff| {
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

fn turns(case: &Case, session: &SessionId) -> Vec<TurnId> {
    let turns = case.engine.store().read(&ctx(), |r| r.turns(session)).expect("reads");
    turns.into_iter().map(|turn| turn.id).collect()
}

#[test]
fn a_turn_shows_what_it_changed_and_nothing_of_a_person() {
    let case = Case::new();
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

    let diff = case.engine.diff_turn(&ctx(), &session, &turn.id).expect("differs");

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

#[test]
fn a_fast_tool_has_a_difference_and_the_session_counts_what_stands_8_3_w11() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one\n")));
    case.exchange(&session, "b", ("f", Some("one\ntwo\n")));
    let by_message = case.engine.diff_message(&ctx(), &session, &mid("a")).expect("differs");
    assert_eq!(files(&by_message), [("f", 1, 0, "added")]);
    let by_answer = case.engine.diff_message(&ctx(), &session, &mid("ba")).expect("differs");
    assert_eq!(files(&by_answer), [("f", 1, 0, "modified")]);
    let whole = || case.engine.diff_session(&ctx(), &session).expect("differs");
    assert_eq!(files(&whole()), [("f", 2, 0, "added")]);
    assert_eq!(whole().summary().additions, 2.into());

    case.undo(&session, &Which::Last);
    assert_eq!(files(&whole()), [("f", 1, 0, "added")], "what is taken back does not count");
    case.redo(&session);
    case.turn(&session, "f", None);
    assert_eq!(files(&whole()), [], "it came and went");
    case.engine.diff_message(&ctx(), &session, &mid("none")).expect_err("no such message");
}

#[test]
fn points_are_compared_both_ways_and_across_branches() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one\n")));
    case.exchange(&session, "b", ("f", Some("two\n")));
    case.undo(&session, &Which::Last);
    case.exchange(&session, "c", ("g", Some("three\n")));
    let turns = turns(&case, &session);
    let between = |from: &Point, to: &Point| {
        case.engine.diff_points(&ctx(), &session, from, to).expect("differs")
    };
    let (a, b, c) = (
        Point::After(turns[0].clone()),
        Point::After(turns[1].clone()),
        Point::After(turns[2].clone()),
    );
    assert_eq!(files(&between(&a, &b)), [("f", 1, 1, "modified")]);
    assert_eq!(files(&between(&b, &a)), [("f", 1, 1, "modified")]);
    assert_eq!(files(&between(&b, &c)), [("f", 1, 1, "modified"), ("g", 1, 0, "added")]);
    assert_eq!(files(&between(&c, &b)), [("f", 1, 1, "modified"), ("g", 0, 1, "deleted")]);
    assert_eq!(files(&between(&Point::Before(turns[0].clone()), &a)), [("f", 1, 0, "added")]);
    assert_eq!(files(&between(&c, &c)), []);
}

#[test]
fn what_another_named_or_a_child_did_is_not_in_the_window_around_it_r3() {
    let case = Case::new();
    let (a, b) = (case.session("ses_a", None), case.session("ses_b", None));
    let (one, two) = (case.begin(&a), case.begin(&b));
    let window = case.engine.open_window(&ctx(), &one, None).expect("opens");
    case.put("shell", Some("by shell\n"));
    case.edit(&two, "named", Some("by another\n"));
    case.engine.close_call(&ctx(), &one, &window).expect("closes");
    case.end(&one);
    case.end(&two);

    let diff = |session: &SessionId, turn: &TurnId| {
        case.engine.diff_turn(&ctx(), session, turn).expect("differs")
    };
    assert_eq!(files(&diff(&a, &one.id)), [("shell", 1, 0, "added")]);
    assert_eq!(files(&diff(&b, &two.id)), [("named", 1, 0, "added")]);
}

#[test]
fn a_revert_is_shown_as_clients_know_it_and_derived_r21() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "a", ("f", Some("one\n")));
    case.exchange(&session, "b", ("g", Some("two\n")));
    let view = || case.engine.revert_view(&ctx(), &session).expect("reads");
    assert!(view().is_none());

    for message in ["b", "a"] {
        case.engine.revert(&ctx(), &session, &mid(message), None).expect("reverts");
    }
    let shown = view().expect("reverted");
    assert_eq!((shown.message, shown.part), (mid("a"), None));
    assert_eq!(shown.snapshot.map(|tree| tree.len()), Some(40));
    let diff = shown.diff.expect("a difference");
    assert!(diff.contains("-one") && diff.contains("-two"), "{diff}");

    case.engine.revert(&ctx(), &session, &mid("b"), None).expect("reverts");
    let diff = view().expect("reverted").diff.expect("a difference");
    assert!(!diff.contains("one") && diff.contains("-two"), "{diff}");
    case.engine.unrevert(&ctx(), &session).expect("unreverts");
    assert!(view().is_none());
    // A turn that changed nothing has a head and no guard.
    let turn = case.ask(&session, "c");
    case.end(&turn);
    case.engine.revert(&ctx(), &session, &mid("c"), None).expect("reverts");
    let shown = view().expect("reverted");
    assert_eq!((shown.snapshot, shown.diff), (None, None));
}
