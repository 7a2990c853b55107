//! A denial counts for a file, whatever name a request or a repository gives it.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use turnstone_server::ServerSettings;

use crate::support::{HttpAnswer, ServerFixture, TestClient, TurnDriver, git};

/// A repository with a file that the user's own configuration protects, and links to it.
fn house() -> ServerFixture {
    house_with(|_| {})
}

/// The same with other settings.
fn house_with(change: impl FnOnce(&mut ServerSettings)) -> ServerFixture {
    let house = ServerFixture::with_settings(change);
    git(&house.project(), &["init", "-q"]);
    house.configure_user(
        r#"{"permission": {"edit": {"secret*": "deny"}, "read": {"secret*": "deny"}}}"#,
    );
    house.write_file("secret.txt", "original");
    house.write_file("sub/plain.txt", "plain");
    for (target, name) in [
        (".", "self"),
        ("secret.txt", "innocent"),
        ("innocent", "twice"),
        ("secret-to-be", "dangling"),
        ("sub/plain.txt", "secret-link"),
    ] {
        symlink(target, house.project().join(name)).expect("linked");
    }
    symlink(house.project(), house.sibling("other-name")).expect("linked");
    house
}

/// Names of protected files, from the root of the project.
fn aliases(house: &ServerFixture) -> Vec<String> {
    let project = house.project().display().to_string();
    let outer = house.sibling("").display().to_string();
    let names = [
        "secret.txt",
        "./secret.txt",
        "sub/../secret.txt",
        "sub/plain.txt/../../secret.txt",
        "missing/../secret.txt",
        "self/secret.txt",
        "self/./sub/../secret.txt",
        "innocent",
        "twice",
        "dangling",
        "secret-link",
    ];
    let mut names: Vec<String> = names.map(str::to_owned).to_vec();
    names.extend([
        format!("{project}/secret.txt"),
        format!("/proc/self/root{project}/secret.txt"),
        format!("{project}/../project/secret.txt"),
        format!("{outer}other-name/secret.txt"),
    ]);
    names
}

fn driver_in(client: &TestClient, house: &ServerFixture, below: &str) -> TurnDriver {
    let directory = house.project().join(below);
    let path = format!("/session?directory={}", directory.display());
    let made = client.post(&path, &json!({ "title": "T" })).expect(200);
    TurnDriver::begin(client, made["id"].as_str().expect("an id"), "go")
}

fn assert_refused(answer: &HttpAnswer, what: &str) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text());
    assert_eq!(answer.json()["_tag"], "NotAllowedError", "{what}");
}

fn write(driver: &TurnDriver, name: &str) -> HttpAnswer {
    let file = json!({ "path": name, "text": "overwritten", "expected": "absent" });
    driver.post("file/write", &json!({ "files": [file] }))
}

fn begin_tool(driver: &TurnDriver, step: &str, tool: &str, name: &str) -> HttpAnswer {
    let body = json!({ "messageID": step, "callID": name, "tool": tool, "input": {},
        "touches": { "paths": [name] } });
    driver.post("tool", &body)
}

fn ask(driver: &TurnDriver, permission: &str, pattern: &str) -> Value {
    let body = json!({ "permission": permission, "patterns": [pattern], "always": [pattern] });
    driver.post("permission", &body).expect(200)["verdict"].clone()
}

/// Proves R38: links, `..` and other names of a file do not lead around a denial.
#[test]
fn user_denial_counts_for_every_name_of_a_file() {
    let house = house();
    let body = json!({ "name": "r", "directory": house.project() });
    let runner = house.client().post("/turnstone/runner", &body).expect(200);
    let token = runner["token"].as_str().expect("a token");
    for client in [house.client().clone(), house.client().with_header("x-turnstone-token", token)] {
        let driver = driver_in(&client, &house, "");
        let step = driver.step();
        for name in aliases(&house) {
            assert_refused(&write(&driver, &name), &format!("write {name}"));
            assert_refused(&begin_tool(&driver, &step, "edit", &name), &format!("tool {name}"));
            assert_refused(&begin_tool(&driver, &step, "bash", &name), &format!("bash {name}"));
            assert_refused(
                &driver.post("file/read", &json!({ "path": name })),
                &format!("read {name}"),
            );
            for permission in ["edit", "read"] {
                assert_eq!(ask(&driver, permission, &name), "denied", "{permission} {name}");
            }
        }
        driver.post("file/read", &json!({ "path": "sub/plain.txt" })).expect(200);
        begin_tool(&driver, &step, "edit", "self/sub/plain.txt").expect(200);
        assert_eq!(ask(&driver, "edit", "sub/plain.txt"), "allowed");
        driver.end();
        let driver = driver_in(&client, &house, "sub");
        for name in ["../secret.txt", "./../self/secret.txt", "../sub/../innocent"] {
            assert_refused(&write(&driver, name), &format!("write {name} from below"));
            assert_eq!(ask(&driver, "edit", name), "denied", "edit {name} from below");
        }
        driver.end();
    }
    let text = fs_err::read_to_string(house.project().join("secret.txt")).expect("read");
    assert_eq!(text, "original");
}

