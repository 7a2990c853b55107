//! A folder, a traced command in it, and what its trace says about that folder.

use std::path::{Path, PathBuf};

use turnstone_process::{
    AttachOutcome, CommandSpec, OutputLimits, OutputRecorder, RunningCommand, TraceOptions,
    TraceOutcome,
};
use turnstone_trace::{Touch, TouchKind, TraceLog};

use crate::process_fixture::{Fallible, ProcessFixture, attach};

pub(crate) struct TraceFixture {
    pub(crate) process: ProcessFixture,
    /// The folder as the kernel names it.
    pub(crate) dir: PathBuf,
}

impl TraceFixture {
    pub(crate) fn new() -> Fallible<Self> {
        let process = ProcessFixture::new()?;
        let dir = fs_err::canonicalize(process.dir.path())?;
        Ok(Self { process, dir })
    }

    pub(crate) fn log_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.trace"))
    }

    /// A command whose trace has this name.
    pub(crate) fn traced(&self, name: &str, mut command: CommandSpec) -> CommandSpec {
        command.trace = Some(TraceOptions { log: self.log_path(name) });
        command
    }

    /// Starts a command that must be traced.
    pub(crate) fn start(&self, command: &CommandSpec) -> Fallible<RunningCommand> {
        let prepared = self.process.prepare(command)?;
        assert_eq!(prepared.trace(), &TraceOutcome::Traced);
        Ok(prepared.start()?)
    }

    /// Runs a script to its end; it must succeed.
    pub(crate) fn run(&self, script: &str) -> Fallible<TraceLog> {
        let (outcome, output) = self.run_command(&self.process.script(script))?;
        assert_eq!(outcome.exit.code(), 0, "{output}");
        self.read("trace")
    }

    pub(crate) fn run_command(&self, command: &CommandSpec) -> Fallible<(AttachOutcome, String)> {
        let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
        let command = self.traced("trace", command.clone());
        let outcome = attach(self.start(&command)?, &mut recorder)?;
        Ok((outcome, String::from_utf8_lossy(&recorder.finish().head.to_bytes()).into_owned()))
    }

    pub(crate) fn read(&self, name: &str) -> Fallible<TraceLog> {
        Ok(TraceLog::read(self.log_path(name))?)
    }

    /// Writes a log as lines such as `Create a/b`, without what lies outside of the folder.
    pub(crate) fn lines(&self, log: &TraceLog) -> Vec<String> {
        log.touches.iter().filter_map(|touch| self.line(touch)).collect()
    }

    fn line(&self, touch: &Touch) -> Option<String> {
        let path = self.relative(&touch.path)?;
        let name = format!("{:?}", touch.kind);
        let name = name.split(' ').next().unwrap_or_default();
        let mut other = String::new();
        if let TouchKind::MoveFrom { to: second }
        | TouchKind::MoveTo { from: second }
        | TouchKind::Exchange { with: second } = &touch.kind
        {
            other = format!(" {}", self.relative(second).unwrap_or_else(|| "outside".to_owned()));
        }
        Some(format!("{name} {path}{other}"))
    }

    fn relative(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.dir).ok()?.to_string_lossy().into_owned())
    }
}

/// A log without gaps that hide a change.
pub(crate) fn assert_complete(log: &TraceLog) {
    let gaps: Vec<_> = log.hiding_gaps().collect();
    assert!(gaps.is_empty(), "{gaps:?}");
}
