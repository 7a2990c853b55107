//! A worktree, a store next to it, and git as the judge.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    CaptureOutcome, CaptureRules, PinGroup, RelPath, RootPolicy, SnapshotStore, StorageBudget,
    UncoveredReason, Worktree,
};

pub(crate) const NOW: EpochMillis = EpochMillis(1_794_728_448_904);

pub(crate) struct StoreFixture {
    pub(crate) dir: TempDir,
    pub(crate) store: SnapshotStore,
    pub(crate) selection: CaptureRules,
}

impl StoreFixture {
    pub(crate) fn new() -> Self {
        Self::with_selection(CaptureRules::default())
    }

    pub(crate) fn with_selection(selection: CaptureRules) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("work")).unwrap();
        let store = open_store(dir.path(), &selection);
        Self { dir, store, selection }
    }

    /// A worktree in memory where there is such a place: for tests that ask nothing of the disk.
    pub(crate) fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs_err::create_dir(dir.path().join("work")).unwrap();
        let selection = CaptureRules::default();
        let store = open_store(dir.path(), &selection);
        Self { dir, store, selection }
    }

    /// A worktree that is a git checkout.
    pub(crate) fn new_git_checkout() -> Self {
        let case = Self::new();
        case.git_in(&case.root(), &["init", "-q"]);
        case
    }

    /// Opens the store again, as another process would.
    pub(crate) fn reopen(&mut self) {
        // A store has one owner at a time, so the old one is closed first.
        let spare = tempfile::tempdir_in(self.dir.path()).unwrap();
        fs_err::create_dir(spare.path().join("work")).unwrap();
        self.store = open_store(spare.path(), &self.selection);
        self.store = open_store(self.dir.path(), &self.selection);
    }

    pub(crate) fn with_budget(self, budget: StorageBudget) -> Self {
        let Self { dir, store, selection } = self;
        Self { dir, store: store.with_budget(budget).unwrap(), selection }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        self.write_bytes(path.as_bytes(), text);
    }

    pub(crate) fn write_bytes(&self, path: &[u8], text: impl AsRef<[u8]>) {
        let path = self.root().join(OsStr::from_bytes(path));
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.at(path)).unwrap();
    }

    pub(crate) fn chmod(&self, path: &str, perm: u32) {
        fs_err::set_permissions(self.at(path), PermissionsExt::from_mode(perm)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        String::from_utf8(fs_err::read(self.at(path)).unwrap()).unwrap()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs_err::remove_file(self.at(path)).unwrap();
    }

    pub(crate) fn capture(&self) -> CaptureOutcome {
        self.store.capture(&PinGroup::new("test"), NOW).unwrap()
    }

    pub(crate) fn capture_named(&self, paths: &[&str]) -> CaptureOutcome {
        self.store.capture_named(&PinGroup::new("test"), &paths_of(paths), false, NOW).unwrap()
    }

    /// What git itself reports of the worktree, with a separate index.
    pub(crate) fn git_write_tree(&self) -> String {
        let index = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut command = clean_git_command();
            command.arg("--git-dir").arg(self.store.git_dir()).arg("--work-tree").arg(self.root());
            command.env("GIT_INDEX_FILE", index.path().join("index"));
            command.env("GIT_OBJECT_DIRECTORY", index.path());
            run(command.current_dir(self.root()).args(args))
        };
        git(&["add", "-A", "."]);
        git(&["write-tree"])
    }

    /// Runs git in the store.
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = clean_git_command();
        run(command.arg("--git-dir").arg(self.store.git_dir()).args(args))
    }

    pub(crate) fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        git_in(folder, args)
    }

    /// Lists the paths of a tree.
    pub(crate) fn tree_paths(&self, captured: &CaptureOutcome) -> Vec<String> {
        let tree = captured.capture.tree.to_string();
        let text = self.git(&["ls-tree", "-r", "--name-only", "-z", &tree]);
        text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

pub(crate) fn open_store(dir: &Path, selection: &CaptureRules) -> SnapshotStore {
    let worktree = Worktree::open(&dir.join("work"), &RootPolicy::default()).unwrap();
    SnapshotStore::open(&dir.join("store"), worktree, selection.clone()).unwrap()
}

/// Runs git in a folder.
pub(crate) fn git_in(folder: &Path, args: &[&str]) -> String {
    run(clean_git_command().current_dir(folder).args(args))
}

#[expect(clippy::disallowed_methods, reason = "git is the judge of what we write, in tests only")]
fn clean_git_command() -> Command {
    let mut command = Command::new("git");
    for (key, value) in [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_AUTHOR_NAME", "t"),
        ("GIT_AUTHOR_EMAIL", "t@t"),
        ("GIT_COMMITTER_NAME", "t"),
        ("GIT_COMMITTER_EMAIL", "t@t"),
    ] {
        command.env(key, value);
    }
    command.args(["-c", "core.excludesFile=/dev/null", "-c", "init.defaultBranch=main"]);
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("git starts; it is needed for these tests");
    let text = String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}{text}");
    text
}

pub(crate) fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

pub(crate) fn paths_of(texts: &[&str]) -> BTreeSet<RelPath> {
    texts.iter().map(|text| path(text)).collect()
}

/// How many paths a capture skipped for `reason`.
pub(crate) fn count_skipped(captured: &CaptureOutcome, reason: UncoveredReason) -> usize {
    let skipped = &captured.capture.coverage.skipped;
    skipped.iter().filter(|(_, found)| *found == reason).count()
}
