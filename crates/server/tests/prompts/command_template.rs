//! Commands of people: templates from the configuration become prompts.

use serde_json::json;

use crate::support::ServerFixture;
use crate::{messages, session};

#[test]
fn project_command_becomes_a_prompt_and_is_published() {
    let house = ServerFixture::new();
    house.write_file("notes.txt", "remember\n");
    house.write_file(
        ".opencode/command/fix.md",
        "---\ndescription: repair it\nagent: plan\nmodel: prov/mod\n---\nRepair $1 for $2, see @notes.txt.\n",
    );
    let id = session(&house);
    let mut events = house.client().stream("/event");
    events.wait_for("server.connected");
    let body = json!({ "command": "fix", "arguments": "\"the tide\" ada and bob" });
    let answer = house.client().post(&format!("/session/{id}/command"), &body).expect(200);
    let stored = messages(&house, &id);
    assert_eq!(stored[0]["parts"][0]["text"], "Repair the tide for ada and bob, see @notes.txt.");
    assert!(stored[0]["parts"][2]["text"].as_str().expect("text").contains("1: remember"));
    assert_eq!(
        (&stored[0]["info"]["agent"], &stored[0]["info"]["model"]["modelID"]),
        (&"plan".into(), &"mod".into())
    );
    let event = events.wait_for("command.executed");
    let said = &event["properties"];
    assert_eq!((&said["name"], &said["arguments"]), (&"fix".into(), &body["arguments"]));
    assert_eq!(said["messageID"], answer["info"]["id"]);
}

#[test]
fn unknown_command_error_lists_commands() {
    let house = ServerFixture::new();
    let id = session(&house);
    let body = json!({ "command": "nosuch", "arguments": "" });
    let refused = house.client().post(&format!("/session/{id}/command"), &body).expect(400);
    let words = refused["data"]["message"].as_str().expect("words");
    assert!(words.contains("\"nosuch\"") && words.contains("init, review"), "{words}");
    let body = json!({ "command": "init", "arguments": "", "model": "nope" });
    house.client().post(&format!("/session/{id}/command"), &body).expect(400);
    assert!(messages(&house, &id).is_empty());
}

#[test]
fn review_is_a_subtask_and_init_returns_true() {
    let house = ServerFixture::new();
    let id = session(&house);
    let body = json!({ "command": "review", "arguments": "HEAD" });
    house.client().post(&format!("/session/{id}/command"), &body).expect(200);
    let stored = messages(&house, &id);
    let part = &stored[0]["parts"][0];
    assert_eq!((&part["type"], &part["command"]), (&"subtask".into(), &"review".into()));
    assert!(part["prompt"].as_str().expect("a prompt").contains("HEAD"));
    let body =
        json!({ "providerID": "p", "modelID": "m", "messageID": "msg_zzzzzzzzzzzz0000000000000b" });
    let done = house.client().post(&format!("/session/{id}/init"), &body).expect(200);
    assert_eq!(done, true);
    assert_eq!(messages(&house, &id)[2]["info"]["id"], body["messageID"]);
}
