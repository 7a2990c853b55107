//! One way to start `git`: a fixed environment, fixed settings, a time limit and a size limit.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read};
use rustix::process::{Pid, Signal, kill_process_group};

use super::error::GitError;
use crate::deadline::Deadline;
use crate::exit::Exit;
use crate::umask::with_user_mask;

/// Settings that stand above those of every repository and user.
const SETTINGS: [&str; 20] = [
    // No program of a repository is started.
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=false",
    "core.gitProxy=false",
    "core.editor=false",
    "sequence.editor=false",
    "core.pager=cat",
    "core.askPass=false",
    "credential.helper=",
    "diff.external=",
    "commit.gpgSign=false",
    "gpg.program=false",
    // Nothing is fetched, and nothing runs on behind our back.
    "protocol.allow=never",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    // Answers look the same everywhere.
    "core.quotePath=false",
    "color.ui=false",
    "advice.detachedHead=false",
    "checkout.defaultRemote=",
];

/// What `git` is told of its surroundings; everything else is left out.
#[derive(Clone, Debug, Default)]
pub struct GitEnvironment {
    /// Where programs are.
    pub path: OsString,
    /// The home of the user, whose own settings count; without it only the repository's do.
    pub home: Option<OsString>,
    /// The folder of the user's settings, where it is not below the home.
    pub config_home: Option<OsString>,
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// The longest one command may take.
    pub time: Duration,
    /// The most one command may write, output and errors each.
    pub output: usize,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self { time: Duration::from_secs(120), output: 64 << 20 }
    }
}

/// Whether the programs that repositories put between files and their contents may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filters {
    /// They do not: a file that lives elsewhere (LFS) is checked out as its pointer.
    #[default]
    Off,
    /// They do, as the user's own `git` would.
    On,
}

/// `git` in one directory.
#[derive(Debug)]
pub struct Git {
    dir: PathBuf,
    env: GitEnvironment,
    limits: GitLimits,
    filters: Filters,
    /// The filters that are defined, each to be switched off by name.
    defined: OnceLock<Vec<OsString>>,
}

impl Git {
    /// `git` in a directory, which need not be a repository yet.
    pub fn new(dir: impl Into<PathBuf>, env: GitEnvironment) -> Self {
        Self {
            dir: dir.into(),
            env,
            limits: GitLimits::default(),
            filters: Filters::Off,
            defined: OnceLock::new(),
        }
    }

    /// Sets other limits.
    #[must_use]
    pub fn limits(mut self, limits: GitLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Says whether filters may run.
    #[must_use]
    pub fn filters(mut self, filters: Filters) -> Self {
        self.filters = filters;
        self
    }

    /// The directory it runs in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs `git`, and returns what it wrote if it succeeded.
    pub(super) fn run<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Vec<u8>, GitError> {
        self.ask(args)?.success(args)
    }

    /// Runs `git` on files, with their filters switched off unless they are wanted.
    pub(super) fn run_on_files<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Vec<u8>, GitError> {
        let mut all = self.without_filters()?;
        let settings = all.len();
        all.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self.ask(&all)?.success(all.get(settings..).unwrap_or_default())
    }

    /// Runs `git` and returns its answer, whatever it is.
    pub(super) fn ask<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Answer, GitError> {
        let start = |source: io::Error| GitError::Start { dir: self.dir.clone(), source };
        if let Err(source) = fs_err::metadata(&self.dir) {
            return Err(start(source));
        }
        let child = with_user_mask(|| self.command(args).spawn()).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound { GitError::Missing } else { start(error) }
        })?;
        let mut child = Guard(child);
        let answer = child.collect(self.limits, &subcommand(args))?;
        answer.map_err(start)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts git")]
    fn command<T: AsRef<OsStr>>(&self, args: &[T]) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        command.env("PATH", &self.env.path).env("LC_ALL", "C").env("TERM", "dumb");
        for (name, value) in [("HOME", &self.env.home), ("XDG_CONFIG_HOME", &self.env.config_home)]
        {
            command.envs(value.as_ref().map(|value| (name, value)));
        }
        command.envs([
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_PAGER", "cat"),
            ("GIT_EDITOR", "false"),
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_ATTR_NOSYSTEM", "1"),
        ]);
        command.args(["--no-pager", "--literal-pathspecs"]);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.args(args).current_dir(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }

