//! Configured rules: built in, of an agent, and from the files of the user and of the project.
//!
//! The user's come with the settings of the engine; those of a project are read from its own files
//! each time they are needed, because they may have changed.

use std::path::{Component, Path, PathBuf};

use turnstone_config::TrustedFiles;
use turnstone_core::front_matter::split_front_matter;
use turnstone_core::model::Project;
use turnstone_core::permission::{
    AgentTable, BuiltinAgent, PermissionFile, PermissionRule, RuleAction, RuleConfigError,
    RuleDirectories, RuleSource, agent_rules, default_rules, parse_agent_rules, tightening_rules,
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
    /// The data directory whose record names the project files that the user trusts; without one, none is trusted.
    pub trust_record: Option<PathBuf>,
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
            trust_record: None,
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
    files: Vec<PermissionRuleFile>,
    agent_folders: Vec<PathBuf>,
    trust: LayerTrust,
}

/// One configuration file with rules.
struct PermissionRuleFile {
    path: PathBuf,
    content: PermissionFile,
    is_trusted: bool,
}

/// Which files of a layer may loosen what weaker rules say.
enum LayerTrust {
    /// All of them: they are the user's.
    All,
    /// Those of a project that the user trusts.
    Recorded(TrustedFiles),
}

impl LayerTrust {
    fn covers(&self, path: &Path, text: &str) -> bool {
        match self {
            Self::All => true,
            Self::Recorded(files) => files.is_trusted(path, text),
        }
    }
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
        let project = read_project_layer(&folders, self.read_trust()?)?;
        let mut own = user.shared_rules(&self.home, &[])?;
        own.extend(self.user.iter().cloned());
        let mut sources =
            vec![(RuleSource::Builtin, self.builtin.clone()), (RuleSource::User, own)];
        let name = match agent {
            RulesAgent::None => {
                let shared = project.shared_rules(&self.home, &all_rules(&sources))?;
                sources.push((RuleSource::Project, shared));
                return Ok(sources);
            }
            RulesAgent::Named(name) => name,
            RulesAgent::Default => {
                let named = project.default_agent().or_else(|| user.default_agent());
                named.unwrap_or(BuiltinAgent::Build.as_str())
            }
        };
        let by_user = user.agent(name, &self.home, &[])?;
        if let Some(builtin) = BuiltinAgent::parse(name) {
            let rules = agent_rules(builtin, &RuleDirectories::default());
            sources.push((RuleSource::Agent, rules));
        }
        let own = by_user.as_ref().map(|table| table.rules.clone());
        sources.push((RuleSource::UserForAgent, own.unwrap_or_default()));
        // What the project says is compared with everything of the user.
        let weaker = all_rules(&sources);
        sources.push((RuleSource::Project, project.shared_rules(&self.home, &weaker)?));
        let by_project = project.agent(name, &self.home, &weaker)?;
        let is_off = by_project.as_ref().and_then(|it| it.is_disabled);
        let is_off = is_off.or_else(|| by_user.as_ref()?.is_disabled) == Some(true);
        let builtin = BuiltinAgent::parse(name).filter(|_| !is_off);
        let is_known = !is_off && (builtin.is_some() || by_user.is_some() || by_project.is_some());
        if builtin.is_none() {
            sources.retain(|(source, _)| *source != RuleSource::Agent);
        }
        if !is_known {
            let ask = PermissionRule::new("*", "*", RuleAction::Ask);
            sources.push((RuleSource::UnknownAgent, vec![ask]));
        }
        let by_project = by_project.map(|table| table.rules);
        sources.push((RuleSource::ProjectForAgent, by_project.unwrap_or_default()));
        Ok(sources)
    }

    fn read_trust(&self) -> Result<LayerTrust> {
        let Some(data) = &self.trust_record else {
            return Ok(LayerTrust::Recorded(TrustedFiles::default()));
        };
        let files = TrustedFiles::read(data).map_err(|error| EngineError::UnreadableRules {
            path: error.path.clone(),
            reason: error.reason,
        })?;
        Ok(LayerTrust::Recorded(files))
    }

    fn read_user_layer(&self, directory: &Path) -> Result<ConfigLayer> {
        let paths = self.user_files.iter().map(|path| directory.join(path));
        let mut files = read_rule_files(paths, &LayerTrust::All)?;
        if let Some(text) = &self.user_text {
            let path = PathBuf::from("OPENCODE_CONFIG_CONTENT");
            let content =
                PermissionFile::parse(text).map_err(|error| unreadable_rules(&path, &error))?;
            files.push(PermissionRuleFile { path, content, is_trusted: true });
        }
        let agent_folders = self.user_agent_folders.clone();
        Ok(ConfigLayer { files, agent_folders, trust: LayerTrust::All })
    }
}

