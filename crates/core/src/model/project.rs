//! Projects and the names by which they are found again.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::ExtraFields;
use crate::id::ProjectId;
use crate::permission::{PermissionRule, RuleAction};

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
    /// Its directories as they were when they were last opened: recognised after a move.
    #[serde(rename = "recordedRoots", default, skip_serializing_if = "Vec::is_empty")]
    pub recorded_roots: Vec<RecordedRoot>,
    /// Clones that joined the project by their root commit and origin. What the project allows does not
    /// hold in them until a person confirms them: anybody can write both facts into a repository.
    #[serde(rename = "joinedClones", default, skip_serializing_if = "Vec::is_empty")]
    pub joined_clones: Vec<JoinedClone>,
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

    /// The unconfirmed clone that a directory lies in, if no closer directory of the project holds it.
    #[must_use]
    pub fn find_joined_clone(&self, directory: &Path) -> Option<&JoinedClone> {
        let length = |root: &Path| root.components().count();
        let clones = self.joined_clones.iter();
        let clones = clones.filter(|clone| directory.starts_with(&clone.directory));
        let found = clones.max_by_key(|clone| length(Path::new(&clone.directory)))?;
        let own = length(Path::new(&found.directory));
        let is_closer = |root: &Path| directory.starts_with(root) && length(root) > own;
        (!self.roots().any(is_closer)).then_some(found)
    }

    /// The rules among `rules` that hold in a directory: all, or in an unconfirmed clone those that allow
    /// nothing, and what a person allowed there.
    #[must_use]
    pub fn rules_in(&self, directory: &Path, rules: Vec<PermissionRule>) -> Vec<PermissionRule> {
        let Some(clone) = self.find_joined_clone(directory) else { return rules };
        let holds = |rule: &PermissionRule| {
            rule.action != RuleAction::Allow || clone.allowed.contains(rule)
        };
        rules.into_iter().filter(holds).collect()
    }
}

/// A clone of a project that no person has confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedClone {
    /// Its root.
    pub directory: String,
    /// Its git directory: worktrees that share it are the same clone.
    #[serde(rename = "commonDir", default, skip_serializing_if = "Option::is_none")]
    pub common_dir: Option<String>,
    /// What a person allowed in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<PermissionRule>,
}

/// A worktree that Turnstone created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedWorktree {
    /// Its name among those of the project.
    pub name: String,
    /// Where it is, as a real path.
    pub directory: String,
    /// The branch that was made for it, as `turnstone/name`; none if it has a commit only.
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

/// What the file system identifies a directory by, wherever it is moved on the same file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// When it was created, in nanoseconds; none if the file system does not record it. Inode numbers are
    /// used again, so without it the same number proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<i64>,
}

impl FileIdentity {
    /// True if a directory that is now at the path of this one is this one.
    ///
    /// The number of a device may change when it is mounted again; inode and birth time then decide.
    #[must_use]
    pub fn is_same_at_path(self, found: Self) -> bool {
        let is_same = (self.inode, self.born) == (found.inode, found.born);
        is_same && (self.born.is_some() || self.device == found.device)
    }
}

/// A directory of a project and its identity when the project was last opened there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRoot {
    /// Its real path.
    pub directory: String,
    /// Its identity.
    pub identity: FileIdentity,
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
