//! Compaction and forks over whole conversations: the cases of 12.2, 12.4 and 5.4.

mod support;

use serde_json::{Value, json};
use turnstone_core::context::{
    CompactionSettings, ContextMessage, ModelLimits, PromotedPrompt, completed_compactions,
    filter_compacted, find_replay_point, mark_compacted, place_promoted_prompts,
    select_outputs_to_prune, select_tail, tail_budget,
};
use turnstone_core::fork::{
    ForkError, NewFork, RenamedMessages, fork_session, plan_fork, rename_references,
};
use turnstone_core::id::{MessageId, PartId, SessionId};
use turnstone_core::model::{MessageBody, Part, PartBody, Session};
use turnstone_core::time::EpochMillis;

use support::conversation_messages::{message, user_with};

fn user(id: &str) -> ContextMessage {
    user_with(id, &[json!({ "type": "text", "text": id })])
}

fn compaction(id: &str, tail: Option<&str>) -> ContextMessage {
    let mut part = json!({ "type": "compaction", "auto": true });
    if let Some(tail) = tail {
        part["tail_start_id"] = format!("msg_{tail}").into();
    }
    user_with(id, &[part])
}

/// An answer; `more` overwrites its fields.
fn answer(id: &str, parent: &str, more: &Value, parts: &[Value]) -> ContextMessage {
    let zero =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let mut body = json!({
        "role": "assistant", "time": { "created": 1 }, "parentID": format!("msg_{parent}"),
        "modelID": "m", "providerID": "p", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": zero,
    });
    for (key, value) in more.as_object().expect("fields") {
        body[key] = value.clone();
    }
    message(id, body, parts)
}

fn assistant(id: &str, parent: &str) -> ContextMessage {
    answer(id, parent, &json!({ "finish": "stop" }), &[json!({ "type": "text", "text": id })])
}

fn summary(id: &str, parent: &str) -> ContextMessage {
    answer(id, parent, &json!({ "summary": true, "finish": "stop" }), &[])
}

fn names<'a>(messages: impl IntoIterator<Item = &'a ContextMessage>) -> Vec<&'a str> {
    messages.into_iter().map(|(message, _)| &message.id.as_str()[4..]).collect()
}

/// What is left of a conversation given in stream order.
fn visible_ids(messages: &[ContextMessage]) -> Vec<String> {
    let left = filter_compacted(messages.iter().rev().cloned());
    names(&left).into_iter().map(str::to_owned).collect()
}

#[test]
fn uncompacted_context_keeps_all_in_order() {
    assert_eq!(visible_ids(&[]), Vec::<String>::new());
    let messages = [user("u1"), assistant("a1", "u1"), user("u2"), assistant("a2", "u2")];
    assert_eq!(visible_ids(&messages), ["u1", "a1", "u2", "a2"]);
}

#[test]
fn compaction_cuts_and_keeps_its_request() {
    let messages = [
        user("u1"),
        assistant("a1", "u1"),
        compaction("c", None),
        summary("s", "c"),
        user("u2"),
        assistant("a2", "u2"),
    ];
    assert_eq!(visible_ids(&messages), ["c", "s", "u2", "a2"]);
}

#[test]
fn messages_before_compaction_are_not_read() {
    let messages = [user("u1"), compaction("c", None), summary("s", "c")];
    let mut read = 0;
    let left = filter_compacted(messages.into_iter().rev().inspect(|_| read += 1));
    assert_eq!((left.len(), read), (2, 2));
}

