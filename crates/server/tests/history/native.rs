//! Turns driven by a program that knows nothing but HTTP.

use serde_json::{Value, json};
use turnstone_engine::Prompt;
use turnstone_store::{PromptDelivery, Tx};

use crate::support::{ServerFixture, TestClient, TurnDriver, adjustable_now, advance_clock};
use crate::turn_fixture::{ctx, id, prompt, read, session};

fn admit(house: &ServerFixture, session: &str, name: &str) {
    let delivery = PromptDelivery::Queue;
    let Prompt { message, parts } = prompt(session, name, name);
    let admit = move |tx: &Tx<'_>| tx.prompts().admit(&message, &parts, delivery);
    house.engine().store().write(&ctx(), admit).wait().expect("admitted");
}

#[test]
fn driver_runs_a_turn_that_can_be_undone_and_redone() {
    let house = ServerFixture::with_git();
    let session = session(&house, "T");
    let client = house.client();
    let runner = client.post("/turnstone/runner", &json!({ "name": "loop" })).expect(200);
    let inbox = format!("/turnstone/runner/{}/inbox", runner["runner"]["id"].as_str().expect("id"));
    assert_eq!(client.get(&inbox).expect(200), json!({ "sessions": [], "resumable": [] }));
    admit(&house, &session, "1");
    let waiting = client.get(&format!("{inbox}?wait=10000")).expect(200);
    assert_eq!(waiting, json!({ "sessions": [session], "resumable": [] }));

    let driver = TurnDriver::take(client, &session);
    assert_eq!(client.get("/turnstone/runner").expect(200).as_array().map(Vec::len), Some(1));
    let step = driver.step();
    let text = json!({"type": "text", "text": "", "time": {"start": 1}});
    let part = driver.post(&format!("step/{step}/part"), &text).expect(200);
    for piece in ["I will ", "write."] {
        driver.post("delta", &json!({ "partID": part["id"], "text": piece })).expect(200);
    }
    let named =
        driver.tool(&step, &json!({ "paths": ["a.txt"] }), || house.write_file("a.txt", "a\n"));
    assert_eq!(named["files"], json!([{ "path": "a.txt", "status": "A" }]));
    let opaque = driver.tool(&step, &json!("anything"), || {
        house.write_file("b.txt", "b\n");
        house.write_file("README.md", "# changed\n");
    });
    let files = json!([{"path": "README.md", "status": "M"}, {"path": "b.txt", "status": "A"}]);
    assert_eq!(opaque["files"], files);
    let done = driver.end_step(&step, "stop");
    assert_eq!(done["files"].as_array().map(Vec::len), Some(3));
    assert_eq!(driver.end()["state"], "completed");

    let read_back = client.get(&format!("/session/{session}/message/{step}")).expect(200);
    let texts: Vec<&str> = read_back["parts"]
        .as_array()
        .expect("parts")
        .iter()
        .filter_map(|it| it["text"].as_str())
        .collect();
    assert_eq!(texts, ["I will write."]);
    assert_eq!(read_back["info"]["finish"], "stop");
    assert_eq!(client.get(&format!("/session/{session}")).expect(200)["cost"], json!(0.5));

    let undo = format!("/turnstone/session/{session}/undo");
    let foreseen = client.post(&undo, &json!({ "dryRun": true }));
    let plan = &foreseen.expect(200)["plan"];
    assert_eq!(plan["turns"], json!([driver.turn]));
    assert_eq!(read(&house, "a.txt").as_deref(), Some("a\n"), "a plan changes nothing");
    let fresh = client.with_header("if-match", foreseen.header("etag").expect("a tag"));
    let undone = fresh.with_header("idempotency-key", "u").post(&undo, &json!({})).expect(200);
    assert_eq!(undone["complete"], true);
    assert_eq!((read(&house, "a.txt"), read(&house, "b.txt")), (None, None));
    assert_eq!(read(&house, "README.md").as_deref(), Some("# demo\n"));
    // The reply was lost: the same request again is the same answer, whatever If-Match says.
    let again = fresh.with_header("idempotency-key", "u").post(&undo, &json!({})).expect(200);
    assert_eq!(again, undone);
    // Without the key it is another request, about a session that has moved on.
    assert_eq!(fresh.post(&undo, &json!({})).expect(409)["_tag"], "StaleError");
    let redo = format!("/turnstone/session/{session}/redo");
    let keyed = client.with_header("idempotency-key", "r");
    let redone = keyed.post(&redo, &json!({})).expect(200);
    assert_eq!(keyed.post(&redo, &json!({})).expect(200), redone);
    assert_eq!(read(&house, "b.txt").as_deref(), Some("b\n"));
    assert_eq!(client.post(&redo, &json!({})).expect(409)["_tag"], "NothingToDoError");

    let line = client.get(&format!("/turnstone/session/{session}/timeline")).expect(200);
    let kinds: Vec<&Value> =
        line.as_array().expect("a list").iter().map(|it| &it["type"]).collect();
    assert_eq!(kinds, ["turn", "operation", "operation"]);
    assert_eq!((&line[0]["additions"], &line[0]["deletions"]), (&json!(3), &json!(1)));
    assert_eq!(line[0]["files"][0]["evidence"], "named");
    assert_eq!(line[0]["files"][1]["evidence"], "window");
}

