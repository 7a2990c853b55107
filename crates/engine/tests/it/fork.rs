//! Forks: copies that depend on nothing of the original.

use std::collections::BTreeSet;

use turnstone_core::change::Evidence;
use turnstone_core::id::{ChangeId, SessionId};
use turnstone_core::model::PartBody;
use turnstone_core::time::EpochMillis;
use turnstone_core::wire::cost_and_tokens;
use turnstone_engine::{EngineError, UndoOptions, UndoTarget};
use turnstone_snapshot::{EvictionRequest, ExpiryStep, GcRequest, PinGroup};
use turnstone_store::{CloseChangeSet, NewChangeSet, SessionFilter};

use crate::conversation_fixture::mid;
use crate::engine_fixture::{EngineFixture, NOW, ctx};

fn two() -> (EngineFixture, SessionId) {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.run_turn(&session, "b", ("f", Some("one")));
    case.run_turn(&session, "a", ("f", Some("two")));
    (case, session)
}

#[test]
fn fork_copies_messages_before_point_with_new_ids() {
    let (case, session) = two();
    let fork = case
        .engine
        .history()
        .forks()
        .fork_session(&ctx(), &session, Some(&mid("a")))
        .expect("forks");

    assert_eq!((fork.title.as_str(), fork.parent), ("T (fork #1)", None));
    let origin = fork.origin.expect("where it came from");
    assert_eq!((origin.session, origin.message), (session.clone(), Some(mid("a"))));
    assert_eq!(fork.time.archived, None);
    let (old, new) = (case.outline(&session), case.outline(&fork.id));
    assert_eq!(new.len(), 2, "by position: ids run backwards here");
    let kinds = |nth: usize| new[nth].parts.iter().map(|it| it.1.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(1), ["step-start", "tool", "text", "step-finish"]);
    assert!(new.iter().zip(&old).all(|(new, old)| new.message != old.message));
    let answer = case.engine.store().read(&ctx(), |r| r.messages().get(&fork.id, &new[1].message));
    let turnstone_core::model::MessageBody::Assistant(said) = answer.expect("reads").message.body
    else {
        panic!("an answer")
    };
    assert_eq!(said.parent, new[0].message);
    assert_eq!(case.messages(&session).len(), 4, "the original is as it was");
    let again = case.engine.history().forks().fork_session(&ctx(), &fork.id, None).expect("forks");
    assert_eq!(again.title, "T (fork #2)");
    case.assert_consistent();
}

/// Proves W8.
#[test]
fn fork_does_not_count_usage_twice() {
    let (case, session) = two();
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    let shown = |id: &SessionId| {
        let read = case
            .engine
            .store()
            .read(&ctx(), |r| Ok((r.sessions().get(id)?, r.sessions().usage(id)?)));
        let (session, usage) = read.expect("reads");
        cost_and_tokens(&session, usage).0.as_f64()
    };
    assert_eq!((shown(&session), shown(&fork.id)), (Some(2.0), Some(0.0)));
    case.run_turn(&fork.id, "c", ("g", Some("three")));
    assert_eq!((shown(&session), shown(&fork.id)), (Some(2.0), Some(1.0)));
}

