//! The cases of section 9 and of OpenCode's permission tests (12.8), restated.

use proptest::prelude::*;
use proptest::sample::select;
use turnstone_core::model::{PermissionReply, RequestBody, RequestId, RequestState, UserRequest};
use turnstone_core::permission::{
    GateCaller, GatedOperation, PermissionRule, PermissionVerdict, ReplyEffects, ReplyError,
    RuleAction, RuleLayer, RuleSource, decide_gate, decide_request, explain_decision,
    inherited_rules, list_hidden_tools, resolve_reply,
};

use RuleAction::{Allow, Ask, Deny};

fn rules(list: &[(&str, &str, RuleAction)]) -> Vec<PermissionRule> {
    list.iter()
        .map(|(permission, pattern, action)| PermissionRule::new(permission, pattern, *action))
        .collect()
}

fn layer(source: RuleSource, rules: &[PermissionRule]) -> RuleLayer<'_> {
    RuleLayer { source, rules }
}

fn action(permission: &str, pattern: &str, list: &[(&str, &str, RuleAction)]) -> RuleAction {
    explain_decision(permission, pattern, &[layer(RuleSource::Project, &rules(list))]).action
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn last_match_wins() {
    let specific_last = [("bash", "*", Allow), ("bash", "rm", Deny)];
    let general_last = [("bash", "rm", Deny), ("bash", "*", Allow)];
    assert_eq!(action("bash", "rm", &specific_last), Deny);
    assert_eq!(action("bash", "rm", &general_last), Allow);
    let nested = [("edit", "src/*", Deny), ("edit", "src/components/*", Allow)];
    assert_eq!(action("edit", "src/components/Button.tsx", &nested), Allow);
    let reversed = [("edit", "src/components/*", Allow), ("edit", "src/*", Deny)];
    assert_eq!(action("edit", "src/components/Button.tsx", &reversed), Deny);
}

#[test]
fn no_match_asks() {
    let none = explain_decision("bash", "rm", &[]);
    assert_eq!((none.action, none.rule), (Ask, None));
    assert_eq!(action("bash", "rm", &[]), Ask);
    assert_eq!(action("unknown_tool", "anything", &[("bash", "*", Allow)]), Ask);
    assert_eq!(action("edit", "etc/passwd", &[("edit", "src/*", Allow)]), Ask);
}

#[test]
fn permission_names_are_wildcards() {
    assert_eq!(action("bash", "rm", &[("*", "*", Deny)]), Deny);
    assert_eq!(action("bash", "rm", &[("*", "rm", Deny)]), Deny);
    assert_eq!(action("mcp_server_tool", "anything", &[("mcp_*", "*", Allow)]), Allow);
    let mixed = [("*", "*", Deny), ("mcp_*", "*", Allow), ("mcp_dangerous", "*", Deny)];
    assert_eq!(action("mcp_safe", "x", &mixed), Allow);
    assert_eq!(action("mcp_dangerous", "x", &mixed), Deny);
    assert_eq!(action("bash", "x", &mixed), Deny);
}

#[test]
fn tasks_are_allowed_by_agent() {
    let tasks = [("task", "*", Deny), ("task", "code-*", Allow), ("task", "code-danger", Ask)];
    assert_eq!(action("task", "general", &tasks), Deny);
    assert_eq!(action("task", "code-review", &tasks), Allow);
    assert_eq!(action("task", "code-danger", &tasks), Ask);
}

#[test]
fn layers_form_one_list_and_name_the_rule() {
    let defaults = rules(&[("*", "*", Ask), ("bash", "*", Allow)]);
    let session = rules(&[("bash", "git push *", Deny)]);
    let layers = [layer(RuleSource::Builtin, &defaults), layer(RuleSource::Session, &session)];
    let found = explain_decision("bash", "git push origin", &layers);
    assert_eq!(
        (found.action, found.source, found.index),
        (Deny, Some(RuleSource::Session), Some(0))
    );
    let found = explain_decision("bash", "ls", &layers);
    assert_eq!(
        (found.action, found.source, found.index),
        (Allow, Some(RuleSource::Builtin), Some(1))
    );
}

#[test]
fn every_pattern_is_decided_before_asking() {
    let list = rules(&[("bash", "echo *", Allow), ("bash", "rm *", Deny), ("edit", "*", Allow)]);
    let judge = |patterns: &[&str]| {
        decide_request("bash", &strings(patterns), &[layer(RuleSource::User, &list)])
    };
    assert_eq!(judge(&["echo a", "echo b"]), PermissionVerdict::Allowed);
    assert_eq!(judge(&["echo a", "make"]), PermissionVerdict::Ask);
    // W: 1.2.10 asked at the first and missed the denial after it.
    let denied = PermissionVerdict::Denied { rules: list[..2].to_vec() };
    assert_eq!(judge(&["make", "rm -rf ."]), denied);
    assert_eq!(judge(&["echo a", "rm -rf .", "make"]), denied);
}

#[test]
fn request_without_patterns_means_any() {
    let judge = |list: &[(&str, &str, RuleAction)]| {
        decide_request("bash", &[], &[layer(RuleSource::Project, &rules(list))])
    };
    assert_eq!(judge(&[("bash", "*", Allow)]), PermissionVerdict::Allowed);
    assert_eq!(judge(&[("bash", "ls", Allow)]), PermissionVerdict::Ask);
    assert!(matches!(judge(&[("*", "*", Deny)]), PermissionVerdict::Denied { .. }));
}

#[test]
fn tool_is_hidden_only_by_final_full_denial() {
    let hidden = |tools: &[&'static str], list: &[(&str, &str, RuleAction)]| {
        list_hidden_tools(tools, &[layer(RuleSource::Project, &rules(list))])
    };
    assert!(hidden(&["bash", "edit"], &[]).is_empty());
    assert_eq!(hidden(&["bash", "edit"], &[("bash", "*", Deny)]), ["bash"]);
    assert!(hidden(&["bash"], &[("bash", "rm *", Deny)]).is_empty());
    assert!(hidden(&["bash"], &[("bash", "*", Ask)]).is_empty());
    assert!(hidden(&["bash"], &[("bash", "*", Deny), ("bash", "ls *", Allow)]).is_empty());
    assert_eq!(hidden(&["bash"], &[("bash", "ls *", Allow), ("bash", "*", Deny)]), ["bash"]);
    let all_but_one = [("*", "*", Deny), ("bash", "*", Allow)];
    assert_eq!(hidden(&["bash", "read", "mcp_x"], &all_but_one), ["read", "mcp_x"]);
    let edit = [("edit", "*", Deny)];
    assert_eq!(
        hidden(&["edit", "write", "apply_patch", "read"], &edit),
        ["edit", "write", "apply_patch"]
    );
    let read = [("read", "*", Deny)];
    assert_eq!(
        hidden(&["read_mcp_resource", "grep", "read"], &read),
        ["read_mcp_resource", "read"]
    );
}

#[test]
fn hidden_tools_consider_all_layers() {
    let (defaults, later) = (rules(&[("bash", "*", Deny)]), rules(&[("bash", "*", Allow)]));
    let over =
        |weak, strong| [layer(RuleSource::Builtin, weak), layer(RuleSource::Session, strong)];
    assert_eq!(list_hidden_tools(&["bash"], &over(&later, &defaults)), ["bash"]);
    assert!(list_hidden_tools(&["bash"], &over(&defaults, &later)).is_empty());
    let denied_by_user = [layer(RuleSource::User, &defaults), layer(RuleSource::Session, &later)];
    assert_eq!(list_hidden_tools(&["bash"], &denied_by_user), ["bash"]);
}

#[test]
fn r38_sources_decide_in_their_order_whatever_order_they_come_in() {
    let allow = rules(&[("bash", "*", Allow)]);
    let deny = rules(&[("bash", "*", Deny)]);
    for (index, later) in RuleSource::ALL.into_iter().enumerate() {
        for earlier in RuleSource::ALL.into_iter().take(index) {
            let layers = [
                RuleLayer { source: later, rules: &deny },
                RuleLayer { source: earlier, rules: &allow },
            ];
            let explained = explain_decision("bash", "ls", &layers);
            assert_eq!((explained.action, explained.source), (Deny, Some(later)));
        }
    }
}

/// Proves R38.
#[test]
fn explanation_names_rule_and_source() {
    let defaults = rules(&[("*", "*", Allow)]);
    let user = rules(&[("bash", "*", Ask), ("bash", "git *", Allow)]);
    let layers = [
        RuleLayer { source: RuleSource::Builtin, rules: &defaults },
        RuleLayer { source: RuleSource::User, rules: &user },
    ];
    let explained = explain_decision("bash", "git log", &layers);
    assert_eq!(explained.rule, Some(user[1].clone()));
    assert_eq!((explained.source, explained.index), (Some(RuleSource::User), Some(1)));
    let explained = explain_decision("bash", "git log", &[]);
    assert_eq!((explained.action, explained.rule, explained.source), (Ask, None, None));
}

#[test]
fn only_user_denial_is_final() {
    let (allow, deny) = (rules(&[("bash", "*", Allow)]), rules(&[("bash", "rm *", Deny)]));
    for later in RuleSource::ALL.into_iter().filter(|it| *it != RuleSource::UnknownAgent) {
        let layers = [layer(RuleSource::User, &deny), layer(later, &allow)];
        let found = explain_decision("bash", "rm x", &layers);
        // Within the user's own configuration the last match decides, as everywhere.
        let expected = if later.is_of_user() { Allow } else { Deny };
        assert_eq!((found.action, found.is_final), (expected, expected == Deny), "{later:?}");
        assert_eq!(explain_decision("bash", "ls", &layers).action, Allow, "{later:?}");
    }
    let layers = [layer(RuleSource::Project, &deny), layer(RuleSource::Session, &allow)];
    let found = explain_decision("bash", "rm x", &layers);
    assert_eq!((found.action, found.is_final), (Allow, false));
    let json =
        serde_json::to_value(explain_decision("bash", "rm x", &[layer(RuleSource::User, &deny)]));
    assert_eq!(json.expect("JSON")["final"], true);
}

fn any_rule() -> impl Strategy<Value = PermissionRule> {
    let permission = select(vec!["*", "bash", "revert", "delete", "b*", "forget"]);
    let pattern = select(vec!["*", "a", "a*", "rm *", "rm x"]);
    (permission, pattern, select(vec![Allow, Ask, Deny]))
        .prop_map(|(permission, pattern, action)| PermissionRule::new(permission, pattern, action))
}

fn any_layers() -> impl Strategy<Value = Vec<(RuleSource, Vec<PermissionRule>)>> {
    prop::collection::vec(
        (select(RuleSource::ALL.to_vec()), prop::collection::vec(any_rule(), 0..5)),
        0..9,
    )
}

proptest! {
    /// The user's own configuration is evaluated first and its denial is final, whatever all the
    /// other sources say, for tools, for gates and for answers.
    #[test]
    fn denial_by_the_user_always_denies(
        others in any_layers(),
        user in prop::collection::vec(any_rule(), 1..5),
        permission in select(vec!["bash", "revert", "delete", "forget"]),
        pattern in select(vec!["a", "rm x", "other"]),
    ) {
        let others: Vec<_> = others.into_iter().filter(|(it, _)| !it.is_of_user()).collect();
        let mut layers: Vec<RuleLayer<'_>> =
            others.iter().map(|(source, rules)| layer(*source, rules)).collect();
        layers.insert(layers.len() / 2, layer(RuleSource::User, &user));
        let alone = explain_decision(permission, pattern, &[layer(RuleSource::User, &user)]);
        let found = explain_decision(permission, pattern, &layers);
        prop_assert_eq!(found.is_final, alone.action == Deny && alone.rule.is_some());
        if alone.is_final {
            prop_assert_eq!(found.action, Deny);
            let verdict = decide_request(permission, &strings(&[pattern]), &layers);
            let is_denied = matches!(verdict, PermissionVerdict::Denied { .. });
            prop_assert!(is_denied);
            if let Some(gate) = GatedOperation::parse(permission) {
                for caller in [GateCaller::Person, GateCaller::Client, GateCaller::Model, GateCaller::Other] {
                    prop_assert_eq!(decide_gate(gate, pattern, caller, &layers).action, Deny);
                }
            }
        }
    }
}

/// Proves R38.
#[test]
fn only_an_approval_allows_an_unknown_agent_anything() {
    let (allow, deny) = (rules(&[("bash", "*", Allow)]), rules(&[("bash", "rm *", Deny)]));
    let ask = rules(&[("*", "*", Ask)]);
    let unknown = layer(RuleSource::UnknownAgent, &ask);
    for source in RuleSource::ALL {
        let found = explain_decision("bash", "ls", &[unknown, layer(source, &allow)]);
        let expected = if source == RuleSource::Approval { Allow } else { Ask };
        assert_eq!(found.action, expected, "{source:?}");
        let denied = explain_decision("bash", "rm x", &[unknown, layer(source, &deny)]);
        let expected = if source == RuleSource::UnknownAgent { Ask } else { Deny };
        assert_eq!(denied.action, expected, "a denial stays: {source:?}");
    }
}

/// Proves R37, R38.
#[test]
fn agent_that_may_do_nothing_closes_no_gate_to_a_person() {
    let nothing = rules(&[("*", "*", Deny)]);
    let revert = rules(&[("revert", "*", Deny)]);
    for source in [RuleSource::Agent, RuleSource::UserForAgent, RuleSource::ProjectForAgent] {
        let decide = |caller, rules| {
            decide_gate(GatedOperation::Revert, "a", caller, &[layer(source, rules)]).action
        };
        assert_eq!(decide(GateCaller::Person, &nothing), Allow, "{source:?}");
        assert_eq!(decide(GateCaller::Model, &nothing), Deny, "{source:?}");
        assert_eq!(decide(GateCaller::Person, &revert), Deny, "named: {source:?}");
    }
}

#[test]
fn child_inherits_denials_and_external_directories() {
    let parent = rules(&[
        ("bash", "*", Allow),
        ("bash", "rm *", Deny),
        ("external_directory", "/srv/*", Allow),
        ("edit", "*", Ask),
    ]);
    assert_eq!(inherited_rules(&parent), [parent[1].clone(), parent[2].clone()]);
}

/// A pending request; the text after `per_` names it.
fn request(id: &str, session: &str, patterns: &[&str], always: &[&str]) -> UserRequest {
    let body = serde_json::json!({
        "kind": "permission", "permission": "bash", "patterns": patterns, "always": always,
    });
    UserRequest {
        id: RequestId::Permission(format!("per_{id}").parse().expect("an id")),
        session: format!("ses_{session}").parse().expect("an id"),
        body: serde_json::from_value(body).expect("a request"),
        state: RequestState::Pending,
    }
}

fn question(id: &str, session: &str) -> UserRequest {
    UserRequest {
        id: RequestId::Question(format!("que_{id}").parse().expect("an id")),
        body: serde_json::from_value(serde_json::json!({ "kind": "question", "questions": [] }))
            .expect("a question"),
        ..request("x", session, &[], &[])
    }
}

fn answer(
    id: &str,
    reply_: PermissionReply,
    requests: &[UserRequest],
    list: &[PermissionRule],
) -> ReplyEffects {
    let id = format!("per_{id}").parse().expect("an id");
    resolve_reply(&id, reply_, Some("why"), requests, &[layer(RuleSource::Project, list)])
        .expect("an open request")
}

fn resolved(effects: &ReplyEffects) -> Vec<&str> {
    effects.resolved.iter().map(|resolved| resolved.id.as_str()).collect()
}

#[test]
fn once_resolves_one_request_without_grant() {
    let requests = [request("a", "1", &["ls"], &["ls *"]), request("b", "1", &["ls"], &["ls *"])];
    let effects = answer("a", PermissionReply::Once, &requests, &[]);
    assert_eq!(resolved(&effects), ["per_a"]);
    assert_eq!(effects.granted, []);
}

#[test]
fn always_grants_and_resolves_allowed_requests() {
    let requests = [
        request("a", "1", &["git log"], &["git log *", "git show *"]),
        request("b", "1", &["git log -p"], &[]),
        request("c", "1", &["git show", "make"], &[]),
        request("d", "1", &["git push"], &[]),
        request("e", "2", &["git log"], &[]),
        UserRequest { state: RequestState::Withdrawn, ..request("f", "1", &["git log"], &[]) },
        question("q", "1"),
    ];
    let configured = rules(&[("bash", "make", Allow)]);
    let effects = answer("a", PermissionReply::Always, &requests, &configured);
    assert_eq!(
        effects.granted,
        rules(&[("bash", "git log *", Allow), ("bash", "git show *", Allow)])
    );
    // c is allowed by the new approval and the old configuration together.
    assert_eq!(resolved(&effects), ["per_a", "per_b", "per_c"]);
}

#[test]
fn reject_rejects_all_pending_of_session() {
    let requests = [
        request("a", "1", &["x"], &["*"]),
        request("b", "1", &["y"], &[]),
        request("c", "2", &["z"], &[]),
        question("q", "1"),
    ];
    let effects = answer("a", PermissionReply::Reject, &requests, &[]);
    assert_eq!(effects.granted, []);
    assert_eq!(resolved(&effects), ["per_a", "per_b"]);
    let state = |message: Option<&str>| RequestState::Replied {
        reply: PermissionReply::Reject,
        message: message.map(str::to_owned),
        used: false,
    };
    assert_eq!(effects.resolved[0].state, state(Some("why")));
    assert_eq!(effects.resolved[1].state, state(None));
}

#[test]
fn answer_cannot_override_user_denial() {
    let requests = [
        request("a", "1", &["rm x"], &["rm *"]),
        request("b", "1", &["git log"], &["*"]),
        request("c", "1", &["rm y"], &[]),
    ];
    let denied = rules(&[("bash", "rm *", Deny)]);
    let layers = [layer(RuleSource::User, &denied)];
    let try_reply = |id: &str, answer| {
        resolve_reply(&id.parse().expect("an id"), answer, None, &requests, &layers)
    };
    for answer in [PermissionReply::Once, PermissionReply::Always] {
        let refused = try_reply("per_a", answer);
        assert!(matches!(refused, Err(ReplyError::DeniedByUser { .. })), "{refused:?}");
    }
    assert!(try_reply("per_a", PermissionReply::Reject).is_ok());
    let effects = try_reply("per_b", PermissionReply::Always).expect("allowed");
    assert_eq!(resolved(&effects), ["per_b"], "an approval of everything does not include rm");
}

#[test]
fn always_opens_only_the_named_gate() {
    let gate = |id: &str, name: &str| {
        let mut request = request(id, "1", &["ses_x"], &["ses_x"]);
        if let RequestBody::Permission(ask) = &mut request.body {
            ask.permission = name.to_owned();
        }
        request
    };
    let requests = [
        request("a", "1", &["git log"], &["*"]),
        gate("b", "delete"),
        gate("c", "delete"),
        gate("d", "checkpoint"),
    ];
    let everything = rules(&[("*", "*", Allow)]);
    let layers = [layer(RuleSource::Builtin, &everything), layer(RuleSource::User, &everything)];
    let answer = |id: &str| {
        let id = id.parse().expect("an id");
        resolve_reply(&id, PermissionReply::Always, None, &requests, &layers).expect("answered")
    };
    assert_eq!(resolved(&answer("per_a")), ["per_a"], "no gate was named");
    assert_eq!(resolved(&answer("per_b")), ["per_b", "per_a", "per_c"]);
}

#[test]
fn unknown_or_closed_request_is_rejected() {
    let closed = UserRequest { state: RequestState::Withdrawn, ..request("a", "1", &["x"], &[]) };
    assert!(matches!(closed.body, RequestBody::Permission(_)));
    let try_reply = |id: &str| {
        let id = id.parse().expect("an id");
        resolve_reply(&id, PermissionReply::Once, None, std::slice::from_ref(&closed), &[])
    };
    let id = |text: &str| text.parse().expect("an id");
    assert_eq!(try_reply("per_b"), Err(ReplyError::NoSuchRequest(id("per_b"))));
    assert_eq!(try_reply("per_a"), Err(ReplyError::NotPending(id("per_a"))));
}
