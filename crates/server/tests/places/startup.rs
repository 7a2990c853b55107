//! What a client reads at its start: the four answers it cannot do without, and the rest.

use serde_json::{Value, json};

use crate::support::House;

const CONFIG: &str = r#"{
  // people write comments
  "model": "fake/fake-1",
  "permission": { "edit": "allow", "bash": { "*": "allow", "rm *": "ask" } },
  "provider": { "fake": { "name": "Fake", "npm": "@ai-sdk/openai-compatible",
    "options": { "apiKey": "sk-fake", "baseURL": "http://127.0.0.1:9901/v1" },
    "models": { "fake-1": { "name": "Fake One", "reasoning": true, "tool_call": true,
      "cost": { "input": 1, "output": 2, "cache_read": 0.1, "cache_write": 0.2 },
      "limit": { "context": 100000, "output": 8000 } } } } },
}"#;

fn configured() -> House {
    let house = House::in_git();
    house.put("opencode.jsonc", CONFIG);
    house
}

#[test]
fn the_four_answers_a_terminal_client_needs_are_there_without_any_configuration() {
    let house = House::new();
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/config/providers"), json!({ "providers": [], "default": {} }));
    assert_eq!(get("/provider"), json!({ "all": [], "default": {}, "connected": [] }));
    let names: Vec<Value> =
        get("/agent").as_array().expect("a list").iter().map(|a| a["name"].clone()).collect();
    assert_eq!(names, ["build", "compaction", "explore", "general", "plan", "summary", "title"]);
    assert_eq!(get("/config")["share"], "disabled");
}

#[test]
fn a_configured_provider_is_shown_as_recorded_and_its_key_is_not() {
    let house = configured();
    let shown = house.client().get("/config/providers").expect(200);
    assert_eq!(shown["default"], json!({ "fake": "fake-1" }));
    let provider = &shown["providers"][0];
    assert_eq!(
        provider["options"],
        json!({ "apiKey": "[redacted]", "baseURL": "http://127.0.0.1:9901/v1" })
    );
    let text =
        json!({ "text": true, "audio": false, "image": false, "video": false, "pdf": false });
    let recorded = json!({ "id": "fake-1", "providerID": "fake",
        "api": { "id": "fake-1", "url": "", "npm": "@ai-sdk/openai-compatible" },
        "name": "Fake One", "family": "",
        "capabilities": { "temperature": false, "reasoning": true, "attachment": false,
            "toolcall": true, "input": text, "output": text, "interleaved": false },
        "cost": { "input": 1, "output": 2, "cache": { "read": 0.1, "write": 0.2 } },
        "limit": { "context": 100000, "output": 8000 }, "status": "active", "options": {},
        "headers": {}, "release_date": "", "variants": {} });
    assert_eq!(provider["models"]["fake-1"], recorded);
    for path in ["/config", "/provider", "/config/providers", "/api/model", "/api/provider"] {
        let body = house.client().get(path);
        assert_eq!(body.status, 200, "{path}: {}", body.text());
        assert!(!body.text().contains("sk-fake"), "{path} tells a secret");
    }
}

#[test]
fn the_rules_of_an_agent_are_the_built_in_ones_then_those_of_the_configuration() {
    let house = configured();
    let agents = house.client().get("/agent").expect(200);
    let rules = agents[0]["permission"].as_array().expect("rules").clone();
    let rule = |permission: &str, pattern: &str, action: &str| json!({ "permission": permission, "pattern": pattern, "action": action });
    assert_eq!(rules[0], rule("*", "*", "allow"));
    assert_eq!(rules[rules.len() - 3], rule("edit", "*", "allow"));
    assert_eq!(rules[rules.len() - 1], rule("bash", "rm *", "ask"));
}

