//! Permissions: rules in one order, requests that outlive their process, answers that count once.

use serde_json::json;
use turnstone_core::id::{PermissionId, ProjectId, SessionId};
use turnstone_core::model::{PermissionAsk, PermissionReply, RequestState, Session, ToolCallRef};
use turnstone_core::permission::{
    AskPolicy, CallerRole, GatedOperation, PermissionRule, ReplyError, RuleAction, RuleSource,
};
use turnstone_core::time::SessionSeq;
use turnstone_core::turn::TurnState;
use turnstone_engine::{
    Engine, EngineError, EngineSettings, GateRefusal, PermissionError, PermissionOutcome,
    PermissionQuery, SessionPoint, Turn, UndoOptions, UndoTarget,
};
use turnstone_store::{Actor, Context, Tx};

use crate::engine_fixture::{EngineFixture, NOW, ctx, prompt};

fn rule(permission: &str, pattern: &str, action: RuleAction) -> PermissionRule {
    PermissionRule::new(permission, pattern, action)
}

fn bash(pattern: &str) -> PermissionQuery {
    let tool = ToolCallRef {
        message: "msg_1".parse().expect("an id"),
        call: "c".into(),
        extra: Default::default(),
    };
    let ask = PermissionAsk {
        permission: "bash".into(),
        patterns: vec![pattern.into()],
        metadata: Default::default(),
        always: vec![format!("{} *", pattern.split(' ').next().unwrap_or_default())],
        tool: Some(tool),
        extra: Default::default(),
    };
    PermissionQuery { ask, blocks_turn: true }
}

fn ask(case: &EngineFixture, turn: &Turn, pattern: &str) -> PermissionOutcome {
    case.ask_about_bash();
    case.engine.permissions().ask(&ctx(), turn, &bash(pattern)).expect("asked")
}

fn pending(case: &EngineFixture, turn: &Turn, pattern: &str) -> PermissionId {
    let PermissionOutcome::Pending(id) = ask(case, turn, pattern) else {
        panic!("{pattern} is not asked")
    };
    id
}

fn state(case: &EngineFixture, id: &PermissionId) -> RequestState {
    case.engine.store().read(&ctx(), |r| r.requests().state(id.as_str())).expect("reads")
}

fn is_replied(case: &EngineFixture, id: &PermissionId, wanted: PermissionReply) -> bool {
    matches!(state(case, id), RequestState::Replied { reply, .. } if reply == wanted)
}

fn turn_state(case: &EngineFixture, session: &SessionId) -> TurnState {
    let turns = case.engine.store().read(&ctx(), |r| r.turns().list(session)).expect("reads");
    turns.last().expect("a turn").state
}

fn project() -> ProjectId {
    "p1".parse().expect("an id")
}

fn set_rules(case: &EngineFixture, session: &SessionId, rules: Vec<PermissionRule>) {
    let id = session.clone();
    let set = move |tx: &turnstone_store::Tx<'_>| {
        let rules = rules.clone();
        tx.sessions().update(&id, |session: &mut Session| {
            session.permission = Some(rules);
            Ok(())
        })
    };
    case.engine.store().write(&ctx(), set).wait().expect("set");
}

/// Proves W16.
#[test]
fn once_always_and_reject_take_effect() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let reply = |id: &PermissionId, answer| {
        case.engine.permissions().reply(&ctx(), id, answer, None).expect("answered")
    };
    let once = pending(&case, &turn, "git status");
    let done = reply(&once, PermissionReply::Once);
    assert_eq!((done.granted.len(), done.resolved.len()), (0, 1));
    assert!(
        matches!(ask(&case, &turn, "git status"), PermissionOutcome::Pending(_)),
        "only that time"
    );

    let (always, other) = (pending(&case, &turn, "git log"), pending(&case, &turn, "rm -r x"));
    let done = reply(&always, PermissionReply::Always);
    assert_eq!(done.granted, [rule("bash", "git *", RuleAction::Allow)]);
    assert_eq!(done.resolved.len(), 2, "the other question about git is answered too");
    assert_eq!(ask(&case, &turn, "git diff"), PermissionOutcome::Allowed);
    assert_eq!(state(&case, &other), RequestState::Pending);

    let more = pending(&case, &turn, "mv a b");
    reply(&other, PermissionReply::Reject);
    for id in [&other, &more] {
        assert!(is_replied(&case, id, PermissionReply::Reject), "all that the session asks");
    }
    let again = case.engine.permissions().reply(&ctx(), &more, PermissionReply::Once, None);
    assert!(matches!(again, Err(PermissionError::Reply(ReplyError::NotPending(_)))), "{again:?}");
    let unknown = "per_unknown".parse().expect("an id");
    let none = case.engine.permissions().reply(&ctx(), &unknown, PermissionReply::Once, None);
    assert!(matches!(none, Err(PermissionError::Reply(ReplyError::NoSuchRequest(_)))), "{none:?}");
    case.end(&turn);
}

