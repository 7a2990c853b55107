//! Hand-made broken sources: what is good is imported, what is not is named with the reason.

use serde_json::{Value, json};
use turnstone_exchange::{ImportReport, RecordKind, SkippedRecord};

use crate::case::{ImportFixture, TestResult, counts, counts_of, is_clean, is_unchanged};
use crate::handmade_source::{
    FIRST_SCHEMA, HandmadeDatabase, PROJECT, TODAY_SCHEMA, assistant_message_json,
    step_finish_json, text_part_json, user_message_json,
};

fn reason<'a>(list: &'a [SkippedRecord], id: &str) -> &'a str {
    let found = list.iter().find(|skipped| skipped.id == id);
    found.map_or_else(|| panic!("{id} is not in {list:#?}"), |skipped| &skipped.reason)
}

fn import(case: &ImportFixture, foreign: &HandmadeDatabase) -> TestResult<ImportReport> {
    let report = case.import(&foreign.path)?;
    let again = case.import(&foreign.path)?;
    for (kind, counts) in &report.kinds {
        assert_eq!(counts_of(&again, *kind).imported, 0, "{kind} again: {again:#?}");
        assert_eq!(counts_of(&again, *kind).rejected, counts.rejected, "{kind} again");
    }
    Ok(report)
}

#[test]
fn invalid_data_columns_are_rejected_row_by_row() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("good")?;
    foreign.add_session("ses_bad")?;
    foreign.add_message("msg_ok", "ses_bad", 1, &user_message_json(1).to_string())?;
    for (id, data) in [
        ("msg_nojson", "{not json"),
        ("msg_empty", ""),
        ("msg_list", "[1,2]"),
        ("msg_norole", "{}"),
        ("msg_role", r#"{"role":"narrator","time":{"created":1}}"#),
        (
            "msg_type",
            r#"{"role":"user","time":{"created":"yesterday"},"agent":"b","model":{"providerID":"p","modelID":"m"}}"#,
        ),
        ("msg_zero", "{\"role\":\"user\",\u{0}}"),
    ] {
        foreign.add_message(id, "ses_bad", 2, data)?;
    }
    foreign.add_part("prt_type", "msg_ok", "ses_bad", r#"{"type":"text","text":7}"#)?;
    foreign.add_part("prt_notype", "msg_ok", "ses_bad", r#"{"text":"x"}"#)?;
    foreign.add_part("prt_new", "msg_ok", "ses_bad", r#"{"type":"hologram","beam":[1]}"#)?;
    foreign.add_part("prt_lost", "msg_nojson", "ses_bad", &text_part_json("x").to_string())?;
    foreign.conn.execute(
        "INSERT INTO part (id, message_id, session_id, time_created, time_updated, data)
         VALUES ('prt_blob', 'msg_ok', 'ses_bad', 1, 1, x'ff00ff')",
        [],
    )?;

    let report = import(&case, &foreign)?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 2, 0, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (10, 3, 0, 0, 7), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Part), (8, 4, 0, 1, 3), "{report:#?}");
    let rejected = counts_of(&report, RecordKind::Message).rejected;
    assert!(reason(&rejected, "msg_nojson").contains("not JSON"));
    assert!(reason(&rejected, "msg_role").contains("narrator"));
    assert!(reason(&counts_of(&report, RecordKind::Part).rejected, "prt_blob").contains("binary"));
    assert!(
        reason(&counts_of(&report, RecordKind::Part).orphans, "prt_lost").contains("msg_nojson")
    );
    let kept = case.export("ses_bad")?;
    assert_eq!(kept.pointer("/messages/0/parts/0/beam"), Some(&json!([1])), "{kept:#}");
    Ok(())
}

#[test]
fn orphaned_rows_are_counted_with_a_reason() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("good")?;
    foreign.add_session_of("ses_noproject", "gone", None)?;
    foreign.add_message("msg_a", "ses_noproject", 1, &user_message_json(1).to_string())?;
    foreign.add_part("prt_a", "msg_a", "ses_noproject", &text_part_json("x").to_string())?;
    foreign.add_message("msg_stray", "ses_gone", 1, &user_message_json(1).to_string())?;
    foreign.add_part("prt_stray", "msg_gone", "ses_good", &text_part_json("x").to_string())?;
    foreign.conn.execute_batch(
        "INSERT INTO todo VALUES ('ses_gone', 'do', 'pending', 'low', 0, 1, 1);
         INSERT INTO session_share VALUES ('ses_gone', 'id', 'secret', 'url', 1, 1);
         INSERT INTO permission VALUES ('psv_1', 'gone', 'bash', 'ls *', 1, 1);
         INSERT INTO session_message VALUES ('msg_v2', 'ses_good', 'user', 1, 1, 1, '{}');
         INSERT INTO session_input VALUES ('msg_in', 'ses_good', '{}', 'steer', 1, NULL, 1);",
    )?;
    case.write("f/storage/session_diff/ses_gone.json", &json!([]))?;

    let report = import(&case, &foreign)?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 1, 0, 1, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (4, 2, 0, 2, 0));
    assert_eq!(counts(&report, RecordKind::Part), (5, 3, 0, 2, 0));
    for kind in [RecordKind::Todo, RecordKind::Share, RecordKind::Permission, RecordKind::Diff] {
        assert_eq!(counts(&report, kind), (1, 0, 0, 1, 0), "{kind}");
    }
    let second = counts_of(&report, RecordKind::V2Message).rejected;
    assert_eq!(second.len(), 2);
    assert!(reason(&second, "msg_v2").contains("experimental v2 runner"));
    assert!(
        reason(&counts_of(&report, RecordKind::Session).orphans, "ses_noproject").contains("gone")
    );
    Ok(())
}

