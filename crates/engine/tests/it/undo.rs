//! Undo takes back exactly its own: files of the turn, nothing of anybody else.

use crate::support::{Case, ctx};
use turnstone_core::change::Evidence;
use turnstone_core::operation::Head;
use turnstone_core::path::RelPath;
use turnstone_engine::{EngineError, Scope, UndoOptions, Which};
use turnstone_store::StoreError;

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn head(case: &Case, session: &turnstone_core::id::SessionId) -> Option<Head> {
    case.engine.store().read(&ctx(), |r| r.head(session)).expect("reads")
}

#[test]
fn undo_takes_back_the_turn_and_keeps_what_a_person_did() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("both", Some(TEN));
    case.put("mine", Some("mine"));
    let turn = case.begin(&session);
    case.edit(&turn, "both", Some(&TEN.replace("2\n", "two\n")));
    case.edit(&turn, "new/file", Some("new"));
    case.edit(&turn, "mine", None);
    case.end(&turn);
    // A person goes on in the same file and in another one.
    case.put("both", Some(&TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    case.put("theirs", Some("theirs"));

    let report = case.undo(&session, &Which::Last);

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("both").as_deref(), Some(&*TEN.replace("9\n", "nine\n")));
    assert_eq!(case.read("mine").as_deref(), Some("mine"));
    assert_eq!(case.read("theirs").as_deref(), Some("theirs"));
    assert!(!case.root().join("new").exists(), "a directory made by the turn goes with it");
    let root = &report.roots[0].report;
    assert_eq!(
        (root.merged.as_slice(), root.removed.as_slice()),
        (&[path("both")][..], &[path("new/file")][..])
    );
    let message = "msg_1".parse().expect("an id");
    assert_eq!(head(&case, &session), Some(Head { message, part: None }));

    let report = case.redo(&session);
    assert!(report.is_complete(), "{report:?}");
    let both = TEN.replace("2\n", "two\n").replace("9\n", "nine\n");
    assert_eq!(case.read("both").as_deref(), Some(&*both));
    assert_eq!((case.read("new/file").as_deref(), case.read("mine")), (Some("new"), None));
    assert_eq!(head(&case, &session), None);
}

#[test]
fn a_conflict_leaves_the_file_and_is_reported() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("5\n", "five\n")));
    case.put("f", Some(&TEN.replace("5\n", "cinq\n")));

    let report = case.undo(&session, &Which::Last);

    assert!(!report.is_complete());
    assert_eq!(report.roots[0].report.conflicts[0].path, path("f"));
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "cinq\n")));
    // It is not taken back, so it can be tried again once the person has made up their mind.
    case.put("f", Some(&TEN.replace("5\n", "five\n")));
    let again = case.undo(&session, &Which::Turn(report.turns[0].clone()));
    assert!(again.is_complete(), "{again:?}");
    assert_eq!(case.read("f").as_deref(), Some(TEN));
}

#[test]
fn a_turn_in_the_middle_is_taken_back_alone() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n")));
    let middle =
        case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("5\n", "five\n")));
    let last = TEN.replace("2\n", "two\n").replace("5\n", "five\n").replace("9\n", "nine\n");
    case.turn(&session, "f", Some(&last));

    let report = case.undo(&session, &Which::Turn(middle));

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    assert_eq!(head(&case, &session), None, "the conversation has one head; it stays");
}

#[test]
fn a_range_is_folded_and_keeps_what_a_person_did_in_between_r4() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    let first = case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n")));
    let by_person = TEN.replace("2\n", "two\n").replace("5\n", "FIVE\n");
    case.put("f", Some(&by_person));
    case.turn(&session, "f", Some(&by_person.replace("9\n", "nine\n")));

    let report = case.undo(&session, &Which::From(first));

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "FIVE\n")));
}

#[test]
fn undo_one_by_one_moves_the_head_back_and_redo_forth_r19() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    for content in ["one", "two", "three"] {
        case.turn(&session, "f", Some(content));
    }
    for content in [Some("two"), Some("one"), None] {
        assert!(case.undo(&session, &Which::Last).is_complete());
        assert_eq!(case.read("f").as_deref(), content);
    }
    let more = case.engine.plan_undo(&ctx(), &session, &Which::Last, &UndoOptions::default());
    assert!(matches!(more, Err(EngineError::NothingToUndo(_))), "{more:?}");
    for content in ["one", "two", "three"] {
        assert!(case.redo(&session).is_complete());
        assert_eq!(case.read("f").as_deref(), Some(content));
    }
    assert_eq!(head(&case, &session), None);
    let more = case.engine.plan_redo(&ctx(), &session, &Which::Last, &UndoOptions::default());
    assert!(matches!(more, Err(EngineError::NothingToRedo(_))), "{more:?}");
}

