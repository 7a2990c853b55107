//! Forks: copies that depend on nothing of the original.

use std::collections::BTreeSet;

use turnstone_core::change::Evidence;
use turnstone_core::id::{ChangeId, SessionId};
use turnstone_core::model::PartBody;
use turnstone_core::time::Millis;
use turnstone_core::wire::cost_and_tokens;
use turnstone_engine::{EngineError, UndoOptions, Which};
use turnstone_snapshot::{Expiry, Group, Need, Sweep};
use turnstone_store::{CloseChange, OpenChange, SessionFilter};

use crate::support::{Case, NOW, ctx};
use crate::talk::mid;

fn two() -> (Case, SessionId) {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.exchange(&session, "b", ("f", Some("one")));
    case.exchange(&session, "a", ("f", Some("two")));
    (case, session)
}

#[test]
fn a_fork_copies_the_messages_before_the_point_under_new_ids_12_1() {
    let (case, session) = two();
    let fork = case.engine.fork(&ctx(), &session, Some(&mid("a"))).expect("forks");

    assert_eq!((fork.title.as_str(), fork.parent), ("T (fork #1)", None));
    let origin = fork.origin.expect("where it came from");
    assert_eq!((origin.session, origin.message), (session.clone(), Some(mid("a"))));
    assert_eq!(fork.time.archived, None);
    let (old, new) = (case.outline(&session), case.outline(&fork.id));
    assert_eq!(new.len(), 2, "by position: ids run backwards here");
    let kinds = |nth: usize| new[nth].parts.iter().map(|it| it.1.clone()).collect::<Vec<_>>();
    assert_eq!(kinds(1), ["step-start", "tool", "text", "step-finish"]);
    assert!(new.iter().zip(&old).all(|(new, old)| new.message != old.message));
    let answer = case.engine.store().read(&ctx(), |r| r.get_message(&fork.id, &new[1].message));
    let turnstone_core::model::MessageBody::Assistant(said) = answer.expect("reads").message.body
    else {
        panic!("an answer")
    };
    assert_eq!(said.parent, new[0].message);
    assert_eq!(case.messages(&session).len(), 4, "the original is as it was");
    let again = case.engine.fork(&ctx(), &fork.id, None).expect("forks");
    assert_eq!(again.title, "T (fork #2)");
    case.sound();
}

#[test]
fn usage_is_not_counted_twice_w8() {
    let (case, session) = two();
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    let shown = |id: &SessionId| {
        let read =
            case.engine.store().read(&ctx(), |r| Ok((r.get_session(id)?, r.session_usage(id)?)));
        let (session, usage) = read.expect("reads");
        cost_and_tokens(&session, usage).0.as_f64()
    };
    assert_eq!((shown(&session), shown(&fork.id)), (Some(2.0), Some(0.0)));
    case.exchange(&fork.id, "c", ("g", Some("three")));
    assert_eq!((shown(&session), shown(&fork.id)), (Some(2.0), Some(1.0)));
}

