//! What is imported is in the log like everything else: readers, replicas and rebuilds know it.

use turnstone_core::event::EventKind;
use turnstone_core::id::SessionId;
use turnstone_core::time::SessionSeq;

use crate::case::{ImportFixture, TestResult};
use crate::handmade_source::{HandmadeDatabase, TODAY_SCHEMA};

/// W7: an import is events, numbered from the first one, and what is written later follows them.
#[test]
fn import_is_logged_and_later_writes_follow() -> TestResult {
    let case = ImportFixture::new()?;
    let foreign = HandmadeDatabase::new(&case.path("f/opencode.db"), TODAY_SCHEMA)?;
    foreign.add_small_session("a")?;
    case.import(&foreign.path)?;
    let id: SessionId = "ses_a".parse()?;
    let events =
        || case.store.read(&case.ctx(), |r| r.log().stream_after(&id, SessionSeq(0), 1000));
    let before = events()?.events;
    let first = &before.first().ok_or("no event")?;
    assert_eq!(first.kind, EventKind::SessionCreated);
    for kind in [EventKind::MessageUpdated, EventKind::PartUpdated] {
        assert!(before.iter().any(|event| event.kind == kind), "{kind}");
    }
    let seqs = |events: &[turnstone_store::LogEvent]| -> Vec<i64> {
        events.iter().filter_map(|event| Some(event.seq?.0)).collect()
    };
    let start = seqs(&before)[0];
    let expected = |count: usize| (start..start + count as i64).collect::<Vec<_>>();
    assert_eq!(seqs(&before), expected(before.len()));

    let name = id.clone();
    let rename = move |tx: &turnstone_store::Tx<'_>| {
        tx.sessions().update(&name, |session| {
            session.title = "renamed".to_owned();
            Ok(())
        })
    };
    case.store.write(&case.ctx(), rename).wait()?;
    let after = events()?.events;
    assert_eq!(seqs(&after), expected(before.len() + 1), "no number is used twice");
    assert_eq!(case.store.maintenance().verify_projections()?, [], "the log alone rebuilds it");
    Ok(())
}
