//! The first capture of a committed checkout: what the user's index proves is not read, and nothing else
//! is believed (R10).

#[expect(dead_code, reason = "shared by several test programs")]
#[cfg(test)]
mod support;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use support::{Case, NOW, path};
use turnstone_snapshot::{Captured, Group, Image, Selection, UserGit};

/// Files of every checkout below, and how many of them there are.
const FILES: [(&str, &str); 5] = [
    ("a.txt", "alpha\n"),
    ("b.txt", "beta\r\nwith both ends\n"),
    ("sub/c.txt", "gamma\n"),
    ("sub/deep/d.txt", "delta\n"),
    ("empty", ""),
];
const ALL: usize = FILES.len();

/// Each text is written so many times: a pack smaller than its own index is not worth lending.
const TIMES: usize = 200;

/// A checkout that nobody has captured; `settings` are the user's.
fn checkout_of(settings: Option<UserGit>) -> Case {
    let case = Case::with(Selection { user_git: settings, ..Selection::default() });
    case.git_in(&case.root(), &["init", "-q"]);
    FILES.iter().for_each(|(path, text)| case.write(path, text.repeat(TIMES)));
    case
}

/// Settings of a user who has none.
fn nothing_set() -> Option<UserGit> {
    Some(UserGit::default())
}

/// Waits until the times of files written before tell them from files written after.
fn pass_time() {
    std::thread::sleep(Duration::from_millis(150));
}

/// Commits everything, with extra settings, into one pack.
fn commit(case: &Case, settings: &[&str]) {
    pass_time();
    let git = |args: &[&str]| {
        let args: Vec<&str> = settings.iter().chain(args).copied().collect();
        case.git_in(&case.root(), &args)
    };
    git(&["add", "-A", "."]);
    git(&["commit", "-q", "-m", "x"]);
    git(&["repack", "-a", "-d", "-q"]);
}

fn committed() -> Case {
    let case = checkout_of(nothing_set());
    commit(&case, &[]);
    case
}

/// Every captured file has the raw bytes of the worktree, as git names them without its filters.
fn assert_raw(case: &Case, captured: &Captured) {
    for name in case.paths(captured) {
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
fn assert_reused(case: &Case, reused: usize) -> Captured {
    let captured = case.capture();
    assert_raw(case, &captured);
    assert_eq!(captured.reused, reused, "files that were not read");
    captured
}

/// Everything below a directory: path, bytes, time of change.
fn everything(folder: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs_err::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(everything(&path));
        }
        let bytes = if meta.is_file() { fs_err::read(&path).unwrap() } else { Vec::new() };
        found.insert(path, (bytes, meta.modified().unwrap()));
    }
    found
}

#[test]
fn a_committed_checkout_is_captured_without_reading_it_r10() {
    let case = committed();
    case.write("untracked", "new\n");

    let captured = assert_reused(&case, ALL);

    assert_eq!(captured.capture.tree.to_string(), case.oracle());
    assert_eq!((captured.files, captured.changed), (ALL + 1, ALL + 1));
    assert!(case.shadow.usage().unwrap().lent > 0);
    case.git(&["fsck", "--connectivity-only"]);
    assert_eq!(case.capture().capture.id, captured.capture.id);
}

#[test]
fn nothing_below_the_users_git_directory_is_written_r10() {
    let case = committed();
    let before = everything(&case.at(".git"));

    case.capture();
    case.write("a.txt", "changed\n");
    case.capture();
    case.shadow.settle().unwrap();
    case.shadow.gc(&[].into(), NOW, false).unwrap();

    assert!(before == everything(&case.at(".git")));
}