#[test]
fn what_is_nearer_to_the_work_is_stronger_and_files_of_their_own_are_found() {
    let house = House::in_git();
    let global = house.home().join(".config/opencode");
    fs_err::create_dir_all(&global).expect("made");
    fs_err::write(global.join("opencode.json"), r#"{"model":"a/global","theme":"dark"}"#)
        .expect("written");
    house.put("opencode.json", r#"{"model":"b/root"}"#);
    house.put("sub/opencode.json", r#"{"model":"c/sub"}"#);
    house.put(
        ".opencode/command/nested/tidy.md",
        "---\ndescription: tidy up\nagent: plan\n---\nTidy $1 now\n",
    );
    house.put(
        ".opencode/agent/critic.md",
        "---\nmode: subagent\ntools:\n  write: false\n---\nFind faults.\n",
    );
    let client = house.client();
    assert_eq!(client.get("/global/config").expect(200)["model"], "a/global");
    assert_eq!(client.get("/config").expect(200)["model"], "b/root");
    let sub = house.project().join("sub");
    let in_sub = client.get(&format!("/config?directory={}", sub.display())).expect(200);
    assert_eq!((in_sub["model"].as_str(), in_sub["theme"].as_str()), (Some("c/sub"), Some("dark")));
    let commands = client.get("/command").expect(200);
    let tidy = commands.as_array().expect("a list").iter().find(|c| c["name"] == "nested/tidy");
    let wanted = json!({ "name": "nested/tidy", "description": "tidy up", "agent": "plan",
        "template": "Tidy $1 now", "source": "command", "hints": ["$1"] });
    assert_eq!(tidy, Some(&wanted));
    let agents = client.get("/agent").expect(200);
    let critic = agents
        .as_array()
        .expect("a list")
        .iter()
        .find(|a| a["name"] == "critic")
        .expect("an agent");
    assert_eq!(
        (critic["mode"].as_str(), critic["prompt"].as_str()),
        (Some("subagent"), Some("Find faults."))
    );
    let last = critic["permission"].as_array().and_then(|rules| rules.last()).cloned();
    assert_eq!(last, Some(json!({ "permission": "edit", "pattern": "*", "action": "deny" })));
}

#[test]
fn a_configuration_that_cannot_be_read_is_an_error_and_names_the_file() {
    let house = House::in_git();
    house.put("opencode.json", "{ \"permission\": ");
    let refused = house.client().get("/config").expect(400);
    assert_eq!(refused["_tag"], "ConfigInvalidError");
    assert!(refused["path"].as_str().is_some_and(|path| path.ends_with("opencode.json")));
    // A rule that is not understood must not be skipped.
    house.put("opencode.json", r#"{ "permission": { "bash": "perhaps" } }"#);
    assert_eq!(house.client().get("/agent").expect(400)["_tag"], "ConfigInvalidError");
}

#[test]
fn r16_a_configuration_that_leads_out_of_the_project_is_refused() {
    let house = House::in_git();
    let secret = house.beside("secret.json");
    fs_err::write(&secret, r#"{"model":"x/secret"}"#).expect("written");
    std::os::unix::fs::symlink(&secret, house.project().join("opencode.json")).expect("linked");
    let refused = house.client().get("/config");
    assert_eq!(refused.expect(400)["_tag"], "ConfigInvalidError");
    assert!(!refused.text().contains("x/secret"));
}

#[test]
fn what_turnstone_does_not_have_is_answered_with_the_documented_empty_shape() {
    let house = House::new();
    for (path, wanted) in [
        ("/skill", json!([])),
        ("/lsp", json!([])),
        ("/formatter", json!([])),
        ("/mcp", json!({})),
        ("/pty", json!([])),
        ("/provider/auth", json!({})),
        ("/find/symbol?query=x", json!([])),
        ("/experimental/capabilities", json!({ "backgroundSubagents": false })),
        (
            "/experimental/console",
            json!({ "consoleManagedProviders": [], "switchableOrgCount": 0 }),
        ),
        ("/experimental/resource", json!({})),
        ("/experimental/workspace", json!([])),
        ("/experimental/workspace/status", json!([])),
        ("/experimental/tool/ids", json!([])),
        ("/experimental/worktree", json!([])),
        ("/experimental/session", json!([])),
    ] {
        assert_eq!(house.client().get(path).expect(200), wanted, "{path}");
    }
}

#[test]
fn a_path_names_the_directory_that_was_asked_for() {
    let house = House::in_git();
    house.put("src/a", "");
    let (root, src) = (house.project(), house.project().join("src"));
    let path = |client: &crate::support::Client, query: &str| {
        client.get(&format!("/path{query}")).expect(200)
    };
    let shown = path(house.client(), "");
    assert_eq!(shown["worktree"], *root.to_string_lossy());
    assert_eq!(shown["home"], *house.home().to_string_lossy());
    let by_query = path(house.client(), &format!("?directory={}", src.display()));
    assert_eq!((&by_query["worktree"], &by_query["directory"]), (&json!(root), &json!(src)));
    let by_header = house.client().with("x-opencode-directory", &src.to_string_lossy());
    assert_eq!(path(&by_header, ""), by_query);
    let gone = path(house.client(), "?directory=/does/not/exist");
    assert_eq!((&gone["worktree"], &gone["directory"]), (&json!("/"), &json!("/does/not/exist")));
}

#[test]
fn a_project_is_listed_changed_and_shows_its_directories() {
    let house = House::in_git();
    let client = house.client();
    let current = client.get("/project/current").expect(200);
    assert_eq!(client.get("/project").expect(200), json!([current]));
    assert_eq!((&current["vcs"], &current["sandboxes"]), (&json!("git"), &json!([])));
    let path = format!("/project/{}", current["id"].as_str().expect("an id"));
    let changed = client.patch(&path, &json!({ "name": "demo", "icon": { "color": "blue" } }));
    let changed = changed.expect(200);
    assert_eq!((&changed["name"], &changed["icon"]), (&json!("demo"), &json!({ "color": "blue" })));
    assert_eq!(client.get("/project/current").expect(200), changed);
    let shown = client.get(&format!("{path}/directories")).expect(200);
    assert_eq!(shown, json!([{ "directory": house.project() }]));
    let unknown = client.patch("/project/nope", &json!({ "name": "x" })).expect(404);
    assert_eq!(unknown["_tag"], "ProjectNotFoundError");
    assert_eq!(client.patch(&path, &json!({ "name": 5 })).expect(400)["name"], "BadRequest");
}

#[test]
fn lines_for_the_log_are_checked() {
    let house = House::new();
    let line = json!({ "service": "x", "level": "info", "message": "m", "extra": { "a": 1 } });
    assert_eq!(house.client().post("/log", &line).expect(200), true);
    let loud = json!({ "service": "x", "level": "loud", "message": "m" });
    let refused = house.client().post("/log", &loud).expect(400);
    assert_eq!(refused["data"]["kind"], "Payload");
    assert_eq!(house.client().send("POST", "/log", Some(b"{")).expect(400)["name"], "BadRequest");
}

#[test]
fn the_terminal_client_is_told_by_events() {
    let house = House::in_git();
    let mut stream = house.client().stream("/event");
    assert_eq!(stream.event().expect("a first event")["type"], "server.connected");
    let client = house.client();
    client.post("/tui/append-prompt", &json!({ "text": "abc" })).expect(200);
    assert_eq!(stream.until("tui.prompt.append")["properties"], json!({ "text": "abc" }));
    client.post("/tui/show-toast", &json!({ "message": "hi", "variant": "info" })).expect(200);
    let toast = json!({ "message": "hi", "variant": "info", "duration": 5000 });
    assert_eq!(stream.until("tui.toast.show")["properties"], toast);
    client.post("/tui/execute-command", &json!({ "command": "session_list" })).expect(200);
    let command = json!({ "command": "session.list" });
    assert_eq!(stream.until("tui.command.execute")["properties"], command);
    let unknown =
        client.post("/tui/select-session", &json!({ "sessionID": "ses_nope" })).expect(404);
    assert_eq!(unknown["data"]["message"], "Session not found: ses_nope");
    let strange = json!({ "type": "session.deleted", "properties": {} });
    assert_eq!(client.post("/tui/publish", &strange).expect(400)["name"], "BadRequest");
    client.send("POST", "/instance/dispose", None).expect(200);
    let told = stream.until("server.instance.disposed");
    assert_eq!(told["properties"], json!({ "directory": house.project() }));
}

#[test]
fn a_worktree_is_made_listed_reset_and_removed() {
    let house = House::in_git();
    let client = house.client();
    let made = client.post("/experimental/worktree", &json!({ "name": "feat" })).expect(200);
    assert_eq!((&made["name"], &made["branch"]), (&json!("feat"), &json!("opencode/feat")));
    let directory = made["directory"].clone();
    assert_eq!(client.get("/experimental/worktree").expect(200), json!([directory]));
    let named = json!({ "directory": directory });
    assert_eq!(client.post("/experimental/worktree/reset", &named).expect(200), true);
    // Work that exists nowhere else is not thrown away.
    let file = std::path::Path::new(directory.as_str().expect("a path")).join("only-here");
    fs_err::write(&file, "x").expect("written");
    let body = named.to_string();
    let remove = || client.send("DELETE", "/experimental/worktree", Some(body.as_bytes()));
    assert_eq!(remove().expect(409)["_tag"], "WorktreeHasWorkError");
    fs_err::remove_file(&file).expect("removed");
    assert_eq!(remove().expect(200), true);
    assert_eq!(client.get("/experimental/worktree").expect(200), json!([]));
    let outside = json!({ "directory": house.project() });
    assert_eq!(
        client.post("/experimental/worktree/reset", &outside).expect(409)["_tag"],
        "WorktreePrimaryError"
    );
    let strange = json!({ "directory": house.home() });
    assert_eq!(
        client.post("/experimental/worktree/reset", &strange).expect(404)["_tag"],
        "WorktreeNotFoundError"
    );
    let start = json!({ "startCommand": "true" });
    assert_eq!(
        client.post("/experimental/worktree", &start).expect(403)["_tag"],
        "StartCommandRefusedError"
    );
    assert_eq!(
        client.post("/experimental/worktree", &json!({ "name": 5 })).expect(400)["name"],
        "BadRequest"
    );
}

/// Puts a pipe into the project.
fn pipe(house: &House, name: &str) {
    let path = house.project().join(name);
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).expect("a pipe");
}

#[test]
fn a_pipe_or_device_as_configuration_is_an_error_and_never_waited_for() {
    let house = House::in_git();
    for name in ["opencode.json", ".opencode/opencode.jsonc"] {
        fs_err::create_dir_all(house.project().join(".opencode")).expect("made");
        pipe(&house, name);
        let refused = house.client().get("/config").expect(400);
        assert_eq!(refused["_tag"], "ConfigInvalidError");
        assert!(refused["path"].as_str().is_some_and(|path| path.ends_with(name)), "{refused}");
        let file = house.project().join(name);
        fs_err::remove_file(&file).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &file).expect("linked");
        assert_eq!(house.client().get("/config").expect(400)["_tag"], "ConfigInvalidError");
        fs_err::remove_file(&file).expect("removed");
    }
    let global = house.home().join(".config/opencode");
    fs_err::create_dir_all(&global).expect("made");
    std::os::unix::fs::symlink("/dev/zero", global.join("opencode.json")).expect("linked");
    assert_eq!(house.client().get("/config").expect(400)["_tag"], "ConfigInvalidError");
}

#[test]
fn templates_and_agents_that_are_pipes_are_not_read() {
    let house = House::in_git();
    fs_err::create_dir_all(house.project().join(".opencode/command")).expect("made");
    fs_err::create_dir_all(house.project().join(".opencode/agent")).expect("made");
    pipe(&house, ".opencode/command/wait.md");
    std::os::unix::fs::symlink("/dev/zero", house.project().join(".opencode/agent/zero.md"))
        .expect("linked");
    let names = |list: Value| -> Vec<String> {
        let list = list.as_array().expect("a list").clone();
        list.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    assert!(!names(house.client().get("/command").expect(200)).contains(&"wait".to_owned()));
    assert!(!names(house.client().get("/agent").expect(200)).contains(&"zero".to_owned()));
}
