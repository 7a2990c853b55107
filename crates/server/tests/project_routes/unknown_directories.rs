//! Reading about a directory stores nothing; the first change stores the project that was returned before.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnstone_core::time::EpochMillis;
use turnstone_store::{Actor, Context, SessionFilter};

use crate::support::{ServerFixture, git};

/// What the database and the data directory hold.
#[derive(Debug, PartialEq, Eq)]
struct StoredState {
    projects: Vec<String>,
    sessions: usize,
    end_of_log: i64,
    files: BTreeSet<PathBuf>,
}

impl StoredState {
    fn read(house: &ServerFixture) -> Self {
        let ctx = Context::new(Actor::new("test").expect("a name"), EpochMillis(0));
        let all = SessionFilter { archived: true, ..SessionFilter::default() };
        let read = house.engine().store().read(&ctx, |r| {
            let projects = r.projects().list()?.into_iter().map(|project| project.id.to_string());
            let sessions = r.sessions().list(&all, None, usize::MAX)?.items.len();
            Ok((projects.collect(), sessions, r.log().last_cursor()?.0))
        });
        let (projects, sessions, end_of_log) = read.expect("read");
        let mut files = BTreeSet::new();
        list(&house.sibling("data"), &mut files);
        Self { projects, sessions, end_of_log, files }
    }
}

fn list(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs_err::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, found);
        }
        found.insert(path);
    }
}

fn directory(path: &Path) -> String {
    format!("directory={}", path.display())
}

fn make(house: &ServerFixture, name: &str) -> PathBuf {
    let path = house.sibling(name);
    fs_err::create_dir_all(&path).expect("made");
    path
}

fn make_repository(house: &ServerFixture, name: &str) -> PathBuf {
    let path = make(house, name);
    git(&path, &["init", "-q"]);
    // Another root commit than any other repository of the test has.
    git(&path, &["commit", "-q", "--allow-empty", "-m", name]);
    path
}

fn project_of(house: &ServerFixture, path: &Path) -> Value {
    house.client().get(&format!("/project/current?{}", directory(path))).expect(200)
}

/// The GET routes of the document, their parameters filled in.
fn documented_get_paths(house: &ServerFixture, session: &str, project: &str) -> Vec<String> {
    let doc = house.client().get("/doc").expect(200);
    let fill = |part: &str| match part {
        "{sessionID}" => session.to_owned(),
        "{projectID}" => project.to_owned(),
        part if part.starts_with('{') => "x".to_owned(),
        part => part.to_owned(),
    };
    let paths = doc["paths"].as_object().expect("paths").iter();
    let readers = paths.filter(|(_, item)| item["get"].is_object());
    readers.map(|(path, _)| path.split('/').map(fill).collect::<Vec<_>>().join("/")).collect()
}

#[test]
fn get_requests_on_unknown_directories_store_nothing() {
    let house = ServerFixture::new();
    let plain: Vec<PathBuf> = (0..300).map(|n| make(&house, &format!("many/{n}"))).collect();
    let before = StoredState::read(&house);
    let mut asked = 0;
    for place in &plain {
        for route in ["/project/current", "/project", "/session", "/config", "/path"] {
            house.client().get(&format!("{route}?{}", directory(place))).expect(200);
            asked += 1;
        }
    }
    assert!(asked >= 1_500, "{asked}");
    assert_eq!(StoredState::read(&house), before);
}

#[test]
fn no_documented_get_route_stores_anything() {
    let house = ServerFixture::new();
    let known = make(&house, "known");
    let client = house.client().with_header("x-opencode-directory", &known.to_string_lossy());
    let session = client.post("/session", &json!({})).expect(200);
    let (session, project) = (session["id"].as_str(), session["projectID"].as_str());
    let readers = documented_get_paths(&house, session.expect("an id"), project.expect("an id"));
    assert!(readers.len() > 80, "{}", readers.len());
    let places = [make(&house, "plain"), make_repository(&house, "repository"), known];
    let before = StoredState::read(&house);
    for route in &readers {
        for place in &places {
            let target = format!("{route}?{}&query=a&pattern=a&path=.", directory(place));
            if route.ends_with("/event") {
                // A stream begins, and is left.
                drop(house.client().stream(&target));
                continue;
            }
            for method in ["GET", "HEAD"] {
                let answer = house.client().send(method, &target, None);
                assert!(answer.status != 500, "{method} {target}: {}", answer.text());
            }
        }
        assert_eq!(StoredState::read(&house), before, "{route}");
    }
}

