//! Prompts without a runner, during a running turn, and sent twice.

use std::time::Duration;

use serde_json::{Value, json};
use turnstone_core::model::{Message, MessageBody, Part, PartBody, TextPart};
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Prompt, Turn};

use crate::support::ServerFixture;
use crate::{is_idle, local_context, messages, named, session, text_prompt, waiting};

#[test]
fn prompt_without_runner_is_stored_and_answered_with_error() {
    let house = ServerFixture::new();
    let id = session(&house);
    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    let body = json!({ "agent": "plan", "model": { "providerID": "p", "modelID": "m" },
                       "variant": "high", "system": "be brief",
                       "parts": [{ "type": "text", "text": "hello" }] });
    let answer = house.client().post(&format!("/session/{id}/message"), &body).expect(200);
    let info = &answer["info"];
    assert_eq!(
        (&info["role"], &info["error"]["name"]),
        (&"assistant".into(), &"UnknownError".into())
    );
    let words = info["error"]["data"]["message"].as_str().expect("words");
    assert!(words.contains("without an agent") && words.contains("/turnstone/"), "{words}");
    assert_eq!((&info["agent"], &info["mode"]), (&"plan".into(), &"plan".into()));
    assert_eq!((&info["providerID"], &info["modelID"]), (&"p".into(), &"m".into()));
    assert!(info["time"]["completed"].is_i64(), "{info}");
    assert_eq!(answer["parts"], json!([]));

    let stored = messages(&house, &id);
    assert_eq!(stored.len(), 2);
    assert_eq!(stored[0]["info"]["model"]["variant"], "high");
    assert_eq!(stored[0]["info"]["system"], "be brief");
    assert_eq!(stored[0]["parts"][0]["text"], "hello");
    assert_eq!(stored[1]["info"]["parentID"], stored[0]["info"]["id"]);
    let shown = house.client().get(&format!("/session/{id}")).expect(200);
    assert_eq!(shown["agent"], "plan");
    assert_eq!(shown["model"], json!({ "id": "m", "providerID": "p", "variant": "high" }));
    assert!(is_idle(&house, &id), "nothing stays busy");

    // The model of the session is the model of the next prompt; the agent is the usual one again.
    let answer =
        house.client().post(&format!("/session/{id}/message"), &text_prompt("again")).expect(200);
    assert_eq!(
        (&answer["info"]["modelID"], &answer["info"]["agent"]),
        (&"m".into(), &"build".into())
    );
}

/// The variant of an agent belongs to the model of that agent; a prompt can choose another one.
#[test]
fn variant_of_an_agent_applies_only_to_its_own_model() {
    let house = ServerFixture::new();
    let config = r#"{"agent":{"deep":{"model":"p/m","variant":"high"},"bare":{"variant":"low"}}}"#;
    house.write_file("opencode.json", config);
    let own = json!({ "providerID": "p", "modelID": "m" });
    let other = json!({ "providerID": "p", "modelID": "n" });
    for (agent, model, variant, chosen) in [
        ("deep", None, None, Some("high")),
        ("deep", Some(&own), None, Some("high")),
        ("deep", Some(&other), None, None),
        ("deep", None, Some("max"), Some("max")),
        ("deep", Some(&other), Some("max"), Some("max")),
        ("bare", Some(&own), None, None),
    ] {
        let id = session(&house);
        let mut body = json!({ "agent": agent, "parts": [{ "type": "text", "text": "x" }] });
        if let Some(model) = model {
            body["model"] = model.clone();
        }
        if let Some(variant) = variant {
            body["variant"] = variant.into();
        }
        house.client().post(&format!("/session/{id}/message"), &body).expect(200);
        let stored = &messages(&house, &id)[0]["info"]["model"]["variant"];
        assert_eq!(stored.as_str(), chosen, "{agent} {model:?} {variant:?}");
    }
}

#[test]
fn unknown_agent_is_rejected_before_storing() {
    let house = ServerFixture::new();
    let id = session(&house);
    let body = json!({ "agent": "nope", "parts": [{ "type": "text", "text": "x" }] });
    let answer = house.client().post(&format!("/session/{id}/message"), &body).expect(400);
    let words = answer["data"]["message"].as_str().expect("words");
    assert!(words.contains("\"nope\"") && words.contains("build"), "{words}");
    assert!(messages(&house, &id).is_empty());
    let shown = house.client().get(&format!("/session/{id}")).expect(200);
    assert_eq!(shown.get("agent"), None, "the session is not poisoned");
}

#[test]
fn parts_with_impossible_times_are_refused_before_anything_is_stored() {
    let house = ServerFixture::new();
    let id = session(&house);
    for time in [json!({ "start": -1 }), json!({ "start": 1.5 }), json!({ "start": 1, "end": -2 })]
    {
        let part = json!({ "type": "text", "text": "hi", "time": time });
        let body = json!({ "noReply": true, "parts": [part.clone()] });
        for route in ["message", "prompt_async"] {
            house.client().post(&format!("/session/{id}/{route}"), &body).expect(400);
        }
        let model = json!({ "providerID": "p", "modelID": "m" });
        let prompt = json!({ "prompt": { "agent": "build", "model": model, "parts": [part] } });
        house.client().post(&format!("/turnstone/session/{id}/turn"), &prompt).expect(400);
    }
    assert!(messages(&house, &id).is_empty());
}

