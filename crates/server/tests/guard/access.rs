//! Every route that changes something, and what stands before it: for a named actor in a session it did not
//! create, for a runner in its directory, and for one outside of it. A person passes, unless a rule denies.
//! The list is compared with what the router serves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{HttpAnswer, ServerFixture, TestClient, TurnDriver};

const TOKEN: &str = "x-turnstone-token";

/// What stands before a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// It only adds something, or the state of a turn (its lease), an answer or a rule is checked further on.
    Open,
    /// A person is asked.
    Gate,
    /// The role may not.
    Refused,
}

use Check::{Gate, Open, Refused};

/// Method, path, check for a named actor, check for a runner, and the session it is tried in.
type Row = (&'static str, &'static str, Check, Check, &'static str);

const ROWS: &[Row] = &[
    ("POST", "/session", Open, Open, ""),
    ("PATCH", "/session/{sessionID}", Open, Open, "idle"),
    ("DELETE", "/session/{sessionID}", Gate, Gate, "done"),
    ("POST", "/session/{sessionID}/revert", Gate, Gate, "done"),
    ("POST", "/session/{sessionID}/unrevert", Gate, Gate, "reverted"),
    ("POST", "/session/{sessionID}/abort", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/command", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/fork", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/init", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/message", Open, Refused, "idle"),
    ("DELETE", "/session/{sessionID}/message/{messageID}", Gate, Refused, "done"),
    ("PATCH", "/session/{sessionID}/message/{messageID}/part/{partID}", Gate, Refused, "done"),
    ("DELETE", "/session/{sessionID}/message/{messageID}/part/{partID}", Gate, Refused, "done"),
    ("POST", "/session/{sessionID}/permissions/{permissionID}", Refused, Refused, "asked"),
    ("POST", "/session/{sessionID}/prompt_async", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/share", Open, Refused, "idle"),
    ("DELETE", "/session/{sessionID}/share", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/shell", Open, Refused, "idle"),
    ("POST", "/session/{sessionID}/summarize", Open, Refused, "idle"),
    ("POST", "/permission/{requestID}/reply", Refused, Refused, "asked"),
    ("POST", "/question/{requestID}/reply", Refused, Refused, "asked"),
    ("POST", "/question/{requestID}/reject", Refused, Refused, "asked"),
    ("POST", "/log", Open, Open, ""),
    ("POST", "/sync/history", Open, Refused, ""),
    ("POST", "/sync/start", Open, Refused, ""),
    ("POST", "/sync/replay", Refused, Refused, ""),
    ("POST", "/sync/steal", Refused, Refused, ""),
    ("PATCH", "/project/{projectID}", Refused, Refused, ""),
    ("POST", "/experimental/worktree", Open, Refused, ""),
    ("DELETE", "/experimental/worktree", Gate, Refused, ""),
    ("POST", "/experimental/worktree/reset", Gate, Refused, ""),
    ("POST", "/instance/dispose", Refused, Refused, ""),
    ("POST", "/global/dispose", Refused, Refused, ""),
    ("POST", "/tui/append-prompt", Refused, Refused, ""),
    ("POST", "/tui/open-help", Refused, Refused, ""),
    ("POST", "/tui/open-sessions", Refused, Refused, ""),
    ("POST", "/tui/open-themes", Refused, Refused, ""),
    ("POST", "/tui/open-models", Refused, Refused, ""),
    ("POST", "/tui/submit-prompt", Refused, Refused, ""),
    ("POST", "/tui/clear-prompt", Refused, Refused, ""),
    ("POST", "/tui/execute-command", Refused, Refused, ""),
    ("POST", "/tui/show-toast", Refused, Refused, ""),
    ("POST", "/tui/publish", Refused, Refused, ""),
    ("POST", "/tui/select-session", Refused, Refused, ""),
    ("POST", "/pty", Refused, Refused, ""),
    ("PUT", "/pty/{ptyID}", Refused, Refused, ""),
    ("DELETE", "/pty/{ptyID}", Refused, Refused, ""),
    ("POST", "/pty/{ptyID}/connect-token", Refused, Refused, ""),
    ("POST", "/api/pty", Refused, Refused, ""),
    ("PUT", "/api/pty/{ptyID}", Refused, Refused, ""),
    ("DELETE", "/api/pty/{ptyID}", Refused, Refused, ""),
    ("POST", "/api/pty/{ptyID}/connect-token", Refused, Refused, ""),
    ("POST", "/api/session", Open, Refused, ""),
    ("POST", "/api/session/{sessionID}/prompt", Open, Refused, "idle"),
    ("POST", "/api/session/{sessionID}/compact", Open, Refused, "idle"),
    ("POST", "/api/session/{sessionID}/agent", Open, Refused, "idle"),
    ("POST", "/api/session/{sessionID}/model", Open, Refused, "idle"),
    ("POST", "/api/session/{sessionID}/interrupt", Open, Refused, "idle"),
    ("POST", "/api/session/{sessionID}/wait", Open, Refused, "done"),
    ("POST", "/api/session/{sessionID}/revert/stage", Gate, Gate, "done"),
    ("POST", "/api/session/{sessionID}/revert/clear", Gate, Gate, "reverted"),
    ("POST", "/api/session/{sessionID}/revert/commit", Gate, Refused, "reverted"),
    ("POST", "/api/session/{sessionID}/permission", Open, Open, "idle"),
    ("POST", "/api/session/{sessionID}/permission/{requestID}/reply", Refused, Refused, "asked"),
    ("POST", "/api/session/{sessionID}/question/{requestID}/reply", Refused, Refused, "asked"),
    ("POST", "/api/session/{sessionID}/question/{requestID}/reject", Refused, Refused, "asked"),
    ("DELETE", "/api/permission/saved/{id}", Refused, Refused, ""),
    ("POST", "/turnstone/runner", Open, Refused, ""),
    ("DELETE", "/turnstone/runner/{runnerID}", Open, Refused, ""),
    ("POST", "/turnstone/session/{sessionID}/turn", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/resume", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/undo", Gate, Gate, "done"),
    ("POST", "/turnstone/session/{sessionID}/redo", Gate, Gate, "reverted"),
    ("POST", "/turnstone/session/{sessionID}/jump", Gate, Gate, "done"),
    ("POST", "/turnstone/session/{sessionID}/checkpoint", Gate, Gate, "done"),
    ("DELETE", "/turnstone/session/{sessionID}/checkpoint/{name}", Gate, Gate, "done"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/beat", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/continue", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/delta", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/end", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/permission", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/question", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/steer", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/step", Open, Open, "idle"),
    (
        "POST",
        "/turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/end",
        Open,
        Open,
        "idle",
    ),
    (
        "PUT",
        "/turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/usage",
        Open,
        Open,
        "idle",
    ),
    (
        "POST",
        "/turnstone/session/{sessionID}/turn/{turnID}/step/{messageID}/part",
        Open,
        Open,
        "idle",
    ),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/tool", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/tool/{partID}/end", Open, Open, "idle"),
    ("PUT", "/turnstone/session/{sessionID}/turn/{turnID}/todo", Open, Open, "idle"),
    ("PUT", "/turnstone/session/{sessionID}/turn/{turnID}/title", Open, Open, "idle"),
    ("PUT", "/turnstone/session/{sessionID}/turn/{turnID}/summary", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/retry", Open, Open, "idle"),
    ("DELETE", "/turnstone/session/{sessionID}/turn/{turnID}/retry", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/compaction", Open, Open, "idle"),
    (
        "POST",
        "/turnstone/session/{sessionID}/turn/{turnID}/compaction/{messageID}/plan",
        Open,
        Open,
        "idle",
    ),
    (
        "POST",
        "/turnstone/session/{sessionID}/turn/{turnID}/compaction/{messageID}/end",
        Open,
        Open,
        "idle",
    ),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/prune", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/file/read", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/file/write", Open, Open, "idle"),
    ("POST", "/turnstone/session/{sessionID}/turn/{turnID}/file/lock", Open, Open, "idle"),
    ("DELETE", "/turnstone/session/{sessionID}/turn/{turnID}/file/lock", Open, Open, "idle"),
];

/// Routes of a runner that concern no place.
const EVERYWHERE: [&str; 1] = ["/log"];

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// What the routes are tried with.
struct AccessFixture {
    house: ServerFixture,
    names: BTreeMap<&'static str, String>,
}

impl AccessFixture {
    fn new() -> Self {
        let house = ServerFixture::with_git();
        house.write_file("opencode.json", r#"{"permission": {"bash": "ask"}}"#);
        let mut names = BTreeMap::new();
        for name in ["idle", "done", "reverted", "asked"] {
            let made = house.client().post("/session", &json!({ "title": name })).expect(200);
            names.insert(name, text(&made["id"]));
        }
        let mut fixture = Self { house, names };
        for name in ["done", "reverted"] {
            fixture.work(name);
        }
        fixture.go_back("reverted");
        fixture.ask();
        let client = fixture.house.client();
        let done = format!("/turnstone/session/{}", fixture.names["done"]);
        client.post(&format!("{done}/checkpoint"), &json!({ "name": "noon" })).expect(200);
        let made = client.post("/experimental/worktree", &json!({})).expect(200);
        fixture.names.insert("worktree", text(&made["directory"]));
        fixture
    }

    /// A turn that writes a file.
    fn work(&mut self, name: &'static str) {
        let driver = TurnDriver::begin(self.house.client(), &self.names[name], "go");
        let answer = driver.step();
        let file = self.house.project().join(name);
        driver.tool(&answer, &json!({ "paths": [name] }), || {
            fs_err::write(&file, "x").expect("written");
        });
        driver.end_step(&answer, "stop");
        driver.end();
        if name == "done" {
            let listed = self.messages(name);
            self.names.insert("message", text(&listed[0]["info"]["id"]));
            self.names.insert("part", text(&listed[0]["parts"][0]["id"]));
        }
    }

    fn messages(&self, name: &str) -> Value {
        self.house.client().get(&format!("/session/{}/message", self.names[name])).expect(200)
    }

    fn go_back(&self, name: &str) {
        let first = json!({ "messageID": self.messages(name)[0]["info"]["id"] });
        let path = format!("/session/{}/revert", self.names[name]);
        self.house.client().post(&path, &first).expect(200);
    }

    /// A permission and a question that wait for an answer.
    fn ask(&mut self) {
        let driver = TurnDriver::begin(self.house.client(), &self.names["asked"], "go");
        let bash = json!({ "permission": "bash", "patterns": ["make"], "always": ["make"] });
        let asked = driver.post("permission", &bash).expect(200);
        self.names.insert("permission", text(&asked["requestID"]));
        let question = json!({ "questions": [{ "question": "Which?", "header": "Which",
            "options": [{ "label": "A", "description": "a" }] }] });
        let asked = driver.post("question", &question).expect(200);
        self.names.insert("question", text(&asked["requestID"]));
    }

    fn path(&self, route: &str, session: &str) -> String {
        let mut out = String::new();
        for (index, piece) in route.split(['{', '}']).enumerate() {
            let value = match piece {
                _ if index % 2 == 0 => piece,
                "sessionID" => &self.names[session],
                "messageID" => &self.names["message"],
                "partID" => &self.names["part"],
                "permissionID" => &self.names["permission"],
                "requestID" if route.contains("question") => &self.names["question"],
                "requestID" => &self.names["permission"],
                "turnID" => "trn_none",
                "name" => "noon",
                _ => "none",
            };
            out.push_str(value);
        }
        out
    }

    fn body(&self, route: &str) -> Value {
        let ends = |end: &str| route.ends_with(end);
        if ends("/revert") || ends("/stage") {
            return json!({ "messageID": self.names["message"] });
        }
        if route.starts_with("/experimental/worktree") {
            let directory = &self.names["worktree"];
            return json!({ "directory": directory });
        }
        if ends("/part/{partID}") {
            return json!({ "id": self.names["part"], "sessionID": self.names["done"],
                "messageID": self.names["message"], "type": "text", "text": "other" });
        }
        if ends("/jump") {
            return json!({ "before": self.turn() });
        }
        match route {
            _ if ends("/checkpoint") => json!({ "name": "noon" }),
            _ if ends("/permissions/{permissionID}") => json!({ "response": "once" }),
            _ if route.contains("question") && ends("/reply") => json!({ "answers": [["A"]] }),
            _ if ends("/reply") => json!({ "reply": "once" }),
            _ => json!({}),
        }
    }

    fn turn(&self) -> String {
        let path = format!("/turnstone/session/{}/timeline", self.names["done"]);
        text(&self.house.client().get(&path).expect(200)[0]["id"])
    }

    fn send(&self, client: &TestClient, (method, route, _, _, session): Row) -> HttpAnswer {
        let body = self.body(route).to_string();
        client.send(method, &self.path(route, session), Some(body.as_bytes()))
    }

    fn runner(&self, directory: &std::path::Path) -> TestClient {
        let body = json!({ "name": "r", "directory": directory });
        let made = self.house.client().post("/turnstone/runner", &body).expect(200);
        self.house.client().with_header(TOKEN, &text(&made["token"]))
    }
}

/// What an answer shows of the check before it.
fn check_result(answer: &HttpAnswer) -> Check {
    let is_json = answer.header("content-type") == Some("application/json");
    let body = if is_json && !answer.body.is_empty() { answer.json() } else { Value::Null };
    match (answer.status, body["_tag"].as_str()) {
        (409, Some("PermissionAskedError")) => Gate,
        (403, Some("NotAllowedError")) => Refused,
        _ => Open,
    }
}

#[test]
fn every_changing_route_has_the_check_that_is_listed_for_it() {
    let fixture = AccessFixture::new();
    let stranger = fixture.house.client().with_header("x-turnstone-actor", "mallory");
    // Before a runner is there: prompts would wait for it.
    for row in ROWS {
        let (method, route, named, ..) = *row;
        let answer = fixture.send(&stranger, *row);
        assert_eq!(check_result(&answer), named, "{method} {route} by a name: {}", answer.text());
    }
    let outside = fixture.house.project().join("outside");
    fs_err::create_dir(&outside).expect("made");
    let inside = fixture.runner(&fixture.house.project());
    let outside = fixture.runner(&outside);
    for row in ROWS {
        let (method, route, _, runner, _) = *row;
        let answer = fixture.send(&outside, *row);
        let reach = if EVERYWHERE.contains(&route) { Open } else { Refused };
        assert_eq!(check_result(&answer), reach, "{method} {route} outside: {}", answer.text());
        let answer = fixture.send(&inside, *row);
        assert_eq!(
            check_result(&answer),
            runner,
            "{method} {route} by a runner: {}",
            answer.text()
        );
    }
    // Nothing of it has changed what the person has.
    assert_eq!(fixture.messages("done")[0]["parts"][0]["text"], "go");
    assert!(fixture.house.project().join("done").exists());
    assert!(!fixture.house.project().join("reverted").exists());
}

#[test]
fn every_changing_route_of_the_router_is_listed() {
    let house = ServerFixture::with_git();
    let document = house.client().get("/doc").expect(200);
    let listed: BTreeSet<(&str, String)> =
        ROWS.iter().map(|(method, route, ..)| (*method, route.replace("{id}", "{}"))).collect();
    let blank = |path: &str| {
        let pieces = path.split(['{', '}']).enumerate();
        pieces.map(|(index, piece)| if index % 2 == 1 { "{}" } else { piece }).collect::<String>()
    };
    let listed: BTreeSet<(&str, String)> =
        listed.iter().map(|(method, route)| (*method, blank(route))).collect();
    let mut served = BTreeSet::new();
    for path in document["paths"].as_object().expect("paths").keys() {
        // A method that no route has: the answer names those it has.
        let answer = house.client().send("REPORT", &blank(path).replace("{}", "none"), None);
        assert_eq!(answer.status, 405, "{path}");
        for method in answer.header("allow").expect("an Allow header").split(',') {
            if matches!(method, "GET" | "HEAD") {
                continue;
            }
            let body: Option<&[u8]> = Some(b"[]");
            let is_listed = listed.contains(&(method, blank(path)));
            let is_offered = is_listed
                || house.client().send(method, &blank(path).replace("{}", "none"), body).status
                    != 501;
            if is_offered {
                served.insert((method.to_owned(), blank(path)));
            }
        }
    }
    let listed: BTreeSet<(String, String)> =
        listed.into_iter().map(|(method, route)| (method.to_owned(), route)).collect();
    assert_eq!(served, listed);
}
