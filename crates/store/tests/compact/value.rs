//! Values and text nobody needs any more go, and never too early.

use std::path::{Path, PathBuf};

use turnstone_store::{Budget, Upkeep};

use super::history::{Body, Step, World, session_id};
use super::{maintain, maintain_with};

fn tool(p: u8, phase: u8, n: u8, long: u32) -> Step {
    Step::Part { s: 0, m: 0, p, body: Body::Tool { phase, n, long } }
}

fn new_world(dir: &Path) -> World {
    let mut world = World::new(dir);
    assert!(world.run(&Step::Message { s: 0, m: 0, n: 0 }));
    world
}

fn files(world: &World) -> Vec<PathBuf> {
    let folders = fs_err::read_dir(world.store.layout().blobs()).expect("blobs").flatten();
    let inside = folders.filter_map(|folder| fs_err::read_dir(folder.path()).ok());
    inside.flat_map(|folder| folder.flatten().map(|file| file.path())).collect()
}

#[test]
fn a_value_goes_with_the_last_event_that_uses_it() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for step in [tool(2, 1, 0, 300_000), tool(3, 1, 0, 300_000), tool(2, 1, 1, 3000)] {
        assert!(world.run(&step));
    }
    assert_eq!(files(&world).len(), 1);
    maintain(&world, Budget::unlimited());
    assert_eq!(files(&world).len(), 1, "the other call still shows it");
    assert!(world.run(&tool(3, 1, 1, 3000)));
    let done = maintain(&world, Budget::unlimited());
    assert!(done.freed_bytes > 300_000, "{done:?}");
    assert_eq!((done.removed_files, files(&world).len()), (1, 0));
    let sizes = world.store.sizes(&world.ctx(), 5).expect("sizes");
    assert_eq!(sizes.blob_files, 0);
    assert!(sizes.blobs > 3000, "{sizes:?}");
    assert_eq!(sizes.sessions[0].session, session_id(0));
}

#[test]
fn a_file_is_kept_for_readers_that_began_before_it_was_doomed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    world.run(&tool(2, 1, 1, 0));
    let grace = Upkeep { grace_ms: 1000, ..super::at_once() };
    world.now = world.now.plus(1000);
    assert_eq!(maintain_with(&world, Budget::unlimited(), &grace).removed_files, 0);
    assert_eq!(files(&world).len(), 1);
    world.now = world.now.plus(1000);
    assert_eq!(maintain_with(&world, Budget::unlimited(), &grace).removed_files, 1);
    assert_eq!(files(&world).len(), 0);
}

#[test]
fn a_doomed_value_that_is_stored_again_stays() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    world.run(&tool(2, 1, 1, 0));
    let grace = Upkeep { grace_ms: 0, ..super::at_once() };
    // Compaction dooms the file; the budget ends before it is removed.
    maintain_with(&world, Budget::steps(1), &grace);
    assert_eq!(files(&world).len(), 1);
    assert!(world.run(&tool(3, 1, 0, 300_000)));
    maintain_with(&world, Budget::unlimited(), &grace);
    assert_eq!(files(&world).len(), 1);
    assert!(world.reads().iter().any(|read| read.contains("xxxx")));
}

#[test]
fn a_file_that_a_refused_write_left_is_removed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    let part = world.store.read(&world.ctx(), |r| r.list_messages(&session_id(0), None, 9));
    let mut part = part.expect("messages").items[0].parts[0].clone();
    part.id = "prt_other".parse().expect("id");
    let mut body = serde_json::to_value(&part.body).expect("json");
    body["state"]["metadata"]["output"] = "y".repeat(400_000).into();
    part.body = serde_json::from_value(body).expect("body");
    let refused = world.store.write(&world.ctx(), move |tx| {
        tx.put_part(&part)?;
        Err::<(), _>(turnstone_store::StoreError::Invalid("no".to_owned()))
    });
    assert!(refused.wait().is_err());
    assert_eq!(files(&world).len(), 2);
    maintain(&world, Budget::unlimited());
    assert_eq!(files(&world).len(), 1);
}

#[test]
fn streamed_text_goes_when_nothing_refers_to_it() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    let text = |text: &str| {
        let body = Body::Text { text: text.to_owned(), open: true };
        Step::Part { s: 0, m: 0, p: 0, body }
    };
    let delta = Step::Delta { s: 0, m: 0, p: 0, text: "word ".repeat(300), times: 4 };
    world.run(&text(""));
    world.run(&delta);
    world.run(&text("quite another text"));
    let done = maintain(&world, Budget::unlimited());
    assert!(done.freed_bytes > 6000, "{done:?}");
    assert!(world.run(&delta), "the new text may be streamed on");
    assert!(world.reads().iter().any(|read| read.contains("quite another textword word")));
    // A boundary in between keeps it.
    world.run(&Step::Begin { s: 0 });
    world.run(&text("and another one"));
    let done = maintain(&world, Budget::unlimited());
    assert!(done.freed_bytes < 1000, "{done:?}");
}
