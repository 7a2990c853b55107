//! A repository that git cannot read, or reads for too long, is reported as such and not as a mistake
//! of the server.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{ServerFixture, git};

/// The routes that ask git, and what they need in their query.
const ROUTES: [&str; 5] =
    ["/vcs/status", "/file/status", "/vcs/diff/raw", "/vcs/diff?mode=git", "/vcs/diff?mode=branch"];

/// Checks that an answer is a typed refusal which names a reason and what to do.
fn is_refused(answer: &Value, reason: &str) -> bool {
    let message = answer["message"].as_str().unwrap_or_default();
    answer["_tag"] == "RepositoryError" && message.contains(reason) && message.contains("(hint: ")
}

/// Puts a program in the place of git: a script that sees the arguments of git.
fn replace_git(house: &ServerFixture, script: &str) {
    let bin = house.sibling("bin");
    fs_err::create_dir_all(&bin).expect("made");
    let written = house.sibling("git.new");
    fs_err::write(&written, format!("#!/bin/sh\n{script}\nexec /usr/bin/git \"$@\"\n"))
        .expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    fs_err::set_permissions(&written, mode).expect("executable");
    fs_err::rename(&written, bin.join("git")).expect("renamed");
}

#[test]
fn repositories_git_cannot_read_are_conflicts_on_every_route() {
    let house = ServerFixture::with_git();
    let at = |name: &str| -> PathBuf { house.project().join(".git").join(name) };
    let ask = |case: &str, reason: &str| {
        for route in ROUTES {
            let answer = house.client().get(route).expect(409);
            assert!(is_refused(&answer, reason), "{case}: {route}: {answer}");
        }
    };
    git(&house.project(), &["checkout", "-q", "-b", "side"]);
    house.client().get("/vcs/status").expect(200);

    let index = fs_err::read(at("index")).expect("read");
    fs_err::write(at("index"), "no index").expect("written");
    ask("index", "index file");
    fs_err::remove_file(at("index")).expect("removed");
    symlink("/dev/zero", at("index")).expect("linked");
    ask("endless index", "index");
    fs_err::remove_file(at("index")).expect("removed");
    fs_err::write(at("index"), index).expect("written");

    fs_err::rename(at("objects"), at("away")).expect("renamed");
    fs_err::create_dir(at("objects")).expect("made");
    ask("objects", "git");
    fs_err::remove_dir(at("objects")).expect("removed");
    fs_err::rename(at("away"), at("objects")).expect("renamed");

    let config = fs_err::read(at("config")).expect("read");
    fs_err::write(at("config"), "[core\n").expect("written");
    ask("config", "config");
    let answer = house.client().post("/experimental/worktree", &json!({})).expect(409);
    assert!(is_refused(&answer, "config"), "{answer}");
    fs_err::write(at("config"), config).expect("written");
    house.client().get("/vcs/status").expect(200);
}

#[test]
fn answers_git_never_documented_are_conflicts() {
    let house = ServerFixture::with_git();
    house.client().get("/vcs/status").expect(200);
    replace_git(&house, r#"case "$*" in *status*) printf 'nonsense\0'; exit 0;; esac"#);
    for route in ["/vcs/status", "/file/status", "/vcs/diff/raw", "/vcs/diff?mode=git"] {
        let answer = house.client().get(route).expect(409);
        assert!(is_refused(&answer, "nonsense"), "{route}: {answer}");
    }
}

#[test]
fn patches_too_large_for_git_are_named_and_counted() {
    let house = ServerFixture::with_git();
    house.write_file("old", "one\ntwo\n");
    house.write_file("tab\there", "x\n");
    git(&house.project(), &["add", "-A"]);
    git(&house.project(), &["commit", "-q", "-m", "two"]);
    house.write_file("README.md", "# changed\n# twice\n");
    house.write_file("tab\there", "y\n");
    fs_err::remove_file(house.project().join("old")).expect("removed");
    house.write_file("new", "n\n");
    // Every patch is too large, whatever its context; a summary is not.
    replace_git(&house, r#"case "$*" in *--unified*) exec yes;; esac"#);
    for context in ["", "&context=3", "&context=0"] {
        let diff = house.client().get(&format!("/vcs/diff?mode=git{context}")).expect(200);
        let rows: Vec<Value> = diff
            .as_array()
            .expect("a list")
            .iter()
            .map(|row| json!([row["file"], row["status"], row["additions"], row["deletions"]]))
            .collect();
        let wanted = [
            json!(["README.md", "modified", 2, 1]),
            json!(["new", "added", 1, 0]),
            json!(["old", "deleted", 0, 2]),
            json!(["tab\there", "modified", 1, 1]),
        ];
        assert_eq!(rows, wanted, "{context}");
        assert_eq!(diff[0]["patch"], "");
    }
    assert_eq!(house.client().get("/vcs/status").expect(200).as_array().map(Vec::len), Some(4));

    replace_git(&house, r#"case "$*" in *" diff "*|*status*) exec yes;; esac"#);
    let answer = house.client().get("/vcs/diff?mode=git&context=0").expect(409);
    assert!(is_refused(&answer, "git diff wrote more than"), "{answer}");
}

#[test]
fn git_that_is_too_old_is_a_conflict_of_its_own() {
    let house = ServerFixture::with_git();
    replace_git(&house, r#"case "$*" in *version*) echo "git version 2.37.7"; exit 0;; esac"#);
    for route in ROUTES {
        let answer = house.client().get(route).expect(409);
        assert_eq!(answer["_tag"], "GitError", "{route}: {answer}");
        assert!(answer["message"].as_str().is_some_and(|it| it.contains("newer git")), "{answer}");
    }
    assert_eq!(
        house.client().get("/vcs").expect(200),
        json!({ "branch": "main", "default_branch": null })
    );
}

#[test]
fn the_document_names_the_errors_of_repositories() {
    let house = ServerFixture::new();
    let document = house.client().get("/doc").expect(200);
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["RepositoryError"]["properties"]["_tag"]["const"], "RepositoryError");
    for path in ["/vcs", "/vcs/status", "/vcs/diff", "/vcs/diff/raw", "/file/status"] {
        let refused = &document["paths"][path]["get"]["responses"]["409"];
        assert_eq!(refused["$ref"], "#/components/responses/RepositoryRefusal", "{path}");
    }
}
