//! The index of `docs/snapshot-parity.md`: every item is there, and every test it names exists.

use std::path::Path;

fn collect_sources(folder: &Path, text: &mut String) {
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            collect_sources(&path, text);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs_err::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn parity_table_names_only_existing_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut code = String::new();
    collect_sources(&root.join("src"), &mut code);
    collect_sources(&root.join("tests"), &mut code);
    for folder in ["../core/src", "../engine/src", "../server/src", "../server/tests"] {
        collect_sources(&root.join(folder), &mut code);
    }
    let page =
        fs_err::read_to_string(root.join("../../docs/snapshot-parity.md")).expect("the page");
    let page = page.split("## Injected failures").next().expect("the tables");
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
        let excused = ours.contains("not snapshots") || ours.contains("the snapshot bench");
        assert!(!names.is_empty() || excused, "{item} names no test");
        for name in names {
            assert!(code.contains(&format!("fn {name}()")), "{item}: {name} does not exist");
        }
    }
    let items: Vec<&str> = rows.iter().map(|row| row[1]).collect();
    let wanted = (1..=56).map(|n| format!("8.1.{n}"));
    let wanted = wanted.chain((35..=56).map(|n| format!("W{n}")));
    let wanted = wanted.chain((1..=8).map(|n| format!("7.{n}")));
    let wanted = wanted.chain((1..=6).map(|n| format!("8.7.{n}")));
    for item in wanted.chain((1..=9).map(|n| format!("S{n}"))) {
        assert!(items.contains(&item.as_str()), "{item} is missing");
    }
}
