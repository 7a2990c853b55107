//! The events of single changes.

use serde_json::{Value, json};
use turnstone_core::model::WorktreeCreationEvent;
use turnstone_core::turn::TurnOutcome;

use crate::scripted_session::{
    ReceivedFrame, at, begin, end_of_log, frame, frames, session, write,
};
use crate::support::ServerFixture;

fn frame_properties(frame: &ReceivedFrame) -> Value {
    frame.json()["properties"].clone()
}

/// Proves R19.
#[test]
fn undo_and_redo_publish_the_session_head() {
    let house = ServerFixture::with_git();
    let id = session(&house, "undone");
    for name in ["msg_u_0", "msg_u_1"] {
        let turn = begin(house.engine(), &id, name, "go");
        house.engine().turns().end(&at(5), &turn, TurnOutcome::Completed, None).expect("ended");
    }
    let mut stream = house.client().stream("/event");
    assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
    let from = end_of_log(house.engine());
    let back = "msg_u_1".parse().expect("an id");
    let report =
        house.engine().history().reverts().revert(&at(9), &id, &back, None).expect("reverts");
    assert!(report.is_some());
    let reported = frames(&mut stream, 2);
    assert_eq!(reported[0].kind(), "session.diff");
    assert_eq!(
        frame_properties(&reported[0]),
        json!({ "sessionID": id, "diff": [] }),
        "no file was changed"
    );
    assert_eq!(reported[1].kind(), "session.updated");
    assert_eq!(frame_properties(&reported[1])["info"]["revert"]["messageID"], "msg_u_1");
    house
        .engine()
        .history()
        .reverts()
        .unrevert(&at(10), &id)
        .expect("restored")
        .expect("something");
    let reported = frames(&mut stream, 1).remove(0);
    assert_eq!(reported.kind(), "session.updated");
    assert_eq!(frame_properties(&reported)["info"]["revert"], Value::Null);
    // Later it is still told where the session stood then.
    let mut later = house.client().with_header("last-event-id", &from.to_string()).stream("/event");
    let again: Vec<Value> = frames(&mut later, 3).iter().map(frame_properties).collect();
    assert_eq!(again[1]["info"]["revert"], json!({ "messageID": "msg_u_1" }));
    assert_eq!(again[2]["info"]["revert"], Value::Null);
}

#[test]
fn prompt_after_undo_removes_hidden_messages() {
    let house = ServerFixture::with_git();
    let id = session(&house, "branched");
    for name in ["msg_b_0", "msg_b_1"] {
        let turn = begin(house.engine(), &id, name, "go");
        house.engine().turns().end(&at(5), &turn, TurnOutcome::Completed, None).expect("ended");
    }
    let back = "msg_b_1".parse().expect("an id");
    house
        .engine()
        .history()
        .reverts()
        .revert(&at(9), &id, &back, None)
        .expect("reverts")
        .expect("something");
    let mut stream = house.client().stream("/event");
    assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
    let turn = begin(house.engine(), &id, "msg_b_2", "another way");
    let mut kinds = Vec::new();
    while kinds.last().is_none_or(|(kind, _)| kind != "session.status") {
        let next = frames(&mut stream, 1).remove(0);
        kinds.push((next.kind(), frame_properties(&next)));
    }
    let gone = kinds.iter().find(|(kind, _)| kind == "message.removed").expect("removed");
    assert_eq!(gone.1, json!({ "sessionID": id, "messageID": "msg_b_1" }));
    let updated = kinds.iter().rfind(|(kind, _)| kind == "session.updated").expect("updated");
    assert_eq!(updated.1["info"]["revert"], Value::Null);
    house.engine().turns().end(&at(12), &turn, TurnOutcome::Completed, None).expect("ended");
}

#[test]
fn session_deleted_event_has_the_last_session() {
    let house = ServerFixture::new();
    let id = session(&house, "short");
    let mut stream = house.client().stream("/event");
    assert!(frame(&mut stream).is_some_and(|it| it.is_own()));
    house.client().delete(&format!("/session/{id}")).expect(200);
    let reported = frames(&mut stream, 1).remove(0);
    assert_eq!(reported.kind(), "session.deleted");
    assert_eq!(frame_properties(&reported)["sessionID"], json!(id));
    assert_eq!(frame_properties(&reported)["info"]["title"], "short");
}

#[test]
fn project_event_omits_private_fields() {
    let house = ServerFixture::with_git();
    let open = house.engine().projects().open(&at(0), &house.project()).expect("a project");
    let mut all = house.client().stream("/global/event");
    assert!(frame(&mut all).is_some_and(|it| it.is_own()));
    let made = json!([{ "name": "feat", "directory": house.sibling("feat"), "ready": true }]);
    let (id, made) = (open.project.id.clone(), made.clone());
    write(house.engine(), &at(1), move |tx| {
        let change = |project: &mut turnstone_core::model::Project| {
            project.name = Some("renamed".to_owned());
            project.worktrees = serde_json::from_value(made.clone()).expect("worktrees");
            project.permission = Some(Vec::new());
        };
        tx.projects().update(&id, change).map(drop)
    });
    let mut reported = frames(&mut all, 1).remove(0).json();
    while reported["payload"]["properties"]["name"] != "renamed" {
        reported = frames(&mut all, 1).remove(0).json();
    }
    let reported = reported["payload"]["properties"].as_object().expect("an object");
    let keys: Vec<&str> = reported.keys().map(String::as_str).collect();
    let known = ["id", "worktree", "vcs", "name", "icon", "commands", "time", "sandboxes"];
    assert!(keys.iter().all(|key| known.contains(key)), "{keys:?}");
}

#[test]
fn worktree_event_is_scoped_to_its_directory() {
    let house = ServerFixture::new();
    let open = house.engine().projects().open(&at(0), &house.project()).expect("a project");
    let directory = house.sibling("feat");
    fs_err::create_dir_all(&directory).expect("made");
    let mut own = house.client().stream(&format!("/event?directory={}", directory.display()));
    let mut all = house.client().stream("/global/event");
    for stream in [&mut own, &mut all] {
        assert!(frame(stream).is_some_and(|it| it.is_own()));
    }
    let update: WorktreeCreationEvent = serde_json::from_value(
        json!({ "directory": directory, "name": "feat", "branch": "turnstone/feat" }),
    )
    .expect("news");
    let id = open.project.id.clone();
    write(house.engine(), &at(1), move |tx| tx.projects().announce_worktree(&id, &update));
    let reported = frames(&mut own, 1).remove(0);
    assert_eq!(reported.kind(), "worktree.ready");
    assert_eq!(frame_properties(&reported), json!({ "name": "feat", "branch": "turnstone/feat" }));
    let mut reported = frames(&mut all, 1).remove(0).json();
    while reported["payload"]["type"] != "worktree.ready" {
        reported = frames(&mut all, 1).remove(0).json();
    }
    assert_eq!(reported["directory"], json!(directory));
    assert_eq!(reported["project"], json!(open.project.id));
}