/// Proves R38.
#[test]
fn prompt_tools_only_add_rules() {
    let house = ServerFixture::new();
    let id = session(&house);
    let rule =
        |tool: &str, action: &str| json!({ "permission": tool, "pattern": "*", "action": action });
    let own = json!({ "permission": [rule("bash", "deny")] });
    house.client().patch(&format!("/session/{id}"), &own).expect(200);
    let path = format!("/session/{id}/message");
    let body = json!({ "noReply": true, "tools": { "write": false }, "parts": [] });
    house.client().post(&path, &body).expect(200);
    house.client().post(&path, &body).expect(200);
    let shown = house.client().get(&format!("/session/{id}")).expect(200);
    assert_eq!(shown["permission"], json!([rule("bash", "deny"), rule("write", "deny")]));
    let wrong = json!({ "noReply": true, "tools": { "write": "no" }, "parts": [] });
    house.client().post(&path, &wrong).expect(400);
}

#[test]
fn same_message_id_is_idempotent_or_conflicts() {
    let house = ServerFixture::new();
    house.write_file("a.txt", "one\n");
    let id = session(&house);
    let path = format!("/session/{id}/message");
    let url = format!("file://{}/a.txt", house.project().display());
    let body = json!({ "messageID": "msg_zzzzzzzzzzzz0000000000000a", "parts": [
        { "type": "text", "text": "see" },
        { "type": "file", "mime": "text/plain", "filename": "a.txt", "url": url }] });
    let first = house.client().post(&path, &body).expect(200);
    house.write_file("a.txt", "two\n");
    let again = house.client().post(&path, &body).expect(200);
    assert_eq!(first, again, "the first answer, though the file differs by now");
    assert_eq!(messages(&house, &id).len(), 2);
    house.client().post(&format!("/session/{id}/prompt_async"), &body).expect(204);
    let mut other = body.clone();
    other["parts"][0]["text"] = "something else".into();
    let refused = house.client().post(&path, &other).expect(409);
    assert_eq!(refused["_tag"], "ConflictError");
    let elsewhere = session(&house);
    house.client().post(&format!("/session/{elsewhere}/message"), &body).expect(409);
    assert!(messages(&house, &elsewhere).is_empty());

    // What is made here sorts after even such an id: clients halve a list to find it.
    house.client().post(&path, &text_prompt("next")).expect(200);
    let ids: Vec<String> = messages(&house, &id)
        .iter()
        .map(|message| message["info"]["id"].as_str().expect("an id").to_owned())
        .collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert_eq!(ids.len(), 4);
}

#[test]
fn concurrent_prompts_with_one_id_are_one_prompt() {
    let house = ServerFixture::new();
    let id = session(&house);
    let body = json!({ "messageID": "msg_1de0d7482001MrfbCTDu3WTb5L",
                       "parts": [{ "type": "text", "text": "once" }] });
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let ask = || house.client().post(&format!("/session/{id}/message"), &body).expect(200);
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|asked| asked.join().expect("answered")).collect()
    });
    assert!(answers.iter().all(|answer| answer["info"]["id"] == answers[0]["info"]["id"]));
    assert_eq!(messages(&house, &id).len(), 2);
}

/// A turn that another process runs while the server handles requests.
fn begin(house: &ServerFixture, id: &str) -> Turn {
    let ctx = local_context();
    let session = named(id);
    let message = house.engine().turns().new_message_id(&ctx, &session).expect("an id");
    let body = json!({ "role": "user", "time": { "created": 1 }, "agent": "build",
                       "model": { "providerID": "p", "modelID": "m" } });
    let body: MessageBody = serde_json::from_value(body).expect("a message");
    let message = Message { id: message, session, body };
    house.engine().turns().begin(&ctx, Prompt { message, parts: Vec::new() }).expect("begun")
}

