//! Every route that starts git, in every repository that tries to run a program.

use serde_json::{Value, json};
use turnstone_testkit::tripwire::{TRIPWIRES, Tripwire};

use crate::support::{ServerFixture, TestClient};

/// Asks everything that can be asked of a directory, and returns the answers that are mistakes.
fn ask_all(tripwire: &Tripwire, client: &TestClient, asked: &str) -> Vec<String> {
    let mut mistakes = Vec::new();
    // Of a file whose content is missing there is no difference to show: nothing is fetched.
    let is_whole = !tripwire.name.starts_with("promisor");
    let paths =
        ["/vcs", "/vcs/status", "/file/status", "/vcs/diff/raw", "/path", "/project/current"];
    let diffs = ["git", "branch"].map(|mode| format!("/vcs/diff?mode={mode}&"));
    let all = paths.map(|path| format!("{path}?")).into_iter().chain(diffs);
    for path in all {
        let path = format!("{path}{asked}");
        // A web page of another origin; whether it gets an answer is tested elsewhere.
        client.with_header("Origin", "https://evil.example").get(&path);
        let answer = client.get(&path);
        if answer.status != 200 && is_whole {
            mistakes.push(format!("{}: GET {path}: {}", tripwire.name, answer.text()));
        }
    }
    let session = client.post(&format!("/session?{asked}"), &json!({}));
    if session.status != 200 {
        mistakes.push(format!("{}: POST /session: {}", tripwire.name, session.text()));
    }
    let made = client.post(&format!("/experimental/worktree?{asked}"), &json!({ "name": "feat" }));
    let refused = ["include on", "promisor", ".git file"];
    match made.status {
        200 => mistakes.extend(use_worktree(client, asked, &made.json()["directory"])),
        _ if refused.iter().any(|name| tripwire.name.starts_with(name)) => {}
        _ => mistakes.push(format!("{}: POST worktree: {}", tripwire.name, made.text())),
    }
    mistakes
}

/// Changes a worktree, resets it and removes it.
fn use_worktree(client: &TestClient, asked: &str, directory: &Value) -> Option<String> {
    let file = std::path::Path::new(directory.as_str()?).join("a.txt");
    let text = fs_err::read_to_string(&file).ok()?;
    if text != "six\n" {
        return Some(format!("a filter has converted the file to {text:?}"));
    }
    let inside = format!("directory={}", directory.as_str()?);
    client.get(&format!("/vcs/status?{inside}"));
    client.get(&format!("/vcs/diff?mode=git&{inside}"));
    let body = json!({ "directory": directory });
    let reset = client.post(&format!("/experimental/worktree/reset?{asked}"), &body);
    let path = format!("/experimental/worktree?{asked}");
    let removed = client.send("DELETE", &path, Some(body.to_string().as_bytes()));
    let done = reset.status == 200 && removed.status == 200;
    (!done).then(|| format!("reset: {}, removed: {}", reset.text(), removed.text()))
}

#[test]
fn no_route_runs_repository_programs() {
    let mut mistakes = Vec::new();
    for tripwire in TRIPWIRES {
        let (house, hostile) = (ServerFixture::new(), tripwire.create());
        let asked = format!("directory={}", hostile.directory().display());
        mistakes.extend(ask_all(tripwire, house.client(), &asked));
        let trace = hostile.take_trace();
        if !trace.is_empty() || hostile.directory().join("proof").exists() {
            mistakes.push(format!("{}: it ran {trace}", tripwire.name));
        }
    }
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

#[test]
fn git_file_pointing_elsewhere_is_rejected_with_a_hint() {
    let house = ServerFixture::with_git();
    let hostile = house.sibling("hostile");
    fs_err::create_dir(&hostile).expect("made");
    let git_dir = house.project().join(".git");
    fs_err::write(hostile.join(".git"), format!("gitdir: {}\n", git_dir.display()))
        .expect("written");
    let path = format!("/session?directory={}", hostile.display());
    let refused = house.client().post(&path, &json!({})).expect(409);
    assert_eq!(refused["_tag"], "RepositoryError");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("safe.directory"), "{message}");
}