#[test]
fn incomplete_compaction_does_not_cut() {
    let error = json!({ "name": "UnknownError", "data": { "message": "x" } });
    let failed = json!({ "summary": true, "finish": "error", "error": error });
    for incomplete in [
        assistant("s", "c"),
        answer("s", "c", &json!({ "summary": true }), &[]),
        answer("s", "c", &failed, &[]),
        summary("s", "other"),
    ] {
        let messages = [user("u1"), compaction("c", None), incomplete, user("u2")];
        assert_eq!(visible_ids(&messages), ["u1", "c", "s", "u2"]);
    }
    let unanswered = [user("u1"), compaction("c", None)];
    assert_eq!(visible_ids(&unanswered), ["u1", "c"]);
    // A summary whose parent asked for no compaction cuts nothing.
    let strange = [user("u1"), user("u2"), summary("s", "u2")];
    assert_eq!(visible_ids(&strange), ["u1", "u2", "s"]);
}

#[test]
fn tail_follows_summary() {
    let messages = [
        user("u1"),
        assistant("a1", "u1"),
        user("u2"),
        assistant("a2", "u2"),
        compaction("c", Some("u2")),
        summary("s", "c"),
        user("u3"),
        assistant("a3", "u3"),
    ];
    assert_eq!(visible_ids(&messages), ["c", "s", "u2", "a2", "u3", "a3"]);
}

#[test]
fn tail_may_start_inside_a_turn() {
    let messages = [
        user("u1"),
        assistant("a1", "u1"),
        assistant("a2", "u1"),
        compaction("c", Some("a2")),
        summary("s", "c"),
    ];
    assert_eq!(visible_ids(&messages), ["c", "s", "a2"]);
}

#[test]
fn latest_compaction_wins() {
    let messages = [
        user("u1"),
        compaction("c1", None),
        summary("s1", "c1"),
        user("u2"),
        assistant("a2", "u2"),
        compaction("c2", Some("u2")),
        summary("s2", "c2"),
        user("u3"),
    ];
    assert_eq!(visible_ids(&messages), ["c2", "s2", "u2", "a2", "u3"]);
    // A tail that reaches back over an older compaction keeps it as it is.
    let over = [
        user("u1"),
        compaction("c1", Some("u1")),
        summary("s1", "c1"),
        user("u2"),
        compaction("c2", Some("u1")),
        summary("s2", "c2"),
    ];
    assert_eq!(visible_ids(&over), ["c2", "s2", "u1", "c1", "s1", "u2"]);
}

#[test]
fn failed_compaction_with_tail_hides_nothing() {
    let failed = answer("s", "c", &json!({ "summary": true }), &[]);
    let messages = [user("u1"), user("u2"), compaction("c", Some("u2")), failed, user("u3")];
    assert_eq!(visible_ids(&messages), ["u1", "u2", "c", "s", "u3"]);
}

#[test]
fn missing_tail_hides_nothing() {
    let messages = [user("u1"), compaction("c", Some("gone")), summary("s", "c"), user("u2")];
    assert_eq!(visible_ids(&messages), ["u1", "c", "s", "u2"]);
    let itself = [user("u1"), compaction("c", Some("c")), summary("s", "c"), user("u2")];
    assert_eq!(visible_ids(&itself), ["c", "s", "u2"]);
}

#[test]
fn completed_compactions_are_found_by_position() {
    let messages = [
        user("u1"),
        compaction("c1", None),
        summary("s1", "c1"),
        compaction("c2", None),
        answer("s2", "c2", &json!({ "summary": true }), &[]),
    ];
    let found = completed_compactions(&messages);
    assert_eq!(found.iter().map(|c| (c.request, c.summary)).collect::<Vec<_>>(), [(1, 2)]);
}

/// Chooses a tail where every message takes 10 tokens; gives its first message.
fn tail(messages: &[ContextMessage], turns: Option<usize>, budget: u64) -> Option<String> {
    let settings = CompactionSettings { tail_turns: turns, ..CompactionSettings::default() };
    let size = |messages: &[ContextMessage]| messages.len() as u64 * 10;
    let tail = select_tail(messages, &settings, budget, size)?;
    assert_eq!(messages[tail.start].0.id, tail.id);
    Some(tail.id.as_str()[4..].to_owned())
}

