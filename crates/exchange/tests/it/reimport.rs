//! Importing again: what the source changed is updated, what was changed here is kept.

use serde_json::json;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{MessageBody, Part, PartBody};
use turnstone_exchange::{Options, PlannedImport, RecordKind};

use crate::case::{
    ImportFixture, TestResult, assert_counts_add_up, counts, counts_of, is_unchanged, open,
};
use crate::handmade_source::{
    HandmadeDatabase, TODAY_SCHEMA, step_finish_json, text_part_json, user_message_json,
};

fn prepared() -> TestResult<(ImportFixture, HandmadeDatabase)> {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    foreign.add_small_session("b")?;
    case.import(&foreign.path)?;
    Ok((case, foreign))
}

fn session(name: &str) -> SessionId {
    format!("ses_{name}").parse().expect("an id")
}

fn message(name: &str) -> MessageId {
    format!("msg_{name}").parse().expect("an id")
}

#[test]
fn reimport_updates_what_the_source_changed() -> TestResult {
    let (case, foreign) = prepared()?;
    foreign
        .conn
        .execute("UPDATE session SET title = 'renamed', cost = 9.5 WHERE id = 'ses_a'", [])?;
    foreign.add_message("msg_a3", "ses_a", 1002, &user_message_json(1002).to_string())?;
    foreign.add_part("prt_a4", "msg_a3", "ses_a", &text_part_json("more").to_string())?;
    foreign.conn.execute(
        "UPDATE part SET data = ?1 WHERE id = 'prt_a2'",
        [text_part_json("hi, corrected").to_string()],
    )?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 1, 1, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (5, 1, 4, 0, 0));
    assert_eq!(counts(&report, RecordKind::Part), (7, 2, 5, 0, 0));
    let export = case.export("ses_a")?;
    assert_eq!(export["info"]["title"], "renamed");
    assert_eq!(export["info"]["cost"], json!(9.5));
    assert_eq!(export["messages"][1]["parts"][0]["text"], "hi, corrected");
    assert!(is_unchanged(&case.import(&foreign.path)?));
    Ok(())
}

#[test]
fn reimport_keeps_locally_deleted_session_deleted() -> TestResult {
    let (case, foreign) = prepared()?;
    case.store.delete_session(&case.ctx(), &session("a"))?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 0, 1, 0, 1), "{report:#?}");
    assert_eq!(counts_of(&report, RecordKind::Session).rejected[0].reason, "deleted here");
    assert_eq!(counts(&report, RecordKind::Message), (4, 0, 2, 2, 0));
    assert!(case.export("ses_a").is_err());
    Ok(())
}

#[test]
fn reimport_keeps_and_reports_local_changes_and_removals() -> TestResult {
    let (case, foreign) = prepared()?;
    let (a, b) = (session("a"), session("b"));
    let mut edited = case.store.read(&case.ctx(), |r| r.messages().get(&a, &message("a1")))?;
    if let MessageBody::User(user) = &mut edited.message.body {
        user.agent = "plan".to_owned();
    }
    case.store
        .write(&case.ctx(), move |tx| {
            tx.messages().put(&edited.message)?;
            tx.sessions().update(&a, |session| {
                session.title = "mine".to_owned();
                Ok(())
            })?;
            tx.messages().remove(&b, &message("b2"))
        })
        .wait()?;
    foreign.conn.execute("UPDATE session SET title = 'theirs'", [])?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, RecordKind::Session), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Message), (4, 0, 2, 0, 2), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Part), (6, 0, 4, 0, 2), "{report:#?}");
    let reasons: Vec<_> = counts_of(&report, RecordKind::Message)
        .rejected
        .into_iter()
        .map(|skipped| skipped.reason)
        .collect();
    assert!(reasons[0].starts_with("changed here") && reasons[1].starts_with("removed here"));
    assert_eq!(case.export("ses_a")?["info"]["title"], "mine");
    assert_eq!(case.export("ses_a")?["messages"][0]["info"]["agent"], "plan");
    assert_eq!(case.export("ses_b")?["messages"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn importing_our_own_export_changes_nothing() -> TestResult {
    let (case, _) = prepared()?;
    let local = case.store.read(&case.ctx(), |r| r.sessions().get(&session("a")))?;
    let mut local = local;
    local.id = session("local");
    local.usage_base = None;
    case.store.write(&case.ctx(), move |tx| tx.sessions().create(&local)).wait()?;
    let export = case.export("ses_local")?;
    let file = case.write("own.json", &export)?;

    let report = case.import(&file)?;

    assert!(is_unchanged(&report), "{report:#?}");
    assert_eq!(counts(&report, RecordKind::Session), (1, 0, 1, 0, 0));
    Ok(())
}

#[test]
fn local_usage_is_added_to_imported_usage() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    foreign.conn.execute("UPDATE session SET cost = 1.25, tokens_input = 5000", [])?;
    case.import(&foreign.path)?;
    assert_eq!(case.export("ses_a")?["info"]["cost"], json!(1.25));
    let body: PartBody = serde_json::from_value(step_finish_json())?;
    let id = "prt_here".parse()?;
    let part = Part { id, session: session("a"), message: message("a2"), body };
    case.store.write(&case.ctx(), move |tx| tx.messages().put_part(&part)).wait()?;

    let info = case.export("ses_a")?["info"].clone();

    assert_eq!(info["cost"], json!(1.25119));
    assert_eq!(info["tokens"]["input"], json!(6100));
    assert!(is_unchanged(&case.import(&foreign.path)?));
    assert_eq!(case.export("ses_a")?["info"], info);
    Ok(())
}

#[test]
fn interrupted_import_is_finished_by_the_next_run() -> TestResult {
    let whole = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&whole.path("f/opencode.db"), TODAY_SCHEMA)?;
    for index in 0..12 {
        foreign.add_small_session(&format!("s{index:02}"))?;
    }
    whole.import(&foreign.path)?;
    for stop in [1, 17, 40, 70] {
        let case = ImportFixture::new()?;
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let import =
                PlannedImport::open(&foreign.path, &Options::default()).expect("a database");
            let mut seen = 0;
            let run = import.run(&case.store, &case.ctx(), &mut |_| {
                seen += 1;
                assert!(seen < stop, "killed");
            });
            drop(run);
        }));
        assert!(died.is_err(), "it was to die after {stop}");
        let ImportFixture { dir, store } = case;
        drop(store);
        let store = open(&dir.path().join("turnstone"))?;
        let case = ImportFixture { dir, store };

        assert_counts_add_up(&case.import(&foreign.path)?);

        for index in 0..12 {
            let id = format!("ses_s{index:02}");
            assert_eq!(case.export(&id)?, whole.export(&id)?);
        }
        assert!(is_unchanged(&case.import(&foreign.path)?));
    }
    Ok(())
}
