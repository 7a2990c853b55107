//! What a trace costs a command: the same program plain, traced, under strace, and in an overlay of a user namespace,
//! in rounds one after the other.
//!
//! The command runs below [`measure_command`], this program again, which takes its wall time and processor time, and
//! those of the process that answers for it. So the start of the supervisor is not part of the ratios; it has a row of its own.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use turnstone_process::{
    AttachOptions, CommandEnvironment, CommandSpec, CommandStdio, OutputLimits, OutputRecorder,
    SupervisorProgram, TraceOptions, TraceOutcome,
};

use crate::Fallible;
use crate::measurement::{median, to_millis};
use crate::snapshot::machine_load;

/// The name under which the holders run.
const HOLDER: &str = "turnstone-trace";

/// How the command is run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceMethod {
    Plain,
    Traced,
    Strace,
    Overlay,
}

const METHODS: [TraceMethod; 4] =
    [TraceMethod::Plain, TraceMethod::Traced, TraceMethod::Strace, TraceMethod::Overlay];

/// Mounts an overlay over the folder `$1`, with `$2` for its changes, and runs the script `$3` in it.
const IN_OVERLAY: &str = "mkdir \"$2/upper\" \"$2/work\"; mount -t overlay overlay -o \
    \"lowerdir=$1,upperdir=$2/upper,workdir=$2/work,userxattr\" \"$1\"; cd \"$1\"; exec sh -c \"$3\"";

/// One program to be run, in a folder that is prepared before each run.
struct TraceCase {
    name: &'static str,
    dir: PathBuf,
    /// A shell script that is not measured.
    prepare: String,
    /// A shell script that is.
    script: String,
    /// The greatest ratio of traced to plain that is wanted.
    goal: f64,
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default)]
struct TraceFigures {
    wall_ms: f64,
    cpu_ms: f64,
    holder_cpu_ms: f64,
    holder_mib: f64,
}

