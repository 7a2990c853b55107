//! A capture that walks the worktree, against `git add --all` and `git write-tree` in the same checkout.
//!
//! Nobody watches the worktree, so both sides have to look at every file. The checkouts differ in where git keeps
//! their objects and in whether it may convert line ends.

use std::path::Path;
use std::time::Duration;

use super::benchmark_case::{BenchmarkCase, measure_millis};
use super::generated_tree::GeneratedTree;
use super::git_process::run_git;
use super::operation_timings::{OperationTimings, PerformanceGoal};
use super::own_store::OwnStore;
use super::run::{machine_load, require_valid_setup};
use crate::Fallible;
use crate::turn_benchmark::parse_number;

/// How a checkout was made.
#[derive(Clone, Copy)]
enum CheckoutKind {
    /// Committed and packed.
    Packed,
    /// `git clone --shared`: the objects belong to another repository.
    SharedClone,
    /// With `* text=auto` in its attributes.
    TextAuto,
}

impl CheckoutKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Packed => "committed",
            Self::SharedClone => "`clone --shared`",
            Self::TextAuto => "`* text=auto`",
        }
    }

    fn create(self, dir: &Path, files: usize) -> Fallible<GeneratedTree> {
        let tree = GeneratedTree::generate(&dir.join("tree"), files)?;
        if matches!(self, Self::TextAuto) {
            fs_err::write(tree.path.join(".gitattributes"), "* text=auto\n")?;
        }
        tree.init()?;
        tree.commit()?;
        if !matches!(self, Self::SharedClone) {
            return Ok(tree);
        }
        let path = dir.join("clone");
        run_git(dir, &["clone", "-q", "--shared", "tree", "clone"])?;
        Ok(GeneratedTree { path, files })
    }
}

/// Measures every size and kind of checkout and prints a table.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let sizes = match (parse_number(words, "--files")?, quick) {
        (Some(files), _) => vec![files.max(200)],
        (None, true) => vec![10_000],
        (None, false) => vec![10_000, 100_000],
    };
    let temp = tempfile::tempdir()?;
    require_valid_setup(temp.path())?;
    println!("load of the machine at the start: {}", machine_load()?);
    println!("| files | checkout | operation | ours ms | git ms | git / ours | goal | reached |");
    println!("|---|---|---|---|---|---|---|---|");
    for files in sizes {
        for kind in [CheckoutKind::Packed, CheckoutKind::SharedClone, CheckoutKind::TextAuto] {
            let dir = temp.path().join("case");
            fs_err::create_dir(&dir)?;
            let rounds = if quick { 5 } else { 9 };
            let limit = Duration::from_secs(600);
            let case = BenchmarkCase { files, rounds, limit, dir };
            for row in measure_checkout(&case, kind)? {
                print_row(files, kind, &row);
            }
            fs_err::remove_dir_all(&case.dir)?;
        }
    }
    println!("load at the end: {}", machine_load()?);
    Ok(())
}

fn measure_checkout(case: &BenchmarkCase, kind: CheckoutKind) -> Fallible<[OperationTimings; 2]> {
    let tree = kind.create(&case.dir, case.files)?;
    case.wait_until_not_racy();
    let store = OwnStore::open(&case.dir.join("store"), &tree.path)?;
    let capture = || store.capture().map(drop);
    let git = || {
        run_git(&tree.path, &["add", "--all"])?;
        run_git(&tree.path, &["write-tree"])
    };
    capture()?;
    git()?;
    case.wait_until_not_racy();
    let goal = PerformanceGoal::MaxSlowdown(1.0);
    let mut unchanged = OperationTimings::new("nothing changed", goal);
    let mut changed = OperationTimings::new("one file changed", goal);
    for round in 0..case.rounds {
        measure_round(&mut unchanged, round, &capture, &git)?;
    }
    for round in 0..case.rounds {
        tree.write_version(round % tree.files, 100 + round)?;
        case.wait_until_not_racy();
        measure_round(&mut changed, round, &capture, &git)?;
    }
    Ok([unchanged, changed])
}

/// Measures both sides once; who begins changes with the round.
fn measure_round(
    row: &mut OperationTimings,
    round: usize,
    capture: &dyn Fn() -> Fallible,
    git: &dyn Fn() -> Fallible,
) -> Fallible {
    for turn in 0..2 {
        match (turn + round) % 2 {
            0 => row.ours.push(measure_millis(capture)?.0),
            _ => row.peer.push(measure_millis(git)?.0),
        }
    }
    Ok(())
}

fn print_row(files: usize, kind: CheckoutKind, row: &OperationTimings) {
    let reached = if row.is_reached() == Some(true) { "yes" } else { "NO" };
    println!(
        "| {files} | {} | {} | {:.1} | {:.1} | {} | {} | {reached} |",
        kind.name(),
        row.operation,
        row.ours_ms(),
        row.peer_ms(),
        row.ratio_text(),
        row.goal_text(),
    );
}
