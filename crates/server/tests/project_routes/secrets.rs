//! Secrets of the configuration: no route shows one.

use serde_json::{Value, json};

use crate::support::{ServerFixture, git};

/// Part of every planted secret.
const PLANTED: &str = "pLaNt3d";

const CONFIG: &str = r#"{
  "model": "fake/fake-1", "small_model": "fake/sk-proj-pLaNt3d0123456789",
  "provider": { "fake": { "name": "ghp_pLaNt3d0123456789",
    "env": ["FAKE_API_KEY", "A=pLaNt3d"], "api": "https://ada:pLaNt3d@host/v1",
    "options": { "apiKey": "pLaNt3d", "subscriptionKey": "pLaNt3d", "baseURL": "https://h/v1?k=pLaNt3d",
      "headers": { "X-Any": "pLaNt3d", "sk-pLaNt3d0123456789": "x" }, "https://h/#access_token=pLaNt3d": 1,
      "hook": "https://hooks.slack.com/services/T01/B01/pLaNt3d" },
    "models": { "fake-1": { "name": "glpat-pLaNt3d0123456789", "family": "eyJpLaNt3d0123456789.x.y",
      "id": "npm_pLaNt3d0123456789abcdefghij",
      "options": { "user_key": "pLaNt3d" }, "headers": { "a": "pLaNt3d" },
      "variants": { "high": { "license_key": "pLaNt3d" } } } } } },
  "mcp": { "m": { "type": "local", "environment": { "A": "pLaNt3d" },
    "command": ["x", "--header=X-Api-Key: pLaNt3d", "-H", "X: pLaNt3d", "-ppLaNt3d", "--x-key", "pLaNt3d"] } },
  "permission": { "edit": "ask", "bash": { "*": "ask", "curl -H 'Authorization: Bearer pLaNt3d' *": "deny",
    "curl https://ada:pLaNt3d@host/*": "ask", "deploy --token=pLaNt3d": "deny" } },
  "agent": { "helper": { "description": "Uses https://ada:pLaNt3d@host/", "variant": "sk-pLaNt3d0123456789",
      "prompt": "The api key is a secret. Use sk-pLaNt3d0123456789 and API_TOKEN=pLaNt3d.",
      "color": "xoxb-pLaNt3d0123456789", "model": "fake/AIzapLaNt3d0123456789abcdefghij",
      "options": { "token": "pLaNt3d" }, "extra": { "password": "pLaNt3d" },
      "permission": { "bash": { "curl -u ada:pLaNt3d *": "deny" } } },
    "sk-pLaNt3d0123456789": { "mode": "subagent" } },
  "command": { "go": { "template": "Call https://h/?token=pLaNt3d with Bearer pLaNt3d0123",
      "description": "ghp_pLaNt3d0123456789", "agent": "sk-pLaNt3d0123456789",
      "model": "fake/sk-pLaNt3d0123456789" },
    "glpat-pLaNt3d0123456789": { "template": "x" } },
  "https://ada:pLaNt3d@key/": true
}"#;

const AGENT: &str = "---\ndescription: see https://ada:pLaNt3d@host/\napi_key: pLaNt3d\n---\n\
    Keep the api key secret.\nsk-pLaNt3d0123456789\n-----BEGIN PRIVATE KEY-----\npLaNt3d\n-----END PRIVATE KEY-----\n";

const COMMAND: &str =
    "---\ndescription: ghp_pLaNt3d0123456789\n---\ncurl -H 'X-Api-Key: pLaNt3d' $1\n";

fn house_with_secrets() -> ServerFixture {
    let house = ServerFixture::with_git();
    house.write_file("opencode.json", CONFIG);
    house.write_file(
        "turnstone.json",
        r#"{ "permission": { "bash": { "curl -u ada:pLaNt3d *": "deny" } } }"#,
    );
    house.write_file(".opencode/agent/critic.md", AGENT);
    house.write_file(".opencode/command/call.md", COMMAND);
    let global = house.home().join(".config/opencode");
    fs_err::create_dir_all(&global).expect("made");
    fs_err::write(global.join("opencode.json"), CONFIG).expect("written");
    // Files that differ from the commit would be part of the difference, as they are.
    git(&house.project(), &["add", "."]);
    git(&house.project(), &["commit", "-q", "-m", "two"]);
    house
}

