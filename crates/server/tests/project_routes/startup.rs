//! What a client reads at its start: the four answers it cannot do without, and the rest.

use serde_json::{Value, json};

use crate::support::ServerFixture;

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

fn server_with_config() -> ServerFixture {
    let house = ServerFixture::with_git();
    house.write_file("opencode.jsonc", CONFIG);
    house.trust_project();
    house
}

#[test]
fn start_up_routes_work_without_configuration() {
    let house = ServerFixture::new();
    let get = |path: &str| house.client().get(path).expect(200);
    assert_eq!(get("/config/providers"), json!({ "providers": [], "default": {} }));
    let providers = get("/provider");
    assert_eq!(providers["connected"], json!([]), "no provider has a key");
    let known = providers["all"].as_array().expect("a list").iter().map(|it| it["id"].clone());
    assert!(known.collect::<Vec<_>>().contains(&json!("anthropic")));
    let names: Vec<Value> =
        get("/agent").as_array().expect("a list").iter().map(|a| a["name"].clone()).collect();
    assert_eq!(names, ["build", "compaction", "explore", "general", "plan", "summary", "title"]);
    assert_eq!(get("/config")["share"], "disabled");
}

#[test]
fn configured_provider_matches_recording_without_its_key() {
    let house = server_with_config();
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
        "headers": {}, "release_date": "", "variants": { "low": { "reasoningEffort": "low" },
            "medium": { "reasoningEffort": "medium" }, "high": { "reasoningEffort": "high" } } });
    assert_eq!(provider["models"]["fake-1"], recorded);
    for path in ["/config", "/provider", "/config/providers", "/api/model", "/api/provider"] {
        let body = house.client().get(path);
        assert_eq!(body.status, 200, "{path}: {}", body.text());
        assert!(!body.text().contains("sk-fake"), "{path} tells a secret");
    }
}

#[test]
fn agent_rules_are_built_in_then_configured() {
    let house = server_with_config();
    let agents = house.client().get("/agent").expect(200);
    let rules = agents[0]["permission"].as_array().expect("rules").clone();
    let rule = |permission: &str, pattern: &str, action: &str| json!({ "permission": permission, "pattern": pattern, "action": action });
    assert_eq!(rules[0], rule("*", "*", "allow"));
    assert_eq!(rules[rules.len() - 3], rule("edit", "*", "allow"));
    assert_eq!(rules[rules.len() - 1], rule("bash", "rm *", "ask"));
}

