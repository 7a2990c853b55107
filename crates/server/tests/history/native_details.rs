//! What a driver does next to its answers: to-dos, titles, retries, compaction, pruning, files.

use serde_json::{Value, json};

use crate::support::{ServerFixture, TurnDriver};
use crate::turn_fixture::session;

fn session_info(house: &ServerFixture, session: &str) -> Value {
    house.client().get(&format!("/session/{session}")).expect(200)
}

fn messages(house: &ServerFixture, session: &str) -> Vec<Value> {
    let listed = house.client().get(&format!("/session/{session}/message")).expect(200);
    listed.as_array().expect("a list").clone()
}

/// What a model call may keep of a conversation: all of its newest turn, and nothing before.
fn budget() -> Value {
    json!({ "providerID": "p", "modelID": "m", "context": 200_000, "output": 8_000, "tailTurns": 1 })
}

#[test]
fn todos_title_and_summary_are_stored_and_undone_with_the_turn() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let todos = json!([{ "content": "look", "status": "pending", "priority": "high" }]);
    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    driver.send("PUT", "todo", &json!({ "todos": todos })).expect(200);
    let updated = events.wait_for("todo.updated");
    assert_eq!(updated["properties"]["todos"], todos);
    driver.send("PUT", "title", &json!({ "title": "Tides" })).expect(200);
    assert_eq!(session_info(&house, &id)["title"], "Tides");
    let prompt = messages(&house, &id)[0]["info"]["id"].clone();
    let summary = json!({ "messageID": prompt, "title": "Looked", "body": "All of it." });
    driver.send("PUT", "summary", &summary).expect(200);
    let stored = messages(&house, &id)[0]["info"]["summary"].clone();
    assert_eq!((&stored["title"], &stored["body"]), (&json!("Looked"), &json!("All of it.")));
    let step = driver.step();
    driver.end_step(&step, "stop");
    let wrong = json!({ "messageID": step, "title": "x" });
    assert_eq!(driver.send("PUT", "summary", &wrong).status, 409, "an answer is no prompt");
    driver.end();
    assert_eq!(
        driver.send("PUT", "todo", &json!({ "todos": [] })).expect(410)["_tag"],
        "TurnEndedError"
    );

    let path = format!("/session/{id}/todo");
    assert_eq!(house.client().get(&path).expect(200), todos);
    house.client().post(&format!("/turnstone/session/{id}/undo"), &json!({})).expect(200);
    assert_eq!(house.client().get(&path).expect(200), json!([]), "the turn is undone");
}

#[test]
fn retry_is_shown_until_the_next_attempt() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let status = || house.client().get("/session/status").expect(200)[&id].clone();
    assert_eq!(status()["type"], "busy");
    let retry = json!({ "attempt": 2, "message": "Overloaded", "next": 1_900_000_000_000_i64 });
    driver.post("retry", &retry).expect(200);
    let mut shown = retry.clone();
    shown["type"] = json!("retry");
    assert_eq!(status(), shown);
    driver.send("DELETE", "retry", &Value::Null).expect(200);
    assert_eq!(status(), json!({ "type": "busy" }));
    driver.post("retry", &retry).expect(200);
    driver.end();
    assert_eq!(status(), Value::Null, "it ended");
}

#[test]
fn structured_answer_is_stored_with_its_step() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let step = driver.step();
    let end = json!({ "reason": "stop", "structured": { "answer": 42 } });
    driver.post(&format!("step/{step}/end"), &end).expect(200);
    driver.end();
    assert_eq!(messages(&house, &id)[1]["info"]["structured"], json!({ "answer": 42 }));
}

fn tokens(input: u64) -> Value {
    json!({ "input": input, "output": 2, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

/// The `step-finish` of the newest answer.
fn last_finish(house: &ServerFixture, session: &str) -> Value {
    let answer = messages(house, session).pop().expect("an answer");
    let mut parts = answer["parts"].as_array().expect("parts").iter().rev();
    parts.find(|part| part["type"] == "step-finish").expect("an end").clone()
}

/// Proves R28.
#[test]
fn aborted_turn_keeps_usage_that_was_reported_while_it_ran() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let step = driver.step();
    let path = format!("step/{step}/usage");
    driver.send("PUT", &path, &json!({ "cost": 0.25, "tokens": tokens(10) })).expect(200);
    driver.send("PUT", &path, &json!({ "tokens": tokens(20) })).expect(200);
    let wrong = json!({ "tokens": { "input": -1, "output": 2, "reasoning": 0, "cache": { "read": 0, "write": 0 } } });
    driver.send("PUT", &path, &wrong).expect(400);

    house.client().post(&format!("/session/{id}/abort"), &Value::Null).expect(200);
    driver.send("PUT", &path, &json!({ "cost": 1 })).expect(410);

    let finish = last_finish(&house, &id);
    assert_eq!((&finish["cost"], &finish["tokens"]), (&json!(0.25), &tokens(20)), "{finish}");
}

/// Proves R28.
#[test]
fn end_of_turn_takes_usage_of_the_open_step() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let end = |cost: f64| json!({ "outcome": "failed", "error": { "name": "UnknownError" }, "cost": cost, "tokens": tokens(30) });
    driver.post("end", &end(0.5)).expect(409);
    driver.step();
    driver.post("end", &end(-0.5)).expect(400);
    driver.post("end", &end(0.5)).expect(200);
    let finish = last_finish(&house, &id);
    assert_eq!((&finish["cost"], &finish["tokens"]), (&json!(0.5), &tokens(30)), "{finish}");
}

#[test]
fn end_of_step_replaces_or_keeps_reported_usage() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let cost = || messages(&house, &id).pop().expect("an answer")["info"]["cost"].clone();
    let step = driver.step();
    let usage = json!({ "cost": 0.25, "tokens": tokens(10) });
    driver.send("PUT", &format!("step/{step}/usage"), &usage).expect(200);
    driver.end_step(&step, "tool-calls");
    assert_eq!(cost(), json!(0.5), "reported cost is not added");
    driver.send("PUT", &format!("step/{step}/usage"), &usage).expect(409);

    let step = driver.step();
    driver.send("PUT", &format!("step/{step}/usage"), &usage).expect(200);
    driver.post(&format!("step/{step}/end"), &json!({ "reason": "stop" })).expect(200);
    let finish = last_finish(&house, &id);
    assert_eq!((&cost(), &finish["tokens"]), (&json!(0.25), &tokens(10)), "{finish}");
    driver.end();
}