    /// Returns the settings that switch off every filter that is defined anywhere.
    fn without_filters(&self) -> Result<Vec<OsString>, GitError> {
        if self.filters == Filters::On {
            return Ok(Vec::new());
        }
        if let Some(known) = self.defined.get() {
            return Ok(known.clone());
        }
        let args = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."];
        let answer = self.ask(&args)?;
        let names = match answer.exit {
            Exit::Code(0) => answer.stdout,
            // Code 1 is "there is none".
            Exit::Code(1) => Vec::new(),
            Exit::Code(_) | Exit::Signal(_) => return Err(answer.refusal(&args)),
        };
        let settings: Vec<OsString> = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .flat_map(|name| [OsString::from("-c"), switched_off(name)])
            .collect();
        Ok(self.defined.get_or_init(|| settings).clone())
    }
}

/// `filter.X.smudge` and its like without a program; `filter.X.required` is not required.
fn switched_off(name: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let mut setting = OsStr::from_bytes(name).to_owned();
    setting.push(if name.ends_with(b".required") { "=false" } else { "=" });
    setting
}

/// The words of a command that tell it from others, for messages.
fn subcommand<T: AsRef<OsStr>>(args: &[T]) -> String {
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    // Settings come in pairs before the subcommand.
    let first = words.iter().enumerate().position(|(at, word)| at % 2 == 0 && word != "-c");
    let first = first.unwrap_or_default();
    let second =
        words.get(first + 1).filter(|_| words.get(first).is_some_and(|it| it == "worktree"));
    let all = words.get(first).into_iter().chain(second);
    all.map(AsRef::as_ref).collect::<Vec<_>>().join(" ")
}

/// What `git` said.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) exit: Exit,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Answer {
    /// What it wrote, if it succeeded.
    fn success<T: AsRef<OsStr>>(self, args: &[T]) -> Result<Vec<u8>, GitError> {
        if self.exit.is_success() { Ok(self.stdout) } else { Err(self.refusal(args)) }
    }

    pub(super) fn refusal<T: AsRef<OsStr>>(self, args: &[T]) -> GitError {
        let stderr = String::from_utf8_lossy(&self.stderr).trim_end().to_owned();
        GitError::Failed { command: subcommand(args), exit: self.exit, stderr }
    }
}

/// A child that is killed with its group if nobody waits for it to the end.
struct Guard(Child);

impl Guard {
    /// Reads both streams and waits, within the limits.
    fn collect(
        &mut self,
        limits: GitLimits,
        command: &str,
    ) -> Result<io::Result<Answer>, GitError> {
        let (stdout, stderr) = (self.0.stdout.take(), self.0.stderr.take());
        let streams = [stdout.map(OwnedFd::from), stderr.map(OwnedFd::from)];
        let mut streams = streams.map(|fd| Stream { fd, bytes: Vec::new() });
        let deadline = Deadline::after(limits.time);
        let [out, err] = &mut streams;
        for stream in [&*out, &*err] {
            if let Err(error) = stream.unblock() {
                return Ok(Err(error));
            }
        }
        while out.fd.is_some() || err.fd.is_some() {
            if deadline.is_over() {
                let command = command.to_owned();
                return Err(GitError::TimedOut { command, limit: limits.time });
            }
            if let Err(error) = read_both(out, err, deadline) {
                return Ok(Err(error));
            }
            if out.bytes.len().max(err.bytes.len()) > limits.output {
                let command = command.to_owned();
                return Err(GitError::TooMuch { command, limit: limits.output });
            }
        }
        let [out, err] = streams;
        Ok(self.wait().map(|exit| Answer { exit, stdout: out.bytes, stderr: err.bytes }))
    }

    fn wait(&mut self) -> io::Result<Exit> {
        Ok(exit_of(self.0.wait()?))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
                kill_process_group(group, Signal::KILL).ok();
            }
            self.0.wait().ok();
        }
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, signal) => Exit::Signal(signal.unwrap_or_default()),
    }
}

/// One stream of a child; closed once it has ended.
struct Stream {
    fd: Option<OwnedFd>,
    bytes: Vec<u8>,
}

impl Stream {
    fn unblock(&self) -> io::Result<()> {
        if let Some(fd) = &self.fd {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(())
    }

    fn take(&mut self) -> io::Result<()> {
        let Some(fd) = &self.fd else { return Ok(()) };
        let mut buffer = [0; 16 << 10];
        match read(fd.as_fd(), &mut buffer) {
            Ok(0) => self.fd = None,
            Ok(count) => self.bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}

fn read_both(out: &mut Stream, err: &mut Stream, deadline: Deadline) -> io::Result<()> {
    {
        let open = [&out.fd, &err.fd].into_iter().flatten();
        let mut fds: Vec<_> = open.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        match poll(&mut fds, deadline.timespec().as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    out.take()?;
    err.take()
}