#[test]
fn nearer_configuration_overrides_and_markdown_files_are_read() {
    let house = ServerFixture::with_git();
    let global = house.home().join(".config/opencode");
    fs_err::create_dir_all(&global).expect("made");
    fs_err::write(global.join("opencode.json"), r#"{"model":"a/global","theme":"dark"}"#)
        .expect("written");
    house.write_file("opencode.json", r#"{"model":"b/root"}"#);
    house.write_file("sub/opencode.json", r#"{"model":"c/sub"}"#);
    house.write_file(
        ".opencode/command/nested/tidy.md",
        "---\ndescription: tidy up\nagent: plan\n---\nTidy $1 now\n",
    );
    house.write_file(
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
fn unreadable_configuration_is_an_error_naming_the_file() {
    let house = ServerFixture::with_git();
    house.write_file("opencode.json", "{ \"permission\": ");
    let refused = house.client().get("/config").expect(400);
    assert_eq!(refused["_tag"], "ConfigInvalidError");
    assert!(refused["path"].as_str().is_some_and(|path| path.ends_with("opencode.json")));
    // A rule that is not understood must not be skipped.
    house.write_file("opencode.json", r#"{ "permission": { "bash": "perhaps" } }"#);
    assert_eq!(house.client().get("/agent").expect(400)["_tag"], "ConfigInvalidError");
}

/// Proves R16.
#[test]
fn configuration_symlink_out_of_project_is_rejected() {
    let house = ServerFixture::with_git();
    let secret = house.sibling("secret.json");
    fs_err::write(&secret, r#"{"model":"x/secret"}"#).expect("written");
    std::os::unix::fs::symlink(&secret, house.project().join("opencode.json")).expect("linked");
    let refused = house.client().get("/config");
    assert_eq!(refused.expect(400)["_tag"], "ConfigInvalidError");
    assert!(!refused.text().contains("x/secret"));
}

#[test]
fn missing_features_answer_with_empty_shapes() {
    let house = ServerFixture::new();
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
fn path_route_names_the_requested_directory() {
    let house = ServerFixture::with_git();
    house.write_file("src/a", "");
    let (root, src) = (house.project(), house.project().join("src"));
    let path = |client: &crate::support::TestClient, query: &str| {
        client.get(&format!("/path{query}")).expect(200)
    };
    let shown = path(house.client(), "");
    assert_eq!(shown["worktree"], *root.to_string_lossy());
    assert_eq!(shown["home"], *house.home().to_string_lossy());
    let by_query = path(house.client(), &format!("?directory={}", src.display()));
    assert_eq!((&by_query["worktree"], &by_query["directory"]), (&json!(root), &json!(src)));
    let by_header = house.client().with_header("x-opencode-directory", &src.to_string_lossy());
    assert_eq!(path(&by_header, ""), by_query);
    let gone = path(house.client(), "?directory=/does/not/exist");
    assert_eq!((&gone["worktree"], &gone["directory"]), (&json!("/"), &json!("/does/not/exist")));
}

#[test]
fn a_project_is_listed_changed_and_shows_its_directories() {
    let house = ServerFixture::with_git();
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
fn log_route_validates_its_input() {
    let house = ServerFixture::new();
    let line = json!({ "service": "x", "level": "info", "message": "m", "extra": { "a": 1 } });
    assert_eq!(house.client().post("/log", &line).expect(200), true);
    let loud = json!({ "service": "x", "level": "loud", "message": "m" });
    let refused = house.client().post("/log", &loud).expect(400);
    assert_eq!(refused["data"]["kind"], "Payload");
    assert_eq!(house.client().send("POST", "/log", Some(b"{")).expect(400)["name"], "BadRequest");
}

#[test]
fn tui_routes_publish_events() {
    let house = ServerFixture::with_git();
    let mut stream = house.client().stream("/event");
    assert_eq!(stream.event().expect("a first event")["type"], "server.connected");
    let client = house.client();
    client.post("/tui/append-prompt", &json!({ "text": "abc" })).expect(200);
    assert_eq!(stream.wait_for("tui.prompt.append")["properties"], json!({ "text": "abc" }));
    client.post("/tui/show-toast", &json!({ "message": "hi", "variant": "info" })).expect(200);
    let toast = json!({ "message": "hi", "variant": "info", "duration": 5000 });
    assert_eq!(stream.wait_for("tui.toast.show")["properties"], toast);
    client.post("/tui/execute-command", &json!({ "command": "session_list" })).expect(200);
    let command = json!({ "command": "session.list" });
    assert_eq!(stream.wait_for("tui.command.execute")["properties"], command);
    let unknown =
        client.post("/tui/select-session", &json!({ "sessionID": "ses_nope" })).expect(404);
    assert_eq!(unknown["data"]["message"], "Session not found: ses_nope");
    let strange = json!({ "type": "session.deleted", "properties": {} });
    assert_eq!(client.post("/tui/publish", &strange).expect(400)["name"], "BadRequest");
    client.send("POST", "/instance/dispose", None).expect(200);
    let reported = stream.wait_for("server.instance.disposed");
    assert_eq!(reported["properties"], json!({ "directory": house.project() }));
}

#[test]
fn worktree_is_created_listed_reset_and_removed() {
    let house = ServerFixture::with_git();
    let client = house.client();
    let made = client.post("/experimental/worktree", &json!({ "name": "feat" })).expect(200);
    assert_eq!((&made["name"], &made["branch"]), (&json!("feat"), &json!("turnstone/feat")));
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
fn make_pipe(house: &ServerFixture, name: &str) {
    let path = house.project().join(name);
    let fifo = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, fifo, mode, 0).expect("a pipe");
}

#[test]
fn pipe_as_configuration_is_an_error_without_blocking() {
    let house = ServerFixture::with_git();
    for name in ["opencode.json", ".opencode/opencode.jsonc"] {
        fs_err::create_dir_all(house.project().join(".opencode")).expect("made");
        make_pipe(&house, name);
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
fn pipes_as_templates_and_agents_are_not_read() {
    let house = ServerFixture::with_git();
    fs_err::create_dir_all(house.project().join(".opencode/command")).expect("made");
    fs_err::create_dir_all(house.project().join(".opencode/agent")).expect("made");
    make_pipe(&house, ".opencode/command/wait.md");
    std::os::unix::fs::symlink("/dev/zero", house.project().join(".opencode/agent/zero.md"))
        .expect("linked");
    let names = |list: Value| -> Vec<String> {
        let list = list.as_array().expect("a list").clone();
        list.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
    };
    assert!(!names(house.client().get("/command").expect(200)).contains(&"wait".to_owned()));
    assert!(!names(house.client().get("/agent").expect(200)).contains(&"zero".to_owned()));
}
