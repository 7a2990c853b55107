//! Projects as people manage them: listed, relinked, removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Project, ProjectAlias, ProjectAliasKind};
use turnstone_core::permission::GatedOperation;
use turnstone_snapshot::{RemovalError, StoreId, StoreRegistry, remove_store};
use turnstone_store::{Context, Store};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::permissions::OperationGates;
use crate::projects::project_records::ProjectRecords;
use crate::projects::repository::Repositories;
use crate::projects::session_adoption::SessionAdoption;
use crate::projects::worktree::{UnsavedWork, WorktreeError, Worktrees};

/// A project in a list.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedProject {
    /// The project.
    pub project: Project,
    /// How many sessions it has, archived ones too.
    pub sessions: usize,
    /// False if its primary directory is gone: `project relink` tells where it is.
    pub exists: bool,
}

/// What a relink did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelinkReport {
    /// The project as it is now.
    pub project: Project,
    /// Where it was before, if it has moved.
    pub moved_from: Option<String>,
    /// Sessions that have another directory or project since.
    pub sessions: Vec<SessionId>,
    /// The project the directory belonged to before.
    pub taken_from: Option<ProjectId>,
}

/// What a removal would take away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectRemovalPlan {
    /// The project.
    pub project: ProjectId,
    /// Its sessions.
    pub sessions: Vec<SessionId>,
    /// The snapshot stores of its directories, and how many bytes they have.
    pub stores: Vec<(String, u64)>,
    /// The worktrees that Turnstone made for it, and what exists only there.
    pub worktrees: Vec<(PathBuf, UnsavedWork)>,
}

/// What a removal took away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProjectRemovalReport {
    /// What was planned.
    pub removal: ProjectRemovalPlan,
    /// Stores that stay because another process keeps them.
    pub kept: Vec<(String, String)>,
}

/// Projects, the directories that belong to them, and the sessions in them.
#[derive(Clone)]
pub struct Projects {
    pub(crate) store: Arc<Store>,
    pub(crate) id_generator: Arc<IdGenerator>,
    pub(crate) snapshots: Arc<SnapshotHandles>,
    pub(crate) records: ProjectRecords,
    pub(crate) repositories: Repositories,
    pub(crate) adoption: SessionAdoption,
    pub(crate) worktrees: Worktrees,
    pub(crate) gates: OperationGates,
    pub(crate) data: PathBuf,
}

impl Projects {
    /// Finds the git repository of a directory.
    #[must_use]
    pub fn repositories(&self) -> &Repositories {
        &self.repositories
    }

    /// The git worktrees of projects.
    #[must_use]
    pub fn worktrees(&self) -> &Worktrees {
        &self.worktrees
    }
}