#[test]
fn metadata_of_a_tool_is_an_object() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let step = driver.step();
    let tool = json!({ "messageID": step, "callID": "c", "tool": "bash", "input": {}, "touches": "nothing" });
    let part = driver.post("tool", &tool).expect(200)["partID"].clone();
    let end = |metadata: Value| {
        let body = json!({ "output": "x", "metadata": metadata });
        driver.post(&format!("tool/{}/end", part.as_str().expect("an id")), &body)
    };
    end(json!("x")).expect(400);
    end(json!({ "output": "x", "exit": 0 })).expect(200);
    driver.end();
}

/// A turn that says `text`.
fn say(house: &ServerFixture, session: &str, text: &str) {
    let driver = TurnDriver::begin(house.client(), session, &format!("prompt {text}"));
    let step = driver.step();
    let part = json!({ "type": "text", "text": text });
    driver.post(&format!("step/{step}/part"), &part).expect(200);
    driver.end_step(&step, "stop");
    driver.end();
}

#[test]
fn driver_compacts_what_a_person_asked_to_compact() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    say(&house, &id, "one");
    say(&house, &id, "two");
    let driver = TurnDriver::begin(house.client(), &id, "three");
    let wanted =
        json!({ "agent": "build", "model": { "providerID": "p", "modelID": "m" }, "auto": true });
    let request = driver.post("compaction", &wanted).expect(200)["messageID"].clone();
    let at = format!("compaction/{}", request.as_str().expect("an id"));
    let plan = driver.post(&format!("{at}/plan"), &budget()).expect(200);
    let transcript = plan["transcript"].as_str().expect("a text");
    assert!(transcript.contains("one") && transcript.contains("two"), "{plan}");
    assert_eq!(plan["continues"], true, "{plan}");

    assert_eq!(session_info(&house, &id)["time"]["compacting"], Value::Null);
    let step =
        json!({ "providerID": "p", "modelID": "m", "agent": "compaction", "compacts": request });
    let summary = driver.post("step", &step).expect(200)["messageID"].clone();
    let name = summary.as_str().expect("an id");
    assert!(session_info(&house, &id)["time"]["compacting"].is_i64());
    let text = json!({ "type": "text", "text": "They said one and two." });
    driver.post(&format!("step/{name}/part"), &text).expect(200);
    driver.end_step(name, "stop");
    assert_eq!(session_info(&house, &id)["time"]["compacting"], Value::Null, "it is written");

    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    let end = json!({ "messageID": summary, "budget": budget() });
    let done = driver.post(&format!("{at}/end"), &end).expect(200);
    assert!(done["nextID"].as_str().is_some_and(|id| id.starts_with("msg_")), "{done}");
    let count = messages(&house, &id).len();
    assert_eq!(driver.post(&format!("{at}/end"), &end).expect(200)["nextID"], done["nextID"]);
    driver.post("step", &step).expect(409);
    let mut failed = end.clone();
    failed["error"] = json!({ "name": "UnknownError" });
    driver.post(&format!("{at}/end"), &failed).expect(409);
    let found = messages(&house, &id);
    assert_eq!(found.len(), count, "it is done once");
    let info = found.iter().map(|one| &one["info"]).find(|info| info["id"] == summary);
    let info = info.expect("the summary");
    assert_eq!((&info["summary"], &info["parentID"]), (&json!(true), &request));
    driver.end();
}

