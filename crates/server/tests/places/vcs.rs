//! What git says of a place over HTTP (`docs/snapshot-parity.md` 7 and 8.7).

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{House, git};

fn committed(house: &House, words: &str) {
    git(&house.project(), &["add", "-A"]);
    git(&house.project(), &["commit", "-q", "-m", words]);
}

fn rows(diff: &Value) -> Vec<(&str, &str)> {
    let rows = diff.as_array().expect("a list").iter();
    rows.map(|row| (row["file"].as_str().expect("a file"), row["status"].as_str().expect("a word")))
        .collect()
}

#[test]
fn section_8_7_a_checkout_on_no_branch_has_none_and_no_repository_has_nothing() {
    let house = House::in_git();
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/vcs"), json!({ "branch": "main", "default_branch": "main" }));
    git(&house.project(), &["checkout", "-q", "--detach"]);
    assert_eq!(get("/vcs"), json!({ "default_branch": "main" }));
    let plain = house.beside("plain");
    fs_err::create_dir(&plain).expect("made");
    assert_eq!(get(&format!("/vcs?directory={}", plain.display())), json!({}));
}

#[test]
fn section_8_7_streams_are_told_of_another_branch_and_of_none() {
    let house = House::in_git();
    let mut stream = house.client().stream("/event");
    stream.until("server.connected");
    git(&house.project(), &["checkout", "-q", "-b", "feature/x"]);
    assert_eq!(stream.until("vcs.branch.updated")["properties"], json!({ "branch": "feature/x" }));
    assert_eq!(house.client().get("/vcs").expect(200)["branch"], "feature/x");
    // A commit moves the branch, not the checkout.
    house.put("b.txt", "b\n");
    committed(&house, "two");
    git(&house.project(), &["checkout", "-q", "--detach"]);
    assert_eq!(stream.until("vcs.branch.updated")["properties"], json!({}));
    git(&house.project(), &["checkout", "-q", "main"]);
    assert_eq!(stream.until("vcs.branch.updated")["properties"], json!({ "branch": "main" }));
}

#[test]
fn section_8_7_a_linked_worktree_has_its_own_branch_and_the_default_of_the_repository() {
    let house = House::in_git();
    let linked = house.beside("linked");
    git(&house.project(), &["worktree", "add", "-q", "-b", "side", &linked.to_string_lossy()]);
    let asked = format!("?directory={}", linked.display());
    let shown = house.client().get(&format!("/vcs{asked}")).expect(200);
    assert_eq!(shown, json!({ "branch": "side", "default_branch": "main" }));
    let mut stream = house.client().stream(&format!("/event{asked}"));
    stream.until("server.connected");
    git(&linked, &["checkout", "-q", "-b", "other"]);
    assert_eq!(stream.until("vcs.branch.updated")["properties"], json!({ "branch": "other" }));
}

#[test]
fn section_8_7_the_default_branch_is_the_configured_one_if_it_is_there() {
    let house = House::in_git();
    let default = || house.client().get("/vcs").expect(200)["default_branch"].clone();
    git(&house.project(), &["config", "init.defaultBranch", "trunk"]);
    assert_eq!(default(), "main", "there is no such branch");
    git(&house.project(), &["branch", "trunk"]);
    assert_eq!(default(), "trunk");
    git(&house.project(), &["config", "--unset", "init.defaultBranch"]);
    git(&house.project(), &["branch", "-m", "main", "master"]);
    assert_eq!(default(), "master");
    git(&house.project(), &["branch", "-m", "master", "something"]);
    assert_eq!(house.client().get("/vcs").expect(200).get("default_branch"), None);
}

