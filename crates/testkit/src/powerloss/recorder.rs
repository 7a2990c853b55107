//! The recorder: runs a program under strace and checks that nothing escaped it.

use std::{
    env,
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    DiskOperation, Recording,
    memory_tree::{MemoryTree, VolatileSuffixes},
    namespace::{Namespace, normalize},
    recording::ProgramEnd,
    strace_log::StraceLog,
    tracker::Tracker,
};
use crate::{
    fault::FaultPlan,
    strace_run::{self, TraceError},
};

/// Largest single write that is recorded whole.
const MAX_STRING_BYTES: &str = "33554432";
/// Every call that changes files, names, descriptors or directories; `?` ignores names that this kernel lacks.
const TRACED_CALLS: &str = "trace=?open,?creat,openat,?openat2,write,writev,pwrite64,pwritev,?pwritev2,\
    ftruncate,truncate,fallocate,?rename,?renameat,renameat2,?link,linkat,?symlink,symlinkat,\
    ?unlink,unlinkat,?rmdir,?mkdir,mkdirat,fsync,fdatasync,sync,syncfs,sync_file_range,\
    read,readv,lseek,close,?close_range,dup,?dup2,dup3,fcntl,ioctl,?mmap,chdir,fchdir,\
    ?fork,?vfork,clone,?clone3,execve,execveat,copy_file_range,sendfile,splice,?io_uring_setup,?io_submit";
/// Calls that move data without a write; programs fall back to plain writes.
const DISABLED_CALLS: &str =
    "inject=copy_file_range,sendfile,splice,?io_uring_setup,?io_submit:error=ENOSYS";

/// Why a run could not be recorded. A recording that might be incomplete is never returned.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be run under strace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The directory or the log could not be read.
    #[error("the recorded directory or the log could not be read")]
    Io(#[from] io::Error),
    /// A line of the log is not understood.
    #[error("line {line} of the strace log is not understood: {text}")]
    Syntax {
        /// The line.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// The program did something that is not modelled.
    #[error("{why}: not modelled: {call}")]
    Unsupported {
        /// The call.
        call: String,
        /// What is not modelled.
        why: &'static str,
    },
    /// A file was mapped shared and writable, so that writes to it cannot be seen.
    #[error("{path:?} was mapped writable and shared: writes to it cannot be recorded")]
    SharedMapping {
        /// The file, relative to the recorded directory.
        path: PathBuf,
    },
    /// A call that changes a file never returned, so its effect is not known.
    #[error("the program ended within a call that changes a file: {call}")]
    Unfinished {
        /// The call.
        call: String,
    },
    /// A call succeeded on a path that should not exist, or the other way round.
    #[error("the names recorded so far do not agree with {call} on {path:?}")]
    Unknown {
        /// The path.
        path: PathBuf,
        /// The call.
        call: String,
    },
    /// At the end the real directory is not what the events add up to.
    #[error("a change has escaped the recorder: {path:?} {how}")]
    Diverged {
        /// The path, relative to the recorded directory.
        path: PathBuf,
        /// In what way the real one differs.
        how: String,
    },
    /// The recorded acknowledgements are not what came through the pipe.
    #[error("recorded {recorded} bytes of standard output and received {received}")]
    Output {
        /// Bytes in the log.
        recorded: usize,
        /// Bytes in the pipe.
        received: usize,
    },
}

/// Records what programs do to one directory.
#[derive(Clone, Debug)]
pub struct Recorder {
    root: PathBuf,
    volatile: VolatileSuffixes,
    faults: Option<FaultPlan>,
    limit: Duration,
}

impl Recorder {
    /// Records changes below `root`, which must exist; what is in it already counts as durable.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let volatile = VolatileSuffixes(vec!["-shm".to_owned()]);
        Self { root: root.into(), volatile, faults: None, limit: Duration::from_secs(300) }
    }

    /// Takes files whose names end in `suffix` as volatile too: they may be mapped, and images lack
    /// them. SQLite's `-shm` always is.
    #[must_use]
    pub fn volatile(mut self, suffix: &str) -> Self {
        self.volatile.0.push(suffix.to_owned());
        self
    }

    /// Injects faults while recording, as [`FaultPlan::stub_fsync`]; a path filter is not used.
    #[must_use]
    pub fn faults(mut self, faults: FaultPlan) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Gives the program `limit` to end, instead of five minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs `command` to its end and records what it does.
    ///
    /// Takes program, arguments, directory and environment changes of `command` (not `env_clear`);
    /// its standard input is empty. However the program ends, that is a result.
    ///
    /// # Errors
    ///
    /// Anything that would make the recording incomplete; see [`RecordError`].
    pub fn record(&self, command: &Command) -> Result<Recording, RecordError> {
        let root = fs_err::canonicalize(&self.root)?;
        let here = env::current_dir()?;
        let before = MemoryTree::load(&root)?;
        let traced = strace_run::run_traced(command, &self.options(), self.limit)?;
        let text = traced.read_log()?;
        let log = StraceLog::parse(&text)?;
        let cwd = here.join(command.get_current_dir().unwrap_or(Path::new("")));
        let cwd = fs_err::canonicalize(cwd)?;
        let given = normalize(&here.join(&self.root));
        let namespace = Namespace::new(vec![root.clone(), given], before.clone());
        let tracker = Tracker::replay(&log, namespace, cwd, self.volatile.clone())?;

        let strace_run::TracedRun { stdout, stderr, status, .. } = traced;
        let recording = Recording {
            before,
            after: tracker.namespace.tree,
            events: tracker.events,
            volatile: self.volatile.clone(),
            ending: ProgramEnd { stdout, stderr, status },
        };
        verify_complete(&recording, &root)?;
        Ok(recording)
    }

    fn options(&self) -> Vec<OsString> {
        let mut options: Vec<OsString> = ["-q", "-xx", "-s", MAX_STRING_BYTES, "-e", "signal=none"]
            .into_iter()
            .chain(["-e", TRACED_CALLS, "-e", "raw=read,readv", "-e", DISABLED_CALLS])
            .map(Into::into)
            .collect();
        options.extend(self.faults.iter().flat_map(FaultPlan::strace_options));
        options
    }
}

/// Compares what was recorded with what is there.
fn verify_complete(recording: &Recording, root: &Path) -> Result<(), RecordError> {
    let real = MemoryTree::load(root)?;
    if let Some((path, how)) = recording.after.first_difference(&real, &recording.volatile) {
        return Err(RecordError::Diverged { path, how });
    }
    let mut output = Vec::new();
    for event in &recording.events {
        if let DiskOperation::Acknowledge { data } = &event.operation {
            output.extend_from_slice(data);
        }
    }
    // Lines that two processes write at the same moment may come through the pipe in either order.
    let mut recorded: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    let mut received: Vec<&[u8]> = recording.ending.stdout.split(|byte| *byte == b'\n').collect();
    recorded.sort_unstable();
    received.sort_unstable();
    if recorded != received {
        let received = recording.ending.stdout.len();
        return Err(RecordError::Output { recorded: output.len(), received });
    }
    Ok(())
}
