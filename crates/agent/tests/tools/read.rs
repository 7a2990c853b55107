//! Reading: pages, directories, media, and what is not to be read.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use serde_json::json;
use turnstone_agent::tool::{ReadTool, Tool, ToolError, ToolSettings};

use crate::fake_host::{ToolFixture, failure};

fn tool() -> ReadTool {
    ReadTool::new(&ToolSettings::default())
}

#[test]
fn page_has_numbered_lines_and_says_how_to_continue() {
    let case = ToolFixture::in_directory("sub");
    let text: String = (1..=30).map(|number| format!("line {number}\n")).collect();
    case.put("sub/a.txt", text);
    let host = case.host("read");

    let reply = tool().run(&host, &json!({"filePath": "a.txt", "offset": 3, "limit": 2}));

    let reply = reply.expect("read");
    let path = case.root().join("sub/a.txt");
    assert_eq!(
        reply.output,
        format!(
            "<path>{}</path>\n<type>file</type>\n<content>\n3: line 3\n4: line 4\n\n\
             (Showing lines 3-4 of 30. Use offset=5 to continue.)\n</content>",
            path.display()
        )
    );
    assert_eq!(reply.title, "sub/a.txt");
    assert_eq!(host.asked(), ["read: sub/a.txt"]);
    assert_eq!(host.asks()[0].always, ["*"]);
    assert_eq!(reply.metadata["display"]["totalLines"], json!(30));
    assert_eq!(reply.metadata["display"]["text"], json!("line 3\nline 4"));
    assert_eq!(reply.metadata["truncated"], json!(true));

    let last = case.run(&tool(), &json!({"filePath": "a.txt", "offset": 29})).expect("read");
    assert!(last.output.contains("30: line 30\n\n(End of file - total 30 lines)"));
    assert_eq!(last.metadata["truncated"], json!(false));
    let words = failure(case.run(&tool(), &json!({"filePath": "a.txt", "offset": 31})));
    assert!(words.contains("beyond the end") && words.contains("30 lines"), "{words}");
}

#[test]
fn empty_file_is_read_from_its_first_line() {
    let case = ToolFixture::new();
    case.put("empty", "");
    let reply = case.run(&tool(), &json!({"filePath": "empty"})).expect("read");
    assert!(reply.output.contains("(End of file - total 0 lines)"), "{}", reply.output);
    case.put("huge", "x".repeat(1_000).repeat(100) + "\n" + &"line of text\n".repeat(10_000));
    let reply = case.run(&tool(), &json!({"filePath": "huge"})).expect("read");
    assert!(reply.output.contains("(line truncated to 2000 chars)"));
    assert!(reply.output.contains("Showing lines 1-2000 of 10001."), "{:.200}", reply.output);
    case.put("wide", (String::from("wide").repeat(100) + "\n").repeat(1_000));
    let reply = case.run(&tool(), &json!({"filePath": "wide"})).expect("read");
    assert!(reply.output.contains("Output capped at 50 KB. Showing lines 1-127."));
    assert_eq!(reply.metadata["display"]["lineEnd"], json!(127));
}

#[test]
fn missing_file_proposes_similar_names() {
    let case = ToolFixture::new();
    case.put("Readme.md", "x");
    let words = failure(case.run(&tool(), &json!({"filePath": "readme.md"})));
    assert!(words.contains("File not found") && words.contains("Readme.md"), "{words}");
}

#[test]
fn media_are_attached_and_binary_files_are_refused() {
    let case = ToolFixture::new();
    case.put("a.txt", b"\x89PNG\r\n\x1a\nrest");
    let reply = case.run(&tool(), &json!({"filePath": "a.txt"})).expect("read");
    assert_eq!(reply.output, "Image read successfully");
    assert_eq!(reply.attachments[0].mime, "image/png");
    assert_eq!(reply.attachments[0].url, "data:image/png;base64,iVBORw0KGgpyZXN0");
    case.put("b.txt", b"a\0b");
    case.put("c.zip", "text");
    for name in ["b.txt", "c.zip"] {
        let words = failure(case.run(&tool(), &json!({ "filePath": name })));
        assert!(words.contains("binary"), "{words}");
    }
    case.put("latin", b"caf\xe9\n");
    let reply = case.run(&tool(), &json!({"filePath": "latin"})).expect("read");
    assert!(reply.output.contains("1: caf\u{fffd}\n"));
}