#[test]
fn strict_requests_are_asked_although_builtin_rules_allow_them() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let strict = |permission: &str, policy| {
        let mut query = bash("x");
        query.ask.permission = permission.into();
        query.ask.patterns = vec!["*".into()];
        query.ask.always = vec!["*".into()];
        query.ask = query.ask.with_policy(policy);
        case.engine.permissions().ask(&ctx(), &turn, &query).expect("asked")
    };
    let pending = |outcome| match outcome {
        PermissionOutcome::Pending(id) => id,
        PermissionOutcome::Allowed | PermissionOutcome::Denied(_) => panic!("{outcome:?}"),
    };
    assert_eq!(strict("db_query", AskPolicy::ByRules), PermissionOutcome::Allowed);
    let query = pending(strict("db_query", AskPolicy::UnlessPersonAllows));
    let changed = pending(strict("db_write", AskPolicy::Always));
    let other = pending(strict("web_get", AskPolicy::UnlessPersonAllows));
    let always = PermissionReply::Always;
    let done = case.engine.permissions().reply(&ctx(), &other, always, None).expect("answered");
    assert_eq!(done.resolved.len(), 1, "an answer about one tool decides no other");
    for id in [&query, &changed] {
        assert_eq!(state(&case, id), RequestState::Pending);
    }
    case.engine.permissions().reply(&ctx(), &query, always, None).expect("answered");
    assert_eq!(strict("db_query", AskPolicy::UnlessPersonAllows), PermissionOutcome::Allowed);
    assert!(matches!(strict("db_query", AskPolicy::Always), PermissionOutcome::Pending(_)));
    set_rules(&case, &session, vec![rule("db_*", "*", RuleAction::Deny)]);
    let denied = strict("db_write", AskPolicy::Always);
    assert!(matches!(denied, PermissionOutcome::Denied(_)), "{denied:?}");
    case.end(&turn);
}

#[test]
fn reject_affects_own_session_and_denial_asks_no_one() {
    let case = EngineFixture::new();
    let (one, two) = (case.session("ses_a", None), case.session("ses_b", None));
    let turns = [case.begin(&one), case.begin(&two)];
    let mine = pending(&case, &turns[0], "ls");
    let theirs = pending(&case, &turns[1], "ls");
    let reject = PermissionReply::Reject;
    case.engine.permissions().reply(&ctx(), &mine, reject, Some("no")).expect("answered");
    assert_eq!(state(&case, &theirs), RequestState::Pending);
    set_rules(&case, &one, vec![rule("bash", "rm *", RuleAction::Deny)]);
    let denied = ask(&case, &turns[0], "rm -r /");
    assert!(
        matches!(&denied, PermissionOutcome::Denied(rules) if rules.iter().any(|r| r.pattern == "rm *"))
    );
    turns.iter().for_each(|turn| case.end(turn));
    assert_eq!(state(&case, &theirs), RequestState::Withdrawn, "its turn ended without it");
}

/// W16, R28: a restart loses neither the question nor its answer, and the call goes on once.
#[test]
fn waiting_turn_survives_restart_and_resumes_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let id = pending(&case, &turn, "make");
    assert_eq!(turn_state(&case, &session), TurnState::Waiting);
    drop(turn);
    let case = case.reopen();
    case.engine.maintenance().recover_all(&ctx()).expect("recovers");
    assert_eq!(turn_state(&case, &session), TurnState::Waiting, "nobody ended it");
    let pending = case.engine.permissions().pending(&ctx(), None).expect("reads");
    assert_eq!(pending.len(), 1, "it is listed again");
    assert_eq!(pending[0].id.as_str(), id.as_str());
    assert!(
        case.engine.permissions().resume_turn(&ctx(), &session).expect("reads").is_none(),
        "not answered"
    );

    let once = PermissionReply::Once;
    case.engine.permissions().reply(&ctx(), &id, once, None).expect("answered");
    let resumed =
        case.engine.permissions().resume_turn(&ctx(), &session).expect("reads").expect("goes on");
    assert!(
        case.engine.permissions().resume_turn(&ctx(), &session).expect("reads").is_none(),
        "once"
    );
    assert_eq!(turn_state(&case, &session), TurnState::Running);
    case.edit(&resumed.turn, "f", Some("made"));
    case.end(&resumed.turn);
    assert!(case.undo(&session, &UndoTarget::Last).is_complete());
}

