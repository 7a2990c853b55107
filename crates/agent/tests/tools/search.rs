//! Finding files and lines.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use turnstone_agent::tool::{GlobTool, GrepTool, Tool, ToolError, ToolHost};

use crate::fake_host::{ToolFixture, failure};

fn project() -> ToolFixture {
    let case = ToolFixture::new();
    for (name, content) in [
        (".gitignore", "ignored/\n*.log\n"),
        ("a.rs", "fn one() {}\nfn two() {}\n"),
        ("src/b.rs", "// nothing\nfn three() {}\r\n"),
        ("src/c.txt", "fn in text\n"),
        (".hidden.rs", "fn hidden() {}\n"),
        ("ignored/d.rs", "fn ignored() {}\n"),
        ("x.log", "fn log() {}\n"),
        (".git/config", "fn git\n"),
    ] {
        case.put(name, content);
    }
    case.put("binary", b"fn binary\0\x01");
    case
}

fn lines(case: &ToolFixture, tool: &dyn Tool, input: &Value) -> Vec<String> {
    let root = format!("{}/", case.root().display());
    let output = case.run(tool, input).expect("found").output;
    output.lines().map(|line| line.replace(&root, "")).collect()
}

#[test]
fn files_are_found_by_name_without_ignored_and_hidden_ones() {
    let case = project();
    let host = case.host("glob");
    let reply = GlobTool.run(&host, &json!({"pattern": "*.rs"})).expect("found");
    assert_eq!(host.asked(), ["glob: *.rs"]);
    assert_eq!(
        reply.metadata["count"],
        json!(3 - 1 + usize::from(reply.output.contains("hidden")))
    );
    let found = lines(&case, &GlobTool, &json!({"pattern": "**/*.rs"}));
    assert!(found.contains(&"a.rs".to_owned()) && found.contains(&"src/b.rs".to_owned()));
    assert!(
        !found.iter().any(|line| line.contains("ignored") || line.contains(".git")),
        "{found:?}"
    );
    assert_eq!(lines(&case, &GlobTool, &json!({"pattern": "src/*"})), ["src/b.rs", "src/c.txt"]);
    let absolute = format!("{}/src/*.txt", case.root().display());
    assert_eq!(lines(&case, &GlobTool, &json!({ "pattern": absolute })), ["src/c.txt"]);
    assert_eq!(lines(&case, &GlobTool, &json!({"pattern": "*.nope"})), ["No files found"]);
    for number in 0..150 {
        case.put(&format!("many/{number:03}.x"), "");
    }
    let reply = case.run(&GlobTool, &json!({"pattern": "*.x", "path": "many"})).expect("found");
    assert_eq!(
        reply.metadata,
        *json!({"count": 100, "truncated": true}).as_object().expect("object")
    );
    assert!(reply.output.contains("099.x") && !reply.output.contains("100.x"));
    assert_eq!(reply.title, "many");
    for (input, reason) in [
        (json!({"pattern": "*", "path": "a.rs"}), "not a directory"),
        (json!({"pattern": "[", "path": "src"}), "not a valid pattern"),
        (json!({"pattern": "*", "path": "missing"}), "not a directory"),
    ] {
        let words = failure(case.run(&GlobTool, &input));
        assert!(words.contains(reason), "{words}");
    }
}

#[test]
fn lines_are_found_by_content_and_grouped_by_file() {
    let case = project();
    let host = case.host("grep");
    let reply = GrepTool.run(&host, &json!({"pattern": "fn \\w+\\(", "include": "*.rs"}));
    let reply = reply.expect("found");
    assert_eq!(host.asked(), ["grep: fn \\w+\\("]);
    let root = case.root();
    assert_eq!(
        reply.output,
        format!(
            "Found 4 matches\n{root}/.hidden.rs:\n  Line 1: fn hidden() {{}}\n\n\
             {root}/a.rs:\n  Line 1: fn one() {{}}\n  Line 2: fn two() {{}}\n\n\
             {root}/src/b.rs:\n  Line 2: fn three() {{}}",
            root = root.display()
        )
    );
    assert_eq!(
        reply.metadata,
        *json!({"matches": 4, "truncated": false}).as_object().expect("object")
    );
    // A file is searched, not its folder.
    let found = lines(&case, &GrepTool, &json!({"pattern": "fn", "path": "src/c.txt"}));
    assert_eq!(found, ["Found 1 matches", "src/c.txt:", "  Line 1: fn in text"]);
    assert_eq!(lines(&case, &GrepTool, &json!({"pattern": "absent"})), ["No files found"]);
    case.put("many.txt", "hit\n".repeat(500));
    let reply = case.run(&GrepTool, &json!({"pattern": "^hit$"})).expect("found");
    assert!(reply.output.starts_with("Found more than 100 matches"));
    assert_eq!(reply.metadata["matches"], json!(100));
    assert!(
        failure(case.run(&GrepTool, &json!({"pattern": "("}))).contains("not a valid expression")
    );
    assert!(failure(case.run(&GrepTool, &json!({"pattern": ""}))).contains("must not be empty"));
}

#[test]
fn search_leaves_the_project_only_after_an_ask_and_opens_only_regular_files() {
    let case = project();
    let outside = fs_err::canonicalize(case.dir.path()).expect("real").join("outside");
    fs_err::create_dir(&outside).expect("made");
    fs_err::write(outside.join("secret.rs"), "fn secret() {}\n").expect("written");
    symlink(&outside, case.root().join("link")).expect("linked");
    symlink(outside.join("secret.rs"), case.root().join("secret.rs")).expect("linked");
    symlink("/dev/zero", case.root().join("zero.rs")).expect("linked");
    let fifo = rustix::fs::FileType::Fifo;
    let pipe = case.root().join("pipe.rs");
    rustix::fs::mknodat(rustix::fs::CWD, pipe, fifo, rustix::fs::Mode::RWXU, 0).expect("made");

    let found = case.run(&GrepTool, &json!({"pattern": "fn"})).expect("found").output;
    assert!(!found.contains("secret"), "links are not followed: {found}");
    let found = case.run(&GlobTool, &json!({"pattern": "*.rs"})).expect("found").output;
    assert!(!found.contains("secret"), "{found}");
    let words = failure(case.run(&GrepTool, &json!({"pattern": "x", "path": "zero.rs"})));
    assert!(words.contains("neither"), "{words}");

    let external = format!("external_directory: {}/*", outside.display());
    for tool in [&GlobTool as &dyn Tool, &GrepTool] {
        let host = case.host("search");
        tool.run(&host, &json!({"pattern": "fn", "path": outside})).expect("searched");
        assert_eq!(host.asked()[0], external);
    }
    let host = case.host("grep");
    host.abort().request();
    let aborted = GrepTool.run(&host, &json!({"pattern": "fn"}));
    assert!(matches!(aborted, Err(ToolError::Aborted)), "{aborted:?}");
}
