//! What git reports of a directory over HTTP (`docs/snapshot-parity.md` 7 and 8.7).

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{ServerFixture, git};

fn commit_all(house: &ServerFixture, words: &str) {
    git(&house.project(), &["add", "-A"]);
    git(&house.project(), &["commit", "-q", "-m", words]);
}

fn rows(diff: &Value) -> Vec<(&str, &str)> {
    let rows = diff.as_array().expect("a list").iter();
    rows.map(|row| (row["file"].as_str().expect("a file"), row["status"].as_str().expect("a word")))
        .collect()
}

#[test]
fn detached_head_has_no_branch() {
    let house = ServerFixture::with_git();
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/vcs"), json!({ "branch": "main", "default_branch": "main" }));
    git(&house.project(), &["checkout", "-q", "--detach"]);
    assert_eq!(get("/vcs"), json!({ "branch": null, "default_branch": "main" }));
    let plain = house.sibling("plain");
    fs_err::create_dir(&plain).expect("made");
    assert_eq!(
        get(&format!("/vcs?directory={}", plain.display())),
        json!({ "branch": null, "default_branch": null })
    );
}

#[test]
fn branch_changes_are_published() {
    let house = ServerFixture::with_git();
    let mut stream = house.client().stream("/event");
    stream.wait_for("server.connected");
    git(&house.project(), &["checkout", "-q", "-b", "feature/x"]);
    assert_eq!(
        stream.wait_for("vcs.branch.updated")["properties"],
        json!({ "branch": "feature/x" })
    );
    assert_eq!(house.client().get("/vcs").expect(200)["branch"], "feature/x");
    // A commit moves the branch, not the checkout.
    house.write_file("b.txt", "b\n");
    commit_all(&house, "two");
    git(&house.project(), &["checkout", "-q", "--detach"]);
    assert_eq!(stream.wait_for("vcs.branch.updated")["properties"], json!({}));
    git(&house.project(), &["checkout", "-q", "main"]);
    assert_eq!(stream.wait_for("vcs.branch.updated")["properties"], json!({ "branch": "main" }));
}

#[test]
fn linked_worktree_has_own_branch_and_shared_default() {
    let house = ServerFixture::with_git();
    let linked = house.sibling("linked");
    git(&house.project(), &["worktree", "add", "-q", "-b", "side", &linked.to_string_lossy()]);
    let asked = format!("?directory={}", linked.display());
    let shown = house.client().get(&format!("/vcs{asked}")).expect(200);
    assert_eq!(shown, json!({ "branch": "side", "default_branch": "main" }));
    let mut stream = house.client().stream(&format!("/event{asked}"));
    stream.wait_for("server.connected");
    git(&linked, &["checkout", "-q", "-b", "other"]);
    assert_eq!(stream.wait_for("vcs.branch.updated")["properties"], json!({ "branch": "other" }));
}

#[test]
fn default_branch_is_the_configured_one_if_present() {
    let house = ServerFixture::with_git();
    let default = || house.client().get("/vcs").expect(200)["default_branch"].clone();
    git(&house.project(), &["config", "init.defaultBranch", "trunk"]);
    assert_eq!(default(), "main", "there is no such branch");
    git(&house.project(), &["branch", "trunk"]);
    assert_eq!(default(), "trunk");
    git(&house.project(), &["config", "--unset", "init.defaultBranch"]);
    git(&house.project(), &["branch", "-m", "main", "master"]);
    assert_eq!(default(), "master");
    git(&house.project(), &["branch", "-m", "master", "something"]);
    assert_eq!(default(), Value::Null);
}

#[test]
fn unusual_file_names_keep_patches_separate() {
    let house = ServerFixture::with_git();
    house.write_file("tab\there.txt", "one\n");
    house.write_file("kind", "a file\n");
    house.write_file("lines", "a\r\nb\rc\n");
    house.write_file("plain", "x\n");
    commit_all(&house, "two");
    house.write_file("tab\there.txt", "two\n");
    house.write_file("lines", "a\r\nB\rc\n");
    house.write_file("plain", "y\n");
    fs_err::remove_file(house.project().join("kind")).expect("gone");
    symlink("plain", house.project().join("kind")).expect("a link");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    let wanted = ["kind", "lines", "plain", "tab\there.txt"].map(|name| (name, "modified"));
    assert_eq!(rows(&diff), wanted);
    let patch = |nth: usize| diff[nth]["patch"].as_str().expect("a patch");
    assert!(patch(0).contains("deleted file mode 100644"), "{}", patch(0));
    assert!(patch(0).contains("new file mode 120000"), "{}", patch(0));
    assert!(patch(1).contains("-b\rc\n+B\rc\n"), "{:?}", patch(1));
    assert!(patch(1).contains(" a\r\n"), "{:?}", patch(1));
    assert!(patch(3).ends_with("-one\n+two\n"), "{:?}", patch(3));
    assert_eq!((&diff[0]["additions"], &diff[0]["deletions"]), (&json!(1), &json!(1)));
}

