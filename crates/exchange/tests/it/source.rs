//! What a path is taken for, what is refused, and that a source is never touched (R30).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use fs_err as fs;
use serde_json::{Value, json};
use turnstone_exchange::{Options, PlannedImport, RecordKind, SourceError};

use crate::case::{
    ImportFixture, TestResult, assert_counts_add_up, counts, counts_of, is_clean, is_unchanged,
};
use crate::handmade_source::{FIRST_SCHEMA, HandmadeDatabase, TODAY_SCHEMA, connect};

/// Name, length, time and hash of every file in a directory.
type DirectoryFingerprint = BTreeMap<String, (u64, SystemTime, String)>;

fn listing(dir: &Path) -> TestResult<DirectoryFingerprint> {
    let mut list = DirectoryFingerprint::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        let hash = blake3::hash(&fs::read(entry.path())?).to_hex().to_string();
        let name = entry.file_name().to_string_lossy().into_owned();
        list.insert(name, (meta.len(), meta.modified()?, hash));
    }
    Ok(list)
}

#[test]
fn database_is_read_with_its_wal_without_side_files() -> TestResult {
    for schema in [FIRST_SCHEMA, TODAY_SCHEMA] {
        let case = ImportFixture::new()?;
        let foreign = HandmadeDatabase::new(&case.path("source/opencode.db"), schema)?;
        foreign.add_small_session("a")?;
        let dir = case.path("source");
        let before = listing(&dir)?;
        assert!(before["opencode.db-wal"].0 > 0, "what was written last is in the log only");

        let report = case.import(&foreign.path)?;

        assert_eq!(listing(&dir)?, before);
        assert_eq!(counts(&report, RecordKind::Session), (1, 1, 0, 0, 0), "{report:#?}");
        assert_eq!(counts(&report, RecordKind::Part), (3, 3, 0, 0, 0));
        assert!(is_unchanged(&case.import(&dir)?));
    }
    Ok(())
}

#[test]
fn database_is_read_during_concurrent_writes() -> TestResult {
    let case = ImportFixture::new()?;
    let path = case.path("source/opencode.db");
    let foreign = HandmadeDatabase::new(&path, TODAY_SCHEMA)?;
    foreign.add_session("ses_live")?;
    let stop = AtomicBool::new(false);
    let names = |listing: DirectoryFingerprint| listing.into_keys().collect::<Vec<_>>();
    let before = names(listing(&case.path("source"))?);

    std::thread::scope(|scope| -> TestResult {
        let stop = &stop;
        let writer = scope.spawn(move || -> Result<(usize, HandmadeDatabase), String> {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let id = format!("msg_{count:06}");
                let data = crate::handmade_source::user_message_json(count as i64).to_string();
                foreign
                    .add_message(&id, "ses_live", count as i64, &data)
                    .map_err(|e| e.to_string())?;
                count += 1;
                if count % 500 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
            Ok((count, foreign))
        });
        let mut seen = 0;
        for _ in 0..5 {
            let case = ImportFixture::new()?;
            let report = case.import(&path)?;
            assert!(is_clean(&report), "{report:#?}");
            let counts = counts_of(&report, RecordKind::Message);
            assert!(counts.found >= seen, "a later copy holds at least as much");
            seen = counts.found;
        }
        stop.store(true, Ordering::Relaxed);
        let (written, _open) = writer.join().map_err(|_| "the writer panicked")??;
        assert!(seen <= written as u64);
        assert_eq!(names(listing(&case.path("source"))?), before);
        Ok(())
    })
}

#[test]
fn unusable_sources_are_refused_with_a_remedy() -> TestResult {
    let case = ImportFixture::new()?;
    let missing = case.expect_source_error(&case.path("nowhere"));
    assert!(matches!(missing, SourceError::Missing { .. }), "{missing}");

    let garbage = case.write_text("garbage.db", "this is no database at all, only words")?;
    let refused = case.expect_source_error(&garbage);
    assert!(matches!(refused, SourceError::NotADatabase { .. }), "{refused}");
    assert!(refused.to_string().contains("garbage.db") && !refused.remedy().is_empty());

    let empty = case.write_text("empty.db", "")?;
    assert!(matches!(case.expect_source_error(&empty), SourceError::Empty { .. }));

    let list = case.write("list.json", &json!({ "a": 1 }))?;
    assert!(matches!(case.expect_source_error(&list), SourceError::NotAnExport { .. }));
    let cut = case.write_text("cut.json", r#"{"info": {"id": "ses_a""#)?;
    assert!(matches!(case.expect_source_error(&cut), SourceError::NotAnExport { .. }));

    fs::create_dir_all(case.path("bare/sub"))?;
    let nothing = case.expect_source_error(&case.path("bare"));
    assert!(matches!(nothing, SourceError::NothingFound { .. }), "{nothing}");
    assert!(
        nothing.to_string().contains("opencode.db") && nothing.to_string().contains("storage/")
    );

    let bare = case.path("bare.db");
    connect(&bare)?.execute_batch("VACUUM")?;
    assert!(
        matches!(case.expect_source_error(&bare), SourceError::Empty { .. }),
        "{}",
        case.expect_source_error(&bare)
    );
    Ok(())
}

#[test]
fn unknown_schema_is_refused_listing_missing_columns() -> TestResult {
    let case = ImportFixture::new()?;
    let path = case.path("future.db");
    connect(&path)?.execute_batch(
        "CREATE TABLE project (id, worktree); CREATE TABLE session (id, project_id, title, directory,
         time_created, time_updated); CREATE TABLE message (id, session_id, time_created, blob)",
    )?;
    let refused = case.expect_source_error(&path);
    assert!(matches!(refused, SourceError::UnknownSchema { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("message.data") && said.contains("table part"), "{said}");
    Ok(())
}

#[test]
fn truncated_database_never_panics() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("whole.db"), TODAY_SCHEMA)?;
    for index in 0..40 {
        foreign.add_small_session(&format!("s{index:02}"))?;
    }
    foreign.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let bytes = fs::read(&foreign.path)?;
    let (mut errors, mut reports) = (0, 0);
    for share in 1..10 {
        let cut = case.path(&format!("cut{share}.db"));
        fs::write(&cut, &bytes[..bytes.len() * share / 10])?;
        match PlannedImport::open(&cut, &Options::default()) {
            Err(error) => {
                assert!(error.to_string().contains("cut"), "{error}");
                errors += 1;
            }
            Ok(import) => {
                let target = ImportFixture::new()?;
                match import.run(&target.store, &target.ctx(), &mut |_| {}) {
                    Ok(report) => {
                        assert_counts_add_up(&report);
                        reports += 1;
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("damaged"), "{error}");
                        errors += 1;
                    }
                }
            }
        }
    }
    assert!(errors > 0, "{errors} errors, {reports} reports");
    Ok(())
}

