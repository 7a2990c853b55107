//! Who may pass which gate, and what no rule can allow: docs/permissions.md.

use std::path::Path;

use serde_json::json;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, PermissionReply, RequestId, RequestState, Session};
use turnstone_core::permission::{
    CallerRole, GatedOperation, PermissionRule, ReplyError, RuleAction, RuleSource,
};
use turnstone_engine::{
    Engine, EngineError, EngineSettings, GateRefusal, PermissionError, PermissionOutcome,
    PermissionQuery, RuleSettings,
};
use turnstone_store::{Actor, Context, Tx};

use crate::engine_fixture::{EngineFixture, NOW, ctx};

fn project() -> ProjectId {
    "p1".parse().expect("an id")
}

/// Opens the data of a case as a user whose own configuration denies `rm` and every deletion.
fn engine_denying_rm_and_delete(case: &EngineFixture) -> Engine {
    let mut settings = EngineSettings::new(&case.dir.path().join("data"));
    settings.rules.user = vec![
        PermissionRule::new("bash", "rm *", RuleAction::Deny),
        PermissionRule::new("delete", "*", RuleAction::Deny),
        PermissionRule::new("revert", "kept/*", RuleAction::Deny),
    ];
    Engine::open(settings, NOW).expect("opens")
}

/// Everything that could loosen a rule does so: a file of the project, a stored rule, a rule of the
/// session and an approval.
fn loosen_every_rule(case: &EngineFixture, session: &SessionId) {
    let allow =
        ["bash", "delete", "revert"].map(|name| PermissionRule::new(name, "*", RuleAction::Allow));
    let file = json!({"permission": {"bash": "allow", "delete": "allow", "revert": "allow"}});
    case.put("turnstone.json", Some(&file.to_string()));
    case.put("opencode.json", Some(&file.to_string()));
    case.trust("turnstone.json");
    case.trust("opencode.json");
    for rule in &allow {
        case.engine.permissions().rules().set(&ctx(), &project(), rule).expect("stored");
    }
    let (id, rules) = (session.clone(), allow.to_vec());
    let write = move |tx: &Tx<'_>| {
        rules.iter().try_for_each(|rule| tx.projects().approve_rule(&project(), rule).map(drop))?;
        tx.sessions().update(&id, |session: &mut Session| {
            session.permission = Some(rules.clone());
            Ok(())
        })
    };
    case.engine.store().write(&ctx(), write).wait().expect("written");
}

fn bash(pattern: &str) -> PermissionQuery {
    let ask = PermissionAsk {
        permission: "bash".into(),
        patterns: vec![pattern.into()],
        metadata: Default::default(),
        always: vec![pattern.into()],
        tool: None,
        extra: Default::default(),
    };
    PermissionQuery { ask, blocks_turn: false }
}

#[test]
fn user_denial_overrides_files_rules_and_approvals() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    loosen_every_rule(&case, &session);
    let engine = engine_denying_rm_and_delete(&case);
    let rules = engine.permissions().rules().effective(&ctx(), &session).expect("reads");
    let found = rules.explain("bash", "rm -r x");
    assert_eq!((found.action, found.source), (RuleAction::Deny, Some(RuleSource::User)));
    assert!(found.is_final);
    assert_eq!(rules.explain("bash", "ls").action, RuleAction::Allow);

    let turn = engine
        .turns()
        .begin(&ctx(), crate::engine_fixture::prompt(&session, "u1"))
        .expect("begins");
    let asked = engine.permissions().ask(&ctx(), &turn, &bash("rm -r x")).expect("judged");
    assert!(matches!(asked, PermissionOutcome::Denied(_)), "{asked:?}");
    let (_, next_to_it) = engine
        .permissions()
        .ask_without_turn(&ctx(), &session, None, &bash("rm -r x").ask, None)
        .expect("judged");
    assert!(matches!(next_to_it, PermissionOutcome::Denied(_)), "{next_to_it:?}");
    engine
        .turns()
        .end(&ctx(), &turn, turnstone_core::turn::TurnOutcome::Completed, None)
        .expect("ends");

    let refused = engine.projects().delete_session(&ctx(), &session);
    let Err(EngineError::PermissionRefused { gate: GatedOperation::Delete, why, .. }) = refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!(why, GateRefusal::Rule(RuleSource::User));
    let kept = engine.permissions().gates().require(
        &ctx(),
        &session,
        GatedOperation::Revert,
        &["kept/a".to_owned()],
    );
    assert!(matches!(kept, Err(EngineError::PermissionRefused { .. })), "{kept:?}");
    engine
        .permissions()
        .gates()
        .require(&ctx(), &session, GatedOperation::Revert, &["other".to_owned()])
        .expect("allowed");
}

