//! A path that a call names: where it leads, and how rules and people call it.

use std::path::{Component, Path, PathBuf};

use serde_json::json;
use turnstone_core::model::{ExtraFields, PermissionAsk};
use turnstone_engine::resolve_path;

use super::reply::into_fields;
use super::{ToolError, ToolHost, ToolScope};

/// The permission to leave the directory of the session and its worktree.
const EXTERNAL_DIRECTORY: &str = "external_directory";

/// A path that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessedPath {
    /// The absolute path, with `..` taken as text.
    pub(crate) absolute: PathBuf,
    /// The path with all links followed; names that do not exist are taken as they are.
    pub(crate) real: PathBuf,
    /// The path as rules and titles write it: from the root of the worktree, or absolute outside.
    pub(crate) relative: String,
    /// True if the path, with and without its links, is in the directory or the worktree.
    pub(crate) is_inside: bool,
}

impl AccessedPath {
    /// Finds out where a path of a call leads.
    pub(crate) fn resolve(scope: &ToolScope, text: &str) -> Result<Self, ToolError> {
        Self::resolve_from(scope, &scope.directory, text)
    }

    /// Finds out where a path leads that starts at `base`.
    pub(crate) fn resolve_from(
        scope: &ToolScope,
        base: &Path,
        text: &str,
    ) -> Result<Self, ToolError> {
        if text.is_empty() || text.contains('\0') {
            return Err(ToolError::failed(format!("{text:?} is not a path.")));
        }
        let joined = base.join(text);
        let failed = |error| ToolError::failed(format!("Cannot follow the path {text}: {error}"));
        let real = resolve_path(&joined).map_err(failed)?;
        let absolute = remove_dots(&joined);
        let roots = roots_of(scope);
        let mut is_real_inside = false;
        for root in &roots {
            is_real_inside |= real.starts_with(resolve_path(root).map_err(failed)?);
        }
        let root = pattern_root(scope);
        let below = absolute.strip_prefix(root).ok().filter(|path| !path.as_os_str().is_empty());
        Ok(Self {
            relative: below.unwrap_or(&absolute).to_string_lossy().into_owned(),
            is_inside: is_real_inside && roots.iter().any(|root| absolute.starts_with(root)),
            absolute,
            real,
        })
    }

    /// Asks whether a call may read outside of the worktree; does not ask inside of it.
    ///
    /// # Errors
    ///
    /// As [`ToolHost::ask`].
    pub(crate) fn ask_if_outside(&self, host: &dyn ToolHost) -> Result<(), ToolError> {
        if self.is_inside {
            return Ok(());
        }
        let is_directory = self.real.is_dir();
        let folder = match is_directory {
            true => self.absolute.as_path(),
            false => self.absolute.parent().unwrap_or(Path::new("/")),
        };
        let mut patterns = vec![directory_pattern(folder)];
        // A link inside the worktree leads out of it: what is asked is where it leads.
        let real = if is_directory { self.real.as_path() } else { parent_of(&self.real) };
        let target = directory_pattern(real);
        if !patterns.contains(&target) {
            patterns.push(target);
        }
        let metadata = [
            ("filepath".to_owned(), json!(self.absolute.to_string_lossy())),
            ("parentDir".to_owned(), json!(folder.to_string_lossy())),
        ];
        host.ask(PermissionAsk {
            permission: EXTERNAL_DIRECTORY.to_owned(),
            always: patterns.clone(),
            patterns,
            metadata: metadata.into_iter().collect(),
            tool: None,
            extra: ExtraFields::new(),
        })
    }

    /// Refuses to write outside of the worktree: nothing there could be undone.
    pub(crate) fn require_inside(&self) -> Result<(), ToolError> {
        if self.is_inside {
            return Ok(());
        }
        Err(ToolError::failed(format!(
            "{} is outside of the project, and files outside of it are not written: the change \
             could not be undone. Choose a path in the project.",
            self.absolute.display()
        )))
    }
}

/// Asks for a permission that a rule about a tool decides.
pub(crate) fn permission_ask(
    permission: &str,
    patterns: Vec<String>,
    always: Vec<String>,
    metadata: serde_json::Value,
) -> PermissionAsk {
    let metadata = into_fields(metadata);
    let extra = ExtraFields::new();
    PermissionAsk {
        permission: permission.to_owned(),
        patterns,
        metadata,
        always,
        tool: None,
        extra,
    }
}

/// Returns the directories in which a call reads and writes without leaving the project.
fn roots_of(scope: &ToolScope) -> Vec<&Path> {
    let mut roots = vec![scope.directory.as_path()];
    if scope.worktree != Path::new("/") {
        roots.push(&scope.worktree);
    }
    roots
}

/// Returns where the patterns of rules begin.
fn pattern_root(scope: &ToolScope) -> &Path {
    let is_in_worktree =
        scope.worktree != Path::new("/") && scope.directory.starts_with(&scope.worktree);
    if is_in_worktree { &scope.worktree } else { &scope.directory }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

fn directory_pattern(directory: &Path) -> String {
    directory.join("*").to_string_lossy().into_owned()
}

/// Returns a path with every `..` taken as text.
fn remove_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    clean
}
