//! What is not believed: each condition of R10 by itself.

use std::path::Path;

use turnstone_snapshot::UserGit;

use crate::checkout::{
    ALL, TIMES, assert_reused, checkout_of, commit, committed, nothing_set, pass_time,
};
use crate::support::Case;

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
    // Ignored, but in effect.
    let case = checkout_of(nothing_set());
    case.write("sub/.gitattributes", "c.txt filter=rot\n");
    case.write(".gitignore", ".gitattributes\n");
    commit(&case, &ROT);
    assert_reused(&case, ALL);
    // Gone from the worktree, but git finds it in the index: everything below is suspect.
    let case = checkout_of(nothing_set());
    case.write("sub/.gitattributes", "c.txt filter=rot\n");
    commit(&case, &ROT);
    case.remove("sub/.gitattributes");
    assert_reused(&case, ALL - 2);
    // A link, which git does not follow.
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
