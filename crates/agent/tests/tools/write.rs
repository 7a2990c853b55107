//! Writing whole files.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;
use turnstone_agent::tool::{ReadTool, Tool, ToolError, ToolSettings, WriteTool};

use crate::fake_host::{ToolFixture, failure};

fn tool() -> WriteTool {
    WriteTool::new(&ToolSettings::default())
}

fn read(case: &ToolFixture, path: &str) {
    let tool = ReadTool::new(&ToolSettings::default());
    case.run(&tool, &json!({ "filePath": path })).expect("read");
}

#[test]
fn new_file_is_created_with_its_folders_and_undone() {
    let case = ToolFixture::in_directory("sub");
    let host = case.host("write");

    let input = json!({"filePath": "deep/er/a.txt", "content": "one\n"});
    let reply = tool().run(&host, &input).expect("written");

    assert_eq!(case.text("sub/deep/er/a.txt").as_deref(), Some("one\n"));
    assert_eq!(reply.title, "sub/deep/er/a.txt");
    assert_eq!(reply.metadata["exists"], json!(false));
    assert_eq!(reply.metadata["diagnostics"], json!({}));
    let ask = &host.asks()[0];
    assert_eq!((ask.permission.as_str(), &ask.patterns[..]), ("edit", &[reply.title.clone()][..]));
    assert!(ask.metadata["diff"].as_str().expect("text").contains("\n+one\n"));
    assert_eq!(ask.metadata["filepath"], json!(case.root().join("sub/deep/er/a.txt")));
    let paths = tool().written_paths(&scope_of(&case), &input).expect("known");
    assert_eq!(paths, [case.root().join("sub/deep/er/a.txt")]);

    assert!(case.undo().is_complete());
    assert_eq!(case.text("sub/deep/er/a.txt"), None);
}

fn scope_of(case: &ToolFixture) -> turnstone_agent::tool::ToolScope {
    use turnstone_agent::tool::ToolHost;
    case.host("write").scope().clone()
}

#[test]
fn existing_file_must_have_been_read_and_be_unchanged() {
    let case = ToolFixture::new();
    case.put("a.txt", "old\n");
    let input = json!({"filePath": "a.txt", "content": "new\n"});
    let host = case.host("write");

    let words = failure(tool().run(&host, &input));
    assert!(words.contains("has not been read") && words.contains("tool read"), "{words}");
    assert!(host.asks().is_empty(), "what cannot be written is not asked");

    read(&case, "a.txt");
    case.put("a.txt", "a person was here\n");
    let words = failure(case.run(&tool(), &input));
    assert!(words.contains("has changed since it was read"), "{words}");
    assert_eq!(case.text("a.txt").as_deref(), Some("a person was here\n"));

    read(&case, "a.txt");
    let reply = case.run(&tool(), &input).expect("written");
    assert_eq!(reply.metadata["exists"], json!(true));
    // The session knows what it wrote.
    let input = json!({"filePath": "a.txt", "content": "newer\n"});
    case.run(&tool(), &input).expect("written");
    assert_eq!(case.text("a.txt").as_deref(), Some("newer\n"));
    assert!(case.undo().is_complete());
    assert_eq!(case.text("a.txt").as_deref(), Some("a person was here\n"));
}

#[test]
fn save_of_a_person_while_they_are_asked_is_kept() {
    let case = ToolFixture::new();
    case.put("a.txt", "old\n");
    read(&case, "a.txt");
    let file = case.root().join("a.txt");
    let host = case.host("write").deciding(move |_| {
        fs_err::write(&file, "saved meanwhile\n").expect("saved");
        Ok(())
    });
    let words = failure(tool().run(&host, &json!({"filePath": "a.txt", "content": "new\n"})));
    assert!(words.contains("changed since"), "{words}");
    assert_eq!(case.text("a.txt").as_deref(), Some("saved meanwhile\n"));
}

#[test]
fn byte_order_mark_and_mode_are_kept() {
    let case = ToolFixture::new();
    case.put("run.sh", "\u{feff}old");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    fs_err::set_permissions(case.root().join("run.sh"), mode(0o755)).expect("set");
    read(&case, "run.sh");
    case.run(&tool(), &json!({"filePath": "run.sh", "content": "new"})).expect("written");
    assert_eq!(case.text("run.sh").as_deref(), Some("\u{feff}new"));
    let found = fs_err::metadata(case.root().join("run.sh")).expect("there");
    assert_eq!(found.permissions().mode() & 0o777, 0o755);
}

#[test]
fn refused_call_leaves_files_as_they_were() {
    let case = ToolFixture::new();
    case.put("a.txt", "old\n");
    read(&case, "a.txt");
    let outside = case.dir.path().join("outside.txt");
    fs_err::write(&outside, "mine").expect("written");
    symlink(&outside, case.root().join("link.txt")).expect("linked");
    fs_err::create_dir(case.root().join("folder")).expect("made");
    let before = case.files();
    let write = |path: &str| json!({"filePath": path, "content": "new"});

    let host = case.host("write").deciding(|_| Err(ToolError::Rejected("no".to_owned())));
    assert!(matches!(tool().run(&host, &write("a.txt")), Err(ToolError::Rejected(_))));
    for path in ["../outside.txt", "/etc/passwd", "link.txt", "../new.txt"] {
        let host = case.host("write");
        let words = failure(tool().run(&host, &write(path)));
        assert!(words.contains("outside of the project"), "{path}: {words}");
        assert!(host.asks().is_empty(), "{path}");
    }
    assert!(failure(case.run(&tool(), &write("folder"))).contains("is a directory"));
    failure(case.run(&tool(), &write("a.txt/below")));
    failure(case.run(&tool(), &json!({"filePath": "a.txt"})));

    assert_eq!(case.files(), before);
    assert_eq!(fs_err::read_to_string(outside).expect("read"), "mine");
}
