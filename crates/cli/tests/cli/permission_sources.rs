//! One resolver finds the rules for every route and command (R38): each place where a denial can be
//! written counts at each surface.

use serde_json::{Value, json};

use crate::exec::run_program;
use crate::fixture::CliFixture;
use crate::serve_shell::TestServer;

/// Where a denial is written, how `permission explain` names that, and whether it is about the agent
/// `build` alone.
const SOURCES: [(&str, &str, bool); 9] = [
    ("own", "user", false),
    ("global", "user", false),
    ("global-agent", "user-for-agent", true),
    ("global-markdown", "user-for-agent", true),
    ("project", "project", false),
    ("project-agent", "project-for-agent", true),
    ("project-markdown", "project-for-agent", true),
    ("stored", "stored", false),
    ("session", "session", false),
];

/// The permissions of a source: it denies what bears its name.
fn denials(name: &str) -> Value {
    json!({ "bash": { format!("{name} *"): "deny" }, "edit": { format!("{name}/*"): "deny" },
            "revert": { format!("{name}/*"): "deny" } })
}

fn put(case: &CliFixture, path: &str, text: &str) {
    let path = case.path(path);
    fs_err::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs_err::write(path, text).expect("written");
}

/// A Markdown file of an agent with the denials of a source.
fn markdown_agent(name: &str) -> String {
    format!(
        "---\ndescription: Builds\npermission:\n  bash:\n    \"{name} *\": deny\n  edit:\n    \
         \"{name}/*\": deny\n  revert:\n    \"{name}/*\": deny\n---\nBuild.\n"
    )
}

/// Writes every denial that stands in a file or with the project.
fn write_sources(case: &CliFixture) {
    let own = json!({ "permission": denials("own") });
    put(case, "home/.config/turnstone/config.json", &own.to_string());
    for (place, name) in [("home/.config/opencode", "global"), ("p", "project")] {
        let agents = json!({ "build": { "permission": denials(&format!("{name}-agent")) } });
        let file = json!({ "permission": denials(name), "agent": agents });
        put(case, &format!("{place}/opencode.json"), &file.to_string());
    }
    put(case, "home/.config/opencode/agent/build.md", &markdown_agent("global-markdown"));
    put(case, "p/.opencode/agents/build.md", &markdown_agent("project-markdown"));
    for (permission, pattern) in
        [("bash", "stored *"), ("edit", "stored/*"), ("revert", "stored/*")]
    {
        let set = ["permission", "set", permission, pattern, "deny"];
        assert_eq!(run_program(case, &set).code, 0);
    }
}

/// A session with rules, in which a command made one file per source.
fn session_with_files(case: &CliFixture, served: &TestServer) -> String {
    let rules: Vec<Value> = denials("session")
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(permission, patterns)| {
            let patterns = patterns.as_object().into_iter().flatten();
            patterns.map(move |(pattern, action)| {
                json!({ "permission": permission, "pattern": pattern, "action": action })
            })
        })
        .collect();
    let (status, made) = served.request("POST", "/session", &json!({ "permission": rules }));
    assert_eq!(status, 200, "{made}");
    let session = made["id"].as_str().expect("an id").to_owned();
    let names = SOURCES.map(|(name, ..)| name).join(" ");
    let line = format!(
        "ln -s . self; mkdir other; for i in {names}; do mkdir $i; echo x > $i/f; ln -s $i/f to-$i; done"
    );
    let ran = run_program(case, &["exec", "--session", &session, "--", "sh", "-c", &line]);
    assert_eq!(ran.code, 0, "{ran:?}");
    session
}

/// Proves R38.
#[test]
fn denial_from_every_source_counts_at_every_surface() {
    let case = CliFixture::empty();
    assert_eq!(run_program(&case, &["exec", "--", "true"]).code, 0, "a project");
    write_sources(&case);
    let served = TestServer::start(&case);
    let session = session_with_files(&case, &served);
    let undo = format!("/turnstone/session/{session}/undo");
    for (name, source, is_about_agent) in SOURCES {
        let (file, command) = (format!("{name}/f"), format!("{name} x"));
        let place = format!("{name} ({source})");

        let explain = ["permission", "explain", "bash", &command, "--session", &session, "--json"];
        let explained: Value =
            serde_json::from_str(&run_program(&case, &explain).out).expect("JSON");
        assert_eq!((&explained["action"], &explained["source"]), (&json!("deny"), &json!(source)));
        let is_user = source.starts_with("user");
        assert_eq!(explained["final"] == json!(true), is_user, "{place}: {explained}");

        let refused = run_program(&case, &["undo", "--session", &session, "--path", &file]);
        assert_eq!(refused.code, 1, "undo, {place}: {refused:?}");
        assert!(refused.err.contains("is not allowed"), "undo, {place}: {refused:?}");
        let (status, refused) = served.request("POST", &undo, &json!({ "paths": [&file] }));
        assert_eq!(
            (status, &refused["_tag"]),
            (403, &json!("NotAllowedError")),
            "undo, {place}: {refused}"
        );

        let in_turn = ["exec", "--", name, "x"];
        let in_turn =
            case.run_command(case.command("p", &in_turn).env("TURNSTONE_SESSION", &session));
        assert!(in_turn.err.contains("is not allowed"), "exec, {place}: {in_turn:?}");

        if !is_about_agent {
            let refused = run_program(&case, &["forget", &file, "--yes"]);
            assert!(refused.err.contains("is not allowed"), "forget, {place}: {refused:?}");
        }
        assert!(case.path(&format!("p/{file}")).exists(), "{place}");
    }
    deny_tools_of_a_turn(&case, &served, &session);
}