#[test]
fn section_8_7_names_with_tabs_carriage_returns_and_changed_kinds_keep_patches_apart() {
    let house = House::in_git();
    house.put("tab\there.txt", "one\n");
    house.put("kind", "a file\n");
    house.put("lines", "a\r\nb\rc\n");
    house.put("plain", "x\n");
    committed(&house, "two");
    house.put("tab\there.txt", "two\n");
    house.put("lines", "a\r\nB\rc\n");
    house.put("plain", "y\n");
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
fn section_7_a_file_is_shown_whole_or_with_the_lines_that_were_asked_for() {
    let house = House::in_git();
    let lines: Vec<String> = (0..50).map(|nth| nth.to_string()).collect();
    house.put("long", &(lines.join("\n") + "\n"));
    committed(&house, "two");
    house.put("long", &(lines.join("\n").replace("25", "changed") + "\n"));
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
fn section_7_a_branch_has_no_difference_with_itself_nor_without_a_default_branch() {
    let house = House::in_git();
    house.put("README.md", "# changed\n");
    let get = |mode: &str| house.client().get(&format!("/vcs/diff?mode={mode}")).expect(200);
    assert_eq!(rows(&get("git")), [("README.md", "modified")]);
    assert_eq!(get("branch"), json!([]));
    git(&house.project(), &["checkout", "-q", "-b", "side"]);
    house.put("new.txt", "new\n");
    let both = [("README.md", "modified"), ("new.txt", "added")];
    assert_eq!(rows(&get("branch")), both);
    git(&house.project(), &["branch", "-m", "main", "elsewhere"]);
    assert_eq!(get("branch"), json!([]));
}

#[test]
fn section_7_a_repository_without_a_commit_shows_everything_as_new() {
    let house = House::new();
    git(&house.project(), &["init", "-q"]);
    house.put("staged", "s\n");
    git(&house.project(), &["add", "."]);
    house.put("loose", "l\n");
    let status = house.client().get("/vcs/status").expect(200);
    assert_eq!(rows(&status), [("loose", "added"), ("staged", "added")]);
    assert_eq!(house.client().get("/vcs/diff?mode=branch").expect(200), json!([]));
}

#[test]
fn section_7_deleted_files_conflicts_and_bytes_that_are_no_text_have_their_words() {
    let house = House::in_git();
    fs_err::write(house.project().join("bytes"), [0, 159, 146, 150]).expect("written");
    house.put("gone", "g\n");
    committed(&house, "two");
    fs_err::write(house.project().join("bytes"), [0, 1, 2, 3]).expect("written");
    fs_err::remove_file(house.project().join("gone")).expect("gone");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("bytes", "modified"), ("gone", "deleted")]);
    let patch = diff[0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("Binary files a/bytes and b/bytes differ"), "{patch}");
    assert_eq!((&diff[0]["additions"], &diff[0]["deletions"]), (&json!(0), &json!(0)));
}

#[test]
fn section_7_patches_beyond_ten_megabytes_are_empty_and_their_files_still_named() {
    let house = House::in_git();
    house.put("a", "small\n");
    house.put("b", &"0123456789abcdef\n".repeat(700_000));
    house.put("c", "after\n");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("a", "added"), ("b", "added"), ("c", "added")]);
    assert!(!diff[0]["patch"].as_str().expect("a patch").is_empty());
    assert_eq!((&diff[1]["patch"], &diff[2]["patch"]), (&json!(""), &json!("")));
    assert_eq!(diff[1]["additions"], 700_000);
}

#[test]
fn section_8_7_a_directory_that_becomes_a_repository_is_one_at_once() {
    let house = House::new();
    assert_eq!(house.client().get("/vcs").expect(200), json!({}));
    let before = house.client().get("/project/current").expect(200);
    let made = house.client().post("/session", &json!({})).expect(200);
    assert_eq!(made["projectID"], before["id"]);
    git(&house.project(), &["init", "-q"]);
    house.put("a.txt", "a\n");
    committed(&house, "one");
    let shown = json!({ "branch": "main", "default_branch": "main" });
    assert_eq!(house.client().get("/vcs").expect(200), shown);
    let after = house.client().get("/project/current").expect(200);
    assert_eq!((&after["id"], &after["vcs"]), (&before["id"], &json!("git")));
}

#[test]
fn section_8_6_a_worktree_needs_no_body_and_is_not_made_of_null() {
    let house = House::in_git();
    let make = |body: Option<&[u8]>| house.client().send("POST", "/experimental/worktree", body);
    let first = make(None).expect(200);
    let second = make(Some(b"{}")).expect(200);
    assert_ne!(first["directory"], second["directory"]);
    make(Some(b"null")).expect(400);
    let listed = house.client().get("/experimental/worktree").expect(200);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}

#[test]
fn what_git_cannot_show_is_named_and_hides_nothing_else() {
    let house = House::in_git();
    house.put("nested/file", "x\n");
    git(&house.project().join("nested"), &["init", "-q"]);
    symlink("/etc", house.project().join("elsewhere")).expect("linked");
    house.put("new", "one\n");
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
    let house = House::in_git();
    let outside = house.beside("outside");
    fs_err::create_dir(&outside).expect("made");
    fs_err::write(outside.join("null"), "top secret\n").expect("written");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = rustix::fs::FileType::Fifo;
    let pipes = house.beside("pipes");
    fs_err::create_dir(&pipes).expect("made");
    rustix::fs::mknodat(rustix::fs::CWD, pipes.join("null"), fifo, mode, 0).expect("a pipe");
    symlink(&outside, house.project().join("folder")).expect("linked");
    symlink(&pipes, house.project().join("waits")).expect("linked");
    symlink(outside.join("null"), house.project().join("linked-file")).expect("linked");
    house.put("-", "standard input\n");
    house.put("tab\there", "t\n");
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
    let house = House::new();
    git(&house.project(), &["init", "-q", "--object-format=sha256"]);
    house.put("new", "n\n");
    let diff = house.client().get("/vcs/diff?mode=git").expect(200);
    assert_eq!(rows(&diff), [("new", "added")]);
    let patch = diff[0]["patch"].as_str().expect("a patch");
    assert!(patch.contains("+n\n") && !patch.contains("index "), "{patch}");
}