fn three_turns() -> Vec<ContextMessage> {
    let turn = |n: u8| {
        let (u, a, b) = (format!("u{n}"), format!("a{n}"), format!("b{n}"));
        [user(&u), assistant(&a, &u), assistant(&b, &u)]
    };
    (1..=3).flat_map(turn).collect()
}

#[test]
fn tail_shrinks_to_budget() {
    let messages = three_turns();
    assert_eq!(tail(&messages, None, 60).as_deref(), Some("u2"));
    assert_eq!(tail(&messages, None, 59).as_deref(), Some("a2"));
    assert_eq!(tail(&messages, None, 40).as_deref(), Some("b2"));
    assert_eq!(tail(&messages, None, 30).as_deref(), Some("u3"));
    assert_eq!(tail(&messages, None, 20).as_deref(), Some("a3"));
}

#[test]
fn no_tail_if_nothing_or_everything_fits() {
    let messages = three_turns();
    assert_eq!(tail(&messages, None, 9), None);
    assert_eq!(tail(&messages, None, 0), None);
    assert_eq!(tail(&messages, None, 90), None, "nothing would be left to summarise");
    assert_eq!(tail(&messages, None, 89).as_deref(), Some("a1"));
    assert_eq!(tail(&[], None, 100), None);
    assert_eq!(tail(&[assistant("a", "u")], None, 100), None);
    assert_eq!(tail(&[user("u")], None, 5), None, "a turn of one message cannot be cut");
}

#[test]
fn tail_turns_limit_is_respected() {
    let messages = three_turns();
    assert_eq!(tail(&messages, Some(0), 1_000), None);
    assert_eq!(tail(&messages, Some(1), 1_000).as_deref(), Some("u3"));
    assert_eq!(tail(&messages, Some(2), 1_000).as_deref(), Some("u2"));
    assert_eq!(tail(&messages, Some(9), 60).as_deref(), Some("u2"));
}

#[test]
fn compaction_request_begins_no_turn() {
    let messages = [user("u1"), assistant("a1", "u1"), user("u2"), compaction("c", None)];
    assert_eq!(tail(&messages, Some(1), 1_000).as_deref(), Some("u2"));
}

#[test]
fn tail_budget_is_a_bounded_quarter() {
    let budget = |context, settings: &CompactionSettings| {
        tail_budget(ModelLimits { context, input: 0, output: 0 }, settings)
    };
    let plain = CompactionSettings::default();
    assert_eq!(budget(33_000, &plain), 2_000);
    assert_eq!(budget(72_000, &plain), 10_000);
    assert_eq!(budget(1_000_000, &plain), 15_000);
    let configured =
        CompactionSettings { preserve_recent_tokens: Some(7), ..CompactionSettings::default() };
    assert_eq!(budget(1_000_000, &configured), 7);
}

#[test]
fn overflow_replays_previous_turn_if_others_remain() {
    let messages = [
        user("u1"),
        assistant("a1", "u1"),
        user("u2"),
        assistant("a2", "u2"),
        compaction("c", None),
    ];
    assert_eq!(find_replay_point(&messages, 4), Some(2));
    assert_eq!(find_replay_point(&messages[2..], 2), None);
    assert_eq!(find_replay_point(&[], 0), None);
}

/// A tool call with an output of so many tokens.
fn call(tool: &str, tokens: usize) -> Value {
    json!({
        "type": "tool", "callID": "c", "tool": tool,
        "state": {
            "status": "completed", "input": {}, "output": "x".repeat(tokens * 4), "title": "",
            "metadata": {}, "time": { "start": 1, "end": 2 },
        },
    })
}

/// Two turns after the calls, so that the calls may be pruned.
fn with_calls(calls: &[Value]) -> Vec<ContextMessage> {
    let calls = answer("a0", "u0", &json!({}), calls);
    let late = answer("a2", "u2", &json!({}), &[call("bash", 90_000)]);
    vec![user("u0"), calls, user("u1"), assistant("a1", "u1"), user("u2"), late]
}

