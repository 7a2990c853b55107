//! An answer at a gate counts for one operation of the actor who asked, and only a person answers for a
//! project: docs/permissions.md.

use serde_json::json;
use turnstone_core::id::{PermissionId, ProjectId, SessionId};
use turnstone_core::model::{PermissionReply, Session};
use turnstone_core::permission::{
    CallerRole, GatedOperation, PermissionRule, ReplyError, RuleAction, RuleSource,
};
use turnstone_engine::{Engine, EngineError, EngineSettings, GateRefusal, PermissionError};
use turnstone_store::{Actor, Context, Tx};

use crate::engine_fixture::{EngineFixture, NOW, ctx};

fn project() -> ProjectId {
    "p1".parse().expect("an id")
}

fn named(actor: &str, request: &str) -> Context {
    let ctx = Context::new(Actor::new(actor).expect("a name"), NOW);
    Context { request: Some(request.to_owned()), ..ctx }
}

fn reopen(case: &EngineFixture) -> Engine {
    Engine::open(EngineSettings::new(&case.dir.path().join("data")), NOW).expect("opens")
}

fn require(engine: &Engine, ctx: &Context, session: &SessionId) -> Result<Context, EngineError> {
    engine.permissions().gates().require(ctx, session, GatedOperation::Delete, &["x".to_owned()])
}

/// The request under which a person is asked.
fn pending<T: std::fmt::Debug>(asked: Result<T, EngineError>) -> PermissionId {
    match asked {
        Err(EngineError::PermissionPending { request, .. }) => request,
        other => panic!("{other:?}"),
    }
}

fn grant(engine: &Engine, request: &PermissionId) {
    let once = PermissionReply::Once;
    engine.permissions().reply(&ctx(), request, once, None).expect("answered");
}

/// A session that `actor` created, the newest of the project.
fn session_of(case: &EngineFixture, actor: &Context, id: &str) -> SessionId {
    let own: Session = serde_json::from_value(json!({ "id": id, "slug": "s", "projectID": "p1",
        "directory": case.root(), "title": "t", "version": "1",
        "time": { "created": 1, "updated": NOW.0 + 5 } }))
    .expect("a session");
    let write = move |tx: &Tx<'_>| tx.sessions().create(&own);
    case.engine.store().write(actor, write).wait().expect("written");
    id.parse().expect("an id")
}

#[test]
fn answer_counts_once_and_only_for_the_actor_who_asked() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let (bob, carol) = (named("bob", "r1"), named("carol", "r1"));
    let first = pending(require(&case.engine, &bob, &session));
    assert_eq!(first.as_str(), "per_r1");
    grant(&case.engine, &first);
    assert_ne!(pending(require(&case.engine, &carol, &session)), first);
    require(&case.engine, &bob, &session).expect("granted");
    let second = pending(require(&case.engine, &bob, &session));
    assert_ne!(second, first);
    let reopened = reopen(&case);
    assert_ne!(pending(require(&reopened, &bob, &session)), first, "used after a restart, too");
    grant(&reopened, &second);
    let again = named("bob", second.as_str().trim_start_matches("per_"));
    require(&reopened, &again, &session).expect("granted again");
    pending(require(&reopened, &again, &session));
}

#[test]
fn answer_counts_for_the_same_request_body_only() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let with =
        |digest: &str| Context { request_digest: Some(digest.to_owned()), ..named("bob", "r1") };
    grant(&case.engine, &pending(require(&case.engine, &with("a"), &session)));
    let other = require(&case.engine, &with("b"), &session);
    assert!(matches!(other, Err(EngineError::Store(_))), "{other:?}");
    require(&case.engine, &with("a"), &session).expect("granted");
}

#[test]
fn one_of_several_concurrent_uses_of_an_answer_wins() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let bob = named("bob", "r1");
    grant(&case.engine, &pending(require(&case.engine, &bob, &session)));
    let results: Vec<bool> = std::thread::scope(|scope| {
        let one = || require(&case.engine, &bob, &session).is_ok();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
    });
    assert_eq!(results.iter().filter(|won| **won).count(), 1, "{results:?}");
}

