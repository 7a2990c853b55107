//! What a path is taken for, what is refused, and that a source is never touched (R30).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use fs_err as fs;
use serde_json::{Value, json};
use turnstone_exchange::{Import, Kind, Options, SourceError};

use crate::case::{Case, TestResult, check, counts, is_unchanged};
use crate::hand::{FIRST_SCHEMA, Foreign, TODAY_SCHEMA, connect};

/// Name, length, time and hash of every file in a directory.
type Listing = BTreeMap<String, (u64, SystemTime, String)>;

fn listing(dir: &Path) -> TestResult<Listing> {
    let mut list = Listing::new();
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
fn a_database_is_read_with_its_log_and_no_file_appears_beside_it() -> TestResult {
    for schema in [FIRST_SCHEMA, TODAY_SCHEMA] {
        let case = Case::new()?;
        let foreign = Foreign::new(&case.path("source/opencode.db"), schema)?;
        foreign.small("a")?;
        let dir = case.path("source");
        let before = listing(&dir)?;
        assert!(before["opencode.db-wal"].0 > 0, "what was written last is in the log only");

        let report = case.import(&foreign.path)?;

        assert_eq!(listing(&dir)?, before);
        assert_eq!(counts(&report, Kind::Session), (1, 1, 0, 0, 0), "{report:#?}");
        assert_eq!(counts(&report, Kind::Part), (3, 3, 0, 0, 0));
        assert!(is_unchanged(&case.import(&dir)?));
    }
    Ok(())
}

#[test]
fn a_database_is_read_while_somebody_writes_to_it() -> TestResult {
    let case = Case::new()?;
    let path = case.path("source/opencode.db");
    let foreign = Foreign::new(&path, TODAY_SCHEMA)?;
    foreign.session("ses_live")?;
    let stop = AtomicBool::new(false);
    let names = |listing: Listing| listing.into_keys().collect::<Vec<_>>();
    let before = names(listing(&case.path("source"))?);

    std::thread::scope(|scope| -> TestResult {
        let stop = &stop;
        let writer = scope.spawn(move || -> Result<(usize, Foreign), String> {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                let id = format!("msg_{count:06}");
                let data = crate::hand::user(count as i64).to_string();
                foreign.message(&id, "ses_live", count as i64, &data).map_err(|e| e.to_string())?;
                count += 1;
                if count % 500 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
            Ok((count, foreign))
        });
        let mut seen = 0;
        for _ in 0..5 {
            let case = Case::new()?;
            let report = case.import(&path)?;
            assert!(report.is_clean(), "{report:#?}");
            let tally = report.tally(Kind::Message);
            assert!(tally.found >= seen, "a later copy holds at least as much");
            seen = tally.found;
        }
        stop.store(true, Ordering::Relaxed);
        let (written, _open) = writer.join().map_err(|_| "the writer panicked")??;
        assert!(seen <= written as u64);
        assert_eq!(names(listing(&case.path("source"))?), before);
        Ok(())
    })
}

#[test]
fn every_hopeless_source_is_refused_by_name_and_with_a_remedy() -> TestResult {
    let case = Case::new()?;
    let missing = case.refuses(&case.path("nowhere"));
    assert!(matches!(missing, SourceError::Missing { .. }), "{missing}");

    let garbage = case.write_text("garbage.db", "this is no database at all, only words")?;
    let refused = case.refuses(&garbage);
    assert!(matches!(refused, SourceError::NotADatabase { .. }), "{refused}");
    assert!(refused.to_string().contains("garbage.db") && !refused.remedy().is_empty());

    let empty = case.write_text("empty.db", "")?;
    assert!(matches!(case.refuses(&empty), SourceError::Empty { .. }));

    let list = case.write("list.json", &json!({ "a": 1 }))?;
    assert!(matches!(case.refuses(&list), SourceError::NotAnExport { .. }));
    let cut = case.write_text("cut.json", r#"{"info": {"id": "ses_a""#)?;
    assert!(matches!(case.refuses(&cut), SourceError::NotAnExport { .. }));

    fs::create_dir_all(case.path("bare/sub"))?;
    let nothing = case.refuses(&case.path("bare"));
    assert!(matches!(nothing, SourceError::NothingFound { .. }), "{nothing}");
    assert!(
        nothing.to_string().contains("opencode.db") && nothing.to_string().contains("storage/")
    );

    let bare = case.path("bare.db");
    connect(&bare)?.execute_batch("VACUUM")?;
    assert!(matches!(case.refuses(&bare), SourceError::Empty { .. }), "{}", case.refuses(&bare));
    Ok(())
}

#[test]
fn a_database_of_an_unknown_version_is_refused_with_what_it_lacks() -> TestResult {
    let case = Case::new()?;
    let path = case.path("future.db");
    connect(&path)?.execute_batch(
        "CREATE TABLE project (id, worktree); CREATE TABLE session (id, project_id, title, directory,
         time_created, time_updated); CREATE TABLE message (id, session_id, time_created, blob)",
    )?;
    let refused = case.refuses(&path);
    assert!(matches!(refused, SourceError::UnknownSchema { .. }), "{refused}");
    let said = refused.to_string();
    assert!(said.contains("message.data") && said.contains("table part"), "{said}");
    Ok(())
}

#[test]
fn a_truncated_database_is_an_error_or_a_report_and_never_a_panic() -> TestResult {
    let case = Case::new()?;
    let foreign = Foreign::new(&case.path("whole.db"), TODAY_SCHEMA)?;
    for index in 0..40 {
        foreign.small(&format!("s{index:02}"))?;
    }
    foreign.conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
    let bytes = fs::read(&foreign.path)?;
    let (mut errors, mut reports) = (0, 0);
    for share in 1..10 {
        let cut = case.path(&format!("cut{share}.db"));
        fs::write(&cut, &bytes[..bytes.len() * share / 10])?;
        match Import::plan(&cut, &Options::default()) {
            Err(error) => {
                assert!(error.to_string().contains("cut"), "{error}");
                errors += 1;
            }
            Ok(import) => {
                let target = Case::new()?;
                match import.run(&target.store, &target.ctx(), &mut |_| {}) {
                    Ok(report) => {
                        check(&report);
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
fn a_page_of_garbage_costs_the_sessions_on_it_and_no_others() -> TestResult {
    let case = Case::new()?;
    let foreign = Foreign::new(&case.path("bad.db"), TODAY_SCHEMA)?;
    for index in 0..60 {
        foreign.small(&format!("s{index:02}"))?;
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

    match Import::plan(&foreign.path, &Options::default()) {
        Err(error) => assert!(error.to_string().contains("damaged"), "{error}"),
        Ok(import) => {
            let report = import.run(&case.store, &case.ctx(), &mut |_| {})?;
            check(&report);
            assert!(report.tally(Kind::Session).imported > 0, "{report:#?}");
        }
    }
    Ok(())
}

#[test]
fn documents_come_one_by_one_in_a_list_in_lines_and_from_a_stream() -> TestResult {
    let golden: Value = serde_json::from_str(include_str!("data/export-session.json"))?;
    let mut other = golden.clone();
    rename(&mut other);
    let case = Case::new()?;
    case.write("one.json", &golden)?;
    case.write_text("lines.jsonl", &format!("{golden}\n{other}\n"))?;
    case.write("list.json", &json!([golden, other]))?;
    for (file, sessions) in [("one.json", 1), ("lines.jsonl", 2), ("list.json", 2)] {
        let target = Case::new()?;
        let report = target.import(&case.path(file))?;
        assert_eq!(counts(&report, Kind::Session), (sessions, sessions, 0, 0, 0), "{file}");
        assert_eq!(counts(&report, Kind::Message).0, sessions * 4, "{file}");
    }
    let stream = format!("{golden}\n\n{other}{{\"info\": broken");
    let import = Import::plan_stream(stream.as_bytes(), &Options::default())?;
    assert_eq!(import.totals()[&Kind::Session], 3);
    let report = import.run(&case.store, &case.ctx(), &mut |_| {})?;
    assert_eq!(counts(&report, Kind::Session), (3, 2, 0, 0, 1));
    assert!(report.tally(Kind::Session).rejected[0].reason.contains("not JSON"));
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
fn a_data_directory_means_its_database_and_says_what_it_left() -> TestResult {
    let case = Case::new()?;
    let foreign = Foreign::new(&case.path("data/opencode.db"), TODAY_SCHEMA)?;
    let body = json!({ "id": "ses_old", "title": "old", "time": { "created": 1, "updated": 2 } });
    case.write("data/storage/project/p1.json", &json!({ "worktree": "/w" }))?;
    case.write("data/storage/session/p1/ses_old.json", &body)?;

    // W29: a move that never happened leaves an empty database and files nobody reads any more.
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, Kind::Session), (1, 1, 0, 0, 0));
    assert!(report.notes[0].contains("holds no session"), "{:?}", report.notes);

    foreign.small("new")?;
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, Kind::Session), (1, 1, 0, 0, 0));
    assert!(report.notes[0].contains("1 session files"), "{:?}", report.notes);
    Ok(())
}

#[test]
fn of_several_databases_one_must_be_named() -> TestResult {
    let case = Case::new()?;
    Foreign::new(&case.path("data/opencode-dev.db"), TODAY_SCHEMA)?.small("dev")?;
    let report = case.import(&case.path("data"))?;
    assert_eq!(counts(&report, Kind::Session).1, 1);
    Foreign::new(&case.path("data/opencode-beta.db"), TODAY_SCHEMA)?;
    assert!(matches!(case.refuses(&case.path("data")), SourceError::Ambiguous { .. }));
    Ok(())
}
