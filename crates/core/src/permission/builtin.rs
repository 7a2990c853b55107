//! The rules that hold before anybody configured anything.

use super::{PermissionRule, RuleAction};

/// The directories the built-in rules speak of; absolute, without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleDirectories {
    /// Where long tool outputs are put.
    pub tool_output: String,
    /// The program's own directory for temporary files.
    pub tmp: String,
    /// Where skills live.
    pub skills: Vec<String>,
    /// Directories given as references.
    pub references: Vec<String>,
    /// Where plans are kept, in each form a tool may name it: absolute, and from the worktree.
    pub plans: Vec<String>,
}

/// The agents that exist before anybody configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinAgent {
    /// Works on the code.
    Build,
    /// Plans and changes nothing but plans.
    Plan,
    /// Works on a task of another agent.
    General,
    /// Looks around and changes nothing.
    Explore,
    /// Writes the summary of a compaction.
    Compaction,
    /// Writes titles.
    Title,
    /// Writes summaries.
    Summary,
}

impl BuiltinAgent {
    /// Every built-in agent.
    pub const ALL: [Self; 7] = [
        Self::Build,
        Self::Plan,
        Self::General,
        Self::Explore,
        Self::Compaction,
        Self::Title,
        Self::Summary,
    ];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Plan => "plan",
            Self::General => "general",
            Self::Explore => "explore",
            Self::Compaction => "compaction",
            Self::Title => "title",
            Self::Summary => "summary",
        }
    }

    /// The agent of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|agent| agent.as_str() == name)
    }

    /// True for agents only other agents call.
    #[must_use]
    pub const fn is_subagent(self) -> bool {
        matches!(self, Self::General | Self::Explore)
    }

    /// True for agents people never choose.
    #[must_use]
    pub const fn is_hidden(self) -> bool {
        matches!(self, Self::Compaction | Self::Title | Self::Summary)
    }
}

/// The rules every agent begins with.
///
/// Everything is allowed, except: a loop and a directory outside the worktree are asked about,
/// files with secrets are asked about before they are read, and questions and changes of plan mode
/// are left to the agents that have them.
#[must_use]
pub fn default_rules(directories: &RuleDirectories) -> Vec<PermissionRule> {
    let own = [&directories.tool_output, &directories.tmp];
    let free = own.into_iter().chain(&directories.skills).chain(&directories.references);
    let mut rules = vec![
        PermissionRule::new("*", "*", RuleAction::Allow),
        PermissionRule::new("doom_loop", "*", RuleAction::Ask),
        PermissionRule::new("external_directory", "*", RuleAction::Ask),
    ];
    rules.extend(free.filter(|dir| !dir.is_empty()).map(|dir| allow_external_directory(dir)));
    rules.extend([
        PermissionRule::new("question", "*", RuleAction::Deny),
        PermissionRule::new("plan_enter", "*", RuleAction::Deny),
        PermissionRule::new("plan_exit", "*", RuleAction::Deny),
        PermissionRule::new("read", "*", RuleAction::Allow),
        PermissionRule::new("read", "*.env", RuleAction::Ask),
        PermissionRule::new("read", "*.env.*", RuleAction::Ask),
        PermissionRule::new("read", "*.env.example", RuleAction::Allow),
    ]);
    rules
}

/// The rules an agent adds to the defaults.
#[must_use]
pub fn agent_rules(agent: BuiltinAgent, directories: &RuleDirectories) -> Vec<PermissionRule> {
    let allow = |permission: &str| PermissionRule::new(permission, "*", RuleAction::Allow);
    let deny = |permission: &str| PermissionRule::new(permission, "*", RuleAction::Deny);
    match agent {
        BuiltinAgent::Build => vec![allow("question"), allow("plan_enter")],
        BuiltinAgent::Plan => plan_rules(directories),
        BuiltinAgent::General => vec![deny("todowrite")],
        BuiltinAgent::Explore => {
            let looks = ["grep", "glob", "list", "bash", "webfetch", "websearch", "read"];
            [deny("*")].into_iter().chain(looks.map(allow)).collect()
        }
        BuiltinAgent::Compaction | BuiltinAgent::Title | BuiltinAgent::Summary => vec![deny("*")],
    }
}

/// Plans may be written, nothing else; a plans directory outside the worktree may be entered.
fn plan_rules(directories: &RuleDirectories) -> Vec<PermissionRule> {
    let mut rules = vec![
        PermissionRule::new("question", "*", RuleAction::Allow),
        PermissionRule::new("plan_exit", "*", RuleAction::Allow),
        PermissionRule::new("task", "general", RuleAction::Deny),
    ];
    let plans = || directories.plans.iter().filter(|dir| !dir.is_empty());
    rules.extend(
        plans().filter(|dir| dir.starts_with('/')).map(|dir| allow_external_directory(dir)),
    );
    rules.push(PermissionRule::new("edit", "*", RuleAction::Deny));
    rules.push(PermissionRule::new("edit", ".opencode/plans/*.md", RuleAction::Allow));
    rules.extend(
        plans().map(|dir| PermissionRule::new("edit", &format!("{dir}/*.md"), RuleAction::Allow)),
    );
    rules
}

