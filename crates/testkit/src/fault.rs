//! Injected faults: a program runs under strace, and chosen system calls fail without happening.
//!
//! strace counts calls per system call and per thread, so `when(3)` is the third `fsync` of each
//! thread. A run reports every injection; a test that asks for a fault must check that it fired.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use crate::strace_run::{self, TraceError, complete_lines};

/// A system call, or a family of calls that do the same thing, that a fault can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the call it names")]
#[non_exhaustive]
pub enum Syscall {
    Close,
    CopyFileRange,
    Fallocate,
    Fdatasync,
    Fsync,
    Ftruncate,
    Link,
    Mkdir,
    Mmap,
    Open,
    Pread,
    Pwrite,
    Pwritev,
    Read,
    Rename,
    Sendfile,
    Syncfs,
    Unlink,
    Write,
    Writev,
}

impl Syscall {
    /// The names strace knows it by; `?` ignores those an architecture lacks.
    fn strace_names(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::CopyFileRange => "copy_file_range",
            Self::Fallocate => "fallocate",
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
            Self::Ftruncate => "ftruncate",
            Self::Link => "?link,linkat",
            Self::Mkdir => "?mkdir,mkdirat",
            Self::Mmap => "?mmap",
            Self::Open => "?open,?creat,openat,?openat2",
            Self::Pread => "pread64",
            Self::Pwrite => "pwrite64",
            Self::Pwritev => "pwritev,?pwritev2",
            Self::Read => "read",
            Self::Rename => "?rename,?renameat,renameat2",
            Self::Sendfile => "sendfile",
            Self::Syncfs => "sync,syncfs",
            Self::Unlink => "?unlink,?rmdir,unlinkat",
            Self::Write => "write",
            Self::Writev => "writev",
        }
    }
}

/// The error a failed call reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is the error it names")]
#[non_exhaustive]
pub enum Errno {
    Eacces,
    Edquot,
    Eintr,
    Eio,
    Emfile,
    Enoent,
    Enomem,
    Enospc,
    Enosys,
    Erofs,
}

impl Errno {
    fn strace_name(self) -> &'static str {
        match self {
            Self::Eacces => "EACCES",
            Self::Edquot => "EDQUOT",
            Self::Eintr => "EINTR",
            Self::Eio => "EIO",
            Self::Emfile => "EMFILE",
            Self::Enoent => "ENOENT",
            Self::Enomem => "ENOMEM",
            Self::Enospc => "ENOSPC",
            Self::Enosys => "ENOSYS",
            Self::Erofs => "EROFS",
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum InjectedResult {
    Error(Errno),
    Value(u32),
    Kill,
}

#[derive(Clone, Copy, Debug)]
enum CallSelection {
    Always,
    Only(u16),
    From(u16),
}

/// One kind of failure: which calls, what they answer, and which of them.
///
/// By default every call fails with [`Errno::Eio`].
#[derive(Clone, Debug)]
pub struct Fault {
    calls: Vec<Syscall>,
    answer: InjectedResult,
    when: CallSelection,
}

impl Fault {
    /// A fault of `call`.
    #[must_use]
    pub fn new(call: Syscall) -> Self {
        Self {
            calls: vec![call],
            answer: InjectedResult::Error(Errno::Eio),
            when: CallSelection::Always,
        }
    }

    /// Hits `call` too; it is counted on its own.
    #[must_use]
    pub fn and(mut self, call: Syscall) -> Self {
        self.calls.push(call);
        self
    }

    /// The calls fail with `error`.
    #[must_use]
    pub fn error(mut self, error: Errno) -> Self {
        self.answer = InjectedResult::Error(error);
        self
    }

    /// The calls pretend to succeed and return `value`, without having happened.
    #[must_use]
    pub fn returns(mut self, value: u32) -> Self {
        self.answer = InjectedResult::Value(value);
        self
    }

    /// The program is killed (SIGKILL) when it makes the call, which may or may not happen.
    #[must_use]
    pub fn kills(mut self) -> Self {
        self.answer = InjectedResult::Kill;
        self
    }

    /// Only the `nth` call of each thread is hit, counted from 1.
    #[must_use]
    pub fn when(mut self, nth: u16) -> Self {
        self.when = CallSelection::Only(nth.max(1));
        self
    }

    /// The `nth` call of each thread and all after it are hit, counted from 1.
    #[must_use]
    pub fn when_from(mut self, nth: u16) -> Self {
        self.when = CallSelection::From(nth.max(1));
        self
    }

    fn strace_names(&self) -> String {
        self.calls.iter().map(|call| call.strace_names()).collect::<Vec<_>>().join(",")
    }

    fn strace_expression(&self) -> String {
        let answer = match self.answer {
            InjectedResult::Error(error) => format!("error={}", error.strace_name()),
            InjectedResult::Value(value) => format!("retval={value}"),
            InjectedResult::Kill => "signal=SIGKILL".to_owned(),
        };
        let when = match self.when {
            CallSelection::Always => String::new(),
            CallSelection::Only(nth) => format!(":when={nth}"),
            CallSelection::From(nth) => format!(":when={nth}+"),
        };
        format!("inject={}:{answer}{when}", self.strace_names())
    }
}

/// The faults of one run.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    faults: Vec<Fault>,
    path: Option<PathBuf>,
    limit: Duration,
}

impl FaultPlan {
    /// A plan with one fault.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { faults: vec![fault], path: None, limit: Duration::from_secs(120) }
    }

    /// Every sync of a file or a directory pretends to succeed and does nothing (R34).
    #[must_use]
    pub fn stub_fsync() -> Self {
        let syncs = Fault::new(Syscall::Fsync).and(Syscall::Fdatasync).and(Syscall::Syncfs);
        Self::new(syncs.returns(0))
    }