#[test]
fn first_write_stores_the_derived_project() {
    let house = ServerFixture::new();
    let plain = make(&house, "plain");
    let repository = make_repository(&house, "repository");
    for place in [&plain, &repository] {
        let before = StoredState::read(&house);
        let reported = project_of(&house, place);
        assert_eq!(project_of(&house, place)["id"], reported["id"]);
        let query = directory(place);
        let listed = house.client().get(&format!("/project?{query}")).expect(200);
        let listed = listed.as_array().expect("a list").clone();
        assert!(listed.iter().any(|project| project["id"] == reported["id"]), "{listed:?}");
        let id = reported["id"].as_str().expect("an id");
        let folders = house.client().get(&format!("/project/{id}/directories?{query}"));
        assert_eq!(folders.expect(200), json!([{ "directory": place }]));
        assert_eq!(StoredState::read(&house), before);

        let made = house.client().post(&format!("/session?{query}"), &json!({})).expect(200);
        // The session begins the first capture of its directory.
        house.wait_until_captured();

        assert_eq!(made["projectID"], reported["id"]);
        let after = StoredState::read(&house);
        assert_eq!(after.projects.len(), before.projects.len() + 1);
        assert!(after.projects.iter().any(|project| project == id));
        assert_eq!(project_of(&house, place)["id"], reported["id"]);
    }
}

#[test]
fn derived_project_id_survives_restart() {
    let house = ServerFixture::new();
    let place = make(&house, "plain");
    let reported = project_of(&house, &place);
    let house = house.restart();
    assert_eq!(project_of(&house, &place)["id"], reported["id"]);
    let id = reported["id"].as_str().expect("an id");
    let named = json!({ "name": "tide" });
    house.client().patch(&format!("/project/{id}"), &named).expect(404);
    let path = format!("/project/{id}?{}", directory(&place));
    assert_eq!(house.client().patch(&path, &named).expect(200)["name"], "tide");
    assert_eq!(project_of(&house, &place)["name"], "tide");
    assert_eq!(StoredState::read(&house).projects, [id]);
}

/// R31: what is stored already is found again.
#[test]
fn get_lists_sessions_of_a_moved_directory() {
    let house = ServerFixture::new();
    let (old, new) = (make(&house, "old"), house.sibling("new"));
    git(&old, &["init", "-q"]);
    git(&old, &["commit", "-q", "--allow-empty", "-m", "one"]);
    git(&old, &["remote", "add", "origin", "https://host.example/a/b"]);
    let made = house.client().post(&format!("/session?{}", directory(&old)), &json!({}));
    let made = made.expect(200);
    fs_err::rename(&old, &new).expect("moved");
    let listed = house.client().get(&format!("/session?{}", directory(&new))).expect(200);
    assert_eq!(listed[0]["id"], made["id"]);
    assert_eq!(listed[0]["directory"], json!(new));
    assert_eq!(StoredState::read(&house).projects.len(), 1);
}

#[test]
fn impossible_directory_is_not_found() {
    let house = ServerFixture::new();
    house.write_file("file", "x");
    let long = format!("/{}", "x".repeat(300));
    let below = house.project().join("file/below").display().to_string();
    for path in [&long, &below] {
        assert_eq!(
            house.client().get(&format!("/session?directory={path}")).expect(200),
            json!([])
        );
        house.client().get(&format!("/project/current?directory={path}")).expect(404);
        let body = json!({ "directory": path }).to_string();
        let gone = house.client().send("DELETE", "/experimental/worktree", Some(body.as_bytes()));
        assert_ne!(gone.status, 500, "{}", gone.text());
    }
}

#[test]
fn relative_directory_is_rejected_everywhere() {
    let house = ServerFixture::new();
    fs_err::create_dir(house.project().join("x")).expect("made");
    for relative in ["x", "./x", ".", "..", "~", "x/../x"] {
        for route in ["/session", "/vcs/status", "/project/current", "/experimental/session"] {
            let refused = house.client().get(&format!("{route}?directory={relative}"));
            let said = refused.expect(400);
            assert_eq!(said["name"], "BadRequest", "{route}: {said}");
        }
        for route in ["/api/location?location%5Bdirectory%5D=", "/api/session?directory="] {
            let refused = house.client().get(&format!("{route}{relative}")).expect(400);
            assert_eq!(refused["_tag"], "InvalidRequestError", "{route}");
        }
        let client = house.client().with_header("x-opencode-directory", relative);
        client.get("/session").expect(400);
        client.post("/session", &json!({})).expect(400);
        let bodies = [
            ("POST", "/api/session", json!({ "location": { "directory": relative } })),
            ("POST", "/turnstone/runner", json!({ "name": "r", "directory": relative })),
            ("POST", "/sync/replay", json!({ "directory": relative, "events": [] })),
            ("POST", "/experimental/worktree/reset", json!({ "directory": relative })),
            ("DELETE", "/experimental/worktree", json!({ "directory": relative })),
        ];
        for (method, route, body) in bodies {
            let body = body.to_string();
            let refused = house.client().send(method, route, Some(body.as_bytes()));
            refused.expect(400);
        }
    }
    assert_eq!(StoredState::read(&house).projects, Vec::<String>::new());
}
