//! What a step adds to the snapshot store: at most 100 KB for a usual edit.

use turnstone_core::model::TokenCounts;
use turnstone_core::time::EpochMillis;
use turnstone_engine::{MaintenanceInterval, StepEnd};

use crate::engine_fixture::{EngineFixture, NOW, answer, ctx};

const STEPS: u64 = 20;
const MAX_BYTES_PER_STEP: u64 = 100_000;

/// A text of about 20 KB that compresses about as well as source code does.
fn source_text(version: u64) -> String {
    let line = |number: u64| {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        let changed = if number == 7 { version } else { 0 };
        format!("    let value_{number} = compute({mixed:x}, {changed});\n")
    };
    (0..400).map(line).collect()
}

/// Proves R42.
#[test]
fn captures_of_a_step_take_at_most_100_kilobytes() {
    let case = EngineFixture::new();
    for number in 0..100 {
        case.put(&format!("file{number}"), Some(&source_text(number)));
    }
    let session = case.session("ses_a", None);
    let turn = case.begin(&session);
    // A window makes the baseline, so that each step is captured at its start and at its end.
    case.shell(&turn, || {});
    let handle = case.engine.snapshots().open(&case.root(), NOW).expect("opens");
    let bytes = || handle.reader().usage().expect("reads").bytes;
    let before = bytes();
    for number in 0..STEPS {
        let said = answer(&session, &format!("a{number}"), "1");
        let step = case.engine.turns().steps().begin(&ctx(), &turn, said).expect("begins");
        assert!(step.snapshot.is_some(), "the step is captured");
        case.edit(&turn, "file7", Some(&source_text(1000 + number)));
        let end = StepEnd {
            reason: "stop".into(),
            cost: 1.into(),
            tokens: TokenCounts::default(),
            structured: None,
        };
        case.engine.turns().steps().end(&ctx(), &turn, &step, &end).expect("ends");
    }
    case.end(&turn);
    let per_step = (bytes() - before) / STEPS;
    assert!(per_step <= MAX_BYTES_PER_STEP, "{per_step} bytes before maintenance");

    let mut later = ctx();
    later.now = EpochMillis(NOW.0 + 24 * 3_600_000);
    case.engine.maintenance().run(&later, MaintenanceInterval::Hourly).expect("maintained");

    let maintained = bytes().saturating_sub(before) / STEPS;
    assert!(maintained <= per_step, "{maintained} bytes after maintenance, {per_step} before");
}