#[test]
fn a_user_who_deletes_his_repository_takes_nothing_away_r10() {
    for settle in [false, true] {
        let mut case = committed();
        let captured = assert_reused(&case, ALL);
        assert!(!case.shadow.git_dir().join("objects/info/alternates").exists());
        fs_err::remove_dir_all(case.at(".git")).unwrap();
        FILES.iter().for_each(|(path, _)| case.remove(path));
        if settle {
            let settled = case.shadow.settle().unwrap();
            assert_eq!((settled.returned, settled.lost.len()), (1, 0));
            assert_eq!(case.shadow.usage().unwrap().lent, 0);
        }
        case.reopen();
        case.git(&["fsck", "--full"]);
        let now = case.capture().capture;
        let then = case.shadow.get_capture(&captured.capture.id).unwrap();
        let plan = case.shadow.plan_restore(&then, &now, None, false).unwrap();
        case.shadow.apply(&plan, &Group::new("guard"), NOW).unwrap();
        for (path, text) in FILES {
            assert_eq!(case.read(path), text.repeat(TIMES));
        }
    }
}

#[test]
fn the_loan_ends_with_objects_of_our_own_and_no_others_r10() {
    let case = checkout_of(nothing_set());
    case.write("old", "in the history only\n".repeat(20));
    commit(&case, &[]);
    let old = case.git_in(&case.root(), &["rev-parse", "HEAD:old"]);
    case.remove("old");
    commit(&case, &[]);
    assert_reused(&case, ALL);
    case.git(&["cat-file", "-e", &old]);

    let settled = case.shadow.settle().unwrap();

    // The files, their three trees; the commit is ours already.
    assert_eq!((settled.copied, settled.repaired, settled.returned), (ALL + 3, 0, 1));
    assert!(case.git(&["cat-file", "--batch-check", "--batch-all-objects"]).find(&old).is_none());
    case.git(&["fsck", "--full", "--strict"]);
    let again = case.capture();
    assert!(!again.is_new && again.reused == 0);
    assert_eq!(case.shadow.settle().unwrap(), turnstone_snapshot::Settled::default());
}

#[test]
fn a_lent_pack_is_settled_by_a_collection_and_never_merged_as_it_is_r10() {
    let case = committed();
    let first = case.capture().capture;
    case.write("a.txt", "two\n");
    case.capture();
    case.write("a.txt", "three\n");
    let last = case.capture().capture;

    case.shadow.merge_packs().unwrap();
    let usage = case.shadow.usage().unwrap();
    assert!(usage.lent > 0 && usage.packs == 2);
    let planned = case.shadow.gc(&[].into(), NOW, true).unwrap();
    assert_eq!(planned.dropped_objects, 0);
    assert!(case.shadow.usage().unwrap().lent > 0, "a dry run changes nothing");
    case.shadow.gc(&[].into(), NOW, false).unwrap();

    assert_eq!(case.shadow.usage().unwrap().lent, 0);
    case.git(&["fsck", "--full", "--strict"]);
    for capture in [first, last] {
        let image = case.shadow.image(&capture, &path("sub/c.txt")).unwrap();
        assert!(matches!(image, Image::Present { .. }));
    }
}

#[test]
fn a_capture_made_while_a_loan_is_settled_keeps_what_it_relies_on() {
    let case = checkout_of(nothing_set());
    case.write("b.txt", "an older text that the pack still holds\n");
    commit(&case, &[]);
    case.write("b.txt", "a newer text\n");
    commit(&case, &[]);
    assert_reused(&case, ALL);
    // Known to the loan, but to no capture before.
    case.write("b.txt", "an older text that the pack still holds\n");
    let older = case.capture();
    case.shadow.settle().unwrap();
    fs_err::remove_dir_all(case.at(".git")).unwrap();

    assert_raw(&case, &older);
    case.git(&["fsck", "--full"]);
}

/// Damages the object of `path` in the user's one pack without changing its length.
fn damage(case: &Case, path: &str) {
    let folder = case.at(".git/objects/pack");
    let blob = case.git_in(&case.root(), &["rev-parse", &format!("HEAD:{path}")]);
    let index = fs_err::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let index = index.into_iter().find(|path| path.extension().unwrap() == "idx").unwrap();
    let listed = case.git_in(&case.root(), &["verify-pack", "-v", index.to_str().unwrap()]);
    let line = listed.lines().find(|line| line.starts_with(&blob)).unwrap();
    let offset: usize = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    let pack = index.with_extension("pack");
    let mut bytes = fs_err::read(&pack).unwrap();
    // Behind the headers of the entry and of the compressed bytes.
    bytes[offset + 6] ^= 0x55;
    fs_err::remove_file(&pack).unwrap();
    fs_err::write(&pack, bytes).unwrap();
}

