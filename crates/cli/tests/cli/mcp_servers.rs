//! MCP servers on the command line and behind `serve`: listed, asked, called, undone, forgotten.

use std::path::Path;

use serde_json::{Value, json};
use turnstone_testkit::scripted_model::ScriptedModelServer;

use crate::exec::TEST_PATH;
use crate::fixture::{CliFixture, ProgramOutput};
use crate::serve_client::{ServeClient, text, texts};
use crate::serve_process::start_serve;

/// The scripted server of the crate `mcp` in one of its modes.
fn scripted_server(case: &CliFixture, mode: &str) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp/tests/servers/scripted.py");
    json!({"type": "local", "command": ["python3", script, mode, case.path("state")]})
}

fn write_user_configuration(case: &CliFixture, config: &Value) {
    let folder = case.path("home/.config/opencode");
    fs_err::create_dir_all(&folder).expect("made");
    fs_err::write(folder.join("opencode.json"), config.to_string()).expect("written");
}

fn run(case: &CliFixture, args: &[&str]) -> ProgramOutput {
    case.run_command(case.command("p", args).env("PATH", python_path()))
}

/// Where programs of tests are, and Python, which may be elsewhere.
fn python_path() -> String {
    let python = turnstone_testkit::required_tools::find_program("python3").expect("python3");
    let folder = python.parent().expect("a folder").to_str().expect("text");
    format!("{folder}:{TEST_PATH}")
}

#[test]
fn servers_and_tools_are_listed_with_their_states() {
    let case = CliFixture::empty();
    write_user_configuration(
        &case,
        &json!({"mcp": {
            "db": scripted_server(&case, "control"),
            "gone": {"type": "local", "command": ["no-such-program-at-all"]},
            "off": {"type": "remote", "url": "http://127.0.0.1:1/", "enabled": false},
        }}),
    );
    let listed = run(&case, &["mcp", "list", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.out).expect("JSON");
    let states: Vec<_> =
        listed.as_array().expect("a list").iter().map(|it| text(&it["status"])).collect();
    assert_eq!(states, ["connected", "failed", "disabled"]);
    assert_eq!(listed[0]["tools"][0]["name"], "db_fine");
    assert_eq!(listed[0]["tools"][0]["allowed"], false);
    assert!(text(&listed[1]["error"]).contains("no-such-program-at-all"), "{listed}");
    let table = run(&case, &["mcp", "list"]);
    assert!(table.out.contains("db_fine") && table.out.contains("read-only"), "{}", table.out);
    assert!(table.err.contains("gone: "), "{}", table.err);
    let unknown = run(&case, &["mcp", "forget", "db"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
}

#[test]
fn served_agent_asks_for_a_tool_and_its_writes_are_undone() {
    let case = CliFixture::empty();
    let model = ScriptedModelServer::start(None).expect("starts");
    write_user_configuration(
        &case,
        &json!({
            "model": "scripted/scripted",
            "permission": "allow",
            "mcp": {"db": scripted_server(&case, "writes")},
            "provider": {"scripted": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": model.url(), "apiKey": "none"},
                "models": {"scripted": {"tool_call": true, "limit": {"context": 200_000, "output": 8_000}}},
            }},
            "agent": {"build": {"permission": {"db_*": "ask"}}},
        }),
    );
    let served = start_serve(&case, &["serve", "--port", "0", "--json"], |command| {
        command.stderr(std::process::Stdio::null()).env("PATH", python_path());
    });
    let client = ServeClient { address: served.address.clone() };
    assert_eq!(client.get("/mcp"), json!({"db": {"status": "connected"}}));
    let session = client.create_session();
    let mut events = client.events("/event");
    let turns = json!([[{"tool": "db_act", "input": {}}], [{"text": "Done."}]]);
    let prompt = json!({"agent": "build", "model": {"providerID": "scripted", "modelID": "scripted"},
        "parts": [{"type": "text", "text": format!("Go. {turns}")}]});
    let path = format!("/session/{session}/prompt_async");
    assert_eq!(client.request("POST", &path, &prompt).0, 204);
    let ask = events.wait_for("permission.asked", |_| true);
    assert_eq!(
        (text(&ask["permission"]), text(&ask["metadata"]["tool"])),
        ("db_act".to_owned(), "act".to_owned())
    );
    assert_eq!(ask["metadata"]["description"], "does it");
    let made = case.path("p").join("made.txt");
    assert!(!made.exists());
    client.post(&format!("/permission/{}/reply", text(&ask["id"])), &json!({"reply": "once"}));
    events.wait_for_idle(&session);
    let messages = client.messages(&session);
    assert_eq!(texts(messages.last().expect("an answer")), "Done.");
    assert_eq!(fs_err::read_to_string(&made).expect("made"), "by the server");
    let prompt = messages.iter().find(|it| it["info"]["role"] == "user").expect("a prompt");
    let body = json!({"messageID": prompt["info"]["id"]});
    client.post(&format!("/session/{session}/revert"), &body);
    assert!(!made.exists(), "what the server wrote in the call is undone");
    drop(served);
    let agent = case.run_command(
        case.command("p", &["mcp", "forget", "db"]).env("TURNSTONE_SESSION", "ses_agent"),
    );
    assert_eq!(agent.code, 1, "{agent:?}");
    let forgotten = run(&case, &["mcp", "forget", "db_act"]);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
}