/// A request for a directory outside counts for the directory that is meant, and so does a rule.
#[test]
fn denied_directory_outside_is_denied_under_other_names() {
    let house = house();
    let outside = house.sibling("outside");
    fs_err::create_dir(&outside).expect("made");
    symlink(&outside, house.project().join("way-out")).expect("linked");
    symlink(&outside, house.sibling("named-in-rule")).expect("linked");
    let rule = house.sibling("named-in-rule").display().to_string();
    let settings = json!({ "permission": { "external_directory": { format!("{rule}/*"): "deny" },
        "edit": { format!("{rule}/*"): "deny" } } });
    house.configure_user(&settings.to_string());
    let driver = driver_in(house.client(), &house, "");
    let step = driver.step();
    let project = house.project().display().to_string();
    for name in [
        outside.display().to_string(),
        rule,
        format!("{project}/way-out"),
        format!("{project}/../outside"),
    ] {
        let pattern = format!("{name}/*");
        assert_eq!(ask(&driver, "external_directory", &pattern), "denied", "{pattern}");
        let file = format!("{name}/new");
        assert_refused(&begin_tool(&driver, &step, "edit", &file), &file);
        assert_eq!(ask(&driver, "edit", &file), "denied", "{file}");
    }
    driver.end();
}

/// What a rule allows stays allowed where a link of the user is on the way to the project.
#[test]
fn allowed_directory_behind_a_link_stays_allowed() {
    let house = ServerFixture::new();
    let real = house.sibling("real");
    fs_err::create_dir(&real).expect("made");
    let named = house.sibling("named");
    symlink(&real, &named).expect("linked");
    let plans = format!("{}/*.md", named.display());
    let rules = json!({ "permission": { "edit": { "*": "deny", plans: "allow" } } });
    house.configure_user(&rules.to_string());
    let driver = driver_in(house.client(), &house, "");
    for folder in [&named, &real] {
        assert_eq!(ask(&driver, "edit", &format!("{}/a.md", folder.display())), "allowed");
        assert_eq!(ask(&driver, "edit", &format!("{}/a.sh", folder.display())), "denied");
    }
    driver.end();
}

/// A lock is one on the file, whatever name the request gives it.
#[test]
fn lock_counts_for_every_name_of_a_file() {
    let house = house_with(|settings| settings.limits.file_wait_ms = 1);
    let holder = driver_in(house.client(), &house, "");
    let writer = driver_in(house.client(), &house, "");
    let project = house.project().display().to_string();
    let locked =
        |answer: HttpAnswer| answer.status == 409 && answer.json()["_tag"] == "FileLockedError";
    let (real, again) = (format!("{project}/sub/plain.txt"), format!("{project}/sub/./plain.txt"));
    for name in ["self/sub/plain.txt", "sub/../sub/plain.txt", "secret-link", "sub/plain.txt"] {
        holder.post("file/lock", &json!({ "paths": [format!("{project}/{name}")] })).expect(200);
        let file = json!({ "path": "sub/plain.txt", "text": "x" });
        let written = writer.post("file/write", &json!({ "files": [file] }));
        assert!(locked(written), "write next to a lock on {name}");
        let second = writer.post("file/lock", &json!({ "paths": [real, again] }));
        assert!(locked(second), "lock next to a lock on {name}");
        holder.send("DELETE", "file/lock", &Value::Null).expect(200);
    }
    writer.post("file/lock", &json!({ "paths": [real, again] })).expect(200);
    for outside in
        ["/etc/passwd".to_owned(), format!("{project}/../elsewhere"), "/nowhere/f".into()]
    {
        let answer = holder.post("file/lock", &json!({ "paths": [outside] }));
        assert_refused(&answer, &outside);
    }
}
