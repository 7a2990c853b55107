//! The cases of section 9 and of OpenCode's permission tests (12.8), restated.

use proptest::prelude::*;
use proptest::sample::select;
use turnstone_core::model::{PermissionReply, Request, RequestBody, RequestId, RequestState};
use turnstone_core::permission::{
    Action, Caller, Effects, Gate, Layer, ReplyError, Rule, Source, Verdict, decide, disabled,
    explain, inherited, pass_gate, reply,
};

use Action::{Allow, Ask, Deny};

fn rules(list: &[(&str, &str, Action)]) -> Vec<Rule> {
    list.iter()
        .map(|(permission, pattern, action)| Rule::new(permission, pattern, *action))
        .collect()
}

fn layer(source: Source, rules: &[Rule]) -> Layer<'_> {
    Layer { source, rules }
}

fn action(permission: &str, pattern: &str, list: &[(&str, &str, Action)]) -> Action {
    explain(permission, pattern, &[layer(Source::Project, &rules(list))]).action
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn section_12_8_the_last_match_wins_whatever_is_more_specific() {
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
fn section_12_8_nothing_that_matches_means_ask() {
    let none = explain("bash", "rm", &[]);
    assert_eq!((none.action, none.rule), (Ask, None));
    assert_eq!(action("bash", "rm", &[]), Ask);
    assert_eq!(action("unknown_tool", "anything", &[("bash", "*", Allow)]), Ask);
    assert_eq!(action("edit", "etc/passwd", &[("edit", "src/*", Allow)]), Ask);
}

#[test]
fn section_12_8_permissions_are_wildcards_too() {
    assert_eq!(action("bash", "rm", &[("*", "*", Deny)]), Deny);
    assert_eq!(action("bash", "rm", &[("*", "rm", Deny)]), Deny);
    assert_eq!(action("mcp_server_tool", "anything", &[("mcp_*", "*", Allow)]), Allow);
    let mixed = [("*", "*", Deny), ("mcp_*", "*", Allow), ("mcp_dangerous", "*", Deny)];
    assert_eq!(action("mcp_safe", "x", &mixed), Allow);
    assert_eq!(action("mcp_dangerous", "x", &mixed), Deny);
    assert_eq!(action("bash", "x", &mixed), Deny);
}

#[test]
fn section_12_8_tasks_are_allowed_by_agent() {
    let tasks = [("task", "*", Deny), ("task", "code-*", Allow), ("task", "code-danger", Ask)];
    assert_eq!(action("task", "general", &tasks), Deny);
    assert_eq!(action("task", "code-review", &tasks), Allow);
    assert_eq!(action("task", "code-danger", &tasks), Ask);
}

#[test]
fn section_9_1_rulesets_are_one_list_and_the_rule_is_named() {
    let defaults = rules(&[("*", "*", Ask), ("bash", "*", Allow)]);
    let session = rules(&[("bash", "git push *", Deny)]);
    let layers = [layer(Source::Builtin, &defaults), layer(Source::Session, &session)];
    let found = explain("bash", "git push origin", &layers);
    assert_eq!((found.action, found.source, found.index), (Deny, Some(Source::Session), Some(0)));
    let found = explain("bash", "ls", &layers);
    assert_eq!((found.action, found.source, found.index), (Allow, Some(Source::Builtin), Some(1)));
}

#[test]
fn section_9_2_every_pattern_is_judged_before_anybody_is_asked() {
    let list = rules(&[("bash", "echo *", Allow), ("bash", "rm *", Deny), ("edit", "*", Allow)]);
    let judge =
        |patterns: &[&str]| decide("bash", &strings(patterns), &[layer(Source::User, &list)]);
    assert_eq!(judge(&["echo a", "echo b"]), Verdict::Allowed);
    assert_eq!(judge(&["echo a", "make"]), Verdict::Ask);
    // W: 1.2.10 asked at the first and missed the denial after it.
    let denied = Verdict::Denied { rules: list[..2].to_vec() };
    assert_eq!(judge(&["make", "rm -rf ."]), denied);
    assert_eq!(judge(&["echo a", "rm -rf .", "make"]), denied);
}

#[test]
fn a_request_without_patterns_is_judged_as_one_for_anything() {
    let judge = |list: &[(&str, &str, Action)]| {
        decide("bash", &[], &[layer(Source::Project, &rules(list))])
    };
    assert_eq!(judge(&[("bash", "*", Allow)]), Verdict::Allowed);
    assert_eq!(judge(&[("bash", "ls", Allow)]), Verdict::Ask);
    assert!(matches!(judge(&[("*", "*", Deny)]), Verdict::Denied { .. }));
}

#[test]
fn section_9_1_a_tool_is_hidden_only_by_a_last_denial_of_everything() {
    let hidden = |tools: &[&'static str], list: &[(&str, &str, Action)]| {
        disabled(tools, &[layer(Source::Project, &rules(list))])
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
fn section_9_1_hidden_tools_are_judged_over_all_rulesets() {
    let (defaults, later) = (rules(&[("bash", "*", Deny)]), rules(&[("bash", "*", Allow)]));
    let over = |weak, strong| [layer(Source::Builtin, weak), layer(Source::Session, strong)];
    assert_eq!(disabled(&["bash"], &over(&later, &defaults)), ["bash"]);
    assert!(disabled(&["bash"], &over(&defaults, &later)).is_empty());
    let denied_by_user = [layer(Source::User, &defaults), layer(Source::Session, &later)];
    assert_eq!(disabled(&["bash"], &denied_by_user), ["bash"]);
}

#[test]
fn r38_sources_decide_in_their_order_whatever_order_they_come_in() {
    let allow = rules(&[("bash", "*", Allow)]);
    let deny = rules(&[("bash", "*", Deny)]);
    for (index, later) in Source::ALL.into_iter().enumerate() {
        for earlier in Source::ALL.into_iter().take(index) {
            let layers =
                [Layer { source: later, rules: &deny }, Layer { source: earlier, rules: &allow }];
            let explained = explain("bash", "ls", &layers);
            assert_eq!((explained.action, explained.source), (Deny, Some(later)));
        }
    }
}

#[test]
fn r38_an_explanation_names_rule_and_source() {
    let defaults = rules(&[("*", "*", Allow)]);
    let user = rules(&[("bash", "*", Ask), ("bash", "git *", Allow)]);
    let layers = [
        Layer { source: Source::Builtin, rules: &defaults },
        Layer { source: Source::User, rules: &user },
    ];
    let explained = explain("bash", "git log", &layers);
    assert_eq!(explained.rule, Some(user[1].clone()));
    assert_eq!((explained.source, explained.index), (Some(Source::User), Some(1)));
    let explained = explain("bash", "git log", &[]);
    assert_eq!((explained.action, explained.rule, explained.source), (Ask, None, None));
}

#[test]
fn only_a_denial_by_the_user_is_final() {
    let (allow, deny) = (rules(&[("bash", "*", Allow)]), rules(&[("bash", "rm *", Deny)]));
    for later in Source::ALL {
        let layers = [layer(Source::User, &deny), layer(later, &allow)];
        let found = explain("bash", "rm x", &layers);
        // Within the user's own configuration the last match decides, as everywhere.
        let expected = if later == Source::User { Allow } else { Deny };
        assert_eq!((found.action, found.is_final), (expected, expected == Deny), "{later:?}");
        assert_eq!(explain("bash", "ls", &layers).action, Allow, "{later:?}");
    }
    let layers = [layer(Source::Project, &deny), layer(Source::Session, &allow)];
    let found = explain("bash", "rm x", &layers);
    assert_eq!((found.action, found.is_final), (Allow, false));
    let json = serde_json::to_value(explain("bash", "rm x", &[layer(Source::User, &deny)]));
    assert_eq!(json.expect("JSON")["final"], true);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let permission = select(vec!["*", "bash", "revert", "delete", "b*", "forget"]);
    let pattern = select(vec!["*", "a", "a*", "rm *", "rm x"]);
    (permission, pattern, select(vec![Allow, Ask, Deny]))
        .prop_map(|(permission, pattern, action)| Rule::new(permission, pattern, action))
}

fn any_layers() -> impl Strategy<Value = Vec<(Source, Vec<Rule>)>> {
    prop::collection::vec(
        (select(Source::ALL.to_vec()), prop::collection::vec(any_rule(), 0..5)),
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
        let others: Vec<_> = others.into_iter().filter(|(it, _)| *it != Source::User).collect();
        let mut layers: Vec<Layer<'_>> =
            others.iter().map(|(source, rules)| layer(*source, rules)).collect();
        layers.insert(layers.len() / 2, layer(Source::User, &user));
        let alone = explain(permission, pattern, &[layer(Source::User, &user)]);
        let found = explain(permission, pattern, &layers);
        prop_assert_eq!(found.is_final, alone.action == Deny && alone.rule.is_some());
        if alone.is_final {
            prop_assert_eq!(found.action, Deny);
            let verdict = decide(permission, &strings(&[pattern]), &layers);
            let is_denied = matches!(verdict, Verdict::Denied { .. });
            prop_assert!(is_denied);
            if let Some(gate) = Gate::parse(permission) {
                for caller in [Caller::Person, Caller::Client, Caller::Model, Caller::Other] {
                    prop_assert_eq!(pass_gate(gate, pattern, caller, &layers).action, Deny);
                }
            }
        }
    }
}

#[test]
fn section_6_7_a_child_inherits_denials_and_outside_directories() {
    let parent = rules(&[
        ("bash", "*", Allow),
        ("bash", "rm *", Deny),
        ("external_directory", "/srv/*", Allow),
        ("edit", "*", Ask),
    ]);
    assert_eq!(inherited(&parent), [parent[1].clone(), parent[2].clone()]);
}

/// A pending request; the text after `per_` names it.
fn request(id: &str, session: &str, patterns: &[&str], always: &[&str]) -> Request {
    let body = serde_json::json!({
        "kind": "permission", "permission": "bash", "patterns": patterns, "always": always,
    });
    Request {
        id: RequestId::Permission(format!("per_{id}").parse().expect("an id")),
        session: format!("ses_{session}").parse().expect("an id"),
        body: serde_json::from_value(body).expect("a request"),
        state: RequestState::Pending,
    }
}

fn question(id: &str, session: &str) -> Request {
    Request {
        id: RequestId::Question(format!("que_{id}").parse().expect("an id")),
        body: serde_json::from_value(serde_json::json!({ "kind": "question", "questions": [] }))
            .expect("a question"),
        ..request("x", session, &[], &[])
    }
}

fn answer(id: &str, reply_: PermissionReply, requests: &[Request], list: &[Rule]) -> Effects {
    let id = format!("per_{id}").parse().expect("an id");
    reply(&id, reply_, Some("why"), requests, &[layer(Source::Project, list)])
        .expect("an open request")
}

fn resolved(effects: &Effects) -> Vec<&str> {
    effects.resolved.iter().map(|resolved| resolved.id.as_str()).collect()
}

#[test]
fn section_9_2_once_decides_one_request_and_grants_nothing() {
    let requests = [request("a", "1", &["ls"], &["ls *"]), request("b", "1", &["ls"], &["ls *"])];
    let effects = answer("a", PermissionReply::Once, &requests, &[]);
    assert_eq!(resolved(&effects), ["per_a"]);
    assert_eq!(effects.granted, []);
}

#[test]
fn section_9_2_always_grants_and_decides_what_is_now_allowed_in_the_same_session() {
    let requests = [
        request("a", "1", &["git log"], &["git log *", "git show *"]),
        request("b", "1", &["git log -p"], &[]),
        request("c", "1", &["git show", "make"], &[]),
        request("d", "1", &["git push"], &[]),
        request("e", "2", &["git log"], &[]),
        Request { state: RequestState::Withdrawn, ..request("f", "1", &["git log"], &[]) },
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
fn section_9_2_reject_rejects_every_pending_permission_of_the_session() {
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
    };
    assert_eq!(effects.resolved[0].state, state(Some("why")));
    assert_eq!(effects.resolved[1].state, state(None));
}

#[test]
fn an_answer_cannot_allow_what_the_user_denies() {
    let requests = [
        request("a", "1", &["rm x"], &["rm *"]),
        request("b", "1", &["git log"], &["*"]),
        request("c", "1", &["rm y"], &[]),
    ];
    let denied = rules(&[("bash", "rm *", Deny)]);
    let layers = [layer(Source::User, &denied)];
    let try_reply =
        |id: &str, answer| reply(&id.parse().expect("an id"), answer, None, &requests, &layers);
    for answer in [PermissionReply::Once, PermissionReply::Always] {
        let refused = try_reply("per_a", answer);
        assert!(matches!(refused, Err(ReplyError::DeniedByUser { .. })), "{refused:?}");
    }
    assert!(try_reply("per_a", PermissionReply::Reject).is_ok());
    let effects = try_reply("per_b", PermissionReply::Always).expect("allowed");
    assert_eq!(resolved(&effects), ["per_b"], "an approval of everything does not include rm");
}

#[test]
fn an_always_answer_opens_only_the_gate_it_names() {
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
    let layers = [layer(Source::Builtin, &everything), layer(Source::User, &everything)];
    let answer = |id: &str| {
        let id = id.parse().expect("an id");
        reply(&id, PermissionReply::Always, None, &requests, &layers).expect("answered")
    };
    assert_eq!(resolved(&answer("per_a")), ["per_a"], "no gate was named");
    assert_eq!(resolved(&answer("per_b")), ["per_b", "per_a", "per_c"]);
}

#[test]
fn section_9_2_an_unknown_or_closed_request_is_refused() {
    let closed = Request { state: RequestState::Withdrawn, ..request("a", "1", &["x"], &[]) };
    assert!(matches!(closed.body, RequestBody::Permission(_)));
    let try_reply = |id: &str| {
        let id = id.parse().expect("an id");
        reply(&id, PermissionReply::Once, None, std::slice::from_ref(&closed), &[])
    };
    let id = |text: &str| text.parse().expect("an id");
    assert_eq!(try_reply("per_b"), Err(ReplyError::NoSuchRequest(id("per_b"))));
    assert_eq!(try_reply("per_a"), Err(ReplyError::NotPending(id("per_a"))));
}