#[test]
fn compacting_ends_with_a_turn_that_fails() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    say(&house, &id, "one");
    let driver = TurnDriver::begin(house.client(), &id, "two");
    let wanted = json!({ "agent": "build", "model": { "providerID": "p", "modelID": "m" } });
    let request = driver.post("compaction", &wanted).expect(200)["messageID"].clone();
    let not_asked = messages(&house, &id)[0]["info"]["id"].clone();
    let step = |request: &Value| json!({ "providerID": "p", "modelID": "m", "agent": "compaction", "compacts": request });
    assert_eq!(driver.post("step", &step(&not_asked)).status, 400, "it asks for no compaction");
    let summary = driver.post("step", &step(&request)).expect(200)["messageID"].clone();
    assert!(session_info(&house, &id)["time"]["compacting"].is_i64());
    let error = json!({ "name": "UnknownError", "data": { "message": "no model" } });
    let end = json!({ "messageID": summary, "budget": budget(), "error": error });
    let at = format!("compaction/{}/end", request.as_str().expect("an id"));
    assert_eq!(driver.post(&at, &end).expect(200)["nextID"], Value::Null);
    assert_eq!(session_info(&house, &id)["time"]["compacting"], Value::Null);

    driver.post("step", &step(&request)).expect(200);
    assert!(session_info(&house, &id)["time"]["compacting"].is_i64());
    driver.post("end", &json!({ "outcome": "failed" })).expect(200);
    assert_eq!(
        session_info(&house, &id)["time"]["compacting"],
        Value::Null,
        "it ends with its turn"
    );
}

#[test]
fn prune_clears_old_outputs_for_the_model_only() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let output = "word ".repeat(60_000);
    for turn in 0..4 {
        let driver = TurnDriver::begin(house.client(), &id, "go");
        let step = driver.step();
        let tool = json!({ "messageID": step, "callID": format!("c{turn}"), "tool": "look", "input": {}, "touches": "nothing" });
        let part = driver.post("tool", &tool).expect(200)["partID"].clone();
        let end = json!({ "output": output, "title": "looked" });
        driver.post(&format!("tool/{}/end", part.as_str().expect("an id")), &end).expect(200);
        driver.end_step(&step, "stop");
        driver.end();
    }
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let pruned = driver.post("prune", &json!({})).expect(200)["partIDs"].clone();
    assert!(pruned.as_array().is_some_and(|all| !all.is_empty()), "{pruned}");
    let found = messages(&house, &id);
    let parts = found.iter().flat_map(|one| one["parts"].as_array().into_iter().flatten());
    let cleared: Vec<&Value> =
        parts.filter(|part| part["state"]["time"]["compacted"].is_i64()).collect();
    assert_eq!(json!(cleared.iter().map(|part| &part["id"]).collect::<Vec<_>>()), pruned);
    assert!(cleared.iter().all(|part| part["state"]["output"] == json!(output)), "it stays stored");
    assert_eq!(driver.post("prune", &json!({})).expect(200)["partIDs"], json!([]));
    driver.end();
}

#[test]
fn files_are_written_only_as_they_were_read() {
    let house = ServerFixture::with_git();
    let id = session(&house, "T");
    let read = |name: &str| fs_err::read_to_string(house.project().join(name)).expect("read");
    house.write_file("f.txt", "one\n");
    let driver = TurnDriver::begin(house.client(), &id, "go");
    let write = |path: &str, text: &str| {
        driver.post("file/write", &json!({ "files": [{ "path": path, "text": text }] }))
    };
    assert_eq!(write("f.txt", "two\n").expect(409)["_tag"], "FileNotReadError");
    let seen = driver.post("file/read", &json!({ "path": "f.txt" })).expect(200);
    assert_eq!(seen["text"], "one\n");
    house.write_file("f.txt", "saved by a person\n");
    assert_eq!(write("f.txt", "two\n").expect(409)["_tag"], "FileChangedError");
    let stale = json!({ "files": [{ "path": "f.txt", "text": "two\n", "expected": { "stamp": seen["stamp"] } }] });
    assert_eq!(driver.post("file/write", &stale).expect(409)["_tag"], "FileChangedError");
    assert_eq!(read("f.txt"), "saved by a person\n");
    driver.post("file/read", &json!({ "path": "f.txt" })).expect(200);
    let done = write("f.txt", "two\n").expect(200);
    assert_eq!(
        (&done["files"], &done["refused"]),
        (&json!([{ "path": "f.txt", "status": "M" }]), &json!([]))
    );
    let new = json!({ "files": [{ "path": "g.bin", "base64": "/wA=", "expected": "absent" }] });
    driver.post("file/write", &new).expect(200);
    assert_eq!(driver.post("file/read", &json!({ "path": "g.bin" })).expect(200)["base64"], "/wA=");
    assert_eq!(write("../outside", "x").expect(403)["_tag"], "NotAllowedError");

    let path = house.project().join("f.txt");
    driver.post("file/lock", &json!({ "paths": [path] })).expect(200);
    assert_eq!(write("f.txt", "x").expect(409)["_tag"], "FileLockedError");
    driver.send("DELETE", "file/lock", &Value::Null).expect(200);
    write("f.txt", "three\n").expect(200);
    driver.end();
    house.client().post(&format!("/turnstone/session/{id}/undo"), &json!({})).expect(200);
    assert_eq!(
        read("f.txt"),
        "saved by a person\n",
        "the turn is undone, the person's save is not"
    );
    assert!(!house.project().join("g.bin").exists());
}