    /// Adds a fault; of two for the same call the later one counts.
    #[must_use]
    pub fn and(mut self, fault: Fault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Hits, and counts, only calls on this file, by path or by descriptor.
    ///
    /// The file need not exist yet. The program must name it by this path or by the same path
    /// without symbolic links.
    #[must_use]
    pub fn only_on(mut self, path: impl Into<PathBuf>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Gives the program `limit` to end, instead of two minutes.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// The injections as strace options.
    pub(crate) fn strace_options(&self) -> impl Iterator<Item = OsString> {
        self.faults.iter().flat_map(|fault| ["-e".into(), fault.strace_expression().into()])
    }

    /// Runs `command` to its end under these faults.
    ///
    /// Takes program, arguments, directory and environment changes of `command` (not
    /// `env_clear`); its standard input is empty. However the program ends, that is a result.
    ///
    /// # Errors
    ///
    /// strace cannot be used, or the program does not end in time.
    pub fn run(&self, command: &Command) -> Result<FaultRun, FaultError> {
        let names = self.faults.iter().map(Fault::strace_names).collect::<Vec<_>>().join(",");
        let mut options: Vec<OsString> =
            ["-qqq", "-s", "0", "-e", "signal=none", "-e"].map(Into::into).into();
        options.push(format!("trace={names}").into());
        options.extend(self.strace_options());
        if let Some(path) = &self.path {
            options.extend(["-P".into(), path.clone().into_os_string()]);
            let real = resolve_parent(path)?;
            if real != *path {
                options.extend(["-P".into(), real.into_os_string()]);
            }
        }
        let traced = strace_run::run_traced(command, &options, self.limit)?;
        let injections = traced.read_log()?.lines().filter_map(parse_injection).collect();
        let strace_run::TracedRun { stdout, stderr, status, .. } = traced;
        Ok(FaultRun { stdout, stderr, status, injections })
    }
}

/// Resolves the directory of a file that may not exist.
fn resolve_parent(path: &Path) -> io::Result<PathBuf> {
    match (path.parent().filter(|dir| !dir.as_os_str().is_empty()), path.file_name()) {
        (Some(dir), Some(name)) => Ok(fs_err::canonicalize(dir)?.join(name)),
        (None, _) | (_, None) => fs_err::canonicalize(path),
    }
}

/// Why a run with faults gave no result.
#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    /// The program could not be run under strace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A file of the run could not be read.
    #[error("the run under faults could not be set up or read")]
    Io(#[from] io::Error),
    /// The program ran and no call was hit: the test would prove nothing.
    #[error("the fault never fired; the program ended with {status} and said: {stderr}")]
    NeverFired {
        /// How the program ended.
        status: ExitStatus,
        /// What it wrote to its standard error.
        stderr: String,
    },
}

/// One call that was hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    /// The thread that made the call.
    pub thread: u32,
    /// The name of the call.
    pub call: String,
    /// The line of the log, for messages.
    pub line: String,
}

/// What became of a program under faults.
#[derive(Debug)]
pub struct FaultRun {
    /// All it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// All it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// How it ended.
    pub status: ExitStatus,
    /// The calls that were hit, in order.
    pub injections: Vec<Injection>,
}

impl FaultRun {
    /// How many calls were hit.
    #[must_use]
    pub fn injection_count(&self) -> usize {
        self.injections.len()
    }

    /// Passes the run on if at least one call was hit.
    ///
    /// # Errors
    ///
    /// [`FaultError::NeverFired`].
    pub fn require_fired(self) -> Result<Self, FaultError> {
        if self.injections.is_empty() {
            let stderr = String::from_utf8_lossy(&self.stderr).into_owned();
            return Err(FaultError::NeverFired { status: self.status, stderr });
        }
        Ok(self)
    }

    /// The complete lines of the standard output.
    #[must_use]
    pub fn acknowledged(&self) -> Vec<String> {
        complete_lines(&self.stdout)
    }
}

fn parse_injection(line: &str) -> Option<Injection> {
    if !line.ends_with("(INJECTED)") {
        return None;
    }
    let (thread, rest) = line.split_once(' ')?;
    let rest = rest.trim_start();
    let call = match rest.strip_prefix("<... ") {
        Some(resumed) => resumed.split_once(' ')?.0,
        None => rest.split_once('(')?.0,
    };
    Some(Injection { thread: thread.parse().ok()?, call: call.to_owned(), line: line.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_is_formatted_as_strace_expression() {
        let fault = Fault::new(Syscall::Fsync).and(Syscall::Write).error(Errno::Enospc);
        assert_eq!(fault.strace_expression(), "inject=fsync,write:error=ENOSPC");
        assert_eq!(
            fault.clone().when(3).strace_expression(),
            "inject=fsync,write:error=ENOSPC:when=3"
        );
        assert_eq!(
            fault.returns(0).when_from(2).strace_expression(),
            "inject=fsync,write:retval=0:when=2+"
        );
        let kill = Fault::new(Syscall::Pwrite).kills().when(4);
        assert_eq!(kill.strace_expression(), "inject=pwrite64:signal=SIGKILL:when=4");
    }

    #[test]
    fn injections_are_parsed_from_whole_and_resumed_lines() {
        let whole =
            parse_injection("12  fsync(3)   = -1 EIO (Input/output error) (INJECTED)").unwrap();
        assert_eq!((whole.thread, whole.call.as_str()), (12, "fsync"));
        let resumed = parse_injection("7 <... fdatasync resumed>) = 0 (INJECTED)").unwrap();
        assert_eq!((resumed.thread, resumed.call.as_str()), (7, "fdatasync"));
        assert_eq!(parse_injection("12  fsync(3)  = -1 EIO (Input/output error)"), None);
    }
}