#[test]
fn windows_that_overlap_are_contended_unless_taken_back_together_r3() {
    let case = Case::new();
    let (a, b) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("shared", Some("old"));
    let (one, two) = (case.begin(&a), case.begin(&b));
    let first = case.engine.open_window(&ctx(), &one, None).expect("opens");
    let second = case.engine.open_window(&ctx(), &two, None).expect("opens");
    case.put("shared", Some("new"));
    case.put("named", Some("by two"));
    case.edit(&two, "named", Some("again by two"));
    case.engine.close_call(&ctx(), &one, &first).expect("closes");
    case.engine.close_call(&ctx(), &two, &second).expect("closes");
    case.end(&one);
    case.end(&two);

    let report = case.undo(&a, &Which::Last);

    let of = |name: &str| report.contended.iter().find(|it| it.path == path(name));
    let shared = of("shared").expect("both windows saw it change");
    assert_eq!(shared.claimants.len(), 2, "{shared:?}");
    let named = of("named").expect("the window saw it change, a tool of the other turn named it");
    assert_eq!(named.claimants.len(), 1, "{named:?}");
    assert_eq!(case.read("shared").as_deref(), Some("new"), "left as it is");
    assert_eq!(case.read("named").as_deref(), Some("again by two"), "a named write is its turn's");
}

#[test]
fn what_a_shell_changed_is_listed_as_such_and_can_be_left_out_r2() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let closed = case.shell(&turn, || {
        case.put("made", Some("by shell"));
        case.put("human", Some("saved inside the window"));
    });
    case.edit(&turn, "named", Some("by tool"));
    case.end(&turn);
    assert_eq!(closed.changes.len(), 2);

    let plan = case.plan(&session, &Which::Last);
    assert_eq!(plan.roots[0].windows, [path("human"), path("made")]);
    let options = UndoOptions { named_only: true, ..UndoOptions::default() };
    let plan = case.engine.plan_undo(&ctx(), &session, &Which::Last, &options).expect("a plan");
    let report = case.engine.apply(&ctx(), &plan).expect("applied");
    assert_eq!((case.read("named"), case.read("made").is_some()), (None, true));
    assert_eq!(plan.unnamed.len(), 2);
    // The rest can still be taken back.
    let rest = case.undo(&session, &Which::Turn(report.turns[0].clone()));
    assert!(rest.is_complete() && case.read("made").is_none(), "{rest:?}");
    assert!(rest.roots[0].report.guard.is_some(), "what a person saved there is in the guard");
}

#[test]
fn single_files_and_one_half_only_are_taken_back_on_demand() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.edit(&turn, "a", Some("a"));
    case.edit(&turn, "b", Some("b"));
    case.end(&turn);
    let undo = |options: &UndoOptions| {
        let plan = case.engine.plan_undo(&ctx(), &session, &Which::Last, options).expect("a plan");
        case.engine.apply(&ctx(), &plan).expect("applied")
    };
    undo(&UndoOptions { scope: Scope::Files, paths: vec![path("a")], ..UndoOptions::default() });
    assert_eq!((case.read("a"), case.read("b").as_deref()), (None, Some("b")));
    assert_eq!(head(&case, &session), None);
    undo(&UndoOptions { scope: Scope::Conversation, ..UndoOptions::default() });
    assert_eq!(case.read("b").as_deref(), Some("b"));
    assert!(head(&case, &session).is_some());
}

#[test]
fn a_child_session_is_taken_back_with_its_parent() {
    let case = Case::new();
    let parent = case.session("ses_a", None);
    let turn = case.begin(&parent);
    let child = case.session("ses_child", Some("ses_a"));
    case.turn(&child, "by-child", Some("child"));
    case.edit(&turn, "by-parent", Some("parent"));
    case.end(&turn);

    let report = case.undo(&parent, &Which::Last);

    assert!(report.is_complete());
    assert_eq!((case.read("by-child"), case.read("by-parent")), (None, None));
    case.redo(&parent);
    assert_eq!(case.read("by-child").as_deref(), Some("child"));
}

