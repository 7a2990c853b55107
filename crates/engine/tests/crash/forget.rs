//! Forgetting, killed at every named point.

use std::path::Path;
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_engine::{UndoOptions, UndoTarget};
use turnstone_testkit::crash::run_until_failpoint;
use turnstone_testkit::fixture::TempDataDir;

use crate::eviction::{Fallible, ctx, open, space_command};

const LIMIT: Duration = Duration::from_secs(300);
const SECRET: &str = "API_KEY=hunter2-is-no-password";

/// Files below a folder that hold the secret.
fn grep(folder: &Path) -> Fallible<Vec<String>> {
    let (mut todo, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = todo.pop() {
        for entry in fs_err::read_dir(folder)? {
            let (path, kind) = (entry.as_ref().map(|it| it.path()), entry.as_ref());
            let (Ok(path), Ok(kind)) = (path, kind) else { continue };
            match kind.file_type()? {
                kind if kind.is_dir() => todo.push(path),
                kind if kind.is_file() => {
                    let bytes = fs_err::read(&path)?;
                    if bytes.windows(SECRET.len()).any(|some| some == SECRET.as_bytes()) {
                        found.push(path.to_string_lossy().into_owned());
                    }
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// Proves R20.
#[test]
fn forget_killed_at_any_failpoint_is_resumed() -> Fallible {
    let points = [
        "engine::forget_written=panic",
        // Once it is only counted, for the plan.
        "store::redacted_values=1*off->panic",
        "store::redacted_events=1*off->panic",
        "engine::forget_redacted=panic",
        "snapshot::forget_packed=panic",
        "snapshot::forgotten=panic",
        "snapshot::repacked=panic",
    ];
    for point in points {
        let data = TempDataDir::in_memory()?;
        let kept = space_command(data.path(), &["secret", SECRET])?.output()?;
        assert!(kept.status.success(), "{}", String::from_utf8_lossy(&kept.stderr));
        let filled = space_command(data.path(), &["fill", "2"])?.output()?;
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        assert!(!grep(&data.join("data"))?.is_empty());
        let mut program = space_command(data.path(), &["forget", ".env"])?;
        run_until_failpoint(&mut program, point, LIMIT)
            .map_err(|error| format!("{point}: {error}"))?;

        let engine = open(data.path())?;

        assert_eq!(grep(&data.join("data"))?, [""; 0], "{point}");
        let plan = engine.maintenance().path_eraser().plan(
            &ctx(),
            &data.join("work"),
            &[".env".to_owned()],
        )?;
        assert!(plan.captured.versions.is_empty() && plan.ledger.events == 0, "{point}: {plan:?}");
        let session: SessionId = "ses_a".parse()?;
        let turns = engine.store().read(&ctx(), |r| r.turns().list(&session))?;
        let which = UndoTarget::Turn(turns[0].id.clone());
        let plan = engine.history().plan_undo(&ctx(), &session, &which, &UndoOptions::default())?;
        assert_eq!(plan.not_covered[0].2, "forgotten", "{point}");
        let wrong = engine.store().maintenance().verify_projections()?;
        assert!(wrong.is_empty(), "{point}: {wrong:?}");
        let handle = engine.snapshots().open(&data.join("work"), ctx().now)?;
        assert!(handle.reader().verify_objects()?.damaged.is_empty(), "{point}");
    }
    Ok(())
}