/// Proves R43.
#[test]
fn every_turn_call_is_idempotent() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let client = house.client();
    let path = format!("/turnstone/session/{session}/turn");
    let body = json!({"prompt": {"agent": "build", "model": {"providerID": "p", "modelID": "m"},
        "parts": [{"type": "text", "text": "go"}]}});
    let keyed = client.with_header("idempotency-key", "k");
    let begun = keyed.post(&path, &body).expect(200);
    assert_eq!(keyed.post(&path, &body).expect(200), begun);
    assert_eq!(client.post(&path, &body).expect(409)["_tag"], "SessionBusyError");
    let driver = TurnDriver::from_response(client, &session, &begun).with("idempotency-key", "k");
    let twice = |what: &str, body: &Value| {
        let first = driver.post(what, body).expect(200);
        assert_eq!(driver.post(what, body).expect(200), first, "{what}");
        first
    };
    let step = twice("step", &json!({"providerID": "p", "modelID": "m", "agent": "build"}));
    let message = step["messageID"].as_str().expect("an id");
    let part = twice(&format!("step/{message}/part"), &json!({"type": "text", "text": ""}));
    twice("delta", &json!({ "partID": part["id"], "text": "once" }));
    let tool = json!({"messageID": message, "callID": "c", "tool": "t", "input": {},
        "touches": {"paths": ["f"]}});
    let tool = twice("tool", &tool);
    house.write_file("f", "f");
    let path = format!("tool/{}/end", tool["partID"].as_str().expect("an id"));
    let done = twice(&path, &json!({ "output": "" }));
    assert_eq!(done["files"].as_array().map(Vec::len), Some(1));
    twice(&format!("step/{message}/end"), &json!({ "reason": "stop" }));
    twice("end", &json!({ "outcome": "completed" }));
    let messages = client.get(&format!("/session/{session}/message")).expect(200);
    let parts: Vec<&Value> = messages[1]["parts"].as_array().expect("parts").iter().collect();
    let kinds: Vec<&str> = parts.iter().filter_map(|part| part["type"].as_str()).collect();
    assert_eq!(kinds, ["step-start", "text", "tool", "step-finish", "patch"]);
    assert_eq!(parts[1]["text"], "once");
    let made = client.with_header("idempotency-key", "c");
    let checkpoint = format!("/turnstone/session/{session}/checkpoint");
    let first = made.post(&checkpoint, &json!({ "name": "here" })).expect(200);
    assert_eq!(made.post(&checkpoint, &json!({ "name": "here" })).expect(200), first);
    assert_eq!(client.get(&checkpoint).expect(200).as_array().map(Vec::len), Some(1));
}