/// Proves W16.
#[test]
fn question_survives_restart_and_is_answered_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let question = json!({"questions": [{"question": "Which?", "header": "Which",
        "options": [{"label": "this", "description": "d"}]}]});
    let question = serde_json::from_value(question).expect("a question");
    let id = case.engine.permissions().ask_question(&ctx(), &turn, question, true).expect("asked");
    let case = case.reopen();
    let pending = case.engine.permissions().pending(&ctx(), Some(&session)).expect("reads");
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].id.as_str(), id.as_str());
    let answers = |label: &str| RequestState::Answered { answers: vec![vec![label.into()]] };
    case.engine
        .permissions()
        .answer_question(&ctx(), &pending[0].id, answers("this"))
        .expect("answered");
    assert!(
        case.engine.permissions().answer_question(&ctx(), &pending[0].id, answers("that")).is_err(),
        "the first counts"
    );
    let resumed =
        case.engine.permissions().resume_turn(&ctx(), &session).expect("reads").expect("goes on");
    case.end(&resumed.turn);
}

#[test]
fn concurrent_answers_count_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let id = pending(&case, &turn, "make");
    let other =
        Engine::open(EngineSettings::new(&case.dir.path().join("data")), NOW).expect("opens");
    let reply =
        |engine: &Engine, answer| engine.permissions().reply(&ctx(), &id, answer, None).is_ok();
    let answers: Vec<bool> = std::thread::scope(|scope| {
        let one = scope.spawn(|| reply(&case.engine, PermissionReply::Always));
        let two = scope.spawn(|| reply(&other, PermissionReply::Reject));
        vec![one.join().expect("done"), two.join().expect("done")]
    });
    assert_eq!(answers.iter().filter(|ok| **ok).count(), 1);
    let granted =
        case.engine.permissions().rules().list_approvals(&ctx(), &project()).expect("reads");
    assert_eq!(granted.len(), usize::from(answers[0]), "a lost answer grants nothing");
    case.end(&turn);
}

/// R38, W9, W32: what is stored counts at once, in one order, and a prompt erases none of it.
#[test]
fn rule_order_is_fixed_and_prompt_keeps_session_rules() {
    let case = EngineFixture::new();
    let parent = case.session("ses_a", None);
    let child = case.session("ses_b", Some("ses_a"));
    case.ask_about_bash();
    let explain = |session: &SessionId, permission: &str, pattern: &str| {
        let rules = case.engine.permissions().rules().effective(&ctx(), session).expect("reads");
        let explained = rules.explain(permission, pattern);
        (explained.action, explained.source)
    };
    assert_eq!(explain(&child, "edit", "x"), (RuleAction::Allow, Some(RuleSource::Builtin)));
    assert_eq!(explain(&child, "bash", "ls"), (RuleAction::Ask, Some(RuleSource::User)));

    let turn = case.begin(&child);
    set_rules(&case, &child, vec![rule("bash", "*", RuleAction::Allow)]);
    assert_eq!(ask(&case, &turn, "ls"), PermissionOutcome::Allowed, "during the run");
    set_rules(
        &case,
        &parent,
        vec![rule("bash", "rm *", RuleAction::Deny), rule("edit", "*", RuleAction::Allow)],
    );
    assert_eq!(explain(&child, "bash", "rm x"), (RuleAction::Deny, Some(RuleSource::Parent)));
    assert_eq!(explain(&child, "bash", "ls"), (RuleAction::Allow, Some(RuleSource::Session)));
    assert_eq!(explain(&child, "edit", "x").1, Some(RuleSource::Builtin), "only denials come down");
    case.end(&turn);

    let mut with_tools = prompt(&child, "u2");
    if let turnstone_core::model::MessageBody::User(user) = &mut with_tools.message.body {
        user.tools = json!({"webfetch": false, "read": true}).as_object().cloned();
    }
    let turn = case.engine.turns().begin(&ctx(), with_tools).expect("begins");
    assert_eq!(explain(&child, "webfetch", "x"), (RuleAction::Deny, Some(RuleSource::Session)));
    assert_eq!(explain(&child, "bash", "ls"), (RuleAction::Allow, Some(RuleSource::Session)), "W9");
    assert_eq!(explain(&child, "bash", "rm x"), (RuleAction::Deny, Some(RuleSource::Parent)), "W9");
    case.end(&turn);
}

