//! Kinds of directories: with, next to, below and between repositories.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use turnstone_snapshot::{
    CaptureOutcome, CaptureRules, PinGroup, RootPolicy, SnapshotStore, UncoveredReason,
    UserGitSettings, Worktree,
};

use crate::support::{NOW, StoreFixture, path};

/// Text that is worth a pack.
fn text() -> String {
    "a line of some length\n".repeat(300)
}

fn selection() -> CaptureRules {
    CaptureRules { user_git: Some(UserGitSettings::default()), ..CaptureRules::default() }
}

/// Captures a directory that is not the case's own.
fn capture_at(root: &Path) -> (TempDir, SnapshotStore, CaptureOutcome) {
    let dir = tempfile::tempdir().unwrap();
    let worktree = Worktree::open(root, &RootPolicy::default()).unwrap();
    let store = SnapshotStore::open(&dir.path().join("store"), worktree, selection()).unwrap();
    let captured = store.capture(&PinGroup::new("test"), NOW).unwrap();
    (dir, store, captured)
}

/// The paths of a capture, each as `mode path`.
fn lines(case: &StoreFixture, store: &SnapshotStore, captured: &CaptureOutcome) -> Vec<String> {
    let tree = captured.capture.tree.to_string();
    let text =
        case.git_in(store.git_dir(), &["ls-tree", "-r", "--format=%(objectmode) %(path)", &tree]);
    text.lines().map(str::to_owned).collect()
}

/// A committed repository with a file that is tracked though a rule hides it.
fn repository(format: &[&str]) -> StoreFixture {
    let case = StoreFixture::with_selection(selection());
    case.git_in(&case.root(), &[&["init", "-q"], format].concat());
    case.write(".gitignore", "*.log\nout/\n");
    case.write("kept.log", text());
    case.write("out/kept.bin", text());
    std::thread::sleep(Duration::from_millis(150));
    case.git_in(&case.root(), &["add", "-f", "."]);
    case.git_in(&case.root(), &["commit", "-q", "-m", "x"]);
    case.git_in(&case.root(), &["repack", "-a", "-d", "-q"]);
    case.write("dropped.log", "d");
    case.write("out/dropped.bin", "d");
    case
}

const TRACKED: [&str; 3] = ["100644 .gitignore", "100644 kept.log", "100644 out/kept.bin"];

#[test]
fn linked_worktree_uses_own_index_and_shared_rules_and_packs() {
    let case = repository(&[]);
    case.write(".git/info/exclude", "secret\n");
    let linked = case.dir.path().join("linked");
    case.git_in(&case.root(), &["worktree", "add", "-q", linked.to_str().unwrap(), "-b", "other"]);
    std::thread::sleep(Duration::from_millis(150));
    case.git_in(&linked, &["update-index", "--refresh", "--force-write-index"]);
    fs_err::write(linked.join("dropped.log"), "d").unwrap();
    fs_err::write(linked.join("secret"), "s").unwrap();

    let (_store, store, captured) = capture_at(&linked);

    assert!(linked.join(".git").is_file());
    assert_eq!(lines(&case, &store, &captured), TRACKED);
    assert_eq!(captured.reused, 3);
    let reason = |name: &str| captured.capture.coverage.uncovered_reason(&path(name));
    assert_eq!(reason("secret"), Some(UncoveredReason::Ignored));
    assert_eq!(reason("dropped.log"), Some(UncoveredReason::Ignored));
}

#[test]
fn worktree_of_bare_repository_is_captured() {
    let case = repository(&[]);
    let bare = case.dir.path().join("bare.git");
    let linked = case.dir.path().join("of-bare");
    case.git_in(case.dir.path(), &["clone", "-q", "--bare", "work", "bare.git"]);
    case.git_in(&bare, &["worktree", "add", "-q", linked.to_str().unwrap()]);
    std::thread::sleep(Duration::from_millis(150));
    case.git_in(&linked, &["update-index", "--refresh", "--force-write-index"]);
    fs_err::write(linked.join("dropped.log"), "d").unwrap();

    let (_store, store, captured) = capture_at(&linked);

    assert_eq!(lines(&case, &store, &captured), TRACKED);
    assert_eq!(captured.reused, 3);
}

