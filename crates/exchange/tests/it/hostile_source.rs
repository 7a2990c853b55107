//! Sources that were made to do harm: too large, too deep, pipes, links, and databases that compute.

use std::io::Write as _;
use std::os::unix::fs::symlink;

use serde_json::json;
use turnstone_exchange::{MAX_LISTED, RecordKind, SourceError};

use crate::case::{ImportFixture, TestResult, counts, counts_of};
use crate::handmade_source::{HandmadeDatabase, TODAY_SCHEMA, text_part_json, user_message_json};

const INFO: &str = r#"{"id":"ses_x","projectID":"p","directory":"/w","title":"t"}"#;

fn pipe(path: &std::path::Path) -> TestResult {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

#[test]
fn invalid_elements_are_counted_and_listing_is_capped() -> TestResult {
    let case = ImportFixture::new()?;
    let zeros = |count| {
        let zeros = "0,".repeat(count);
        case.write_text("z.json", &format!(r#"{{"info":{INFO},"messages":[{zeros}0]}}"#))
    };
    let error = case.expect_source_error(&zeros(10_000)?);
    assert!(matches!(error, SourceError::NotAnExport { .. }), "{error:?}");
    let file = zeros(5_000)?;

    let report = case.import(&file)?;

    let message_counts = counts_of(&report, RecordKind::Message);
    assert_eq!((message_counts.found, message_counts.rejected_count), (5_001, 5_001));
    assert_eq!(message_counts.rejected.len(), MAX_LISTED);
    assert_eq!(counts(&report, RecordKind::Session), (1, 1, 0, 0, 0));
    Ok(())
}

#[test]
fn oversized_or_deeply_nested_elements_are_rejected_individually() -> TestResult {
    let case = ImportFixture::new()?;
    let message = r#""info":{"id":"msg_x","sessionID":"ses_x","role":"user","time":{"created":1},"agent":"b","model":{"providerID":"p","modelID":"m"}}"#;
    let part = |id: &str, metadata: &str| {
        format!(r#"{{"id":"prt_{id}","type":"text","text":"x","metadata":{{"k":{metadata}}}}}"#)
    };
    let wide = part("wide", &format!("[{}0]", "0,".repeat(200_000)));
    let deep = part("deep", &format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)));
    let long = part("long", &format!("\"{}\"", "x".repeat(17 << 20)));
    let good = part("good", "[1,2]");
    let text = format!(
        r#"{{"info":{INFO},"messages":[{{{message},"parts":[{wide},{deep},{long},{good}]}}]}}"#
    );

    let report = case.import(&case.write_text("x.json", &text)?)?;

    assert_eq!(counts(&report, RecordKind::Part), (4, 1, 0, 0, 3), "{report:#?}");
    let reasons: Vec<_> =
        counts_of(&report, RecordKind::Part).rejected.into_iter().map(|it| it.reason).collect();
    assert!(reasons[0].contains("more than 100000 values"), "{reasons:?}");
    assert!(reasons[1].contains("recursion limit"), "{reasons:?}");
    assert!(reasons[2].contains("larger than 16 MiB"), "{reasons:?}");
    Ok(())
}

#[test]
fn oversized_element_is_an_error_with_its_position() -> TestResult {
    let case = ImportFixture::new()?;
    let path = case.path("x.json");
    let mut file = std::io::BufWriter::new(fs_err::File::create(&path)?);
    write!(file, r#"{{"info":{INFO},"messages":[{{"info":{{"id":"msg_x"}},"parts":[1,""#)?;
    for _ in 0..65 {
        file.write_all(&[b'x'; 1 << 20])?;
    }
    write!(file, r#""]}}]}}"#)?;
    file.flush()?;
    drop(file);

    let error = case.expect_source_error(&path);

    let SourceError::TooLarge { place, limit, .. } = error else {
        return Err(format!("{error:?}").into());
    };
    assert_eq!((place.as_str(), limit), ("document 1, message 1, part 2", 64 << 20));
    Ok(())
}

#[test]
fn truncated_document_imports_nothing() -> TestResult {
    let case = ImportFixture::new()?;
    let good = format!(r#"{{"info":{INFO},"messages":[]}}"#);
    let cut = r#"{"info":{"id":"ses_cut"},"messages":[{"info":{"id":"msg_1","role":"user""#;
    let file = case.write_text("x.json", &format!("{good}{cut}"))?;
    let report = case.import(&file)?;
    assert_eq!(counts(&report, RecordKind::Session), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts_of(&report, RecordKind::Session).rejected[0].id, "document 2");
    assert!(case.export("ses_cut").is_err());
    Ok(())
}

#[test]
fn out_of_order_document_keys_are_reported() -> TestResult {
    let case = ImportFixture::new()?;
    let good = format!(r#"{{"info":{INFO},"messages":[],"extra":{{"a":[1]}}}}"#);
    let late = r#"{"messages":[{"info":{"id":"msg_1"}}],"info":{"id":"ses_late"}}"#;
    let parts =
        r#"{"info":{"id":"ses_y"},"messages":[{"parts":[{"id":"prt_1"}],"info":{}},{},[1]]}"#;
    let file = case.write_text("x.json", &format!("[{good},7,[{good}],{late}]\n{parts}"))?;

    let report = case.import(&file)?;

    assert_eq!(counts(&report, RecordKind::Session), (5, 2, 0, 0, 3), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (3, 0, 0, 0, 3), "{report:#?}");
    let reasons: Vec<_> =
        counts_of(&report, RecordKind::Session).rejected.into_iter().map(|it| it.reason).collect();
    assert_eq!(reasons[2], "its messages come before its info");
    Ok(())
}

#[test]
fn pipes_and_links_in_storage_are_reported_not_followed() -> TestResult {
    let case = ImportFixture::new()?;
    case.write("s/project/p1.json", &json!({ "worktree": "/w", "time": { "created": 5 } }))?;
    case.write("s/session/p1/ses_a.json", &json!({ "title": "t" }))?;
    case.write("s/message/ses_a/msg_a.json", &user_message_json(1))?;
    case.write("s/part/msg_a/prt_a.json", &text_part_json("good"))?;
    let secret = case.write("secret.json", &text_part_json("hunter2"))?;
    let at = |name: &str| case.path("s").join(name);
    symlink(&secret, at("part/msg_a/prt_link.json"))?;
    symlink("/dev/zero", at("part/msg_a/prt_zero.json"))?;
    pipe(&at("part/msg_a/prt_pipe.json"))?;
    pipe(&at("message/ses_a/msg_pipe.json"))?;
    pipe(&at("session/p1/ses_pipe.json"))?;
    pipe(&at("project/p2.json"))?;
    fs_err::create_dir_all(at("todo"))?;
    pipe(&at("todo/ses_a.json"))?;
    fs_err::create_dir_all(case.path("outside"))?;
    symlink(case.path("outside"), at("session/linked"))?;

    let report = case.import(&case.path("s"))?;

    assert_eq!(counts(&report, RecordKind::Part), (4, 1, 0, 0, 3), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Session), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Project), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Todo), (1, 0, 0, 0, 1), "{report:#?}");
    assert!(!case.export("ses_a")?.to_string().contains("hunter2"));
    Ok(())
}

#[test]
fn pipe_or_device_source_is_refused() -> TestResult {
    let case = ImportFixture::new()?;
    pipe(&case.path("pipe"))?;
    for path in [case.path("pipe"), "/dev/zero".into()] {
        let error = case.expect_source_error(&path);
        assert!(matches!(error, SourceError::NotAFile { .. }), "{error:?}");
    }
    // Files next to a database are part of the source.
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    let path = foreign.path.clone();
    drop(foreign);
    pipe(&case.path("f/opencode.db-wal"))?;
    let error = case.expect_source_error(&path);
    assert!(matches!(error, SourceError::Unreadable { .. }), "{error:?}");
    Ok(())
}

#[test]
fn virtual_and_generated_tables_are_ignored() -> TestResult {
    for (name, change) in [
        ("view", "ALTER TABLE part RENAME TO p; CREATE VIEW part AS SELECT * FROM p"),
        (
            "generated",
            "DROP TABLE part; CREATE TABLE part (id TEXT, message_id TEXT, time_created INTEGER,
               data TEXT GENERATED ALWAYS AS (printf('%.*c', 900000000, 'x')) VIRTUAL)",
        ),
    ] {
        let case = ImportFixture::new()?;
        let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
        foreign.conn.execute_batch(change)?;
        let error = case.expect_source_error(&foreign.path);
        let SourceError::UnknownSchema { missing, .. } = error else {
            return Err(format!("{name}: {error:?}").into());
        };
        assert_eq!(missing, ["table part"], "{name}");
    }
    Ok(())
}

#[test]
fn oversized_row_is_rejected_individually() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    foreign.add_part("prt_large", "msg_a1", "ses_a", "{}")?;
    foreign.conn.execute_batch(
        "UPDATE part SET data = zeroblob(40000000) WHERE id = 'prt_large';
         CREATE TRIGGER t AFTER UPDATE ON part BEGIN DELETE FROM message; END;",
    )?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, RecordKind::Part), (4, 3, 0, 0, 1), "{report:#?}");
    assert!(counts_of(&report, RecordKind::Part).rejected[0].reason.contains("larger than 16 MiB"));
    assert_eq!(counts(&report, RecordKind::Message), (2, 2, 0, 0, 0));
    Ok(())
}