#[test]
fn answer_is_rejected_after_user_denial() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.ask_about_bash();
    let asked = case.engine.permissions().ask(&ctx(), &turn, &bash("rm x")).expect("asked");
    let PermissionOutcome::Pending(id) = asked else { panic!("{asked:?}") };
    let engine = engine_denying_rm_and_delete(&case);
    for answer in [PermissionReply::Once, PermissionReply::Always] {
        let refused = engine.permissions().reply(&ctx(), &id, answer, None);
        let is_denied =
            matches!(refused, Err(PermissionError::Reply(ReplyError::DeniedByUser { .. })));
        assert!(is_denied, "{refused:?}");
    }
    assert!(
        engine.permissions().rules().list_approvals(&ctx(), &project()).expect("reads").is_empty()
    );
    engine
        .permissions()
        .reply(&ctx(), &id, PermissionReply::Reject, None)
        .expect("a person may always say no");
    case.end(&turn);
}

#[test]
fn user_rule_files_are_final_and_size_limited() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    loosen_every_rule(&case, &session);
    let file = case.dir.path().join("user.jsonc");
    let mut settings = EngineSettings::new(&case.dir.path().join("data"));
    settings.rules.user_files = vec![case.dir.path().join("missing.json"), file.clone()];
    let engine = Engine::open(settings, NOW).expect("opens");
    let explain = || {
        Ok::<_, EngineError>(
            engine.permissions().rules().effective(&ctx(), &session)?.explain("bash", "rm"),
        )
    };
    fs_err::write(&file, "{ // mine\n\"permission\": {\"bash\": \"deny\"}}").expect("written");
    assert!(explain().expect("reads").is_final);
    // What cannot be read may hold a denial: it opens nothing.
    for wrong in ["{", "{\"permission\": {\"bash\": \"never\"}}"] {
        fs_err::write(&file, wrong).expect("written");
        assert!(explain().is_err(), "{wrong}");
    }
    fs_err::remove_file(&file).expect("removed");
    fs_err::os::unix::fs::symlink("/dev/zero", &file).expect("linked");
    assert!(explain().is_err(), "not a regular file");
}

#[test]
fn runners_tools_and_requesters_cannot_answer() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.ask_about_bash();
    let named = ctx().with_role(CallerRole::Named);
    let asked = case.engine.permissions().ask(&named, &turn, &bash("make")).expect("asked");
    let PermissionOutcome::Pending(id) = asked else { panic!("{asked:?}") };
    let question = json!({"questions": [{"question": "Which?", "header": "Which",
        "options": [{"label": "this", "description": "d"}]}]});
    let question = serde_json::from_value(question).expect("a question");
    let question =
        case.engine.permissions().ask_question(&named, &turn, question, false).expect("asked");
    let question = RequestId::Question(question);
    let bob = Context::new(Actor::new("bob").expect("actor"), NOW);
    let once = PermissionReply::Once;
    let is_refused = |error: PermissionError| {
        matches!(error, PermissionError::Reply(ReplyError::NotAllowedToAnswer(_)))
    };
    for who in [ctx().with_role(CallerRole::Runner), ctx().with_role(CallerRole::Tool), named, bob]
    {
        let reply = case.engine.permissions().reply(&who, &id, once, None);
        assert!(reply.is_err_and(is_refused), "{who:?}");
        let state = RequestState::Answered { answers: vec![vec!["this".into()]] };
        let answered = case.engine.permissions().answer_question(&who, &question, state);
        assert!(answered.is_err_and(is_refused), "{who:?}");
    }
    assert_eq!(case.engine.permissions().pending(&ctx(), None).expect("reads").len(), 2);
    case.engine.permissions().reply(&ctx(), &id, once, None).expect("a person");
    let rejected =
        case.engine.permissions().answer_question(&ctx(), &question, RequestState::Rejected);
    rejected.expect("a person");
    case.end(&turn);
}