/// Proves R20.
#[test]
fn revoked_approval_is_not_restored_by_redo() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    let id = pending(&case, &turn, "git log");
    let always = PermissionReply::Always;
    case.engine.permissions().reply(&ctx(), &id, always, None).expect("answered");
    case.engine.permissions().continue_turn(&ctx(), &turn).expect("goes on");
    case.edit(&turn, "f", Some("x"));
    case.end(&turn);
    let case = case.reopen();
    let granted =
        case.engine.permissions().rules().list_approvals(&ctx(), &project()).expect("reads");
    assert_eq!(granted, [rule("bash", "git *", RuleAction::Allow)], "it is durable");
    assert!(
        case.engine
            .permissions()
            .rules()
            .revoke_approval(&ctx(), &project(), &granted[0])
            .expect("revoked")
    );
    assert!(
        !case
            .engine
            .permissions()
            .rules()
            .revoke_approval(&ctx(), &project(), &granted[0])
            .expect("nothing"),
        "once"
    );
    case.undo(&session, &UndoTarget::Last);
    case.redo(&session);
    assert!(
        case.engine
            .permissions()
            .rules()
            .list_approvals(&ctx(), &project())
            .expect("reads")
            .is_empty()
    );
    let turn = case.begin(&session);
    assert!(matches!(ask(&case, &turn, "git log"), PermissionOutcome::Pending(_)));
    case.end(&turn);
}

fn by(role: CallerRole) -> Context {
    ctx().with_role(role)
}

fn another_user() -> Context {
    Context::new(Actor::new("bob").expect("actor"), NOW)
}

fn seq(case: &EngineFixture, session: &SessionId) -> SessionSeq {
    case.engine.store().read(&ctx(), |r| r.sessions().seq(session)).expect("reads")
}

/// Proves R37.
#[test]
fn gate_allows_people_asks_for_models_records_denials() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let paths = ["src/main.rs".to_owned()];
    let require = |ctx: &Context| {
        case.engine.permissions().gates().require(ctx, &session, GatedOperation::Revert, &paths)
    };
    require(&by(CallerRole::Person)).expect("a person");
    require(&by(CallerRole::Named)).expect("the client of the session");
    for ctx in [by(CallerRole::Tool), another_user()] {
        let ctx = Context { request: Some(format!("of_{}", ctx.actor.as_str())), ..ctx };
        let Err(EngineError::PermissionPending { request, .. }) = require(&ctx) else {
            panic!("asked about")
        };
        let again = require(&ctx);
        assert!(
            matches!(again, Err(EngineError::PermissionPending { request: same, .. }) if same == request)
        );
        let state = case.engine.store().read(&ctx, |r| r.requests().state(request.as_str()));
        assert_eq!(state.expect("reads"), RequestState::Pending);
        let once = PermissionReply::Once;
        let own = case.engine.permissions().reply(&ctx, &request, once, None);
        assert!(
            matches!(own, Err(PermissionError::Reply(ReplyError::NotAllowedToAnswer(_)))),
            "{own:?}"
        );
        let person = by(CallerRole::Person);
        case.engine.permissions().reply(&person, &request, once, None).expect("answered");
        require(&ctx).expect("answered");
        let other = case.engine.permissions().gates().require(
            &ctx,
            &session,
            GatedOperation::Revert,
            &["other".to_owned()],
        );
        assert!(matches!(other, Err(EngineError::Store(_))), "an answer to another question");
    }

    set_rules(&case, &session, vec![rule("revert", "src/*", RuleAction::Deny)]);
    let before = seq(&case, &session);
    let refused = require(&by(CallerRole::Person));
    let Err(EngineError::PermissionRefused { pattern, why, .. }) = refused else {
        panic!("refused")
    };
    assert_eq!((pattern.as_str(), why), ("src/main.rs", GateRefusal::Rule(RuleSource::Session)));
    assert!(seq(&case, &session) > before, "the refusal is in the log");
    assert!(case.engine.permissions().pending(&ctx(), None).expect("reads").is_empty());
}

