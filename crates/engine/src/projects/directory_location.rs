//! Locating: which stored project a directory belongs to, for commands that act on what is stored.
//!
//! Most directories are known by their path. Others may have moved: the file system still identifies them
//! (R31). What is not sure is only named.

use std::path::{Path, PathBuf};

use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, RecordedRoot};
use turnstone_core::project_match::{DirectoryFacts, ProjectCandidate, RootState, may_have_moved};
use turnstone_snapshot::{RootIdentity, SnapshotError, read_directory_identity};
use turnstone_store::Context;

use crate::error::{EngineError, Result};
use crate::projects::project::Projects;
use crate::projects::repository::facts_without_git;

/// Where a directory lies.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectoryLocation {
    /// The stored project that the directory belongs to.
    pub project: Option<Project>,
    /// The root of its checkout, the captured directory above it, or the directory itself.
    pub root: PathBuf,
    /// Where the directory was before, if its move was recorded now.
    pub moved_from: Option<String>,
    /// Projects that look alike or may have moved here; none of them was changed.
    pub similar: Vec<Project>,
}

/// The real path of a directory; as it was given if it is gone, which an undo may cause.
fn canonicalize_if_possible(directory: &Path) -> PathBuf {
    fs_err::canonicalize(directory).unwrap_or_else(|_| directory.to_owned())
}

/// True if nothing is at a path; false if that could not be found out.
pub(super) fn is_directory_gone(path: &str) -> bool {
    matches!(read_directory_identity(Path::new(path)), Ok(None))
}

/// Whether a recorded directory is still where it was.
pub(super) fn recorded_root_state(root: &RecordedRoot) -> RootState {
    let RecordedRoot { directory, identity } = root;
    match read_directory_identity(Path::new(directory)) {
        Ok(Some(found)) if identity.is_same_at_path(found) => RootState::InPlace,
        Ok(_) => RootState::Gone,
        Err(_) => RootState::Unknown,
    }
}

impl Projects {
    /// Finds the stored project of a directory. Nothing is stored for a directory that no stored project
    /// knows; one that has moved for sure is recorded, with its sessions.
    ///
    /// # Errors
    ///
    /// The database refused. A directory that cannot be examined, and a repository that must not be used, have
    /// only a project that knows their path.
    pub fn locate(&self, ctx: &Context, directory: &Path) -> Result<DirectoryLocation> {
        if let Some(known) = self.find_by_path(ctx, directory)? {
            return Ok(known);
        }
        let found = match self.find_or_derive(ctx, directory) {
            Err(EngineError::Repository(_) | EngineError::Git(_) | EngineError::Io(_)) => {
                let root = canonicalize_if_possible(directory);
                return Ok(DirectoryLocation {
                    project: None,
                    root,
                    moved_from: None,
                    similar: Vec::new(),
                });
            }
            found => found?,
        };
        let projects = self.list_stored(ctx)?;
        let by_id = |id: &ProjectId| projects.iter().find(|project| project.id == *id).cloned();
        Ok(DirectoryLocation {
            project: by_id(&found.project.id),
            root: found.root,
            moved_from: found.moved_from,
            similar: found.similar.iter().filter_map(by_id).collect(),
        })
    }

    fn list_stored(&self, ctx: &Context) -> Result<Vec<Project>> {
        let mut projects = self.store.read(ctx, |r| r.projects().list())?;
        projects.retain(|project| project.removed.is_none());
        Ok(projects)
    }