/// Proves R40.
#[test]
fn undo_of_copied_turn_applies_to_both_sessions() {
    let (case, session) = two();
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    let ids = |id: &SessionId| {
        let rows = case.engine.store().read(&ctx(), |r| r.change_sets().list(id)).expect("reads");
        rows.into_iter().map(|row| row.set.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&session), ids(&fork.id));

    assert!(case.undo(&fork.id, &UndoTarget::Last).is_complete());
    assert_eq!(case.read("f").as_deref(), Some("one"));
    let report = case.undo(&session, &UndoTarget::Last);
    assert!(report.is_complete() && report.roots.is_empty(), "already undone: {report:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("a"));
    // A part of the copy stands for the call in the original.
    let part = case.outline(&fork.id)[1].parts[1].0.clone();
    assert!(case.undo(&fork.id, &UndoTarget::Part(part)).is_complete());
    assert_eq!(case.read("f"), None);
}

/// Proves R40.
#[test]
fn fork_survives_deletion_of_original() {
    let (case, session) = two();
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    case.engine.store().delete_session(&ctx(), &session).expect("deletes");
    while !case.engine.store().maintenance().purge_deleted(&ctx(), 100).expect("purges") {}
    let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
    let later = EpochMillis(NOW.0 + 30 * 24 * 3_600_000);
    let sweep = GcRequest {
        live: BTreeSet::from([fork.id.to_string()]),
        deleted: BTreeSet::new(),
        keep: 1,
        effort: u64::MAX,
        dry_run: false,
        now: later,
    };
    let swept = handle.maintenance().collect_garbage(&sweep).expect("collects");
    assert!(swept.gc.dropped_groups.contains(&"ses_a".to_owned()), "{swept:?}");
    let verified = handle.reader().verify_objects().expect("reads");
    assert!(verified.damaged.is_empty(), "nothing the fork needs is gone");

    for content in [Some("one"), None] {
        assert!(case.undo(&fork.id, &UndoTarget::Last).is_complete());
        assert_eq!(case.read("f").as_deref(), content);
    }
    case.redo(&fork.id);
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.assert_consistent();
}

#[test]
fn fork_of_reverted_session_stops_at_head() {
    let (case, session) = two();
    case.engine
        .history()
        .reverts()
        .revert(&ctx(), &session, &mid("aa"), Some(&crate::conversation_fixture::pid("aa2")))
        .expect("reverts");
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    let outline = case.outline(&fork.id);
    assert_eq!(
        (outline.len(), outline[3].parts.len()),
        (4, 2),
        "the text behind the head is not copied"
    );
    case.engine.history().reverts().revert(&ctx(), &session, &mid("a"), None).expect("reverts");
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    assert_eq!(case.outline(&fork.id).len(), 2);
    assert_eq!(case.head(&fork.id), None);
}

/// Proves R45.
#[test]
fn fork_during_turn_ends_copied_turn() {
    let (case, session) = two();
    let turn = case.begin_prompted_turn(&session, "c");
    case.answer(&turn, "ca", "c");
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    let status =
        case.engine.store().read(&ctx(), |r| r.sessions().status(&fork.id)).expect("reads");
    assert_eq!(status, turnstone_core::model::SessionStatus::Idle);
    assert_eq!(case.outline(&fork.id).len(), 6);
    case.end(&turn);
    case.run_turn(&fork.id, "d", ("g", Some("g")));
}

/// Proves W14.
#[test]
fn unknown_fork_point_is_rejected_interrupted_fork_is_hidden() {
    let (case, session) = two();
    let none = case.engine.history().forks().fork_session(&ctx(), &session, Some(&mid("none")));
    assert!(matches!(none, Err(EngineError::Fork(_))), "{none:?}");
    let scenario = fail::FailScenario::setup();
    fail::cfg("engine::fork_copies", "return").expect("set");
    case.engine.history().forks().fork_session(&ctx(), &session, None).expect_err("cut off");
    fail::remove("engine::fork_copies");
    scenario.teardown();
    let case = case.reopen();
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");

    let filter = SessionFilter::default();
    let shown = case.engine.store().read(&ctx(), |r| r.sessions().list(&filter, None, 10));
    let shown: Vec<String> =
        shown.expect("reads").items.iter().map(|it| it.session.id.to_string()).collect();
    assert_eq!(shown, ["ses_a"], "half a copy is archived");
    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None).expect("forks");
    assert_eq!(case.outline(&fork.id).len(), 4);
    let text = case.outline(&fork.id)[1].parts[2].0.clone();
    let part = case
        .engine
        .store()
        .read(&ctx(), |r| r.messages().get_part(&fork.id, &text))
        .expect("reads");
    assert!(matches!(part.body, PartBody::Text(_)));
    case.assert_consistent();
}

/// Proves R40.
#[test]
fn invalid_capture_id_fails_the_fork() {
    let (case, session) = two();
    let turn = case.begin(&session);
    let root = case.engine.store().read(&ctx(), |r| r.change_sets().list(&session)).expect("reads");
    let root = root[0].set.root.clone();
    let id: ChangeId = "chg_strange".parse().expect("an id");
    let open = NewChangeSet {
        id: id.clone(),
        turn: turn.id.clone(),
        part: None,
        root,
        evidence: Evidence::Named,
        outer: None,
        named: Vec::new(),
        outside: Vec::new(),
        before: Some("not a name".to_owned()),
        git: None,
        captured_from: None,
        continues: None,
    };
    let close = CloseChangeSet {
        id: id.clone(),
        evidence: Evidence::Named,
        after: None,
        changes: Vec::new(),
        not_covered: 0,
        git: None,
        trace: None,
    };
    let name = session.clone();
    case.write(&turn, move |tx| {
        tx.change_sets().open(&name, &open)?;
        tx.change_sets().close(&name, &close).map(drop)
    });
    case.end(&turn);

    let fork = case.engine.history().forks().fork_session(&ctx(), &session, None);

    assert!(matches!(&fork, Err(EngineError::UnreadableCaptureId { change, .. }) if *change == id));
}

/// Proves R40.
#[test]
fn fork_marks_turns_with_missing_captures_expired() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("old"));
    case.turn(&session, "f", Some("one"));
    case.turn(&session, "g", Some("two"));
    // Somebody took captures away behind the database's back: all before the newest one.
    let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
    let chains = handle.reader().list_chains().expect("reads");
    let group = PinGroup::new(session.as_str());
    let keep_from = chains[session.as_str()].first().map(|newest| newest.id);
    let gone = [ExpiryStep { group: group.clone(), keep_from }];
    let live = [group].into();
    let need = EvictionRequest { bytes: 0, live, effort: 1 << 20, now: NOW };
    handle.maintenance().expire_captures(&gone, &need).expect("expires");

    let fork = case
        .engine
        .history()
        .forks()
        .fork_session(&ctx(), &session, None)
        .expect("the conversation is copied");

    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(&fork.id)).expect("reads");
    let which = UndoTarget::Turn(turns[0].id.clone());
    let refused =
        case.engine.history().plan_undo(&ctx(), &fork.id, &which, &UndoOptions::default());
    assert!(matches!(refused, Err(EngineError::UndoExpired { .. })), "{refused:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
}