/// Measures every case, or those with one of the given words in their names, and prints a table.
pub(crate) fn run(words: &[String]) -> Fallible {
    if cfg!(debug_assertions) {
        return Err("figures of a debug build mean nothing: run with --release".into());
    }
    let quick = words.iter().any(|word| word == "--quick");
    let chosen: Vec<&String> = words.iter().filter(|word| !word.starts_with("--")).collect();
    let is_chosen = |case: &TraceCase| {
        chosen.is_empty() || chosen.iter().any(|word| case.name.contains(word.as_str()))
    };
    let rounds = if quick { 3 } else { 7 };
    let disk = tempfile::tempdir()?;
    let memory = tempfile::tempdir_in("/dev/shm")?;
    println!("load of the machine at the start: {}", machine_load()?);
    println!(
        "| case | plain ms | traced | goal | strace | overlay | CPU plain ms | CPU traced | of it the holder ms | holder MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let cases = list_cases(disk.path(), memory.path(), if quick { 10 } else { 1 })?;
    for case in cases.iter().filter(|case| is_chosen(case)) {
        measure_case(case, rounds)?;
    }
    measure_start(disk.path(), 10 * rounds)?;
    println!("load at the end: {}", machine_load()?);
    Ok(())
}

fn list_cases(disk: &Path, memory: &Path, divisor: usize) -> Fallible<Vec<TraceCase>> {
    let this = std::env::current_exe()?;
    let this = this.display();
    let (calls, files) = (100_000 / divisor, 10_000 / divisor);
    let case = |name, dir: &Path, prepare: String, script: String, goal| {
        let dir = dir.join(str::replace(name, [' ', ','], "-"));
        TraceCase { name, dir, prepare, script, goal }
    };
    Ok(vec![
        case(
            "make -j2",
            disk,
            format!("rm -f *.o prog; {PROJECT}"),
            "make -s -j2".to_owned(),
            1.05,
        ),
        case(
            "npm install",
            disk,
            packages_script(200 / divisor),
            "npm install --install-links --offline --no-audit --no-fund --silent".to_owned(),
            1.05,
        ),
        case(
            "git checkout",
            disk,
            repository_script(files),
            "git checkout -q side".to_owned(),
            1.4,
        ),
        case(
            "creates, tmpfs",
            memory,
            "find . -name 'f*' -delete".to_owned(),
            format!("{this} trace-calls create {calls}"),
            3.5,
        ),
        case(
            "read opens, tmpfs",
            memory,
            "echo x > file".to_owned(),
            format!("{this} trace-calls read {calls}"),
            1.1,
        ),
        case(
            "programs started",
            disk,
            String::new(),
            format!("i=0; while [ $i -lt {} ]; do /bin/true; i=$((i+1)); done", 1000 / divisor),
            1.05,
        ),
    ])
}

/// Makes a C project of 61 files.
const PROJECT: &str = "for i in $(seq 60); do { echo '#include <stdio.h>'; echo '#include <stdlib.h>'; \
        for j in $(seq 40); do echo \"int f${i}_$j(int a) { return printf(\\\"%d\\\", a) + abs(a); }\"; done; } > f$i.c; done; \
        echo 'int main(void) { return 0; }' > main.c; \
        printf 'prog: main.o $(patsubst %%.c,%%.o,$(wildcard f*.c))\\n\\tcc -o $@ $^\\n' > Makefile";

/// Makes a repository with two branches that differ in every file, and goes to the first.
fn repository_script(files: usize) -> String {
    format!(
        "[ -d .git ] || {{ git init -q -b main .; seq {files} | split -l 1 -a 5 - f; git add .; \
         git -c user.name=a -c user.email=a@b commit -qm one; git checkout -qb side; \
         for f in f*; do echo side > $f; done; git -c user.name=a -c user.email=a@b commit -qam two; }}; \
         git checkout -q main; sync -f ."
    )
}

/// Makes local packages of ten files each, and a project that depends on them all.
fn packages_script(count: usize) -> String {
    format!(
        "[ -d packages ] || {{ for i in $(seq {}); do mkdir -p packages/p$i/lib; \
         echo \"{{\\\"name\\\":\\\"p$i\\\",\\\"version\\\":\\\"1.0.0\\\"}}\" > packages/p$i/package.json; \
         for j in 1 2 3 4 5 6 7 8 9; do echo \"module.exports = $j\" > packages/p$i/lib/$j.js; done; done; }}; \
         rm -rf node_modules package-lock.json; {{ echo '{{\"dependencies\":{{'; for i in $(seq {}); do \
         echo \"\\\"p$i\\\":\\\"file:packages/p$i\\\",\"; done; echo '\"p1\":\"file:packages/p1\"}}}}'; }} > package.json",
        count, count
    )
}

/// Runs every method once in each round, so that a change of the machine's load meets all of them.
fn measure_case(case: &TraceCase, rounds: usize) -> Fallible {
    fs_err::create_dir_all(&case.dir)?;
    let mut figures = METHODS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (method, figures) in METHODS.into_iter().zip(&mut figures) {
            run_shell(&case.dir, &case.prepare)?;
            figures.push(run_once(case, method)?);
        }
    }
    let middle = |figures: &[TraceFigures], of: fn(&TraceFigures) -> f64| {
        median(figures.iter().map(of).collect())
    };
    let [plain, traced, strace, overlay] = &figures;
    let wall = |figures| middle(figures, |one| one.wall_ms);
    let cpu = |figures| middle(figures, |one| one.cpu_ms + one.holder_cpu_ms);
    println!(
        "| {} | {:.0} | ×{:.2} | ×{} | ×{:.2} | ×{:.2} | {:.0} | ×{:.2} | {:.0} | {:.1} |",
        case.name,
        wall(plain),
        wall(traced) / wall(plain),
        case.goal,
        wall(strace) / wall(plain),
        wall(overlay) / wall(plain),
        cpu(plain),
        cpu(traced) / cpu(plain),
        middle(traced, |one| one.holder_cpu_ms),
        middle(traced, |one| one.holder_mib),
    );
    Ok(())
}

fn run_shell(dir: &Path, script: &str) -> Fallible {
    let status =
        Command::new("sh").args(["-ec", script]).current_dir(dir).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{script}: {status}").into()) }
}

fn run_once(case: &TraceCase, method: TraceMethod) -> Fallible<TraceFigures> {
    let scratch = tempfile::tempdir()?;
    let report = scratch.path().join("figures");
    let strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=%file", "-o", "/dev/null"];
    let mut words: Vec<OsString> = Vec::new();
    if method == TraceMethod::Strace {
        words.extend(strace.map(OsString::from));
    }
    // On the same file system, as an overlay needs it.
    let changes = tempfile::tempdir_in(case.dir.parent().ok_or("a folder")?)?;
    if method == TraceMethod::Overlay {
        let unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", IN_OVERLAY];
        words.extend(unshare.map(OsString::from));
        words.extend(["sh".into(), case.dir.clone().into(), changes.path().into()]);
        words.push(case.script.as_str().into());
    } else {
        words.extend(["sh", "-c", case.script.as_str()].map(OsString::from));
    }
    let mut command = CommandSpec::new(std::env::current_exe()?, &case.dir)
        .args([OsString::from("trace-measure"), report.clone().into_os_string()])
        .args(words)
        .env(CommandEnvironment::exact(std::env::vars_os()));
    if method == TraceMethod::Traced {
        command.trace = Some(TraceOptions { log: scratch.path().join("log") });
    }
    run_supervised(&command)?;
    let text = fs_err::read_to_string(report)?;
    let numbers = text.split_whitespace().map(str::parse::<f64>).collect::<Result<Vec<_>, _>>()?;
    let [wall_ms, cpu_ms, holder_cpu_ms, holder_mib] = numbers[..] else {
        return Err("the measured command wrote no figures".into());
    };
    Ok(TraceFigures { wall_ms, cpu_ms, holder_cpu_ms, holder_mib })
}

