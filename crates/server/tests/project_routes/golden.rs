//! What the real server answered, asked of ours.

use serde_json::Value;

use crate::support::{ServerFixture, git};

const RECORDED: &str = include_str!("../golden/fresh-project.jsonl");

/// The project as it was when the recording was made.
fn house() -> ServerFixture {
    let house = ServerFixture::new();
    house.write_file(".gitignore", "node_modules\n");
    house.write_file("a.txt", "hello\n");
    house.write_file("opencode.json", "{}\n");
    house.write_file("src/main.rs", "fn main() {}\n");
    git(&house.project(), &["init", "-q"]);
    git(&house.project(), &["add", "."]);
    git(&house.project(), &["commit", "-q", "-m", "one"]);
    house
}

/// What differs from machine to machine is written the same everywhere.
fn normalize(value: &Value, house: &ServerFixture, project: &str) -> Value {
    match value {
        Value::Object(map) => {
            let inner = |(key, value): (&String, &Value)| {
                let value = match key.as_str() {
                    "created" | "updated" if value.is_number() => Value::from(0),
                    // Where each program keeps its own files.
                    "state" | "config" => Value::from("(own)"),
                    _ => normalize(value, house, project),
                };
                (key.clone(), value)
            };
            Value::Object(map.iter().map(inner).collect())
        }
        Value::Array(list) => list.iter().map(|one| normalize(one, house, project)).collect(),
        Value::String(text) => {
            let text = text.replace(&*house.project().to_string_lossy(), "/home/user/project");
            let text = text.replace(&*house.home().to_string_lossy(), "/home/user");
            Value::from(text.replace(project, "8a85416a383aca1f19ed999f804c5262f9cb4f37"))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[test]
fn start_up_answers_match_recording() {
    let house = house();
    let project = house.client().get("/project/current").expect(200);
    let project = project["id"].as_str().expect("an id").to_owned();
    let here = house.project().to_string_lossy().into_owned();
    let escaped = here.replace('/', "%2F");
    for line in RECORDED.lines() {
        let pair: Value = serde_json::from_str(line).expect("a pair");
        let text = |key: &str| pair[key].as_str().expect("a text").to_owned();
        let path = text("path").replace("%2Fhome%2Fuser%2Fproject", &escaped);
        let mut client = house.client().clone();
        for (name, value) in pair["headers"].as_object().expect("headers") {
            let value = value.as_str().expect("a text");
            let value = value.replace("%2Fhome%2Fuser%2Fproject", &escaped);
            client = client.with_header(name, &value.replace("/home/user/project", &here));
        }
        let answer = client.get(&path);
        assert_eq!(
            u64::from(answer.status),
            pair["status"],
            "{}: {}",
            text("label"),
            answer.text()
        );
        let is_json = answer.header("content-type") == Some("application/json");
        let body = if is_json { answer.json() } else { Value::from(answer.text()) };
        let shown = normalize(&body, &house, &project);
        assert_eq!(shown, normalize(&pair["body"], &house, &project), "{}", text("label"));
    }
}