#[test]
fn duplicate_id_stays_with_its_first_owner() -> TestResult {
    let case = ImportFixture::new()?;
    case.write("s/project/p.json", &json!({ "worktree": "/w" }))?;
    for (session, said) in [("ses_a", "first"), ("ses_b", "second")] {
        let mut message = user_message_json(1);
        message["agent"] = json!(said);
        case.write(&format!("s/session/p/{session}.json"), &json!({ "title": said }))?;
        case.write(&format!("s/message/{session}/msg_same.json"), &message)?;
    }
    case.write("s/part/msg_same/prt_x.json", &text_part_json("x"))?;

    let report = case.import(&case.path("s"))?;

    assert_eq!(counts(&report, RecordKind::Message), (2, 1, 0, 0, 1), "{report:#?}");
    assert!(
        counts_of(&report, RecordKind::Message).rejected[0]
            .reason
            .contains("belongs to session ses_a")
    );
    assert_eq!(counts(&report, RecordKind::Part), (1, 1, 0, 0, 0));
    assert_eq!(case.export("ses_a")?["messages"][0]["info"]["agent"], "first");
    Ok(())
}

#[test]
fn invalid_ids_are_replaced_consistently() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_session("session one")?;
    foreign.add_session_of("ses_child", PROJECT, Some("session one"))?;
    foreign.add_message("message/1", "session one", 1, &user_message_json(1).to_string())?;
    foreign.add_message(
        "msg_2",
        "session one",
        2,
        &assistant_message_json(2, "message/1").to_string(),
    )?;
    foreign.add_part("part\u{0}1", "message/1", "session one", &text_part_json("x").to_string())?;
    let task = json!({ "type": "tool", "callID": "c", "tool": "task", "state": { "status": "completed",
        "input": {}, "output": "", "title": "", "metadata": { "sessionId": "session one" },
        "time": { "start": 1, "end": 2 } } });
    foreign.add_part("prt_task", "msg_2", "session one", &task.to_string())?;
    let compaction = json!({ "type": "compaction", "auto": true, "tail_start_id": "message/1" });
    foreign.add_part("prt_zip", "msg_2", "session one", &compaction.to_string())?;
    foreign.conn.execute(
        "UPDATE session SET revert = '{\"messageID\":\"message/1\"}' WHERE id = 'session one'",
        [],
    )?;

    let report = import(&case, &foreign)?;

    assert!(is_clean(&report), "{report:#?}");
    let child = case.export("ses_child")?;
    let id = child["info"]["parentID"].as_str().ok_or("no parent")?.to_owned();
    assert!(id.starts_with("ses_") && id.len() == 30, "{id}");
    let export = case.export(&id)?;
    assert_eq!(export["info"]["sourceID"], "session one");
    let first = &export["messages"][0]["info"];
    assert_eq!(first["sourceID"], "message/1");
    assert_eq!(export["info"]["revert"]["messageID"], first["id"]);
    assert_eq!(export["messages"][1]["info"]["parentID"], first["id"]);
    assert_eq!(export["messages"][0]["parts"][0]["sourceID"], "part\u{0}1");
    let parts = &export["messages"][1]["parts"];
    assert_eq!(parts[0]["state"]["metadata"]["sessionId"], id.as_str());
    assert_eq!(parts[1]["tail_start_id"], first["id"]);
    Ok(())
}