/// Writes an answer to `asked` into a turn.
fn answer(house: &ServerFixture, turn: &Turn, asked: &str, words: &str) {
    let ctx = local_context();
    let (session, engine) = (turn.session.clone(), house.engine());
    let id = engine.turns().new_message_id(&ctx, &session).expect("an id");
    let none =
        json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    let body = json!({ "role": "assistant", "time": { "created": 2, "completed": 3 }, "mode": "build",
        "parentID": asked, "modelID": "m", "providerID": "p", "agent": "build", "finish": "stop",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": none });
    let body = serde_json::from_value(body).expect("a message");
    let message = Message { id: id.clone(), session: session.clone(), body };
    let text = PartBody::Text(TextPart { text: words.to_owned(), ..TextPart::default() });
    let part = engine.turns().new_part_id(&ctx).expect("an id");
    let part = Part { id: part, session, message: id, body: text };
    let write = move |tx: &turnstone_store::Tx<'_>| {
        tx.messages().put(&message)?;
        tx.messages().put_part(&part)
    };
    engine.store().write(&turn.context(&ctx), write).wait().expect("written");
}

/// Proves R29.
#[test]
fn prompt_during_turn_steers_and_gets_its_answer() {
    let house = ServerFixture::new();
    let id = session(&house);
    let turn = begin(&house, &id);
    let path = format!("/session/{id}/message");
    std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| house.client().post(&path, &text_prompt("also this")).expect(200));
        let asked = waiting(&house, &id);
        assert_eq!(messages(&house, &id).len(), 2, "it is stored at once");
        // R45: a shell command would disturb the turn.
        let shell = json!({ "agent": "build", "command": "true" });
        let refused = house.client().post(&format!("/session/{id}/shell"), &shell).expect(409);
        assert_eq!(refused["_tag"], "SessionBusyError");
        let taken = house
            .engine()
            .turns()
            .promote_steering_prompts(&local_context(), &turn)
            .expect("taken");
        assert_eq!(
            taken.iter().map(ToString::to_string).collect::<Vec<_>>(),
            std::slice::from_ref(&asked)
        );
        answer(&house, &turn, &asked, "done");
        complete_turn(&house, &turn);
        let answered = asking.join().expect("answered");
        assert_eq!(answered["parts"][0]["text"], "done");
        assert_eq!(answered["info"]["parentID"], asked.as_str());
    });
}

fn complete_turn(house: &ServerFixture, turn: &Turn) {
    let turns = house.engine().turns();
    turns.end(&local_context(), turn, TurnOutcome::Completed, None).expect("ended");
}

#[test]
fn untaken_prompt_is_answered_after_the_turn() {
    let house = ServerFixture::new();
    let id = session(&house);
    let turn = begin(&house, &id);
    let queued = json!({ "delivery": "queue", "parts": [{ "type": "text", "text": "later" }] });
    house.client().post(&format!("/session/{id}/prompt_async"), &queued).expect(204);
    let note = json!({ "noReply": true, "parts": [{ "type": "text", "text": "know this" }] });
    house.client().post(&format!("/session/{id}/message"), &note).expect(200);
    let path = format!("/session/{id}/message");
    std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| house.client().post(&path, &text_prompt("and this")).expect(200));
        waiting(&house, &id);
        complete_turn(&house, &turn);
        let answered = asking.join().expect("answered");
        assert_eq!(answered["info"]["error"]["name"], "UnknownError");
    });
    for _ in 0..1200 {
        let left = house
            .engine()
            .store()
            .read(&local_context(), |r| r.prompts().waiting(&named(&id)))
            .expect("read");
        if left.is_empty() && is_idle(&house, &id) {
            let errors = messages(&house, &id);
            let errors = errors.iter().filter(|message| message["info"].get("error").is_some());
            assert_eq!(errors.count(), 2, "each prompt was answered once, the note was not");
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("something stays in the inbox");
}

/// Proves R19.
#[test]
fn prompt_after_revert_branches() {
    let house = ServerFixture::with_git();
    let id = session(&house);
    let path = format!("/session/{id}/message");
    house.client().post(&path, &text_prompt("first")).expect(200);
    house.client().post(&path, &text_prompt("second")).expect(200);
    let stored = messages(&house, &id);
    let second = stored[2]["info"]["id"].as_str().expect("an id");
    let message = second.parse().expect("an id");
    house
        .engine()
        .history()
        .reverts()
        .revert(&local_context(), &named(&id), &message, None)
        .expect("reverted");
    house.client().post(&path, &json!({ "noReply": true, "parts": [] })).expect(200);
    let ids: Vec<Value> = messages(&house, &id).iter().map(|m| m["info"]["id"].clone()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert!(!ids.contains(&second.into()));
}

#[test]
fn compaction_without_runner_is_reported() {
    let house = ServerFixture::new();
    let id = session(&house);
    let body = json!({ "providerID": "p", "modelID": "m" });
    let refused = house.client().post(&format!("/session/{id}/summarize"), &body).expect(503);
    assert_eq!(refused["_tag"], "ServiceUnavailableError");
    assert!(messages(&house, &id).is_empty(), "a failed compaction leaves nothing");
    assert!(is_idle(&house, &id));
}

#[test]
fn existing_part_id_is_named_in_the_conflict() {
    let house = ServerFixture::new();
    let [one, other] = ["one", "other"].map(|title| {
        let made = house.client().post("/session", &json!({ "title": title })).expect(200);
        made["id"].as_str().expect("an id").to_owned()
    });
    let body = json!({ "noReply": true,
        "parts": [{ "type": "text", "text": "hi", "id": "prt_0000000001" }] });
    let say = |session: &str| house.client().post(&format!("/session/{session}/message"), &body);
    let said = say(&one).expect(200);
    let refused = say(&other).expect(409);
    let words = refused["message"].as_str().expect("words");
    assert!(words.contains("prt_0000000001"), "{words}");
    assert_eq!(house.client().get(&format!("/session/{other}/message")).expect(200), json!([]));
    let kept = house.client().get(&format!("/session/{one}/message")).expect(200);
    assert_eq!(kept, json!([said]));
}
