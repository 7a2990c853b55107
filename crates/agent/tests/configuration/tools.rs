//! Tools: what the configuration adds to them.

use turnstone_agent::run::RunSettings;
use turnstone_agent::tool::Tool;

use crate::fixture::{SettingsFixture, names_of_tools};

fn description(case: &SettingsFixture, tool: &str) -> String {
    let tools = case.settings().tools(&case.directory());
    let found = tools.iter().find(|it| it.schema().name == tool).expect("the tool");
    found.schema().description
}

#[test]
fn all_tools_are_there_and_know_the_subagents() {
    let case = SettingsFixture::new();
    case.write(
        "project/.opencode/agent/reviewer.md",
        "---\ndescription: Reads diffs\nmode: subagent\n---\nx",
    );
    let names = names_of_tools(&case.settings(), &case.directory());
    let wanted = [
        "apply_patch",
        "bash",
        "edit",
        "glob",
        "grep",
        "question",
        "read",
        "skill",
        "task",
        "todowrite",
        "webfetch",
        "write",
    ];
    assert_eq!(names, wanted);
    let task = description(&case, "task");
    assert!(task.contains("- reviewer: Reads diffs") && task.contains("- explore: "), "{task}");
    assert!(!task.contains("- build"), "{task}");
}

#[test]
fn skills_come_from_the_user_and_the_project_and_stay_there() {
    let case = SettingsFixture::new();
    let skill = |about: &str| format!("---\nname: shared\ndescription: {about}\n---\nDo it.");
    case.write("home/.claude/skills/shared/SKILL.md", &skill("of the user"));
    case.write("project/.opencode/skills/shared/SKILL.md", &skill("of the project"));
    case.write("project/sub/.agents/skills/near/SKILL.md", "---\ndescription: near\n---\n");
    case.write("project/.claude/skills/broken/SKILL.md", "---\nname: [\n");
    case.write("home/secret/SKILL.md", "---\nname: stolen\n---\n");
    let (from, to) = (case.path("home/secret"), case.path("project/.agents"));
    fs_err::create_dir_all(&to).expect("made");
    std::os::unix::fs::symlink(from, to.join("skills")).expect("linked");
    let found = description(&case, "skill");
    assert!(found.contains("- near: near\n- shared: of the project"), "{found}");
    assert!(!found.contains("stolen") && !found.contains("of the user"), "{found}");
}

#[test]
fn a_hook_makes_a_call_opaque() {
    let case = SettingsFixture::new();
    case.write_user(r#"{"hooks":{"after_tool":[{"tool":"ed*","command":["true"]}]}}"#);
    let tools = case.settings().tools(&case.directory());
    let scope = turnstone_agent::tool::ToolScope {
        session: "ses_1".parse().expect("an id"),
        message: "msg_1".parse().expect("an id"),
        agent: "build".to_owned(),
        model: "a/b".to_owned(),
        directory: case.directory(),
        worktree: case.path("project"),
        data_directory: case.path("data"),
    };
    let input =
        serde_json::json!({"filePath": "a", "oldString": "a", "newString": "b", "content": ""});
    let paths = |name: &str| {
        let tool = tools.iter().find(|it| it.schema().name == name).expect("the tool");
        Tool::written_paths(tool.as_ref(), &scope, &input)
    };
    assert_eq!(paths("edit"), None);
    assert!(paths("write").is_some_and(|paths| paths.len() == 1));
}

#[test]
fn servers_of_a_project_start_only_once_it_is_trusted() {
    let case = SettingsFixture::new();
    let marker = case.path("started");
    let server = serde_json::json!({"mcp": {
        "theirs": {"type": "local", "command": ["touch", marker]},
        "off": {"type": "local", "command": ["touch", marker], "enabled": false},
    }});
    case.write("project/opencode.json", &server.to_string());
    let settings = case.settings();
    let count = names_of_tools(&settings, &case.directory()).len();
    let report = settings.report_mcp_servers(&case.directory(), std::time::Duration::ZERO);
    assert!(report.expect("reported").is_empty());
    assert!(!marker.exists(), "a repository is not trusted by being opened");
    assert_eq!(count, 12);
}
