//! What is not believed: each condition of R10 by itself.

use std::path::Path;

use turnstone_snapshot::UserGitSettings;

use crate::checkout::{
    FILE_COUNT, FILES, REPEATS, assert_raw_bytes, assert_reused, checkout_of, commit_and_repack,
    committed_checkout, default_settings, wait_past_clock_granularity,
};
use crate::support::StoreFixture;

/// Changes one thing about a checkout before it is captured; `believed` files are still not read.
fn assert_reused_after_change(change: impl FnOnce(&StoreFixture), believed: usize) {
    let case = committed_checkout();
    change(&case);
    assert_reused(&case, believed);
}

/// Proves R10.
#[test]
fn file_with_changed_times_is_read() {
    assert_reused_after_change(
        |case| {
            let time = fs_err::metadata(case.at("a.txt")).unwrap().modified().unwrap();
            case.write("a.txt", "ALPHA\n".repeat(REPEATS));
            let file = fs_err::OpenOptions::new().write(true).open(case.at("a.txt")).unwrap();
            file.file().set_modified(time).unwrap();
        },
        FILE_COUNT - 1,
    );
}

/// Proves R10.
#[test]
fn replaced_file_is_read() {
    assert_reused_after_change(
        |case| {
            case.write("other", "ALPHA\n".repeat(REPEATS));
            fs_err::rename(case.at("other"), case.at("a.txt")).unwrap();
        },
        FILE_COUNT - 1,
    );
}

/// Proves R10.
#[test]
fn racy_index_proves_nothing() {
    assert_reused_after_change(
        |case| {
            let time = fs_err::metadata(case.at("a.txt")).unwrap().modified().unwrap();
            let index = fs_err::OpenOptions::new().write(true).open(case.at(".git/index")).unwrap();
            index.file().set_modified(time).unwrap();
        },
        0,
    );
}

/// Proves R10.
#[test]
fn assume_unchanged_files_are_read() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        assert_reused_after_change(
            |case| drop(case.git_in(&case.root(), &["update-index", flag, "a.txt"])),
            FILE_COUNT - 1,
        );
    }
}

/// Proves R10.
#[test]
fn intent_to_add_files_are_read() {
    assert_reused_after_change(
        |case| {
            case.write("wish", "not yet\n");
            case.git_in(&case.root(), &["add", "-N", "wish"]);
        },
        FILE_COUNT,
    );
}

/// Proves R10.
#[test]
fn conflicted_files_are_read() {
    let case = committed_checkout();
    let git = |args: &[&str]| case.git_in(&case.root(), args);
    git(&["checkout", "-q", "-b", "other"]);
    case.write("a.txt", "theirs\n");
    git(&["commit", "-q", "-a", "-m", "theirs"]);
    git(&["checkout", "-q", "main"]);
    case.write("a.txt", "ours\n");
    git(&["commit", "-q", "-a", "-m", "ours"]);
    wait_past_clock_granularity();
    // Exits with 1: that is the conflict that is wanted here.
    git(&["-c", "alias.try=!git merge -q other || true", "try"]);
    assert!(case.read("a.txt").contains("<<<<<<<"));
    git(&["repack", "-a", "-d", "-q"]);

    assert_reused(&case, FILE_COUNT - 1);
}

/// Proves R10.
#[test]
fn file_with_different_blob_size_is_read() {
    let case = checkout_of(default_settings());
    case.write(".git/info/attributes", "a.txt filter=long\n");
    commit_and_repack(&case, &["-c", "filter.long.clean=sed s/alpha/something-longer/"]);
    // No attribute, no driver: only the size tells.
    case.remove(".git/info/attributes");

    assert_reused(&case, FILE_COUNT - 1);
}

/// A filter that keeps the size, so that only the attribute tells.
const ROT13_FILTER: [&str; 2] = ["-c", "filter.rot.clean=tr a-z n-za-m"];

/// Proves R10.
#[test]
fn filtered_file_is_read_wherever_the_attribute_is_set() {
    for place in [".gitattributes", "sub/.gitattributes", ".git/info/attributes"] {
        let case = checkout_of(default_settings());
        case.write(place, "c.txt filter=rot\n");
        commit_and_repack(&case, &ROT13_FILTER);
        let extra = usize::from(!place.starts_with(".git/"));
        assert_reused(&case, FILE_COUNT + extra - 1);
    }
}

/// Proves R10.
#[test]
fn filter_via_macro_or_quoted_pattern_is_detected() {
    for line in ["[attr]secret filter=rot\nc.txt secret\n", "\"c.txt\" filter=rot\n"] {
        let case = checkout_of(default_settings());
        case.write(".gitattributes", line);
        commit_and_repack(&case, &ROT13_FILTER);
        // A quoted pattern is not understood, so it counts for every file.
        let believed = if line.starts_with('"') { 0 } else { FILE_COUNT };
        assert_reused(&case, believed);
    }
}

/// Proves R10.
#[test]
fn ignored_missing_or_linked_gitattributes_are_honoured() {
    // Ignored, but in effect.
    let case = checkout_of(default_settings());
    case.write("sub/.gitattributes", "c.txt filter=rot\n");
    case.write(".gitignore", ".gitattributes\n");
    commit_and_repack(&case, &ROT13_FILTER);
    assert_reused(&case, FILE_COUNT);
    // Gone from the worktree, but git finds it in the index: everything below is suspect.
    let case = checkout_of(default_settings());
    case.write("sub/.gitattributes", "c.txt filter=rot\n");
    commit_and_repack(&case, &ROT13_FILTER);
    case.remove("sub/.gitattributes");
    assert_reused(&case, FILE_COUNT - 2);
    // A link, which git does not follow.
    let case = committed_checkout();
    case.link("sub/.gitattributes", "../a.txt");
    assert_reused(&case, FILE_COUNT - 2);
}