/// The surfaces of a turn that a runner drives.
fn deny_tools_of_a_turn(case: &CliFixture, served: &TestServer, session: &str) {
    let base = format!("/turnstone/session/{session}/turn");
    let model = json!({ "providerID": "p", "modelID": "m" });
    let prompt =
        json!({ "agent": "build", "model": model, "parts": [{ "type": "text", "text": "go" }] });
    let (status, begun) = served.request("POST", &base, &json!({ "prompt": prompt }));
    assert_eq!(status, 200, "{begun}");
    let turn = format!("{base}/{}", begun["turn"].as_str().expect("a turn"));
    let step = json!({ "providerID": "p", "modelID": "m", "agent": "build" });
    let (_, step) = served.request_as_driver(&begun, &format!("{turn}/step"), &step);
    for (name, source, _) in SOURCES {
        let command = format!("{name} x");
        let ask =
            json!({ "permission": "bash", "patterns": [&command], "metadata": {}, "always": [] });
        let (_, asked) = served.request_as_driver(&begun, &format!("{turn}/permission"), &ask);
        assert_eq!(asked["verdict"], "denied", "native, {name} ({source}): {asked}");

        let ask = json!({ "action": "bash", "resources": [&command] });
        let path = format!("/api/session/{session}/permission");
        let (_, asked) = served.request("POST", &path, &ask);
        assert_eq!(asked["data"]["effect"], "deny", "v2, {name} ({source}): {asked}");

        // The same file under other names, which a repository can bring along.
        let aliases = [
            format!("{name}/f"),
            format!("self/{name}/f"),
            format!("other/../{name}/f"),
            format!("to-{name}"),
        ];
        for alias in aliases {
            let tool = json!({ "messageID": step["messageID"], "callID": alias, "tool": "write",
                "input": {}, "touches": { "paths": [alias] } });
            let file = json!({ "files": [{ "path": alias, "text": "y" }] });
            for (route, body) in [("tool", &tool), ("file/write", &file)] {
                let path = format!("{turn}/{route}");
                let (status, refused) = served.request_as_driver(&begun, &path, body);
                assert_eq!(
                    (status, &refused["_tag"]),
                    (403, &json!("NotAllowedError")),
                    "{route}, {alias}: {refused}"
                );
            }
            let explain = ["permission", "explain", "edit", &alias, "--session", session];
            let explained = run_program(case, &explain);
            assert!(explained.out.starts_with("deny"), "{alias} ({source}): {explained:?}");
            let ask =
                json!({ "permission": "edit", "patterns": [alias], "metadata": {}, "always": [] });
            let path = format!("{turn}/permission");
            let (_, asked) = served.request_as_driver(&begun, &path, &ask);
            assert_eq!(asked["verdict"], "denied", "native, {alias} ({source}): {asked}");
            let ask = json!({ "action": "edit", "resources": [alias] });
            let path = format!("/api/session/{session}/permission");
            let (_, asked) = served.request("POST", &path, &ask);
            assert_eq!(asked["data"]["effect"], "deny", "v2, {alias} ({source}): {asked}");
        }

        let shell = json!({ "agent": "build", "command": &command });
        let path = format!("/session/{session}/shell");
        let (status, refused) = served.request_as("bot", &path, &shell);
        assert_eq!(
            (status, &refused["_tag"]),
            (403, &json!("NotAllowedError")),
            "shell, {name}: {refused}"
        );
    }
    let allowed = json!({ "messageID": step["messageID"], "callID": "c", "tool": "write", "input": {},
        "touches": { "paths": ["other/f"] } });
    let (status, allowed) = served.request_as_driver(&begun, &format!("{turn}/tool"), &allowed);
    assert_eq!(status, 200, "{allowed}");
}

/// Proves R38: an agent that no configuration knows is not taken for another one.
#[test]
fn unknown_agent_is_asked_about_everything() {
    let case = CliFixture::empty();
    assert_eq!(run_program(&case, &["exec", "--", "true"]).code, 0, "a project");
    let explain = |agent: &str, permission: &str| {
        let args = ["permission", "explain", permission, "x", "--agent", agent, "--json"];
        let ran = run_program(&case, &args);
        let value: Value = serde_json::from_str(&ran.out).expect("JSON");
        (value["action"].clone(), value["source"].clone())
    };
    assert_eq!(explain("build", "edit").0, json!("allow"));
    assert_eq!(explain("ghost", "edit"), (json!("ask"), json!("unknown-agent")));
    assert_eq!(explain("../p/ghost", "edit").1, json!("unknown-agent"));
    assert_eq!(explain("ghost", "question"), (json!("deny"), json!("builtin")), "a denial stays");
    put(&case, "p/.opencode/agent/ghost.md", "---\ntools:\n  edit: false\n---\nBoo.\n");
    assert_eq!(explain("ghost", "edit"), (json!("deny"), json!("project-for-agent")));
    put(
        &case,
        "p/opencode.json",
        r#"{"agent": {"ghost": {"disable": true}}, "default_agent": "plan"}"#,
    );
    assert_eq!(explain("ghost", "read").1, json!("unknown-agent"), "it is switched off");
    let default = run_program(&case, &["permission", "explain", "edit", "x"]);
    assert!(default.out.starts_with("deny, by rule"), "the default agent plans: {default:?}");
    let variable = case.run_command(
        case.command("p", &["permission", "explain", "bash", "x"])
            .env("OPENCODE_CONFIG_CONTENT", r#"{"permission": {"bash": "deny"}}"#),
    );
    assert!(variable.out.contains("user configuration (final)"), "{variable:?}");
}