#[test]
fn a_copied_turn_taken_back_in_one_session_is_taken_back_in_the_other_r40() {
    let (case, session) = two();
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    let ids = |id: &SessionId| {
        let rows = case.engine.store().read(&ctx(), |r| r.changes(id)).expect("reads");
        rows.into_iter().map(|row| row.set.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(&session), ids(&fork.id));

    assert!(case.undo(&fork.id, &Which::Last).is_complete());
    assert_eq!(case.read("f").as_deref(), Some("one"));
    let report = case.undo(&session, &Which::Last);
    assert!(report.is_complete() && report.roots.is_empty(), "already taken back: {report:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
    assert_eq!(case.head(&session).map(|head| head.0).as_deref(), Some("a"));
    // A part of the copy stands for the call in the original.
    let part = case.outline(&fork.id)[1].parts[1].0.clone();
    assert!(case.undo(&fork.id, &Which::Part(part)).is_complete());
    assert_eq!(case.read("f"), None);
}

#[test]
fn a_fork_lives_on_when_its_parent_is_deleted_r40() {
    let (case, session) = two();
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    case.engine.store().delete_session(&ctx(), &session).expect("deletes");
    while !case.engine.store().purge_some(&ctx(), 100).expect("purges") {}
    let vault = case.engine.vault(&case.root(), NOW).expect("opens");
    let later = Millis(NOW.0 + 30 * 24 * 3_600_000);
    let sweep = Sweep {
        live: BTreeSet::from([fork.id.to_string()]),
        keep: 1,
        effort: u64::MAX,
        dry_run: false,
        now: later,
    };
    let swept = vault.gc(&sweep).expect("collects");
    assert!(swept.gc.dropped_groups.contains(&"ses_a".to_owned()), "{swept:?}");
    let verified = vault.verify().expect("reads");
    assert!(verified.damaged.is_empty(), "nothing the fork needs is gone");

    for content in [Some("one"), None] {
        assert!(case.undo(&fork.id, &Which::Last).is_complete());
        assert_eq!(case.read("f").as_deref(), content);
    }
    case.redo(&fork.id);
    assert_eq!(case.read("f").as_deref(), Some("one"));
    case.sound();
}

#[test]
fn a_fork_of_a_reverted_session_goes_on_from_where_it_stands() {
    let (case, session) = two();
    case.engine
        .revert(&ctx(), &session, &mid("aa"), Some(&crate::talk::pid("aa2")))
        .expect("reverts");
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    let outline = case.outline(&fork.id);
    assert_eq!(
        (outline.len(), outline[3].parts.len()),
        (4, 2),
        "the text behind the head is not copied"
    );
    case.engine.revert(&ctx(), &session, &mid("a"), None).expect("reverts");
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    assert_eq!(case.outline(&fork.id).len(), 2);
    assert_eq!(case.head(&fork.id), None);
}

#[test]
fn a_fork_works_while_a_turn_runs_and_ends_the_copy_r45() {
    let (case, session) = two();
    let turn = case.ask(&session, "c");
    case.answer(&turn, "ca", "c");
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    let status = case.engine.store().read(&ctx(), |r| r.status(&fork.id)).expect("reads");
    assert_eq!(status, turnstone_core::model::Status::Idle);
    assert_eq!(case.outline(&fork.id).len(), 6);
    case.end(&turn);
    case.exchange(&fork.id, "d", ("g", Some("g")));
}

#[test]
fn a_message_that_is_not_there_is_refused_and_a_fork_cut_off_hides_itself_w14() {
    let (case, session) = two();
    let none = case.engine.fork(&ctx(), &session, Some(&mid("none")));
    assert!(matches!(none, Err(EngineError::Fork(_))), "{none:?}");
    let scenario = fail::FailScenario::setup();
    fail::cfg("engine::fork_copies", "return").expect("set");
    case.engine.fork(&ctx(), &session, None).expect_err("cut off");
    fail::remove("engine::fork_copies");
    scenario.teardown();
    let case = case.reopen();
    case.engine.recover(&ctx()).expect("recovers");

    let filter = SessionFilter::default();
    let shown = case.engine.store().read(&ctx(), |r| r.list_sessions(&filter, None, 10));
    let shown: Vec<String> =
        shown.expect("reads").items.iter().map(|it| it.session.id.to_string()).collect();
    assert_eq!(shown, ["ses_a"], "half a copy is archived");
    let fork = case.engine.fork(&ctx(), &session, None).expect("forks");
    assert_eq!(case.outline(&fork.id).len(), 4);
    let text = case.outline(&fork.id)[1].parts[2].0.clone();
    let part = case.engine.store().read(&ctx(), |r| r.get_part(&fork.id, &text)).expect("reads");
    assert!(matches!(part.body, PartBody::Text(_)));
    case.sound();
}

#[test]
fn a_capture_whose_name_cannot_be_read_stops_the_fork_r40() {
    let (case, session) = two();
    let turn = case.begin(&session);
    let root = case.engine.store().read(&ctx(), |r| r.changes(&session)).expect("reads");
    let root = root[0].set.root.clone();
    let id: ChangeId = "chg_strange".parse().expect("an id");
    let open = OpenChange {
        id: id.clone(),
        turn: turn.id.clone(),
        part: None,
        root,
        evidence: Evidence::Named,
        outer: None,
        named: Vec::new(),
        before: Some("not a name".to_owned()),
        git: None,
    };
    let close = CloseChange {
        id: id.clone(),
        evidence: Evidence::Named,
        after: None,
        changes: Vec::new(),
        not_covered: 0,
        git: None,
    };
    let name = session.clone();
    case.write(&turn, move |tx| {
        tx.open_change(&name, &open)?;
        tx.close_change(&name, &close).map(drop)
    });
    case.end(&turn);

    let fork = case.engine.fork(&ctx(), &session, None);

    assert!(matches!(&fork, Err(EngineError::BadCapture { change, .. }) if *change == id));
}

#[test]
fn a_fork_says_of_turns_whose_captures_are_gone_that_they_cannot_be_taken_back_r40() {
    let case = Case::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("old"));
    case.turn(&session, "f", Some("one"));
    case.turn(&session, "g", Some("two"));
    // Somebody took captures away behind the ledger's back: all before the newest one.
    let vault = case.engine.vault(&case.root(), NOW).expect("opens");
    let chains = vault.list_chains().expect("reads");
    let group = Group::new(session.as_str());
    let keep_from = chains[session.as_str()].first().map(|newest| newest.id);
    let gone = [Expiry { group: group.clone(), keep_from }];
    let live = [group].into();
    let need = Need { bytes: 0, live, effort: 1 << 20, now: NOW };
    vault.expire(&gone, &need).expect("expires");

    let fork = case.engine.fork(&ctx(), &session, None).expect("the conversation is copied");

    let turns = case.engine.store().read(&ctx(), |r| r.turns(&fork.id)).expect("reads");
    let which = Which::Turn(turns[0].id.clone());
    let refused = case.engine.plan_undo(&ctx(), &fork.id, &which, &UndoOptions::default());
    assert!(matches!(refused, Err(EngineError::Expired { .. })), "{refused:?}");
    assert_eq!(case.read("f").as_deref(), Some("one"));
}
