//! Repositories for tests, made by `git` itself, and an engine that finds it.

use std::path::{Path, PathBuf};

use crate::engine_fixture::{NOW, ctx};
use turnstone_core::id::ProjectId;
use turnstone_engine::{Engine, EngineSettings, OpenedProject};
use turnstone_process::GitEnvironment;

pub(crate) struct RepositoryFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) engine: Engine,
}

impl RepositoryFixture {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let engine = open(dir.path());
        Self { dir, engine }
    }

    /// Opens the data directory again, as a new process would.
    pub(crate) fn reopen(self) -> Self {
        let Self { dir, engine } = self;
        drop(engine);
        let engine = open(dir.path());
        Self { dir, engine }
    }

    pub(crate) fn make(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs_err::create_dir_all(&path).expect("made");
        fs_err::canonicalize(path).expect("real")
    }

    pub(crate) fn open(&self, path: &Path) -> OpenedProject {
        self.engine.projects().open(&ctx(), path).expect("opens")
    }

    /// A project with one commit of one file.
    pub(crate) fn project(&self, name: &str) -> (PathBuf, ProjectId) {
        let dir = self.make(name);
        git(&dir, &["init", "-q"]);
        fs_err::write(dir.join("file"), "one\n").expect("written");
        git(&dir, &["add", "."]);
        git(&dir, &["commit", "-q", "-m", "one"]);
        let id = self.open(&dir).project.id;
        (dir, id)
    }
}

#[expect(clippy::disallowed_methods, reason = "git is found where the tests find it")]
fn open(dir: &Path) -> Engine {
    let path = std::env::var_os("PATH").expect("a path");
    let git = GitEnvironment { path, ..GitEnvironment::default() };
    let settings = EngineSettings { git, ..EngineSettings::new(&dir.join("data")) };
    Engine::open(settings, NOW).expect("opens")
}

#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
pub(crate) fn git(dir: &Path, words: &[&str]) -> String {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}
