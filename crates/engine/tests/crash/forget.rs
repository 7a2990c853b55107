//! Forgetting, killed at every named point.

use std::path::Path;
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_engine::{UndoOptions, Which};
use turnstone_testkit::crash::die_at_failpoint;
use turnstone_testkit::fixture::TempData;

use crate::space::{Fallible, ctx, open, space};

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

#[test]
fn killed_at_every_named_point_of_a_forget_recovery_goes_on_r20() -> Fallible {
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
        let data = TempData::in_memory()?;
        let kept = space(data.path(), &["secret", SECRET])?.output()?;
        assert!(kept.status.success(), "{}", String::from_utf8_lossy(&kept.stderr));
        let filled = space(data.path(), &["fill", "2"])?.output()?;
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        assert!(!grep(&data.join("data"))?.is_empty());
        let mut program = space(data.path(), &["forget", ".env"])?;
        die_at_failpoint(&mut program, point, LIMIT)
            .map_err(|error| format!("{point}: {error}"))?;

        let engine = open(data.path())?;

        assert_eq!(grep(&data.join("data"))?, [""; 0], "{point}");
        let plan = engine.plan_forget(&ctx(), &data.join("work"), &[".env".to_owned()])?;
        assert!(plan.captured.versions.is_empty() && plan.ledger.events == 0, "{point}: {plan:?}");
        let session: SessionId = "ses_a".parse()?;
        let turns = engine.store().read(&ctx(), |r| r.turns(&session))?;
        let which = Which::Turn(turns[0].id.clone());
        let plan = engine.plan_undo(&ctx(), &session, &which, &UndoOptions::default())?;
        assert_eq!(plan.not_covered[0].2, "forgotten", "{point}");
        let wrong = engine.store().verify_projections(&ctx())?;
        assert!(wrong.is_empty(), "{point}: {wrong:?}");
        let vault = engine.vault(&data.join("work"), ctx().now)?;
        assert!(vault.verify()?.damaged.is_empty(), "{point}");
    }
    Ok(())
}
