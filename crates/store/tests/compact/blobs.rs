//! Values and text nobody needs any more go, and never too early.

use std::path::{Path, PathBuf};

use turnstone_store::{MaintenanceBudget, MaintenanceLimits};

use super::history::{HistoryRunner, HistoryStep, PartSpec, session_id};
use super::{maintain, maintain_with};

fn tool(p: u8, phase: u8, n: u8, long: u32) -> HistoryStep {
    HistoryStep::Part { s: 0, m: 0, p, body: PartSpec::Tool { phase, n, long } }
}

fn new_world(dir: &Path) -> HistoryRunner {
    let mut world = HistoryRunner::new(dir);
    assert!(world.run(&HistoryStep::Message { s: 0, m: 0, n: 0 }));
    world
}

fn files(world: &HistoryRunner) -> Vec<PathBuf> {
    let folders = fs_err::read_dir(world.store.layout().blobs()).expect("blobs").flatten();
    let inside = folders.filter_map(|folder| fs_err::read_dir(folder.path()).ok());
    inside.flat_map(|folder| folder.flatten().map(|file| file.path())).collect()
}

#[test]
fn blob_is_removed_with_its_last_reference() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    for step in [tool(2, 1, 0, 300_000), tool(3, 1, 0, 300_000), tool(2, 1, 1, 3000)] {
        assert!(world.run(&step));
    }
    assert_eq!(files(&world).len(), 1);
    maintain(&world, MaintenanceBudget::unlimited());
    assert_eq!(files(&world).len(), 1, "the other call still shows it");
    assert!(world.run(&tool(3, 1, 1, 3000)));
    let done = maintain(&world, MaintenanceBudget::unlimited());
    assert!(done.freed_bytes > 300_000, "{done:?}");
    assert_eq!((done.removed_files, files(&world).len()), (1, 0));
    let sizes = world.store.maintenance().measure_sizes(&world.ctx(), 5).expect("sizes");
    assert_eq!(sizes.blob_files, 0);
    assert!(sizes.blobs > 3000, "{sizes:?}");
    assert_eq!(sizes.sessions[0].session, session_id(0));
}

#[test]
fn blob_file_survives_for_earlier_readers() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    world.run(&tool(2, 1, 1, 0));
    let grace = MaintenanceLimits { grace_ms: 1000, ..super::immediate_limits() };
    world.now = world.now.plus(1000);
    assert_eq!(maintain_with(&world, MaintenanceBudget::unlimited(), &grace).removed_files, 0);
    assert_eq!(files(&world).len(), 1);
    world.now = world.now.plus(1000);
    assert_eq!(maintain_with(&world, MaintenanceBudget::unlimited(), &grace).removed_files, 1);
    assert_eq!(files(&world).len(), 0);
}

#[test]
fn doomed_blob_stored_again_is_kept() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    world.run(&tool(2, 1, 1, 0));
    let grace = MaintenanceLimits { grace_ms: 0, ..super::immediate_limits() };
    // Compaction dooms the file; the budget ends before it is removed.
    maintain_with(&world, MaintenanceBudget::steps(1), &grace);
    assert_eq!(files(&world).len(), 1);
    assert!(world.run(&tool(3, 1, 0, 300_000)));
    maintain_with(&world, MaintenanceBudget::unlimited(), &grace);
    assert_eq!(files(&world).len(), 1);
    assert!(world.reads().iter().any(|read| read.contains("xxxx")));
}

#[test]
fn blob_file_of_rolled_back_write_is_removed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    world.run(&tool(2, 1, 0, 300_000));
    let part = world.store.read(&world.ctx(), |r| r.messages().list(&session_id(0), None, 9));
    let mut part = part.expect("messages").items[0].parts[0].clone();
    part.id = "prt_other".parse().expect("id");
    let mut body = serde_json::to_value(&part.body).expect("json");
    body["state"]["metadata"]["output"] = "y".repeat(400_000).into();
    part.body = serde_json::from_value(body).expect("body");
    let refused = world.store.write(&world.ctx(), move |tx| {
        tx.messages().put_part(&part)?;
        Err::<(), _>(turnstone_store::StoreError::Invalid("no".to_owned()))
    });
    assert!(refused.wait().is_err());
    assert_eq!(files(&world).len(), 2);
    maintain(&world, MaintenanceBudget::unlimited());
    assert_eq!(files(&world).len(), 1);
}

#[test]
fn unreferenced_streamed_text_is_removed() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = new_world(dir.path());
    let text = |text: &str| {
        let body = PartSpec::Text { text: text.to_owned(), open: true };
        HistoryStep::Part { s: 0, m: 0, p: 0, body }
    };
    let delta = HistoryStep::Delta { s: 0, m: 0, p: 0, text: "word ".repeat(300), times: 4 };
    world.run(&text(""));
    world.run(&delta);
    world.run(&text("quite another text"));
    let done = maintain(&world, MaintenanceBudget::unlimited());
    assert!(done.freed_bytes > 6000, "{done:?}");
    assert!(world.run(&delta), "the new text may be streamed on");
    assert!(world.reads().iter().any(|read| read.contains("quite another textword word")));
    // A boundary in between keeps it.
    world.run(&HistoryStep::Begin { s: 0 });
    world.run(&text("and another one"));
    let done = maintain(&world, MaintenanceBudget::unlimited());
    assert!(done.freed_bytes < 1000, "{done:?}");
}
