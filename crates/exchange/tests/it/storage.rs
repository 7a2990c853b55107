//! The JSON directories of before the database, in both layouts.

use serde_json::{Value, json};
use turnstone_exchange::RecordKind;

use crate::case::{ImportFixture, TestResult, counts, is_unchanged};
use crate::handmade_source::{assistant_message_json, text_part_json, user_message_json};

fn fill(case: &ImportFixture) -> TestResult {
    case.write(
        "s/project/p1.json",
        &json!({ "id": "stale", "worktree": "/w", "time": { "created": 5 } }),
    )?;
    let diffs = json!([{ "file": "a", "before": "x", "after": "y", "additions": 2, "deletions": 1 },
                       { "file": "b", "before": "", "after": "z", "additions": 3, "deletions": 0 }]);
    case.write(
        "s/session/p1/ses_a.json",
        &json!({ "id": "ses_stale", "projectID": "stale", "title": "t", "summary": { "diffs": diffs },
                 "time": { "created": 10, "updated": 20 } }),
    )?;
    let child =
        json!({ "parentID": "ses_a", "title": "child", "time": { "created": 1, "updated": 2 } });
    case.write("s/session/p1/ses_0child.json", &child)?;
    case.write("s/message/ses_a/msg_b.json", &user_message_json(12))?;
    case.write("s/message/ses_a/msg_a.json", &assistant_message_json(13, "msg_b"))?;
    case.write(
        "s/part/msg_b/prt_1.json",
        &json!({ "id": "stale", "sessionID": "stale",
        "messageID": "stale", "type": "text", "text": "hello" }),
    )?;
    case.write(
        "s/todo/ses_a.json",
        &json!([{ "id": "1", "content": "c", "status": "s", "priority": "p" },
                                            { "content": "no more" }]),
    )?;
    case.write("s/session_share/ses_a.json", &json!({ "id": "i", "secret": "s", "url": "u" }))?;
    case.write(
        "s/permission/p1.json",
        &json!([{ "permission": "edit", "pattern": "*", "action": "ask" }]),
    )?;
    Ok(())
}

#[test]
fn storage_ids_come_from_file_names() -> TestResult {
    let case = ImportFixture::new()?;
    fill(&case)?;

    let report = case.import(&case.path("s"))?;

    assert_eq!(counts(&report, RecordKind::Project), (1, 1, 0, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Session), (2, 2, 0, 0, 0));
    assert_eq!(counts(&report, RecordKind::Message), (2, 2, 0, 0, 0));
    assert_eq!(counts(&report, RecordKind::Todo), (2, 1, 0, 0, 1));
    assert_eq!(counts(&report, RecordKind::Share), (1, 1, 0, 0, 0));
    assert_eq!(counts(&report, RecordKind::Permission), (1, 1, 0, 0, 0));
    let export = case.export("ses_a")?;
    assert_eq!(export["info"]["projectID"], "p1");
    assert_eq!(export["messages"][0]["info"]["id"], "msg_b", "by time, not by name");
    assert_eq!(export["messages"][0]["parts"][0]["id"], "prt_1");
    Ok(())
}

#[test]
fn diffs_in_session_files_are_extracted_and_counted() -> TestResult {
    let case = ImportFixture::new()?;
    fill(&case)?;
    let report = case.import(&case.path("s"))?;
    assert_eq!(counts(&report, RecordKind::Diff), (1, 1, 0, 0, 0), "{report:#?}");
    let summary = case.export("ses_a")?["info"]["summary"].clone();
    for (field, count) in [("additions", 5), ("deletions", 1), ("files", 2)] {
        assert_eq!(summary[field], count, "{summary}");
    }
    assert_eq!(summary["diffs"][1]["after"], "z", "exported where they were: {summary}");
    let diff =
        case.store.read(&case.ctx(), |r| r.sessions().diff(&"ses_a".parse().expect("an id")))?;
    let diff = diff.ok_or("no diff")?;
    assert_eq!(diff.len(), 2);
    assert_eq!(diff[0].extra.get("after"), Some(&Value::from("y")));
    Ok(())
}