/// A client that repeats its request makes a new plan each time; the answer to the first counts for it.
/// Proves R37.
#[test]
fn answer_lets_a_repeated_undo_with_the_same_paths_pass_once() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    let options = UndoOptions::default();
    let tool = Context { request: Some("r1".to_owned()), ..by(CallerRole::Tool) };
    let undo = || {
        let plan = case.engine.history().plan_undo(&tool, &session, &UndoTarget::Last, &options)?;
        case.engine.history().apply(&tool, &plan)
    };
    let Err(EngineError::PermissionPending { request, .. }) = undo() else { panic!("asked about") };
    assert_eq!((request.as_str(), case.read("f").as_deref()), ("per_r1", Some("x")));
    let once = PermissionReply::Once;
    case.engine.permissions().reply(&ctx(), &request, once, None).expect("answered");
    assert!(undo().expect("granted").is_complete());
    assert_eq!(case.read("f"), None);

    case.turn(&session, "f", Some("y"));
    let again = undo();
    assert!(
        matches!(&again, Err(EngineError::PermissionPending { request, .. }) if request.as_str() != "per_r1"),
        "{again:?}"
    );
    assert_eq!(case.read("f").as_deref(), Some("y"));
}

/// Proves R37.
#[test]
fn refused_gate_blocks_undo_redo_revert_and_jump() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let turn = case.turn(&session, "f", Some("x"));
    let options = UndoOptions::default();
    let plan = case
        .engine
        .history()
        .plan_undo(&ctx(), &session, &UndoTarget::Last, &options)
        .expect("a plan");

    // A tool asks; nothing happens until a person has answered, and then just this plan.
    let tool = by(CallerRole::Tool);
    let Err(EngineError::PermissionPending { request, .. }) =
        case.engine.history().apply(&tool, &plan)
    else {
        panic!("asked about")
    };
    assert_eq!(case.read("f").as_deref(), Some("x"));
    let once = PermissionReply::Once;
    case.engine.permissions().reply(&ctx(), &request, once, None).expect("answered");
    assert!(case.engine.history().apply(&tool, &plan).expect("applied").is_complete());
    assert_eq!(case.read("f"), None);

    set_rules(&case, &session, vec![rule("revert", "*", RuleAction::Deny)]);
    let redo = case
        .engine
        .history()
        .plan_redo(&ctx(), &session, &UndoTarget::Last, &options)
        .expect("a plan");
    let jump =
        case.engine.history().plan_jump(&ctx(), &session, &SessionPoint::After(turn), &options);
    let operations = || case.engine.store().read(&ctx(), |r| r.operations().list(&session));
    let before = operations().expect("reads").len();
    for refused in [
        case.engine.history().apply(&ctx(), &redo).map(drop),
        case.engine.history().apply(&ctx(), &jump.expect("a plan")).map(drop),
        case.engine.history().reverts().unrevert(&ctx(), &session).map(drop),
    ] {
        assert!(matches!(refused, Err(EngineError::PermissionRefused { .. })), "{refused:?}");
    }
    assert_eq!(operations().expect("reads").len(), before, "none was begun");
    assert_eq!(case.read("f"), None);
    assert!(case.engine.permissions().pending(&ctx(), None).expect("reads").is_empty());
}

/// Proves R37.
#[test]
fn rejected_operation_stays_rejected() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    let options = UndoOptions::default();
    let plan = case
        .engine
        .history()
        .plan_undo(&ctx(), &session, &UndoTarget::Last, &options)
        .expect("a plan");
    let Err(EngineError::PermissionPending { request, .. }) =
        case.engine.history().apply(&another_user(), &plan)
    else {
        panic!("asked about")
    };
    let no = PermissionReply::Reject;
    case.engine.permissions().reply(&ctx(), &request, no, None).expect("answered");
    let refused = case.engine.history().apply(&another_user(), &plan);
    assert!(
        matches!(refused, Err(EngineError::PermissionRefused { why: GateRefusal::Answer, .. })),
        "{refused:?}"
    );
    assert_eq!(case.read("f").as_deref(), Some("x"));
}

