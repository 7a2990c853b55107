//! OpenCode's snapshots: the git commands its HEAD runs, in its order, with its configuration.
//!
//! What it does besides git is done here as well where it touches files (seeding, excludes, sizes of
//! candidates); its work in JavaScript is left out, in its favour.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::git_process;
use crate::Fallible;

const CORE_OPTIONS: [&str; 4] = ["-c", "core.longpaths=true", "-c", "core.symlinks=true"];
const NO_CRLF_OPTIONS: [&str; 2] = ["-c", "core.autocrlf=false"];
const NO_QUOTES_OPTIONS: [&str; 2] = ["-c", "core.quotepath=false"];
/// What it sets in a new snapshot repository, one process each.
const REPOSITORY_CONFIG: [(&str, &str); 8] = [
    ("core.autocrlf", "false"),
    ("core.longpaths", "true"),
    ("core.symlinks", "true"),
    ("core.fsmonitor", "false"),
    ("feature.manyFiles", "true"),
    ("index.version", "4"),
    ("index.threads", "true"),
    ("core.untrackedCache", "true"),
];
/// Untracked files with more bytes are left out.
const MAX_UNTRACKED_BYTES: u64 = 2_097_152;
/// Files it reads or reverts with one command.
const FILES_PER_COMMAND: usize = 100;

/// Which options stand before a command.
#[derive(Clone, Copy)]
enum GitOptionSet {
    None,
    Core,
    NoCrlf,
    NoQuotes,
}

/// The snapshot repository of one worktree.
pub(crate) struct OpenCodeGit {
    git_dir: PathBuf,
    tree: PathBuf,
    limit: Duration,
    spawned: AtomicUsize,
}

/// What a command is given, and whether an exit code says that it failed.
struct GitCall<'a> {
    flags: GitOptionSet,
    args: Vec<&'a str>,
    input: Option<&'a [u8]>,
}

impl OpenCodeGit {
    pub(crate) fn new(git_dir: &Path, tree: &Path, limit: Duration) -> Self {
        let (git_dir, tree) = (git_dir.to_owned(), tree.to_owned());
        Self { git_dir, tree, limit, spawned: AtomicUsize::new(0) }
    }

    /// How many processes were started since this was last asked.
    pub(crate) fn take_spawned(&self) -> usize {
        self.spawned.swap(0, Ordering::Relaxed)
    }