#[test]
fn a_damaged_object_of_the_user_is_never_served_and_is_made_anew_from_the_file_r10() {
    let case = committed();
    damage(&case, "sub/c.txt");
    let captured = case.capture();
    assert_eq!(captured.reused, ALL, "headers do not tell");
    let file = case.at("sub/c.txt");
    fs_err::rename(&file, case.at("moved")).unwrap();
    let now = case.capture().capture;
    let then = &captured.capture;
    let restored = case
        .shadow
        .plan_restore(then, &now, None, false)
        .and_then(|plan| case.shadow.apply(&plan, &Group::new("guard"), NOW));
    assert!(restored.is_err() || !file.exists(), "wrong bytes were written");
    fs_err::rename(case.at("moved"), &file).unwrap();
    case.capture();

    let settled = case.shadow.settle().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (1, 0));
    assert_raw(&case, &captured);
    case.git(&["fsck", "--full"]);
}

#[test]
fn a_damaged_object_whose_file_is_gone_is_said_to_be_lost_r10() {
    let case = committed();
    damage(&case, "sub/c.txt");
    let captured = case.capture();
    case.write("sub/c.txt", "other bytes\n");
    let later = case.capture();

    let settled = case.shadow.settle().unwrap();

    assert_eq!(settled.lost.len(), 1);
    assert_eq!(settled.returned, 1);
    let options = turnstone_snapshot::DiffOptions::default();
    assert!(case.shadow.diff(&captured.capture, &later.capture, &options).is_err());
    assert_raw(&case, &later);
    // What is left of the store works on: captures, collections.
    case.write("more", "more\n");
    case.capture();
    case.shadow.gc(&[].into(), NOW, false).unwrap();
}

/// Changes one thing about a checkout before it is captured; `believed` files are still not read.
fn changed_before(change: impl FnOnce(&Case), believed: usize) {
    let case = committed();
    change(&case);
    assert_reused(&case, believed);
}

#[test]
fn a_file_with_other_times_is_read_r10() {
    changed_before(
        |case| {
            let time = fs_err::metadata(case.at("a.txt")).unwrap().modified().unwrap();
            case.write("a.txt", "ALPHA\n".repeat(TIMES));
            let file = fs_err::OpenOptions::new().write(true).open(case.at("a.txt")).unwrap();
            file.file().set_modified(time).unwrap();
        },
        ALL - 1,
    );
}

#[test]
fn a_file_that_another_took_the_place_of_is_read_r10() {
    changed_before(
        |case| {
            case.write("other", "ALPHA\n".repeat(TIMES));
            fs_err::rename(case.at("other"), case.at("a.txt")).unwrap();
        },
        ALL - 1,
    );
}

#[test]
fn an_index_as_old_as_the_files_proves_nothing_r10() {
    changed_before(
        |case| {
            let time = fs_err::metadata(case.at("a.txt")).unwrap().modified().unwrap();
            let index = fs_err::OpenOptions::new().write(true).open(case.at(".git/index")).unwrap();
            index.file().set_modified(time).unwrap();
        },
        0,
    );
}

#[test]
fn files_git_was_told_not_to_look_at_are_read_r10() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        changed_before(
            |case| drop(case.git_in(&case.root(), &["update-index", flag, "a.txt"])),
            ALL - 1,
        );
    }
}

#[test]
fn files_that_are_only_meant_to_be_added_are_read_r10() {
    changed_before(
        |case| {
            case.write("wish", "not yet\n");
            case.git_in(&case.root(), &["add", "-N", "wish"]);
        },
        ALL,
    );
}

