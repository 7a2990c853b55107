//! Configured rules: built in, of an agent, and from the files of the user and of the project.
//!
//! The user's come with the settings of the engine; those of a project are read from its own files
//! each time they are needed, because they may have changed.

use std::path::{Component, Path, PathBuf};

use turnstone_core::front_matter::split_front_matter;
use turnstone_core::model::Project;
use turnstone_core::permission::{
    AgentTable, BuiltinAgent, PermissionFile, PermissionRule, RuleAction, RuleConfigError,
    RuleDirectories, RuleSource, agent_rules, default_rules, parse_agent_rules,
};
use turnstone_snapshot::read_bounded_file;

use crate::error::{EngineError, Result};

/// Where a project keeps its rules, the weakest first: OpenCode's files, then our own.
const RULE_FILES: [&str; 5] = [
    "opencode.jsonc",
    "opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/opencode.json",
    "turnstone.json",
];

/// Folders of a configuration folder with one Markdown file per agent, the stronger one last.
const AGENT_FOLDERS: [&str; 2] = ["agent", "agents"];

/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The longest name of an agent, in bytes and in parts between slashes, that is looked for in files.
const MAX_AGENT_NAME: (usize, usize) = (255, 5);

/// The rules an engine is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// The built-in defaults.
    pub builtin: Vec<PermissionRule>,
    /// The user's configuration.
    pub user: Vec<PermissionRule>,
    /// Other configuration files of the user, the weakest first, all weaker than `user`; relative paths
    /// begin at the directory that is judged.
    pub user_files: Vec<PathBuf>,
    /// The text of another such file, stronger than they are.
    pub user_text: Option<String>,
    /// Folders of the user whose `agent` and `agents` hold one Markdown file per agent, the weakest first.
    pub user_agent_folders: Vec<PathBuf>,
    /// What `~` stands for in the files of a project.
    pub home: String,
}

impl Default for RuleSettings {
    fn default() -> Self {
        Self {
            builtin: default_rules(&RuleDirectories::default()),
            user: Vec::new(),
            user_files: Vec::new(),
            user_text: None,
            user_agent_folders: Vec::new(),
            home: "~".to_owned(),
        }
    }
}

/// The agent whose rules count.
#[derive(Clone, Copy, Debug)]
pub(super) enum RulesAgent<'a> {
    /// No agent: an operation on a whole project.
    None,
    /// The agent that is configured as the default one.
    Default,
    /// The agent of this name.
    Named(&'a str),
}

/// Configuration in the order in which it is read, the weakest first.
struct ConfigLayer {
    files: Vec<(PathBuf, PermissionFile)>,
    agent_folders: Vec<PathBuf>,
}

impl RuleSettings {
    /// The rules for a directory, source by source. Those of its project are looked for in it and above it,
    /// up to the closest of `roots`. For a directory outside of all of them, those of the first root count:
    /// where a session claims to work does not decide which files speak for its project.
    ///
    /// # Errors
    ///
    /// A rule file cannot be read or is not valid.
    pub(super) fn read_rules(
        &self,
        (directory, roots): (&Path, &[String]),
        agent: RulesAgent<'_>,
    ) -> Result<Vec<(RuleSource, Vec<PermissionRule>)>> {
        let folders = rule_folders(directory, roots);
        let user = self.read_user_layer(directory)?;
        let project = read_project_layer(&folders)?;
        let mut own = user.shared_rules(&self.home)?;
        own.extend(self.user.iter().cloned());
        let mut sources = vec![
            (RuleSource::Builtin, self.builtin.clone()),
            (RuleSource::User, own),
            (RuleSource::Project, project.shared_rules(&self.home)?),
        ];
        let name = match agent {
            RulesAgent::None => return Ok(sources),
            RulesAgent::Named(name) => name,
            RulesAgent::Default => {
                let named = project.default_agent().or_else(|| user.default_agent());
                named.unwrap_or(BuiltinAgent::Build.as_str())
            }
        };
        let (by_user, by_project) =
            (user.agent(name, &self.home)?, project.agent(name, &self.home)?);
        let is_off = by_project.as_ref().and_then(|it| it.is_disabled);
        let is_off = is_off.or_else(|| by_user.as_ref()?.is_disabled) == Some(true);
        let builtin = BuiltinAgent::parse(name).filter(|_| !is_off);
        let is_known = !is_off && (builtin.is_some() || by_user.is_some() || by_project.is_some());
        if let Some(builtin) = builtin {
            let rules = agent_rules(builtin, &RuleDirectories::default());
            sources.push((RuleSource::Agent, rules));
        }
        if !is_known {
            let ask = PermissionRule::new("*", "*", RuleAction::Ask);
            sources.push((RuleSource::UnknownAgent, vec![ask]));
        }
        let rules = |table: Option<AgentTable>| table.map(|it| it.rules).unwrap_or_default();
        sources.push((RuleSource::UserForAgent, rules(by_user)));
        sources.push((RuleSource::ProjectForAgent, rules(by_project)));
        Ok(sources)
    }

    fn read_user_layer(&self, directory: &Path) -> Result<ConfigLayer> {
        let paths = self.user_files.iter().map(|path| directory.join(path));
        let mut files = read_rule_files(paths)?;
        if let Some(text) = &self.user_text {
            let path = PathBuf::from("OPENCODE_CONFIG_CONTENT");
            let file =
                PermissionFile::parse(text).map_err(|error| unreadable_rules(&path, &error))?;
            files.push((path, file));
        }
        Ok(ConfigLayer { files, agent_folders: self.user_agent_folders.clone() })
    }
}