/// Every GET of the document with a real session, and whether it is a stream.
fn get_routes(house: &ServerFixture) -> Vec<(String, bool)> {
    let session = house.client().post("/session", &json!({ "title": "x" })).expect(200);
    let session = session["id"].as_str().expect("an id").to_owned();
    let doc = house.client().get("/doc").expect(200);
    let mut routes = Vec::new();
    for (path, item) in doc["paths"].as_object().expect("paths") {
        let Some(operation) = item.get("get") else { continue };
        let content = &operation["responses"]["200"]["content"];
        let part = |part: &str| match part {
            "{sessionID}" | "{session}" => session.clone(),
            "{providerID}" => "fake".to_owned(),
            part if part.starts_with('{') => "x".to_owned(),
            part => part.to_owned(),
        };
        let path: Vec<String> = path.split('/').map(part).collect();
        routes.push((path.join("/"), content["text/event-stream"].is_object()));
    }
    routes
}

#[test]
fn no_get_route_shows_a_secret_of_the_configuration() {
    let house = house_with_secrets();
    let routes = get_routes(&house);
    assert!(routes.len() > 80, "{}", routes.len());
    let mut redacted = Vec::new();
    for (path, is_stream) in routes {
        let text = match is_stream {
            // It says nothing before something happens in the session.
            true if path.contains("/session/") => house.client().stream(&path).arrived(),
            true => house.client().stream(&path).event().expect("a first event").to_string(),
            false => house.client().get(&path).text(),
        };
        assert!(!text.contains(PLANTED), "{path} shows a secret: {text}");
        if text.contains("[redacted]") {
            redacted.push(path);
        }
    }
    for path in [
        "/config",
        "/global/config",
        "/config/providers",
        "/provider",
        "/agent",
        "/command",
        "/api/agent",
        "/api/command",
        "/api/model",
        "/api/provider",
        "/api/provider/fake",
    ] {
        assert!(redacted.iter().any(|known| known == path), "{path} is not redacted: {redacted:?}");
    }
}

#[test]
fn redaction_keeps_what_is_no_secret() {
    let house = house_with_secrets();
    let get = |path: &str| house.client().get(path).expect(200);
    let find = |list: Value, name: &str| {
        let list = list.as_array().expect("a list").clone();
        list.into_iter().find(|one| one["name"] == name).expect("an entry")
    };
    assert_eq!(get("/config")["model"], "fake/fake-1");
    assert_eq!(get("/config/providers")["default"], json!({ "fake": "fake-1" }));
    let prompt = find(get("/agent"), "helper")["prompt"].clone();
    assert_eq!(prompt, "The api key is a secret. Use [redacted] and API_TOKEN=[redacted]");
    assert_eq!(
        find(get("/agent"), "critic")["prompt"],
        "Keep the api key secret.\n[redacted]\n[redacted]"
    );
    assert_eq!(find(get("/command"), "call")["template"], "curl -H 'X-Api-Key: [redacted]' $1");
}

#[test]
fn errors_about_the_configuration_quote_no_secret() {
    let house = ServerFixture::with_git();
    for config in [
        r#"{ "permission": { "bash": { "curl -u ada:pLaNt3d *": "perhaps" } } }"#,
        r#"{ "permission": { "bash": { "*": "sk-pLaNt3d0123456789" } } }"#,
        r#"{ "permission": { "sk-pLaNt3d0123456789": 5 } }"#,
        r#"{ "agent": { "sk-pLaNt3d0123456789": { "mode": 5 } } }"#,
        r#"{ "agent": { "x": { "permission": "sk-pLaNt3d0123456789" } } }"#,
        r#"{ "command": { "sk-pLaNt3d0123456789": 5 } }"#,
        r#"{ "provider": { "sk-pLaNt3d0123456789": 5 } }"#,
        r#"{ "apiKey": "pLaNt3d" pLaNt3d"#,
    ] {
        house.write_file("opencode.json", config);
        for path in [
            "/config",
            "/agent",
            "/command",
            "/provider",
            "/api/agent",
            "/api/provider",
            "/permission",
        ] {
            let text = house.client().get(path).text();
            assert!(!text.contains(PLANTED), "{path} with {config}: {text}");
        }
    }
    house.write_file("opencode.json", r#"{ "agent": { "sk-pLaNt3d0123456789": {} } }"#);
    let session = house.client().post("/session", &json!({})).expect(200);
    let path = format!("/session/{}/message", session["id"].as_str().expect("an id"));
    let prompt = json!({ "agent": "nobody", "parts": [{ "type": "text", "text": "x" }] });
    let refused = house.client().post(&path, &prompt);
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(!refused.text().contains(PLANTED), "{}", refused.text());
}
