//! Files, search and what git says: inside the project, and never outside of it.

use serde_json::{Value, json};

use crate::support::{ServerFixture, git};

fn house() -> ServerFixture {
    let house = ServerFixture::with_git();
    house.write_file(".gitignore", "ignored/\n*.log\n");
    house.write_file("src/main.rs", "fn main() {}\n");
    house.write_file("a.txt", "hello\n");
    house.write_file("ignored/main.rs", "fn main() {}\n");
    git(&house.project(), &["add", "."]);
    git(&house.project(), &["commit", "-q", "-m", "two"]);
    house
}

#[test]
fn file_list_matches_recording() {
    let house = house();
    let shown = house.client().get("/file?path=.").expect(200);
    let rows: Vec<(&str, &str, bool)> = shown
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().expect("a text");
            (text("path"), text("type"), row["ignored"].as_bool().expect("a flag"))
        })
        .collect();
    let wanted = [
        (".git/", "directory", false),
        ("ignored/", "directory", true),
        ("src/", "directory", false),
        (".gitignore", "file", false),
        ("a.txt", "file", false),
        ("README.md", "file", false),
    ];
    assert_eq!(rows, wanted);
    assert_eq!(shown[2]["absolute"], json!(house.project().join("src")));
    let inner = house.client().get("/file?path=ignored").expect(200);
    assert_eq!(
        (&inner[0]["path"], &inner[0]["ignored"]),
        (&json!("ignored/main.rs"), &json!(true))
    );
}

#[test]
fn file_content_matches_recording_and_binary_is_encoded() {
    let house = house();
    let read = |path: &str| house.client().get(&format!("/file/content?path={path}")).expect(200);
    assert_eq!(read("a.txt"), json!({ "type": "text", "content": "hello" }));
    fs_err::write(house.project().join("p.png"), [0xff, 0, 1]).expect("written");
    let wanted = json!({ "type": "binary", "content": "/wAB", "encoding": "base64", "mimeType": "image/png" });
    assert_eq!(read("p.png"), wanted);
    let raw = house.client().get("/api/fs/read/a.txt");
    assert_eq!((raw.status, raw.text().as_str()), (200, "hello\n"));
}

/// Proves R16.
#[test]
fn file_routes_never_leave_the_project() {
    let house = house();
    fs_err::write(house.sibling("secret"), "top secret\n").expect("written");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, house.project().join(name)).expect("linked");
    };
    link("../secret", "link");
    link("..", "up");
    link("src", "inner");
    let outside = [
        "/etc/passwd",
        "../secret",
        "src/../../secret",
        "..",
        "a%00b",
        "link",
        "up/secret",
        "inner/main.rs",
    ];
    for path in outside {
        for route in ["/file/content?path=", "/file?path=", "/api/fs/list?path="] {
            let refused = house.client().get(&format!("{route}{path}"));
            assert_eq!(refused.status, 400, "{route}{path}: {}", refused.text());
            assert!(!refused.text().contains("top secret"));
        }
    }
    for path in ["%2Fetc%2Fpasswd", "..%2Fsecret", "link", "up/secret"] {
        let refused = house.client().get(&format!("/api/fs/read/{path}"));
        assert_eq!(refused.expect(400)["_tag"], "InvalidRequestError", "{path}");
    }
    let missing = house.client().get("/file/content?path=none").expect(404);
    assert_eq!(missing["name"], "NotFoundError");
    let found = house.client().get("/find?pattern=top%20secret").expect(200);
    assert_eq!(found, json!([]));
}

#[test]
fn text_search_matches_recording_and_skips_ignored_files() {
    let house = house();
    let found = house.client().get("/find?pattern=main").expect(200);
    let wanted = json!([{ "path": { "text": "src/main.rs" }, "lines": { "text": "fn main() {}\n" },
        "line_number": 1, "absolute_offset": 0,
        "submatches": [{ "match": { "text": "main" }, "start": 3, "end": 7 }] }]);
    assert_eq!(found, wanted);
    let refused = house.client().get("/find?pattern=(").expect(400);
    assert_eq!(
        (&refused["name"], &refused["data"]["kind"]),
        (&json!("BadRequest"), &json!("Query"))
    );
    assert_eq!(
        house.client().get("/find").expect(400)["data"]["message"],
        "Missing key\n  at [\"pattern\"]"
    );
    for number in 0..30 {
        house.write_file(&format!("many/{number}"), "needle\nneedle\n");
    }
    let found = house.client().get("/find?pattern=needle").expect(200);
    assert_eq!(found.as_array().map(Vec::len), Some(10));
}

#[test]
fn file_name_search_is_fuzzy() {
    let house = house();
    let find = |query: &str| house.client().get(&format!("/find/file?query={query}")).expect(200);
    assert_eq!(find("main"), json!(["src/main.rs"]));
    assert_eq!(find("smrs"), json!(["src/main.rs"]));
    assert_eq!(find("src&type=directory"), json!(["src/"]));
    assert_eq!(find("src&dirs=false"), json!(["src/main.rs"]));
    assert_eq!(house.client().get("/find/file?query=x&limit=0").expect(400)["name"], "BadRequest");
    let newer = house.client().get("/api/fs/find?query=main").expect(200);
    assert_eq!(newer["data"], json!([{ "path": "src/main.rs", "type": "file" }]));
    let listed = house.client().get("/api/fs/list").expect(200);
    assert_eq!(listed["data"][2], json!({ "path": "src/", "type": "directory" }));
}

