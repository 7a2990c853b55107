//! The one place that starts git: a fixed environment, a time limit and a size limit.

use std::ffi::OsStr;
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
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};

use super::configuration::Configuration;
use super::environment::{ConfigurationSource, GitEnvironment, git_environment};
use super::error::GitError;
use super::isolation::IsolatedCommonDir;
use super::program::{find_program, require_version};
use super::repository::GitRepository;
use crate::deadline::Deadline;
use crate::exit::Exit;
use crate::umask::with_user_mask;

/// The most memory one command may allocate, in bytes: a repository may make git read a device or a huge
/// file whole.
const MEMORY: u64 = 1 << 30;

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

/// Git in one repository, which the caller has found and verified.
#[derive(Debug)]
pub struct Git {
    repository: GitRepository,
    env: GitEnvironment,
    limits: GitLimits,
    /// Read when the first command needs it.
    configuration: OnceLock<Configuration>,
    isolated: OnceLock<IsolatedCommonDir>,
}

impl Git {
    /// Git in a repository. Nothing is started or checked yet.
    pub fn new(repository: GitRepository, env: GitEnvironment) -> Self {
        Self {
            repository,
            env,
            limits: GitLimits::default(),
            configuration: OnceLock::new(),
            isolated: OnceLock::new(),
        }
    }

    /// Sets other limits.
    #[must_use]
    pub fn limits(mut self, limits: GitLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The repository it works on.
    pub fn repository(&self) -> &GitRepository {
        &self.repository
    }

    /// Git in a linked worktree of the same repository that has just been created.
    pub(super) fn in_linked_worktree(&self, path: &Path) -> Result<Self, GitError> {
        let repository = self.repository.linked_worktree(path)?;
        Ok(Self::new(repository, self.env.clone()).limits(self.limits))
    }

    /// Runs git without the repository's configuration, and returns what it wrote if it succeeded.
    pub(super) fn run<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Vec<u8>, GitError> {
        self.ask(args)?.success(args)
    }

    /// Runs git without the repository's configuration and returns its answer, whatever it is.
    pub(super) fn ask<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Answer, GitError> {
        let settings = self.configuration()?.passed();
        let common_dir = self.isolated_common_dir()?.path();
        let repository = &self.repository;
        let source = ConfigurationSource::Isolated { repository, common_dir, settings: &settings };
        self.start(source, args)
    }

    /// Runs git with the repository's configuration, without the programs it names.
    ///
    /// Only for commands that manage worktrees: they need the real shared folder, and they neither read
    /// nor write the content of files.
    pub(super) fn manage<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Vec<u8>, GitError> {
        let settings = self.configuration()?.neutralized();
        let source =
            ConfigurationSource::Files { repository: &self.repository, settings: &settings };
        self.start(source, args)?.success(args)
    }

    /// The settings that count here, as git reads them. Listing them starts no program.
    pub(super) fn configuration(&self) -> Result<&Configuration, GitError> {
        if let Some(known) = self.configuration.get() {
            return Ok(known);
        }
        let args = ["config", "--list", "--includes", "--show-scope", "-z"];
        let source = ConfigurationSource::Files { repository: &self.repository, settings: &[] };
        let answer = self.start(source, &args)?;
        // Git skips the settings of a repository whose format it does not know, and only warns.
        if !answer.stderr.is_empty() {
            return Err(answer.refusal(&args));
        }
        let found = Configuration::parse(&answer.success(&args)?)?;
        Ok(self.configuration.get_or_init(|| found))
    }

    fn isolated_common_dir(&self) -> Result<&IsolatedCommonDir, GitError> {
        if let Some(known) = self.isolated.get() {
            return Ok(known);
        }
        let format_file = self.configuration()?.format_file()?;
        let created = IsolatedCommonDir::create(&self.repository.common_dir, &format_file);
        let created = created.map_err(|source| self.not_started(source))?;
        Ok(self.isolated.get_or_init(|| created))
    }

    fn not_started(&self, source: io::Error) -> GitError {
        GitError::Start { dir: self.repository.worktree.clone(), source }
    }

    fn start<T: AsRef<OsStr>>(
        &self,
        source: ConfigurationSource<'_>,
        args: &[T],
    ) -> Result<Answer, GitError> {
        let dir = &self.repository.worktree;
        if let Err(source) = fs_err::metadata(dir) {
            return Err(self.not_started(source));
        }
        let program = find_program(&self.env.path)?;
        find_version(&program, &self.env, self.limits)?;
        let started = Started { program: &program, env: &self.env, dir, limits: self.limits };
        started.answer(source, args)
    }
}

/// Returns the version of git, as in `2.47.3`.
///
/// # Errors
///
/// [`GitError::Missing`] if there is no git, [`GitError::TooOld`] if it cannot be used.
pub fn git_version(env: &GitEnvironment) -> Result<String, GitError> {
    find_version(&find_program(&env.path)?, env, GitLimits::default())
}

fn find_version(
    program: &PathBuf,
    env: &GitEnvironment,
    limits: GitLimits,
) -> Result<String, GitError> {
    let args = ["version"];
    let started = Started { program, env, dir: Path::new("/"), limits };
    let ask = || started.answer(ConfigurationSource::Nothing, &args)?.success(&args);
    require_version(program, ask)
}

/// One git process: which program, where, and within which limits.
struct Started<'a> {
    program: &'a Path,
    env: &'a GitEnvironment,
    dir: &'a Path,
    limits: GitLimits,
}

impl Started<'_> {
    fn answer<T: AsRef<OsStr>>(
        &self,
        source: ConfigurationSource<'_>,
        args: &[T],
    ) -> Result<Answer, GitError> {
        let failed = |source: io::Error| GitError::Start { dir: self.dir.to_owned(), source };
        let child = with_user_mask(|| self.command(source, args).spawn()).map_err(failed)?;
        let mut child = Guard(child);
        child.limit_memory().map_err(failed)?;
        let answer = child.collect(self.limits, &subcommand(args))?;
        answer.map_err(failed)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts git")]
    fn command<T: AsRef<OsStr>>(&self, source: ConfigurationSource<'_>, args: &[T]) -> Command {
        let mut command = Command::new(self.program);
        command.env_clear().envs(git_environment(self.env, source));
        command.arg("--no-pager").args(args).current_dir(self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }
}

/// The words of a command that tell it from others, for messages.
fn subcommand<T: AsRef<OsStr>>(args: &[T]) -> String {
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    let count = if words.first().is_some_and(|word| word == "worktree") { 2 } else { 1 };
    words.iter().take(count).map(AsRef::as_ref).collect::<Vec<_>>().join(" ")
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
    /// Bounds what the process may allocate; files it maps do not count.
    fn limit_memory(&self) -> io::Result<()> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
        match prlimit(pid, Resource::Data, limit) {
            // It has ended already.
            Ok(_) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

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