#[test]
fn wrongly_typed_field_is_dropped_and_session_imported() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("odd")?;
    foreign.conn.execute_batch(
        "UPDATE session SET revert = 'null and void', permission = '{\"not\":\"a list\"}',
           metadata = '[]', model = '{\"id\":1}', summary_additions = 3, summary_diffs = '7';
         UPDATE project SET sandboxes = 'oops', commands = '{';
         ALTER TABLE session ADD COLUMN mood text;",
    )?;

    let report = import(&case, &foreign)?;

    assert!(is_clean(&report), "{report:#?}");
    let info = &case.export("ses_odd")?["info"];
    for key in ["revert", "permission", "metadata", "model", "summary"] {
        assert!(info.get(key).is_none(), "{key}: {info:#}");
        assert!(report.notes.iter().any(|note| note.contains(key)), "{key}: {:?}", report.notes);
    }
    assert!(report.notes.iter().any(|note| note.contains("mood")), "{:?}", report.notes);
    Ok(())
}

#[test]
fn long_and_unusual_values_round_trip() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), FIRST_SCHEMA)?;
    foreign.add_small_session("long")?;
    let huge = "täxt\u{0}\u{1F600}\"\\ ".repeat(700_000);
    foreign.add_part("prt_huge", "msg_long1", "ses_long", &text_part_json(&huge).to_string())?;
    let odd = json!({ "type": "text", "text": "", "\u{0}key": { "deep": [null, 1e300, -0.5] } });
    foreign.add_part("prt_odd", "msg_long1", "ses_long", &odd.to_string())?;

    let report = import(&case, &foreign)?;

    assert!(is_clean(&report), "{report:#?}");
    let export = case.export("ses_long")?;
    let parts = export["messages"][0]["parts"].as_array().ok_or("no parts")?;
    let find = |id: &str| parts.iter().find(|part| part["id"] == id);
    assert_eq!(find("prt_huge").map(|part| &part["text"]), Some(&Value::from(huge)));
    assert_eq!(find("prt_odd").map(|part| &part["\u{0}key"]), Some(&odd["\u{0}key"]));
    Ok(())
}