#[test]
fn vcs_changes_match_recording() {
    let house = house();
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/vcs"), json!({ "branch": "main", "default_branch": "main" }));
    assert_eq!(get("/vcs/status"), json!([]));
    assert_eq!(get("/vcs/diff?mode=git"), json!([]));
    house.write_file("a.txt", "HELLO\n");
    house.write_file("b.txt", "one\ntwo\nthree\n");
    house.write_file("new.bin", "x");
    house.write_file("ignored/more", "x");
    let row = |file: &str, additions: u32, deletions: u32, status: &str| json!({ "file": file, "additions": additions, "deletions": deletions, "status": status });
    let rows = json!([
        row("a.txt", 1, 1, "modified"),
        row("b.txt", 3, 0, "added"),
        row("new.bin", 1, 0, "added")
    ]);
    assert_eq!(get("/vcs/status"), rows);
    let diff = get("/vcs/diff?mode=git");
    let patches: Vec<Value> =
        diff.as_array().expect("a list").iter().map(|row| row["patch"].clone()).collect();
    let wanted = [
        "diff --git a/a.txt b/a.txt\nindex ce01362..e427984 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-hello\n+HELLO\n",
        "diff --git a/b.txt b/b.txt\nnew file mode 100644\nindex 0000000..4cb29ea\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n",
        "diff --git a/new.bin b/new.bin\nnew file mode 100644\nindex 0000000..c1b0730\n--- /dev/null\n+++ b/new.bin\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n",
    ];
    assert_eq!(patches, wanted);
    let raw = house.client().get("/vcs/diff/raw");
    assert_eq!(raw.header("content-type"), Some("text/x-diff; charset=utf-8"));
    assert_eq!(raw.text(), wanted.concat());
    assert_eq!(
        get("/file/status")[0],
        json!({ "path": "a.txt", "added": 1, "removed": 1, "status": "modified" })
    );
    assert_eq!(house.client().get("/vcs/diff?mode=x").expect(400)["name"], "BadRequest");
    assert_eq!(house.client().get("/vcs/diff").expect(400)["name"], "BadRequest");
}

#[test]
fn branch_diff_uses_the_merge_base() {
    let house = house();
    git(&house.project(), &["checkout", "-q", "-b", "side"]);
    house.write_file("side.txt", "s\n");
    git(&house.project(), &["add", "."]);
    git(&house.project(), &["commit", "-q", "-m", "side"]);
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/vcs"), json!({ "branch": "side", "default_branch": "main" }));
    assert_eq!(get("/vcs/diff?mode=git"), json!([]));
    assert_eq!(get("/vcs/diff?mode=branch")[0]["file"], "side.txt");
}

#[test]
fn vcs_routes_are_empty_without_git() {
    let house = ServerFixture::new();
    assert_eq!(
        house.client().get("/vcs").expect(200),
        json!({ "branch": null, "default_branch": null })
    );
    assert_eq!(house.client().get("/vcs/status").expect(200), json!([]));
    assert_eq!(house.client().get("/vcs/diff?mode=branch").expect(200), json!([]));
}

#[test]
fn truncated_search_reports_what_is_missing() {
    let house = house();
    let get = |path: &str| house.client().get(path);
    assert_eq!(get("/find?pattern=main").header("x-turnstone-truncated"), None);
    for number in 0..30 {
        house.write_file(&format!("many/{number}"), "needle\n");
    }
    assert_eq!(get("/find?pattern=needle").header("x-turnstone-truncated"), Some("results"));
    assert_eq!(get("/find/file?query=many").header("x-turnstone-truncated"), Some("results"));
    let newer = get("/api/fs/find?query=many&limit=3");
    assert_eq!(newer.header("x-turnstone-truncated"), Some("results"));
    let newer = newer.expect(200);
    assert_eq!(newer["truncated"], json!(["results"]));
    assert_eq!(newer["data"].as_array().map(Vec::len), Some(3));

    // The pattern looks at the rest of the line for every single letter.
    house.write_file("line.txt", &"A".repeat(4 << 20));
    house.write_file("large.txt", &"A".repeat((4 << 20) + 1));
    let found = get("/find?pattern=AA.*%5B%5EA%5D%7CAAAA");
    let missing = Some("large-file, long-line, submatches");
    assert_eq!(found.header("x-turnstone-truncated"), missing);
    let found = found.expect(200);
    let line =
        found.as_array().expect("a list").iter().find(|hit| hit["path"]["text"] == "line.txt");
    assert_eq!(line.map(|hit| hit["submatches"].as_array().map(Vec::len)), Some(Some(100)));
}

#[test]
fn search_ignores_pipes_as_ignore_files() {
    let house = house();
    fs_err::remove_file(house.project().join(".gitignore")).expect("removed");
    // At the top git would read it, too, and the repository is refused.
    for name in ["src/.gitignore", "pipe.rs"] {
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = house.project().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
    }
    std::os::unix::fs::symlink("/dev/zero", house.project().join(".ignore")).expect("linked");
    let found = house.client().get("/find?pattern=fn%20main").expect(200);
    assert_eq!(found.as_array().map(Vec::len), Some(2));
    assert_eq!(house.client().get("/find/file?query=pipe.rs").expect(200), json!([]));
}
