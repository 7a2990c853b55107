//! Standing rules: those that are built in and configured, for the directory a session works in.
//!
//! The user's come with the settings of the engine; those of a project are read from its own files
//! each time they are needed, because they may have changed.

use std::path::{Component, Path, PathBuf};

use turnstone_core::id::SessionId;
use turnstone_core::model::Project;
use turnstone_core::permission::{
    BuiltinAgent, PermissionRule, RuleConfigError, RuleDirectories, agent_rules, default_rules,
    parse_rule_file,
};
use turnstone_snapshot::read_bounded_file;
use turnstone_store::{Context, ReadTx};

use super::rules::{BaseRules, EffectiveRules};
use crate::error::{EngineError, Result};
use crate::permissions::PermissionRules;
use crate::turns::newest_prompt::find_newest_prompt;

/// Where a project keeps its rules, the weakest first: OpenCode's files, then our own.
const RULE_FILES: [&str; 5] = [
    "opencode.jsonc",
    "opencode.json",
    ".opencode/opencode.jsonc",
    ".opencode/opencode.json",
    "turnstone.json",
];

/// The largest configuration file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The rules an engine is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSettings {
    /// The built-in defaults.
    pub builtin: Vec<PermissionRule>,
    /// The user's configuration.
    pub user: Vec<PermissionRule>,
    /// Other configuration files of the user, the weakest first, all weaker than `user`.
    pub user_files: Vec<PathBuf>,
    /// What `~` stands for in the files of a project.
    pub home: String,
}

impl Default for RuleSettings {
    fn default() -> Self {
        let builtin = default_rules(&RuleDirectories::default());
        Self { builtin, user: Vec::new(), user_files: Vec::new(), home: "~".to_owned() }
    }
}

impl PermissionRules {
    /// Every rule that counts for a session at this moment, configuration included.
    ///
    /// # Errors
    ///
    /// [`EngineError::UnreadableRules`] if a file of the project cannot be understood: it may hold a denial.
    pub fn effective(&self, ctx: &Context, session: &SessionId) -> Result<EffectiveRules> {
        let base = self.base(ctx, session)?;
        self.effective_over(ctx, session, &base)
    }

    /// The rules for a session that are not in the ledger.
    ///
    /// # Errors
    ///
    /// As [`Self::effective`].
    pub fn base(&self, ctx: &Context, session: &SessionId) -> Result<BaseRules> {
        let (directory, top, agent) = self.store.read(ctx, |r| {
            let own = r.sessions().get(session)?;
            let roots =
                r.projects().find(&own.project)?.map(|it| root_names(&it)).unwrap_or_default();
            Ok((PathBuf::from(&own.directory), roots, find_agent(r, session)?))
        })?;
        let mut base = self.base_in(&directory, &top)?;
        base.agent = agent_rules(agent, &RuleDirectories::default());
        Ok(base)
    }

    /// The rules for a directory; see `RuleSettings::read_base_rules_in`.
    ///
    /// # Errors
    ///
    /// As [`Self::effective`].
    pub fn base_in(&self, directory: &Path, roots: &[String]) -> Result<BaseRules> {
        self.settings.read_base_rules_in(directory, roots)
    }
}

impl RuleSettings {
    /// The rules for a directory; those of its project are looked for in it and above it, up to the
    /// closest of `roots`. For a directory outside of all of them, those of the first root count: where a
    /// session claims to work does not decide which files speak for its project.
    ///
    /// # Errors
    ///
    /// A rule file cannot be read or is not valid.
    pub(crate) fn read_base_rules_in(
        &self,
        directory: &Path,
        roots: &[String],
    ) -> Result<BaseRules> {
        let folders = rule_folders(directory, roots);
        let mut project = Vec::new();
        for name in RULE_FILES {
            for folder in &folders {
                project.extend(read_rule_file(&folder.join(name), &self.home)?);
            }
        }
        let mut user = Vec::new();
        for path in &self.user_files {
            user.extend(read_rule_file(path, &self.home)?);
        }
        user.extend(self.user.iter().cloned());
        Ok(BaseRules { builtin: self.builtin.clone(), agent: Vec::new(), user, project })
    }
}

/// The directories of a project, as [`RuleSettings::read_base_rules_in`] takes them.
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
            // Relative to what, nothing says.
            (None, None) => return Vec::new(),
        };
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(top)).collect();
    folders.reverse();
    folders
}

/// The agent that answers in a session.
fn find_agent(reader: &ReadTx<'_>, session: &SessionId) -> turnstone_store::Result<BuiltinAgent> {
    let agent = match find_newest_prompt(reader, session)? {
        Some(prompt) => Some(prompt.agent),
        None => reader.sessions().get(session)?.agent,
    };
    Ok(agent.as_deref().and_then(BuiltinAgent::parse).unwrap_or(BuiltinAgent::Build))
}

/// The rules of one file; none if it is not there.
///
/// The repository decides what is at this path, so it may be a pipe, a device, or a link to a file that
/// the project has no business with: the error names the path and never quotes the content.
fn read_rule_file(path: &Path, home: &str) -> Result<Vec<PermissionRule>> {
    let unreadable =
        |reason: String| EngineError::UnreadableRules { path: path.to_owned(), reason };
    let bytes = match read_bounded_file(path, MAX_FILE_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not text".to_owned()))?;
    parse_rule_file(&text, home).map_err(|error| unreadable(describe_without_content(&error)))
}

fn describe_without_content(error: &RuleConfigError) -> String {
    match error {
        // Syntax errors name a line and a column.
        RuleConfigError::NotJson { .. } => error.to_string(),
        RuleConfigError::WrongShape { .. } => {
            "`permission` must be an action or a table of actions".to_owned()
        }
        RuleConfigError::UnknownAction { .. } => {
            "an action in `permission` is not allow, deny or ask".to_owned()
        }
    }
}