#[test]
fn diff_context_lines_are_configurable() {
    let house = ServerFixture::with_git();
    let lines: Vec<String> = (0..50).map(|nth| nth.to_string()).collect();
    house.write_file("long", &(lines.join("\n") + "\n"));
    commit_all(&house, "two");
    house.write_file("long", &(lines.join("\n").replace("25", "changed") + "\n"));
    let count = |query: &str| {
        let diff = house.client().get(&format!("/vcs/diff?mode=git{query}")).expect(200);
        let patch = diff[0]["patch"].as_str().expect("a patch");
        patch.lines().filter(|line| line.starts_with(' ')).count()
    };
    assert_eq!(count(""), 49);
    assert_eq!(count("&context=2"), 4);
    assert_eq!(count("&context=0"), 0);
    assert_eq!(count("&context=2147483647"), 49);
    let refused = house.client().get("/vcs/diff?mode=git&context=2147483648").expect(400);
    assert_eq!(refused["name"], "BadRequest");
    house.client().get("/vcs/diff?mode=git&context=-1").expect(400);
}

#[test]
fn branch_diff_is_empty_on_or_without_default_branch() {
    let house = ServerFixture::with_git();
    house.write_file("README.md", "# changed\n");
    let get = |mode: &str| house.client().get(&format!("/vcs/diff?mode={mode}")).expect(200);
    assert_eq!(rows(&get("git")), [("README.md", "modified")]);
    assert_eq!(get("branch"), json!([]));
    git(&house.project(), &["checkout", "-q", "-b", "side"]);
    house.write_file("new.txt", "new\n");
    let both = [("README.md", "modified"), ("new.txt", "added")];
    assert_eq!(rows(&get("branch")), both);
    git(&house.project(), &["branch", "-m", "main", "elsewhere"]);
    assert_eq!(get("branch"), json!([]));
}

#[test]
fn repository_without_commit_shows_all_files_as_added() {
    let house = ServerFixture::new();
    git(&house.project(), &["init", "-q"]);
    house.write_file("staged", "s\n");
    git(&house.project(), &["add", "."]);
    house.write_file("loose", "l\n");
    let status = house.client().get("/vcs/status").expect(200);
    assert_eq!(rows(&status), [("loose", "added"), ("staged", "added")]);
    assert_eq!(house.client().get("/vcs/diff?mode=branch").expect(200), json!([]));
}

#[test]
fn deleted_conflicted_and_binary_files_have_a_status() {
    let house = ServerFixture::with_git();
    fs_err::write(house.project().join("bytes"), [0, 159, 146, 150]).expect("written");
    house.write_file("gone", "g\n");
    commit_all(&house, "two");
    fs_err::write(house.project().join("bytes"), [0, 1, 2, 3]).expect("written");
    fs_err::remove_file(house.project().join("gone")).expect("gone");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("bytes", "modified"), ("gone", "deleted")]);
    let patch = diff[0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("Binary files a/bytes and b/bytes differ"), "{patch}");
    assert_eq!((&diff[0]["additions"], &diff[0]["deletions"]), (&json!(0), &json!(0)));
}

#[test]
fn oversized_patches_are_empty_but_files_are_listed() {
    let house = ServerFixture::with_git();
    house.write_file("a", "small\n");
    house.write_file("b", &"0123456789abcdef\n".repeat(700_000));
    house.write_file("c", "after\n");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("a", "added"), ("b", "added"), ("c", "added")]);
    assert!(!diff[0]["patch"].as_str().expect("a patch").is_empty());
    assert_eq!((&diff[1]["patch"], &diff[2]["patch"]), (&json!(""), &json!("")));
    assert_eq!(diff[1]["additions"], 700_000);
}

