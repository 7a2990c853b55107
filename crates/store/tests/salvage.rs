//! A damaged store: the doctor sees it, and what is salvaged is what was stored.

mod random_commands;
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use support::{NOW, ctx, log, open, part, project, session, sid, text, user, write};
use turnstone_core::event::EventKind;
use turnstone_core::time::SessionSeq;
use turnstone_store::{
    BlobHash, DataLayout, LogEvent, MaintenanceBudget, MaintenanceLimits, MessageWithParts,
    Options, SalvageReport, Severity, ShareRecord, Store, StoreError, diagnose, salvage,
};
use turnstone_testkit::fixture::SeededRng;

const PAGE: u64 = 4096;

/// What a session was before the damage.
#[derive(PartialEq, Debug)]
struct SessionContent {
    events: Vec<LogEvent>,
    messages: Vec<MessageWithParts>,
}

/// A store with a history of every kind, closed, in a directory of its own.
struct OriginalStore {
    dir: tempfile::TempDir,
    sessions: BTreeMap<String, SessionContent>,
}

/// Of a stub only its place is proved.
fn normalize_stub(mut event: LogEvent) -> LogEvent {
    if event.is_stub() {
        event = LogEvent {
            kind: EventKind::TodoUpdated,
            entity: 0,
            sync_seq: None,
            version: 0,
            ..event
        };
        event.time = NOW;
        event.actor.clear();
        event.client = None;
    }
    event
}

fn load_session_content(store: &Store, id: &str) -> SessionContent {
    store
        .read(&ctx(), |r| {
            Ok(SessionContent {
                events: r
                    .log()
                    .stream_after(&sid(id), SessionSeq(0), 1_000_000)?
                    .events
                    .into_iter()
                    .map(normalize_stub)
                    .collect(),
                messages: r.messages().list(&sid(id), None, 1_000_000)?.items,
            })
        })
        .unwrap_or_else(|e| panic!("{id}: {e}"))
}

fn fill(store: &Store, seed: u64) {
    let mut rng = SeededRng::new(seed);
    let mut commands = vec![(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 1), (1, 2, 1)];
    commands.extend((0..250).map(|_| {
        let code = rng.below(u64::from(random_commands::COMMANDS)) as u8;
        (code, rng.below(10_000) as u16, rng.below(10_000) as u16)
    }));
    random_commands::run_commands(store, &commands);
    for n in 0..8 {
        let s: &'static str = ["ses_plain_a", "ses_plain_b"][n % 2];
        write(store, move |tx| {
            tx.sessions().put(&session(s))?;
            let m = format!("msg_{s}_{n}");
            tx.messages().put(&user(s, &m, json!(n)))?;
            tx.messages().put_part(&text(
                s,
                &m,
                &format!("prt_{s}_{n}_a"),
                &"short ".repeat(200),
            ))?;
            let len = if n < 2 { 300_000 } else { 3_000 };
            tx.messages().put_part(&text(
                s,
                &m,
                &format!("prt_{s}_{n}_b"),
                &n.to_string().repeat(len),
            ))?;
            let live = json!({"type": "text", "text": "", "time": {"start": 1}});
            tx.messages().put_part(&part(s, &m, &format!("prt_{s}_{n}_c"), live))
        })
        .expect("written");
        let p = support::pid(&format!("prt_{s}_{n}_c"));
        for word in 0..40 {
            let p = p.clone();
            write(store, move |tx| {
                tx.messages().append_text(&sid(s), &p, &format!("{word} w\u{f6}rds "))
            })
            .expect("streamed");
        }
        let mut sealed = store.read(&ctx(), |r| r.messages().get_part(&sid(s), &p)).expect("part");
        if let turnstone_core::model::PartBody::Text(text) = &mut sealed.body {
            text.time = Some(serde_json::from_value(json!({"start": 1, "end": 2})).expect("time"));
        }
        write(store, move |tx| tx.messages().put_part(&sealed)).expect("sealed");
    }
    let (id, secret, url) = ("x".to_owned(), "s3cret".to_owned(), "https://e.org/x".to_owned());
    let share = ShareRecord { id, secret, url };
    write(store, move |tx| tx.shares().put(&sid("ses_plain_a"), &share)).expect("shared");
    write(store, |tx| {
        tx.sessions().create(&session("ses_gone"))?;
        tx.messages().put(&user("ses_gone", "msg_gone", 1))?;
        tx.messages().put_part(&text("ses_gone", "msg_gone", "prt_gone", "deleted on purpose"))
    })
    .expect("written");
}

