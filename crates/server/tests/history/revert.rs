//! Revert, unrevert, differences and forks.

use serde_json::{Value, json};

use crate::golden::{fields, recorded};
use crate::support::ServerFixture;
use crate::turn_fixture::{begin, end, read, seq, session, turn};

/// The files of the recording: one changed, one new, one without a newline at its end.
const FILES: [(&str, &str); 3] =
    [("a.txt", "HELLO\n"), ("b.txt", "one\ntwo\nthree\n"), ("new.bin", "x")];

fn server_with_file() -> ServerFixture {
    let house = ServerFixture::with_git();
    house.write_file("a.txt", "hello\n");
    house
}

#[test]
fn message_and_session_diffs_match_recording() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let path = format!("/session/{session}/diff");
    let of_turn = house.client().get(&format!("{path}?messageID=msg_1")).expect(200);
    assert_eq!(of_turn, recorded("diff message").1);
    assert_eq!(house.client().get(&path).expect(200), of_turn, "of the whole session");
    assert_eq!(house.client().get(&format!("{path}?messageID=msg_1a")).expect(200), of_turn);
    turn(&house, &session, "2", &[("c.txt", "c\n")]);
    let later = house.client().get(&format!("{path}?messageID=msg_2")).expect(200);
    assert_eq!(later.as_array().map(Vec::len), Some(1));
    assert_eq!(house.client().get(&path).expect(200).as_array().map(Vec::len), Some(4));
}

#[test]
fn diff_of_missing_message_is_an_error() {
    let house = server_with_file();
    let session = session(&house, "T");
    let client = house.client();
    client.get("/session/ses_unknown/diff").expect(404);
    client.get(&format!("/session/{session}/diff?messageID=msg_nope")).expect(404);
    client.get(&format!("/session/{session}/diff?messageID=nope")).expect(400);
}

#[test]
fn revert_restores_files_and_unrevert_undoes_it() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "0", &[("kept.txt", "kept\n")]);
    turn(&house, &session, "1", &FILES);
    house.write_file("human.txt", "mine\n");
    let path = format!("/session/{session}");
    let body = json!({ "messageID": "msg_1" });
    let shown = house.client().post(&format!("{path}/revert"), &body).expect(200);
    let (_, theirs) = recorded("revert");
    assert_eq!(fields(&shown["revert"]), fields(&theirs["revert"]));
    assert_eq!(shown["revert"]["messageID"], "msg_1");
    assert_eq!(shown["revert"]["snapshot"].as_str().map(str::len), Some(40));
    // Ours names objects in full; all else of a file is the same.
    let file = |of: &Value, name: &str| -> Vec<String> {
        let diff = of["revert"]["diff"].as_str().expect("a diff");
        let start = format!("diff --git a/{name} ");
        let lines = diff.lines().skip_while(|line| !line.starts_with(&start));
        let (first, rest) = (lines.clone().take(1), lines.skip(1));
        let rest = rest.take_while(|line| !line.starts_with("diff --git "));
        first.chain(rest).filter(|line| !line.starts_with("index ")).map(str::to_owned).collect()
    };
    for (name, _) in FILES {
        assert_eq!(file(&shown, name), file(&theirs, name), "{name}");
    }
    assert_eq!(read(&house, "a.txt").as_deref(), Some("hello\n"));
    assert_eq!(read(&house, "b.txt"), None);
    assert_eq!(read(&house, "kept.txt").as_deref(), Some("kept\n"));
    assert_eq!(read(&house, "human.txt").as_deref(), Some("mine\n"));
    let listed = house.client().get(&format!("{path}/message")).expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(4), "messages stay until the next prompt");
    assert_eq!(house.client().get(&path).expect(200), shown);

    let back = house.client().send("POST", &format!("{path}/unrevert"), None).expect(200);
    assert_eq!(back.get("revert"), None);
    for (file, content) in FILES {
        assert_eq!(read(&house, file).as_deref(), Some(content));
    }
    let again = house.client().send("POST", &format!("{path}/unrevert"), None).expect(200);
    assert_eq!(again, back, "nothing is left to undo");
}

#[test]
fn revert_to_part_keeps_earlier_parts() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let body = json!({ "messageID": "msg_1a", "partID": "prt_1t" });
    let shown = house.client().post(&format!("/session/{session}/revert"), &body).expect(200);
    let point = (&shown["revert"]["messageID"], &shown["revert"]["partID"]);
    assert_eq!(point, (&json!("msg_1a"), &json!("prt_1t")));
    assert_eq!(read(&house, "b.txt"), None);
}