#[test]
fn delete_gate_asks_tools_and_obeys_denials() {
    let case = EngineFixture::new();
    let (session, child) = (case.session("ses_a", None), case.session("ses_b", Some("ses_a")));
    let runner = ctx().with_role(CallerRole::Runner);
    let runner = Context { request: Some("deletion".to_owned()), ..runner };
    let asked = case.engine.projects().delete_session(&runner, &session);
    let Err(EngineError::PermissionPending { gate: GatedOperation::Delete, request }) = asked
    else {
        panic!("{asked:?}")
    };
    let is_there = |id: &SessionId| {
        case.engine.store().read(&ctx(), |r| r.sessions().find(id)).expect("reads").is_some()
    };
    assert!(is_there(&session) && is_there(&child));

    // A rule about the child protects it from the deletion of its parent, and that is in the log.
    let rule = PermissionRule::new("delete", "ses_b", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let seq = || case.engine.store().read(&ctx(), |r| r.sessions().seq(&session)).expect("reads");
    let before = seq();
    let refused = case.engine.projects().delete_session(&ctx(), &session);
    assert!(
        matches!(&refused, Err(EngineError::PermissionRefused { pattern, .. }) if pattern == "ses_b"),
        "{refused:?}"
    );
    assert!(is_there(&session) && is_there(&child) && seq() > before);
    case.engine.permissions().rules().unset(&ctx(), &project(), &rule).expect("removed");

    let once = PermissionReply::Once;
    case.engine.permissions().reply(&ctx(), &request, once, None).expect("answered");
    assert_eq!(
        case.engine.projects().delete_session(&runner, &session).expect("deleted").sessions.len(),
        2
    );
    assert!(!is_there(&session) && !is_there(&child));
}

#[test]
fn project_removal_passes_delete_gate() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let tool = ctx().with_role(CallerRole::Tool);
    let asked = case.engine.projects().remove(&tool, &project(), true);
    assert!(asked.is_err(), "{asked:?}");
    let rule = PermissionRule::new("delete", "*", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let refused = case.engine.projects().remove(&ctx(), &project(), true);
    assert!(refused.is_err(), "{refused:?}");
    let found = case.engine.store().read(&ctx(), |r| r.sessions().find(&session)).expect("reads");
    assert!(found.is_some());
}

#[test]
fn checkpoint_removal_passes_gate() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.engine.history().checkpoints().create(&ctx(), &session, "noon").expect("made");
    let tool = ctx().with_role(CallerRole::Tool);
    let asked = case.engine.history().checkpoints().remove(&tool, &session, "noon");
    assert!(
        matches!(
            asked,
            Err(EngineError::PermissionPending { gate: GatedOperation::Checkpoint, .. })
        ),
        "{asked:?}"
    );
    let rule = PermissionRule::new("checkpoint", "noon", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let refused = case.engine.history().checkpoints().remove(&ctx(), &session, "noon");
    assert!(matches!(refused, Err(EngineError::PermissionRefused { .. })), "{refused:?}");
    assert_eq!(case.engine.history().checkpoints().list(&ctx(), &session).expect("reads").len(), 1);
    case.engine.permissions().rules().unset(&ctx(), &project(), &rule).expect("removed");
    assert_eq!(
        case.engine.history().checkpoints().remove(&ctx(), &session, "noon").expect("gone").len(),
        1
    );
}

#[test]
fn forget_passes_forget_and_revert_gates() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, ".env", Some("SECRET_TOKEN=abcdefgh\n"));
    let patterns = [".env".to_owned()];
    let plan = case
        .engine
        .maintenance()
        .path_eraser()
        .plan(&ctx(), &case.root(), &patterns)
        .expect("a plan");
    let tool = ctx().with_role(CallerRole::Tool);
    let asked = case.engine.maintenance().path_eraser().apply(&tool, &plan);
    assert!(
        matches!(asked, Err(EngineError::PermissionPending { gate: GatedOperation::Forget, .. })),
        "{asked:?}"
    );
    for name in ["forget", "revert"] {
        let rule = PermissionRule::new(name, "*", RuleAction::Deny);
        case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
        let refused = case.engine.maintenance().path_eraser().apply(&ctx(), &plan);
        assert!(
            matches!(refused, Err(EngineError::PermissionRefused { .. })),
            "{name}: {refused:?}"
        );
        case.engine.permissions().rules().unset(&ctx(), &project(), &rule).expect("removed");
    }
    let again = case
        .engine
        .maintenance()
        .path_eraser()
        .plan(&ctx(), &case.root(), &patterns)
        .expect("a plan");
    assert_eq!(again.captured.versions.len(), plan.captured.versions.len(), "nothing is forgotten");
    assert!(
        case.engine.maintenance().path_eraser().apply(&ctx(), &plan).expect("forgotten").captures
            > 0
    );
}

