//! Messages and parts, changed and removed one by one.

use serde_json::json;
use turnstone_core::model::Part;

use crate::golden::recorded;
use crate::support::ServerFixture;
use crate::turn_fixture::{ctx, id, seq, session, turn};

#[test]
fn part_update_requires_matching_ids() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let path = format!("/session/{session}/message/msg_1a/part/prt_1s");
    let part = json!({"type": "text", "text": "patched text", "time": {"start": 1, "end": 2},
        "id": "prt_1s", "sessionID": session, "messageID": "msg_1a"});
    assert_eq!(house.client().patch(&path, &part).expect(200), part);
    let read = house.client().get(&format!("/session/{session}/message/msg_1a")).expect(200);
    let parts = read["parts"].as_array().expect("parts");
    assert!(parts.contains(&part), "{read}");

    let before = seq(&house, &session);
    for (field, other) in [("id", "prt_other"), ("messageID", "msg_1"), ("sessionID", "ses_other")]
    {
        let mut wrong = part.clone();
        wrong[field] = json!(other);
        let (status, body) = recorded("part.update mismatch");
        assert_eq!(house.client().patch(&path, &wrong).expect(status), body, "{field}");
    }
    let mut wrong = part.clone();
    wrong["type"] = json!("nonsense");
    let (status, body) = recorded("part.update badtype");
    let refused = house.client().patch(&path, &wrong).expect(status);
    assert_eq!(refused["name"], body["name"]);
    assert_eq!(refused["data"]["kind"], body["data"]["kind"]);
    let words = refused["data"]["message"].as_str().expect("a message");
    assert!(words.starts_with("Expected Part, got {"), "{words}");
    assert_eq!(seq(&house, &session), before, "nothing was written");
}

#[test]
fn parts_of_any_type_can_be_put_and_removed() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let base = format!("/session/{session}/message/msg_1a");
    let parts = [
        json!({"type": "snapshot", "snapshot": "abc"}),
        json!({"type": "agent", "name": "build"}),
        json!({"type": "file", "mime": "text/plain", "url": "file:///x"}),
        json!({"type": "subtask", "prompt": "p", "description": "d", "agent": "a"}),
    ];
    for (number, part) in parts.iter().enumerate() {
        let mut part = part.clone();
        let id = format!("prt_new{number}");
        part["id"] = json!(id);
        part["sessionID"] = json!(session);
        part["messageID"] = json!("msg_1a");
        let path = format!("{base}/part/{id}");
        assert_eq!(house.client().patch(&path, &part).expect(200), part);
        assert_eq!(house.client().delete(&path).expect(200), json!(true));
        assert_eq!(house.client().delete(&path).expect(200), json!(true));
    }
    let (status, body) = recorded("part.delete unknown");
    assert_eq!(house.client().delete(&format!("{base}/part/prt_zzz")).expect(status), body);
    let elsewhere = format!("/session/{session}/message/msg_1/part/prt_1s");
    house.client().delete(&elsewhere).expect(200);
    let read = house.client().get(&base).expect(200);
    let ids: Vec<&str> =
        read["parts"].as_array().expect("parts").iter().filter_map(|p| p["id"].as_str()).collect();
    assert!(ids.contains(&"prt_1s"), "a part of another message stays: {ids:?}");
    house.client().delete("/session/ses_unknown/message/msg_1/part/prt_1").expect(404);
}

#[test]
fn removing_a_message_removes_its_parts() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let path = format!("/session/{session}/message/msg_1a");
    let (status, body) = recorded("deleteMessage");
    assert_eq!(house.client().delete(&path).expect(status), body);
    house.client().get(&path).expect(404);
    let (status, body) = recorded("deleteMessage unknown");
    assert_eq!(house.client().delete(&path).expect(status), body);
    house.client().delete("/session/ses_unknown/message/msg_1").expect(404);
}

/// Proves R32.
#[test]
fn process_groups_are_never_sent_to_clients() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    turn(&house, &session, "1", &[("a", "a")]);
    let group = json!({ "pgid": 7, "start_time": 1, "session": 6, "session_start_time": 1,
        "boot_id": "b" });
    let body = json!({ "type": "tool", "callID": "c", "tool": "bash", "state": {
        "status": "completed", "input": {}, "output": "", "title": "", "time": { "start": 1, "end": 2 },
        "metadata": { "exit": 0, "group": group } } });
    let part = Part {
        id: "prt_group".parse().expect("an id"),
        session: id(&session),
        message: "msg_1a".parse().expect("an id"),
        body: serde_json::from_value(body).expect("a part"),
    };
    let mut stream = house.client().stream("/event");
    stream.wait_for("server.connected");
    let put = move |tx: &turnstone_store::Tx<'_>| tx.messages().put_part(&part);
    house.engine().store().write(&ctx(), put).wait().expect("written");
    let path = format!("/session/{session}/message");
    let reported = stream.wait_for("message.part.updated");
    assert_eq!(reported["properties"]["part"]["state"]["metadata"], json!({ "exit": 0 }));
    for path in [path.clone(), format!("{path}/msg_1a"), format!("/api{path}")] {
        let shown = house.client().get(&path).expect(200).to_string();
        assert!(shown.contains(r#"{"exit":0}"#) && !shown.contains("pgid"), "{path}: {shown}");
    }
}