#[test]
fn undo_waits_for_the_turn_r45() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let turn = case.begin(&session);
    let plan = case.plan(&session, &Which::Turn(turn.id.clone()));
    let busy = case.engine.apply(&ctx(), &plan);
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
}

#[test]
fn a_turn_that_changed_nothing_is_no_operation_on_files() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.shell(&turn, || {});
    case.end(&turn);
    let report = case.undo(&session, &Which::Last);
    assert!(report.roots.is_empty() && report.is_complete());
    assert!(head(&case, &session).is_some());
}

#[test]
fn an_ignored_and_a_large_file_named_by_a_tool_are_covered_and_a_path_outside_is_not_r1_r16() {
    let case = Case::new();
    case.put(".gitignore", Some("secret\n"));
    fs_err::create_dir(case.root().join(".git")).expect("made");
    let session = case.session("ses_a", None);
    case.put("secret", Some("before"));
    let outside = case.dir.path().join("outside");
    fs_err::write(&outside, "theirs").expect("written");
    std::os::unix::fs::symlink(&outside, case.root().join("link")).expect("linked");

    let turn = case.begin(&session);
    case.edit(&turn, "secret", Some("after"));
    let paths = ["link".into(), "../outside".into()];
    let call = case.engine.open_named(&ctx(), &turn, None, &paths).expect("opens");
    assert!(call.outside.len() == 2 && !call.is_covered(), "{:?}", call.outside);
    fs_err::write(&outside, "changed").expect("written");
    let closed = case.engine.close_call(&ctx(), &turn, &call).expect("closes");
    assert_eq!(closed.not_covered, 2);
    case.end(&turn);

    case.undo(&session, &Which::Last);
    assert_eq!(case.read("secret").as_deref(), Some("before"));
    assert_eq!(fs_err::read_to_string(&outside).expect("there"), "changed");
}

#[test]
fn a_window_left_open_by_a_dead_process_is_closed_with_what_it_changed_r32() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    let turn = case.begin(&session);
    let call = case.engine.open_window(&ctx(), &turn, None).expect("opens");
    case.put("f", Some("after"));
    drop(call);
    let case = case.reopen();

    let done = case.engine.recover(&ctx()).expect("recovers");

    assert_eq!((done.interrupted.as_slice(), done.closed.len()), (&[][..], 1), "{done:?}");
    let rows = case.engine.store().read(&ctx(), |r| r.changes(&session)).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Recovered);
    assert_eq!(case.engine.recover(&ctx()).expect("again"), turnstone_engine::Recovered::default());
    let report = case.undo(&session, &Which::Last);
    assert!(report.is_complete());
    assert_eq!(case.read("f").as_deref(), Some("before"));
}

#[test]
fn an_undo_that_was_cut_off_is_finished_once() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let case = Case::new();
        let session = case.session("ses_a", None);
        case.put("f", Some("before"));
        case.turn(&session, "f", Some("after"));
        let plan = case.plan(&session, &Which::Last);
        fail::cfg(point, "return").expect("set");
        case.engine.apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);
        let case = case.reopen();

        let done = case.engine.recover(&ctx()).expect("recovers");

        assert_eq!(done.finished, std::slice::from_ref(&plan.operation), "{point}");
        assert_eq!(case.read("f").as_deref(), Some("before"), "{point}");
        assert!(head(&case, &session).is_some());
        case.redo(&session);
        assert_eq!(case.read("f").as_deref(), Some("after"), "{point}");
        scenario.teardown();
    }
}

