//! What the real clients ask: the SDK, `run --attach`, the terminal and the page in a browser, as they were
//! recorded. Each request is one of a route that is served, and what is answered is made of what was recorded.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use turnstone_server::Credentials;

use crate::compare::Difference;
use crate::id_mapping;
use crate::known_differences::{KnownDifference, check_differences, must_differ};
use crate::prepared_server::PreparedServer;
use crate::support::{ServerFixture, TestClient};

/// Every intended difference that the requests of clients show.
pub(crate) const TABLE: &[KnownDifference] = &[
    must_differ("GET /", "route", "`/site.webmanifest`, `/`"),
    must_differ("GET /assets/*", "route", "`/site.webmanifest`, `/`"),
    must_differ("GET /server/*", "route", "`/site.webmanifest`, `/`"),
    must_differ("GET /{name}/session", "route", "`/site.webmanifest`, `/`"),
    must_differ("GET /provider", "*/all/-/models/*", "`GET /provider`, `/api/integration`"),
    must_differ("*", "more/origin", "`origin` of a fork"),
    must_differ("GET /provider/auth", "less/*", "`GET /provider/auth`"),
    must_differ("GET /global/config", "less/$schema", "`GET /global/config`"),
    must_differ(
        "GET /api/session",
        "less*/model/variant",
        "(a session that was made with a model has none)",
    ),
];

/// Method, path, with which queries, and what the answers are made of.
const CLIENT_REQUESTS: &str = include_str!("../golden/client-requests.jsonl");

/// Streams have an answer that does not end.
const STREAMS: [&str; 2] = ["/event", "/global/event"];

/// A command needs the program itself, and a summary its model: the SDK's comparison runs both.
const UNREPLAYED_ROUTES: [&str; 3] = [
    "POST /session/{sessionID}/command",
    "POST /session/{sessionID}/shell",
    "POST /session/{sessionID}/summarize",
];

fn asked() -> Vec<Value> {
    CLIENT_REQUESTS.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The kinds of value at one place, and how often there is one.
#[derive(Debug, Default)]
struct FieldStats {
    kinds: BTreeSet<&'static str>,
    times: usize,
}

type JsonShape = BTreeMap<String, FieldStats>;

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::Array(_) => "list",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Null => "null",
    }
}

/// The place of a value, with what kind of thing it is if it says so.
fn describe_position(value: &Value, at: &str) -> String {
    let word = |key: &str| value[key].as_str();
    let state = || word("status").filter(|_| value.get("input").is_some());
    let is = word("role").or_else(|| word("type")).or_else(state);
    is.filter(|_| value.is_object()).map_or_else(|| at.to_owned(), |is| format!("{at}<{is}>"))
}

/// What a value is made of, added to what others of its kind are.
fn walk(value: &Value, at: &str, shape: &mut JsonShape) {
    let at = describe_position(value, at);
    let seen = shape.entry(at.clone()).or_default();
    seen.kinds.insert(kind(value));
    seen.times += 1;
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let is_name = id_mapping::kind(key).is_some()
                    || at.ends_with("/models")
                    || at.ends_with("/default");
                let below = format!("{at}/{}", if is_name { "{id}" } else { key });
                // The input and output of a tool are its own.
                let is_own = at.contains("/state<") && (key == "input" || key == "metadata");
                walk(if is_own { &EMPTY } else { value }, &below, shape);
            }
        }
        Value::Array(list) => list.iter().for_each(|it| walk(it, &format!("{at}/-"), shape)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

static EMPTY: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| json!({}));

/// The place a value stands in.
fn above(at: &str) -> Option<&str> {
    at.rsplit_once('/').map(|(above, _)| above)
}

/// A place without the kind of what stands there.
fn bare(at: &str) -> &str {
    at.strip_suffix('>').and_then(|at| at.rsplit_once('<')).map_or(at, |(at, _)| at)
}

/// How often there is something at a place, of whichever kind.
fn times(shape: &JsonShape, at: &str) -> usize {
    let same = shape.iter().filter(|(other, _)| bare(other) == bare(at));
    same.map(|(_, seen)| seen.times).sum()
}

/// What ours is made of otherwise than what was recorded, wherever ours has data.
fn compare(label: &str, recorded: &Value, ours: &JsonShape) -> Vec<Difference> {
    let recorded = recorded.as_object().expect("a shape");
    let known: BTreeMap<&str, (&str, bool)> = recorded
        .iter()
        .map(|(at, kinds)| {
            let must = !at.ends_with('?');
            (at.trim_end_matches('?'), (kinds.as_str().expect("kinds"), must))
        })
        .collect();
    let mut found = Vec::new();
    let mut differs = |at: String, recorded: &str, ours: String| {
        let (label, recorded) = (label.to_owned(), recorded.to_owned());
        found.push(Difference { label, at, recorded, ours });
    };
    for (at, seen) in ours {
        let kinds: Vec<_> = seen.kinds.iter().copied().collect();
        match known.get(at.as_str()) {
            Some((recorded, _)) => {
                let is_one = |kind: &&str| recorded.split('|').any(|it| it == *kind);
                if !kinds.iter().all(is_one) {
                    differs(format!("is{at}"), recorded, kinds.join("|"));
                }
            }
            // Of a kind, or of a list, that was recorded: others were not, or were empty.
            None if bare(at) != at && known.keys().any(|it| bare(it) == bare(at)) => {}
            None if bare(at).ends_with("/-") || bare(at).ends_with("/{id}") => {}
            None if above(at).is_some_and(|it| known.contains_key(it)) => {
                differs(format!("more{at}"), "(none)", kinds.join("|"));
            }
            None => {}
        }
    }
    for (at, (kinds, _)) in known.iter().filter(|(_, (_, must))| *must) {
        let here = above(at).and_then(|above| ours.get(above)).map_or(0, |seen| seen.times);
        if times(ours, at) < here {
            differs(format!("less{at}"), kinds, "(not always)".to_owned());
        }
    }
    found
}