/// Proves R43.
#[test]
fn stale_turn_call_writes_nothing() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let step = driver.step();
    let now = crate::turn_fixture::seq(&house, &session);
    let stale = driver.with("if-match", &format!("\"{}\"", now - 1));
    let tool = json!({"messageID": step, "callID": "c", "tool": "t", "input": {},
        "touches": {"paths": ["f"]}});
    let calls = [
        ("step", json!({"providerID": "p", "modelID": "m", "agent": "build"})),
        ("tool", tool.clone()),
        ("end", json!({ "outcome": "completed" })),
        (
            "permission",
            json!({"permission": "bash", "patterns": ["x"], "always": [], "metadata": {}}),
        ),
    ];
    for (what, body) in &calls {
        assert_eq!(stale.post(what, body).expect(409)["_tag"], "StaleError", "{what}");
    }
    assert_eq!(crate::turn_fixture::seq(&house, &session), now);
    let fresh = driver.with("if-match", &format!("\"{now}\""));
    let answer = fresh.post("tool", &tool);
    answer.expect(200);
    let tag = format!("\"{}\"", crate::turn_fixture::seq(&house, &session));
    assert_eq!(answer.header("etag"), Some(tag.as_str()));
}

#[test]
fn vanished_driver_leaves_an_interrupted_turn() {
    let house = ServerFixture::with_settings(|settings| {
        settings.clock = adjustable_now;
        settings.limits.driver_timeout_ms = 600_000;
    });
    let session = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let step = driver.step();
    let body = json!({"messageID": step, "callID": "c", "tool": "sh", "input": {},
        "touches": "anything"});
    driver.post("tool", &body).expect(200);
    house.write_file("left", "behind");
    advance_clock(700_000);
    let status = format!("/turnstone/session/{session}");
    let mut state = house.client().get(&status).expect(200);
    while !state["turn"].is_null() {
        std::thread::sleep(std::time::Duration::from_millis(50));
        state = house.client().get(&status).expect(200);
    }
    let gone = driver.post("end", &json!({ "outcome": "completed" })).expect(410);
    assert_eq!((&gone["_tag"], &gone["state"]), (&json!("TurnEndedError"), &json!("interrupted")));
    let mut line = house.client().get(&format!("{status}/timeline")).expect(200);
    assert_eq!(line[0]["state"], "interrupted");
    // What its tool did is found out right behind its end.
    while line[0]["files"] == json!([]) {
        std::thread::sleep(std::time::Duration::from_millis(50));
        line = house.client().get(&format!("{status}/timeline")).expect(200);
    }
    let file = &line[0]["files"][0];
    assert_eq!((&file["path"], &file["evidence"]), (&json!("left"), &json!("recovered")));
    house.client().post(&format!("{status}/undo"), &json!({})).expect(200);
    assert_eq!(read(&house, "left"), None);
    TurnDriver::begin(house.client(), &session, "again").end();
}

#[test]
fn driver_with_open_call_is_not_timed_out() {
    let house = ServerFixture::with_settings(|settings| {
        settings.clock = adjustable_now;
        settings.limits.driver_timeout_ms = 600_000;
    });
    let session = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &session, "go");
    // Longer than the server's patience, taken together.
    for _ in 0..12 {
        driver.post("beat", &json!({})).expect(200);
        advance_clock(300_000);
        // Gives the server the chance to look for drivers that have vanished.
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    assert_eq!(driver.end()["state"], "completed");
}