/// Deletes a session and makes the log short.
fn delete_and_compact(store: &Store) {
    store.delete_session(&ctx(), &sid("ses_gone")).expect("deleted");
    let limits = MaintenanceLimits { grace_ms: 0, ..MaintenanceLimits::default() };
    store
        .maintenance()
        .run_with(&ctx(), MaintenanceBudget::unlimited(), &limits)
        .expect("compacted");
}

fn create_original(seed: u64) -> OriginalStore {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = open(dir.path());
    write(&store, |tx| tx.projects().put(&project("p1"))).expect("project");
    fill(&store, seed);
    delete_and_compact(&store);
    drop(store);
    // Recovery has ended what ran, so that opening a copy changes nothing.
    let store = open(dir.path());
    let ids = ["ses_0", "ses_1", "ses_2", "ses_plain_a", "ses_plain_b"];
    let sessions =
        ids.iter().map(|id| ((*id).to_owned(), load_session_content(&store, id))).collect();
    drop(store);
    OriginalStore { dir, sessions }
}

/// A copy of a data directory.
fn copy_dir(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).expect("made");
    for entry in fs_err::read_dir(from).expect("listed") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("type").is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).expect("copied");
        }
    }
}

/// The content of the database files, by hash; reading leaves an empty log, which says nothing.
fn database_hashes(path: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for name in ["turnstone.db", "turnstone.db-wal"] {
        let bytes = fs_err::read(path.join(name)).unwrap_or_default();
        if !bytes.is_empty() {
            all.insert(name.into(), BlobHash::of(&bytes).hex());
        }
    }
    all
}

fn last_cursor(dir: &Path) -> i64 {
    support::raw(dir)
        .query_row("SELECT coalesce(max(cursor), 0) FROM event", [], |row| row.get(0))
        .expect("read")
}

/// Salvages the damaged store in `dir` and checks that nothing wrong came out of it.
fn check_salvage(original: &OriginalStore, dir: &Path, what: &str) -> Option<SalvageReport> {
    let before = database_hashes(dir);
    let seen = diagnose(&DataLayout::new(dir), NOW);
    let target = tempfile::tempdir().expect("temp dir");
    let salvaged = salvage(&DataLayout::new(dir), target.path(), NOW);
    assert_eq!(database_hashes(dir), before, "{what}: the damaged store was changed");
    let done = match salvaged {
        Ok(done) => done,
        Err(StoreError::Corrupt { .. }) if !seen.is_sound() => return None,
        Err(error) => panic!("{what}: {error}"),
    };
    assert_eq!(database_hashes(&done.kept), before, "{what}: the copy differs");
    assert!(done.remaining.is_empty(), "{what}: {:#?}", done.remaining);
    let end = last_cursor(target.path());
    let store = open(target.path());
    assert_eq!(store.maintenance().verify_projections().expect("verifies"), [], "{what}");
    let names_kept =
        done.tables.iter().all(|t| t.table != "actor" || t.damaged + t.unreadable == 0);
    for id in &done.complete {
        let mut found = load_session_content(&store, id);
        let expected = &original.sessions[id.as_str()];
        if !names_kept {
            found
                .events
                .iter_mut()
                .zip(&expected.events)
                .for_each(|(f, e)| f.actor.clone_from(&e.actor));
        }
        assert!(found == *expected, "{what}: {id} is not complete");
    }
    for id in done.damaged.iter().map(|d| &d.id) {
        // A turn whose end is lost was ended again by opening the store.
        let events = load_session_content(&store, id).events;
        for event in events.iter().filter(|event| !event.is_stub() && event.cursor.0 <= end) {
            let expected = &original.sessions[id.as_str()].events;
            let same = expected.iter().find(|e| e.cursor == event.cursor).expect("an event of it");
            assert_eq!((&event.payload, event.seq), (&same.payload, same.seq), "{what}");
            assert_eq!((&event.delta, event.kind), (&same.delta, same.kind), "{what}");
        }
    }
    let accounted = done.complete.len() + done.damaged.len() + done.lost.len();
    assert!(accounted >= original.sessions.len(), "{what}: {done:?}");
    if seen.is_sound() {
        assert_eq!(done.complete.len(), original.sessions.len(), "{what}: the doctor saw nothing");
    }
    Some(done)
}

