//! Switches, compactions and reverts in the numbered stream of a session (`session.next.*`).

use serde_json::{Value, json};
use turnstone_core::id::SessionId;
use turnstone_core::turn::TurnOutcome;
use turnstone_engine::{Engine, Prompt};

use crate::scripted_session::{
    BEGIN, ReceivedFrame, assistant, at, begin, compact_log, frame, message, part, put, session,
    user, write,
};
use crate::support::{ServerFixture, SseStream, TurnDriver};

/// The next frames, whatever they are.
fn take(stream: &mut SseStream, count: usize) -> Vec<ReceivedFrame> {
    (0..count).map(|_| frame(stream).expect("the stream goes on")).collect()
}

fn kinds(frames: &[ReceivedFrame]) -> Vec<String> {
    let bare = |kind: String| kind.trim_start_matches("session.next.").to_owned();
    frames.iter().map(|frame| bare(frame.kind())).collect()
}

fn data(frame: &ReceivedFrame) -> Value {
    let mut json = frame.json();
    assert!(json["id"].as_str().is_some_and(|id| id.starts_with("evt_") && id.len() == 30));
    assert_eq!(json["durable"]["version"], 1);
    let mut data = json["data"].take();
    assert!(data["timestamp"].is_i64(), "{data}");
    data.as_object_mut()
        .expect("an object")
        .retain(|key, _| key != "timestamp" && key != "sessionID");
    data
}

fn turn(engine: &Engine, id: &SessionId, name: &str) {
    let turn = begin(engine, id, name, "go");
    engine.turns().end(&at(5), &turn, TurnOutcome::Completed, None).expect("ended");
}

/// A turn that compacts: asked for by `msg_c`, summed up by `msg_ca`, with `msg_t_1` kept.
fn compact(engine: &Engine, id: &SessionId) {
    let body = json!({ "type": "compaction", "auto": false, "tail_start_id": "msg_t_1" });
    let parts = vec![part(id, "msg_c", "prt_c", body)];
    let turn = engine.turns().begin(&at(7), Prompt { message: user(id, "msg_c"), parts });
    let turn = turn.expect("a turn");
    let mut summary = serde_json::to_value(assistant(id, "msg_ca", "msg_c").body).expect("JSON");
    summary["summary"] = json!(true);
    let begun = message(id, "msg_ca", summary.clone());
    write(engine, &turn.context(&at(7)), move |tx| tx.messages().put(&begun).map(drop));
    let text =
        json!({ "type": "text", "text": "In short.", "time": { "start": BEGIN, "end": BEGIN } });
    put(engine, &turn, 8, part(id, "msg_ca", "prt_ca", text));
    summary["time"]["completed"] = json!(BEGIN);
    summary["finish"] = json!("stop");
    let done = message(id, "msg_ca", summary);
    write(engine, &turn.context(&at(8)), move |tx| tx.messages().put(&done).map(drop));
    engine.turns().end(&at(9), &turn, TurnOutcome::Completed, None).expect("ended");
}

/// The events for everything that can change in a session except its messages.
const EXPECTED_KINDS: [&str; 12] = [
    "model.switched",
    "agent.switched",
    "agent.switched",
    "model.switched",
    "prompted",
    "prompted",
    "prompted",
    "compaction.started",
    "compaction.ended",
    "revert.staged",
    "revert.cleared",
    "revert.staged",
];

fn play(house: &ServerFixture, id: &SessionId) {
    let (client, path) = (house.client(), format!("/api/session/{id}"));
    let model = json!({ "id": "fake-1", "providerID": "fake" });
    client.post(&format!("{path}/model"), &json!({ "model": model })).expect(204);
    client.post(&format!("{path}/agent"), &json!({ "agent": "plan" })).expect(204);
    let both = json!({ "noReply": true, "agent": "build",
        "model": { "providerID": "fake", "modelID": "fake-2" }, "parts": [{ "type": "text", "text": "hi" }] });
    client.post(&format!("/session/{id}/message"), &both).expect(200);
    turn(house.engine(), id, "msg_t_0");
    turn(house.engine(), id, "msg_t_1");
    compact(house.engine(), id);
    let stage = format!("{path}/revert/stage");
    client.post(&stage, &json!({ "messageID": "msg_t_1" })).expect(200);
    client.send("POST", &format!("{path}/revert/clear"), None).expect(204);
    client.post(&stage, &json!({ "messageID": "msg_t_0" })).expect(200);
}