fn read_project_layer(folders: &[&Path]) -> Result<ConfigLayer> {
    let paths = RULE_FILES.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    Ok(ConfigLayer {
        files: read_rule_files(paths)?,
        agent_folders: folders.iter().map(|folder| folder.join(".opencode")).collect(),
    })
}

impl ConfigLayer {
    fn shared_rules(&self, home: &str) -> Result<Vec<PermissionRule>> {
        let mut rules = Vec::new();
        for (path, file) in &self.files {
            rules.extend(file.shared_rules(home).map_err(|error| unreadable_rules(path, &error))?);
        }
        Ok(rules)
    }

    fn default_agent(&self) -> Option<&str> {
        self.files.iter().rev().find_map(|(_, file)| file.default_agent())
    }

    /// The rules of the files for one agent: the tables of that name, then the Markdown file of that name.
    fn agent(&self, name: &str, home: &str) -> Result<Option<AgentTable>> {
        let mut found: Option<AgentTable> = None;
        let mut add = |table: AgentTable| {
            let all = found.get_or_insert_default();
            all.is_disabled = table.is_disabled.or(all.is_disabled);
            all.rules.extend(table.rules);
        };
        for (path, file) in &self.files {
            let table = file.agent(name, home).map_err(|error| unreadable_rules(path, &error))?;
            table.into_iter().for_each(&mut add);
        }
        let folders = self.agent_folders.iter().filter(|_| is_file_name(name));
        for folder in folders.flat_map(|it| AGENT_FOLDERS.map(|inner| it.join(inner))) {
            read_markdown_agent(&folder.join(format!("{name}.md")), home)?
                .into_iter()
                .for_each(&mut add);
        }
        Ok(found)
    }
}

/// True if a file may have the name of this agent: a session may name any.
fn is_file_name(agent: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let (bytes, parts) = MAX_AGENT_NAME;
    agent.len() <= bytes && agent.split('/').all(is_plain) && agent.split('/').count() <= parts
}

/// The agent of a Markdown file; none if there is no such file.
fn read_markdown_agent(path: &Path, home: &str) -> Result<Option<AgentTable>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let (fields, _) = split_front_matter(&text)
        .map_err(|reason| EngineError::UnreadableRules { path: path.to_owned(), reason })?;
    let is_disabled = fields.get("disable").map(|it| it.as_bool() == Some(true));
    let rules = parse_agent_rules(&fields, home).map_err(|error| unreadable_rules(path, &error))?;
    Ok(Some(AgentTable { is_disabled, rules }))
}

/// The directories of a project, as [`RuleSettings::read_rules`] takes them.
pub(super) fn root_names(project: &Project) -> Vec<String> {
    project.roots().map(|root| root.to_string_lossy().into_owned()).collect()
}

/// The folders whose files hold the rules for a directory, the outermost first.
fn rule_folders<'p>(directory: &'p Path, roots: &'p [String]) -> Vec<&'p Path> {
    let is_root = |path: &&Path| path.is_absolute() && path.parent().is_some();
    let roots = || roots.iter().map(Path::new).filter(is_root);
    // With `..` in it, a path that begins with a root may lead out of it.
    let leads_up = directory.components().any(|part| part == Component::ParentDir);
    let above = roots().filter(|root| !leads_up && directory.starts_with(root));
    let (directory, top) =
        match (above.max_by_key(|root| root.components().count()), roots().next()) {
            (Some(top), _) => (directory, top),
            (None, Some(primary)) => (primary, primary),
            (None, None) if directory.is_absolute() => (directory, directory),
            // It is not known relative to what.
            (None, None) => return Vec::new(),
        };
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(top)).collect();
    folders.reverse();
    folders
}

/// The files that exist, in this order.
fn read_rule_files(paths: impl Iterator<Item = PathBuf>) -> Result<Vec<(PathBuf, PermissionFile)>> {
    let mut files = Vec::new();
    for path in paths {
        let Some(text) = read_text(&path)? else { continue };
        let file = PermissionFile::parse(&text).map_err(|error| unreadable_rules(&path, &error))?;
        files.push((path, file));
    }
    Ok(files)
}

/// The text of one file; none if it is not there.
///
/// The repository decides what is at this path, so it may be a pipe, a device, or a link to a file that
/// the project has no business with: the error names the path and never quotes the content.
fn read_text(path: &Path) -> Result<Option<String>> {
    let unreadable =
        |reason: String| EngineError::UnreadableRules { path: path.to_owned(), reason };
    match read_bounded_file(path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(unreadable("it is not text".to_owned())),
        },
        Ok(None) => Ok(None),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// The error about a file that was read and not understood; it quotes nothing of it.
fn unreadable_rules(path: &Path, error: &RuleConfigError) -> EngineError {
    let reason = match error {
        // Syntax errors name a line and a column.
        RuleConfigError::NotJson { .. } => error.to_string(),
        RuleConfigError::WrongShape { .. } => {
            "`permission` must be an action or a table of actions".to_owned()
        }
        RuleConfigError::NotATable { .. } => "an agent must be a table".to_owned(),
        RuleConfigError::UnknownAction { .. } => {
            "an action in `permission` is not allow, deny or ask".to_owned()
        }
    };
    EngineError::UnreadableRules { path: path.to_owned(), reason }
}