/// Opening and reading a damaged store may fail; it may not panic.
fn open_and_read(dir: &Path) {
    let Ok(store) = Store::open(&Options::new(DataLayout::new(dir), NOW)) else {
        return;
    };
    for id in ["ses_0", "ses_plain_a"] {
        drop(store.read(&ctx(), |r| r.messages().list(&sid(id), None, 1000)));
        drop(store.write(&ctx(), move |tx| tx.sessions().put(&session(id))).wait());
    }
    drop(store.maintenance().verify_projections());
}

/// Damages copies of a store many times over.
fn damage_rounds(
    original: &OriginalStore,
    count: u64,
    damage: impl Fn(&mut SeededRng, &mut Vec<u8>) -> String,
) {
    let mut taken = 0;
    for round in 0..count {
        let mut rng = SeededRng::new(round);
        let copy = tempfile::tempdir().expect("temp dir");
        copy_dir(original.dir.path(), copy.path());
        let file = copy.path().join("turnstone.db");
        let mut bytes = fs_err::read(&file).expect("read");
        let what = format!("round {round}: {}", damage(&mut rng, &mut bytes));
        fs_err::write(&file, bytes).expect("written");
        taken += u64::from(check_salvage(original, copy.path(), &what).is_some());
        open_and_read(copy.path());
    }
    assert!(taken * 2 > count, "something is salvaged most of the time: {taken} of {count}");
}

fn random_page(rng: &mut SeededRng, bytes: &[u8]) -> u64 {
    rng.below(bytes.len() as u64 / PAGE)
}

#[test]
fn healthy_store_is_salvaged_completely() {
    let original = create_original(1);
    let seen = diagnose(&DataLayout::new(original.dir.path()), NOW);
    assert_eq!(seen.findings, [], "{:#?}", seen.findings);
    let done = check_salvage(&original, original.dir.path(), "sound").expect("salvaged");
    assert_eq!(done.complete.len(), 5);
    assert!((done.damaged.is_empty(), done.lost.is_empty()) == (true, true), "{done:?}");
    let lost = done.tables.iter().map(|t| t.damaged + t.unreadable).sum::<u64>();
    assert_eq!(lost, 0, "{:?}", done.tables);
    let again = tempfile::tempdir().expect("temp dir");
    let done = salvage(&DataLayout::new(original.dir.path()), again.path(), NOW).expect("salvaged");
    let store = open(&done.data);
    let share = store.read(&ctx(), |r| r.shares().find(&sid("ses_plain_a"))).expect("reads");
    assert_eq!(share.map(|s| s.secret).as_deref(), Some("s3cret"));
}

#[test]
fn flipped_bytes_are_not_salvaged() {
    let original = create_original(2);
    damage_rounds(&original, 60, |rng, bytes| {
        let page = random_page(rng, bytes);
        let flips = rng.in_range(1..=6);
        for _ in 0..flips {
            let at = (page * PAGE + rng.below(PAGE)) as usize;
            bytes[at] ^= rng.in_range(1..=255) as u8;
        }
        format!("{flips} bytes of page {}", page + 1)
    });
}

#[test]
fn lost_pages_are_read_around() {
    let original = create_original(3);
    damage_rounds(&original, 30, |rng, bytes| {
        let page = random_page(rng, bytes);
        let at = (page * PAGE) as usize;
        let garbage = rng.below(2) == 1;
        for byte in &mut bytes[at..at + PAGE as usize] {
            *byte = if garbage { rng.below(256) as u8 } else { 0 };
        }
        format!("page {} is {}", page + 1, if garbage { "garbage" } else { "zero" })
    });
}

