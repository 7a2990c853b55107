//! Tools that the rules deny: they do not start, whether or not their runner asked.

use std::path::{Path, PathBuf};

use turnstone_core::id::SessionId;
use turnstone_core::permission::{RuleAction, list_hidden_tools, permission_of_tool};
use turnstone_store::Context;

use super::path_names::PathOrigin;
use super::rules::{EffectiveRules, RuleScope};
use crate::error::{EngineError, Result};
use crate::permissions::Permissions;

impl Permissions {
    /// Refuses a tool that the rules deny altogether, or to which they deny a path that it writes. What the
    /// rules ask about, the runner has asked before.
    ///
    /// Only the runner knows what else a call is about (the commands of a shell line, say), so rules with
    /// other patterns count where it asks.
    ///
    /// # Errors
    ///
    /// [`EngineError::ToolDenied`]; or the rules could not be read, then the tool must not run.
    pub fn check_tool(
        &self,
        ctx: &Context,
        session: &SessionId,
        (tool, written): (&str, &[PathBuf]),
    ) -> Result<()> {
        self.check_paths(ctx, session, tool, ("edit", written))
    }

    /// Refuses to read a file that the rules deny, under any of its names.
    ///
    /// # Errors
    ///
    /// As [`Self::check_tool`].
    pub fn check_file_read(&self, ctx: &Context, session: &SessionId, path: &Path) -> Result<()> {
        self.check_paths(ctx, session, "read", ("read", &[path.to_owned()]))
    }

    fn check_paths(
        &self,
        ctx: &Context,
        session: &SessionId,
        tool: &str,
        (permission, paths): (&str, &[PathBuf]),
    ) -> Result<()> {
        let subject = RuleScope::Session { session, agent: None };
        let rules = self.rules.resolve(ctx, subject)?.with_real_prefixes()?;
        if !list_hidden_tools(&[tool], &rules.layers()).is_empty() {
            return refuse_denied(&rules, permission_of_tool(tool), &["*".to_owned()]);
        }
        if paths.is_empty() {
            return Ok(());
        }
        let origin = self.path_origin(ctx, session)?;
        for path in paths {
            let names: Vec<String> = origin.list_names(path)?.into_iter().collect();
            refuse_denied(&rules, permission, &names)?;
        }
        Ok(())
    }

    /// A pattern of a request in a session, and then the other names of the file it can mean: if one of them
    /// is denied, the request is.
    ///
    /// # Errors
    ///
    /// The database refused, or links on the way cannot be followed.
    pub fn list_names(
        &self,
        ctx: &Context,
        session: &SessionId,
        (permission, pattern): (&str, &str),
    ) -> Result<Vec<String>> {
        let asked = [pattern.to_owned()];
        Ok(self.path_origin(ctx, session)?.list_pattern_names(permission, &asked)?)
    }

    /// Where the paths of a session begin.
    pub(super) fn path_origin(&self, ctx: &Context, session: &SessionId) -> Result<PathOrigin> {
        let (directory, roots) = self.store.read(ctx, |r| {
            let own = r.sessions().get(session)?;
            let project = r.projects().find(&own.project)?;
            let roots: Vec<PathBuf> =
                project.iter().flat_map(|it| it.roots().map(Path::to_owned)).collect();
            Ok((PathBuf::from(own.directory), roots))
        })?;
        let own = roots.iter().filter(|root| directory.starts_with(root));
        let own = own.max_by_key(|root| root.components().count());
        let root = own.unwrap_or(&directory).clone();
        Ok(PathOrigin { directory, root, roots })
    }

    /// Refuses a command line that the rules deny, for a caller that is not a person.
    ///
    /// # Errors
    ///
    /// As [`Self::check_tool`].
    pub fn check_command(&self, ctx: &Context, subject: RuleScope<'_>, line: &str) -> Result<()> {
        refuse_denied(&self.rules.resolve(ctx, subject)?, "bash", &[line.to_owned()])
    }
}

fn refuse_denied(rules: &EffectiveRules, permission: &str, patterns: &[String]) -> Result<()> {
    for pattern in patterns {
        let found = rules.explain(permission, pattern);
        if let (RuleAction::Deny, Some(source)) = (found.action, found.source) {
            let (permission, pattern) = (permission.to_owned(), pattern.clone());
            return Err(EngineError::ToolDenied { permission, pattern, decided_by: source });
        }
    }
    Ok(())
}
