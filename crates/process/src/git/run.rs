//! The one place that starts git: a fixed environment, a time limit and a size limit.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::cancellation::Cancellations;
use super::child::{GitChild, GitLimits};
use super::concurrency::CommandSlot;
use super::configuration::GitConfiguration;
use super::environment::{ConfigurationSource, GitEnvironment, git_environment};
use super::error::GitError;
use super::history::GitHistory;
use super::included_files::{ResolvedPath, check_included_files, expanded_by_git_error, resolve};
use super::isolation::IsolatedCommonDir;
use super::program::{find_program, require_version};
use super::repository::GitRepository;
use super::repository_check::{check_repository_files, check_text_file};
use super::worktrees::GitWorktrees;
use crate::exit::CommandExit;
use crate::umask::with_user_mask;

/// The most memory one command may allocate, in bytes: a repository may make git read a device or a huge
/// file whole.
const MAX_MEMORY_BYTES: u64 = 1 << 30;

/// Git in one repository, which the caller has found and verified.
#[derive(Debug)]
pub struct Git {
    repository: GitRepository,
    env: GitEnvironment,
    limits: GitLimits,
    /// Set once the files of the repository have been looked at.
    checked: OnceLock<()>,
    /// Read when the first command needs it.
    configuration: OnceLock<GitConfiguration>,
    isolated: OnceLock<IsolatedCommonDir>,
}

impl Git {
    /// Git in a repository. Nothing is started or checked yet.
    pub fn new(repository: GitRepository, env: GitEnvironment) -> Self {
        Self {
            repository,
            env,
            limits: GitLimits::default(),
            checked: OnceLock::new(),
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

    /// The worktrees of the repository.
    pub fn worktrees(&self) -> GitWorktrees<'_> {
        GitWorktrees { git: self }
    }

    /// The commits and branches of the repository.
    pub fn history(&self) -> GitHistory<'_> {
        GitHistory { git: self }
    }

    /// Git in a linked worktree of the same repository that has just been created.
    pub(super) fn in_linked_worktree(&self, path: &Path) -> Result<Self, GitError> {
        let repository = self.repository.linked_worktree(path)?;
        Ok(Self::new(repository, self.env.clone()).limits(self.limits))
    }

    /// Runs git without the repository's configuration, and returns what it wrote if it succeeded.
    pub(super) fn run<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<Vec<u8>, GitError> {
        self.run_isolated(args)?.into_stdout(args)
    }

    /// Runs git without the repository's configuration and returns its answer, whatever it is.
    pub(super) fn run_isolated<T: AsRef<OsStr>>(&self, args: &[T]) -> Result<GitOutput, GitError> {
        let settings = self.configuration()?.passed_settings();
        let common_dir = self.isolated_common_dir()?.path();
        let repository = &self.repository;
        let source = ConfigurationSource::Isolated { repository, common_dir, settings: &settings };
        self.run_git(source, args)
    }

    /// Runs git with the repository's configuration, without the programs it names.
    ///
    /// Only for commands that manage worktrees: they need the real shared folder, and they neither read
    /// nor write the content of files.
    pub(super) fn run_with_configuration<T: AsRef<OsStr>>(
        &self,
        args: &[T],
    ) -> Result<Vec<u8>, GitError> {
        let settings = self.configuration()?.neutralizing_settings();
        let source =
            ConfigurationSource::Files { repository: &self.repository, settings: &settings };
        self.run_git(source, args)?.into_stdout(args)
    }

    /// The settings that count here, as git reads them. Listing them starts no program.
    pub(super) fn configuration(&self) -> Result<&GitConfiguration, GitError> {
        if let Some(known) = self.configuration.get() {
            return Ok(known);
        }
        self.check_included_files()?;
        let args = ["config", "--list", "--includes", "--show-scope", "-z"];
        let source = ConfigurationSource::Files { repository: &self.repository, settings: &[] };
        let answer = self.run_git(source, &args)?;
        // Git skips the settings of a repository whose format it does not know, and only warns.
        if !answer.stderr.is_empty() {
            return Err(answer.into_error(&args));
        }
        let found = GitConfiguration::parse(&answer.into_stdout(&args)?)?;
        self.check_configured_files(&found)?;
        Ok(self.configuration.get_or_init(|| found))
    }

    /// Checks what the repository's configuration includes, before git opens it.
    fn check_included_files(&self) -> Result<(), GitError> {
        let GitRepository { git_dir, common_dir, .. } = &self.repository;
        let files =
            [common_dir.join("config"), git_dir.join("config"), git_dir.join("config.worktree")];
        check_included_files(files, self.home(), |file| {
            let list = ["--no-includes", "--list", "-z"].map(OsStr::new);
            let file = [OsStr::new("config"), OsStr::new("--file"), file.as_os_str()];
            let args = [&file[..], &list[..]].concat();
            self.run_git(ConfigurationSource::Nothing, &args)?.into_stdout(&args)
        })
    }

