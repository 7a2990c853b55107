//! The run: sizes, tables, and a summary of what was not reached.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::benchmark_case::{BenchmarkCase, disk_usage, measure_millis};
use super::first_capture::{self, StoredBytes};
use super::generated_tree::GeneratedTree;
use super::operation_timings::{GOAL_FILES, OperationTimings};
use super::own_store::OwnStore;
use super::steady_state::BenchmarkSides;
use super::{cli_capture, peak_memory};
use crate::Fallible;
use crate::measurement::median;

/// How much memory ours may take at 100,000 files.
const MAX_MEMORY_MIB: u64 = 286;

/// What one size gave.
struct SizeResult {
    files: usize,
    rows: Vec<OperationTimings>,
    memory: u64,
}

/// Measures every size and prints the tables.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let number = |name: &str| -> Fallible<Option<u64>> {
        let Some(at) = words.iter().position(|word| word == name) else {
            return Ok(None);
        };
        Ok(Some(words.get(at + 1).ok_or("a number is missing")?.parse()?))
    };
    let sizes = match (number("--files")?, quick) {
        (Some(files), _) => vec![usize::try_from(files)?.max(200)],
        (None, true) => vec![1_000, 10_000],
        (None, false) => vec![1_000, 10_000, GOAL_FILES],
    };
    let limit = Duration::from_secs(number("--limit")?.unwrap_or(120));
    let rounds = if quick { 3 } else { 5 };
    let temp = tempfile::tempdir()?;
    require_valid_setup(temp.path())?;
    println!(
        "ours: library calls in a warm keeper; guard, fsync and verify on; {rounds} rounds, medians"
    );
    println!(
        "peer: the git commands of OpenCode's HEAD for the same action, without its JavaScript"
    );
    println!(
        "slow operations of the peer run once from 50,000 files on, each command at most {} s",
        limit.as_secs()
    );
    println!("diff, revert and unrevert of ours use the watched store");
    println!("load of the machine at the start: {}", machine_load()?);
    let mut outcomes = Vec::new();
    for files in sizes {
        let dir = temp.path().join(files.to_string());
        fs_err::create_dir(&dir)?;
        let case = BenchmarkCase { files, rounds, limit, dir };
        outcomes.push(measure_size(&case)?);
        fs_err::remove_dir_all(&case.dir)?;
    }
    print_goals(&outcomes);
    Ok(())
}

/// Figures of a build or a place in which durable costs nothing are no figures (R36).
pub(crate) fn require_valid_setup(temp: &Path) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    if fail::has_failpoints() {
        return Err("this build has failpoints, by which writes could be left out".into());
    }
    if std::env::var_os("LD_PRELOAD").is_some() {
        return Err("LD_PRELOAD is set: what is preloaded could leave out fsync".into());
    }
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(temp).output()?;
    let kind = String::from_utf8(kind.stdout)?;
    if matches!(kind.trim(), "tmpfs" | "ramfs") {
        return Err("the temporary directory is in memory: set TMPDIR to one on a disk".into());
    }
    Ok(())
}

/// What waiting for this disk costs just now: a new file of 2 KiB, written and synced.
pub(crate) fn measure_sync_millis(dir: &Path) -> Fallible<f64> {
    let path = dir.join("synced");
    let mut times = Vec::new();
    for _ in 0..20 {
        let write = || -> Fallible {
            let mut file = fs_err::File::create(&path)?;
            file.write_all(&[b'x'; 2048])?;
            Ok(file.sync_all()?)
        };
        times.push(measure_millis(write)?.0);
        fs_err::remove_file(&path)?;
    }
    Ok(median(times))
}

pub(crate) fn machine_load() -> Fallible<String> {
    let text = fs_err::read_to_string("/proc/loadavg")?;
    let cores = std::thread::available_parallelism()?;
    Ok(format!("{} on {cores} cores", text.split(' ').take(3).collect::<Vec<_>>().join(" ")))
}