/// Proves R28.
#[test]
fn waiting_turn_survives_restart_and_is_resumed_once() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let rule = json!({"permission": [{"permission": "bash", "pattern": "*", "action": "ask"}]});
    house.client().patch(&format!("/session/{session}"), &rule).expect(200);
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let step = driver.step();
    let body = json!({"messageID": step, "callID": "c", "tool": "sh", "input": {},
        "touches": {"paths": ["f"]}});
    let part = driver.post("tool", &body).expect(200)["partID"].clone();
    let ask = json!({"permission": "bash", "patterns": ["rm"], "always": [], "metadata": {},
        "waits": true});
    let asked = driver.post("permission", &ask).expect(200);
    assert_eq!(asked["verdict"], "pending");
    let request = asked["requestID"].as_str().expect("an id").to_owned();
    let base = format!("/turnstone/session/{session}");

    let house = house.restart();
    let client = house.client();
    let lost = TurnDriver::from_response(
        client,
        &session,
        &json!({"turn": driver.turn, "lease": driver.lease}),
    );
    assert_eq!(lost.post("beat", &json!({})).expect(409)["_tag"], "FencedError");
    let resume = format!("{base}/resume");
    assert_eq!(client.post(&resume, &json!({})).expect(200)["turn"], Value::Null, "no answer yet");
    let reply = turnstone_core::model::PermissionReply::Once;
    let id = request.parse().expect("an id");
    house.engine().permissions().reply(&ctx(), &id, reply, None).expect("answered");
    let state = client.get(&format!("{base}/request/{request}")).expect(200);
    assert!(state.to_string().contains("once"), "{state}");

    let address = house.address();
    let resumed: Vec<Value> = std::thread::scope(|scope| {
        let try_it = || TestClient::new(address).post(&resume, &json!({})).expect(200);
        let tries: Vec<_> = (0..4).map(|_| scope.spawn(try_it)).collect();
        tries.into_iter().map(|it| it.join().expect("answered")).collect()
    });
    let won: Vec<&Value> = resumed.iter().filter(|it| it["turn"] == driver.turn).collect();
    assert_eq!(won.len(), 1, "exactly one: {resumed:?}");
    let driver = TurnDriver::from_response(client, &session, won[0]);
    house.write_file("f", "written after the restart");
    let path = format!("tool/{}/end", part.as_str().expect("an id"));
    let done = driver.post(&path, &json!({ "output": "" })).expect(200);
    assert_eq!(
        done["files"],
        json!([{ "path": "f", "status": "A" }]),
        "compared with what was before"
    );
    driver.end_step(&step, "stop");
    assert_eq!(driver.end()["state"], "completed");
}

#[test]
fn takeover_fences_the_former_driver() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let first = TurnDriver::begin(house.client(), &session, "go");
    let step = first.step();
    let body = json!({"messageID": step, "callID": "c", "tool": "sh", "input": {},
        "touches": {"paths": ["f"]}});
    let part = first.post("tool", &body).expect(200)["partID"].clone();
    let resume = format!("/turnstone/session/{session}/resume");
    let taken = house.client().post(&resume, &json!({ "takeover": true })).expect(200);
    let second = TurnDriver::from_response(house.client(), &session, &taken);
    assert_eq!(second.turn, first.turn);
    assert_eq!(first.post("beat", &json!({})).expect(409)["_tag"], "FencedError");
    house.write_file("f", "f");
    let path = format!("tool/{}/end", part.as_str().expect("an id"));
    assert_eq!(
        second.post(&path, &json!({ "error": "no" })).expect(200)["files"].as_array().map(Vec::len),
        Some(1)
    );
    second.end();
    assert_eq!(second.post("beat", &json!({})).expect(410)["state"], "completed");
    assert_eq!(
        first.post("end", &json!({ "outcome": "completed" })).expect(200)["state"],
        "completed"
    );
    first.post("end", &json!({ "outcome": "failed" })).expect(410);
}

