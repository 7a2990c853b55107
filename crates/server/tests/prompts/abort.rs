//! Aborting: the turn ends once, its client is answered, and no prompt is lost.

use std::time::Duration;

use serde_json::{Value, json};
use turnstone_engine::AbortOutcome;

use crate::runner::TestRunner;
use crate::support::ServerFixture;
use crate::{inbox, is_idle, local_context, messages, named, session, text_prompt, waiting};

/// Proves R29.
#[test]
fn abort_ends_the_turn_and_keeps_the_inbox() {
    let house = ServerFixture::new();
    let id = session(&house);
    let client = house.client();
    let abort = &format!("/session/{id}/abort");
    assert_eq!(client.send("POST", abort, None).expect(200), true, "nothing runs");
    client.send("POST", "/session/foo/abort", None).expect(400);
    let runner = TestRunner::attach(&house);
    let path = &format!("/session/{id}/message");
    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &text_prompt("go")).expect(200));
        let turn = runner.take();
        let step = turn.driver.step();
        turn.stream(&step, "text", &["half a wo"]);
        let tool = json!({ "messageID": step, "callID": "c", "tool": "write", "input": {},
            "touches": { "paths": ["half.txt"] } });
        turn.driver.post("tool", &tool).expect(200);
        house.write_file("half.txt", "half\n");
        let queued = scope.spawn(|| client.post(path, &text_prompt("and then this")).expect(200));
        let kept = waiting(&house, &id);

        assert_eq!(client.send("POST", abort, None).expect(200), true);

        let answer = asking.join().expect("answered");
        assert_eq!(answer["info"]["id"], step.as_str());
        let error = json!({ "name": "MessageAbortedError", "data": { "message": "Aborted" } });
        assert_eq!(answer["info"]["error"], error);
        let parts = answer["parts"].as_array().expect("parts");
        assert_eq!(parts[1]["text"], "half a wo", "what was said stays");
        assert_eq!(parts[2]["state"]["error"], "Tool execution aborted");
        assert_eq!(events.wait_for("session.error")["properties"]["error"], error);
        events.wait_for("session.idle");
        let gone = turn.driver.post("beat", &json!({})).expect(410);
        assert_eq!(gone["state"], "aborted");

        assert_eq!(inbox(&house, &id), [kept.as_str()], "the prompt that waits is still there");
        let next = runner.take();
        assert_eq!((next.message(), next.text()), (kept.as_str(), "and then this"));
        let made = next.answer("Done.");
        assert_eq!(queued.join().expect("answered")["info"]["id"], made.as_str());
    });
    let first = messages(&house, &id)[0]["info"]["id"].clone();
    client.post(&format!("/session/{id}/revert"), &json!({ "messageID": first })).expect(200);
    assert!(!house.project().join("half.txt").exists(), "what it did until then can be undone");
}

#[test]
fn abort_before_first_output_answers_the_client() {
    let house = ServerFixture::new();
    let id = session(&house);
    let client = house.client();
    let runner = TestRunner::attach(&house);
    let path = &format!("/session/{id}/message");
    for route in [format!("/session/{id}/abort"), format!("/api/session/{id}/interrupt")] {
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| client.post(path, &text_prompt("go")).expect(200));
            let turn = runner.take();
            let stopped = client.send("POST", &route, None);
            assert!(stopped.status < 300, "{}", stopped.text());
            assert_eq!(turn.driver.post("beat", &json!({})).expect(410)["state"], "aborted");
            asking.join().expect("answered")
        });
        assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
        assert!(answer["info"]["time"]["completed"].is_i64());
        assert!(is_idle(&house, &id));
    }
}

#[test]
fn abort_withdraws_pending_permission() {
    let house = ServerFixture::new();
    let id = session(&house);
    let client = house.client();
    let rule = json!({ "permission": [{ "permission": "bash", "pattern": "*", "action": "ask" }] });
    client.patch(&format!("/session/{id}"), &rule).expect(200);
    let runner = TestRunner::attach(&house);
    let path = &format!("/session/{id}/message");
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &text_prompt("go")).expect(200));
        let turn = runner.take();
        turn.driver.step();
        let ask = json!({ "permission": "bash", "patterns": ["rm"], "always": [], "metadata": {},
            "waits": true });
        turn.driver.post("permission", &ask).expect(200);
        client.send("POST", &format!("/session/{id}/abort"), None).expect(200);
        asking.join().expect("answered")
    });
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    assert_eq!(client.get("/permission").expect(200), json!([]));
    assert!(is_idle(&house, &id));
}

#[test]
fn compaction_that_fails_leaves_nothing() {
    let house = ServerFixture::new();
    let id = session(&house);
    let client = house.client();
    let note = json!({ "noReply": true, "parts": [{ "type": "text", "text": "stays" }] });
    client.post(&format!("/session/{id}/message"), &note).expect(200);
    let before = crate::messages(&house, &id);
    let runner = TestRunner::attach(&house);
    let path = &format!("/session/{id}/summarize");
    let model = json!({ "providerID": "p", "modelID": "m" });
    let refused = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &model).expect(503));
        runner.take().driver.step();
        client.send("POST", &format!("/session/{id}/abort"), None).expect(200);
        asking.join().expect("answered")
    });
    assert_eq!(refused["_tag"], "CompactionError", "{refused}");
    assert_eq!(crate::messages(&house, &id), before);
    assert!(is_idle(&house, &id));
}

/// Proves R45.
#[test]
fn abort_from_another_process_ends_driven_turn() {
    let house = ServerFixture::new();
    let id = session(&house);
    let client = house.client();
    let runner = TestRunner::attach(&house);
    let path = &format!("/session/{id}/message");
    let answer: Value = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &text_prompt("go")).expect(200));
        let turn = runner.take();
        let step = turn.driver.step();
        turn.stream(&step, "text", &["half a wo"]);
        // As `turnstone session abort` does it: the request is stored, and the process that runs the turn notices it.
        let asked =
            house.engine().turns().aborts().request(&local_context(), &named(&id)).expect("asked");
        assert!(matches!(asked, AbortOutcome::Requested(_)), "{asked:?}");
        let mut beat = turn.driver.post("beat", &json!({}));
        while beat.status == 200 {
            std::thread::sleep(Duration::from_millis(50));
            beat = turn.driver.post("beat", &json!({}));
        }
        assert_eq!(beat.expect(410)["state"], "aborted");
        asking.join().expect("answered")
    });
    assert_eq!(answer["info"]["error"]["name"], "MessageAbortedError");
    assert_eq!(answer["parts"][1]["text"], "half a wo");
    assert!(is_idle(&house, &id));
}