fn measure_size(case: &BenchmarkCase) -> Fallible<SizeResult> {
    let begun = Instant::now();
    let fresh = GeneratedTree::generate(&case.dir.join("fresh"), case.files)?;
    fresh.init()?;
    case.wait_until_not_racy();
    let (row, never) = first_capture::measure_first_capture(case, &fresh, false)?;
    let mut rows = Vec::new();
    let mut add = |more: Vec<OperationTimings>| {
        // The reader sees the progress, and has results if the run is stopped.
        more.iter().for_each(|row| eprintln!("{}", row.table_row(case.files)));
        rows.extend(more);
    };
    add(vec![row]);
    add(vec![first_capture::measure_named_captures(case, &fresh)?]);
    let memory = peak_memory::measure_peak_mib(&fresh, &case.dir.join("memory-store"))?;
    fs_err::remove_dir_all(case.dir.join("memory-store"))?;
    fs_err::remove_dir_all(&fresh.path)?;
    let tree = GeneratedTree::generate(&case.dir.join("tree"), case.files)?;
    tree.init()?;
    case.wait_until_not_racy();
    tree.commit()?;
    case.wait_until_not_racy();
    let (row, committed) = first_capture::measure_first_capture(case, &tree, true)?;
    add(vec![row]);
    let command = cli_capture::measure_cli_track(&tree.path, &case.dir.join("data"), case.rounds)?;
    let sides = BenchmarkSides {
        case,
        tree: &tree,
        walking: OwnStore::open(&case.dir.join("walking"), &tree.path)?,
        watching: OwnStore::open_watching(&case.dir.join("watching"), &tree.path)?,
        peer: case.open_peer("shadow", &tree.path),
    };
    sides.capture_unmeasured()?;
    add(sides.measure_unchanged()?);
    add(sides.measure_changed(1)?);
    add(vec![sides.measure_diff()?]);
    add(vec![sides.measure_revert()?]);
    if case.files >= 10_000 {
        add(sides.measure_changed(10_000)?);
    }
    add(sides.measure_unrevert()?);
    let after = StoredBytes {
        operation: "all operations, committed checkout",
        ours: disk_usage(&case.dir.join("watching"))?,
        peer: Some(disk_usage(&case.dir.join("shadow"))?),
    };
    print_tables(case.files, &rows, &[never, committed, after], memory);
    println!("{command}");
    println!("took {} s; load {}", begun.elapsed().as_secs(), machine_load()?);
    println!("writing and syncing a file of 2 KiB takes {:.1} ms", measure_sync_millis(&case.dir)?);
    Ok(SizeResult { files: case.files, rows, memory })
}

fn print_tables(files: usize, rows: &[OperationTimings], stored: &[StoredBytes], memory: u64) {
    println!("\n## {files} files\n");
    println!(
        "| operation | ours ms | peer ms | ratio | goal | reached | peer's processes | rounds |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{}", row.table_row(files)));
    println!("\n| bytes on disk after | ours KiB | peer KiB |\n|---|---|---|");
    for StoredBytes { operation: what, ours, peer } in stored {
        let peer = peer.map_or_else(|| "–".to_owned(), |peer| (peer / 1024).to_string());
        println!("| {what} | {} | {peer} |", ours / 1024);
    }
    println!(
        "\npeak memory of ours, a process of its own: {memory} MiB (goal ≤ {MAX_MEMORY_MIB} MiB)"
    );
}

/// Says what was not reached at the size the goals are meant for, and how the watcher scales.
fn print_goals(outcomes: &[SizeResult]) {
    println!("\n## Goals\n");
    let find = |files: usize| outcomes.iter().find(|outcome| outcome.files == files);
    if let (Some(small), Some(large)) = (find(10_000), find(GOAL_FILES)) {
        for row in large.rows.iter().filter(|row| row.operation.ends_with("watcher")) {
            let Some(other) = small.rows.iter().find(|other| other.operation == row.operation)
            else {
                continue;
            };
            let growth = row.ours_ms() / other.ours_ms();
            // 10,000 of 10,000 files is another thing than 10,000 of 100,000.
            println!(
                "{}: 100,000 files take {growth:.2}× the time of 10,000 (goal ≤ 2×)",
                row.operation
            );
        }
    }
    let Some(large) = find(GOAL_FILES) else {
        println!("the goals are meant for {GOAL_FILES} files, which were not measured");
        return;
    };
    let missed: Vec<&OperationTimings> =
        large.rows.iter().filter(|row| row.is_reached() == Some(false)).collect();
    for row in &missed {
        println!("missed: {}: {}, goal {}", row.operation, row.ratio_text(), row.goal_text());
    }
    if large.memory > MAX_MEMORY_MIB {
        println!("missed: peak memory: {} MiB, goal ≤ {MAX_MEMORY_MIB} MiB", large.memory);
    }
    if missed.is_empty() && large.memory <= MAX_MEMORY_MIB {
        println!("all goals reached");
    }
}
