//! Values of requests that OpenCode refuses or reads in a way of its own.

use serde_json::{Value, json};

use crate::support::ServerFixture;

fn session(house: &ServerFixture) -> String {
    let made = house.client().post("/session", &json!({})).expect(200);
    made["id"].as_str().expect("an id").to_owned()
}

fn reason(answer: &Value) -> &str {
    answer["data"]["message"].as_str().expect("a message")
}

#[test]
fn session_list_reads_its_limit_as_opencode_does() {
    let house = ServerFixture::new();
    let ids = [session(&house), session(&house)];
    let count = |query: &str| -> usize {
        let listed = house.client().get(&format!("/session?{query}")).expect(200);
        listed.as_array().expect("a list").len()
    };
    assert_eq!((count("limit=1"), count("limit=0"), count("limit=")), (1, 0, 0));
    assert_eq!((count("limit=abc"), count("limit=-1"), count("x=1&x=2")), (2, 2, ids.len()));

    for (query, words) in [
        ("scope=nope", "Expected \"project\", got \"nope\"\n  at [\"scope\"]"),
        ("limit=1&limit=2", "Expected string | undefined, got [\"1\",\"2\"]\n  at [\"limit\"]"),
        ("search=a&search=b", "Expected string | undefined, got [\"a\",\"b\"]\n  at [\"search\"]"),
        ("limit=1.5", "Expected an integer, got 1.5\n  at [\"limit\"]"),
        (
            "roots=true&roots=true",
            "Expected \"true\" | \"false\" | undefined, got [\"true\",\"true\"]\n  at [\"roots\"]",
        ),
    ] {
        let refused = house.client().get(&format!("/session?{query}")).expect(400);
        assert_eq!((reason(&refused), &refused["data"]["kind"]), (words, &json!("Query")));
    }
}

#[test]
fn empty_cursor_of_messages_is_none() {
    let house = ServerFixture::new();
    let id = session(&house);
    for query in ["before=", "limit=2&before="] {
        let listed = house.client().get(&format!("/session/{id}/message?{query}")).expect(200);
        assert_eq!(listed, json!([]));
    }
    house.client().get(&format!("/session/{id}/message?before=x")).expect(400);
    let refused = house.client().get(&format!("/session/{id}/message?limit=1&limit=2")).expect(400);
    assert!(reason(&refused).contains("got [\"1\",\"2\"]"), "{refused}");
}

#[test]
fn wanted_form_of_an_answer_is_checked() {
    let house = ServerFixture::new();
    let id = session(&house);
    let send = |format: &Value| {
        let body = json!({ "noReply": true, "format": format,
            "parts": [{ "type": "text", "text": "x" }] });
        house.client().post(&format!("/session/{id}/message"), &body)
    };
    for (format, words) in [
        (json!({ "type": "json_schema" }), "Missing key\n  at [\"format\"][\"schema\"]"),
        (
            json!({ "type": "json_schema", "schema": 5 }),
            "Expected JSONSchema, got 5\n  at [\"format\"][\"schema\"]",
        ),
        (
            json!({ "type": "json_schema", "schema": {}, "retryCount": 1.5 }),
            "Expected an integer, got 1.5\n  at [\"format\"][\"retryCount\"]",
        ),
        (json!({ "type": "x" }), "Expected OutputFormat, got {\"type\":\"x\"}\n  at [\"format\"]"),
        (json!("text"), "Expected OutputFormat | null, got \"text\"\n  at [\"format\"]"),
    ] {
        assert_eq!(reason(&send(&format).expect(400)), words);
    }
    let listed = house.client().get(&format!("/session/{id}/message")).expect(200);
    assert_eq!(listed, json!([]), "nothing was stored");
    send(&json!({ "type": "json_schema", "schema": { "type": "object" } })).expect(200);
    send(&Value::Null).expect(200);
}

#[test]
fn directory_is_not_read_as_a_file() {
    let house = ServerFixture::new();
    house.write_file("src/main.rs", "fn main() {}\n");
    let refused = house.client().get("/file/content?path=src").expect(400);
    assert!(reason(&refused).starts_with("Not a file or directory of"), "{refused}");
    let refused = house.client().get("/file/content?path=.").expect(400);
    assert!(reason(&refused).contains(" kind: .\n"), "{refused}");
}

#[test]
fn empty_limit_of_messages_is_none() {
    let house = ServerFixture::new();
    let id = house.client().post("/session", &json!({})).expect(200)["id"].clone();
    let path = format!("/session/{}/message?limit=", id.as_str().expect("an id"));
    assert_eq!(house.client().get(&path).expect(200), json!([]));
}

#[test]
fn open_themes_opens_the_themes() {
    let house = ServerFixture::new();
    let mut stream = house.client().stream("/event");
    stream.wait_for("server.connected");
    assert_eq!(house.client().post("/tui/open-themes", &json!({})).expect(200), true);
    // The name that OpenCode's terminal has for the dialog.
    let command = json!({ "command": "theme.switch" });
    assert_eq!(stream.wait_for("tui.command.execute")["properties"], command);
}