fn pruned(messages: &[ContextMessage]) -> Vec<String> {
    select_outputs_to_prune(messages).iter().map(ToString::to_string).collect()
}

#[test]
fn outputs_beyond_protected_are_pruned_newest_first() {
    let calls: Vec<Value> = [20_000, 10_001, 20_000, 20_000].map(|n| call("bash", n)).to_vec();
    assert_eq!(pruned(&with_calls(&calls)), ["prt_a0-1", "prt_a0-0"]);
}

#[test]
fn nothing_is_pruned_below_minimum() {
    let exactly: Vec<Value> = [20_000, 40_000].map(|n| call("bash", n)).to_vec();
    assert_eq!(pruned(&with_calls(&exactly)), Vec::<String>::new());
    let more: Vec<Value> = [20_001, 40_000].map(|n| call("bash", n)).to_vec();
    assert_eq!(pruned(&with_calls(&more)), ["prt_a0-0"]);
    // The call that crosses the line goes itself.
    assert_eq!(pruned(&with_calls(&[call("bash", 40_001)])), ["prt_a0-0"]);
}

#[test]
fn newest_two_turns_are_never_pruned() {
    let messages = with_calls(&[]);
    assert_eq!(pruned(&messages), Vec::<String>::new());
    assert_eq!(
        pruned(&[user("u"), answer("a", "u", &json!({}), &[call("bash", 90_000)])]),
        [""; 0]
    );
}

#[test]
fn skill_outputs_are_never_pruned() {
    assert_eq!(pruned(&with_calls(&[call("skill", 90_000)])), Vec::<String>::new());
    let calls = [call("bash", 30_000), call("skill", 90_000), call("bash", 40_000)];
    assert_eq!(pruned(&with_calls(&calls)), ["prt_a0-0"]);
}

#[test]
fn pruning_stops_at_summary_or_pruned_output() {
    let mut messages =
        vec![user("c"), answer("s", "c", &json!({ "summary": true }), &[call("x", 90_000)])];
    messages.extend(with_calls(&[call("bash", 40_000)]));
    assert_eq!(pruned(&messages), Vec::<String>::new());
    let mut before = call("bash", 10);
    before["state"]["time"]["compacted"] = 5.into();
    let calls = [call("bash", 90_000), before, call("bash", 40_000)];
    assert_eq!(pruned(&with_calls(&calls)), Vec::<String>::new());
}

#[test]
fn pruned_call_keeps_output_and_is_legal() {
    let (_, parts) = answer("a", "u", &json!({}), &[call("bash", 3)]);
    let PartBody::Tool(tool) = &parts[0].body else { panic!("a tool part") };
    let marked = mark_compacted(&tool.state, EpochMillis(7)).expect("a completed call");
    assert!(turnstone_core::tool_state::check_transition(Some(&tool.state), &marked).is_ok());
    let json = serde_json::to_value(&marked).expect("JSON");
    assert_eq!((&json["time"]["compacted"], &json["output"]), (&json!(7), &json!("xxxxxxxxxxxx")));
    assert_eq!(mark_compacted(&marked, EpochMillis(8)), None);
}