#[test]
fn new_repository_is_recognised_at_once() {
    let house = ServerFixture::new();
    assert_eq!(
        house.client().get("/vcs").expect(200),
        json!({ "branch": null, "default_branch": null })
    );
    let before = house.client().get("/project/current").expect(200);
    let made = house.client().post("/session", &json!({})).expect(200);
    assert_eq!(made["projectID"], before["id"]);
    git(&house.project(), &["init", "-q"]);
    house.write_file("a.txt", "a\n");
    commit_all(&house, "one");
    let shown = json!({ "branch": "main", "default_branch": "main" });
    assert_eq!(house.client().get("/vcs").expect(200), shown);
    let after = house.client().get("/project/current").expect(200);
    assert_eq!((&after["id"], &after["vcs"]), (&before["id"], &json!("git")));
}

#[test]
fn worktree_create_needs_no_body_and_rejects_null() {
    let house = ServerFixture::with_git();
    let make = |body: Option<&[u8]>| house.client().send("POST", "/experimental/worktree", body);
    let first = make(None).expect(200);
    let second = make(Some(b"{}")).expect(200);
    assert_ne!(first["directory"], second["directory"]);
    make(Some(b"null")).expect(400);
    let listed = house.client().get("/experimental/worktree").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}

#[test]
fn file_git_cannot_diff_is_still_listed() {
    let house = ServerFixture::with_git();
    house.write_file("nested/file", "x\n");
    git(&house.project().join("nested"), &["init", "-q"]);
    symlink("/etc", house.project().join("elsewhere")).expect("linked");
    house.write_file("new", "one\n");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("elsewhere", "added"), ("nested/", "added"), ("new", "added")]);
    let shown: Vec<_> = diff.as_array().expect("a list").iter().map(|one| &one["patch"]).collect();
    assert_eq!(shown[1], &Value::Null, "nothing made up");
    assert!(shown[0].as_str().is_some_and(|patch| patch.contains("+/etc\n")), "{}", shown[0]);
    assert!(shown[2].as_str().is_some_and(|patch| patch.contains("+one")));
    for path in ["/vcs/status", "/file/status"] {
        assert_eq!(
            house.client().get(path).expect(200).as_array().map(Vec::len),
            Some(3),
            "{path}"
        );
    }
    assert!(house.client().get("/vcs/diff/raw").text().contains("+one"));
}

#[test]
fn untracked_links_and_odd_names_are_shown_without_following_them() {
    let house = ServerFixture::with_git();
    let outside = house.sibling("outside");
    fs_err::create_dir(&outside).expect("made");
    fs_err::write(outside.join("null"), "top secret\n").expect("written");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    let pipes = house.sibling("pipes");
    fs_err::create_dir(&pipes).expect("made");
    rustix::fs::mknodat(rustix::fs::CWD, pipes.join("null"), fifo, mode, 0).expect("a pipe");
    symlink(&outside, house.project().join("folder")).expect("linked");
    symlink(&pipes, house.project().join("waits")).expect("linked");
    symlink(outside.join("null"), house.project().join("linked-file")).expect("linked");
    house.write_file("-", "standard input\n");
    house.write_file("tab\there", "t\n");
    rustix::fs::mknodat(rustix::fs::CWD, house.project().join("pipe"), fifo, mode, 0)
        .expect("a pipe");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    let names = ["-", "folder", "linked-file", "tab\there", "waits"];
    assert_eq!(rows(&diff), names.map(|name| (name, "added")));
    for (row, name) in diff.as_array().expect("a list").iter().zip(names) {
        assert_eq!(row["additions"], 1, "{row}");
        let patch = row["patch"].as_str().expect("a patch");
        let is_link = !["-", "tab\there"].contains(&name);
        assert_eq!(patch.contains("new file mode 120000\n"), is_link, "{patch}");
    }
    let folder = diff[1]["patch"].as_str().expect("a patch");
    let target = outside.to_string_lossy();
    assert!(folder.ends_with(&format!("+{target}\n\\ No newline at end of file\n")), "{folder}");
    assert!(diff[0]["patch"].as_str().is_some_and(|patch| patch.contains("+standard input\n")));
    let raw = house.client().get("/vcs/diff/raw");
    assert!(raw.status == 200 && !raw.text().contains("top secret"), "{}", raw.text());
}

#[test]
fn untracked_files_in_sha256_repositories_are_shown() {
    let house = ServerFixture::new();
    git(&house.project(), &["init", "-q", "--object-format=sha256"]);
    house.write_file("new", "n\n");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("new", "added")]);
    let patch = diff[0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("+n\n") && !patch.contains("index "), "{patch}");
}
