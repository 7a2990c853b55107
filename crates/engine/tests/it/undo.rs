//! Undo changes exactly the files of its turn and keeps changes of others.

use crate::engine_fixture::{EngineFixture, ctx};
use turnstone_core::change::Evidence;
use turnstone_core::operation::SessionHead;
use turnstone_core::rel_path::RelPath;
use turnstone_engine::{EngineError, UndoAspect, UndoOptions, UndoTarget};
use turnstone_store::StoreError;

const TEN: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";

fn path(text: &str) -> RelPath {
    text.parse().expect("a path")
}

fn head(case: &EngineFixture, session: &turnstone_core::id::SessionId) -> Option<SessionHead> {
    case.engine.store().read(&ctx(), |r| r.sessions().head(session)).expect("reads")
}

#[test]
fn undo_keeps_human_edits() {
    let case = EngineFixture::new();
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

    let report = case.undo(&session, &UndoTarget::Last);

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
    assert_eq!(head(&case, &session), Some(SessionHead { message, part: None }));

    let report = case.redo(&session);
    assert!(report.is_complete(), "{report:?}");
    let both = TEN.replace("2\n", "two\n").replace("9\n", "nine\n");
    assert_eq!(case.read("both").as_deref(), Some(&*both));
    assert_eq!((case.read("new/file").as_deref(), case.read("mine")), (Some("new"), None));
    assert_eq!(head(&case, &session), None);
}

#[test]
fn conflicting_file_is_kept_and_reported() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("5\n", "five\n")));
    case.put("f", Some(&TEN.replace("5\n", "cinq\n")));

    let report = case.undo(&session, &UndoTarget::Last);

    assert!(!report.is_complete());
    assert_eq!(report.roots[0].report.conflicts[0].path, path("f"));
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "cinq\n")));
    // It is not undone, so it can be tried again once the person has made up their mind.
    case.put("f", Some(&TEN.replace("5\n", "five\n")));
    let again = case.undo(&session, &UndoTarget::Turn(report.turns[0].clone()));
    assert!(again.is_complete(), "{again:?}");
    assert_eq!(case.read("f").as_deref(), Some(TEN));
}

#[test]
fn middle_turn_can_be_undone_alone() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n")));
    let middle =
        case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n").replace("5\n", "five\n")));
    let last = TEN.replace("2\n", "two\n").replace("5\n", "five\n").replace("9\n", "nine\n");
    case.turn(&session, "f", Some(&last));

    let report = case.undo(&session, &UndoTarget::Turn(middle));

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("2\n", "two\n").replace("9\n", "nine\n")));
    assert_eq!(head(&case, &session), None, "the conversation has one head; it stays");
}

/// Proves R4.
#[test]
fn range_undo_keeps_human_edits_in_between() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some(TEN));
    let first = case.turn(&session, "f", Some(&TEN.replace("2\n", "two\n")));
    let by_person = TEN.replace("2\n", "two\n").replace("5\n", "FIVE\n");
    case.put("f", Some(&by_person));
    case.turn(&session, "f", Some(&by_person.replace("9\n", "nine\n")));

    let report = case.undo(&session, &UndoTarget::From(first));

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f"), Some(TEN.replace("5\n", "FIVE\n")));
}

/// Proves R19.
#[test]
fn repeated_undo_and_redo_move_the_head() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    for content in ["one", "two", "three"] {
        case.turn(&session, "f", Some(content));
    }
    for content in [Some("two"), Some("one"), None] {
        assert!(case.undo(&session, &UndoTarget::Last).is_complete());
        assert_eq!(case.read("f").as_deref(), content);
    }
    let more = case.engine.history().plan_undo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    assert!(matches!(more, Err(EngineError::NothingToUndo(_))), "{more:?}");
    for content in ["one", "two", "three"] {
        assert!(case.redo(&session).is_complete());
        assert_eq!(case.read("f").as_deref(), Some(content));
    }
    assert_eq!(head(&case, &session), None);
    let more = case.engine.history().plan_redo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    assert!(matches!(more, Err(EngineError::NothingToRedo(_))), "{more:?}");
}

