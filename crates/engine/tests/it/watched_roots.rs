//! The roots that a long-running process watches: begun by use, bounded, released when idle.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use turnstone_core::model::TokenCounts;
use turnstone_core::time::EpochMillis;
use turnstone_engine::{
    Engine, EngineSettings, StepEnd, WatchLimits, WatchPhase, WatchedRootStatus, WatchedRoots,
};
use turnstone_snapshot::{CaptureMode, PinGroup, SnapshotHandle, SnapshotOptions};

use crate::engine_fixture::{EngineFixture, NOW, answer, ctx};

const HOUR: i64 = 3_600_000;

fn watched(engine: &Engine) -> &Arc<WatchedRoots> {
    engine.maintenance().watched_roots()
}

/// Watches a directory and waits for its baseline.
fn watch(engine: &Engine, directory: &Path, now: EpochMillis) {
    watched(engine).ensure_watched(directory, now);
    watched(engine).wait_until_captured();
}

fn list(engine: &Engine) -> Vec<(PathBuf, WatchPhase)> {
    let listed = watched(engine).list().into_iter();
    listed.map(|WatchedRootStatus { root, phase, .. }| (root, phase)).collect()
}

fn later(millis: i64) -> EpochMillis {
    EpochMillis(NOW.0 + millis)
}

/// A process of its own, as far as the store can tell.
fn open_as_other_process(dir: &Path, root: &Path) -> SnapshotHandle {
    let options = SnapshotOptions::default();
    SnapshotHandle::open(&dir.join("data"), None, root, options, NOW).expect("opens")
}

/// An engine with limits, and directories with one file each.
fn with_limits(limits: WatchLimits, names: &[&str]) -> (tempfile::TempDir, Engine, Vec<PathBuf>) {
    let dir = tempfile::tempdir().expect("temp dir");
    let real = fs_err::canonicalize(dir.path()).expect("real");
    let roots: Vec<PathBuf> = names.iter().map(|name| real.join(name)).collect();
    for root in &roots {
        fs_err::create_dir(root).expect("made");
        fs_err::write(root.join("f"), "f").expect("written");
    }
    let settings = EngineSettings { watch: limits, ..EngineSettings::new(&real.join("data")) };
    let engine = Engine::open(settings, NOW).expect("opens");
    (dir, engine, roots)
}

/// R6, R42: the baseline is made while a turn already runs; from then on a step costs what changed.
#[test]
fn baseline_runs_in_background_and_feeds_steps() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    let turn = case.begin(&session);
    let steps = case.engine.turns().steps();
    let begin = |id| steps.begin(&ctx(), &turn, answer(&session, id, "1")).expect("begins");
    assert_eq!(begin("a1").snapshot, None, "no baseline, no capture of the whole root");
    watch(&case.engine, &case.root(), NOW);
    let root = fs_err::canonicalize(case.root()).expect("real");
    assert_eq!(list(&case.engine), [(root, WatchPhase::Watching)]);

    let step = begin("a2");
    case.put("f", Some("two"));
    let end = StepEnd {
        reason: "stop".into(),
        cost: 1.into(),
        tokens: TokenCounts::default(),
        structured: None,
    };
    let done = steps.end(&ctx(), &turn, &step, &end).expect("ends");
    assert!(step.snapshot.is_some() && done.snapshot.is_some() && step.snapshot != done.snapshot);
    let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
    let looked = handle.capture(&PinGroup::new("look"), NOW).expect("captured");
    assert_eq!(looked.mode, CaptureMode::Journal, "not every file was looked at");
    case.end(&turn);
}

/// The first step waits for the baseline that the prompt has started.
#[test]
fn first_step_has_a_snapshot_of_a_small_project() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    case.put("f", Some("one"));
    watched(&case.engine).ensure_watched(&case.root(), NOW);
    let turn = case.begin(&session);
    let step = case.engine.turns().steps().begin(&ctx(), &turn, answer(&session, "a1", "1"));
    // On a machine so busy that the wait ends first, the step goes on without it.
    let step = step.expect("begins");
    watched(&case.engine).wait_until_captured();
    let again = case.engine.turns().steps().begin(&ctx(), &turn, answer(&session, "a2", "1"));
    let again = again.expect("begins").snapshot;
    assert!(again.is_some() && (step.snapshot.is_none() || step.snapshot == again));
    case.end(&turn);
}

