//! Instruction files: which are read, and from where never.

use turnstone_agent::run::RunSettings;

use crate::fixture::SettingsFixture;

fn instructions(case: &SettingsFixture) -> Vec<(String, String)> {
    let root = case.path("");
    let root = root.to_string_lossy().trim_end_matches('/').to_owned();
    let found = case.settings().instructions(&case.directory(), &case.path("project"));
    let inner = |path: String| path.strip_prefix(&format!("{root}/")).unwrap_or(&path).to_owned();
    found.into_iter().map(|(path, text)| (inner(path), text)).collect()
}

fn sources(case: &SettingsFixture) -> Vec<String> {
    instructions(case).into_iter().map(|(source, _)| source).collect()
}

#[test]
fn the_first_name_counts_at_every_level() {
    let case = SettingsFixture::new();
    case.write("home/.claude/CLAUDE.md", "user");
    case.write("project/AGENTS.md", "root");
    case.write("project/sub/AGENTS.md", "sub");
    case.write("project/CLAUDE.md", "other");
    case.write("project/docs/style.md", "style");
    case.write("project/opencode.json", r#"{"instructions":["docs/*.md","AGENTS.md"]}"#);
    let wanted = [
        "home/.claude/CLAUDE.md",
        "project/AGENTS.md",
        "project/sub/AGENTS.md",
        "project/docs/style.md",
    ];
    assert_eq!(sources(&case), wanted);
    case.write("home/.config/opencode/AGENTS.md", "ours");
    assert_eq!(sources(&case)[0], "home/.config/opencode/AGENTS.md");
}

#[test]
fn a_project_cannot_read_elsewhere() {
    let case = SettingsFixture::new();
    case.write("home/secret.md", "secret");
    let secret = case.path("home/secret.md");
    std::os::unix::fs::symlink(&secret, case.path("project/AGENTS.md")).expect("linked");
    let entries = serde_json::json!({"instructions": [secret, "../home/secret.md", "~/secret.md"]});
    case.write("project/opencode.json", &entries.to_string());
    let found = instructions(&case);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.contains("leads out of the project"), "{found:?}");

    let entries = serde_json::json!({"instructions": ["~/secret.md"]});
    case.write_user(&entries.to_string());
    assert_eq!(instructions(&case)[1].1, "secret", "the user may");
}