#[test]
fn revert_to_missing_message_is_rejected() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let (path, before) = (format!("/session/{session}/revert"), seq(&house, &session));
    let refused = |body: &Value| house.client().post(&path, body);
    refused(&json!({ "messageID": "msg_nope" })).expect(404);
    refused(&json!({ "messageID": "msg_1", "partID": "prt_nope" })).expect(404);
    let (status, body) = recorded("revert bad id");
    assert_eq!(refused(&json!({ "messageID": "nope" })).expect(status), body);
    let (status, body) = recorded("err unknown session revert");
    let unknown =
        house.client().post("/session/ses_unknown/revert", &json!({ "messageID": "msg_x" }));
    assert_eq!(unknown.expect(status), body);
    let (status, body) = recorded("err unknown session unrevert");
    let unknown = house.client().send("POST", "/session/ses_unknown/unrevert", None);
    assert_eq!(unknown.expect(status), body);
    assert_eq!(seq(&house, &session), before);
}

/// Proves R45.
#[test]
fn revert_is_rejected_while_a_turn_runs() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let running = begin(&house, &session, "2");
    let (path, before) = (format!("/session/{session}"), seq(&house, &session));
    let client = house.client();
    let busy = json!({"_tag": "SessionBusyError", "sessionID": session,
        "message": format!("Session is busy: {session}")});
    assert_eq!(fields(&busy), fields(&recorded("busy revert").1));
    let to = json!({ "messageID": "msg_1" });
    assert_eq!(client.post(&format!("{path}/revert"), &to).expect(409), busy);
    assert_eq!(client.send("POST", &format!("{path}/unrevert"), None).expect(409), busy);
    assert_eq!(client.delete(&format!("{path}/message/msg_1")).expect(409), busy);
    assert_eq!(client.delete(&format!("{path}/message/msg_1/part/prt_1")).expect(409), busy);
    assert_eq!(seq(&house, &session), before, "nothing was written");
    client.send("POST", &format!("{path}/fork"), None).expect(200);
    end(&house, &running);
    client.post(&format!("{path}/revert"), &to).expect(200);
}

/// Proves R37.
#[test]
fn revert_by_another_actor_needs_permission() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let other = house.client().with_header("x-turnstone-actor", "model");
    let body = json!({ "messageID": "msg_1" });
    let refused = other.post(&format!("/session/{session}/revert"), &body).expect(409);
    assert_eq!(refused["_tag"], "PermissionAskedError");
    assert!(refused["permissionID"].as_str().is_some_and(|id| id.starts_with("per_")));
    assert_eq!(read(&house, "a.txt").as_deref(), Some("HELLO\n"));
}