/// Proves R3.
#[test]
fn overlapping_windows_contend_unless_undone_together() {
    let case = EngineFixture::new();
    let (a, b) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("shared", Some("old"));
    let (one, two) = (case.begin(&a), case.begin(&b));
    let first = case.engine.tool_calls().open_window(&ctx(), &one, None).expect("opens");
    let second = case.engine.tool_calls().open_window(&ctx(), &two, None).expect("opens");
    case.put("shared", Some("new"));
    case.put("named", Some("by two"));
    case.edit(&two, "named", Some("again by two"));
    case.engine.tool_calls().close(&ctx(), &one, &first).expect("closes");
    case.engine.tool_calls().close(&ctx(), &two, &second).expect("closes");
    case.end(&one);
    case.end(&two);

    let report = case.undo(&a, &UndoTarget::Last);

    let of = |name: &str| report.contended.iter().find(|it| it.path == path(name));
    let shared = of("shared").expect("both windows saw it change");
    assert_eq!(shared.claimants.len(), 2, "{shared:?}");
    let named = of("named").expect("the window saw it change, a tool of the other turn named it");
    assert_eq!(named.claimants.len(), 1, "{named:?}");
    assert_eq!(case.read("shared").as_deref(), Some("new"), "left as it is");
    assert_eq!(case.read("named").as_deref(), Some("again by two"), "a named write is its turn's");
}

/// Proves R2.
#[test]
fn window_changes_are_listed_and_can_be_excluded() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let closed = case.shell(&turn, || {
        case.put("made", Some("by shell"));
        case.put("human", Some("saved inside the window"));
    });
    case.edit(&turn, "named", Some("by tool"));
    case.end(&turn);
    assert_eq!(closed.changes.len(), 2);

    let plan = case.plan(&session, &UndoTarget::Last);
    assert_eq!(plan.roots[0].windows, [path("human"), path("made")]);
    let options = UndoOptions { named_only: true, ..UndoOptions::default() };
    let plan = case
        .engine
        .history()
        .plan_undo(&ctx(), &session, &UndoTarget::Last, &options)
        .expect("a plan");
    let report = case.engine.history().apply(&ctx(), &plan).expect("applied");
    assert_eq!((case.read("named"), case.read("made").is_some()), (None, true));
    assert_eq!(plan.unnamed.len(), 2);
    // The rest can still be undone.
    let rest = case.undo(&session, &UndoTarget::Turn(report.turns[0].clone()));
    assert!(rest.is_complete() && case.read("made").is_none(), "{rest:?}");
    assert!(rest.roots[0].report.guard.is_some(), "what a person saved there is in the guard");
}

#[test]
fn undo_can_select_paths_and_scope() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.edit(&turn, "a", Some("a"));
    case.edit(&turn, "b", Some("b"));
    case.end(&turn);
    let undo = |options: &UndoOptions| {
        let plan = case
            .engine
            .history()
            .plan_undo(&ctx(), &session, &UndoTarget::Last, options)
            .expect("a plan");
        case.engine.history().apply(&ctx(), &plan).expect("applied")
    };
    undo(&UndoOptions {
        scope: UndoAspect::Files,
        paths: vec![path("a")],
        ..UndoOptions::default()
    });
    assert_eq!((case.read("a"), case.read("b").as_deref()), (None, Some("b")));
    assert_eq!(head(&case, &session), None);
    undo(&UndoOptions { scope: UndoAspect::Conversation, ..UndoOptions::default() });
    assert_eq!(case.read("b").as_deref(), Some("b"));
    assert!(head(&case, &session).is_some());
}

#[test]
fn child_session_is_undone_with_parent_turn() {
    let case = EngineFixture::new();
    let parent = case.session("ses_a", None);
    let turn = case.begin(&parent);
    let child = case.session("ses_child", Some("ses_a"));
    case.turn(&child, "by-child", Some("child"));
    case.edit(&turn, "by-parent", Some("parent"));
    case.end(&turn);

    let report = case.undo(&parent, &UndoTarget::Last);

    assert!(report.is_complete());
    assert_eq!((case.read("by-child"), case.read("by-parent")), (None, None));
    case.redo(&parent);
    assert_eq!(case.read("by-child").as_deref(), Some("child"));
}

/// Proves R45.
#[test]
fn undo_during_turn_is_rejected() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let turn = case.begin(&session);
    let plan = case.plan(&session, &UndoTarget::Turn(turn.id.clone()));
    let busy = case.engine.history().apply(&ctx(), &plan);
    assert!(matches!(busy, Err(EngineError::Store(StoreError::Busy(_)))), "{busy:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
}

#[test]
fn undo_of_turn_without_changes_moves_no_files() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.shell(&turn, || {});
    case.end(&turn);
    let report = case.undo(&session, &UndoTarget::Last);
    assert!(report.roots.is_empty() && report.is_complete());
    assert!(head(&case, &session).is_some());
}