/// Proves R10.
#[test]
fn files_with_other_converting_attributes_are_read() {
    for attribute in ["ident", "text ident", "text=auto eol=crlf", "eol=crlf"] {
        let case = checkout_of(default_settings());
        case.write(".git/info/attributes", format!("b.txt {attribute}\n"));
        commit_and_repack(&case, &[]);
        assert_reused(&case, FILE_COUNT - 1);
    }
}

/// Files with every kind of line end; `b.txt` has CRLF and is the only one that git converts.
const LINE_ENDS: [(&str, &[u8]); 3] =
    [("mixed.txt", b"one\r\ntwo\n"), ("lone.txt", b"a\rb\n"), ("nul.bin", b"\0\r\n")];

/// Proves R10: a conversion of line ends that changes bytes changes the size.
#[test]
fn text_attributes_reuse_files_that_are_stored_as_they_are() {
    // `text=auto` leaves binary files and lone CRs alone; `text` removes the CR of every CRLF.
    for (line, converted) in [
        ("* text=auto\n", 2),
        ("* text\n", 3),
        ("*.txt text eol=lf\n*.bin binary\n", 2),
        ("* crlf\n", 3),
        ("[attr]mine text\n* mine\n", 3),
        ("* text=auto eol=lf\n", 2),
    ] {
        let case = checkout_of(default_settings());
        LINE_ENDS.iter().for_each(|(path, bytes)| case.write(path, bytes.repeat(REPEATS)));
        case.write(".gitattributes", line);
        commit_and_repack(&case, &[]);
        let all = FILE_COUNT + LINE_ENDS.len() + 1;
        assert_reused(&case, all - converted);
    }
}

/// Proves R10: what the attributes were when git wrote the index does not matter.
#[test]
fn changed_text_attributes_never_change_captured_bytes() {
    // Stored with its CRs, then declared as text: file and blob are still the same.
    let case = committed_checkout();
    case.write(".git/info/attributes", "* text=auto\n");
    assert_reused(&case, FILE_COUNT);
    // Stored without CRs, then declared as it is: only the size tells.
    let case = checkout_of(default_settings());
    case.write(".git/info/attributes", "* text=auto\n");
    commit_and_repack(&case, &[]);
    case.remove(".git/info/attributes");
    assert_reused(&case, FILE_COUNT - 1);
    // Checked out with CRs, then declared as text without: every text on disk is longer than its blob.
    let case = committed_checkout();
    case.write(".git/info/attributes", "* text eol=crlf\n");
    FILES.iter().for_each(|(path, _)| case.remove(path));
    case.git_in(&case.root(), &["checkout", "-q", "--", "."]);
    wait_past_clock_granularity();
    case.git_in(&case.root(), &["update-index", "-q", "--refresh"]);
    case.write(".git/info/attributes", "* text\n");
    assert!(case.read("a.txt").contains("\r\n"));
    // The empty file has no line, and one has CRs in its blob already.
    let captured = case.capture();
    assert_raw_bytes(&case, &captured);
    assert!(captured.reused <= 2, "{}", captured.reused);
}

/// Proves R10: a filter counts although the same file has a text attribute.
#[test]
fn text_attribute_does_not_hide_a_filter() {
    for lines in ["c.txt text filter=rot\n", "c.txt filter=rot\n* text=auto\n"] {
        let case = checkout_of(default_settings());
        case.write(".git/info/attributes", lines);
        commit_and_repack(&case, &ROT13_FILTER);
        assert_reused(&case, FILE_COUNT - 1 - usize::from(lines.contains("auto")));
    }
}

/// Proves R10.
#[test]
fn file_with_working_tree_encoding_is_read() {
    let case = checkout_of(default_settings());
    // Cyrillic has two bytes a letter in both encodings.
    case.write("a.txt", b"\xa7\xd4\xa7\xe0\xa7\xe2\n".repeat(REPEATS));
    case.write(".git/info/attributes", "a.txt working-tree-encoding=GB18030\n");
    commit_and_repack(&case, &[]);
    let stored = case.git_in(&case.root(), &["cat-file", "-s", "HEAD:a.txt"]);
    assert_eq!(stored, (7 * REPEATS).to_string(), "the size does not tell");

    assert_reused(&case, FILE_COUNT - 1);
}

/// Proves R10.
#[test]
fn repository_with_converting_config_is_not_trusted() {
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
        assert_reused_after_change(|case| append(&case.at(".git/config"), setting), 0);
    }
    assert_reused_after_change(
        |case| {
            append(&case.at(".git/config"), "[extensions]\n\tworktreeConfig = true\n");
            case.write(".git/config.worktree", "[core]\n\tautocrlf = true\n");
        },
        0,
    );
    assert_reused_after_change(
        |case| fs_err::write(case.at(".git/objects/pack/pack-x.promisor"), "").unwrap(),
        0,
    );
}

fn append(path: &Path, text: &str) {
    let before = fs_err::read_to_string(path).unwrap();
    fs_err::write(path, before + text).unwrap();
}

/// Proves R10.
#[test]
fn converting_user_config_makes_files_read() {
    let text = |text: &str| vec![text.as_bytes().to_vec()];
    for settings in [
        None,
        Some(UserGitSettings {
            config: text("[core]\n\tautocrlf = true\n"),
            ..UserGitSettings::default()
        }),
        Some(UserGitSettings { config: text("[core"), ..UserGitSettings::default() }),
        Some(UserGitSettings { attributes: text("* ident\n"), ..UserGitSettings::default() }),
    ] {
        let case = checkout_of(settings);
        commit_and_repack(&case, &[]);
        assert_reused(&case, 0);
    }
}