impl Projects {
    /// The projects, oldest first.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn list(&self, ctx: &Context) -> Result<Vec<ListedProject>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let mut listed = Vec::new();
        for project in projects.into_iter().filter(|project| project.removed.is_none()) {
            listed.push(ListedProject {
                sessions: self.records.list_sessions(ctx, &project.id)?.len(),
                exists: Path::new(&project.worktree).is_dir(),
                project,
            });
        }
        Ok(listed)
    }

    /// Says that a directory is a project's: its new place if the old one is gone, else a further
    /// one. Sessions go with it, wherever they were listed before.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], or the directory is not there; [`EngineError::PermissionRefused`] or
    /// [`EngineError::PermissionPending`] at the gate. Then nothing has changed.
    pub fn relink(&self, ctx: &Context, id: &ProjectId, directory: &Path) -> Result<RelinkReport> {
        let project = self.records.get(ctx, id)?;
        let real = fs_err::canonicalize(directory)?;
        let (root, facts) = self.repositories.gather_directory_facts(&real)?;
        let here = root.to_string_lossy().into_owned();
        let places = facts
            .aliases()
            .into_iter()
            .filter(|alias| {
                matches!(alias.kind, ProjectAliasKind::Directory | ProjectAliasKind::CommonDir)
            })
            .collect::<Vec<ProjectAlias>>();
        let owner = self.find_other_owner(ctx, id, &places)?;
        let moved = [project.worktree.clone(), here.clone()];
        for concerned in std::iter::once(id).chain(&owner) {
            self.gates.require_in_project(ctx, concerned, GatedOperation::Worktree, &moved)?;
        }
        let taken_from = self.take_aliases(ctx, owner, &places)?;
        let gone = !Path::new(&project.worktree).is_dir() && !project.worktree.is_empty();
        let moved_from = gone.then(|| project.worktree.clone()).filter(|old| *old != here);
        let vcs = facts.common_dir.is_some().then(|| "git".to_owned());
        let old = moved_from.clone();
        self.records.modify(ctx, id, move |project| {
            project.vcs.clone_from(&vcs);
            for place in &places {
                if !project.aliases.contains(place) {
                    project.aliases.push(place.clone());
                }
            }
            project.sandboxes.retain(|sandbox| *sandbox != here);
            match old {
                Some(_) => project.worktree.clone_from(&here),
                None if project.worktree != here => project.sandboxes.push(here.clone()),
                None => {}
            }
        })?;
        let mut sessions = Vec::new();
        if let Some(from) = &taken_from {
            sessions.extend(self.records.move_sessions(ctx, from, id, &root, &root)?);
        }
        if let Some(old) = &moved_from {
            sessions.extend(self.records.move_sessions(ctx, id, id, Path::new(old), &root)?);
            // The store of the old directory learns of the new one (R12); a root that is not captured
            // has none.
            self.snapshots.close(std::iter::once(old));
            drop(self.snapshots.open(&root, ctx.now));
        }
        Ok(RelinkReport { project: self.records.get(ctx, id)?, moved_from, sessions, taken_from })
    }

    /// The other project that has one of these facts.
    fn find_other_owner(
        &self,
        ctx: &Context,
        id: &ProjectId,
        places: &[ProjectAlias],
    ) -> Result<Option<ProjectId>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let has = |project: &Project| {
            project.id != *id && places.iter().any(|place| project.aliases.contains(place))
        };
        Ok(projects.into_iter().find(has).map(|project| project.id))
    }

    /// Takes facts away from the project that has them; returns it.
    fn take_aliases(
        &self,
        ctx: &Context,
        owner: Option<ProjectId>,
        places: &[ProjectAlias],
    ) -> Result<Option<ProjectId>> {
        let Some(owner) = owner else { return Ok(None) };
        let places = places.to_vec();
        self.records.modify(ctx, &owner, move |project| {
            project.aliases.retain(|alias| !places.contains(alias));
            let lost = |one: &String| places.iter().any(|place| place.value == *one);
            project.sandboxes.retain(|sandbox| !lost(sandbox));
        })?;
        Ok(Some(owner))
    }

    /// Tells what removing a project would take away; changes nothing.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], or a fact could not be obtained.
    pub fn plan_removal(
        &self,
        ctx: &Context,
        id: &ProjectId,
    ) -> Result<ProjectRemovalPlan, WorktreeError> {
        let project = self.records.get(ctx, id)?;
        let sessions =
            self.records.list_sessions(ctx, id)?.into_iter().map(|session| session.id).collect();
        let mut worktrees = Vec::new();
        for made in &project.worktrees {
            let work = self.worktrees.find_unsaved_work(&project, made)?;
            worktrees.push((PathBuf::from(&made.directory), work));
        }
        let stores = self.list_project_stores(ctx, &project)?;
        let stores = stores.into_iter().map(|(id, bytes)| (id.to_string(), bytes)).collect();
        Ok(ProjectRemovalPlan { project: id.clone(), sessions, stores, worktrees })
    }

    /// The stores of the directories that are this project's and no other's.
    fn list_project_stores(&self, ctx: &Context, project: &Project) -> Result<Vec<(StoreId, u64)>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let others: Vec<&String> = projects
            .iter()
            .filter(|other| other.id != project.id && other.removed.is_none())
            .flat_map(|other| std::iter::once(&other.worktree).chain(&other.sandboxes))
            .collect();
        let own: Vec<&String> =
            std::iter::once(&project.worktree).chain(&project.sandboxes).collect();
        let listed = StoreRegistry::new(&self.data)
            .list_stores()
            .map_err(turnstone_snapshot::SnapshotError::from)?;
        let is_own = |path: &Path| {
            let is = |one: &&String| Path::new(one.as_str()) == path;
            own.iter().any(is) && !others.iter().any(is)
        };
        Ok(listed
            .into_iter()
            .filter(|store| store.root.as_ref().is_some_and(|root| is_own(&root.path)))
            .map(|store| (store.id, store.bytes))
            .collect())
    }

    /// Removes a project: its sessions, its snapshot stores, the worktrees Turnstone made for it.
    /// Never a directory of the user. Cut off half way, the same call finishes it.
    ///
    /// # Errors
    ///
    /// [`WorktreeError::UnsavedWork`] without `force` if a worktree holds work that exists nowhere
    /// else; then nothing has changed.
    pub fn remove(
        &self,
        ctx: &Context,
        id: &ProjectId,
        force: bool,
    ) -> Result<ProjectRemovalReport, WorktreeError> {
        let removal = self.plan_removal(ctx, id)?;
        if let Some((directory, work)) =
            removal.worktrees.iter().find(|(_, work)| !force && !work.is_empty())
        {
            return Err(WorktreeError::UnsavedWork {
                directory: directory.clone(),
                work: work.clone(),
            });
        }
        let ids: Vec<String> = removal.sessions.iter().map(ToString::to_string).collect();
        self.gates.require_in_project(ctx, id, GatedOperation::Delete, &ids)?;
        self.gates.check_own_denials(ctx, None, &removal.sessions)?;
        for (directory, _) in &removal.worktrees {
            self.worktrees.remove(ctx, id, directory, force)?;
        }
        for session in &removal.sessions {
            match self.store.delete_session(ctx, session) {
                // It went with the session that began it.
                Ok(_) | Err(turnstone_store::StoreError::NoSession(_)) => {}
                Err(error) => return Err(EngineError::from(error).into()),
            }
        }
        let project = self.records.get(ctx, id)?;
        self.snapshots.close(std::iter::once(&project.worktree).chain(&project.sandboxes));
        let mut kept = Vec::new();
        for (store, _) in &removal.stores {
            match remove_store(&self.data.join("store"), store) {
                Ok(_) => {}
                Err(RemovalError::Locked(who)) => kept.push((store.clone(), who)),
                Err(RemovalError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(std::io::Error::other(error).into()),
            }
        }
        let now = Number::from(ctx.now.0);
        self.records.modify(ctx, id, move |project| {
            project.removed = Some(now.clone());
            project.aliases.clear();
            project.sandboxes.clear();
            project.worktree.clear();
        })?;
        Ok(ProjectRemovalReport { removal, kept })
    }
}
