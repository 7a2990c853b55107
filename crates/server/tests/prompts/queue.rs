//! Prompts that come while a runner works: stored at once, taken up once, in their order (R29).

use serde_json::{Value, json};

use crate::runner::TestRunner;
use crate::support::ServerFixture;
use crate::{is_idle, messages, named, session, text_prompt, waiting};

/// Proves R29.
#[test]
fn steering_prompts_join_and_queued_prompts_follow_in_order() {
    let house = ServerFixture::new();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let client = house.client();
    let path = &format!("/session/{id}/message");
    let queued = |words: &str| {
        let mut body = text_prompt(words);
        body["delivery"] = "queue".into();
        body
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.post(path, &text_prompt("first")).expect(200));
        let turn = runner.take();
        let step = turn.driver.step();
        let later = [queued("later"), queued("last")];
        let ask = |body: &Value| {
            let body = body.clone();
            let before = crate::inbox(&house, &id).len();
            let asking = scope.spawn(move || client.post(path, &body).expect(200));
            while crate::inbox(&house, &id).len() == before {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            asking
        };
        let later = later.each_ref().map(&ask);
        let steer = ask(&text_prompt("also this"));
        assert_eq!(messages(&house, &id).len(), 5, "all are stored at once");

        let taken = turn.driver.post("steer", &json!({})).expect(200);
        let taken = taken["messages"].as_array().expect("messages").clone();
        assert_eq!(taken.len(), 1, "only what steers: {taken:?}");
        assert_eq!(taken[0]["parts"][0]["text"], "also this");
        assert_eq!(turn.driver.post("steer", &json!({})).expect(200), json!({ "messages": [] }));
        turn.driver.end_step(&step, "tool-calls");
        let both = turn.answer("both");
        let (first, steer) = (first.join().expect("answered"), steer.join().expect("answered"));
        assert_eq!(steer["info"]["id"], both.as_str());
        assert_eq!(
            steer["info"]["parentID"], taken[0]["info"]["id"],
            "an answer answers the newest prompt the turn has taken up"
        );
        assert_eq!(
            first["info"]["id"],
            both.as_str(),
            "the last answer of the turn is everybody's"
        );

        for (asking, words) in later.into_iter().zip(["later", "last"]) {
            let turn = runner.take();
            assert_eq!(turn.text(), words);
            let made = turn.answer(words);
            let answer = asking.join().expect("answered");
            assert_eq!(answer["info"]["id"], made.as_str());
            assert_eq!(answer["info"]["parentID"], turn.message());
        }
    });
    assert!(crate::inbox(&house, &id).is_empty() && is_idle(&house, &id));
}

/// Proves R29.
#[test]
fn late_steering_prompt_gets_its_own_turn() {
    let house = ServerFixture::new();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let client = house.client();
    let path = &format!("/session/{id}/message");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.post(path, &text_prompt("first")).expect(200));
        let turn = runner.take();
        let late = scope.spawn(|| client.post(path, &text_prompt("too late")).expect(200));
        waiting(&house, &id);
        let made = turn.answer("one");
        assert_eq!(first.join().expect("answered")["info"]["id"], made.as_str());
        let turn = runner.take();
        assert_eq!(turn.text(), "too late");
        let made = turn.answer("two");
        assert_eq!(late.join().expect("answered")["info"]["id"], made.as_str());
    });
}

#[test]
fn two_runners_run_each_prompt_once() {
    let house = ServerFixture::new();
    let id = session(&house);
    let runners = [TestRunner::attach(&house), TestRunner::attach(&house)];
    let client = house.client();
    let path = &format!("/session/{id}/message");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &text_prompt("once")).expect(200));
        // Both see it; one gets it.
        assert!(runners.iter().all(|runner| runner.inbox() == std::slice::from_ref(&id)));
        let turn = runners[0].take();
        let begin = format!("/turnstone/session/{id}/turn");
        let refused = client.post(&begin, &json!({}));
        assert!(refused.status == 409 || refused.json()["turn"].is_null(), "{}", refused.text());
        turn.answer("by the first");
        let answer = asking.join().expect("answered");
        assert_eq!(answer["info"]["finish"], "stop");
    });
    let turns =
        house.engine().store().read(&crate::local_context(), |r| r.turns().list(&named(&id)));
    assert_eq!(turns.expect("read").len(), 1);
}

