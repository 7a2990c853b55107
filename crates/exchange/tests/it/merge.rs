//! Importing again: what the source changed is updated, what was changed here is kept.

use serde_json::json;
use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::{MessageBody, Part, PartBody};
use turnstone_exchange::{Import, Kind, Options};

use crate::case::{Case, TestResult, check, counts, is_unchanged, open};
use crate::hand::{Foreign, TODAY_SCHEMA, step, text, user};

fn prepared() -> TestResult<(Case, Foreign)> {
    let case = Case::new()?;
    let foreign = Foreign::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.small("a")?;
    foreign.small("b")?;
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
fn what_the_source_changed_since_is_updated() -> TestResult {
    let (case, foreign) = prepared()?;
    foreign
        .conn
        .execute("UPDATE session SET title = 'renamed', cost = 9.5 WHERE id = 'ses_a'", [])?;
    foreign.message("msg_a3", "ses_a", 1002, &user(1002).to_string())?;
    foreign.part("prt_a4", "msg_a3", "ses_a", &text("more").to_string())?;
    foreign.conn.execute(
        "UPDATE part SET data = ?1 WHERE id = 'prt_a2'",
        [text("hi, corrected").to_string()],
    )?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, Kind::Session), (2, 1, 1, 0, 0), "{report:#?}");
    assert_eq!(counts(&report, Kind::Message), (5, 1, 4, 0, 0));
    assert_eq!(counts(&report, Kind::Part), (7, 2, 5, 0, 0));
    let export = case.export("ses_a")?;
    assert_eq!(export["info"]["title"], "renamed");
    assert_eq!(export["info"]["cost"], json!(9.5));
    assert_eq!(export["messages"][1]["parts"][0]["text"], "hi, corrected");
    assert!(is_unchanged(&case.import(&foreign.path)?));
    Ok(())
}

#[test]
fn a_session_deleted_here_stays_deleted() -> TestResult {
    let (case, foreign) = prepared()?;
    case.store.delete_session(&case.ctx(), &session("a"))?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, Kind::Session), (2, 0, 1, 0, 1), "{report:#?}");
    assert_eq!(report.tally(Kind::Session).rejected[0].reason, "deleted here");
    assert_eq!(counts(&report, Kind::Message), (4, 0, 2, 2, 0));
    assert!(case.export("ses_a").is_err());
    Ok(())
}

#[test]
fn what_somebody_changed_or_removed_here_is_kept_and_reported() -> TestResult {
    let (case, foreign) = prepared()?;
    let (a, b) = (session("a"), session("b"));
    let mut edited = case.store.read(&case.ctx(), |r| r.get_message(&a, &message("a1")))?;
    if let MessageBody::User(user) = &mut edited.message.body {
        user.agent = "plan".to_owned();
    }
    case.store
        .write(&case.ctx(), move |tx| {
            tx.put_message(&edited.message)?;
            tx.update_session(&a, |session| {
                session.title = "mine".to_owned();
                Ok(())
            })?;
            tx.remove_message(&b, &message("b2"))
        })
        .wait()?;
    foreign.conn.execute("UPDATE session SET title = 'theirs'", [])?;

    let report = case.import(&foreign.path)?;

    assert_eq!(counts(&report, Kind::Session), (2, 1, 0, 0, 1), "{report:#?}");
    assert_eq!(counts(&report, Kind::Message), (4, 0, 2, 0, 2), "{report:#?}");
    assert_eq!(counts(&report, Kind::Part), (6, 0, 4, 0, 2), "{report:#?}");
    let reasons: Vec<_> =
        report.tally(Kind::Message).rejected.into_iter().map(|skipped| skipped.reason).collect();
    assert!(reasons[0].starts_with("changed here") && reasons[1].starts_with("removed here"));
    assert_eq!(case.export("ses_a")?["info"]["title"], "mine");
    assert_eq!(case.export("ses_a")?["messages"][0]["info"]["agent"], "plan");
    assert_eq!(case.export("ses_b")?["messages"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[test]
fn our_own_export_is_nothing_new_to_us() -> TestResult {
    let (case, _) = prepared()?;
    let local = case.store.read(&case.ctx(), |r| r.get_session(&session("a")))?;
    let mut local = local;
    local.id = session("local");
    local.usage_base = None;
    case.store.write(&case.ctx(), move |tx| tx.create_session(&local)).wait()?;
    let export = case.export("ses_local")?;
    let file = case.write("own.json", &export)?;

    let report = case.import(&file)?;

    assert!(is_unchanged(&report), "{report:#?}");
    assert_eq!(counts(&report, Kind::Session), (1, 0, 1, 0, 0));
    Ok(())
}

#[test]
fn work_done_here_is_added_to_the_imported_figures() -> TestResult {
    let case = Case::new()?;
    let foreign = Foreign::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.small("a")?;
    foreign.conn.execute("UPDATE session SET cost = 1.25, tokens_input = 5000", [])?;
    case.import(&foreign.path)?;
    assert_eq!(case.export("ses_a")?["info"]["cost"], json!(1.25));
    let body: PartBody = serde_json::from_value(step())?;
    let id = "prt_here".parse()?;
    let part = Part { id, session: session("a"), message: message("a2"), body };
    case.store.write(&case.ctx(), move |tx| tx.put_part(&part)).wait()?;

    let info = case.export("ses_a")?["info"].clone();

    assert_eq!(info["cost"], json!(1.25119));
    assert_eq!(info["tokens"]["input"], json!(6100));
    assert!(is_unchanged(&case.import(&foreign.path)?));
    assert_eq!(case.export("ses_a")?["info"], info);
    Ok(())
}

#[test]
fn an_import_that_died_half_way_is_finished_by_the_next() -> TestResult {
    let whole = Case::new()?;
    let foreign = Foreign::new(&whole.path("f/opencode.db"), TODAY_SCHEMA)?;
    for index in 0..12 {
        foreign.small(&format!("s{index:02}"))?;
    }
    whole.import(&foreign.path)?;
    for stop in [1, 17, 40, 70] {
        let case = Case::new()?;
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let import = Import::plan(&foreign.path, &Options::default()).expect("a database");
            let mut seen = 0;
            let run = import.run(&case.store, &case.ctx(), &mut |_| {
                seen += 1;
                assert!(seen < stop, "killed");
            });
            drop(run);
        }));
        assert!(died.is_err(), "it was to die after {stop}");
        let Case { dir, store } = case;
        drop(store);
        let store = open(&dir.path().join("turnstone"))?;
        let case = Case { dir, store };

        check(&case.import(&foreign.path)?);

        for index in 0..12 {
            let id = format!("ses_s{index:02}");
            assert_eq!(case.export(&id)?, whole.export(&id)?);
        }
        assert!(is_unchanged(&case.import(&foreign.path)?));
    }
    Ok(())
}
