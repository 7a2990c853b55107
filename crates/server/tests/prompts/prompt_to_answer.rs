//! The whole path: a client asks, a runner outside takes the prompt up and drives the turn, the client
//! gets the answer.

use serde_json::{Value, json};

use crate::runner::{TakenPrompt, TestRunner};
use crate::support::{ServerFixture, TestClient, adjustable_now, advance_clock};
use crate::{is_idle, messages, session, text_prompt};

fn text_of(answer: &Value) -> Vec<&str> {
    let parts = answer["parts"].as_array().expect("parts");
    parts.iter().filter(|part| part["type"] == "text").filter_map(|p| p["text"].as_str()).collect()
}

/// A session with a runner, and the route that prompts it.
struct PromptedRunner {
    id: String,
    runner: TestRunner,
    client: TestClient,
    path: String,
}

impl PromptedRunner {
    fn attach(house: &ServerFixture) -> Self {
        let id = session(house);
        let path = format!("/session/{id}/message");
        Self { runner: TestRunner::attach(house), client: house.client().clone(), id, path }
    }
}

#[test]
fn runner_answers_every_prompt_route() {
    let house = ServerFixture::new();
    house.write_file(".opencode/command/greet.md", "Greet $ARGUMENTS.\n");
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let client = house.client();

    let (answer, made) = std::thread::scope(|scope| {
        let path = format!("/session/{id}/message");
        let asking =
            scope.spawn(move || client.post(&path, &text_prompt("by message")).expect(200));
        let taken = runner.take();
        assert_eq!((taken.session.as_str(), taken.text()), (id.as_str(), "by message"));
        let made = taken.answer("Hello.");
        (asking.join().expect("answered"), made)
    });
    assert_eq!(answer["info"]["id"], made.as_str());
    assert_eq!((text_of(&answer), &answer["info"]["finish"]), (vec!["Hello."], &json!("stop")));
    assert_eq!(answer["info"]["parentID"], messages(&house, &id)[0]["info"]["id"]);
    assert_eq!(answer["info"].get("error"), None);

    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    client.post(&format!("/session/{id}/prompt_async"), &text_prompt("by and by")).expect(204);
    let taken = runner.take();
    assert_eq!(taken.text(), "by and by");
    taken.answer("Later.");
    events.wait_for("session.idle");

    let answer = std::thread::scope(|scope| {
        let path = format!("/session/{id}/command");
        let body = json!({ "command": "greet", "arguments": "the tide" });
        let asking = scope.spawn(move || client.post(&path, &body).expect(200));
        let taken = runner.take();
        assert_eq!(taken.text(), "Greet the tide.");
        taken.answer("Good morning, tide.");
        asking.join().expect("answered")
    });
    assert_eq!(text_of(&answer), ["Good morning, tide."]);
    assert_eq!(
        events.wait_for("command.executed")["properties"]["messageID"],
        answer["info"]["id"]
    );

    let body = json!({ "prompt": { "text": "in the newer way" } });
    let admitted = client.post(&format!("/api/session/{id}/prompt"), &body).expect(200);
    let taken = runner.take();
    assert_eq!(
        (taken.text(), taken.message()),
        ("in the newer way", text(&admitted["data"]["id"]))
    );
    taken.answer("Newly.");
    events.wait_for("session.idle");

    let stored = messages(&house, &id);
    let roles: Vec<&Value> = stored.iter().map(|message| &message["info"]["role"]).collect();
    assert_eq!(roles, ["user", "assistant"].repeat(4), "each prompt has its answer");
    assert!(is_idle(&house, &id));
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// What an event says, in a few words; nothing of what OpenCode writes in the background whenever it
/// comes to it (titles, figures), of repetitions, and of ephemeral events.
fn event_summary(event: &Value, status: &mut String) -> Option<String> {
    let said = &event["properties"];
    match text(&event["type"]) {
        "message.updated" if said["info"]["role"] == "user" => {
            said["info"].get("summary").is_none().then(|| "prompt".to_owned())
        }
        "message.updated" => {
            let (info, time) = (&said["info"], &said["info"]["time"]);
            match (info["finish"].as_str(), time.get("completed")) {
                (_, Some(_)) => Some(format!("answer is whole {}", info["error"]["name"])),
                (None, None) => Some("answer".to_owned()),
                (Some(_), None) => None,
            }
        }
        "message.part.updated" => {
            let part = &said["part"];
            let more = match text(&part["type"]) {
                "tool" => text(&part["state"]["status"]).to_owned(),
                "step-finish" => text(&part["reason"]).to_owned(),
                _ => part["text"].as_str().unwrap_or_default().to_owned(),
            };
            Some(format!("{} {more}", text(&part["type"])))
        }
        "message.part.delta" => Some(format!("+{}", text(&said["delta"]))),
        "session.status" => {
            let new = text(&said["status"]["type"]).to_owned();
            (std::mem::replace(status, new.clone()) != new).then_some(new)
        }
        kind @ ("session.idle" | "session.error") => Some(kind.to_owned()),
        _ => None,
    }
}

fn recorded() -> Vec<String> {
    let (lines, mut status) = (include_str!("../golden/sse-canonical-event.jsonl"), String::new());
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    events.filter_map(|line| event_summary(line.get("data")?, &mut status)).collect()
}

/// Plays the model of the recording.
fn play_recorded_turn(house: &ServerFixture, taken: &TakenPrompt) {
    let driver = &taken.driver;
    let first = driver.step();
    let thought = taken.stream(&first, "reasoning", &["let me think"]);
    taken.seal(&first, &thought, "let me think");
    let outline = taken.stream(&first, "text", &["I will write", "."]);
    let pending = json!({ "type": "tool", "callID": "call_0", "tool": "write",
        "state": { "status": "pending", "input": {}, "raw": "" } });
    let part = driver.post(&format!("step/{first}/part"), &pending).expect(200);
    let input = json!({ "filePath": house.project().join("canon.txt"), "content": "canon\n" });
    let running = json!({ "messageID": first, "partID": part["id"], "callID": "call_0",
        "tool": "write", "input": input, "touches": { "paths": ["canon.txt"] } });
    driver.post("tool", &running).expect(200);
    taken.seal(&first, &outline, "I will write.");
    house.write_file("canon.txt", "canon\n");
    let end = json!({ "output": "Wrote file successfully.", "title": "canon.txt" });
    driver.post(&format!("tool/{}/end", text(&part["id"])), &end).expect(200);
    driver.end_step(&first, "tool-calls");
    let second = driver.step();
    let outline = taken.stream(&second, "text", &["Done writing", "."]);
    taken.seal(&second, &outline, "Done writing.");
    driver.end_step(&second, "stop");
    driver.end();
}

#[test]
fn turn_events_match_recording_and_revert_undoes_its_file() {
    let house = ServerFixture::with_git();
    let id = session(&house);
    let runner = TestRunner::attach(&house);
    let client = house.client();
    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    let recorded = recorded();
    // The text of the prompt is in the recording.
    let asked = recorded[1].strip_prefix("text ").expect("the prompt's text").to_owned();
    let answer = std::thread::scope(|scope| {
        let path = format!("/session/{id}/message");
        let asking = scope.spawn(move || client.post(&path, &text_prompt(&asked)).expect(200));
        play_recorded_turn(&house, &runner.take());
        asking.join().expect("answered")
    });
    assert_eq!(text_of(&answer), ["Done writing."], "the last message of the turn answers");
    let (mut kinds, mut status) = (Vec::new(), String::new());
    while kinds.last().is_none_or(|last: &String| last != "session.idle") {
        let event = events.event().expect("the stream goes on");
        kinds.extend(event_summary(&event, &mut status));
    }
    assert_eq!(kinds, recorded);

    let stored = messages(&house, &id);
    assert_eq!(stored.len(), 3);
    assert!(stored[1..].iter().all(|it| it["info"]["parentID"] == stored[0]["info"]["id"]));
    let patch = stored[1]["parts"].as_array().expect("parts").last().expect("a part").clone();
    let file = house.project().join("canon.txt");
    assert_eq!((&patch["type"], &patch["files"]), (&json!("patch"), &json!([file])));
    let body = json!({ "messageID": stored[0]["info"]["id"] });
    let reverted = client.post(&format!("/session/{id}/revert"), &body).expect(200);
    assert_eq!(reverted["revert"]["messageID"], body["messageID"]);
    assert!(text(&reverted["revert"]["diff"]).contains("-canon"), "{reverted}");
    assert!(!file.exists(), "the file is gone again");
    client.send("POST", &format!("/session/{id}/unrevert"), None).expect(200);
    assert_eq!(fs_err::read_to_string(&file).expect("back"), "canon\n");
}

#[test]
fn failed_turn_answers_with_the_error() {
    let house = ServerFixture::new();
    let PromptedRunner { id, runner, client, path } = &PromptedRunner::attach(&house);
    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    let data = json!({ "message": "the model says no", "statusCode": 400, "isRetryable": false });
    let end = json!({ "outcome": "failed", "error": { "name": "APIError", "data": data.clone() } });
    // With an answer that has begun, before there is any, and between two.
    for (has_begun, has_ended) in [(true, false), (false, false), (false, true)] {
        let answer = std::thread::scope(|scope| {
            let asking = scope.spawn(|| client.post(path, &text_prompt("fail")).expect(200));
            let taken = runner.take();
            if has_ended {
                let answer = taken.driver.step();
                taken.driver.end_step(&answer, "tool-calls");
            }
            if has_begun {
                let answer = taken.driver.step();
                taken.stream(&answer, "text", &["half a wo"]);
            }
            taken.driver.post("end", &end).expect(200);
            asking.join().expect("answered")
        });
        let info = &answer["info"];
        assert_eq!(info["error"], end["error"]);
        assert_eq!(
            (&info["role"], text_of(&answer).len()),
            (&json!("assistant"), usize::from(has_begun))
        );
        assert!(info["time"]["completed"].is_i64(), "{info}");
        let reported = events.wait_for("session.error");
        assert_eq!(reported["properties"]["error"], end["error"]);
        events.wait_for("session.idle");
        assert!(is_idle(&house, id));
    }
    assert_eq!(messages(&house, id).len(), 7);
}

#[test]
fn silent_runner_leaves_no_prompt_unanswered() {
    let house = ServerFixture::with_settings(|settings| settings.clock = adjustable_now);
    let PromptedRunner { id, runner, client, path } = &PromptedRunner::attach(&house);
    let answer = std::thread::scope(|scope| {
        let asking =
            scope.spawn(|| client.post(path, &text_prompt("is anybody there?")).expect(200));
        assert_eq!(runner.inbox(), std::slice::from_ref(id));
        // It saw the prompt, and dies before it takes it up.
        advance_clock(60_000);
        asking.join().expect("answered")
    });
    assert!(text(&answer["info"]["error"]["data"]["message"]).contains("without an agent"));
    assert_eq!(client.get("/turnstone/runner").expect(200), json!([]));
    assert!(is_idle(&house, id));
    // The next prompt is answered at once, and a runner that comes back is asked again.
    let answer = client.post(path, &text_prompt("and now?")).expect(200);
    assert!(text(&answer["info"]["error"]["data"]["message"]).contains("without an agent"));
    client.get(&format!("/turnstone/runner/{}/inbox", runner.id)).expect(404);
    let runner = TestRunner::attach(&house);
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| client.post(path, &text_prompt("welcome back")).expect(200));
        runner.take().answer("Thanks.");
        asking.join().expect("answered")
    });
    assert_eq!(text_of(&answer), ["Thanks."]);
}