#[test]
fn conflicted_files_are_read_r10() {
    let case = committed();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    git(&["checkout", "-q", "-b", "other"]);
    case.write("a.txt", "theirs\n");
    git(&["commit", "-q", "-a", "-m", "theirs"]);
    git(&["checkout", "-q", "main"]);
    case.write("a.txt", "ours\n");
    git(&["commit", "-q", "-a", "-m", "ours"]);
    pass_time();
    // Exits with 1: that is the conflict that is wanted here.
    git(&["-c", "alias.try=!git merge -q other || true", "try"]);
    assert!(case.read("a.txt").contains("<<<<<<<"));
    git(&["repack", "-a", "-d", "-q"]);

    assert_reused(&case, ALL - 1);
}

#[test]
fn a_file_git_stored_in_another_size_is_read_r10() {
    let case = checkout_of(nothing_set());
    case.write(".git/info/attributes", "a.txt filter=long\n");
    commit(&case, &["-c", "filter.long.clean=sed s/alpha/something-longer/"]);
    // No attribute, no driver: only the size tells.
    case.remove(".git/info/attributes");

    assert_reused(&case, ALL - 1);
}

/// A filter that keeps the size, so that only the attribute tells.
const ROT: [&str; 2] = ["-c", "filter.rot.clean=tr a-z n-za-m"];

#[test]
fn a_file_with_a_filter_is_read_wherever_the_attribute_is_written_r10() {
    for place in [".gitattributes", "sub/.gitattributes", ".git/info/attributes"] {
        let case = checkout_of(nothing_set());
        case.write(place, "c.txt filter=rot\n");
        commit(&case, &ROT);
        let extra = usize::from(!place.starts_with(".git/"));
        assert_reused(&case, ALL + extra - 1);
    }
}

#[test]
fn a_filter_behind_a_macro_or_in_a_quoted_line_is_noticed_r10() {
    for line in ["[attr]secret filter=rot\nc.txt secret\n", "\"c.txt\" filter=rot\n"] {
        let case = checkout_of(nothing_set());
        case.write(".gitattributes", line);
        commit(&case, &ROT);
        // A quoted pattern is not understood, so it counts for every file.
        let believed = if line.starts_with('"') { 0 } else { ALL };
        assert_reused(&case, believed);
    }
}

#[test]
fn attributes_that_are_ignored_missing_or_links_are_not_overlooked_r10() {
    let ignored = |case: &Case| {
        case.write("sub/.gitattributes", "c.txt filter=rot\n");
        case.write(".gitignore", ".gitattributes\n");
    };
    let missing = |case: &Case| case.write("sub/.gitattributes", "c.txt filter=rot\n");
    let cases: [(&dyn Fn(&Case), &dyn Fn(&Case), usize); 2] = [
        // Ignored, but in effect.
        (&ignored, &|_| (), ALL),
        // Gone from the worktree, but git finds it in the index: everything below is suspect.
        (&missing, &|case| case.remove("sub/.gitattributes"), ALL - 2),
    ];
    for (before, after, believed) in cases {
        let case = checkout_of(nothing_set());
        before(&case);
        commit(&case, &ROT);
        after(&case);
        assert_reused(&case, believed);
    }
    let case = committed();
    case.link("sub/.gitattributes", "../a.txt");
    assert_reused(&case, ALL - 2);
}

#[test]
fn every_other_attribute_that_converts_has_its_files_read_r10() {
    for attribute in ["ident", "text", "text=auto", "eol=crlf", "crlf"] {
        let case = checkout_of(nothing_set());
        case.write(".git/info/attributes", format!("b.txt {attribute}\n"));
        commit(&case, &[]);
        assert_reused(&case, ALL - 1);
    }
}

#[test]
fn a_file_in_another_encoding_of_the_same_length_is_read_r10() {
    let case = checkout_of(nothing_set());
    // Cyrillic has two bytes a letter in both encodings.
    case.write("a.txt", b"\xa7\xd4\xa7\xe0\xa7\xe2\n".repeat(TIMES));
    case.write(".git/info/attributes", "a.txt working-tree-encoding=GB18030\n");
    commit(&case, &[]);
    let stored = case.git_in(&case.root(), &["cat-file", "-s", "HEAD:a.txt"]);
    assert_eq!(stored, (7 * TIMES).to_string(), "the size does not tell");

    assert_reused(&case, ALL - 1);
}