fn run_supervised(command: &CommandSpec) -> Fallible {
    let supervisor = SupervisorProgram {
        program: std::env::current_exe()?,
        args: vec![OsString::from("supervise")],
    };
    let prepared = supervisor.prepare(command, CommandStdio::Pipes { stdin: None })?;
    if let TraceOutcome::Unavailable(reason) = prepared.trace() {
        return Err(format!("commands cannot be traced here: {reason}").into());
    }
    let outcome = prepared.start()?.attach(AttachOptions {
        recorder: &mut OutputRecorder::new(OutputLimits::default(), None),
        stdout: &mut std::io::sink(),
        stderr: &mut std::io::stderr(),
        terminal: None,
        signals: None,
    })?;
    if outcome.exit.code() == 0 { Ok(()) } else { Err("the measured command failed".into()) }
}

/// What starting `true` costs from end to end.
fn measure_start(dir: &Path, rounds: usize) -> Fallible {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (traced, times) in [false, true].into_iter().zip(&mut times) {
            let mut command = CommandSpec::new("/bin/true", dir);
            let log = dir.join(format!("log{round}"));
            command.trace = traced.then_some(TraceOptions { log });
            let begun = Instant::now();
            run_supervised(&command)?;
            times.push(to_millis(begun.elapsed()));
        }
    }
    let [plain, traced] = times.map(median);
    println!("start and end of `true`: {plain:.1} ms, traced {traced:.1} ms");
    Ok(())
}

/// `trace-measure REPORT CMD…`: runs a command and writes wall time, processor time, and those of the holder.
pub(crate) fn measure_command(words: &[String]) -> Fallible {
    let [report, program, args @ ..] = words else { return Err("REPORT CMD…".into()) };
    let mut report = fs_err::File::create(report)?;
    let begun = Instant::now();
    let status = Command::new(program).args(args).stdin(Stdio::null()).status()?;
    let wall = to_millis(begun.elapsed());
    let parts = read_stat("self")?;
    // Fields 16 and 17: ended children that were waited for, in ticks of 10 ms.
    let cpu = 10.0 * (parts.get(12).unwrap_or(&0.0) + parts.get(13).unwrap_or(&0.0));
    let (holder_cpu, holder_mib) = find_holder()?.unwrap_or_default();
    writeln!(report, "{wall} {cpu} {holder_cpu} {holder_mib}")?;
    if status.success() { Ok(()) } else { Err(format!("{program}: {status}").into()) }
}

/// The numbers of `stat` behind the name, so that the first is the parent.
fn read_stat(pid: &str) -> Fallible<Vec<f64>> {
    let text = fs_err::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').ok_or("no name in stat")?;
    Ok(rest.split_whitespace().skip(1).map(|word| word.parse().unwrap_or_default()).collect())
}

/// Processor time in ms and peak memory in MiB of the process that answers for this one, if there is one.
fn find_holder() -> Fallible<Option<(f64, f64)>> {
    let mut pid = "self".to_owned();
    loop {
        let parent = read_stat(&pid)?.first().copied().unwrap_or_default();
        if parent < 2.0 {
            return Ok(None);
        }
        pid = parent.to_string();
        if fs_err::read_to_string(format!("/proc/{pid}/comm"))?.trim() == HOLDER {
            let stat = read_stat(&pid)?;
            let cpu = 10.0 * (stat.get(10).unwrap_or(&0.0) + stat.get(11).unwrap_or(&0.0));
            let status = fs_err::read_to_string(format!("/proc/{pid}/status"))?;
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|text| text.split_whitespace().next()).unwrap_or("0");
            return Ok(Some((cpu, peak.parse::<f64>()? / 1024.0)));
        }
    }
}

/// `trace-calls create|read N`: nothing but calls of one kind in the current folder.
pub(crate) fn make_calls(words: &[String]) -> Fallible {
    let [kind, count] = words else { return Err("create|read N".into()) };
    for number in 0..count.parse::<u32>()? {
        if kind == "create" {
            fs_err::File::create(format!("f{number}"))?;
        } else {
            fs_err::File::open("file")?;
        }
    }
    Ok(())
}