#[test]
fn invalid_files_are_listed_and_the_rest_imported() -> TestResult {
    let case = ImportFixture::new()?;
    fill(&case)?;
    case.write_text("s/session/p1/ses_cut.json", "{\"title\": \"cu")?;
    case.write("s/message/ses_cut/msg_c.json", &user_message_json(1))?;
    case.write("s/session/p2/ses_noproject.json", &json!({ "title": "x" }))?;
    case.write_text("s/message/ses_a/msg_empty.json", "")?;
    case.write_text("s/message/ses_a/notes.txt", "mine")?;
    case.write("s/message/ses_gone/msg_g.json", &user_message_json(1))?;
    case.write("s/part/msg_gone/prt_g.json", &text_part_json("x"))?;
    case.write("s/part/msg_b/prt_2.json", &json!([]))?;
    case.write("s/todo/ses_0child.json", &json!({ "not": "a list" }))?;
    case.write(
        "s/todo/ses_gone.json",
        &json!([{ "content": "c", "status": "s", "priority": "p" }]),
    )?;
    case.write("s/session_share/ses_0child.json", &json!({ "id": "i" }))?;
    case.write(
        "s/permission/p9.json",
        &json!([{ "permission": "edit", "pattern": "*", "action": "ask" }]),
    )?;

    let report = case.import(&case.path("s"))?;

    assert_eq!(counts(&report, RecordKind::Session), (4, 2, 0, 1, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (6, 2, 0, 2, 2), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Part), (3, 1, 0, 1, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Todo), (4, 1, 0, 1, 2), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Share), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Permission), (2, 1, 0, 1, 0), "{report:#?}");
    let again = case.import(&case.path("s"))?;
    assert!(again.kinds.values().all(|counts| counts.imported == 0), "{again:#?}");
    Ok(())
}

#[test]
fn old_messages_are_completed_from_preceding_ones() -> TestResult {
    let case = ImportFixture::new()?;
    case.write("s/project/p1.json", &json!({}))?;
    case.write("s/session/p1/ses_o.json", &json!({ "directory": "/w", "time": { "created": 1 } }))?;
    case.write("s/message/ses_o/msg_1.json", &json!({ "role": "user", "time": { "created": 1 } }))?;
    case.write(
        "s/message/ses_o/msg_2.json",
        &json!({ "role": "assistant", "time": { "created": 2 },
        "modelID": "m", "providerID": "p", "system": ["be kind"], "mode": "plan",
        "tokens": { "input": 3, "output": 4 } }),
    )?;
    case.write(
        "s/part/msg_2/prt_1.json",
        &json!({ "type": "tool", "callID": "c", "tool": "bash",
        "state": { "status": "pending" } }),
    )?;
    case.write("s/part/msg_2/prt_2.json", &json!({ "type": "step-finish" }))?;
    case.write("s/part/msg_2/prt_3.json", &json!({ "type": "reasoning", "text": "hm" }))?;
    case.write(
        "s/message/ses_o/msg_3.json",
        &json!({ "role": "user", "time": { "created": 3 },
        "metadata": {}, "parts": [] }),
    )?;

    let report = case.import(&case.path("s"))?;

    assert_eq!(counts(&report, RecordKind::Message), (3, 2, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Part), (3, 3, 0, 0, 0), "{report:#?}");
    assert!(report.notes.iter().any(|note| note.contains("filled in")), "{:?}", report.notes);
    let export = case.export("ses_o")?;
    let answer = &export["messages"][1]["info"];
    assert_eq!(answer["parentID"], "msg_1");
    assert_eq!(answer["system"], json!(["be kind"]), "unknown fields survive");
    assert_eq!(export["info"]["tokens"]["input"], 3);
    assert!(is_unchanged(&{
        let mut again = case.import(&case.path("s"))?;
        again.kinds.remove(&RecordKind::Message);
        again
    }));
    Ok(())
}

#[test]
fn legacy_layout_is_read_and_newer_copy_wins() -> TestResult {
    let case = ImportFixture::new()?;
    let root = "data/project/home-user-work/storage/session";
    for (id, title) in [("ses_both", "old"), ("ses_only", "only here")] {
        case.write(
            &format!("{root}/info/{id}.json"),
            &json!({ "title": title, "time": { "created": 1, "updated": 1 } }),
        )?;
    }
    case.write(
        &format!("{root}/message/ses_only/msg_o.json"),
        &assistant_message_json(2, "msg_x"),
    )?;
    case.write(&format!("{root}/part/ses_only/msg_o/prt_o.json"), &text_part_json("kept"))?;
    case.write(&format!("{root}/message/ses_gone/msg_g.json"), &user_message_json(2))?;
    case.write("data/storage/project/p1.json", &json!({ "worktree": "/w" }))?;
    case.write("data/storage/session/p1/ses_both.json", &json!({ "title": "new" }))?;

    let report = case.import(&case.path("data"))?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 2, 0, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (2, 1, 0, 1, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Project), (2, 2, 0, 0, 0), "{report:#?}");
    assert_eq!(case.export("ses_both")?["info"]["title"], "new");
    let only = case.export("ses_only")?;
    assert_eq!(only["info"]["projectID"], "home-user-work");
    assert_eq!(only["messages"][0]["parts"][0]["text"], "kept");
    assert!(report.notes.iter().any(|note| note.contains("1 sessions lie")), "{:?}", report.notes);
    let project = case
        .store
        .read(&case.ctx(), |r| r.projects().find(&"home-user-work".parse().expect("an id")))?;
    assert_eq!(project.map(|p| p.worktree).as_deref(), Some("/home/user/project"));
    Ok(())
}