/// The rule that comes after an agent's configuration: long outputs can always be read again.
#[must_use]
pub fn tool_output_rules(directories: &RuleDirectories) -> Vec<PermissionRule> {
    let dir = Some(&directories.tool_output).filter(|dir| !dir.is_empty());
    dir.map(|dir| allow_external_directory(dir)).into_iter().collect()
}

fn allow_external_directory(directory: &str) -> PermissionRule {
    PermissionRule::new("external_directory", &format!("{directory}/*"), RuleAction::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::{RuleLayer, RuleSource, explain_decision, list_hidden_tools};

    fn directories() -> RuleDirectories {
        RuleDirectories {
            tool_output: "/data/tool-output".into(),
            tmp: "/tmp/turnstone".into(),
            skills: vec!["/home/user/.skills/a".into()],
            references: vec!["/srv/reference".into()],
            plans: vec!["/data/plans".into(), "../../data/plans".into()],
        }
    }

    fn layers<'a>(base: &'a [PermissionRule], own: &'a [PermissionRule]) -> [RuleLayer<'a>; 2] {
        [
            RuleLayer { source: RuleSource::Builtin, rules: base },
            RuleLayer { source: RuleSource::Agent, rules: own },
        ]
    }

    fn verdict(agent: BuiltinAgent, permission: &str, pattern: &str) -> RuleAction {
        let (base, own) = (default_rules(&directories()), agent_rules(agent, &directories()));
        explain_decision(permission, pattern, &layers(&base, &own)).action
    }

    #[test]
    fn defaults_allow_all_but_named_permissions() {
        let build = BuiltinAgent::Build;
        assert_eq!(verdict(build, "bash", "rm -rf /"), RuleAction::Allow);
        assert_eq!(verdict(build, "doom_loop", "bash"), RuleAction::Ask);
        assert_eq!(verdict(build, "external_directory", "/etc/*"), RuleAction::Ask);
        assert_eq!(verdict(build, "question", "*"), RuleAction::Allow);
        assert_eq!(verdict(build, "plan_exit", "*"), RuleAction::Deny);
    }

    #[test]
    fn own_directories_are_allowed() {
        for inside in [
            "/data/tool-output/tool_1",
            "/tmp/turnstone/x",
            "/home/user/.skills/a/run.sh",
            "/srv/reference/book",
        ] {
            assert_eq!(
                verdict(BuiltinAgent::Build, "external_directory", inside),
                RuleAction::Allow
            );
        }
    }

    #[test]
    fn reading_env_files_asks() {
        for (file, expected) in [
            ("src/main.rs", RuleAction::Allow),
            (".env", RuleAction::Ask),
            ("deploy/prod.env", RuleAction::Ask),
            (".env.local", RuleAction::Ask),
            (".env.example", RuleAction::Allow),
            ("environment.rs", RuleAction::Allow),
        ] {
            assert_eq!(verdict(BuiltinAgent::Build, "read", file), expected, "{file}");
        }
    }

    #[test]
    fn plan_agent_edits_plans_only() {
        for (file, expected) in [
            ("src/main.rs", RuleAction::Deny),
            (".opencode/plans/1-a.md", RuleAction::Allow),
            (".opencode/plans/1-a.sh", RuleAction::Deny),
            ("/data/plans/2-b.md", RuleAction::Allow),
            ("../../data/plans/2-b.md", RuleAction::Allow),
        ] {
            assert_eq!(verdict(BuiltinAgent::Plan, "edit", file), expected, "{file}");
        }
        assert_eq!(verdict(BuiltinAgent::Plan, "task", "general"), RuleAction::Deny);
        assert_eq!(verdict(BuiltinAgent::Plan, "task", "explore"), RuleAction::Allow);
        assert_eq!(
            verdict(BuiltinAgent::Plan, "external_directory", "/data/plans/x"),
            RuleAction::Allow
        );
    }

    #[test]
    fn explore_reads_and_hidden_agents_have_no_tools() {
        let shown = |agent| {
            let tools = ["read", "grep", "edit", "write", "task", "todowrite"];
            let (base, own) = (default_rules(&directories()), agent_rules(agent, &directories()));
            let hidden = list_hidden_tools(&tools, &layers(&base, &own));
            tools.into_iter().filter(|tool| !hidden.contains(tool)).collect::<Vec<_>>()
        };
        assert_eq!(shown(BuiltinAgent::Explore), ["read", "grep"]);
        assert_eq!(shown(BuiltinAgent::General), ["read", "grep", "edit", "write", "task"]);
        for agent in BuiltinAgent::ALL.into_iter().filter(|agent| agent.is_hidden()) {
            assert_eq!(shown(agent), Vec::<&str>::new());
        }
        // Plan keeps its editing tools: the last rule about edit is not one for everything.
        assert!(shown(BuiltinAgent::Plan).contains(&"edit"));
    }

    #[test]
    fn tool_outputs_stay_readable() {
        let configured = [PermissionRule::new("external_directory", "*", RuleAction::Deny)];
        let after = tool_output_rules(&directories());
        let layers = layers(&configured, &after);
        let read = explain_decision("external_directory", "/data/tool-output/x", &layers);
        assert_eq!(read.action, RuleAction::Allow);
        assert_eq!(tool_output_rules(&RuleDirectories::default()), []);
    }
}
