//! Long streams: what is carried from page to page, merged, and served by number.

use turnstone_core::event::EventKind;
use turnstone_core::time::{Cursor, Seq};
use turnstone_store::{Budget, SessionAt, StoreError, SyncBody, Upkeep};

use super::history::{Body, Step, World, session_id};
use super::property::check_numbers;
use super::{maintain, maintain_with, whole_log};

fn text(p: u8, text: &str) -> Step {
    Step::Part { s: 0, m: 0, p, body: Body::Text { text: text.to_owned(), open: true } }
}

fn delta(p: u8, times: u8) -> Step {
    Step::Delta { s: 0, m: 0, p, text: "tick ".to_owned(), times }
}

fn tool(n: u8) -> Step {
    Step::Part { s: 0, m: 0, p: 2, body: Body::Tool { phase: 1, n, long: 0 } }
}

fn new_world(dir: &std::path::Path) -> World {
    let mut world = World::new(dir);
    for step in [Step::Message { s: 0, m: 0, n: 0 }, text(0, ""), text(1, "")] {
        assert!(world.run(&step), "{step:?}");
    }
    world
}

fn state(world: &World) -> SessionAt {
    let id = session_id(0);
    let read = world.store.read(&world.ctx(), |r| {
        let session = r.get_session(&id)?;
        let messages = r.list_messages(&id, None, 1000)?.items;
        Ok(SessionAt { session, messages, todos: r.todos(&id)? })
    });
    read.expect("state")
}

#[test]
fn a_segment_longer_than_a_page_leaves_one_image_of_each_thing() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    // Two texts and a tool grow side by side, over three pages of events.
    for n in 0..250_u8 {
        for step in [delta(0, 1), delta(1, 2), tool(n), delta(0, 1)] {
            assert!(world.run(&step), "{step:?}");
        }
    }
    assert!(world.run(&Step::Begin { s: 0 }));
    let (before, reads) = (state(&world), world.reads());

    let done = maintain(&world, Budget::unlimited());

    assert!(done.finished && done.compacted >= 1240, "{done:?}");
    assert_eq!(reads, world.reads());
    check_numbers(&world);
    let log = whole_log(&world);
    let kept = |kind| log.iter().filter(|e| e.kind == kind && !e.is_stub()).count();
    assert_eq!(kept(EventKind::PartDelta), 2, "the last delta of each text");
    assert_eq!(kept(EventKind::PartUpdated), 3, "the first images, and the tool's last");
    let seq = world.store.read(&world.ctx(), |r| r.boundaries(&session_id(0), Seq(0), 1));
    let seq = seq.expect("boundaries")[0].seq;
    let then = world.store.read(&world.ctx(), |r| r.session_at(&session_id(0), seq));
    assert_eq!(then.expect("at").messages, before.messages[..1]);
    assert_eq!(maintain(&world, Budget::unlimited()).compacted, 0);
}

#[test]
fn deltas_that_follow_one_another_become_one_row() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for _ in 0..10 {
        world.run(&delta(0, 100));
        maintain(&world, Budget::steps(2));
    }
    maintain(&world, Budget::unlimited());
    let log = whole_log(&world);
    let stubs: Vec<i64> = log.iter().filter(|e| e.is_stub()).map(|e| e.span).collect();
    assert_eq!(stubs, [999], "one stub stands for all but the last");
    check_numbers(&world);
    // The image that ends the text contains the last one too.
    world.run(&Step::Part { s: 0, m: 0, p: 0, body: Body::Seal { cut: 1 } });
    maintain(&world, Budget::unlimited());
    let log = whole_log(&world);
    let spans: Vec<i64> = log.iter().filter(|e| e.is_stub()).map(|e| e.span).collect();
    assert_eq!(spans, [1, 1000], "the first image, and all deltas");
    check_numbers(&world);
}

#[test]
fn what_just_happened_stays_whole() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&Step::Todos { s: 0, n: 1 });
    world.run(&Step::Todos { s: 0, n: 2 });
    let grace = Upkeep { grace_ms: 60_000, ..super::at_once() };
    assert_eq!(maintain_with(&world, Budget::unlimited(), &grace).compacted, 0);
    world.now = world.now.plus(60_000);
    assert_eq!(maintain_with(&world, Budget::unlimited(), &grace).compacted, 1);
}

#[test]
fn a_reader_of_a_compacted_range_is_told_to_read_anew() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&delta(0, 3));
    let page = |world: &World, after| {
        world.store.read(&world.ctx(), |r| r.log_after(after, 1000)).expect("log")
    };
    let end = page(&world, Cursor(0)).next;
    assert!(!page(&world, Cursor(0)).resync);
    maintain(&world, Budget::unlimited());
    assert!(page(&world, Cursor(0)).resync);
    world.run(&delta(0, 1));
    assert!(!page(&world, end).resync, "what came after is whole");
}

#[test]
fn text_that_was_cut_back_is_not_streamed_over() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&delta(0, 3));
    world.run(&Step::Begin { s: 0 });
    world.run(&Step::Move { s: 0, event: 0 });
    let before = state(&world);
    assert!(world.run(&Step::Part { s: 0, m: 0, p: 0, body: Body::Seal { cut: 2 } }));
    assert!(!world.run(&delta(0, 1)), "an earlier event refers to the text by its length");
    maintain(&world, Budget::unlimited());
    let id = session_id(0);
    let then = world.store.read(&world.ctx(), |r| {
        let seq = r.boundaries(&id, Seq(0), 10)?[1].seq;
        r.session_at(&id, seq)
    });
    assert_eq!(then.expect("at the start of the turn"), before);
}

#[test]
fn numbered_events_come_in_pages_without_a_gap() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for n in 0..60 {
        world.run(&tool(n));
    }
    world.run(&Step::RemovePart { s: 0, m: 0, p: 2 });
    maintain(&world, Budget::unlimited());
    let id = session_id(0);
    let (mut after, mut kinds) = (-1, Vec::new());
    loop {
        let page = world.store.read(&world.ctx(), |r| r.sync_after(&id, after, 7)).expect("page");
        let Some(last) = page.last() else { break };
        assert_eq!(page[0].sync_seq, after + 1);
        after = last.sync_seq;
        kinds.extend(page.iter().map(|event| (event.kind, event.compacted)));
    }
    let removed = |compacted: bool| {
        kinds.iter().filter(|kind| **kind == (EventKind::PartRemoved, compacted)).count()
    };
    assert_eq!((removed(true), removed(false)), (60, 1));
    let first = world.store.read(&world.ctx(), |r| r.sync_after(&id, -1, 1)).expect("page");
    assert!(matches!(first[0].body, SyncBody::Session(_)));
    let none =
        world.store.read(&world.ctx(), |r| r.sync_after(&"ses_none".parse().expect("id"), -1, 1));
    assert!(matches!(none, Err(StoreError::NoSession(_))));
}