#[test]
fn corrupt_page_loses_only_its_own_sessions() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("bad.db"), TODAY_SCHEMA)?;
    for index in 0..60 {
        foreign.add_small_session(&format!("s{index:02}"))?;
    }
    foreign.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let page: i64 = foreign
        .conn
        .query_row(
            "SELECT pageno FROM dbstat WHERE name = 'part' AND pagetype = 'leaf' LIMIT 1 OFFSET 1",
            [],
            |row| row.get(0),
        )
        .unwrap_or(0);
    drop(foreign.conn);
    let mut bytes = fs::read(&foreign.path)?;
    let page = if page > 0 { page as usize } else { bytes.len() / 4096 / 2 };
    bytes[(page - 1) * 4096..page * 4096].fill(0xAB);
    fs::write(&foreign.path, bytes)?;

    match PlannedImport::open(&foreign.path, &Options::default()) {
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        Ok(import) => {
            let report = import.run(&case.store, &case.ctx(), &mut |_| {})?;
            assert_counts_add_up(&report);
            assert!(counts_of(&report, RecordKind::Session).imported > 0, "{report:#?}");
        }
    }
    Ok(())
}

#[test]
fn documents_are_read_from_object_array_lines_and_concatenation() -> TestResult {
    let golden: Value = serde_json::from_str(include_str!("data/opencode-export.json"))?;
    let mut other = golden.clone();
    rename(&mut other);
    let case = ImportFixture::new()?;
    case.write("one.json", &golden)?;
    case.write_text("lines.jsonl", &format!("{golden}\n{other}\n"))?;
    case.write("list.json", &json!([golden, other]))?;
    for (file, sessions) in [("one.json", 1), ("lines.jsonl", 2), ("list.json", 2)] {
        let target = ImportFixture::new()?;
        let report = target.import(&case.path(file))?;
        assert_eq!(counts(&report, RecordKind::Session), (sessions, sessions, 0, 0, 0), "{file}");
        assert_eq!(counts(&report, RecordKind::Message).0, sessions * 4, "{file}");
    }
    let stream = format!("{golden}\n\n{other}{{\"info\": broken");
    case.write_text("stream.json", &stream)?;
    let import = PlannedImport::open(&case.path("stream.json"), &Options::default())?;
    assert_eq!(import.totals()[&RecordKind::Session], 3);
    let report = import.run(&case.store, &case.ctx(), &mut |_| {})?;
    assert_eq!(counts(&report, RecordKind::Session), (3, 2, 0, 0, 1));
    assert!(counts_of(&report, RecordKind::Session).rejected[0].reason.contains("not JSON"));
    Ok(())
}

/// Gives a document other ids.
fn rename(value: &mut Value) {
    match value {
        Value::String(text) if text.len() == 30 && text.as_bytes()[3] == b'_' => text.push('x'),
        Value::Array(list) => list.iter_mut().for_each(rename),
        Value::Object(map) => map.values_mut().for_each(rename),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn data_directory_reads_database_and_notes_skipped_storage() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("data/opencode.db"), TODAY_SCHEMA)?;
    let body = json!({ "id": "ses_old", "title": "old", "time": { "created": 1, "updated": 2 } });
    case.write("data/storage/project/p1.json", &json!({ "worktree": "/w" }))?;
    case.write("data/storage/session/p1/ses_old.json", &body)?;

    // W29: a move that never happened leaves an empty database and files nobody reads any more.
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, RecordKind::Session), (1, 1, 0, 0, 0));
    assert!(report.notes[0].contains("holds no session"), "{:?}", report.notes);

    foreign.add_small_session("new")?;
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, RecordKind::Session), (1, 1, 0, 0, 0));
    assert!(report.notes[0].contains("1 session files"), "{:?}", report.notes);
    Ok(())
}

#[test]
fn ambiguous_databases_must_be_named() -> TestResult {
    let case = ImportFixture::new()?;
    HandmadeDatabase::new(&case.path("data/opencode-dev.db"), TODAY_SCHEMA)?
        .add_small_session("dev")?;
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, RecordKind::Session).1, 1);
    HandmadeDatabase::new(&case.path("data/opencode-beta.db"), TODAY_SCHEMA)?;
    assert!(matches!(case.expect_source_error(&case.path("data")), SourceError::Ambiguous { .. }));
    Ok(())
}
