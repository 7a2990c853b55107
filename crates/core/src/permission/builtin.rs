//! The rules that hold before anybody configured anything.

use super::{Action, Rule};

/// The directories the built-in rules speak of; absolute, without a slash at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directories {
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
pub fn defaults(directories: &Directories) -> Vec<Rule> {
    let own = [&directories.tool_output, &directories.tmp];
    let free = own.into_iter().chain(&directories.skills).chain(&directories.references);
    let mut rules = vec![
        Rule::new("*", "*", Action::Allow),
        Rule::new("doom_loop", "*", Action::Ask),
        Rule::new("external_directory", "*", Action::Ask),
    ];
    rules.extend(free.filter(|dir| !dir.is_empty()).map(|dir| outside(dir)));
    rules.extend([
        Rule::new("question", "*", Action::Deny),
        Rule::new("plan_enter", "*", Action::Deny),
        Rule::new("plan_exit", "*", Action::Deny),
        Rule::new("read", "*", Action::Allow),
        Rule::new("read", "*.env", Action::Ask),
        Rule::new("read", "*.env.*", Action::Ask),
        Rule::new("read", "*.env.example", Action::Allow),
    ]);
    rules
}

/// The rules an agent adds to the defaults.
#[must_use]
pub fn agent_rules(agent: BuiltinAgent, directories: &Directories) -> Vec<Rule> {
    let allow = |permission: &str| Rule::new(permission, "*", Action::Allow);
    let deny = |permission: &str| Rule::new(permission, "*", Action::Deny);
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
fn plan_rules(directories: &Directories) -> Vec<Rule> {
    let mut rules = vec![
        Rule::new("question", "*", Action::Allow),
        Rule::new("plan_exit", "*", Action::Allow),
        Rule::new("task", "general", Action::Deny),
    ];
    let plans = || directories.plans.iter().filter(|dir| !dir.is_empty());
    rules.extend(plans().filter(|dir| dir.starts_with('/')).map(|dir| outside(dir)));
    rules.push(Rule::new("edit", "*", Action::Deny));
    rules.push(Rule::new("edit", ".opencode/plans/*.md", Action::Allow));
    rules.extend(plans().map(|dir| Rule::new("edit", &format!("{dir}/*.md"), Action::Allow)));
    rules
}

/// The rule that comes after an agent's configuration: long outputs can always be read again.
#[must_use]
pub fn tool_output_rules(directories: &Directories) -> Vec<Rule> {
    let dir = Some(&directories.tool_output).filter(|dir| !dir.is_empty());
    dir.map(|dir| outside(dir)).into_iter().collect()
}

fn outside(directory: &str) -> Rule {
    Rule::new("external_directory", &format!("{directory}/*"), Action::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::{Layer, Source, disabled, explain};

    fn directories() -> Directories {
        Directories {
            tool_output: "/data/tool-output".into(),
            tmp: "/tmp/turnstone".into(),
            skills: vec!["/home/user/.skills/a".into()],
            references: vec!["/srv/reference".into()],
            plans: vec!["/data/plans".into(), "../../data/plans".into()],
        }
    }

    fn layers<'a>(base: &'a [Rule], own: &'a [Rule]) -> [Layer<'a>; 2] {
        [
            Layer { source: Source::Builtin, rules: base },
            Layer { source: Source::Agent, rules: own },
        ]
    }

    fn verdict(agent: BuiltinAgent, permission: &str, pattern: &str) -> Action {
        let (base, own) = (defaults(&directories()), agent_rules(agent, &directories()));
        explain(permission, pattern, &layers(&base, &own)).action
    }

    #[test]
    fn section_9_3_everything_is_allowed_but_what_is_named() {
        let build = BuiltinAgent::Build;
        assert_eq!(verdict(build, "bash", "rm -rf /"), Action::Allow);
        assert_eq!(verdict(build, "doom_loop", "bash"), Action::Ask);
        assert_eq!(verdict(build, "external_directory", "/etc/*"), Action::Ask);
        assert_eq!(verdict(build, "question", "*"), Action::Allow);
        assert_eq!(verdict(build, "plan_exit", "*"), Action::Deny);
    }

    #[test]
    fn section_9_3_own_directories_are_not_asked_about() {
        for inside in [
            "/data/tool-output/tool_1",
            "/tmp/turnstone/x",
            "/home/user/.skills/a/run.sh",
            "/srv/reference/book",
        ] {
            assert_eq!(verdict(BuiltinAgent::Build, "external_directory", inside), Action::Allow);
        }
    }

    #[test]
    fn section_9_3_files_with_secrets_are_asked_about() {
        for (file, expected) in [
            ("src/main.rs", Action::Allow),
            (".env", Action::Ask),
            ("deploy/prod.env", Action::Ask),
            (".env.local", Action::Ask),
            (".env.example", Action::Allow),
            ("environment.rs", Action::Allow),
        ] {
            assert_eq!(verdict(BuiltinAgent::Build, "read", file), expected, "{file}");
        }
    }

    #[test]
    fn section_9_3_plan_edits_plans_only() {
        for (file, expected) in [
            ("src/main.rs", Action::Deny),
            (".opencode/plans/1-a.md", Action::Allow),
            (".opencode/plans/1-a.sh", Action::Deny),
            ("/data/plans/2-b.md", Action::Allow),
            ("../../data/plans/2-b.md", Action::Allow),
        ] {
            assert_eq!(verdict(BuiltinAgent::Plan, "edit", file), expected, "{file}");
        }
        assert_eq!(verdict(BuiltinAgent::Plan, "task", "general"), Action::Deny);
        assert_eq!(verdict(BuiltinAgent::Plan, "task", "explore"), Action::Allow);
        assert_eq!(
            verdict(BuiltinAgent::Plan, "external_directory", "/data/plans/x"),
            Action::Allow
        );
    }

    #[test]
    fn section_9_3_explore_looks_and_hidden_agents_do_nothing() {
        let shown = |agent| {
            let tools = ["read", "grep", "edit", "write", "task", "todowrite"];
            let (base, own) = (defaults(&directories()), agent_rules(agent, &directories()));
            let hidden = disabled(&tools, &layers(&base, &own));
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
    fn section_9_1_a_tool_output_can_be_read_whatever_was_configured() {
        let configured = [Rule::new("external_directory", "*", Action::Deny)];
        let after = tool_output_rules(&directories());
        let layers = layers(&configured, &after);
        let read = explain("external_directory", "/data/tool-output/x", &layers);
        assert_eq!(read.action, Action::Allow);
        assert_eq!(tool_output_rules(&Directories::default()), []);
    }
}