    /// Checks the files that settings name, before git opens them.
    fn check_configured_files(&self, configuration: &GitConfiguration) -> Result<(), GitError> {
        let files = ["core.attributesfile", "core.excludesfile"];
        for (value, is_local) in files.iter().filter_map(|key| configuration.value_and_origin(key))
        {
            match resolve(value, &self.repository.worktree, self.home()) {
                ResolvedPath::File(path) => check_text_file(&path)?,
                ResolvedPath::ExpandedByGit if is_local => {
                    return Err(expanded_by_git_error(value));
                }
                ResolvedPath::NoHome | ResolvedPath::ExpandedByGit => {}
            }
        }
        Ok(())
    }

    fn home(&self) -> Option<&Path> {
        self.env.home.as_deref().map(Path::new)
    }

    fn isolated_common_dir(&self) -> Result<&IsolatedCommonDir, GitError> {
        if let Some(known) = self.isolated.get() {
            return Ok(known);
        }
        let format_file = self.configuration()?.format_file()?;
        let created = IsolatedCommonDir::create(&self.repository.common_dir, &format_file);
        let created = created.map_err(|source| self.start_error(source))?;
        Ok(self.isolated.get_or_init(|| created))
    }

    fn start_error(&self, source: io::Error) -> GitError {
        GitError::Start { dir: self.repository.worktree.clone(), source }
    }

    fn run_git<T: AsRef<OsStr>>(
        &self,
        source: ConfigurationSource<'_>,
        args: &[T],
    ) -> Result<GitOutput, GitError> {
        let dir = &self.repository.worktree;
        if let Err(source) = fs_err::metadata(dir) {
            return Err(self.start_error(source));
        }
        if self.checked.get().is_none() {
            check_repository_files(&self.repository)?;
            self.checked.get_or_init(|| ());
        }
        let program = find_program(&self.env.path)?;
        find_version(&program, &self.env, self.limits)?;
        let started = GitProcess { program: &program, env: &self.env, dir, limits: self.limits };
        let cancellations = Cancellations::current();
        let (common_dir, patience) = (&self.repository.common_dir, self.limits.time);
        let command = subcommand_name(args);
        let _slot = CommandSlot::acquire(common_dir, patience, &cancellations, &command)?;
        started.run(source, args, &cancellations)
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
    let started = GitProcess { program, env, dir: Path::new("/"), limits };
    let ask = || {
        let cancellations = Cancellations::current();
        started.run(ConfigurationSource::Nothing, &args, &cancellations)?.into_stdout(&args)
    };
    require_version(program, ask)
}

/// One git process: which program, where, and within which limits.
struct GitProcess<'a> {
    program: &'a Path,
    env: &'a GitEnvironment,
    dir: &'a Path,
    limits: GitLimits,
}

impl GitProcess<'_> {
    fn run<T: AsRef<OsStr>>(
        &self,
        source: ConfigurationSource<'_>,
        args: &[T],
        cancellations: &Cancellations,
    ) -> Result<GitOutput, GitError> {
        let command = subcommand_name(args);
        if cancellations.is_cancelled() {
            return Err(GitError::Cancelled { command });
        }
        let failed = |source: io::Error| GitError::Start { dir: self.dir.to_owned(), source };
        let child = with_user_mask(|| self.command(source, args).spawn()).map_err(failed)?;
        let mut child = GitChild::new(child, cancellations);
        let answer = child.collect(self.limits, &command)?;
        answer.map_err(failed)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts git")]
    fn command<T: AsRef<OsStr>>(&self, source: ConfigurationSource<'_>, args: &[T]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(limited_start()).arg(self.program);
        command.env_clear().envs(git_environment(self.env, source));
        command.arg("--no-pager").args(args).current_dir(self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }
}

/// The shell line that limits its own memory and then becomes git.
///
/// Set from outside, the limit could come after git has allocated what a hostile file makes it allocate.
/// A lower limit that is already in force stays.
fn limited_start() -> String {
    format!("ulimit -d {} 2>/dev/null; exec \"$0\" \"$@\"", MAX_MEMORY_BYTES / 1024)
}

/// The words of a command that tell it from others, for messages.
fn subcommand_name<T: AsRef<OsStr>>(args: &[T]) -> String {
    let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
    let count = if words.first().is_some_and(|word| word == "worktree") { 2 } else { 1 };
    words.iter().take(count).map(AsRef::as_ref).collect::<Vec<_>>().join(" ")
}

/// What `git` said.
#[derive(Debug)]
pub(super) struct GitOutput {
    pub(super) exit: CommandExit,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl GitOutput {
    /// What it wrote, if it succeeded.
    fn into_stdout<T: AsRef<OsStr>>(self, args: &[T]) -> Result<Vec<u8>, GitError> {
        if self.exit.is_success() { Ok(self.stdout) } else { Err(self.into_error(args)) }
    }

    pub(super) fn into_error<T: AsRef<OsStr>>(self, args: &[T]) -> GitError {
        let stderr = String::from_utf8_lossy(&self.stderr).trim_end().to_owned();
        GitError::Failed { command: subcommand_name(args), exit: self.exit, stderr }
    }
}