#[test]
fn truncated_file_yields_the_rest() {
    let original = create_original(4);
    damage_rounds(&original, 15, |rng, bytes| {
        let len = rng.in_range(bytes.len() as u64 / 3..=bytes.len() as u64 - 1);
        bytes.truncate(len as usize);
        format!("cut at {len}")
    });
}

#[test]
fn garbage_first_page_loses_nothing() {
    let original = create_original(5);
    for (what, len) in [("header", 100), ("first page", PAGE as usize)] {
        let copy = tempfile::tempdir().expect("temp dir");
        copy_dir(original.dir.path(), copy.path());
        let file = copy.path().join("turnstone.db");
        let mut bytes = fs_err::read(&file).expect("read");
        let mut rng = SeededRng::new(len as u64);
        bytes[..len].iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
        fs_err::write(&file, bytes).expect("written");
        let seen = diagnose(&DataLayout::new(copy.path()), NOW);
        assert_eq!(seen.worst(), Some(Severity::Error), "{what}");
        let done = check_salvage(&original, copy.path(), what).expect("salvaged");
        assert_eq!(done.complete.len(), 5, "{what}: {done:?}");
    }
}

#[test]
fn damaged_wal_yields_earlier_state() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = open(dir.path());
    write(&store, |tx| tx.projects().put(&project("p1"))).expect("project");
    fill(&store, 6);
    let events = log(&store);
    for round in 0..12_u64 {
        let mut rng = SeededRng::new(round);
        let copy = tempfile::tempdir().expect("temp dir");
        copy_dir(dir.path(), copy.path());
        let wal = copy.path().join("turnstone.db-wal");
        let mut bytes = fs_err::read(&wal).expect("read");
        assert!(bytes.len() > 100_000, "the log was not moved into the file yet");
        let at = rng.below(bytes.len() as u64) as usize;
        if round % 2 == 0 {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 0x40;
        }
        fs_err::write(&wal, bytes).expect("written");
        // The copied owner file is nobody's.
        let target = tempfile::tempdir().expect("temp dir");
        let done = match salvage(&DataLayout::new(copy.path()), target.path(), NOW) {
            Ok(done) => done,
            Err(StoreError::Corrupt { .. }) => continue,
            Err(error) => panic!("round {round}: {error}"),
        };
        assert!(done.remaining.is_empty(), "round {round}: {:#?}", done.remaining);
        let end = last_cursor(target.path());
        let salvaged = log(&open(target.path()));
        for event in salvaged.iter().filter(|e| !e.is_stub() && e.cursor.0 <= end) {
            let same = events.iter().find(|e| e.cursor == event.cursor).expect("known");
            let shorter = event.delta.is_some() && event.kind == same.kind;
            assert!(event == same || shorter, "round {round}: {event:?} {same:?}");
        }
        open_and_read(copy.path());
    }
}

#[test]
fn salvage_rejects_used_store_full_target_and_missing_source() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = open(dir.path());
    let target = tempfile::tempdir().expect("temp dir");
    let used = salvage(&DataLayout::new(dir.path()), target.path(), NOW);
    assert!(matches!(used, Err(StoreError::InUse { .. })), "{used:?}");
    drop(store);
    fs_err::write(target.path().join("mine"), "x").expect("written");
    let full = salvage(&DataLayout::new(dir.path()), target.path(), NOW);
    assert!(matches!(full, Err(StoreError::Invalid(_))), "{full:?}");
    let none = tempfile::tempdir().expect("temp dir");
    let missing = salvage(&DataLayout::new(none.path()), &none.path().join("new"), NOW);
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
}

#[test]
fn a_foreign_database_is_not_salvaged() {
    let dir = tempfile::tempdir().expect("temp dir");
    support::raw(dir.path())
        .execute_batch("CREATE TABLE event (a); INSERT INTO event VALUES (1), (2)")
        .expect("made");
    let target = tempfile::tempdir().expect("temp dir");
    let done = salvage(&DataLayout::new(dir.path()), target.path(), NOW);
    assert!(matches!(done, Err(StoreError::Corrupt { .. })), "{done:?}");
}
