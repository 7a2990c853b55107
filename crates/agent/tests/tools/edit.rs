//! Editing parts of files.

use serde_json::{Value, json};
use turnstone_agent::tool::{EditTool, Tool, ToolError, ToolHost, ToolSettings};

use crate::fake_host::{ToolFixture, failure};

fn tool() -> EditTool {
    EditTool::new(&ToolSettings::default())
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"filePath": path, "oldString": old, "newString": new})
}

#[test]
fn one_place_is_edited_shown_and_undone() {
    let case = ToolFixture::new();
    case.put("src/a.rs", "one\ntwo\nthree\n");
    let host = case.host("edit");

    let reply = tool().run(&host, &edit("src/a.rs", "two", "2")).expect("edited");

    assert_eq!(case.text("src/a.rs").as_deref(), Some("one\n2\nthree\n"));
    assert_eq!(host.asked(), ["edit: src/a.rs"]);
    let diff = reply.metadata["diff"].as_str().expect("text");
    assert!(diff.ends_with("@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"), "{diff}");
    assert_eq!(host.asks()[0].metadata["diff"], json!(diff));
    assert_eq!(reply.metadata["filediff"]["additions"], json!(1));
    assert_eq!(reply.metadata["filediff"]["file"], json!(case.root().join("src/a.rs")));
    assert_eq!(reply.title, "src/a.rs");
    assert!(case.undo().is_complete());
    assert_eq!(case.text("src/a.rs").as_deref(), Some("one\ntwo\nthree\n"));
}

#[test]
fn file_is_created_with_an_empty_old_string() {
    let case = ToolFixture::new();
    case.run(&tool(), &edit("new/a.txt", "", "text\n")).expect("created");
    assert_eq!(case.text("new/a.txt").as_deref(), Some("text\n"));
    assert!(case.undo().is_complete());
    assert_eq!(case.text("new/a.txt"), None);
}

#[test]
fn refused_edit_leaves_files_as_they_were() {
    let case = ToolFixture::new();
    case.put("a.txt", "same same\n");
    case.put("latin", b"caf\xe9\n");
    fs_err::create_dir(case.root().join("folder")).expect("made");
    let before = case.files();
    for (path, old, new, reason) in [
        ("a.txt", "same", "other", "several places"),
        ("a.txt", "missing", "other", "not found"),
        ("a.txt", "same", "same", "the same"),
        ("a.txt", "", "other", "must not be empty"),
        ("gone.txt", "same", "other", "File not found"),
        ("folder", "same", "other", "is a directory"),
        ("latin", "caf", "tea", "not UTF-8"),
        ("../a.txt", "", "other", "outside of the project"),
    ] {
        let words = failure(case.run(&tool(), &edit(path, old, new)));
        assert!(words.contains(reason), "{path}: {words}");
    }
    let host = case.host("edit").deciding(|_| Err(ToolError::Rejected("no".to_owned())));
    assert!(matches!(
        tool().run(&host, &edit("a.txt", "same same", "x")),
        Err(ToolError::Rejected(_))
    ));
    assert_eq!(case.files(), before);
}

#[test]
fn line_ends_and_byte_order_mark_are_kept() {
    let case = ToolFixture::new();
    for (file, old, new, expected) in [
        ("a\nb\nc\n", "a\nb", "x\ny", "x\ny\nc\n"),
        ("a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\r\nb\r\n", "x\r\n", "x\r\nc\r\n"),
        ("a\r\nb\r\nc", "c", "x\ny", "a\r\nb\r\nx\r\ny"),
        ("a\nb\nc", "b\nc", "", "a\n"),
        ("\u{feff}a\r\nb", "a\nb", "x\ny", "\u{feff}x\r\ny"),
        ("\u{feff}a\nb", "a", "x", "\u{feff}x\nb"),
        ("a\n\n\nb", "\n\n\n", "\n", "a\nb"),
    ] {
        case.put("f", file);
        case.run(&tool(), &edit("f", old, new)).expect(file);
        assert_eq!(case.text("f").as_deref(), Some(expected), "{file:?}");
    }
}

#[test]
fn all_occurrences_are_replaced_on_demand() {
    let case = ToolFixture::new();
    case.put("a.txt", "a b a\n");
    let input =
        json!({"filePath": "a.txt", "oldString": "a", "newString": "c", "replaceAll": true});
    let reply = case.run(&tool(), &input).expect("edited");
    assert_eq!(case.text("a.txt").as_deref(), Some("c b c\n"));
    assert_eq!(reply.output, "Edit applied successfully.");
}

#[test]
fn edits_of_one_file_at_once_all_survive() {
    let case = ToolFixture::new();
    let lines: String = (0..6).map(|number| format!("line {number};\n")).collect();
    case.put("a.txt", &lines);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6)
            .map(|number| {
                let case = &case;
                scope.spawn(move || {
                    let input =
                        edit("a.txt", &format!("line {number};"), &format!("edited {number};"));
                    // A call that loses too many races says so and changes nothing.
                    while case.run(&tool(), &input).is_err() {}
                })
            })
            .collect();
        for call in calls {
            call.join().expect("no panic");
        }
    });
    assert_eq!(case.text("a.txt"), Some(lines.replace("line", "edited")));
}

#[test]
fn save_of_a_person_while_they_are_asked_is_merged_or_kept() {
    let case = ToolFixture::new();
    case.put("a.txt", "one\ntwo\n");
    let file = case.root().join("a.txt");
    let saves = std::sync::Mutex::new(vec!["one\ntwo\nthree\n"]);
    let host = case.host("edit").deciding(move |_| {
        if let Some(text) = saves.lock().expect("not poisoned").pop() {
            fs_err::write(&file, text).expect("saved");
        }
        Ok(())
    });
    tool().run(&host, &edit("a.txt", "two", "2")).expect("edited");
    // The file changed, so the new difference was asked about again.
    assert_eq!(host.asks().len(), 2);
    assert_eq!(case.text("a.txt").as_deref(), Some("one\n2\nthree\n"));
    assert!(host.asks()[1].metadata["diff"].as_str().expect("text").contains(" three\n"));
    assert!(!host.abort().is_requested());
}
