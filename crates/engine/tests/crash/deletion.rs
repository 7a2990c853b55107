//! Deletion, killed at every named point between its acknowledgement and its end.

use std::time::Duration;

use turnstone_testkit::crash::run_until_failpoint;
use turnstone_testkit::fixture::TempDataDir;
use turnstone_testkit::marker_scan::find_marker;

use crate::eviction::{Fallible, ctx, open, space_command};

const LIMIT: Duration = Duration::from_secs(300);
/// Begins with letters that no other word begins with: the search index stores a word without what it shares with
/// the one before it.
const MARKER: &str = "xqdeleted7f3a91marker";

/// Proves R23.
#[test]
fn deletion_killed_at_any_failpoint_is_finished_by_the_next_process() -> Fallible {
    let points = [
        "engine::deletion_acknowledged=panic",
        "snapshot::guard_expired=panic",
        "snapshot::repacked=panic",
        "engine::erased_captures=panic",
        "store::purge_step=3*off->panic",
        "engine::erased_rows=panic",
        "engine::erased_outputs=panic",
        "store::erased_words=panic",
        "store::erased_files=panic",
        "store::rewritten=panic",
    ];
    for point in points {
        let data = TempDataDir::in_memory()?;
        for args in [&["secret", MARKER][..], &["fill", "2"]] {
            let filled = space_command(data.path(), args)?.output()?;
            assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        }
        assert!(!find_marker(&data.join("data"), MARKER)?.is_empty());
        let mut program = space_command(data.path(), &["delete"])?;
        let outcome = run_until_failpoint(&mut program, point, LIMIT)
            .map_err(|error| format!("{point}: {error}"))?;
        assert_eq!(outcome.acknowledged, ["deleted"], "{point}");

        let engine = open(data.path())?;
        assert_eq!(
            engine.maintenance().session_eraser().pending_deletions(&ctx())?.len(),
            1,
            "{point}"
        );
        engine.maintenance().session_eraser().finish_deletions(&ctx())?;

        assert_eq!(find_marker(&data.join("data"), MARKER)?, [""; 0], "{point}");
        assert_eq!(engine.maintenance().session_eraser().pending_deletions(&ctx())?, [], "{point}");
        let wrong = engine.store().maintenance().verify_projections()?;
        assert!(wrong.is_empty(), "{point}: {wrong:?}");
        let handle = engine.snapshots().open(&data.join("work"), ctx().now)?;
        assert!(handle.reader().verify_objects()?.damaged.is_empty(), "{point}");
    }
    Ok(())
}

/// Proves R23.
#[test]
fn interrupted_store_removal_is_finished_with_the_deletion() -> Fallible {
    let data = TempDataDir::in_memory()?;
    let filled = space_command(data.path(), &["secret", MARKER])?.output()?;
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    // The store of a directory that is gone is removed whole.
    fs_err::remove_dir_all(data.join("work"))?;
    let mut program = space_command(data.path(), &["delete"])?;
    run_until_failpoint(&mut program, "snapshot::store_renamed=panic", LIMIT)?;
    assert!(!find_marker(&data.join("data/store"), MARKER)?.is_empty());

    let engine = open(data.path())?;
    engine.maintenance().session_eraser().finish_deletions(&ctx())?;

    assert_eq!(find_marker(&data.join("data"), MARKER)?, [""; 0]);
    assert_eq!(engine.maintenance().session_eraser().pending_deletions(&ctx())?, []);
    Ok(())
}