/// Forks with counted ids: `msg_f1`, `prt_f1` and so on.
fn fork(messages: &[ContextMessage], at: Option<&str>) -> Result<Vec<ContextMessage>, ForkError> {
    let at: Option<MessageId> = at.map(|id| format!("msg_{id}").parse().expect("an id"));
    let (mut message, mut part) = (0, 0);
    let new_message = || {
        message += 1;
        format!("msg_f{message}").parse::<MessageId>().expect("an id")
    };
    let new_part = || {
        part += 1;
        format!("prt_f{part}").parse::<PartId>().expect("an id")
    };
    let into: SessionId = "ses_fork".parse().expect("an id");
    let bodies = messages.iter().map(|(message, parts)| {
        let parts = parts.iter().map(|part| (part.id.clone(), part.body.clone()));
        (message.clone(), parts.collect())
    });
    let rename =
        |body, names: &RenamedMessages<'_>| Ok::<_, ForkError>(rename_references(body, names));
    let plan = plan_fork(bodies.collect(), at.as_ref(), &into, new_message, new_part, rename)?;
    let old = messages.iter().take(plan.messages.len());
    let ids = old.clone().zip(&plan.messages).map(|(old, new)| (&old.0.id, &new.0.id));
    assert!(ids.eq(plan.renamed.iter().map(|(old, new)| (old, new))));
    let new = plan.messages.iter().flat_map(|(_, parts)| parts);
    let ids = old.flat_map(|(_, parts)| parts).zip(new).map(|(old, new)| (&old.id, &new.0));
    assert!(ids.eq(plan.parts.iter().map(|(old, new)| (old, new))));
    let whole = plan.messages.into_iter().map(|(message, parts)| {
        assert_eq!(message.session, into);
        let parts = parts.into_iter().map(|(id, body)| Part {
            id,
            session: into.clone(),
            message: message.id.clone(),
            body,
        });
        let parts = parts.collect();
        (message, parts)
    });
    Ok(whole.collect())
}

fn parent(entry: &ContextMessage) -> &str {
    match &entry.0.body {
        MessageBody::Assistant(said) => said.parent.as_str(),
        MessageBody::User(_) => panic!("a user message has no parent"),
    }
}

#[test]
fn fork_copies_messages_before_the_point() {
    let messages = [user("u1"), assistant("a1", "u1"), user("u2"), assistant("a2", "u2")];
    assert_eq!(fork(&messages, None).expect("a plan").len(), 4);
    let copy = fork(&messages, Some("u2")).expect("a plan");
    assert_eq!(names(&copy), ["f1", "f2"]);
    assert_eq!(parent(&copy[1]), "msg_f1");
    assert_eq!(copy[1].1[0].id.as_str(), "prt_f2");
    assert_eq!(copy[1].1[0].body, messages[1].1[0].body);
    assert_eq!(fork(&messages, Some("u1")).expect("a plan"), []);
}

/// Proves W19.
#[test]
fn fork_cuts_by_position_not_id() {
    let messages = [user("z9"), assistant("m5", "z9"), user("a1"), assistant("q7", "a1")];
    let copy = fork(&messages, Some("a1")).expect("a plan");
    assert_eq!(copy.len(), 2);
    assert_eq!(copy[0].1[0].body, messages[0].1[0].body);
}

#[test]
fn fork_at_unknown_message_is_rejected() {
    let refused = fork(&[user("u1")], Some("nope")).expect_err("refused");
    assert_eq!(refused, ForkError::NoSuchMessage("msg_nope".parse().expect("an id")));
}

#[test]
fn uncopied_parent_id_is_kept() {
    let copy = fork(&[assistant("a1", "gone"), user("u2")], None).expect("a plan");
    assert_eq!(parent(&copy[0]), "msg_gone");
}

#[test]
fn compaction_tail_is_renamed_in_fork() {
    let messages = [
        user("u1"),
        user("u2"),
        assistant("a2", "u2"),
        compaction("c", Some("u2")),
        summary("s", "c"),
        user("u3"),
    ];
    let copy = fork(&messages, Some("u3")).expect("a plan");
    // u1→f1, u2→f2, a2→f3, c→f4, s→f5
    assert_eq!(visible_ids(&copy), ["f4", "f5", "f2", "f3"]);
}

#[test]
fn tail_outside_fork_is_dropped() {
    let messages = [compaction("c", Some("elsewhere")), summary("s", "c")];
    let copy = fork(&messages, None).expect("a plan");
    let PartBody::Compaction(part) = &copy[0].1[0].body else { panic!("a compaction part") };
    assert_eq!(part.tail_start, None);
}