#[test]
fn session_log_is_readable_in_pages() {
    let house = ServerFixture::new();
    let session = session(&house, "Findable");
    let client = house.client();
    let driver = TurnDriver::begin(client, &session, "a needle in here");
    let step = driver.step();
    driver.tool(&step, &json!({ "paths": ["a"] }), || house.write_file("a", "a\n"));
    driver.end_step(&step, "stop");
    driver.end();
    let base = format!("/turnstone/session/{session}");
    let (mut after, mut kinds) = (0, Vec::new());
    loop {
        let page = client.get(&format!("{base}/log?after={after}&limit=3")).expect(200);
        let events = page["events"].as_array().expect("events");
        if events.is_empty() {
            break;
        }
        assert!(events.iter().all(|it| it["seq"].as_i64() > Some(after)));
        kinds.extend(events.iter().map(|it| it["kind"].as_str().expect("a kind").to_owned()));
        after = page["next"].as_i64().expect("a number");
    }
    assert_eq!(
        kinds.len() as i64,
        crate::turn_fixture::seq(&house, &session),
        "no gap, nothing twice"
    );
    let whole = client.get("/turnstone/log?limit=1000").expect(200);
    assert!(whole["events"].as_array().map(Vec::len) >= Some(kinds.len()));
    let found = client.get(&format!("/turnstone/search?q=needle&session={session}")).expect(200);
    assert_eq!(found["hits"][0]["session"], json!(session));
    client.get("/turnstone/search").expect(400);
    assert!(client.get("/turnstone/size").expect(200)["database"].as_u64() > Some(0));
    let coverage = client.get(&format!("{base}/coverage")).expect(200);
    assert_eq!(coverage["root"], json!(house.project()));
    assert_eq!(client.get(&format!("{base}/contended")).expect(200), json!([]));
    client.get("/turnstone/session/ses_unknown").expect(404);

    let point = json!({ "before": driver.turn, "dryRun": true });
    assert!(client.post(&format!("{base}/jump"), &point).expect(200)["plan"].is_object());
    client.post(&format!("{base}/jump"), &json!({ "before": driver.turn })).expect(200);
    assert_eq!(read(&house, "a"), None);
    client.post(&format!("{base}/jump"), &json!({ "after": driver.turn })).expect(200);
    assert_eq!(read(&house, "a").as_deref(), Some("a\n"));
    client.post(&format!("{base}/jump"), &json!({})).expect(400);
    client.post(&format!("{base}/undo"), &json!({ "turn": "trn_unknown" })).expect(404);
    client.post(&format!("{base}/undo"), &json!({ "turn": "trn_a", "from": "trn_b" })).expect(400);
}

/// Proves R3.
#[test]
fn overlapping_tool_windows_are_contended() {
    let house = ServerFixture::new();
    let (one, other) = (session(&house, "one"), session(&house, "other"));
    let first = TurnDriver::begin(house.client(), &one, "go");
    let second = TurnDriver::begin(house.client(), &other, "go");
    let (step, concurrent) = (first.step(), second.step());
    first.tool(&step, &json!("anything"), || {
        drop(second.tool(&concurrent, &json!("anything"), || house.write_file("both", "?")));
    });
    first.end();
    second.end();
    let path = format!("/turnstone/session/{one}/contended");
    let found = house.client().get(&path).expect(200);
    assert_eq!(found[0]["path"], "both");
    assert_eq!(found[0]["claimants"].as_array().map(Vec::len), Some(2));
    assert_eq!(id(&other).to_string(), other);
}

#[test]
fn aborted_turn_is_over_for_its_driver() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let driver = TurnDriver::begin(house.client(), &session, "go");
    house.client().send("POST", &format!("/session/{session}/abort"), None).expect(200);
    let gone = driver.post("beat", &json!({})).expect(410);
    assert_eq!((&gone["_tag"], &gone["state"]), (&json!("TurnEndedError"), &json!("aborted")));
    TurnDriver::begin(house.client(), &session, "again").end();
}

#[test]
fn null_equals_an_omitted_field() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let base = format!("/turnstone/session/{session}");
    let begun = house.client().post(&format!("{base}/turn"), &json!({ "prompt": null }));
    assert_eq!(begun.expect(200)["turn"], Value::Null, "the inbox is empty");
    let nothing =
        json!({ "turn": null, "scope": null, "paths": null, "also": null, "dryRun": null });
    let refused = house.client().post(&format!("{base}/undo"), &nothing).expect(409);
    assert_eq!(refused["_tag"], "NothingToDoError");
    // A name that is not known is refused, whatever it stands for.
    house.client().post(&format!("{base}/turn"), &json!({ "": null })).expect(400);
    // A whole number is one in any form.
    house.client().post(&format!("{base}/jump"), &json!({ "seq": 3934.0 })).expect(404);
    house.client().post(&format!("{base}/jump"), &json!({ "seq": 0.5 })).expect(400);
    // What is needed is not there if it is `null`.
    house.client().post(&format!("{base}/checkpoint"), &json!({ "name": null })).expect(400);
    house.client().post(&format!("{base}/jump"), &json!({ "seq": null })).expect(400);
}