    /// Finds the project whose directory is the closest one above; nothing if there is none, or if a
    /// directory on the way may have moved.
    ///
    /// Outside of repositories, a directory that is not captured as a whole (the home directory, `/tmp`) has
    /// nothing below it. A repository that is not known belongs to no project around it.
    fn find_by_path(&self, ctx: &Context, directory: &Path) -> Result<Option<DirectoryLocation>> {
        let real = canonicalize_if_possible(directory);
        let projects = self.list_stored(ctx)?;
        let known = self.list_candidates(&projects)?;
        let repository = self.repositories.find(&real).ok().flatten();
        let checkout = repository.as_ref().map(|git| git.repository().worktree.as_path());
        for above in real.ancestors() {
            let is_usable =
                above == real || checkout.is_some() || !self.snapshots.policy().refuses(above);
            if is_usable {
                let facts = facts_without_git(above)?;
                let found = find_owner(&projects, &known, &facts);
                if is_unrelated_directory(&known, &facts, found) {
                    return Ok(None);
                }
                if let Some(project) = found {
                    return Ok(Some(DirectoryLocation {
                        project: Some(project.clone()),
                        root: above.to_owned(),
                        moved_from: None,
                        similar: Vec::new(),
                    }));
                }
            }
            if Some(above) == checkout {
                break;
            }
        }
        Ok(None)
    }

    /// The stored projects with the facts they are found by, in the same order. Directories that were stored
    /// before identities were recorded have that of their snapshot store. One that a command deleted, or
    /// that was restored from a backup, is recognised by its path alone: what is there succeeds it.
    pub(super) fn list_candidates(&self, projects: &[Project]) -> Result<Vec<ProjectCandidate>> {
        let registry = self.snapshots.registry();
        let recorded = |store: RootIdentity| RecordedRoot {
            identity: store.file_identity(),
            directory: store.path.to_string_lossy().into_owned(),
        };
        let stores = registry.list_roots().map_err(SnapshotError::from)?;
        let stores: Vec<RecordedRoot> = stores.into_iter().map(recorded).collect();
        let superseded = registry.list_superseded_roots().map_err(SnapshotError::from)?;
        let candidate = |project: &Project| {
            let mut roots = project.recorded_roots.clone();
            for store in &stores {
                let is_own = project.roots().any(|root| root == Path::new(&store.directory));
                if is_own && !roots.iter().any(|root| root.directory == store.directory) {
                    roots.push(store.clone());
                }
            }
            roots.retain(|root| !superseded.contains(&root.identity));
            ProjectCandidate { id: project.id.clone(), aliases: project.aliases.clone(), roots }
        };
        Ok(projects.iter().map(candidate).collect())
    }

    /// The closest directory at or above `real`, and below `root` if that is another one, that may have been
    /// a directory of a stored project elsewhere.
    pub(super) fn find_moved_root(
        &self,
        real: &Path,
        root: &Path,
        known: &[ProjectCandidate],
    ) -> Result<Option<(PathBuf, DirectoryFacts)>> {
        for above in real.ancestors() {
            if above == root && root != real {
                return Ok(None);
            }
            if above != real && self.snapshots.policy().refuses(above) {
                continue;
            }
            let facts = facts_without_git(above)?;
            if may_have_moved(known, &facts, &recorded_root_state) {
                return Ok(Some((above.to_owned(), facts)));
            }
        }
        Ok(None)
    }
}

/// The project that has this directory, and not another one at its path; of several, the one that recorded it as
/// it is now, else one that has it as its primary directory.
fn find_owner<'p>(
    projects: &'p [Project],
    known: &[ProjectCandidate],
    facts: &DirectoryFacts,
) -> Option<&'p Project> {
    let has = |project: &Project| project.roots().any(|root| root == Path::new(&facts.directory));
    let recorded = facts.recorded_root();
    let owners = projects
        .iter()
        .zip(known)
        .filter(|(project, candidate)| has(project) && !candidate.is_replaced_by(facts));
    owners.map(|(project, _)| project).max_by_key(|project| {
        let is_recorded = recorded.as_ref().is_some_and(|it| project.recorded_roots.contains(it));
        (is_recorded, project.worktree == facts.directory)
    })
}

/// True if a directory may be that of a project elsewhere: its path alone does not say whose it is.
fn is_unrelated_directory(
    known: &[ProjectCandidate],
    facts: &DirectoryFacts,
    owner: Option<&Project>,
) -> bool {
    let is_here = |owner: &Project| {
        let recorded = facts.recorded_root();
        recorded.is_none_or(|recorded| owner.recorded_roots.contains(&recorded))
    };
    !owner.is_some_and(is_here) && may_have_moved(known, facts, &recorded_root_state)
}
