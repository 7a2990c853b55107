//! One hostile repository on disk.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A repository with two commits, a changed file, a new file and a program that leaves a trace.
#[derive(Debug)]
pub struct HostileRepository {
    dir: TempDir,
    /// Where it is examined: the folder with the files, or another one that a tripwire chose.
    directory: PathBuf,
}

impl HostileRepository {
    /// Creates a repository without a tripwire.
    ///
    /// # Panics
    ///
    /// The repository cannot be created.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        // Real, because paths of worktrees are compared.
        let directory = fs_err::canonicalize(dir.path()).expect("a real path").join("work");
        let this = Self { dir, directory };
        for folder in ["home", "bin", "work"] {
            fs_err::create_dir(this.sibling_path(folder)).expect("created");
        }
        this.write_file("../home/.gitconfig", "[user]\n\tname = a\n\temail = a@b\n");
        let trace = this.sibling_path("trace");
        let program = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", trace.display());
        for name in ["trip", "git-remote-trip"] {
            this.write_file(&format!("../bin/{name}"), &program);
            let path = this.sibling_path("bin").join(name);
            fs_err::set_permissions(path, Permissions::from_mode(0o755)).expect("executable");
        }
        this.run_git(&["init", "-q", "-b", "main"]);
        this.commit("a.txt", "one\n");
        this.run_git(&["branch", "other"]);
        this.commit("a.txt", "six\n");
        this.run_git(&["update-ref", "refs/remotes/origin/main", "HEAD~1"]);
        this.run_git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
        // A merge of both has a conflict.
        this.run_git(&["checkout", "-q", "other"]);
        this.commit("a.txt", "ten\n");
        this.run_git(&["checkout", "-q", "main"]);
        // The same length: only its content tells that it has changed.
        this.write_file("a.txt", "two\n");
        this.write_file("new.txt", "new\n");
        this
    }

    /// A path next to the folder with the files.
    #[must_use]
    pub fn sibling_path(&self, name: &str) -> PathBuf {
        let real = fs_err::canonicalize(self.dir.path()).expect("a real path");
        real.join(name)
    }

    /// The folder in which commands are to be examined.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The home of the user.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.sibling_path("home")
    }

    /// Chooses another folder, from the one with the files, to be examined.
    pub(super) fn set_directory(&mut self, folder: &str) {
        self.directory =
            fs_err::canonicalize(self.sibling_path("work").join(folder)).expect("a folder");
    }

    /// The program that leaves the trace.
    #[must_use]
    pub fn trap_program(&self) -> String {
        self.sibling_path("bin/trip").display().to_string()
    }

    /// Returns and clears the trace of what was run; empty if no program was.
    #[must_use]
    pub fn take_trace(&self) -> String {
        let trace = fs_err::read_to_string(self.sibling_path("trace")).unwrap_or_default();
        fs_err::remove_file(self.sibling_path("trace")).ok();
        trace
    }

    /// Sets the program in the repository's configuration.
    pub(super) fn set_config_to_trap(&self, key: &str) {
        self.set_config(key, &self.trap_program());
    }

    /// Sets something in the repository's configuration.
    pub(super) fn set_config(&self, key: &str, value: &str) {
        self.run_git(&["config", key, value]);
    }

    /// Writes a file, from the folder with the files.
    pub(super) fn write_file(&self, name: &str, text: &str) {
        let path = self.sibling_path("work").join(name);
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder).expect("created");
        }
        fs_err::write(path, text).expect("written");
    }

    /// Puts the program in the place of a hook.
    pub(super) fn install_hook(&self, folder: &str, name: &str) {
        let folder = self.sibling_path("work").join(folder);
        fs_err::create_dir_all(&folder).expect("created");
        fs_err::copy(self.sibling_path("bin/trip"), folder.join(name)).expect("copied");
    }

    /// Gives all files an attribute, wherever they are checked out.
    pub(super) fn set_attribute(&self, text: &str) {
        self.write_file(".git/info/attributes", &format!("* {text}\n"));
    }

    pub(super) fn commit(&self, name: &str, text: &str) {
        self.write_file(name, text);
        self.run_git(&["add", name]);
        self.run_git(&["commit", "-q", "-m", name]);
    }

    /// Runs the user's own git to prepare the repository.
    pub(super) fn run_git(&self, args: &[&str]) {
        let done = self.command(&self.sibling_path("work"), args).output().expect("git runs");
        assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    }

    /// Runs the user's own git, however it ends, and returns the trace it left.
    #[must_use]
    pub fn run_and_take_trace(&self, args: &[&str]) -> String {
        let mut command = self.command(&self.directory, args);
        let input = self.sibling_path("input");
        fs_err::write(&input, "protocol=https\nhost=nowhere.invalid\n\n").expect("written");
        command.stdin(fs_err::File::open(input).expect("opened").into_parts().0);
        command.output().expect("git runs");
        self.take_trace()
    }

    fn command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.env_clear().args(args).current_dir(dir).stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.sibling_path("bin").display()));
        command.env("HOME", self.home()).env("GIT_CONFIG_NOSYSTEM", "1").env("TERM", "dumb");
        command
    }
}

impl Default for HostileRepository {
    fn default() -> Self {
        Self::new()
    }
}
