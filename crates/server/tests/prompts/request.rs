//! Permission requests and questions: durable, answered once, told again after a restart.

use serde_json::{Value, json};
use turnstone_core::model::{Message, MessageBody};
use turnstone_engine::{PermissionOutcome, PermissionQuery, Prompt, Turn};

use crate::support::ServerFixture;
use crate::{local_context, named, session};

fn turn(house: &ServerFixture, id: &str) -> Turn {
    let message =
        house.engine().turns().new_message_id(&local_context(), &named(id)).expect("an id");
    let body = json!({ "role": "user", "time": { "created": 1 }, "agent": "build",
                       "model": { "providerID": "p", "modelID": "m" } });
    let body: MessageBody = serde_json::from_value(body).expect("a message");
    let message = Message { id: message, session: named(id), body };
    house
        .engine()
        .turns()
        .begin(&local_context(), Prompt { message, parts: Vec::new() })
        .expect("begun")
}

/// A server whose user wants to be asked about everything.
fn asking_server() -> ServerFixture {
    let house = ServerFixture::new();
    house.configure_user(r#"{"permission": "ask"}"#);
    house
}

fn ask(house: &ServerFixture, turn: &Turn, command: &str) -> String {
    ask_for(house, turn, "bash", command)
}

fn ask_for(house: &ServerFixture, turn: &Turn, permission: &str, command: &str) -> String {
    let ask = json!({ "permission": permission, "patterns": [command], "metadata": { "command": command },
                      "always": ["touch *"] });
    let ask = serde_json::from_value(ask).expect("a request");
    let new = PermissionQuery { ask, blocks_turn: true };
    let asked = house.engine().permissions().ask(&local_context(), turn, &new);
    let asked = asked.expect("asked");
    let PermissionOutcome::Pending(id) = asked else { panic!("{asked:?}") };
    id.to_string()
}

fn question(house: &ServerFixture, turn: &Turn) -> String {
    let ask = json!({ "questions": [{ "question": "Which one?", "header": "Pick",
        "options": [{ "label": "A", "description": "first" }, { "label": "B", "description": "second" }] }] });
    let ask = serde_json::from_value(ask).expect("a question");
    house
        .engine()
        .permissions()
        .ask_question(&local_context(), turn, ask, true)
        .expect("asked")
        .to_string()
}

fn listed(house: &ServerFixture, path: &str) -> Vec<Value> {
    house.client().get(path).expect(200).as_array().expect("a list").clone()
}

#[test]
fn permission_is_listed_and_answered_once() {
    let house = asking_server();
    let id = session(&house);
    let turn = turn(&house, &id);
    let first = ask(&house, &turn, "touch a");
    let second = ask(&house, &turn, "touch b");
    let third = ask_for(&house, &turn, "doom_loop", "bash");
    let pending = listed(&house, "/permission");
    assert_eq!(pending.len(), 3);
    assert_eq!(
        (&pending[0]["id"], &pending[0]["sessionID"]),
        (&first.as_str().into(), &id.as_str().into())
    );
    assert_eq!(pending[0]["patterns"], json!(["touch a"]));
    let elsewhere = house.sibling("elsewhere");
    fs_err::create_dir_all(&elsewhere).expect("made");
    assert!(listed(&house, &format!("/permission?directory={}", elsewhere.display())).is_empty());

    let path = format!("/permission/{first}/reply");
    house.client().post(&path, &json!({ "reply": "maybe" })).expect(400);
    let done = house.client().post(&path, &json!({ "reply": "always" })).expect(200);
    assert_eq!(done, true);
    // What `always` allows is decided too; the answer counts once.
    assert_eq!(listed(&house, "/permission").len(), 1, "{second} was decided with it");
    house.client().post(&path, &json!({ "reply": "reject" })).expect(404);
    let other = session(&house);
    let body = json!({ "response": "reject" });
    house.client().post(&format!("/session/{other}/permissions/{third}"), &body).expect(404);
    house.client().post(&format!("/session/{id}/permissions/{third}"), &body).expect(200);
    assert!(listed(&house, "/permission").is_empty());
}

#[test]
fn a_question_is_answered_or_rejected_once() {
    let house = asking_server();
    let id = session(&house);
    let turn = turn(&house, &id);
    let first = question(&house, &turn);
    let second = question(&house, &turn);
    assert_eq!(listed(&house, "/question").len(), 2);
    assert!(listed(&house, "/permission").is_empty());
    let path = format!("/question/{first}/reply");
    house.client().post(&path, &json!({ "answers": "A" })).expect(400);
    house.client().post(&path, &json!({ "answers": [["A"], ["B"]] })).expect(400);
    house.client().post(&path, &json!({ "answers": [["A"]] })).expect(200);
    house.client().post(&path, &json!({ "answers": [["B"]] })).expect(404);
    let path = format!("/question/{second}/reject");
    house.client().send("POST", &path, None).expect(200);
    house.client().send("POST", &path, None).expect(404);
    assert!(listed(&house, "/question").is_empty());
}

/// Proves R28.
#[test]
fn pending_requests_survive_restart() {
    let house = asking_server();
    let id = session(&house);
    let turn = turn(&house, &id);
    let asked = ask(&house, &turn, "touch a");
    let question = question(&house, &turn);
    let house = house.restart();
    assert_eq!(listed(&house, "/permission")[0]["id"], asked.as_str());
    assert_eq!(listed(&house, "/question")[0]["id"], question.as_str());
    house
        .client()
        .post(&format!("/permission/{asked}/reply"), &json!({ "reply": "once" }))
        .expect(200);
    let house = house.restart();
    assert!(listed(&house, "/permission").is_empty());
    assert_eq!(listed(&house, "/question").len(), 1);
}
