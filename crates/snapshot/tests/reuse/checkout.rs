//! A committed checkout, and what every capture of it must hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use turnstone_snapshot::{CaptureOutcome, CaptureRules, UserGitSettings};

use crate::support::StoreFixture;

/// Files of every checkout below, and how many of them there are.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("a.txt", "alpha\n"),
    ("b.txt", "beta\r\nwith both ends\n"),
    ("sub/c.txt", "gamma\n"),
    ("sub/deep/d.txt", "delta\n"),
    ("empty", ""),
];
pub(crate) const FILE_COUNT: usize = FILES.len();

/// Each text is written so many times: a pack smaller than its own index is not worth lending.
pub(crate) const REPEATS: usize = 200;

/// A checkout that has not been captured; `settings` are the user's.
pub(crate) fn checkout_of(settings: Option<UserGitSettings>) -> StoreFixture {
    let case = StoreFixture::with_selection(CaptureRules {
        user_git: settings,
        ..CaptureRules::default()
    });
    case.git_in(&case.root(), &["init", "-q"]);
    FILES.iter().for_each(|(path, text)| case.write(path, text.repeat(REPEATS)));
    case
}

/// Settings of a user who has none.
pub(crate) fn default_settings() -> Option<UserGitSettings> {
    Some(UserGitSettings::default())
}

/// Waits until the times of files written before tell them from files written after.
pub(crate) fn wait_past_clock_granularity() {
    std::thread::sleep(Duration::from_millis(150));
}

/// Commits everything, with extra settings, into one pack.
pub(crate) fn commit_and_repack(case: &StoreFixture, settings: &[&str]) {
    wait_past_clock_granularity();
    let git = |args: &[&str]| {
        let args: Vec<&str> = settings.iter().chain(args).copied().collect();
        case.git_in(&case.root(), &args)
    };
    git(&["add", "-A", "."]);
    git(&["commit", "-q", "-m", "x"]);
    git(&["repack", "-a", "-d", "-q"]);
}

pub(crate) fn committed_checkout() -> StoreFixture {
    let case = checkout_of(default_settings());
    commit_and_repack(&case, &[]);
    case
}

/// Every captured file has the raw bytes of the worktree, as git names them without its filters.
pub(crate) fn assert_raw_bytes(case: &StoreFixture, captured: &CaptureOutcome) {
    for name in case.tree_paths(captured) {
        let stored = case.git(&["rev-parse", &format!("{}:{name}", captured.capture.tree)]);
        let file = case.at(&name);
        if file.is_symlink() {
            continue;
        }
        let raw = case.git(&["hash-object", "--no-filters", file.to_str().unwrap()]);
        assert_eq!(stored, raw, "{name}");
    }
}

/// Captures, and wants raw bytes and so many files that were not read.
pub(crate) fn assert_reused(case: &StoreFixture, reused: usize) -> CaptureOutcome {
    let captured = case.capture();
    assert_raw_bytes(case, &captured);
    assert_eq!(captured.reused, reused, "files that were not read");
    captured
}

/// Everything below a directory: path, bytes, time of change.
pub(crate) fn snapshot_tree(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs_err::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(snapshot_tree(&path));
        }
        let bytes = if meta.is_file() { fs_err::read(&path).unwrap() } else { Vec::new() };
        found.insert(path, (bytes, meta.modified().unwrap()));
    }
    found
}

/// The index of the user's one pack.
fn index_of_pack(case: &StoreFixture) -> PathBuf {
    let folder = fs_err::read_dir(case.at(".git/objects/pack")).unwrap();
    let mut paths = folder.map(|entry| entry.unwrap().path());
    paths.find(|path| path.extension().unwrap() == "idx").unwrap()
}

fn blob_of(case: &StoreFixture, path: &str) -> String {
    case.git_in(&case.root(), &["rev-parse", &format!("HEAD:{path}")])
}

/// Rewrites a file that git made read-only.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs_err::remove_file(path).unwrap();
    fs_err::write(path, bytes).unwrap();
}

/// Damages the object of `path` in the user's one pack without changing its length.
pub(crate) fn corrupt_packed_object(case: &StoreFixture, path: &str) {
    let (index, blob) = (index_of_pack(case), blob_of(case, path));
    let listed = case.git_in(&case.root(), &["verify-pack", "-v", index.to_str().unwrap()]);
    let line = listed.lines().find(|line| line.starts_with(&blob)).unwrap();
    let offset: usize = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    let pack = index.with_extension("pack");
    let mut bytes = fs_err::read(&pack).unwrap();
    // Behind the headers of the entry and of the compressed bytes.
    bytes[offset + 6] ^= 0x55;
    overwrite(&pack, &bytes);
}

/// Makes the user's one pack give the bytes of each of two files for the other: sound, but wrong.
pub(crate) fn swap_packed_objects(case: &StoreFixture, one: &str, other: &str) {
    let index = index_of_pack(case);
    let mut bytes = fs_err::read(&index).unwrap();
    let count = u32::from_be_bytes(bytes[1028..1032].try_into().unwrap()) as usize;
    let names: Vec<String> = bytes[1032..1032 + 20 * count]
        .chunks(20)
        .map(|name| name.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let place = |path: &str| {
        let blob = blob_of(case, path);
        1032 + 24 * count + 4 * names.iter().position(|name| *name == blob).unwrap()
    };
    let (one, other) = (place(one), place(other));
    (0..4).for_each(|at| bytes.swap(one + at, other + at));
    overwrite(&index, &bytes);
}