#[test]
fn directory_is_listed_and_its_names_are_sorted() {
    let case = ToolFixture::new();
    case.put("b/x", "");
    case.put("a", "");
    let reply = case.run(&tool(), &json!({"filePath": "."})).expect("read");
    assert!(reply.output.contains("<entries>\na\nb/\n\n(2 entries)\n</entries>"));
    assert_eq!(reply.metadata["display"]["entries"], json!(["a", "b/"]));
}

#[test]
fn path_outside_of_the_project_is_asked_first() {
    let case = ToolFixture::in_directory("sub");
    case.put("inside", "x");
    let outside = case.dir.path().join("outside");
    fs_err::create_dir(&outside).expect("made");
    fs_err::write(outside.join("f"), "secret").expect("written");
    let outside = fs_err::canonicalize(outside).expect("real");

    let host = case.host("read");
    tool().run(&host, &json!({"filePath": "../inside"})).expect("in the worktree");
    assert_eq!(host.asked(), ["read: inside"]);

    for path in [outside.join("f").display().to_string(), "../../outside/f".to_owned()] {
        let host = case.host("read");
        tool().run(&host, &json!({ "filePath": path })).expect("read");
        let file = outside.join("f").display().to_string();
        let expected =
            [format!("external_directory: {}/*", outside.display()), format!("read: {file}")];
        assert_eq!(host.asked(), expected);
        assert_eq!(host.asks()[0].metadata["parentDir"], json!(outside));
    }
    let host = case.host("read");
    tool().run(&host, &json!({"filePath": outside})).expect("listed");
    assert_eq!(host.asked()[0], format!("external_directory: {}/*", outside.display()));

    let host = case.host("read").deciding(|ask| match ask.permission.as_str() {
        "external_directory" => Err(ToolError::Denied("specified a rule".to_owned())),
        _ => Ok(()),
    });
    let refused = tool().run(&host, &json!({"filePath": outside.join("f")}));
    assert!(matches!(refused, Err(ToolError::Denied(_))), "{refused:?}");
}

#[test]
fn link_out_of_the_project_is_asked_like_its_target() {
    let case = ToolFixture::new();
    let outside = fs_err::canonicalize(case.dir.path()).expect("real").join("outside");
    fs_err::create_dir(&outside).expect("made");
    fs_err::write(outside.join("f"), "secret").expect("written");
    symlink(&outside, case.root().join("link")).expect("linked");

    let host = case.host("read");
    tool().run(&host, &json!({"filePath": "link/f"})).expect("read");

    let asked = &host.asks()[0];
    assert_eq!(asked.permission, "external_directory");
    assert!(asked.patterns.contains(&format!("{}/*", outside.display())), "{asked:?}");
}

#[test]
fn only_regular_files_are_opened() {
    let case = ToolFixture::new();
    let at = |name: &str| case.root().join(name);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, rustix::fs::Mode::RWXU, 0)
        .expect("made");
    symlink("/dev/zero", at("zero")).expect("linked");
    symlink("loop", at("loop")).expect("linked");
    let _socket = UnixListener::bind(at("socket")).expect("bound");
    for name in ["pipe", "zero", "socket", "loop"] {
        let words = failure(case.run(&tool(), &json!({ "filePath": name })));
        assert!(!words.is_empty(), "{name}");
    }
    let huge = fs_err::File::create(at("sparse")).expect("made");
    huge.set_len(2 << 30).expect("2 GiB of nothing");
    let words = failure(case.run(&tool(), &json!({"filePath": "sparse"})));
    assert!(words.contains("binary"), "{words}");
    assert!(failure(case.run(&tool(), &json!({"filePath": ""}))).contains("not a path"));
    assert!(failure(case.run(&tool(), &json!({"filePath": "a\0b"}))).contains("not a path"));
    case.put("line\nbreak", "x");
    case.run(&tool(), &json!({"filePath": "line\nbreak"})).expect("read");
}
