//! A worktree with a store that watches and one that never does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{
    Capture, CaptureCoverage, CaptureMode, CaptureOutcome, CaptureRules, JournalState, PinGroup,
    RootPolicy, SnapshotStore, Worktree,
};

pub(crate) const NOW: EpochMillis = EpochMillis(1_794_728_448_904);

pub(crate) struct JournalFixture {
    pub(crate) dir: TempDir,
    pub(crate) store: SnapshotStore,
    walking_store: SnapshotStore,
}

impl JournalFixture {
    /// A worktree whose store has taken the walk that begins the journal.
    pub(crate) fn new() -> Self {
        Self::without_journal().start_journal()
    }

    /// The same on a file system in memory, if there is one: quicker, and other in its times.
    pub(crate) fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::without_journal_in(dir.unwrap()).start_journal()
    }

    fn start_journal(self) -> Self {
        let site = self;
        site.store.journal().start();
        let first = site.capture();
        assert_eq!((first.mode, first.journal), (CaptureMode::Walk, JournalState::Starting));
        site
    }

    /// A worktree whose store does not watch yet.
    pub(crate) fn without_journal() -> Self {
        Self::without_journal_in(tempfile::tempdir().unwrap())
    }

    fn without_journal_in(dir: TempDir) -> Self {
        fs_err::create_dir(dir.path().join("work")).unwrap();
        fs_err::create_dir(dir.path().join("outside")).unwrap();
        let (store, walker) = (open_store(dir.path(), "store"), open_store(dir.path(), "walker"));
        Self { dir, store, walking_store: walker }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn outside(&self, path: &str) -> PathBuf {
        self.dir.path().join("outside").join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    pub(crate) fn chmod(&self, path: &str, perm: u32) {
        fs_err::set_permissions(self.at(path), PermissionsExt::from_mode(perm)).unwrap();
    }

    pub(crate) fn git(&self, folder: &str, args: &[&str]) {
        #[expect(clippy::disallowed_methods, reason = "the user's own git")]
        let mut command = std::process::Command::new("git");
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(self.at(folder));
        assert!(command.args(args).output().unwrap().status.success(), "{args:?}");
    }

    /// Wants every object that a capture names to be in the store.
    pub(crate) fn fsck(&self) {
        let store = self.store.git_dir().to_str().unwrap();
        self.git("", &["--git-dir", store, "fsck", "--connectivity-only"]);
    }

    pub(crate) fn capture(&self) -> CaptureOutcome {
        self.store.capture(&PinGroup::new("test"), NOW).unwrap()
    }

    /// Captures; the journal must have told, and what it told must be what a walk finds.
    pub(crate) fn capture_by_journal(&self, what: &str) -> CaptureOutcome {
        let captured = self.capture();
        assert_eq!(
            (captured.mode, captured.journal),
            (CaptureMode::Journal, JournalState::On),
            "{what}"
        );
        self.assert_equals_walk(&captured, what);
        captured
    }

    /// Wants a capture to be what a walk by another store finds.
    pub(crate) fn assert_equals_walk(&self, captured: &CaptureOutcome, what: &str) {
        if let Some(wrong) = self.difference_from_walk(captured) {
            panic!("{what}: {wrong}");
        }
    }

    /// What differs between a capture and a walk by another store.
    pub(crate) fn difference_from_walk(&self, captured: &CaptureOutcome) -> Option<String> {
        let walked = self.walking_store.capture(&PinGroup::new("walk"), NOW).unwrap();
        assert_eq!(walked.mode, CaptureMode::Walk);
        let (one, other) = (&captured.capture, &walked.capture);
        if without_unfinished(one) != without_unfinished(other) {
            return Some(format!("coverage\n{:?}\n{:?}", one.coverage, other.coverage));
        }
        if captured.files != walked.files {
            return Some(format!("{} files, {} walked", captured.files, walked.files));
        }
        (one.tree != other.tree).then(|| format!("tree {} is not {}", one.tree, other.tree))
    }

    /// The same with a store that never saw the worktree before.
    pub(crate) fn assert_equals_fresh_store(&self, captured: &CaptureOutcome, what: &str) {
        let fresh = self.dir.path().join("fresh");
        fs_err::remove_dir_all(&fresh).ok();
        let fresh = open_store(self.dir.path(), "fresh");
        let walked = fresh.capture(&PinGroup::new("fresh"), NOW).unwrap();
        let (one, other) = (&captured.capture, &walked.capture);
        assert_eq!(without_unfinished(one), without_unfinished(other), "{what}");
        assert_eq!(captured.capture.tree, walked.capture.tree, "{what}");
    }
}

/// What a capture covers, apart from files that may be unfinished: each store looks for those only among
/// the files that it reads.
fn without_unfinished(capture: &Capture) -> CaptureCoverage {
    CaptureCoverage { unfinished: Vec::new(), ..(*capture.coverage).clone() }
}

pub(crate) fn open_store(dir: &Path, store: &str) -> SnapshotStore {
    let worktree = Worktree::open(&dir.join("work"), &RootPolicy::default()).unwrap();
    let selection = CaptureRules { max_file_bytes: 5000, ..CaptureRules::default() };
    SnapshotStore::open(&dir.join(store), worktree, selection).unwrap()
}
