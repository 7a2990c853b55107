//! The memory ours needs: the high-water mark of a process of its own, as the kernel says.

use std::path::Path;
use std::process::Command;

use super::generated_tree::GeneratedTree;
use super::own_store::OwnStore;
use crate::{Fallible, measurement};

/// Runs the measurement in a child process; returns its peak in MiB.
pub(crate) fn measure_peak_mib(tree: &GeneratedTree, store: &Path) -> Fallible<u64> {
    let mut child = Command::new(std::env::current_exe()?);
    child.arg("snapshot-memory").arg(&tree.path).arg(store).arg(tree.files.to_string());
    let done = child.output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    Ok(String::from_utf8(done.stdout)?.trim().parse()?)
}

/// The child: a first capture, one of nothing, one of 10,000 files, a difference and a revert.
pub(crate) fn run_child_workload(words: &[String]) -> Fallible {
    let [path, store, files] = words else {
        return Err("wanted: a worktree, a store, a number of files".into());
    };
    let tree = GeneratedTree { path: path.into(), files: files.parse()? };
    let ours = OwnStore::open(Path::new(store), &tree.path)?;
    let before = ours.capture()?.capture;
    ours.capture()?;
    for n in tree.spread_indexes(10_000) {
        tree.write_version(n, 1)?;
    }
    let after = ours.capture()?.capture;
    ours.diff(&before, &after)?;
    let paths: Vec<String> =
        tree.spread_indexes(100).into_iter().map(|n| tree.file_path(n)).collect();
    ours.revert(&ours.revert_targets(&before, &after, &paths)?)?;
    ours.restore(&before)?;
    println!("{}", measurement::peak_mib()?);
    Ok(())
}