#[test]
fn fork_matches_recording() {
    let house = server_with_file();
    let session = session(&house, "Renamed golden");
    house
        .client()
        .patch(&format!("/session/{session}"), &json!({ "metadata": {"k": 2} }))
        .expect(200);
    turn(&house, &session, "1", &FILES);
    turn(&house, &session, "2", &[("c.txt", "c\n")]);
    let fork = |of: &str, body: Option<&[u8]>| {
        house.client().send("POST", &format!("/session/{of}/fork"), body).expect(200)
    };
    let whole = fork(&session, None);
    let (_, theirs) = recorded("fork nobody");
    let mut shown = fields(&whole);
    shown.retain(|field| *field != "origin");
    assert_eq!(shown, fields(&theirs));
    for field in ["cost", "tokens", "title"] {
        assert_eq!(whole[field], theirs[field], "{field}");
    }
    assert_eq!(whole["metadata"], json!({"k": 2}));
    let at = fork(&session, Some(br#"{"messageID":"msg_2"}"#));
    assert_eq!(at["title"], recorded("fork at msg").1["title"]);
    let count = |of: &Value| {
        let path = format!("/session/{}/message", of["id"].as_str().expect("an id"));
        house.client().get(&path).expect(200).as_array().map(Vec::len)
    };
    assert_eq!((count(&whole), count(&at)), (Some(4), Some(2)), "the message itself is not copied");
    let second = fork(whole["id"].as_str().expect("an id"), Some(b"{}"));
    assert_eq!(second["title"], recorded("fork of fork").1["title"]);
    // OpenCode copies everything if the message is unknown.
    let unknown = json!({ "messageID": "msg_nope" });
    house.client().post(&format!("/session/{session}/fork"), &unknown).expect(404);
    let (status, body) = recorded("err unknown session fork");
    assert_eq!(house.client().post("/session/ses_unknown/fork", &json!({})).expect(status), body);
    let children = house.client().get(&format!("/session/{session}/children")).expect(200);
    assert_eq!(children, json!([]), "a fork is nobody's child");
}

/// Proves R23.
#[test]
fn long_session_forks_in_few_transactions() {
    let house = ServerFixture::new();
    let session = session(&house, "long");
    let engine = house.engine();
    for number in 0..40 {
        let prompt =
            crate::turn_fixture::prompt(&session, &format!("{number:04}"), &"text ".repeat(600));
        let store = engine.store();
        let write = move |tx: &turnstone_store::Tx<'_>| {
            tx.messages().put(&prompt.message)?;
            for copy in 0..6 {
                let mut part = prompt.parts[0].clone();
                part.id = format!("{}_{copy}", part.id).parse().expect("an id");
                tx.messages().put_part(&part)?;
            }
            Ok(())
        };
        store.write(&crate::turn_fixture::ctx(), write).wait().expect("written");
    }
    let before = engine.store().writer_stats().expect("writes").commits();
    let made = house.client().send("POST", &format!("/session/{session}/fork"), None).expect(200);
    let commits = engine.store().writer_stats().expect("writes").commits() - before;
    assert!(commits < 20, "280 rows in {commits} commits");
    let path = format!("/session/{}/message", made["id"].as_str().expect("an id"));
    let copied = house.client().get(&path).expect(200);
    let original = house.client().get(&format!("/session/{session}/message")).expect(200);
    let texts = |of: &Value| -> Vec<Value> {
        let parts = of.as_array().expect("a list").iter().flat_map(|it| it["parts"].as_array());
        parts.flatten().map(|part| part["text"].clone()).collect()
    };
    assert_eq!(texts(&copied), texts(&original));
    assert_eq!(texts(&copied).len(), 240);
}

#[test]
fn imported_share_cannot_be_removed_and_is_kept() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let name: turnstone_core::id::SessionId = id.parse().expect("an id");
    let share = turnstone_store::ShareRecord {
        id: "s1".into(),
        secret: "open-sesame".into(),
        url: "https://hub.example/s1".into(),
    };
    let (put, kept) = (share.clone(), name.clone());
    let ctx = turnstone_store::Context::system(turnstone_core::time::EpochMillis(1));
    let store = house.engine().store();
    store.write(&ctx, move |tx| tx.shares().put(&kept, &put)).wait().expect("stored");

    let refused = house.client().delete(&format!("/session/{id}/share")).expect(501);

    assert_eq!(refused["_tag"], "ShareNotRemovableError");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("https://hub.example/s1") && !message.contains("sesame"), "{message}");
    assert_eq!(store.read(&ctx, |r| r.shares().find(&name)).expect("reads"), Some(share.clone()));
    house.client().delete(&format!("/session/{id}")).expect(200);
    let kept = store.read(&ctx, |r| r.shares().list_unrevoked()).expect("reads");
    assert_eq!(kept, [turnstone_store::UnrevokedShare { session: name, share }]);
}

#[test]
fn fork_names_its_origin() {
    let house = ServerFixture::new();
    let id = session(&house, "T");
    let fork = house.client().post(&format!("/session/{id}/fork"), &json!({})).expect(200);
    assert_eq!(fork["origin"]["sessionID"], id.as_str(), "{fork}");
    let listed = house.client().get("/session").expect(200);
    let listed = listed.as_array().expect("a list").iter().find(|it| it["id"] == fork["id"]);
    assert_eq!(listed.expect("listed")["origin"], fork["origin"]);
}

#[test]
fn sharing_is_disabled() {
    let house = ServerFixture::new();
    let session = session(&house, "T");
    let path = format!("/session/{session}/share");
    let refused = house.client().send("POST", &path, None).expect(403);
    assert_eq!(refused["_tag"], "SharingDisabledError");
    let unshared = house.client().delete(&path).expect(recorded("unshare").0);
    assert_eq!(unshared.get("share"), None);
    let (status, body) = recorded("err unknown session share");
    assert_eq!(
        house.client().send("POST", "/session/ses_unknown/share", None).expect(status),
        body
    );
}

#[test]
fn pipe_as_rule_file_fails_revert_without_blocking() {
    let house = server_with_file();
    let session = session(&house, "T");
    turn(&house, &session, "1", &FILES);
    let rules = house.project().join("turnstone.json");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &rules, fifo, mode, 0).expect("a pipe");
    let revert = || {
        let body = json!({ "messageID": "msg_1" });
        house.client().post(&format!("/session/{session}/revert"), &body)
    };
    let refused = revert().expect(409);
    assert_eq!(refused["_tag"], "ConfigError", "{refused}");
    assert!(refused.to_string().contains("turnstone.json"), "{refused}");
    assert_eq!(read(&house, "a.txt").as_deref(), Some("HELLO\n"));
    fs_err::remove_file(&rules).expect("removed");
    std::os::unix::fs::symlink("/dev/zero", &rules).expect("linked");
    assert_eq!(revert().expect(409)["_tag"], "ConfigError");
    fs_err::remove_file(&rules).expect("removed");
    revert().expect(200);
}
