//! No file names a place that exists on one machine only.

use crate::finding::{Exception, Finding, Rule, assert_lines, assert_none, excuse};
use crate::tree::{self, File};

const MACHINE: Rule = Rule {
    name: "machine-path",
    remedy: "write a path of the repository, a temporary directory, or `/home/user/…` in examples",
};

/// Folders that exist on somebody's machine. In pieces, so that this file passes its own rule.
const FOLDERS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/ho", "me/")];

/// The people who live in our examples.
const PEOPLE: [&str; 2] = ["user", "ada"];

/// Files that may name such a path, and why.
const NAMED_PATHS: &[Exception] = &[];

fn check(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for folder in FOLDERS {
            let places = line.match_indices(folder).map(|(place, _)| place);
            for place in places.filter(|place| is_machine_path(line, *place, folder)) {
                let path: String =
                    line[place..].chars().take_while(|c| is_path_char(*c)).take(60).collect();
                findings.push(MACHINE.at(&file.path, index + 1, format!("`{path}`")));
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
    let example = owner.is_empty() || PEOPLE.contains(&owner.as_str());
    absolute && !((folder == FOLDERS[2] || folder == FOLDERS[3]) && example)
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn is_path_char(c: char) -> bool {
    is_name_char(c) || matches!(c, '/' | '~')
}

#[test]
fn no_file_names_a_place_on_one_machine() {
    let findings = tree::files().iter().flat_map(check).collect();
    assert_none(&excuse(&MACHINE, findings, NAMED_PATHS));
}

#[test]
fn a_path_of_one_machine_is_found() {
    let [work, root, users, home] = FOLDERS;
    let lines = [
        format!("see {work}main"),
        format!("\"{root}.cargo\""),
        format!("{home}linus/src and {home}user/project"),
        format!("path={users}linus"),
        format!("{home}ada/project, {home}<name>, src{work}x, https://example.com{root}x"),
        format!("{{dir}}{work}x and ~{work}x"),
    ];
    let file = File { path: "docs/a.md".to_owned(), text: lines.join("\n") };

    assert_lines(&check(&file), &[1, 2, 3, 4]);
}