#[test]
fn forget_asks_for_every_matching_path() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, ".env", Some("SECRET_TOKEN=abcdefgh\n"));
    case.turn(&session, "build/x", Some("generated long ago\n"));
    let plan = |pattern: &str| {
        case.engine.maintenance().path_eraser().plan(&ctx(), &case.root(), &[pattern.to_owned()])
    };
    for bad in ["build/x\n.env", "", "  ", "#", "!.env"] {
        let refused = plan(bad);
        assert!(matches!(refused, Err(EngineError::BadPattern { .. })), "{bad:?}: {refused:?}");
    }
    let rule = PermissionRule::new("forget", "*.env", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let wildcard = plan(".en?").expect("a plan");
    assert_eq!(wildcard.paths.iter().collect::<Vec<_>>(), [".env"]);
    let refused = case.engine.maintenance().path_eraser().apply(&ctx(), &wildcard);
    assert!(matches!(refused, Err(EngineError::PermissionRefused { .. })), "{refused:?}");
    case.engine
        .maintenance()
        .path_eraser()
        .apply(&ctx(), &plan("build").expect("a plan"))
        .expect("another path");
}

#[test]
fn gate_without_sessions_obeys_configured_rules() {
    let case = EngineFixture::new();
    let paths = ["a".to_owned()];
    let require = |engine: &Engine, ctx: &Context, directory: &Path| {
        engine.permissions().gates().require_at(ctx, directory, GatedOperation::Revert, &paths)
    };
    let (inside, outside) = (case.root(), case.dir.path().join("elsewhere"));
    fs_err::create_dir(&outside).expect("made");
    let tool = ctx().with_role(CallerRole::Tool);
    for directory in [&inside, &outside] {
        require(&case.engine, &ctx(), directory).expect("a person may");
        let refused = require(&case.engine, &tool, directory);
        assert!(
            matches!(
                refused,
                Err(EngineError::PermissionRefused { why: GateRefusal::NoSession, .. })
            ),
            "nobody can be asked: {refused:?}"
        );
        let file = directory.join("turnstone.json");
        fs_err::write(&file, r#"{"permission": {"revert": "deny"}}"#).expect("written");
        let refused = require(&case.engine, &ctx(), directory);
        let by_project = GateRefusal::Rule(RuleSource::Project);
        assert!(
            matches!(refused, Err(EngineError::PermissionRefused { why, .. }) if why == by_project),
            "{directory:?}"
        );
        fs_err::remove_file(&file).expect("removed");
    }
    let rule = PermissionRule::new("revert", "*", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    assert!(require(&case.engine, &ctx(), &inside).is_err(), "stored rules count");
    require(&case.engine, &ctx(), &outside).expect("they are of that project");

    let user = vec![PermissionRule::new("revert", "*", RuleAction::Deny)];
    let rules = RuleSettings { user, ..RuleSettings::default() };
    let allowed = r#"{"permission": {"revert": "allow"}}"#;
    fs_err::write(outside.join("turnstone.json"), allowed).expect("written");
    let refused = rules.enforce_gate_at(&ctx(), &outside, (GatedOperation::Revert, &paths));
    let by_user = GateRefusal::Rule(RuleSource::User);
    assert!(matches!(refused, Err(EngineError::PermissionRefused { why, .. }) if why == by_user));
}

#[test]
fn a_session_outside_of_its_project_brings_no_rules_of_its_directory() {
    let case = EngineFixture::new();
    case.session("ses_a", None);
    let evil = case.dir.path().join("evil");
    fs_err::create_dir(&evil).expect("made");
    let allow = r#"{"permission": {"revert": "allow", "delete": "allow"}}"#;
    fs_err::write(evil.join("turnstone.json"), allow).expect("written");
    let (root, far) = (case.root(), NOW.0 + 1_000_000_000);
    let inner = root.join("..").join("evil");
    for (id, directory) in [("ses_evil", &evil), ("ses_inner", &inner)] {
        let claimed: Session = serde_json::from_value(json!({ "id": id, "slug": "s",
            "projectID": "p1", "directory": directory, "title": "t", "version": "1",
            "time": { "created": 1, "updated": far } }))
        .expect("a session");
        let import = Context::new(Actor::new(Actor::IMPORT).expect("actor"), NOW);
        let write = move |tx: &Tx<'_>| tx.sessions().create(&claimed);
        case.engine.store().write(&import, write).wait().expect("written");
    }
    case.put("turnstone.json", Some(r#"{"permission": {"revert": "deny"}}"#));
    let paths = ["a".to_owned()];
    for who in [ctx(), ctx().with_role(CallerRole::Tool)] {
        let refused = case.engine.permissions().gates().require_at(
            &who,
            &root,
            GatedOperation::Revert,
            &paths,
        );
        let by_project = GateRefusal::Rule(RuleSource::Project);
        assert!(
            matches!(refused, Err(EngineError::PermissionRefused { why, .. }) if why == by_project),
            "{refused:?}"
        );
        for id in ["ses_evil", "ses_inner"] {
            let id: SessionId = id.parse().expect("an id");
            let refused = case.engine.permissions().gates().require(
                &who,
                &id,
                GatedOperation::Revert,
                &paths,
            );
            assert!(
                matches!(refused, Err(EngineError::PermissionRefused { why, .. }) if why == by_project),
                "{id}: {refused:?}"
            );
        }
    }
    // A question about the project is asked in a session of the project.
    let tool = ctx().with_role(CallerRole::Tool);
    let asked = case.engine.permissions().gates().require_in_project(
        &tool,
        &project(),
        GatedOperation::Worktree,
        &["/x".to_owned()],
    );
    let Err(EngineError::PermissionPending { request, .. }) = asked else { panic!("{asked:?}") };
    let asked = case.engine.store().read(&ctx(), |r| r.requests().find(request.as_str()));
    assert_eq!(asked.expect("reads").expect("there").session.as_str(), "ses_a");
}

#[test]
fn the_newest_session_of_a_named_actor_gives_it_no_project() {
    let case = EngineFixture::new();
    case.session("ses_a", None);
    let bob = Context::new(Actor::new("bob").expect("actor"), NOW);
    let own: Session = serde_json::from_value(json!({ "id": "ses_bob", "slug": "s",
        "projectID": "p1", "directory": case.root(), "title": "t", "version": "1",
        "time": { "created": 1, "updated": NOW.0 + 5 } }))
    .expect("a session");
    let write = move |tx: &Tx<'_>| tx.sessions().create(&own);
    case.engine.store().write(&bob, write).wait().expect("written");
    let id: SessionId = "ses_bob".parse().expect("an id");
    case.engine
        .permissions()
        .gates()
        .require(&bob, &id, GatedOperation::Revert, &[])
        .expect("its own session");
    for gate in [GatedOperation::Worktree, GatedOperation::Delete, GatedOperation::Revert] {
        let asked = case.engine.permissions().gates().require_in_project(
            &bob,
            &project(),
            gate,
            &["x".to_owned()],
        );
        assert!(matches!(asked, Err(EngineError::PermissionPending { .. })), "{asked:?}");
    }
}

#[test]
fn a_named_actor_answers_once_at_most() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    case.ask_about_bash();
    let runner =
        Context::new(Actor::new("runner r").expect("actor"), NOW).with_role(CallerRole::Runner);
    let asked = case.engine.permissions().ask(&runner, &turn, &bash("make")).expect("asked");
    let PermissionOutcome::Pending(id) = asked else { panic!("{asked:?}") };
    // The session is its own, so it may answer, for this one time.
    let named = ctx().with_role(CallerRole::Named);
    let reply = |answer| case.engine.permissions().reply(&named, &id, answer, None);
    let refused = reply(PermissionReply::Always);
    assert!(matches!(refused, Err(PermissionError::Reply(ReplyError::OnlyOnce(_)))), "{refused:?}");
    assert_eq!(
        case.engine.permissions().rules().list_approvals(&ctx(), &project()).expect("reads"),
        []
    );
    reply(PermissionReply::Once).expect("once");
    case.end(&turn);
}

#[test]
fn overwriting_a_checkpoint_passes_the_gate_of_its_removal() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let runner = ctx().with_role(CallerRole::Runner);
    case.engine
        .history()
        .checkpoints()
        .create(&runner, &session, "new")
        .expect("a new name is free");
    case.engine.history().checkpoints().create(&ctx(), &session, "noon").expect("made");
    let asked = case.engine.history().checkpoints().create(&runner, &session, "noon");
    assert!(
        matches!(
            asked,
            Err(EngineError::PermissionPending { gate: GatedOperation::Checkpoint, .. })
        ),
        "{asked:?}"
    );
    assert_eq!(case.engine.history().checkpoints().list(&ctx(), &session).expect("reads").len(), 2);
    let rule = PermissionRule::new("checkpoint", "noon", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let refused = case.engine.history().checkpoints().create(&ctx(), &session, "noon");
    assert!(matches!(refused, Err(EngineError::PermissionRefused { .. })), "{refused:?}");
    case.engine.permissions().rules().unset(&ctx(), &project(), &rule).expect("removed");
    case.engine.history().checkpoints().create(&ctx(), &session, "noon").expect("a person may");
}

#[test]
fn relinking_a_project_passes_the_gate_of_its_worktrees() {
    let case = EngineFixture::new();
    case.session("ses_a", None);
    let other = case.dir.path().join("other");
    fs_err::create_dir(&other).expect("made");
    let tool = ctx().with_role(CallerRole::Tool);
    let asked = case.engine.projects().relink(&tool, &project(), &other);
    assert!(
        matches!(asked, Err(EngineError::PermissionPending { gate: GatedOperation::Worktree, .. })),
        "{asked:?}"
    );
    let rule = PermissionRule::new("worktree", "*/other", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &rule).expect("stored");
    let refused = case.engine.projects().relink(&ctx(), &project(), &other);
    assert!(matches!(refused, Err(EngineError::PermissionRefused { .. })), "{refused:?}");
    let found = case.engine.store().read(&ctx(), |r| r.projects().find(&project())).expect("reads");
    assert!(found.is_some_and(|it| it.sandboxes.is_empty()), "nothing has changed");
    case.engine.permissions().rules().unset(&ctx(), &project(), &rule).expect("removed");
    case.engine.projects().relink(&ctx(), &project(), &other).expect("a person may");
}