#[test]
fn a_repository_that_converts_or_might_is_not_believed_r10() {
    for setting in [
        "[core]\n\tautocrlf = input\n",
        "[core]\n\tautocrlf\n",
        "[core]\n\teol = crlf\n",
        "[core]\n\tattributesFile = /elsewhere\n",
        "[include]\n\tpath = /elsewhere\n",
        "[filter \"rot\"]\n\tclean = rot13\n",
        "[extensions]\n\tpartialClone = origin\n",
        "[remote \"origin\"]\n\tpromisor = true\n",
        "[core\n",
    ] {
        changed_before(|case| append(&case.at(".git/config"), setting), 0);
    }
    changed_before(
        |case| {
            append(&case.at(".git/config"), "[extensions]\n\tworktreeConfig = true\n");
            case.write(".git/config.worktree", "[core]\n\tautocrlf = true\n");
        },
        0,
    );
    changed_before(
        |case| fs_err::write(case.at(".git/objects/pack/pack-x.promisor"), "").unwrap(),
        0,
    );
}

fn append(path: &Path, text: &str) {
    let before = fs_err::read_to_string(path).unwrap();
    fs_err::write(path, before + text).unwrap();
}

#[test]
fn a_user_who_converts_or_might_has_his_files_read_r10() {
    let text = |text: &str| vec![text.as_bytes().to_vec()];
    for settings in [
        None,
        Some(UserGit { config: text("[core]\n\tautocrlf = true\n"), ..UserGit::default() }),
        Some(UserGit { config: text("[core"), ..UserGit::default() }),
        Some(UserGit { attributes: text("* text=auto\n"), ..UserGit::default() }),
    ] {
        let case = checkout_of(settings);
        commit(&case, &[]);
        assert_reused(&case, 0);
    }
}

#[test]
fn loose_objects_are_not_lent_but_their_files_read_r10() {
    let case = checkout_of(nothing_set());
    commit(&case, &[]);
    pass_time();
    case.write("later", "not packed\n");
    pass_time();
    case.git_in(&case.root(), &["add", "later"]);

    assert_reused(&case, ALL);
}

#[test]
fn a_pack_much_larger_than_the_checkout_is_not_lent_r10() {
    let case = checkout_of(nothing_set());
    let noise: Vec<u8> =
        (0_u32..40_000).flat_map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    case.write("large", noise);
    commit(&case, &[]);
    case.remove("large");
    commit(&case, &[]);

    assert_reused(&case, 0);
    assert_eq!(case.shadow.usage().unwrap().lent, 0);
}

#[test]
fn nested_repositories_lend_for_their_own_files_r10() {
    let case = checkout_of(nothing_set());
    case.write("inner/x.txt", "inside\n".repeat(400));
    let inner = case.at("inner");
    pass_time();
    case.git_in(&inner, &["init", "-q"]);
    case.git_in(&inner, &["add", "."]);
    case.git_in(&inner, &["commit", "-q", "-m", "x"]);
    case.git_in(&inner, &["repack", "-a", "-d", "-q"]);
    commit(&case, &["-c", "advice.addEmbeddedRepo=false"]);

    let captured = assert_reused(&case, ALL + 1);
    assert!(case.paths(&captured).contains(&"inner/x.txt".to_owned()));
    case.shadow.settle().unwrap();
    assert_raw(&case, &captured);
}

#[test]
fn the_mode_is_that_of_the_file_not_of_the_index() {
    let case = checkout_of(nothing_set());
    case.git_in(&case.root(), &["config", "core.fileMode", "false"]);
    case.chmod("a.txt", 0o755);
    case.link("link", "a.txt");
    commit(&case, &[]);

    let captured = assert_reused_links(&case);
    let text = case.git(&["ls-tree", &captured.capture.tree.to_string(), "a.txt"]);
    assert!(text.starts_with("100755"), "{text}");
}

fn assert_reused_links(case: &Case) -> Captured {
    let captured = case.capture();
    assert_eq!(captured.reused, ALL + 1);
    assert_eq!(captured.capture.tree.to_string(), case.oracle());
    captured
}