#[test]
fn idle_root_is_released_and_watched_again_when_used() {
    let case = EngineFixture::new();
    case.put("f", Some("one"));
    watch(&case.engine, &case.root(), NOW);
    let root = fs_err::canonicalize(case.root()).expect("real");
    // Requests of other processes are use, too.
    let other = open_as_other_process(case.dir.path(), &root);
    assert!(!other.is_owner());
    other.capture(&PinGroup::new("other"), NOW).expect("captured");
    let report = watched(&case.engine).maintain(later(HOUR));
    assert_eq!(report.released, Vec::<PathBuf>::new(), "another process has used it");

    let report = watched(&case.engine).maintain(later(2 * HOUR));
    assert_eq!(report.released, std::slice::from_ref(&root));
    assert_eq!(list(&case.engine), []);
    assert!(other.try_acquire(NOW).expect("free"), "the store has no owner any more");
    drop(other);

    watch(&case.engine, &case.root(), later(2 * HOUR));
    assert_eq!(list(&case.engine), [(root, WatchPhase::Watching)]);
}

#[test]
fn root_with_an_open_tool_call_is_not_released() {
    let case = EngineFixture::new();
    let session = case.session("ses_a", None);
    watch(&case.engine, &case.root(), NOW);
    let turn = case.begin(&session);
    let call = case.engine.tool_calls().open_window(&ctx(), &turn, None).expect("opens");
    assert_eq!(watched(&case.engine).maintain(later(HOUR)).released, Vec::<PathBuf>::new());
    case.put("f", Some("written late"));
    case.engine.tool_calls().close(&ctx(), &turn, &call).expect("closes");
    drop(call);
    case.end(&turn);
    assert_eq!(watched(&case.engine).maintain(later(HOUR)).released.len(), 1);
}

#[test]
fn least_recently_used_root_makes_way_for_a_new_one() {
    let limits = WatchLimits { max_roots: 2, ..WatchLimits::default() };
    let (_dir, engine, roots) = with_limits(limits, &["a", "b", "c"]);
    watch(&engine, &roots[0], NOW);
    watch(&engine, &roots[1], later(1));
    watched(&engine).ensure_watched(&roots[0], later(2));
    watch(&engine, &roots[2], later(3));
    let phases = |which: &[usize]| -> Vec<_> {
        which.iter().map(|nth| (roots[*nth].clone(), WatchPhase::Watching)).collect()
    };
    assert_eq!(list(&engine), phases(&[0, 2]));
    // All in use: the new one is not watched.
    let held: Vec<_> =
        [0, 2].iter().map(|nth| engine.snapshots().open(&roots[*nth], later(4))).collect();
    watch(&engine, &roots[1], later(5));
    assert_eq!(list(&engine), phases(&[0, 2]));
    drop(held);
    watch(&engine, &roots[1], later(HOUR));
    assert_eq!(list(&engine), phases(&[1, 2]));
}

#[test]
fn roots_over_the_memory_limit_are_released() {
    let limits = WatchLimits { max_memory: 1, ..WatchLimits::default() };
    let (_dir, engine, roots) = with_limits(limits, &["a", "b"]);
    watch(&engine, &roots[0], NOW);
    assert_eq!(list(&engine), [(roots[0].clone(), WatchPhase::Watching)], "one may be larger");
    watch(&engine, &roots[1], later(1));
    assert_eq!(list(&engine), [(roots[1].clone(), WatchPhase::Watching)]);
}

#[test]
fn without_roots_nothing_is_watched() {
    let limits = WatchLimits { max_roots: 0, ..WatchLimits::default() };
    let (_dir, engine, roots) = with_limits(limits, &["a"]);
    watch(&engine, &roots[0], NOW);
    assert_eq!(list(&engine), []);
}

/// Another process owned the store; when it ends, this one watches.
#[test]
fn journal_starts_when_the_owner_of_the_store_ends() {
    let (dir, engine, roots) = with_limits(WatchLimits::default(), &["a"]);
    let other = open_as_other_process(dir.path(), &roots[0]);
    assert!(other.is_owner());
    watch(&engine, &roots[0], NOW);
    assert!(!watched(&engine).list()[0].is_owner);
    drop(other);
    let handle = engine.snapshots().open(&roots[0], NOW).expect("opens");
    handle.capture(&PinGroup::new("look"), NOW).expect("captured");
    watched(&engine).ensure_watched(&roots[0], later(1));
    handle.capture(&PinGroup::new("look"), NOW).expect("captured");
    let listed = watched(&engine).list();
    assert_eq!((listed[0].phase, listed[0].is_owner), (WatchPhase::Watching, true));
}
