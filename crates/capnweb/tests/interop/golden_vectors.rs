//! The golden vectors are still what the npm package writes.

use std::path::Path;

use fs_err as fs;

use crate::npm_package::{TestResult, generate_vectors};

#[test]
fn golden_vectors_match_current_npm() -> TestResult {
    let written = generate_vectors()?;
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    for name in ["values.txt", "value-validity.txt"] {
        let today = fs::read_to_string(written.join(name))?;
        assert!(today == fs::read_to_string(kept.join(name))?, "{name} has changed");
    }
    // The order of a session's messages depends on timing, their number does not.
    let count = |dir: &Path| {
        Ok::<_, std::io::Error>(fs::read_to_string(dir.join("messages.txt"))?.lines().count())
    };
    assert_eq!(count(&written)?, count(&kept)?);
    Ok(())
}