#[test]
fn working_runner_is_not_timed_out() {
    let house = ServerFixture::with_settings(|settings| {
        settings.clock = adjustable_now;
        settings.limits.driver_timeout_ms = 600_000;
    });
    let (first, second) = (session(&house), session(&house));
    let runner = TestRunner::attach(&house);
    let client = house.client();
    std::thread::scope(|scope| {
        let ask = |id: &str, words: &str| {
            client.post(&format!("/session/{id}/message"), &text_prompt(words)).expect(200)
        };
        let asking = scope.spawn(move || ask(&first, "take your time"));
        let taken = runner.take();
        advance_clock(60_000);
        let waiting = scope.spawn(move || ask(&second, "me too"));
        taken.answer("Done.");
        assert_eq!(text_of(&asking.join().expect("answered")), ["Done."]);
        advance_clock(40_000);
        runner.take().answer("And done.");
        assert_eq!(text_of(&waiting.join().expect("answered")), ["And done."]);
    });
    advance_clock(60_000);
    assert_eq!(client.get("/turnstone/runner").expect(200), json!([]), "it is idle and silent");
}

#[test]
fn leaving_runner_releases_waiting_clients() {
    let house = ServerFixture::new();
    let PromptedRunner { id, runner, client, path } = &PromptedRunner::attach(&house);
    // If-Match is about the moment the prompt was stored, not about what follows (R43).
    let asks = client.with_header("if-match", &format!("\"{}\"", crate::seq(&house, id)));
    let answer = std::thread::scope(|scope| {
        let asking = scope.spawn(|| asks.post(path, &text_prompt("wait for it")).expect(200));
        assert_eq!(runner.inbox(), std::slice::from_ref(id));
        runner.leave();
        asking.join().expect("answered")
    });
    assert!(text(&answer["info"]["error"]["data"]["message"]).contains("without an agent"));
    assert!(is_idle(&house, id));
}