/// Proves R1, R16.
#[test]
fn named_ignored_and_large_files_are_covered() {
    let case = EngineFixture::new();
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
    let call = case.engine.tool_calls().open_named(&ctx(), &turn, None, &paths).expect("opens");
    assert!(call.outside.len() == 2 && !call.is_covered(), "{:?}", call.outside);
    fs_err::write(&outside, "changed").expect("written");
    let closed = case.engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
    assert_eq!(closed.not_covered, 2);
    case.end(&turn);

    let report = case.undo(&session, &UndoTarget::Last);
    assert_eq!(
        (report.outside.as_slice(), report.is_complete()),
        (&["link", "../outside"].map(str::to_owned)[..], false)
    );
    assert_eq!(case.read("secret").as_deref(), Some("before"));
    assert_eq!(fs_err::read_to_string(&outside).expect("there"), "changed");
}

/// Proves R32.
#[test]
fn recovery_closes_window_of_dead_process() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    let turn = case.begin(&session);
    let call = case.engine.tool_calls().open_window(&ctx(), &turn, None).expect("opens");
    case.put("f", Some("after"));
    drop(call);
    let case = case.reopen();

    let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");

    assert_eq!((done.interrupted.as_slice(), done.closed.len()), (&[][..], 1), "{done:?}");
    let rows = case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    assert_eq!(rows[0].set.evidence, Evidence::Recovered);
    assert_eq!(
        case.engine.maintenance().recover_all(&ctx()).expect("again"),
        turnstone_engine::RecoveryReport::default()
    );
    let report = case.undo(&session, &UndoTarget::Last);
    assert!(report.is_complete());
    assert_eq!(case.read("f").as_deref(), Some("before"));
}

#[test]
fn interrupted_undo_finishes_once() {
    for point in ["engine::operation_planned", "engine::root_applied"] {
        let scenario = fail::FailScenario::setup();
        let case = EngineFixture::new();
        let session = case.session("ses_a", None);
        case.put("f", Some("before"));
        case.turn(&session, "f", Some("after"));
        let plan = case.plan(&session, &UndoTarget::Last);
        fail::cfg(point, "return").expect("set");
        case.engine.history().apply(&ctx(), &plan).expect_err("cut off");
        fail::remove(point);
        let case = case.reopen();

        let done = case.engine.maintenance().recover_all(&ctx()).expect("recovers");

        assert_eq!(done.finished, std::slice::from_ref(&plan.operation), "{point}");
        assert_eq!(case.read("f").as_deref(), Some("before"), "{point}");
        assert!(head(&case, &session).is_some());
        case.redo(&session);
        assert_eq!(case.read("f").as_deref(), Some("after"), "{point}");
        scenario.teardown();
    }
}

/// An error after files have changed must not read as if none had.
#[test]
fn undo_that_cannot_be_recorded_says_what_it_changed() {
    let scenario = fail::FailScenario::setup();
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    case.turn(&session, "f", Some("after"));
    let plan = case.plan(&session, &UndoTarget::Last);
    fail::cfg("engine::root_applied", "return").expect("set");

    let error = case.engine.history().apply(&ctx(), &plan).expect_err("cut off");

    fail::remove("engine::root_applied");
    let EngineError::Unrecorded { report, .. } = error else { panic!("{error:?}") };
    assert_eq!(report.roots[0].report.restored.len(), 1, "{report:?}");
    assert_eq!(case.read("f").as_deref(), Some("before"));
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    let found = case.engine.history().find_finished(&ctx(), &session, &plan.operation);
    let (stored, done) = found.expect("reads").expect("it is over");
    assert_eq!((stored.turns, done.roots), (plan.turns, report.roots));
    scenario.teardown();
}