#[test]
fn attachment_ids_are_copied_verbatim() {
    let mut with_file = call("read", 1);
    with_file["state"]["attachments"] = json!([{ "type": "file", "id": "prt_old", "messageID": "msg_a1", "mime": "x", "url": "y" }]);
    let messages = [user("u1"), answer("a1", "u1", &json!({}), &[with_file])];
    let copy = fork(&messages, None).expect("a plan");
    assert_eq!(copy[1].1[0].body, messages[1].1[0].body);
}

/// Proves R40.
#[test]
fn forked_session_is_root_with_origin() {
    let original: Session = serde_json::from_value(json!({
        "id": "ses_one", "slug": "a-b", "projectID": "p", "directory": "/d", "path": "sub",
        "workspaceID": "wrk_1", "parentID": "ses_p", "title": "T (fork #2)", "agent": "plan",
        "model": { "id": "m", "providerID": "p" }, "version": "1", "metadata": { "deep": { "n": [1] } },
        "time": { "created": 1, "updated": 2, "archived": 3 }, "share": { "url": "u" },
        "permission": [{ "permission": "*", "pattern": "*", "action": "deny" }],
        "revert": { "messageID": "msg_1" }, "summary": { "additions": 1, "deletions": 0, "files": 1 },
        "cost": 3,
    }))
    .expect("a session");
    let origin = json!({ "sessionID": "ses_one", "messageID": "msg_9", "seq": 41 });
    let fork = NewFork {
        id: "ses_fork".parse().expect("an id"),
        slug: "c-d".into(),
        version: "2".into(),
        now: EpochMillis(50),
        origin: serde_json::from_value(origin.clone()).expect("an origin"),
    };
    let expected = json!({
        "id": "ses_fork", "slug": "c-d", "projectID": "p", "directory": "/d", "path": "sub",
        "workspaceID": "wrk_1", "origin": origin, "title": "T (fork #3)", "version": "2",
        "metadata": { "deep": { "n": [1] } }, "time": { "created": 50, "updated": 50 },
    });
    let session = fork_session(&original, fork);
    assert_eq!(serde_json::to_value(session).expect("JSON"), expected);
}

fn promoted(prompt: &str, after: &str) -> PromotedPrompt {
    let id = |name: &str| format!("msg_{name}").parse().expect("an id");
    PromotedPrompt { message: id(prompt), after: Some(id(after)) }
}

/// Proves R29.
#[test]
fn prompt_is_ordered_where_it_was_promoted() {
    let stream = || {
        let (one, two) = (assistant("a1", "u1"), assistant("a2", "u1"));
        vec![user("u1"), user("q1"), user("q2"), one, user("s"), two, assistant("a3", "q1")]
    };
    let placed =
        |taken: &[PromotedPrompt]| names(&place_promoted_prompts(stream(), taken)).join(" ");
    assert_eq!(placed(&[]), "u1 q1 q2 a1 s a2 a3", "what came on its own stays");
    // Steered after the first answer; then the queue, one after the other.
    let all = [promoted("s", "a1"), promoted("q1", "a2"), promoted("q2", "a3")];
    assert_eq!(placed(&all), "u1 a1 s a2 q1 a3 q2");
    let both = [promoted("q2", "a2"), promoted("q1", "a2")];
    assert_eq!(placed(&both), "u1 a1 s a2 q2 q1 a3", "in the order they were taken up");
    assert_eq!(placed(&[promoted("q1", "older")]), "u1 q2 a1 s a2 a3", "read further back only");
}

/// W33: a prompt between the request of a compaction and its summary is read after both.
#[test]
fn prompt_between_compaction_and_summary_is_kept() {
    let stream = vec![
        user("u0"),
        assistant("a0", "u0"),
        user("u1"),
        assistant("a1", "u1"),
        compaction("c", Some("u1")),
        user("u2"),
        summary("s", "c"),
    ];
    let placed = place_promoted_prompts(stream, &[promoted("u2", "s")]);
    let left = filter_compacted(placed.into_iter().rev());
    assert_eq!(names(&left).join(" "), "c s u1 a1 u2");
}