#[test]
fn a_prompt_before_the_end_hides_what_is_behind_and_destroys_nothing_r19() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let lost = case.turn(&session, "f", Some("two"));
    case.undo(&session, &Which::Last);
    let messages = || {
        let outline = case.engine.store().read(&ctx(), |r| r.outline(&session)).expect("reads");
        outline.iter().map(|it| it.message.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(messages(), ["msg_1", "msg_2"], "what is taken back is still shown");

    case.turn(&session, "f", Some("three"));

    assert_eq!(messages(), ["msg_1", "msg_3"]);
    assert_eq!(head(&case, &session), None);
    let more = case.engine.plan_redo(&ctx(), &session, &Which::Last, &UndoOptions::default());
    assert!(matches!(more, Err(EngineError::NothingToRedo(_))), "{more:?}");
    let changes = case.engine.store().read(&ctx(), |r| r.turn_changes(&session, &lost));
    assert_eq!(changes.expect("reads").len(), 1, "its change set stays");
    for content in [Some("one"), None] {
        case.undo(&session, &Which::Last);
        assert_eq!(case.read("f").as_deref(), content);
    }
}

#[test]
fn a_branch_that_was_cut_off_is_finished() {
    let scenario = fail::FailScenario::setup();
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    case.turn(&session, "f", Some("two"));
    case.undo(&session, &Which::Last);
    fail::cfg("engine::branch_hides", "return").expect("set");
    let body = serde_json::json!({"role": "user", "time": {"created": 9}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let message = turnstone_core::model::Message {
        id: "msg_9".parse().expect("an id"),
        session: session.clone(),
        body: serde_json::from_value(body).expect("user"),
    };
    let prompt = turnstone_engine::Prompt { message, parts: Vec::new() };
    case.engine.begin_turn(&ctx(), prompt.clone()).expect_err("cut off");
    fail::remove("engine::branch_hides");
    let case = case.reopen();

    case.engine.begin_turn(&ctx(), prompt).expect("begins");

    let outline = case.engine.store().read(&ctx(), |r| r.outline(&session)).expect("reads");
    let names: Vec<String> = outline.iter().map(|it| it.message.to_string()).collect();
    assert_eq!(names, ["msg_1", "msg_9"]);
    scenario.teardown();
}

#[test]
fn what_an_undo_wrote_inside_somebody_elses_window_is_not_the_windows_r3() {
    let case = Case::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("f", Some("before"));
    case.turn(&one, "f", Some("after"));
    let turn = case.begin(&two);
    let mut undone = None;
    case.shell(&turn, || {
        case.put("own", Some("own"));
        undone = Some(case.undo(&one, &Which::Last).operation);
    });
    case.end(&turn);
    assert_eq!(case.read("f").as_deref(), Some("before"));

    let report = case.undo(&two, &Which::Last);

    assert_eq!((case.read("f").as_deref(), case.read("own")), (Some("before"), None));
    assert_eq!(report.contended[0].path, path("f"));
    assert_eq!(report.contended[0].operations, Vec::from_iter(undone));
}

#[test]
fn redo_leaves_alone_what_a_person_had_put_back_before_the_undo() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    case.put("g", Some("before"));
    let turn = case.begin(&session);
    case.edit(&turn, "f", Some("after"));
    case.edit(&turn, "g", Some("after"));
    case.end(&turn);
    case.put("f", Some("before"));

    case.undo(&session, &Which::Last);
    assert!(case.redo(&session).is_complete());

    assert_eq!(
        (case.read("f").as_deref(), case.read("g").as_deref()),
        (Some("before"), Some("after")),
        "the undo did not take it, so there is nothing to bring back"
    );
}

#[test]
fn a_file_made_and_removed_by_the_turn_is_the_persons_who_makes_it_later_r4() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.edit(&turn, "f", Some("for a moment"));
    case.edit(&turn, "f", None);
    case.end(&turn);
    case.put("f", Some("of a person"));

    let report = case.undo(&session, &Which::Last);

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f").as_deref(), Some("of a person"));
}

#[test]
fn a_repository_that_cannot_be_read_is_told_before_an_undo_and_not_taken_for_none_r5() {
    let case = Case::new();
    crate::repo::git(&case.root(), &["init", "-q"]);
    crate::repo::git(&case.root(), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    assert!(case.plan(&session, &Which::Last).git.is_empty(), "it stands where it stood");
    let head = case.root().join(".git/HEAD");
    fs_err::remove_file(&head).expect("removed");
    fs_err::create_dir(&head).expect("made");

    let plan = case.plan(&session, &Which::Last);

    assert_eq!(plan.git.len(), 1);
    assert!(plan.git[0].now.unknown && !plan.git[0].before.unknown, "{:?}", plan.git);
    assert!(case.undo(&session, &Which::Last).is_complete(), "files are taken back all the same");
    assert_eq!(case.read("f"), None);
    // And what was done while it could not be read is told, whatever can be read later.
    case.turn(&session, "g", Some("y"));
    fs_err::remove_dir(&head).expect("removed");
    fs_err::write(&head, "ref: refs/heads/main\n").expect("written");
    assert!(case.plan(&session, &Which::Last).git[0].before.unknown);
}
