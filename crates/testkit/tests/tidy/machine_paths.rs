//! No file names a place that exists on one machine only.

use crate::finding::{
    RuleException, TidyFinding, TidyRule, apply_exceptions, assert_lines, assert_no_findings,
};
use crate::repository_files::{self, TextFile};

const MACHINE: TidyRule = TidyRule {
    name: "machine-path",
    remedy: "write a path of the repository, a temporary directory, or `/home/user/…` in examples",
};

/// Folders that exist on somebody's machine. In pieces, so that this file passes its own rule.
const FOLDERS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/ho", "me/")];

/// The people who live in our examples.
const EXAMPLE_USERS: [&str; 2] = ["user", "ada"];

/// Files that may name such a path, and why.
const ALLOWED_FILES: &[RuleException] = &[];

fn check_machine_paths(file: &TextFile) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in FOLDERS {
            let places = line.match_indices(folder).map(|(place, _)| place);
            for place in places.filter(|place| is_machine_path(line, *place, folder)) {
                let path: String =
                    line[place..].chars().take_while(|c| is_path_char(*c)).take(60).collect();
                findings.push(MACHINE.report(&file.path, index + 1, format!("`{path}`")));
            }
        }
    }
    findings
}

/// Tells whether an absolute path of a machine begins at `place`.
fn is_machine_path(line: &str, place: usize, folder: &str) -> bool {
    let before = line[..place].chars().next_back();
    // `src/x`, `https://host/x`, `~/x`, `$HOME/x`, `{root}/x` and `…*/x` go on from something.
    let absolute =
        before.is_none_or(|c| !is_path_char(c) && !matches!(c, '}' | ')' | ']' | '>' | '*'));
    let owner: String =
        line[place + folder.len()..].chars().take_while(|c| is_name_char(*c)).collect();
    let example = owner.is_empty() || EXAMPLE_USERS.contains(&owner.as_str());
    absolute && !((folder == FOLDERS[2] || folder == FOLDERS[3]) && example)
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_path_char(c: char) -> bool {
    is_name_char(c) || matches!(c, '/' | '~')
}

#[test]
fn files_contain_no_machine_paths() {
    let findings = repository_files::read_files().iter().flat_map(check_machine_paths).collect();
    assert_no_findings(&apply_exceptions(&MACHINE, findings, ALLOWED_FILES));
}

#[test]
fn machine_path_is_reported() {
    let [work, root, users, home] = FOLDERS;
    let lines = [
        format!("see {work}main"),
        format!("\"{root}.cargo\""),
        format!("{home}linus/src and {home}user/project"),
        format!("path={users}linus"),
        format!("{home}ada/project, {home}<name>, src{work}x, https://example.com{root}x"),
        format!("{{dir}}{work}x and ~{work}x"),
    ];
    let file = TextFile { path: "docs/a.md".to_owned(), text: lines.join("\n") };

    assert_lines(&check_machine_paths(&file), &[1, 2, 3, 4]);
}
