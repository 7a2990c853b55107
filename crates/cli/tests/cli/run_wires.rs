//! `turnstone run` with providers over HTTP: keys, retries, and what nobody may see of them.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};
use turnstone_testkit::scripted_model::ScriptedModelServer;

use crate::fixture::{CliFixture, ProgramOutput};
use crate::run_output::export_newest;

const KEY: &str = "sk-turnstone-0123456789";

/// A project whose user has one provider on this machine, with a key in a variable of its own name.
fn configured(npm: &str, server: &ScriptedModelServer) -> CliFixture {
    let case = CliFixture::empty();
    fs_err::create_dir_all(case.path("home/.config/opencode")).expect("made");
    let settings = json!({
        "provider": { "local": { "npm": npm,
            "options": { "baseURL": server.url(), "apiKey": "{env:MY_OWN_SECRET}" },
            "models": { "m": { "limit": { "context": 100_000, "output": 1_000 } } } } },
        "model": "local/m", "small_model": "local/m"
    });
    let path = case.path("home/.config/opencode/opencode.json");
    fs_err::write(path, settings.to_string()).expect("written");
    case
}

fn run(case: &CliFixture, prompt: &str, more: &[&str]) -> ProgramOutput {
    let mut command = case.command("p", &[&["run", prompt, "--title", "T"], more].concat());
    command.env("MY_OWN_SECRET", KEY).env("PATH", "/usr/bin:/bin");
    case.run_command(&mut command)
}

fn prompt() -> String {
    let turns = json!([
        [
            {"http": {"status": 429, "headers": {"retry-after-ms": "20"},
                      "body": {"error": {"message": "slow down"}}}},
            {"text": "I write and look.", "delta_chars": 4},
            {"tool": "write", "input": {"filePath": "made.txt", "content": "made\n"}},
            {"tool": "bash", "input": {"command": "env"}}
        ],
        [{"text": "Done."}, {"usage": {"input": 90, "output": 20}}]
    ]);
    format!("Do this: {turns}")
}

/// True if a file below a folder contains the key.
fn contains_key(folder: &Path) -> bool {
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in
            fs_err::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry"))
        {
            if entry.file_type().expect("a type").is_dir() {
                open.push(entry.path());
                continue;
            }
            let mut bytes = Vec::new();
            if let Ok(mut file) = fs_err::File::open(entry.path()) {
                file.read_to_end(&mut bytes).expect("read");
            }
            if bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()) {
                return true;
            }
        }
    }
    false
}

fn answers_over(npm: &str) {
    let server = ScriptedModelServer::start(Some(7)).expect("a server");
    let case = configured(npm, &server);
    let ran = run(&case, &prompt(), &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "I write and look.\nDone.\n");
    assert!(ran.err.contains("retry 1 in 20 ms: slow down"), "{}", ran.err);
    assert!(ran.err.contains("made.txt"), "{}", ran.err);
    assert!(ran.err.contains("cost unknown"), "the price is not known: {}", ran.err);
    assert!(case.path("p/made.txt").exists());
    let exported = export_newest(&case);
    assert!(exported.contains("TURNSTONE_SESSION="), "{exported}");
    assert!(!exported.contains("MY_OWN_SECRET"), "{exported}");
    let shown = [&ran.out, &ran.err, &exported];
    assert!(shown.iter().all(|text| !text.contains(KEY)), "the key is shown");
    assert!(!contains_key(&case.data_dir()), "the key is stored");
    let requests = server.requests();
    let sent =
        |name: &str| requests.iter().all(|it| it.header(name).is_some_and(|v| v.contains(KEY)));
    assert!(sent("authorization") || sent("x-api-key"), "the provider gets the key");
}

#[test]
fn prompt_is_answered_over_chat_completions() {
    answers_over("@ai-sdk/openai-compatible");
}

#[test]
fn prompt_is_answered_over_anthropic_messages() {
    answers_over("@ai-sdk/anthropic");
}

#[test]
fn model_that_cannot_be_used_is_an_error_before_anything_is_stored() {
    let case = CliFixture::empty();
    let missing = case.run(&["run", "--model", "anthropic/claude-sonnet-4-5", "hi"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.err.contains("turnstone auth set anthropic"), "{}", missing.err);
    let unknown = case.run(&["run", "--model", "anthropic/claude-sonet", "hi"]);
    assert!(unknown.err.contains("similar: claude-"), "{}", unknown.err);
    let none = case.run(&["run", "hi"]);
    assert!(none.err.contains("no model is configured"), "{}", none.err);
    let agent = case.run(&["run", "--agent", "explore", "hi"]);
    assert!(agent.err.contains("called by other agents only"), "{}", agent.err);
    let listed: Value = case.run_json(&["session", "list"]);
    assert_eq!(listed["sessions"], json!([]));
}
