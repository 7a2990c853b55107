//! Projects and the names by which they are found again.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::ExtraFields;
use crate::id::ProjectId;
use crate::permission::PermissionRule;

/// A code base: one repository or directory with its worktrees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Project {
    /// Names the project; minted once, never recomputed (R31).
    pub id: ProjectId,
    /// Its primary directory.
    pub worktree: String,
    /// `git`, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<String>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Icon and colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<Value>,
    /// Commands run at start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Value>,
    /// What tools may do in it: rules people stored with it (R38).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<PermissionRule>>,
    /// Imported rules; not in effect until the user trusts them.
    #[serde(rename = "importedPermission", default, skip_serializing_if = "Vec::is_empty")]
    pub imported_permission: Vec<PermissionRule>,
    /// Imported approvals; not in effect until the user trusts them.
    #[serde(rename = "importedApprovals", default, skip_serializing_if = "Vec::is_empty")]
    pub imported_approvals: Vec<PermissionRule>,
    /// Timestamps.
    pub time: ProjectTime,
    /// Further directories.
    #[serde(default)]
    pub sandboxes: Vec<String>,
    /// The facts by which the project is found again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<ProjectAlias>,
    /// Worktrees that Turnstone created; it removes no other directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<CreatedWorktree>,
    /// When it was removed; its id is never reused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

impl Project {
    /// Every directory of the project, the primary one first. The project of everything
    /// outside of repositories has the root of the file system as its primary directory, which is not listed.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        let made = self.worktrees.iter().map(|worktree| &worktree.directory);
        let places = self.aliases.iter().filter(|alias| alias.kind == ProjectAliasKind::Directory);
        std::iter::once(&self.worktree)
            .chain(&self.sandboxes)
            .chain(made)
            .chain(places.map(|alias| &alias.value))
            .map(Path::new)
            .filter(|root| root.is_absolute() && root.parent().is_some())
    }
}

/// A worktree that Turnstone created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedWorktree {
    /// Its name among those of the project.
    pub name: String,
    /// Where it is, as a real path.
    pub directory: String,
    /// The branch that was made for it, as `opencode/name`; none if it has a commit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// False until all its files are checked out.
    #[serde(default)]
    pub ready: bool,
}

/// Event for clients: a worktree was created, or its creation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeCreationEvent {
    /// The directory it is about.
    pub directory: String,
    /// The result.
    #[serde(flatten)]
    pub outcome: WorktreeOutcome,
}

/// Result of creating a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum WorktreeOutcome {
    /// All its files are checked out.
    Ready {
        /// Its name.
        name: String,
        /// Its branch, where it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
    },
    /// It could not be created.
    Failed {
        /// Why.
        message: String,
    },
}

/// Timestamps of a project.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectTime {
    /// When it was first seen.
    pub created: Number,
    /// When it was last changed.
    pub updated: Number,
    /// When its instructions were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized: Option<Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: ExtraFields,
}

/// One fact by which a project may be found again; it only names candidates (R31).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProjectAlias {
    /// What kind of fact.
    pub kind: ProjectAliasKind,
    /// The fact.
    pub value: String,
}

/// The kinds of facts a project is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProjectAliasKind {
    /// The first commit; never that of a shallow clone.
    RootCommit,
    /// The remote called origin, as `host/path`.
    Origin,
    /// The git directory shared by all worktrees.
    CommonDir,
    /// A directory of the project.
    Directory,
}

impl ProjectAliasKind {
    /// The stored form.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RootCommit => "root-commit",
            Self::Origin => "origin",
            Self::CommonDir => "common-dir",
            Self::Directory => "directory",
        }
    }
}
