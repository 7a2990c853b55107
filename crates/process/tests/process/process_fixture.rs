//! A supervisor, a folder, and the patience to wait for a fact without watching the clock.

use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use turnstone_process::{
    AttachError, AttachOptions, AttachOutcome, CommandEnvironment, CommandSpec, CommandStdio,
    OutputBytes, OutputLimits, OutputRecorder, OutputSource, PreparedCommand, ProcessGroupId,
    RecordedOutput, RunningCommand, StartError, SupervisorProgram,
};

pub(crate) type Fallible<T = ()> = Result<T, Box<dyn Error>>;

/// Long enough for any machine: only a test that hangs meets it.
const PATIENCE: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct ProcessFixture {
    pub(crate) dir: TempDir,
    pub(crate) supervisor: SupervisorProgram,
}

impl ProcessFixture {
    pub(crate) fn new() -> Fallible<Self> {
        let supervisor =
            SupervisorProgram { program: example()?, args: vec![OsString::from("supervise")] };
        Ok(Self { dir: tempfile::tempdir()?, supervisor })
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A script of the shell that runs in the folder.
    pub(crate) fn script(&self, script: &str) -> CommandSpec {
        self.program("/bin/sh").args(["-c", script])
    }

    pub(crate) fn program(&self, program: &str) -> CommandSpec {
        let path = CommandEnvironment::default().with("PATH", "/usr/bin:/bin");
        let mut program = CommandSpec::new(program, self.dir.path()).env(path);
        program.grace = Duration::from_secs(30);
        program
    }

    pub(crate) fn prepare(&self, program: &CommandSpec) -> Result<PreparedCommand, StartError> {
        self.supervisor.prepare(program, CommandStdio::Pipes { stdin: None })
    }

    pub(crate) fn start(&self, script: &str) -> Result<RunningCommand, StartError> {
        self.prepare(&self.script(script))?.start()
    }

    /// Runs a script to its end and returns what came out of it.
    pub(crate) fn run(&self, script: &str) -> Fallible<(AttachOutcome, RecordedOutput)> {
        let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
        let outcome = attach(self.start(script)?, &mut recorder)?;
        Ok((outcome, recorder.finish()))
    }

    /// The program that owns a supervisor of its own, to be killed.
    pub(crate) fn owner(&self, grace: u64, script: &str) -> Fallible<Command> {
        #[expect(clippy::disallowed_methods, reason = "a test starts the program it kills")]
        let mut command = Command::new(example()?);
        command.args(["run", &grace.to_string(), "group.json", "/bin/sh", "-c", script]);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        Ok(command)
    }

    /// The group that the owner recorded before its command ran.
    pub(crate) fn recorded_group(&self) -> Fallible<ProcessGroupId> {
        let mut group = None;
        wait_until("the group is recorded", || {
            let record = fs_err::read(self.at("group.json")).unwrap_or_default();
            group = serde_json::from_slice(&record).ok();
            group.is_some()
        })?;
        Ok(group.ok_or("no group")?)
    }

    /// Waits for a file that a script writes, and returns its text.
    pub(crate) fn wait_for_file(&self, name: &str) -> Fallible<String> {
        let path = self.at(name);
        wait_until(name, || fs_err::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')))?;
        Ok(fs_err::read_to_string(&path)?.trim().to_owned())
    }
}

pub(crate) fn attach(
    running: RunningCommand,
    recorder: &mut OutputRecorder,
) -> Result<AttachOutcome, AttachError> {
    running.attach(AttachOptions {
        recorder,
        stdout: &mut std::io::sink(),
        stderr: &mut std::io::sink(),
        terminal: None,
        signals: None,
    })
}

pub(crate) fn example() -> Fallible<PathBuf> {
    let test = std::env::current_exe()?;
    let profile = test.parent().and_then(Path::parent).ok_or("no build directory")?;
    let program = profile.join("examples/owner");
    if !program.exists() {
        return Err(format!("{} is missing: cargo build --examples", program.display()).into());
    }
    Ok(program)
}

/// Waits until something holds; fails only when it never does.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Fallible {
    let mut left = PATIENCE.as_millis() / TICK.as_millis();
    while !holds() {
        left = left.checked_sub(1).ok_or_else(|| format!("it never came true that {what}"))?;
        std::thread::sleep(TICK);
    }
    Ok(())
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

pub(crate) fn signal(pid: &str, signal: Signal) -> Fallible {
    let pid = pid.parse().ok().and_then(Pid::from_raw).ok_or("no process id")?;
    Ok(kill_process(pid, signal)?)
}

/// The bytes of one stream only.
pub(crate) fn bytes_of(output: &OutputBytes, source: OutputSource) -> Vec<u8> {
    let mut bytes = output.to_bytes().into_iter();
    let mut found = Vec::new();
    for (from, length) in output.runs() {
        let run = bytes.by_ref().take(length);
        if from == source { found.extend(run) } else { run.for_each(drop) }
    }
    found
}
