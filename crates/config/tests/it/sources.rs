//! Sources: their order, what is merged, and how mistakes are reported.

use serde_json::json;
use turnstone_config::{AgentMode, HookTiming, McpTransport};

use crate::fixture::{ConfigFixture, shown_value};

#[test]
fn sources_override_each_other_in_opencodes_order() {
    let fixture = ConfigFixture::new();
    let name = |name: &str| format!(r#"{{"username": "{name}"}}"#);
    let user = || shown_value(&fixture.load(), "username");
    assert_eq!(user(), json!(null));
    for (file, from) in [
        ("home/.config/opencode/config.json", "global config.json"),
        ("home/.config/opencode/opencode.json", "global"),
        ("home/.config/opencode/opencode.jsonc", "global jsonc"),
        ("project/opencode.json", "root"),
        ("project/opencode.jsonc", "root jsonc"),
        ("project/sub/opencode.json", "directory"),
        ("project/sub/.opencode/opencode.json", "folder of the directory"),
        ("project/.opencode/opencode.json", "folder of the root"),
        ("home/.opencode/opencode.json", "home folder"),
        ("managed/opencode.json", "managed"),
    ] {
        fixture.write(file, &name(from));
        assert_eq!(user(), json!(from), "{file}");
    }
}

#[test]
fn variables_name_files_folders_and_content() {
    let fixture = ConfigFixture::new();
    let named = fixture.path("home/named.jsonc");
    let folder = fixture.path("home/folder");
    let fixture = fixture
        .with_variable("OPENCODE_CONFIG", &named.display().to_string())
        .with_variable("OPENCODE_CONFIG_DIR", &folder.display().to_string())
        .with_variable("OPENCODE_CONFIG_CONTENT", r#"{"c": 3, /* last */}"#)
        .with_variable("OPENCODE_PERMISSION", r#"{"bash": "ask"}"#)
        .with_variable("OPENCODE_DISABLE_AUTOCOMPACT", "1");
    fixture.write("home/named.jsonc", "{\"a\": 1, \"c\": 1, // x\n}");
    fixture.write("home/folder/opencode.json", r#"{"b": 2, "c": 2}"#);
    fixture.write("home/folder/agent/helper.md", "---\nmode: subagent\n---\nHelp.");
    let config = fixture.load();
    let all = ["a", "b", "c", "permission.bash"].map(|key| shown_value(&config, key));
    assert_eq!(all, [json!(1), json!(2), json!(3), json!("ask")]);
    assert!(!config.settings().compaction.auto && config.settings().is_pruning);
    let helper = config.find_agent("helper").expect("an agent");
    assert_eq!((helper.mode, helper.system_prompt()), (AgentMode::Subagent, "Help."));
}

#[test]
fn project_is_not_read_if_it_is_switched_off() {
    let fixture = ConfigFixture::new().with_variable("OPENCODE_DISABLE_PROJECT_CONFIG", "true");
    fixture.write_project(r#"{"username": "project"}"#);
    assert_eq!(shown_value(&fixture.load(), "username"), json!(null));
}

#[test]
fn mistakes_name_file_line_and_key_and_quote_nothing() {
    let fixture = ConfigFixture::new();
    let cases = [
        ("{\n  \"model\": hunter2\n}", Some(2), None),
        ("[]", Some(1), None),
        (
            "{\n \"agent\": {\n  \"x\": {\n   \"mode\": \"hunter2\" }}}",
            Some(4),
            Some("agent.x.mode"),
        ),
        ("{\n\n \"agent\": [\"hunter2\"] }", Some(3), Some("agent")),
        ("{ \"command\": { \"x\": { \"agent\": \"hunter2\" } } }", Some(1), Some("command.x")),
        ("{\n \"compaction\": {\n \"auto\": \"hunter2\" } }", Some(3), Some("compaction.auto")),
        ("{\n \"tool_output\": {\n \"max_lines\": -3 } }", Some(3), Some("tool_output.max_lines")),
        (
            "{ \"provider\": {\n \"p\": { \"models\": { \"m\": {\n \"cost\": { \"input\": \"hunter2\" } } } } } }",
            Some(3),
            Some("provider.p.models.m.cost.input"),
        ),
        ("{\n \"permission\": {\n  \"bash\": \"hunter2\" } }", Some(2), Some("permission")),
        ("{\n \"instructions\": \"hunter2\" }", Some(2), Some("instructions")),
        ("{\n \"mcp\": {\n \"m\": { \"type\": \"hunter2\" } } }", Some(3), Some("mcp.m.type")),
        ("{\n \"hooks\": {\n \"before\": [] } }", Some(3), Some("hooks.before")),
        ("{ \"a\":\n \"{file:~/hunter2}\" }", Some(2), None),
    ];
    for (text, line, key) in cases {
        fixture.write_user(text);
        let error = fixture.try_load().expect_err(text);
        assert_eq!((error.line, error.key.as_deref()), (line, key), "{text}: {error}");
        assert_eq!(error.file, fixture.path("home/.config/opencode/opencode.json"), "{text}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn mistake_is_reported_at_the_source_that_decides() {
    let fixture = ConfigFixture::new();
    fixture.write_user(r#"{"subagent_depth": 2}"#);
    fixture.write_project("{\n\"subagent_depth\": true}");
    let error = fixture.try_load().expect_err("a mistake");
    assert_eq!((error.file, error.line), (fixture.path("project/opencode.json"), Some(2)));
}

#[test]
fn built_in_agents_have_prompts_and_can_be_changed() {
    let fixture = ConfigFixture::new();
    fixture.write_user(
        r#"{ "default_agent": "docs", "agent": {
            "docs": { "model": "p/m/x", "variant": "high", "steps": 3, "top_k": 5, "prompt": "Write docs.",
                      "permission": { "bash": "deny" } },
            "plan": { "disable": true }, "build": { "temperature": 0.2, "color": "red" } },
            "mode": { "docs": { "description": "Docs." } }, "tools": { "webfetch": false } }"#,
    );
    let config = fixture.load();
    let names: Vec<&str> = config.agents().iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["docs", "build", "compaction", "explore", "general", "summary", "title"]);
    let docs = config.find_agent("docs").expect("an agent");
    assert_eq!(docs.mode, AgentMode::Primary);
    assert_eq!(docs.model.as_ref().map(ToString::to_string).as_deref(), Some("p/m/x"));
    assert_eq!((docs.steps, docs.options.get("top_k")), (Some(3), Some(&json!(5))));
    let last = docs.rules.last().expect("rules");
    assert_eq!((last.permission.as_str(), last.action.as_str()), ("bash", "deny"));
    let build = config.find_agent("build").expect("an agent");
    assert_eq!((build.temperature, build.color.as_deref()), (Some(0.2), Some("red")));
    let webfetch = build.rules.iter().find(|rule| rule.permission == "webfetch").expect("a rule");
    assert_eq!(webfetch.action.as_str(), "deny");
    for agent in config.agents() {
        assert!(agent.system_prompt().len() > 10, "{}", agent.name);
    }
}

#[test]
fn markdown_defines_agents_modes_and_commands() {
    let fixture = ConfigFixture::new();
    fixture.write("project/.opencode/agent/team/critic.md", "---\nmode: subagent\n---\nCriticise.");
    fixture.write("project/.opencode/modes/careful.md", "Be careful with {env:HOME}.");
    fixture.write(
        "home/.config/opencode/commands/go.md",
        "---\ndescription: Go\nagent: build\n---\nGo to $1 and $ARGUMENTS",
    );
    let config = fixture.load();
    let critic = config.find_agent("team/critic").expect("an agent");
    assert_eq!((critic.mode, critic.prompt.as_deref()), (AgentMode::Subagent, Some("Criticise.")));
    let careful = config.find_agent("careful").expect("an agent");
    assert_eq!(careful.mode, AgentMode::Primary);
    assert_eq!(careful.prompt.as_deref(), Some("Be careful with {env:HOME}."));
    let go = config.commands().iter().find(|command| command.name == "go").expect("a command");
    assert_eq!(go.argument_placeholders(), ["$1", "$ARGUMENTS"]);
    assert_eq!((go.agent.as_deref(), go.description.as_deref()), (Some("build"), Some("Go")));
}

#[test]
fn settings_of_tools_are_typed() {
    let fixture = ConfigFixture::new();
    fixture.write_user(
        r#"{ "shell": "/bin/zsh", "instructions": ["a.md"], "tool_output": { "max_lines": 10 },
          "mcp": { "local": { "type": "local", "command": ["x", "y"], "cwd": "sub", "environment": { "K": "v" } },
                   "far": { "type": "remote", "url": "https://h/mcp", "enabled": false, "timeout": 500 },
                   "gone": { "enabled": false } },
          "formatter": { "rustfmt": { "command": ["rustfmt", "$FILE"], "extensions": [".rs"] } },
          "hooks": { "after_tool": [{ "tool": "edit", "command": ["lint"], "timeout": 1000 }] },
          "skills": { "paths": ["skills"] }, "subagent_depth": 2,
          "experimental": { "continue_loop_on_deny": true, "primary_tools": ["task"] } }"#,
    );
    fixture.write_project(r#"{ "instructions": ["docs/*.md", "a.md"] }"#);
    let config = fixture.load();
    let settings = config.settings();
    assert_eq!(settings.shell.as_deref(), Some("/bin/zsh"));
    let instructions =
        [("a.md".to_owned(), None), ("docs/*.md".to_owned(), Some(fixture.path("project")))];
    assert_eq!(settings.instructions, instructions);
    assert_eq!(settings.tool_output, (10, 51_200));
    assert_eq!(settings.mcp.len(), 2);
    let McpTransport::Local { command, environment, directory } = &settings.mcp[0].transport else {
        panic!("a local server")
    };
    assert_eq!((command.len(), environment[0].1.expose()), (2, "v"));
    assert_eq!(directory.as_deref(), Some("sub"));
    assert!(!settings.mcp[1].is_enabled);
    assert_eq!(settings.formatters[0].extensions, [".rs"]);
    assert_eq!(settings.hooks[0].moment, HookTiming::AfterTool);
    assert!(settings.continues_after_refusal);
    assert_eq!((settings.subagent_depth, settings.primary_tools.len()), (2, 1));
    assert!(!format!("{settings:?}").contains("\"v\""), "secrets are not printed");
}