#[test]
fn valid_rules_shares_todos_import_and_invalid_ones_are_listed() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), FIRST_SCHEMA)?;
    foreign.add_small_session("a")?;
    foreign.add_small_session("b")?;
    let rules = json!([{ "permission": "bash", "pattern": "ls *", "action": "allow" },
                       { "permission": "bash", "pattern": "rm *", "action": "perhaps" }]);
    foreign.conn.execute(
        "INSERT INTO permission (project_id, time_created, time_updated, data) VALUES (?1, 1, 1, ?2)",
        (PROJECT, rules.to_string()),
    )?;
    foreign.conn.execute_batch(
        "INSERT INTO todo VALUES ('ses_a', 'one', 'pending', 'high', 0, 1, 1),
                                 ('ses_a', 'two', 'done', 'low', 1, 1, 1);
         INSERT INTO session_share VALUES ('ses_a', 'sh', 'hush', 'https://share.invalid/sh', 1, 1),
                                          ('ses_b', 'sh', '', 'https://share.invalid/sh', 1, 1);
         UPDATE session SET share_url = 'https://share.invalid/sh' WHERE id = 'ses_a';",
    )?;

    let report = import(&case, &foreign)?;

    assert_eq!(counts(&report, RecordKind::Permission), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Todo), (2, 2, 0, 0, 0));
    assert_eq!(counts(&report, RecordKind::Share), (2, 1, 0, 0, 1));
    assert!(reason(&counts_of(&report, RecordKind::Share).rejected, "ses_b").contains("no secret"));
    let share =
        case.store.read(&case.ctx(), |r| r.shares().find(&"ses_a".parse().expect("an id")))?;
    assert_eq!(share.map(|share| share.secret).as_deref(), Some("hush"));
    assert_eq!(case.export("ses_a")?["info"]["share"]["url"], "https://share.invalid/sh");
    Ok(())
}

#[test]
fn parts_keep_order_across_the_id_wrap() -> TestResult {
    // W19: 2026-08-14 11:19:55.136Z, when the time field of ids began again at zero.
    const WRAP: i64 = 1_786_706_395_136;
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_session("ses_wrap")?;
    foreign.add_message(
        "msg_w",
        "ses_wrap",
        WRAP - 20,
        &user_message_json(WRAP - 20).to_string(),
    )?;
    let id =
        |ms: i64| format!("prt_{:012x}AAAAAAAAAAAAAA", (ms as u64 * 4096 + 1) & 0xffff_ffff_ffff);
    for ms in [WRAP + 10, WRAP - 10, WRAP + 5, WRAP - 5] {
        foreign.add_part(
            &id(ms),
            "msg_w",
            "ses_wrap",
            &text_part_json(&(ms - WRAP).to_string()).to_string(),
        )?;
    }
    case.import(&foreign.path)?;
    let export = case.export("ses_wrap")?;
    let parts = export["messages"][0]["parts"].as_array().ok_or("no parts")?;
    let said: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    assert_eq!(said, ["-10", "-5", "5", "10"]);
    Ok(())
}

#[test]
fn usage_of_old_sessions_is_summed_over_messages() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), FIRST_SCHEMA)?;
    foreign.add_small_session("sum")?;
    foreign.add_part("prt_more", "msg_sum2", "ses_sum", &step_finish_json().to_string())?;
    case.import(&foreign.path)?;
    let info = &case.export("ses_sum")?["info"];
    assert_eq!(info["cost"], json!(0.00119));
    assert_eq!(info["tokens"]["input"], json!(1100));
    assert!(is_unchanged(&case.import(&foreign.path)?));
    Ok(())
}

#[test]
fn absurd_usage_figures_do_not_fail_the_import() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    let mut absurd = step_finish_json();
    absurd["cost"] = json!(1e300);
    absurd["tokens"]["input"] = json!(i64::MAX);
    for index in 0..3 {
        foreign.add_part(&format!("prt_x{index}"), "msg_a2", "ses_a", &absurd.to_string())?;
    }
    foreign.add_small_session("z")?;
    let report = case.import(&foreign.path)?;
    assert_eq!(counts(&report, RecordKind::Session), (2, 2, 0, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (4, 4, 0, 0, 0));
    assert!(counts_of(&report, RecordKind::Part).imported >= 6, "{report:#?}");
    Ok(())
}
