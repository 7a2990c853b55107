//! Long streams: what is carried from page to page, merged, and served by number.

use turnstone_core::event::EventKind;
use turnstone_core::time::{LogCursor, SessionSeq};
use turnstone_store::{
    MaintenanceBudget, MaintenanceLimits, SessionAtBoundary, StoreError, SyncBody,
};

use super::history::{HistoryRunner, HistoryStep, PartSpec, session_id};
use super::property::check_numbers;
use super::{maintain, maintain_with, whole_log};

fn text(p: u8, text: &str) -> HistoryStep {
    HistoryStep::Part { s: 0, m: 0, p, body: PartSpec::Text { text: text.to_owned(), open: true } }
}

fn delta(p: u8, times: u8) -> HistoryStep {
    HistoryStep::Delta { s: 0, m: 0, p, text: "tick ".to_owned(), times }
}

fn tool(n: u8) -> HistoryStep {
    HistoryStep::Part { s: 0, m: 0, p: 2, body: PartSpec::Tool { phase: 1, n, long: 0 } }
}

fn new_world(dir: &std::path::Path) -> HistoryRunner {
    let mut world = HistoryRunner::new(dir);
    for step in [HistoryStep::Message { s: 0, m: 0, n: 0 }, text(0, ""), text(1, "")] {
        assert!(world.run(&step), "{step:?}");
    }
    world
}

fn state(world: &HistoryRunner) -> SessionAtBoundary {
    let id = session_id(0);
    let read = world.store.read(&world.ctx(), |r| {
        let session = r.sessions().get(&id)?;
        let messages = r.messages().list(&id, None, 1000)?.items;
        Ok(SessionAtBoundary { session, messages, todos: r.sessions().todos(&id)? })
    });
    read.expect("state")
}

#[test]
fn long_segment_keeps_one_image_per_entity() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    // Two texts and a tool grow side by side, over three pages of events.
    for n in 0..250_u8 {
        for step in [delta(0, 1), delta(1, 2), tool(n), delta(0, 1)] {
            assert!(world.run(&step), "{step:?}");
        }
    }
    assert!(world.run(&HistoryStep::Begin { s: 0 }));
    let (before, reads) = (state(&world), world.reads());

    let done = maintain(&world, MaintenanceBudget::unlimited());

    assert!(done.finished && done.compacted >= 1240, "{done:?}");
    assert_eq!(reads, world.reads());
    check_numbers(&world);
    let log = whole_log(&world);
    let kept = |kind| log.iter().filter(|e| e.kind == kind && !e.is_stub()).count();
    assert_eq!(kept(EventKind::PartDelta), 2, "the last delta of each text");
    assert_eq!(kept(EventKind::PartUpdated), 3, "the first images, and the tool's last");
    let seq = world
        .store
        .read(&world.ctx(), |r| r.history().boundaries(&session_id(0), SessionSeq(0), 1));
    let seq = seq.expect("boundaries")[0].seq;
    let then =
        world.store.read(&world.ctx(), |r| r.history().session_at_boundary(&session_id(0), seq));
    assert_eq!(then.expect("at").messages, before.messages[..1]);
    assert_eq!(maintain(&world, MaintenanceBudget::unlimited()).compacted, 0);
}

#[test]
fn adjacent_deltas_merge_into_one_row() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for _ in 0..10 {
        world.run(&delta(0, 100));
        maintain(&world, MaintenanceBudget::steps(2));
    }
    maintain(&world, MaintenanceBudget::unlimited());
    let log = whole_log(&world);
    let stubs: Vec<i64> = log.iter().filter(|e| e.is_stub()).map(|e| e.span).collect();
    assert_eq!(stubs, [999], "one stub stands for all but the last");
    check_numbers(&world);
    // The image that ends the text contains the last one too.
    world.run(&HistoryStep::Part { s: 0, m: 0, p: 0, body: PartSpec::Seal { cut: 1 } });
    maintain(&world, MaintenanceBudget::unlimited());
    let log = whole_log(&world);
    let spans: Vec<i64> = log.iter().filter(|e| e.is_stub()).map(|e| e.span).collect();
    assert_eq!(spans, [1, 1000], "the first image, and all deltas");
    check_numbers(&world);
}

#[test]
fn recent_events_are_not_compacted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&HistoryStep::Todos { s: 0, n: 1 });
    world.run(&HistoryStep::Todos { s: 0, n: 2 });
    let grace = MaintenanceLimits { grace_ms: 60_000, ..super::immediate_limits() };
    assert_eq!(maintain_with(&world, MaintenanceBudget::unlimited(), &grace).compacted, 0);
    world.now = world.now.plus(60_000);
    assert_eq!(maintain_with(&world, MaintenanceBudget::unlimited(), &grace).compacted, 1);
}

#[test]
fn compacted_range_sets_resync() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&delta(0, 3));
    let page = |world: &HistoryRunner, after| {
        world.store.read(&world.ctx(), |r| r.log().after(after, 1000)).expect("log")
    };
    let end = page(&world, LogCursor(0)).next;
    assert!(!page(&world, LogCursor(0)).resync);
    maintain(&world, MaintenanceBudget::unlimited());
    assert!(page(&world, LogCursor(0)).resync);
    world.run(&delta(0, 1));
    assert!(!page(&world, end).resync, "what came after is whole");
}

#[test]
fn truncated_text_cannot_be_appended_to() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&delta(0, 3));
    world.run(&HistoryStep::Begin { s: 0 });
    world.run(&HistoryStep::Move { s: 0, event: 0 });
    let before = state(&world);
    assert!(world.run(&HistoryStep::Part { s: 0, m: 0, p: 0, body: PartSpec::Seal { cut: 2 } }));
    assert!(!world.run(&delta(0, 1)), "an earlier event refers to the text by its length");
    maintain(&world, MaintenanceBudget::unlimited());
    let id = session_id(0);
    let then = world.store.read(&world.ctx(), |r| {
        let seq = r.history().boundaries(&id, SessionSeq(0), 10)?[1].seq;
        r.history().session_at_boundary(&id, seq)
    });
    assert_eq!(then.expect("at the start of the turn"), before);
}

#[test]
fn sync_pages_have_no_gap() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for n in 0..60 {
        world.run(&tool(n));
    }
    world.run(&HistoryStep::RemovePart { s: 0, m: 0, p: 2 });
    maintain(&world, MaintenanceBudget::unlimited());
    let id = session_id(0);
    let (mut after, mut kinds) = (-1, Vec::new());
    loop {
        let page = world.store.read(&world.ctx(), |r| r.sync().after(&id, after, 7)).expect("page");
        let Some(last) = page.last() else { break };
        assert_eq!(page[0].sync_seq, after + 1);
        after = last.sync_seq;
        kinds.extend(page.iter().map(|event| (event.kind, event.compacted)));
    }
    let removed = |compacted: bool| {
        kinds.iter().filter(|kind| **kind == (EventKind::PartRemoved, compacted)).count()
    };
    assert_eq!((removed(true), removed(false)), (60, 1));
    let first = world.store.read(&world.ctx(), |r| r.sync().after(&id, -1, 1)).expect("page");
    assert!(matches!(first[0].body, SyncBody::Session(_)));
    let none =
        world.store.read(&world.ctx(), |r| r.sync().after(&"ses_none".parse().expect("id"), -1, 1));
    assert!(matches!(none, Err(StoreError::NoSession(_))));
}
