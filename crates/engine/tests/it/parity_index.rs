//! The index of `docs/session-parity.md`: every item is there, and every test it names exists.

use std::path::Path;

/// Items of each section that lists what is asserted elsewhere.
const SECTIONS: [(&str, usize); 13] = [
    ("12.1", 13),
    ("12.2", 8),
    ("12.3", 8),
    ("12.4", 9),
    ("12.5", 13),
    ("12.6", 9),
    ("12.7", 2),
    ("12.8", 17),
    ("8.3", 2),
    ("8.4", 9),
    ("8.5", 4),
    ("8.6", 4),
    ("8.8", 9),
];

/// Crates with tests that the page names.
const CRATES: [&str; 9] =
    ["agent", "cli", "core", "engine", "exchange", "process", "server", "snapshot", "store"];

fn sources(folder: &Path, text: &mut String) {
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs_err::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn session_parity_table_names_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut code = String::new();
    for name in CRATES {
        for folder in ["src", "tests"] {
            sources(&root.join("crates").join(name).join(folder), &mut code);
        }
    }
    let page = fs_err::read_to_string(root.join("docs/session-parity.md")).expect("the page");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| item"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        let [_, item, _, ours, _] = row[..] else {
            panic!("a row has three cells: {row:?}");
        };
        // A name of a test has several words; other code in backticks has none or one.
        let names: Vec<&str> =
            ours.split('`').skip(1).step_by(2).filter(|it| it.matches('_').count() > 1).collect();
        assert!(!names.is_empty() || ours.starts_with("sharing"), "{item} names no test");
        for name in names {
            let exists = code.contains(&format!("fn {name}("));
            assert!(exists, "{item}: {name} does not exist");
        }
    }
    let items: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    let wanted = SECTIONS
        .iter()
        .flat_map(|(section, count)| (1..=*count).map(move |n| format!("{section}.{n}")))
        .chain((1..=34).map(|n| format!("W{n}")));
    for item in wanted {
        assert_eq!(items.iter().filter(|it| **it == item).count(), 1, "{item} has one row");
    }
}