#[test]
fn switch_compaction_and_revert_events_match_opencode() {
    let house = ServerFixture::with_git();
    let id = session(&house, "n");
    let mut live = house.client().stream(&format!("/api/session/{id}/event"));
    play(&house, &id);
    let reported = take(&mut live, EXPECTED_KINDS.len());
    assert_eq!(kinds(&reported), EXPECTED_KINDS);
    let data: Vec<Value> = reported.iter().map(data).collect();
    // As it was recorded, but for the name of the message.
    let name = |data: &Value| data["messageID"].as_str().expect("a name").to_owned();
    assert!(name(&data[0]).starts_with("msg_") && name(&data[0]).len() == 30);
    let model = json!({ "id": "fake-1", "providerID": "fake" });
    assert_eq!(data[0], json!({ "messageID": name(&data[0]), "model": model }));
    assert_eq!(data[1], json!({ "messageID": name(&data[1]), "agent": "plan" }));
    assert_eq!((&data[2]["agent"], &data[3]["model"]["id"]), (&json!("build"), &json!("fake-2")));
    assert_ne!(name(&data[2]), name(&data[3]), "two switches of one event");
    let number = |frame: &ReceivedFrame| frame.json()["durable"]["seq"].as_i64().expect("a number");
    assert_eq!(number(&reported[2]), number(&reported[3]));
    assert_eq!(data[7], json!({ "messageID": "msg_c", "reason": "manual" }));
    let ended = json!({ "messageID": "msg_c", "reason": "manual", "text": "In short.",
        "recent": "User: go" });
    assert_eq!(data[8], ended);
    assert_eq!(data[9], json!({ "revert": { "messageID": "msg_t_1" } }));
    assert_eq!(data[10], json!({}));
    assert_eq!(data[11], json!({ "revert": { "messageID": "msg_t_0" } }));

    house.client().send("POST", &format!("/api/session/{id}/revert/commit"), None).expect(204);
    let committed = take(&mut live, 1).remove(0);
    assert_eq!(kinds(std::slice::from_ref(&committed)), ["revert.committed"]);
    assert_eq!(self::data(&committed), json!({ "messageID": "msg_t_0" }));
}

/// Proves W21.
#[test]
fn session_stream_dropped_at_any_frame_resumes_exactly() {
    let house = ServerFixture::with_git();
    let id = session(&house, "r");
    let path = format!("/api/session/{id}");
    let mut live = house.client().stream(&format!("{path}/event"));
    play(&house, &id);
    let whole = take(&mut live, EXPECTED_KINDS.len());
    let mut again = house.client().stream(&format!("{path}/event"));
    assert_eq!(take(&mut again, EXPECTED_KINDS.len()), whole, "live and from the log are the same");
    for (nth, last) in whole.iter().enumerate() {
        let place = last.id.as_deref().expect("a place");
        let client = house.client().with_header("last-event-id", place);
        let mut stream = client.stream(&format!("{path}/event"));
        let rest = take(&mut stream, whole.len() - nth - 1);
        assert_eq!(rest, whole[nth + 1..], "after frame {nth} ({place})");
    }
    // By pages of one, those of one number are not torn apart.
    let (mut paged, mut after) = (Vec::new(), -1);
    loop {
        let page = house.client().get(&format!("{path}/history?limit=1&after={after}")).expect(200);
        let rows = page["data"].as_array().expect("a list");
        after = rows.last().expect("a row")["durable"]["seq"].as_i64().expect("a number");
        paged.extend(rows.iter().cloned());
        if page["hasMore"] == false {
            break;
        }
    }
    let all: Vec<Value> = whole.iter().map(ReceivedFrame::json).collect();
    assert_eq!(paged, all);
}

#[test]
fn switch_to_current_value_sends_nothing() {
    let house = ServerFixture::with_git();
    let id = session(&house, "same");
    let path = format!("/api/session/{id}");
    let agent = |name: &str| {
        house.client().post(&format!("{path}/agent"), &json!({ "agent": name })).expect(204);
    };
    ["plan", "plan", "build"].into_iter().for_each(agent);
    let history = house.client().get(&format!("{path}/history")).expect(200);
    let agents: Vec<&Value> =
        history["data"].as_array().expect("a list").iter().map(|it| &it["data"]["agent"]).collect();
    assert_eq!(agents, ["plan", "build"]);
}

/// Proves R25.
#[test]
fn compacted_switches_are_sent_once_with_the_last_value() {
    let house = ServerFixture::with_git();
    let id = session(&house, "k");
    let path = format!("/api/session/{id}");
    for name in ["one", "two", "three"] {
        let model = json!({ "model": { "id": name, "providerID": "fake" } });
        house.client().post(&format!("{path}/model"), &model).expect(204);
    }
    turn(house.engine(), &id, "msg_k_0");
    compact_log(&house, &at(1_000_000_000_000));
    let history = house.client().get(&format!("{path}/history")).expect(200);
    let rows = history["data"].as_array().expect("a list");
    let models: Vec<&Value> =
        rows.iter().filter_map(|row| row["data"]["model"].get("id")).collect();
    assert_eq!(models, ["three"], "{rows:?}");
}

#[test]
fn step_event_has_the_requested_variant() {
    let house = ServerFixture::with_git();
    let id = session(&house, "v");
    house.client().post("/turnstone/runner", &json!({ "name": "v" })).expect(200);
    let prompt = json!({ "agent": "build", "model": { "providerID": "p", "modelID": "m" },
        "variant": "high", "parts": [{ "type": "text", "text": "go" }] });
    house.client().post(&format!("/session/{id}/prompt_async"), &prompt).expect(204);
    TurnDriver::take(house.client(), id.as_str()).step();
    let reported = house.client().get(&format!("/api/session/{id}/history")).expect(200);
    let reported = reported["data"].as_array().expect("events");
    let step =
        reported.iter().find(|it| it["type"] == "session.next.step.started").expect("a step");
    let model = json!({ "id": "m", "providerID": "p", "variant": "high" });
    assert_eq!(step["data"]["model"], model);
    let listed = house.client().get(&format!("/api/session/{id}/message")).expect(200);
    assert_eq!(listed["data"][0]["model"], model, "the same as in its list");
}