#[test]
fn runner_permission_is_answered_by_client() {
    let house = ServerFixture::new();
    let id = session(&house);
    let rule = json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "ask" }] });
    let client = house.client();
    client.patch(&format!("/session/{id}"), &rule).expect(200);
    let runner = TestRunner::attach(&house);
    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    for reply in ["once", "reject"] {
        let answer = std::thread::scope(|scope| {
            let path = format!("/session/{id}/message");
            let asking =
                scope.spawn(move || client.post(&path, &text_prompt("touch it")).expect(200));
            let turn = runner.take();
            let step = turn.driver.step();
            let tool = json!({ "messageID": step, "callID": "call_1", "tool": "bash",
                "input": { "command": "touch x" }, "touches": "nothing" });
            let part = turn.driver.post("tool", &tool).expect(200);
            let ask = json!({ "permission": "bash", "patterns": ["touch x"], "always": [],
                "metadata": { "command": "touch x" }, "waits": true,
                "tool": { "messageID": step, "callID": "call_1" } });
            let asked = turn.driver.post("permission", &ask).expect(200);
            assert_eq!(asked["verdict"], "pending");
            let request = asked["requestID"].as_str().expect("an id");

            // What the client sees is all it needs to answer.
            let reported = events.wait_for("permission.asked");
            let shown = &reported["properties"];
            assert_eq!((&shown["id"], &shown["sessionID"]), (&json!(request), &json!(id)));
            assert_eq!(shown["tool"]["callID"], "call_1");
            assert_eq!(client.get("/permission").expect(200), json!([shown]));
            let path = format!("/permission/{request}/reply");
            client.post(&path, &json!({ "reply": reply })).expect(200);
            assert_eq!(events.wait_for("permission.replied")["properties"]["reply"], reply);

            let read =
                client.get(&format!("/turnstone/session/{id}/request/{request}")).expect(200);
            assert!(read.to_string().contains(reply), "{read}");
            turn.driver.post("continue", &json!({})).expect(200);
            let end = match reply {
                "once" => json!({ "output": "touched" }),
                _ => json!({ "error": "The user rejected permission to use this tool." }),
            };
            let part = part["partID"].as_str().expect("an id");
            turn.driver.post(&format!("tool/{part}/end"), &end).expect(200);
            turn.driver.end_step(&step, "tool-calls");
            turn.driver.end();
            asking.join().expect("answered")
        });
        let parts = answer["parts"].as_array().expect("parts");
        let tool = parts.iter().find(|part| part["type"] == "tool").expect("a tool");
        let status = if reply == "once" { "completed" } else { "error" };
        assert_eq!(tool["state"]["status"], status);
        assert_eq!(answer["info"]["finish"], "tool-calls");
        assert!(is_idle(&house, &id));
    }
}

/// Proves R28.
#[test]
fn answered_turn_of_dead_runner_is_offered_to_the_next() {
    let house = ServerFixture::new();
    let id = session(&house);
    let rule = json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "ask" }] });
    house.client().patch(&format!("/session/{id}"), &rule).expect(200);
    let runner = TestRunner::attach(&house);
    let path = format!("/session/{id}/message");
    let open = house
        .client()
        .with_header("idempotency-key", "k")
        .post_without_reading(&path, &text_prompt("touch it"));
    let turn = runner.take();
    let step = turn.driver.step();
    let ask = json!({ "permission": "bash", "patterns": ["touch x"], "always": [], "metadata": {},
        "waits": true });
    let asked = turn.driver.post("permission", &ask).expect(200);
    let request = asked["requestID"].as_str().expect("an id");
    drop(open);
    let house = house.restart();
    let client = house.client();
    let runner = TestRunner::attach(&house);
    let keyed = client.with_header("idempotency-key", "k");
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| keyed.post(&path, &text_prompt("touch it")).expect(200));
        let reply = format!("/permission/{request}/reply");
        client.post(&reply, &json!({ "reply": "once" })).expect(200);
        let found =
            client.get(&format!("/turnstone/runner/{}/inbox?wait=20000", runner.id)).expect(200);
        assert_eq!(found, json!({ "sessions": [], "resumable": [id] }));
        let resumed = client.post(&format!("/turnstone/session/{id}/resume"), &json!({}));
        let driver = crate::support::TurnDriver::from_response(client, &id, &resumed.expect(200));
        driver.end_step(&step, "stop");
        driver.end();
        asking.join().expect("answered")
    });
    assert_eq!((&answer["info"]["id"], &answer["info"]["finish"]), (&json!(step), &json!("stop")));
    assert!(is_idle(&house, &id));
}