/// The rules of all sources, in their order.
fn all_rules(sources: &[(RuleSource, Vec<PermissionRule>)]) -> Vec<PermissionRule> {
    sources.iter().flat_map(|(_, rules)| rules.iter().cloned()).collect()
}

fn read_project_layer(folders: &[&Path], trust: LayerTrust) -> Result<ConfigLayer> {
    let paths = RULE_FILES.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    Ok(ConfigLayer {
        files: read_rule_files(paths, &trust)?,
        agent_folders: folders.iter().map(|folder| folder.join(".opencode")).collect(),
        trust,
    })
}

/// The rules of a file that are in force: one that is not trusted can only tighten `weaker`.
fn rules_in_force(
    rules: Vec<PermissionRule>,
    is_trusted: bool,
    weaker: &[PermissionRule],
) -> Vec<PermissionRule> {
    if is_trusted { rules } else { tightening_rules(&rules, weaker) }
}

impl ConfigLayer {
    /// The rules for all agents that are in force over the `weaker` ones.
    fn shared_rules(&self, home: &str, weaker: &[PermissionRule]) -> Result<Vec<PermissionRule>> {
        let mut rules = Vec::new();
        for file in &self.files {
            let found = file.content.shared_rules(home);
            let found = found.map_err(|error| unreadable_rules(&file.path, &error))?;
            rules.extend(rules_in_force(found, file.is_trusted, weaker));
        }
        Ok(rules)
    }

    fn default_agent(&self) -> Option<&str> {
        self.files.iter().rev().find_map(|file| file.content.default_agent())
    }

    /// The rules of the files for one agent: the tables of that name, then the Markdown file of that name.
    fn agent(
        &self,
        name: &str,
        home: &str,
        weaker: &[PermissionRule],
    ) -> Result<Option<AgentTable>> {
        let mut found: Option<AgentTable> = None;
        let mut add = |table: AgentTable, is_trusted: bool| {
            let all = found.get_or_insert_default();
            // Only a trusted file switches an agent on again.
            let is_disabled = table.is_disabled.filter(|is_off| *is_off || is_trusted);
            all.is_disabled = is_disabled.or(all.is_disabled);
            all.rules.extend(rules_in_force(table.rules, is_trusted, weaker));
        };
        for file in &self.files {
            let table = file.content.agent(name, home);
            let table = table.map_err(|error| unreadable_rules(&file.path, &error))?;
            table.into_iter().for_each(|table| add(table, file.is_trusted));
        }
        let folders = self.agent_folders.iter().filter(|_| is_file_name(name));
        for folder in folders.flat_map(|it| AGENT_FOLDERS.map(|inner| it.join(inner))) {
            let path = folder.join(format!("{name}.md"));
            let Some(text) = read_text(&path)? else { continue };
            add(parse_markdown_agent(&path, &text, home)?, self.trust.covers(&path, &text));
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

/// The agent of a Markdown file.
fn parse_markdown_agent(path: &Path, text: &str, home: &str) -> Result<AgentTable> {
    let (fields, _) = split_front_matter(text)
        .map_err(|reason| EngineError::UnreadableRules { path: path.to_owned(), reason })?;
    let is_disabled = fields.get("disable").map(|it| it.as_bool() == Some(true));
    let rules = parse_agent_rules(&fields, home).map_err(|error| unreadable_rules(path, &error))?;
    Ok(AgentTable { is_disabled, rules })
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
fn read_rule_files(
    paths: impl Iterator<Item = PathBuf>,
    trust: &LayerTrust,
) -> Result<Vec<PermissionRuleFile>> {
    let mut files = Vec::new();
    for path in paths {
        let Some(text) = read_text(&path)? else { continue };
        let content =
            PermissionFile::parse(&text).map_err(|error| unreadable_rules(&path, &error))?;
        let is_trusted = trust.covers(&path, &text);
        files.push(PermissionRuleFile { path, content, is_trusted });
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