#[test]
fn used_answer_keeps_what_the_caller_expects_of_the_session() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let bob = named("bob", "r1").with_idempotency_key("k");
    grant(&case.engine, &pending(require(&case.engine, &bob, &session)));
    let seq = || case.engine.store().read(&ctx(), |r| r.sessions().seq(&session)).expect("reads");
    let stale = bob.clone().with_expected_seq(turnstone_core::time::SessionSeq(seq().0 - 1));
    let refused = require(&case.engine, &stale, &session);
    assert!(matches!(refused, Err(EngineError::Store(_))), "{refused:?}");
    let fresh = bob.with_expected_seq(seq());
    case.engine
        .permissions()
        .gates()
        .require(&fresh, &session, GatedOperation::Delete, &["x".to_owned()])
        .and_then(|ctx| {
            assert_eq!(ctx.idempotency_key.as_deref(), Some("k"));
            let id = session.clone();
            let rename = move |tx: &Tx<'_>| {
                tx.sessions().update(&id, |session: &mut Session| {
                    session.title = "new".to_owned();
                    Ok(())
                })
            };
            Ok(case.engine.store().write(&ctx, rename).wait().map(drop)?)
        })
        .expect("the answer is not stale because it was used");
}

#[test]
fn only_a_person_answers_what_a_project_gate_asks() {
    let case = EngineFixture::new();
    case.session("ses_a", None);
    let (alice, bob) = (named("alice", "a"), named("bob", "b"));
    let own = session_of(&case, &alice, "ses_alice");
    let ask = || {
        let path = ["x".to_owned()];
        case.engine.permissions().gates().require_in_project(
            &bob,
            &project(),
            GatedOperation::Worktree,
            &path,
        )
    };
    let asked = pending(ask());
    let open = case.engine.permissions().pending(&ctx(), Some(&own)).expect("reads");
    assert_eq!(open.len(), 1, "it is asked in the session of alice");
    let reply = |who: &Context, id: &PermissionId, answer| {
        case.engine.permissions().reply(who, id, answer, None)
    };
    for answer in [PermissionReply::Once, PermissionReply::Reject] {
        let refused = reply(&alice, &asked, answer);
        assert!(
            matches!(refused, Err(PermissionError::Reply(ReplyError::NotAllowedToAnswer(_)))),
            "{refused:?}"
        );
    }
    // What a refusal of another question takes with it does not include this one.
    let other = pending(require(&case.engine, &named("bob", "c"), &own));
    reply(&alice, &other, PermissionReply::Reject).expect("her own session");
    assert_eq!(pending(ask()), asked, "it is still open");
    reply(&ctx(), &asked, PermissionReply::Once).expect("a person");
    ask().expect("granted");
    pending(ask());
}

#[test]
fn session_that_denies_its_deletion_is_not_deleted_with_its_parent() {
    let case = EngineFixture::new();
    let (session, child) = (case.session("ses_a", None), case.session("ses_b", Some("ses_a")));
    let id = child.clone();
    let protect = move |tx: &Tx<'_>| {
        tx.sessions().update(&id, |session: &mut Session| {
            session.permission = Some(vec![PermissionRule::new("delete", "*", RuleAction::Deny)]);
            Ok(())
        })
    };
    case.engine.store().write(&ctx(), protect).wait().expect("written");
    let person = ctx().with_role(CallerRole::Person);
    let refused = case.engine.projects().delete_session(&person, &session);
    let Err(EngineError::PermissionRefused { pattern, why, .. }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((pattern.as_str(), why), ("ses_b", GateRefusal::Rule(RuleSource::Session)));
    let found = case.engine.store().read(&ctx(), |r| r.sessions().find(&child)).expect("reads");
    assert!(found.is_some());
}