#[test]
fn impossible_paths_and_token_counts_are_rejected() {
    let house = ServerFixture::new();
    let session = session(&house, "Wrong");
    let driver = TurnDriver::begin(house.client(), &session, "go");
    let step = driver.step();
    for path in ["a\0b".to_owned(), "x".repeat(300), "x/".repeat(3_000)] {
        let body = json!({"messageID": step, "callID": "c", "tool": "t", "input": {},
            "touches": { "paths": [path] }});
        assert_eq!(driver.post("tool", &body).expect(400)["name"], "BadRequest");
    }
    let tokens = |input: i64| json!({ "input": input, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } });
    for body in
        [json!({ "reason": "stop", "cost": -1 }), json!({ "reason": "stop", "tokens": tokens(-1) })]
    {
        driver.post(&format!("step/{step}/end"), &body).expect(400);
    }
    let body = json!({ "reason": "stop", "cost": 0, "tokens": tokens(1) });
    driver.post(&format!("step/{step}/end"), &body).expect(200);
    driver.end();
}

#[test]
fn undo_of_missing_message_is_not_found() {
    let house = ServerFixture::new();
    let session = session(&house, "Slip");
    let base = format!("/turnstone/session/{session}");
    for what in ["undo", "redo"] {
        let ask = |body: &Value| house.client().post(&format!("{base}/{what}"), body);
        ask(&json!({ "message": "msg_unknown" })).expect(404);
        ask(&json!({ "part": "prt_unknown" })).expect(404);
        assert_eq!(ask(&json!({})).expect(409)["_tag"], "NothingToDoError");
    }
}

#[test]
fn position_beyond_the_log_sets_resync() {
    let house = ServerFixture::new();
    let session = session(&house, "Short");
    for path in ["/turnstone/log".to_owned(), format!("/turnstone/session/{session}/log")] {
        let read = |after: i64| house.client().get(&format!("{path}?after={after}")).expect(200);
        let whole = read(0);
        assert_eq!(whole["resync"], false);
        let end = whole["next"].as_i64().expect("a number");
        assert_eq!(read(end), json!({ "events": [], "next": end, "resync": false }));
        assert_eq!(read(end + 1), json!({ "events": [], "next": end, "resync": true }), "{path}");
    }
}

/// Proves R27.
#[test]
fn driver_can_only_write_answers_of_its_turn() {
    let house = ServerFixture::new();
    let client = house.client();
    let id = session(&house, "a turn");
    let first = TurnDriver::begin(client, &id, "first");
    let old = first.step();
    let text = json!({ "type": "text", "text": "said", "time": { "start": 1 } });
    let said = first.post(&format!("step/{old}/part"), &text).expect(200);
    first.end_step(&old, "stop");
    first.end();
    let turn = TurnDriver::begin(client, &id, "second");
    let own = turn.step();
    let before = client.get(&format!("/session/{id}/message")).expect(200);
    let prompt = before[0]["info"]["id"].as_str().expect("an id");
    for message in [old.as_str(), prompt] {
        turn.post(&format!("step/{message}/part"), &text).expect(409);
        let tool = json!({ "messageID": message, "callID": "c", "tool": "bash", "input": {},
            "touches": "nothing" });
        turn.post("tool", &tool).expect(409);
    }
    for part in [&said["id"], &before[0]["parts"][0]["id"]] {
        turn.post("delta", &json!({ "partID": part, "text": "more" })).expect(409);
    }
    assert_eq!(client.get(&format!("/session/{id}/message")).expect(200), before);
    turn.post(&format!("step/{own}/part"), &text).expect(200);
    turn.post("step/msg_nobody/part", &text).expect(404);
    turn.post("delta", &json!({ "partID": "prt_nobody", "text": "x" })).expect(404);
}