/// Proves R38.
#[test]
fn last_rule_source_decides() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let decisions = || {
        let rules = case.engine.permissions().rules().effective(&ctx(), &session).expect("reads");
        let each = rules.explain_each("bash", "ls -l");
        let last = rules.explain("bash", "ls -l");
        assert_eq!(each.last().map(|it| it.source), Some(last.source));
        each.into_iter().filter_map(|it| Some((it.source?, it.action))).collect::<Vec<_>>()
    };
    assert_eq!(decisions(), [(RuleSource::Builtin, RuleAction::Allow)]);
    case.put("opencode.json", Some("{ // ours\n \"permission\": {\"bash\": \"ask\",}}"));
    assert_eq!(decisions().last(), Some(&(RuleSource::Project, RuleAction::Ask)));
    case.put("turnstone.json", Some(r#"{"permission": {"bash": {"ls *": "allow"}}}"#));
    assert_eq!(decisions().last(), Some(&(RuleSource::Project, RuleAction::Ask)), "untrusted");
    case.trust("turnstone.json");
    assert_eq!(decisions().last(), Some(&(RuleSource::Project, RuleAction::Allow)));
    let stored = rule("bash", "*", RuleAction::Deny);
    case.engine.permissions().rules().set(&ctx(), &project(), &stored).expect("stored");
    assert_eq!(decisions().last(), Some(&(RuleSource::Stored, RuleAction::Deny)));
    set_rules(&case, &session, vec![rule("bash", "ls*", RuleAction::Ask)]);
    assert_eq!(decisions().last(), Some(&(RuleSource::Session, RuleAction::Ask)));
    let granted = rule("bash", "ls *", RuleAction::Allow);
    let approve = move |tx: &Tx<'_>| tx.projects().approve_rule(&project(), &granted);
    case.engine.store().write(&ctx(), approve).wait().expect("approved");
    assert_eq!(
        decisions(),
        [
            (RuleSource::Builtin, RuleAction::Allow),
            (RuleSource::Project, RuleAction::Allow),
            (RuleSource::Stored, RuleAction::Deny),
            (RuleSource::Session, RuleAction::Ask),
            (RuleSource::Approval, RuleAction::Allow),
        ]
    );
    assert!(case.engine.permissions().rules().unset(&ctx(), &project(), &stored).expect("removed"));
    assert!(
        !case.engine.permissions().rules().unset(&ctx(), &project(), &stored).expect("nothing")
    );
    case.assert_consistent();
}

/// Proves R38.
#[test]
fn invalid_project_rule_file_is_an_error_and_opens_no_gate() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.turn(&session, "f", Some("x"));
    case.put("opencode.json", Some("{\"permission\": {\"revert\": \"nev"));
    let plan = case.plan(&session, &UndoTarget::Last);
    let refused = case.engine.history().apply(&ctx(), &plan);
    assert!(matches!(refused, Err(EngineError::UnreadableRules { .. })), "{refused:?}");
    assert_eq!(case.read("f").as_deref(), Some("x"));
}

#[test]
fn unreadable_rule_file_errors_quote_no_content() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    let file = case.root().join("turnstone.json");
    let refusal = || match case.engine.permissions().rules().effective(&ctx(), &session) {
        Err(EngineError::UnreadableRules { path, reason }) => {
            assert_eq!(path, file);
            reason
        }
        other => panic!("{other:?}"),
    };
    let secret = case.root().with_extension("secret");
    let hunter = r#"{"permission": {"hunter2": {"hunter2": "hunter2"}}}"#;
    fs_err::write(&secret, hunter).expect("written");
    for target in ["/dev/zero", secret.to_str().expect("text")] {
        std::os::unix::fs::symlink(target, &file).expect("linked");
        let reason = refusal();
        assert!(!reason.contains("hunter2"), "{reason}");
        fs_err::remove_file(&file).expect("removed");
    }
    for content in ["hunter2", "{\"permission\": [\"hunter2\"]}", "{\"permission\": \"hunter2\"}"] {
        case.put("turnstone.json", Some(content));
        let reason = refusal();
        assert!(!reason.contains("hunter2"), "{reason}");
    }
    case.put("turnstone.json", Some(&" ".repeat((1 << 20) + 1)));
    assert!(refusal().contains("larger than 1048576 bytes"));
    fs_err::remove_file(&file).expect("removed");
    fs_err::create_dir(&file).expect("made");
    assert!(refusal().contains("not a regular file"));
}