/// True if there is no route of that path; asked with names of nothing, so that nothing happens.
fn is_unknown(client: &TestClient, method: &str, path: &str) -> bool {
    if STREAMS.contains(&path) {
        return false;
    }
    let names =
        [("{sessionID}", "ses_none"), ("{messageID}", "msg_none"), ("{partID}", "prt_none")];
    let path = names.iter().fold(path.to_owned(), |path, (name, none)| path.replace(name, none));
    let request = if path.starts_with("/question") { "que_none" } else { "per_none" };
    let path = path.replace("{requestID}", request).replace("{permissionID}", request);
    let body: Option<&[u8]> = (method != "GET").then_some(b"[]");
    let answer = client.send(method, &path, body);
    answer.status == 405 || answer.text().contains("Route not found")
}

/// What is recorded of one route, asked of a server on which much has happened.
fn ask(
    scenario: &PreparedServer,
    line: &Value,
    doc: &Value,
    shape: &mut JsonShape,
) -> Vec<Difference> {
    let (method, path) =
        (line["method"].as_str().expect("one"), line["path"].as_str().expect("one"));
    let label = format!("{method} {path}");
    let mut found = Vec::new();
    let mut differs = |at: String, recorded: &Value, ours: String| {
        let (label, recorded) = (label.clone(), recorded.to_string());
        found.push(Difference { label, at, recorded, ours });
    };
    if is_unknown(scenario.client(), method, path) {
        differs("route".to_owned(), &line["asked"], "(none)".to_owned());
        return found;
    }
    let said = &doc["paths"][path][method.to_lowercase()]["parameters"];
    let said = said.as_array().into_iter().flatten().filter(|it| it["in"] == "query");
    let said: Vec<&str> = said.filter_map(|it| it["name"].as_str()).collect();
    for asked in line["asked"].as_array().expect("queries") {
        // Where they are the SDK says to every route.
        let here = ["directory", "location[directory]"];
        let names = texts(&asked["query"]);
        for name in names.iter().filter(|it| !here.contains(it) && !said.contains(it)) {
            differs(format!("query/{name}"), &json!(name), format!("{said:?}"));
        }
        if method != "GET" {
            continue;
        }
        let query = scenario.query(&texts(&asked["query"]));
        let path = scenario.filled(path) + &query;
        if STREAMS.contains(&line["path"].as_str().expect("a path")) {
            let stream = scenario.client().stream(&path);
            assert_eq!(stream.status, 200, "{path}");
            continue;
        }
        let answer = scenario.client().get(&path);
        if answer.status != 200 {
            differs("status".to_owned(), &asked["status"], answer.text());
        } else {
            walk(&answer.json(), "", shape);
        }
        if asked["status"].as_array().expect("some").contains(&json!(404)) {
            let path = path.replace(scenario.session(), "ses_e21c3bedcffe1kD3tivIdEsIqj");
            assert_eq!(scenario.client().get(&path).status, 404, "{path}");
        }
    }
    found
}

/// R21: what clients read is there, in the form in which they read it.
#[test]
fn recorded_client_requests_get_answers_of_the_same_shape() {
    let scenario = PreparedServer::new();
    let doc = scenario.client().get("/doc").expect(200);
    let (mut found, mut unseen) = (Vec::new(), Vec::new());
    for line in asked() {
        let mut shape = JsonShape::new();
        found.extend(ask(&scenario, &line, &doc, &mut shape));
        let label = format!(
            "{} {}",
            line["method"].as_str().expect("one"),
            line["path"].as_str().expect("one")
        );
        for answer in scenario.answers(&label) {
            walk(&answer, "", &mut shape);
        }
        if !line["shape"].is_object() {
            continue;
        }
        if shape.is_empty() {
            unseen.push(label);
        } else {
            found.extend(compare(&label, &line["shape"], &shape));
        }
    }
    assert_eq!(unseen, UNREPLAYED_ROUTES, "all else is compared");
    check_differences(&found, TABLE);
}

#[test]
fn clients_without_password_are_rejected_as_recorded() {
    let house = ServerFixture::with_settings(|settings| {
        let (user, password) = ("opencode".to_owned(), "secret".to_owned());
        settings.credentials = Some(Credentials { user, password });
    });
    let lines = asked();
    let refused = lines.iter().filter(|line| {
        line["asked"].as_array().expect("queries").iter().any(|asked| asked["refused"] == true)
    });
    let mut times = 0;
    for line in refused {
        let (method, path) =
            (line["method"].as_str().expect("one"), line["path"].as_str().expect("one"));
        let answer = house.client().send(method, path, None);
        assert_eq!(answer.status, 401, "{method} {path}: {}", answer.text());
        times += 1;
    }
    assert_eq!(times, 11, "all that were recorded");
}

#[test]
fn no_recorded_client_received_v2_events() {
    for reported in [
        include_str!("../golden/client-tui-events.jsonl"),
        include_str!("../golden/client-web-events.jsonl"),
        include_str!("../golden/client-run-events.jsonl"),
    ] {
        assert!(reported.contains("\"message.updated\""), "all kinds are there");
        assert!(!reported.contains("session.next."), "docs/events.md says so");
    }
}