#[test]
fn vanished_runner_leaves_an_error_and_nothing_stuck() {
    let house = ServerFixture::with_settings(|settings| {
        settings.clock = adjustable_now;
        settings.limits.driver_timeout_ms = 20_000;
    });
    let PromptedRunner { id, runner, client, path } = &PromptedRunner::attach(&house);
    let mut events = client.stream("/event");
    events.wait_for("server.connected");
    // Before it began to answer, and with a file half written.
    for has_begun in [false, true] {
        let (answer, taken) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| client.post(path, &text_prompt("go on")).expect(200));
            let taken = runner.take();
            if has_begun {
                let answer = taken.driver.step();
                taken.stream(&answer, "text", &["half a wo"]);
                let body = json!({ "messageID": answer, "callID": "c", "tool": "write",
                    "input": {}, "touches": { "paths": ["left.txt"] } });
                taken.driver.post("tool", &body).expect(200);
                house.write_file("left.txt", "behind\n");
            }
            // The turn's program is given up, and the runner is still believed in.
            advance_clock(30_000);
            (asking.join().expect("answered"), taken)
        });
        let error = &answer["info"]["error"];
        assert_eq!(error["name"], "MessageAbortedError");
        assert!(text(&error["data"]["message"]).contains("stopped sending requests"), "{error}");
        assert_eq!(answer["info"]["parentID"], taken.message());
        assert_eq!(events.wait_for("session.error")["properties"]["error"], *error);
        events.wait_for("session.idle");
        let gone = taken.driver.post("beat", &json!({})).expect(410);
        assert_eq!(gone["state"], "interrupted");
    }
    let stored = messages(&house, id);
    let parts = stored[3]["parts"].as_array().expect("parts");
    let kinds: Vec<&str> = parts.iter().map(|part| text(&part["type"])).collect();
    assert_eq!(kinds, ["step-start", "text", "tool", "step-finish", "patch"]);
    assert_eq!(parts[2]["state"]["status"], "error", "no tool stays open: {parts:?}");
    assert_eq!(parts[3]["reason"], "interrupted");
    // What the tool did until then is known.
    let body = json!({ "messageID": stored[2]["info"]["id"] });
    client.post(&format!("/session/{id}/revert"), &body).expect(200);
    assert!(!house.project().join("left.txt").exists());
}

#[test]
fn turn_events_arrive_before_the_prompt_answer() {
    let house = ServerFixture::new();
    let PromptedRunner { runner, client, path, .. } = &PromptedRunner::attach(&house);
    // `opencode run --attach` prints the events it receives and ends with the answer.
    for round in 0..10 {
        let mut streams = ["/event", "/global/event", "/api/event"].map(|it| client.stream(it));
        streams.iter_mut().for_each(|stream| drop(stream.wait_for("server.connected")));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| client.post(path, &text_prompt("go")).expect(200));
            runner.take().answer(&format!("the answer of round {round}"));
            asking.join().expect("answered")
        });
        for stream in &mut streams {
            let arrived = stream.arrived();
            assert!(arrived.contains(&format!("the answer of round {round}")), "{arrived}");
            assert!(arrived.contains("session.idle"), "{arrived}");
        }
    }
}
