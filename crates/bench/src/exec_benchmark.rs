//! What `turnstone exec -- true` costs from end to end, against `git stash create` on the same worktree.
//!
//! One file changes before every run, so that both sides have something to record. Both are programs that start,
//! look at the worktree, write and end; ours also supervises the command and syncs what it writes. System calls are
//! counted in a run of their own under strace, which slows a program down.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;
use crate::measurement::{median, percentile, to_millis};
use crate::snapshot::{GeneratedTree, machine_load, measure_sync_millis, require_valid_setup};
use crate::turn_benchmark::parse_number;

/// What is to be reached on a quiet machine.
const GOAL_MS: f64 = 30.0;
/// A file written within this time before git's index is read again by git.
const RACY_INTERVAL: Duration = Duration::from_millis(1100);

/// Measures every size and prints a table.
pub(crate) fn run(words: &[String]) -> Fallible {
    let quick = words.iter().any(|word| word == "--quick");
    let sizes = match (parse_number(words, "--files")?, quick) {
        (Some(files), _) => vec![files],
        (None, true) => vec![1_000],
        (None, false) => vec![1_000, 10_000],
    };
    let named = words.iter().position(|word| word == "--turnstone");
    let program = match named.and_then(|at| words.get(at + 1)) {
        Some(path) => PathBuf::from(path).canonicalize()?,
        None => std::env::current_exe()?.with_file_name("turnstone"),
    };
    if !program.try_exists()? {
        return Err("turnstone is not built: cargo build --release -p turnstone".into());
    }
    let temp = tempfile::tempdir()?;
    require_valid_setup(temp.path())?;
    println!("load of the machine at the start: {}", machine_load()?);
    println!("| files | what | ms | nine of ten | CPU ms | syncs | processes | walks |");
    println!("|---|---|---|---|---|---|---|---|");
    for files in sizes {
        let dir = temp.path().join(files.to_string());
        let case = ExecBenchmark::prepare(&program, &dir, files)?;
        case.measure(if quick { 5 } else { 20 })?;
        fs_err::remove_dir_all(&dir)?;
    }
    println!(
        "load at the end: {}; writing and syncing 2 KiB takes {:.1} ms; goal ≤ {GOAL_MS} ms on a quiet machine",
        machine_load()?,
        measure_sync_millis(temp.path())?
    );
    Ok(())
}

/// A committed worktree and a data directory.
struct ExecBenchmark<'p> {
    program: &'p Path,
    tree: GeneratedTree,
    data: PathBuf,
}

/// What the runs of one side took.
#[derive(Default)]
struct CommandCost {
    wall: Vec<f64>,
    cpu: f64,
}

/// What one run did.
struct CallCounts {
    syncs: usize,
    processes: usize,
    walks: usize,
}

impl<'p> ExecBenchmark<'p> {
    fn prepare(program: &'p Path, dir: &Path, files: usize) -> Fallible<Self> {
        let tree = GeneratedTree::generate(&dir.join("tree"), files)?;
        tree.init()?;
        tree.commit()?;
        std::thread::sleep(RACY_INTERVAL);
        let case = Self { program, tree, data: dir.join("data") };
        // The first run makes the database and the first capture.
        run_to_end(case.exec())?;
        Ok(case)
    }

    fn exec(&self) -> Command {
        let mut command = Command::new(self.program);
        command.arg("--data").arg(&self.data).args(["exec", "--", "true"]);
        self.in_tree(command)
    }

    fn stash_command(&self) -> Command {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=b", "-c", "user.email=b@example.com", "stash", "create"]);
        self.in_tree(command)
    }

    fn in_tree(&self, mut command: Command) -> Command {
        command.current_dir(&self.tree.path).env_remove("TURNSTONE_SESSION");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn measure(&self, rounds: usize) -> Fallible {
        let (mut ours, mut stash) = (CommandCost::default(), CommandCost::default());
        for round in 0..rounds {
            self.tree.write_version(round % self.tree.files, 1 + round)?;
            // Who goes first changes with every round.
            for turn in 0..2 {
                match (turn + round) % 2 {
                    0 => ours.add_run(self.exec())?,
                    _ => stash.add_run(self.stash_command())?,
                }
            }
        }
        for (name, cost, command) in [
            ("`turnstone exec -- true`", ours, self.exec()),
            ("`git stash create`", stash, self.stash_command()),
        ] {
            self.tree.write_version(0, 1000 + name.len())?;
            let counted = count_calls(&command, &self.tree.path)?;
            let CallCounts { syncs, processes, walks } = counted;
            println!(
                "| {} | {name} | {:.1} | {:.1} | {:.1} | {syncs} | {processes} | {walks} |",
                self.tree.files,
                median(cost.wall.clone()),
                percentile(cost.wall, 0.9),
                cost.cpu / rounds as f64
            );
        }
        Ok(())
    }
}

impl CommandCost {
    fn add_run(&mut self, command: Command) -> Fallible {
        let (begun, cpu) = (Instant::now(), children_cpu_millis()?);
        run_to_end(command)?;
        self.wall.push(to_millis(begun.elapsed()));
        self.cpu += children_cpu_millis()? - cpu;
        Ok(())
    }
}

fn run_to_end(mut command: Command) -> Fallible {
    let status = command.status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?} ended with {status}").into()),
    }
}

/// CPU time of all processes that this one has waited for, and of those that they have waited for.
fn children_cpu_millis() -> Fallible<f64> {
    let text = fs_err::read_to_string("/proc/self/stat")?;
    // Behind the name, which may contain anything: `cutime` and `cstime` are the 16th and 17th field.
    let fields: Vec<&str> = text[text.rfind(')').ok_or("no name")?..].split(' ').collect();
    let ticks = fields[14].parse::<f64>()? + fields[15].parse::<f64>()?;
    Ok(ticks * 1e3 / rustix::param::clock_ticks_per_second() as f64)
}

/// Runs a command once more under strace and counts what it asks of the system.
fn count_calls(command: &Command, tree: &Path) -> Fallible<CallCounts> {
    let log = tempfile::NamedTempFile::new()?;
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-e", "trace=execve,fsync,fdatasync,syncfs,getdents64", "-o"]);
    traced.arg(log.path()).arg("--").arg(command.get_program()).args(command.get_args());
    traced.current_dir(tree).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    run_to_end(traced)?;
    let text = fs_err::read_to_string(log.path())?;
    let root = format!("<{}>", tree.canonicalize()?.display());
    let count = |is_wanted: &dyn Fn(&str) -> bool| text.lines().filter(|it| is_wanted(it)).count();
    Ok(CallCounts {
        syncs: count(&|line| line.contains("sync(") || line.contains("syncfs(")),
        // A search through PATH tries names that are not there.
        processes: count(&|line| line.contains("execve(") && !line.contains("ENOENT")),
        // Each walk lists the root to its end, once.
        walks: count(&|line| {
            line.contains("getdents64(") && line.contains(&root) && line.ends_with("= 0")
        }),
    })
}