#[test]
fn repository_without_commits_is_captured() {
    let case = StoreFixture::with_selection(selection());
    case.git_in(&case.root(), &["init", "-q"]);
    case.write(".gitignore", "*.log\n");
    case.write("a", "1");
    case.write("x.log", "x");
    let first = case.capture();
    assert_eq!(case.tree_paths(&first), [".gitignore", "a"]);

    case.git_in(&case.root(), &["add", "-f", "x.log"]);

    assert_eq!(case.tree_paths(&case.capture()), [".gitignore", "a", "x.log"]);
}

#[test]
fn sha256_repository_is_captured_without_pack_reuse() {
    let case = repository(&["--object-format=sha256"]);

    let captured = case.capture();

    assert_eq!(lines(&case, &case.store, &captured), TRACKED);
    assert_eq!(captured.reused, 0);
    assert_eq!(captured.capture.tree.to_string().len(), 40);
}

#[test]
fn subdirectory_can_be_its_own_root() {
    let case = repository(&[]);
    case.write("sub/.gitignore", "mine\n");
    case.write("sub/a", "1");
    case.write("sub/mine", "2");
    case.write("sub/:odd*/b", "3");

    let (_store, store, captured) = capture_at(&case.at("sub"));

    let all = ["100644 .gitignore", "100644 :odd*/b", "100644 a"];
    assert_eq!(lines(&case, &store, &captured), all);
    assert!(!case.at("sub/.git").exists());
}

#[test]
fn nested_repositories_are_captured_as_files_not_gitlinks() {
    let case = repository(&[]);
    let git = |folder: &str, args: &[&str]| case.git_in(&case.at(folder), args);
    for name in ["with-commits", "without-commits"] {
        case.write(&format!("{name}/.gitignore"), "own\n");
        case.write(&format!("{name}/a"), "1");
        case.write(&format!("{name}/own"), "2");
        git(name, &["init", "-q"]);
    }
    git("with-commits", &["add", "."]);
    git("with-commits", &["commit", "-q", "-m", "x"]);
    let source = case.at("with-commits");
    git(
        "",
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            source.to_str().unwrap(),
            "module",
        ],
    );
    assert!(case.at("module/.git").is_file());
    git("", &["add", "with-commits"]);

    let captured = case.capture();

    let found = lines(&case, &case.store, &captured);
    assert!(found.iter().all(|line| line.starts_with("100644")), "{found:?}");
    for name in ["module", "with-commits", "without-commits"] {
        assert!(found.contains(&format!("100644 {name}/a")), "{name}");
        assert!(!found.contains(&format!("100644 {name}/own")), "{name}");
        assert!(captured.capture.coverage.nested.contains(&path(name)), "{name}");
    }
    assert!(!found.iter().any(|line| line.contains(".git/") || line.ends_with("/.git")));
}

#[test]
fn user_excludes_file_and_info_exclude_both_apply() {
    let excludes = b"*.user\n".to_vec();
    let case =
        StoreFixture::with_selection(CaptureRules { user_excludes: excludes, ..selection() });
    case.git_in(&case.root(), &["init", "-q"]);
    case.write(".git/info/exclude", "*.info\n!kept.user\n");
    for name in ["a.user", "a.info", "kept.user", "a", "sub/b.user"] {
        case.write(name, "1");
    }
    let first = case.capture();
    assert_eq!(case.tree_paths(&first), ["a", "kept.user"]);

    case.write(".git/info/exclude", "a\n");

    let second = case.capture();
    assert_eq!(case.tree_paths(&second), ["a.info"]);
    assert_eq!(
        second.capture.coverage.uncovered_reason(&path("a")),
        Some(UncoveredReason::Ignored)
    );
}