    /// Removes the lock that a command left when it was stopped.
    pub(crate) fn unlock(&self) -> Fallible {
        match fs_err::remove_file(self.git_dir.join("index.lock")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// `track()`: the snapshot repository made if there is none, staging, `write-tree`.
    pub(crate) fn track(&self) -> Fallible<String> {
        if !self.git_dir.try_exists()? {
            self.init()?;
        }
        self.stage()?;
        let printed = self.run_git(GitCall {
            flags: GitOptionSet::None,
            args: vec!["write-tree"],
            input: None,
        })?;
        Ok(String::from_utf8(printed)?.trim().to_owned())
    }

    fn init(&self) -> Fallible {
        fs_err::create_dir_all(&self.git_dir)?;
        let mut init = git_process::git_command(&self.tree);
        init.arg("init").env("GIT_DIR", &self.git_dir).env("GIT_WORK_TREE", &self.tree);
        self.run_checked(init, None)?;
        for (key, value) in REPOSITORY_CONFIG {
            let mut config = git_process::git_command(&self.tree);
            config.arg("--git-dir").arg(&self.git_dir).args(["config", key, value]);
            self.run_checked(config, None)?;
        }
        let source = PathBuf::from(self.rev_parse(&["--git-common-dir"])?);
        let objects = source.join("objects");
        let borrowed = fs_err::read_to_string(objects.join("info/alternates")).unwrap_or_default();
        let lines = [objects.display().to_string()];
        let lines = lines.into_iter().chain(borrowed.lines().map(str::to_owned));
        let text: String =
            lines.filter(|line| Path::new(line).exists()).map(|line| line + "\n").collect();
        fs_err::write(self.git_dir.join("objects/info/alternates"), text)?;
        // A repository without a commit has no index; that is no error.
        fs_err::copy(source.join("index"), self.git_dir.join("index")).ok();
        Ok(())
    }

    /// `add()`: the staging step of everything that looks at the worktree.
    fn stage(&self) -> Fallible {
        self.sync_excludes(&[])?;
        let dirty = ["diff-files", "--name-only", "-z", "--", "."];
        let others = ["ls-files", "--full-name", "--others", "--exclude-standard", "-z", "--", "."];
        let (changed, untracked) = self.list_candidates(&dirty, &others)?;
        let (changed, untracked) = (split_nul(&changed)?, split_nul(&untracked)?);
        let is_untracked: BTreeSet<&str> = untracked.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        let all = changed.iter().chain(&untracked);
        let candidates: Vec<&str> = all.map(String::as_str).filter(|it| seen.insert(*it)).collect();
        if candidates.is_empty() {
            return Ok(());
        }
        let ignored = self.filter_ignored(&candidates)?;
        let (out, rest): (Vec<&str>, Vec<&str>) =
            candidates.into_iter().partition(|path| ignored.contains(*path));
        let from_input = ["--pathspec-from-file=-", "--pathspec-file-nul"];
        if !out.is_empty() {
            let args = [&["rm", "--cached", "-f", "--ignore-unmatch"][..], &from_input].concat();
            self.run_git(GitCall {
                flags: GitOptionSet::NoCrlf,
                args,
                input: Some(&literal_pathspecs(&out)),
            })?;
        }
        let is_large = |path: &&&str| {
            let size = fs_err::metadata(self.tree.join(path)).map_or(0, |meta| meta.len());
            is_untracked.contains(**path) && size > MAX_UNTRACKED_BYTES
        };
        let large: Vec<&str> = rest.iter().filter(is_large).copied().collect();
        self.sync_excludes(&large)?;
        let kept: Vec<&str> = rest.into_iter().filter(|path| !large.contains(path)).collect();
        let args = [&["add", "--all", "--sparse"][..], &from_input].concat();
        self.run_git(GitCall {
            flags: GitOptionSet::NoCrlf,
            args,
            input: Some(&literal_pathspecs(&kept)),
        })?;
        Ok(())
    }

    /// Runs the two commands that find candidates concurrently.
    fn list_candidates(&self, one: &[&str], other: &[&str]) -> Fallible<(Vec<u8>, Vec<u8>)> {
        let ask = |args: &[&str]| (self.command(GitOptionSet::NoQuotes, args), self.limit);
        let ((one, limit), (other, _)) = (ask(one), ask(other));
        self.spawned.fetch_add(2, Ordering::Relaxed);
        let (one, other) = std::thread::scope(|scope| {
            let concurrent = scope.spawn(move || {
                git_process::run_with_limit(one, None, limit).map_err(|error| error.to_string())
            });
            let other = git_process::run_with_limit(other, None, limit);
            (concurrent.join(), other)
        });
        let (status, one) = one.map_err(|_| "a thread panicked")??;
        let (second, other) = other?;
        if !status.success() || !second.success() {
            return Err("the peer could not list its candidates".into());
        }
        Ok((one, other))
    }

    fn sync_excludes(&self, large: &[&str]) -> Fallible {
        let source = self.rev_parse(&["--git-path", "info/exclude"])?;
        let text = fs_err::read_to_string(source).unwrap_or_default();
        let mut text = text.trim_end().to_owned();
        large.iter().for_each(|path| text.push_str(&format!("\n/{path}")));
        fs_err::create_dir_all(self.git_dir.join("info"))?;
        Ok(fs_err::write(self.git_dir.join("info/exclude"), text + "\n")?)
    }

    /// Which of the paths the rules of the user's repository ignore.
    fn filter_ignored(&self, paths: &[&str]) -> Fallible<BTreeSet<String>> {
        let mut check = git_process::git_command(&self.tree);
        check.args(NO_CRLF_OPTIONS).args(CORE_OPTIONS).args(NO_QUOTES_OPTIONS);
        check.arg("--git-dir").arg(self.tree.join(".git")).arg("--work-tree").arg(&self.tree);
        check.args(["check-ignore", "--no-index", "--stdin", "-z"]);
        let input: Vec<u8> =
            paths.iter().flat_map(|path| format!("{path}\0").into_bytes()).collect();
        self.spawned.fetch_add(1, Ordering::Relaxed);
        // It says 1 if it ignores nothing.
        let (_, printed) = git_process::run_with_limit(check, Some(&input), self.limit)?;
        Ok(split_nul(&printed)?.into_iter().collect())
    }

    /// `diff(hash)`: staging, then the difference of the index to a tree.
    pub(crate) fn diff(&self, hash: &str) -> Fallible<usize> {
        self.stage()?;
        let args = vec!["diff", "--cached", "--no-ext-diff", hash, "--", "."];
        Ok(self.run_git(GitCall { flags: GitOptionSet::NoQuotes, args, input: None })?.len())
    }

    /// `patch(hash)`: staging, then which files of the index differ from a tree.
    pub(crate) fn patch(&self, hash: &str) -> Fallible<usize> {
        self.stage()?;
        let args = vec!["diff", "--cached", "--no-ext-diff", "--name-only", hash, "--", "."];
        let printed = self.run_git(GitCall { flags: GitOptionSet::NoQuotes, args, input: None })?;
        let text = String::from_utf8(printed)?;
        let paths: Vec<&str> = text.lines().collect();
        if !paths.is_empty() {
            self.filter_ignored(&paths)?;
        }
        Ok(paths.len())
    }

    /// `diffFull(from, to)`, its git part: which files, how many lines, and both sides of each.
    pub(crate) fn diff_full(&self, from: &str, to: &str) -> Fallible<usize> {
        let base = ["diff", "--no-ext-diff"];
        let status = [&base[..], &["--name-status", "--no-renames", from, to, "--", "."]].concat();
        let printed =
            self.run_git(GitCall { flags: GitOptionSet::NoQuotes, args: status, input: None })?;
        let counts = [&base[..], &["--no-renames", "--numstat", from, to, "--", "."]].concat();
        self.run_git(GitCall { flags: GitOptionSet::NoQuotes, args: counts, input: None })?;
        let text = String::from_utf8(printed)?;
        let rows: Vec<(&str, &str)> = text.lines().filter_map(|row| row.split_once('\t')).collect();
        let paths: Vec<&str> = rows.iter().map(|(_, path)| *path).collect();
        self.filter_ignored(&paths)?;
        for run in rows.chunks(FILES_PER_COMMAND) {
            let mut wanted = String::new();
            for (status, path) in run {
                let sides = [(*status != "A").then_some(from), (*status != "D").then_some(to)];
                sides
                    .into_iter()
                    .flatten()
                    .for_each(|tree| wanted.push_str(&format!("{tree}:{path}\n")));
            }
            let args = vec!["cat-file", "--batch"];
            self.run_git(GitCall {
                flags: GitOptionSet::NoCrlf,
                args,
                input: Some(wanted.as_bytes()),
            })?;
        }
        Ok(rows.len())
    }

    /// `revert(patches)` of files that all go back to one tree.
    pub(crate) fn revert(&self, hash: &str, files: &[String]) -> Fallible {
        for run in files.chunks(FILES_PER_COMMAND) {
            let mut args = vec!["ls-tree", "--name-only", hash, "--"];
            args.extend(run.iter().map(String::as_str));
            let printed = self.run_git(GitCall { flags: GitOptionSet::Core, args, input: None })?;
            let existed: BTreeSet<String> =
                String::from_utf8(printed)?.lines().map(str::to_owned).collect();
            let full: Vec<String> = run
                .iter()
                .filter(|path| existed.contains(*path))
                .map(|path| self.tree.join(path).display().to_string())
                .collect();
            let mut args = vec!["checkout", hash, "--"];
            args.extend(full.iter().map(String::as_str));
            self.run_git(GitCall { flags: GitOptionSet::Core, args, input: None })?;
            for path in run.iter().filter(|path| !existed.contains(*path)) {
                fs_err::remove_file(self.tree.join(path)).ok();
            }
        }
        Ok(())
    }

    /// `restore(tree)`, which is its unrevert.
    pub(crate) fn restore(&self, tree: &str) -> Fallible {
        self.run_git(GitCall {
            flags: GitOptionSet::Core,
            args: vec!["read-tree", tree],
            input: None,
        })?;
        let args = vec!["checkout-index", "-a", "-f"];
        self.run_git(GitCall { flags: GitOptionSet::Core, args, input: None })?;
        Ok(())
    }

    fn command(&self, flags: GitOptionSet, args: &[&str]) -> std::process::Command {
        let mut command = git_process::git_command(&self.tree);
        match flags {
            GitOptionSet::None => &mut command,
            GitOptionSet::Core => command.args(CORE_OPTIONS),
            GitOptionSet::NoCrlf => command.args(NO_CRLF_OPTIONS).args(CORE_OPTIONS),
            GitOptionSet::NoQuotes => {
                command.args(NO_CRLF_OPTIONS).args(CORE_OPTIONS).args(NO_QUOTES_OPTIONS)
            }
        };
        command.arg("--git-dir").arg(&self.git_dir).arg("--work-tree").arg(&self.tree).args(args);
        command
    }

    /// Asks the user's repository where something is.
    fn rev_parse(&self, args: &[&str]) -> Fallible<String> {
        let mut ask = git_process::git_command(&self.tree);
        ask.args(["rev-parse", "--path-format=absolute"]).args(args);
        Ok(String::from_utf8(self.run_checked(ask, None)?)?.trim().to_owned())
    }

    fn run_git(&self, call: GitCall<'_>) -> Fallible<Vec<u8>> {
        self.run_checked(self.command(call.flags, &call.args), call.input)
    }

    /// Runs a command that must succeed: figures of a failing peer mean nothing.
    fn run_checked(
        &self,
        command: std::process::Command,
        input: Option<&[u8]>,
    ) -> Fallible<Vec<u8>> {
        self.spawned.fetch_add(1, Ordering::Relaxed);
        let what = format!("{:?}", command.get_args().take(12).collect::<Vec<_>>());
        let (status, printed) = git_process::run_with_limit(command, input, self.limit)?;
        if status.success() {
            return Ok(printed);
        }
        Err(format!("the peer's git {what} failed: {status}").into())
    }
}

fn split_nul(printed: &[u8]) -> Fallible<Vec<String>> {
    let names = printed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8(name.to_vec())).collect::<Result<_, _>>()?)
}

/// Paths as it hands them to git: one literal pathspec each.
fn literal_pathspecs(paths: &[&str]) -> Vec<u8> {
    paths.iter().flat_map(|path| format!(":(top,literal){path}\0").into_bytes()).collect()
}