/// Proves R19.
#[test]
fn prompt_at_earlier_head_hides_later_messages() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    let lost = case.turn(&session, "f", Some("two"));
    case.undo(&session, &UndoTarget::Last);
    let messages = || {
        let outline =
            case.engine.store().read(&ctx(), |r| r.messages().outline(&session)).expect("reads");
        outline.iter().map(|it| it.message.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(messages(), ["msg_1", "msg_2"], "what is undone is still shown");

    case.turn(&session, "f", Some("three"));

    assert_eq!(messages(), ["msg_1", "msg_3"]);
    assert_eq!(head(&case, &session), None);
    let more = case.engine.history().plan_redo(
        &ctx(),
        &session,
        &UndoTarget::Last,
        &UndoOptions::default(),
    );
    assert!(matches!(more, Err(EngineError::UndoSuperseded { .. })), "{more:?}");
    let changes = case.engine.store().read(&ctx(), |r| r.change_sets().of_turn(&session, &lost));
    assert_eq!(changes.expect("reads").len(), 1, "its change set stays");
    for content in [Some("one"), None] {
        case.undo(&session, &UndoTarget::Last);
        assert_eq!(case.read("f").as_deref(), content);
    }
}

#[test]
fn interrupted_branch_is_finished() {
    let scenario = fail::FailScenario::setup();
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("one"));
    case.turn(&session, "f", Some("two"));
    case.undo(&session, &UndoTarget::Last);
    fail::cfg("engine::branch_hides", "return").expect("set");
    let body = serde_json::json!({"role": "user", "time": {"created": 9}, "agent": "build",
        "model": {"providerID": "p", "modelID": "m"}});
    let message = turnstone_core::model::Message {
        id: "msg_9".parse().expect("an id"),
        session: session.clone(),
        body: serde_json::from_value(body).expect("user"),
    };
    let prompt = turnstone_engine::Prompt { message, parts: Vec::new() };
    case.engine.turns().begin(&ctx(), prompt.clone()).expect_err("cut off");
    fail::remove("engine::branch_hides");
    let case = case.reopen();

    case.engine.turns().begin(&ctx(), prompt).expect("begins");

    let outline =
        case.engine.store().read(&ctx(), |r| r.messages().outline(&session)).expect("reads");
    let names: Vec<String> = outline.iter().map(|it| it.message.to_string()).collect();
    assert_eq!(names, ["msg_1", "msg_9"]);
    scenario.teardown();
}

/// Proves R3.
#[test]
fn undo_inside_foreign_window_is_not_the_windows_change() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    case.put("f", Some("before"));
    case.turn(&one, "f", Some("after"));
    let turn = case.begin(&two);
    let mut undone = None;
    case.shell(&turn, || {
        case.put("own", Some("own"));
        undone = Some(case.undo(&one, &UndoTarget::Last).operation);
    });
    case.end(&turn);
    assert_eq!(case.read("f").as_deref(), Some("before"));

    let report = case.undo(&two, &UndoTarget::Last);

    assert_eq!((case.read("f").as_deref(), case.read("own")), (Some("before"), None));
    assert_eq!(report.contended[0].path, path("f"));
    assert_eq!(report.contended[0].operations, Vec::from_iter(undone));
}

#[test]
fn redo_skips_file_human_had_reverted_before_undo() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("before"));
    case.put("g", Some("before"));
    let turn = case.begin(&session);
    case.edit(&turn, "f", Some("after"));
    case.edit(&turn, "g", Some("after"));
    case.end(&turn);
    case.put("f", Some("before"));

    case.undo(&session, &UndoTarget::Last);
    assert!(case.redo(&session).is_complete());

    assert_eq!(
        (case.read("f").as_deref(), case.read("g").as_deref()),
        (Some("before"), Some("after")),
        "the undo did not take it, so there is nothing to restore"
    );
}

/// Proves R4.
#[test]
fn file_recreated_by_human_is_not_removed_by_undo() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.edit(&turn, "f", Some("for a moment"));
    case.edit(&turn, "f", None);
    case.end(&turn);
    case.put("f", Some("of a person"));

    let report = case.undo(&session, &UndoTarget::Last);

    assert!(report.is_complete(), "{report:?}");
    assert_eq!(case.read("f").as_deref(), Some("of a person"));
}

/// Proves R5.
#[test]
fn unreadable_repository_is_reported_before_undo() {
    let case = EngineFixture::new();
    crate::repository_fixture::git(&case.root(), &["init", "-q"]);
    crate::repository_fixture::git(&case.root(), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    assert!(case.plan(&session, &UndoTarget::Last).git.is_empty(), "it stands where it stood");
    let head = case.root().join(".git/HEAD");
    fs_err::remove_file(&head).expect("removed");
    fs_err::create_dir(&head).expect("made");

    let plan = case.plan(&session, &UndoTarget::Last);

    assert_eq!(plan.git.len(), 1);
    assert!(plan.git[0].now.unknown && !plan.git[0].before.unknown, "{:?}", plan.git);
    assert!(case.undo(&session, &UndoTarget::Last).is_complete(), "files are undone all the same");
    assert_eq!(case.read("f"), None);
    // And what was done while it could not be read is reported, whatever can be read later.
    case.turn(&session, "g", Some("y"));
    fs_err::remove_dir(&head).expect("removed");
    fs_err::write(&head, "ref: refs/heads/main\n").expect("written");
    assert!(case.plan(&session, &UndoTarget::Last).git[0].before.unknown);
}
