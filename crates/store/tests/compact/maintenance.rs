//! Maintenance of the files: free pages are returned, the write-ahead log is truncated, readers are not waited for.

use turnstone_core::id::SessionId;
use turnstone_core::model::Todo;
use turnstone_store::{DatabaseMaintenanceReport, MaintenanceBudget};

use super::history::{HistoryRunner, HistoryStep, PartSpec, session_id};
use super::maintain;

const LIMIT: u64 = 8 * 1024 * 1024;

/// Writes about `megabytes` of to-do lists, each of which replaces the one before.
fn fill(world: &HistoryRunner, megabytes: usize) {
    for n in 0..megabytes {
        // Short lines, so that they stay in the payload.
        let lines = (0..1000).map(|line| {
            let content = format!("{n:>6} {line:>6} {}", "x".repeat(1000));
            let value = serde_json::json!({
                "content": content, "status": "pending", "priority": "low"
            });
            serde_json::from_value::<Todo>(value).expect("todo")
        });
        let (id, todos): (SessionId, Vec<Todo>) = (session_id(0), lines.collect());
        world
            .store
            .write(&world.ctx(), move |tx| tx.sessions().set_todos(&id, &todos))
            .wait()
            .expect("filled");
    }
}

fn len(path: std::path::PathBuf) -> u64 {
    fs_err::metadata(path).map_or(0, |m| m.len())
}

#[test]
fn vacuum_returns_free_pages() {
    let dir = tempfile::tempdir().expect("temp dir");
    let world = HistoryRunner::new(dir.path());
    fill(&world, 6);
    let reads = world.reads();
    let done = maintain(&world, MaintenanceBudget::unlimited());
    assert!(done.finished && done.vacuumed_pages > 1200, "{done:?}");
    assert!(done.freed_bytes > 5_000_000, "{done:?}");
    let layout = world.store.layout();
    assert!(len(layout.database()) < 2_000_000, "{}", len(layout.database()));
    assert_eq!((done.wal_bytes, len(layout.wal())), (0, 0));
    assert_eq!(reads, world.reads());
    let sizes = world.store.maintenance().measure_sizes(&world.ctx(), 1).expect("sizes");
    assert_eq!(sizes.free, 0);
}

#[test]
fn maintenance_stops_at_budget_and_resumes() {
    let dir = tempfile::tempdir().expect("temp dir");
    let world = HistoryRunner::new(dir.path());
    fill(&world, 3);
    assert_eq!(
        maintain(&world, MaintenanceBudget::steps(0)),
        DatabaseMaintenanceReport {
            wal_bytes: len(world.store.layout().wal()),
            ..DatabaseMaintenanceReport::default()
        }
    );
    assert!(!maintain(&world, MaintenanceBudget::steps(3)).finished);
    let mut rounds = 0;
    while !maintain(&world, MaintenanceBudget::steps(1)).finished {
        rounds += 1;
        assert!(rounds < 100, "it never ends");
    }
    assert_eq!(maintain(&world, MaintenanceBudget::unlimited()).compacted, 0);
}

#[test]
fn wal_is_truncated_once_readers_finish() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    let wal = world.store.layout().wal();
    let held = world.store.read(&world.ctx(), |r| {
        r.log().last_cursor()?;
        fill(&world, 12);
        // A reader blocks the checkpoint: maintenance does not wait for it.
        maintain(&world, MaintenanceBudget::unlimited());
        Ok(len(wal.clone()))
    });
    assert!(held.expect("read") > LIMIT, "the reader holds the log");
    world.run(&HistoryStep::Message { s: 0, m: 0, n: 0 });
    for n in 0..40 {
        world.run(&HistoryStep::Part {
            s: 0,
            m: 0,
            p: 2,
            body: PartSpec::Tool { phase: 1, n, long: 0 },
        });
    }
    assert!(len(wal.clone()) <= LIMIT, "{}", len(wal));
}

#[test]
fn stubs_are_much_smaller_than_events() {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut world = HistoryRunner::new(dir.path());
    world.run(&HistoryStep::Message { s: 0, m: 0, n: 0 });
    for n in 0..250 {
        world.run(&HistoryStep::Part {
            s: 0,
            m: 0,
            p: 2,
            body: PartSpec::Tool { phase: 1, n, long: 1500 },
        });
    }
    let log = |world: &HistoryRunner| {
        world.store.maintenance().measure_sizes(&world.ctx(), 1).expect("sizes").log
    };
    let before = log(&world);
    maintain(&world, MaintenanceBudget::unlimited());
    let after = log(&world);
    assert!(before > 400_000 && after < 50_000, "{before} bytes became {after}");
}
