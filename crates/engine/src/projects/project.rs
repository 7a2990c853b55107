//! Projects as people manage them: listed, relinked, removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Project, ProjectAlias, ProjectAliasKind, RecordedRoot};
use turnstone_core::permission::{GatedOperation, PermissionRule, RuleAction};
use turnstone_core::project_match::{DirectoryFacts, ProjectCandidate, RootState};
use turnstone_snapshot::{
    RemovalError, RootIdentity, SnapshotError, StoreId, StoreRegistry, remove_store,
};
use turnstone_store::{Context, Store};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::id_generator::IdGenerator;
use crate::permissions::OperationGates;
use crate::projects::directory_location::{is_directory_gone, recorded_root_state};
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
    /// False if its primary directory is gone, or another one has its path: `project relink` tells where it is.
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
    /// The database refused.
    pub fn list(&self, ctx: &Context) -> Result<Vec<ListedProject>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let known = self.list_candidates(&projects)?;
        let mut listed = Vec::new();
        let stored = projects.into_iter().zip(&known);
        for (project, candidate) in stored.filter(|(project, _)| project.removed.is_none()) {
            listed.push(ListedProject {
                sessions: self.records.list_sessions(ctx, &project.id)?.len(),
                exists: has_primary_directory(&project, candidate),
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
        let owner = self.find_other_owner(ctx, id, &places, &facts)?;
        let moved = [project.worktree.clone(), here.clone()];
        for concerned in std::iter::once(id).chain(owner.as_ref().map(|owner| &owner.id)) {
            self.gates.require_in_project(ctx, concerned, GatedOperation::Worktree, &moved)?;
        }
        let moved_from = has_moved(&project, &facts).then(|| project.worktree.clone());
        // The sessions first: if this is cut off, the same call finds the rest.
        let mut sessions = Vec::new();
        if let Some(from) = &owner {
            sessions.extend(self.records.move_sessions(ctx, &from.id, id, &root, &root)?);
        }
        if let Some(old) = &moved_from {
            sessions.extend(self.records.move_sessions(ctx, id, id, Path::new(old), &root)?);
        }
        let (recorded, denials) = (facts.recorded_root(), list_denials(owner.as_ref()));
        let taken_from = owner.map(|owner| owner.id);
        if let Some(owner) = &taken_from {
            self.release_directory(ctx, owner, &places, &root)?;
        }
        let common_dir = facts.common_dir.clone();
        let (old, vcs) = (moved_from.clone(), facts.common_dir.is_some().then(|| "git".to_owned()));
        self.records.modify(ctx, id, move |project| {
            project.vcs.clone_from(&vcs);
            add_missing(&mut project.aliases, &places);
            project
                .recorded_roots
                .retain(|it| it.directory != here && Some(&it.directory) != old.as_ref());
            project.recorded_roots.extend(recorded.clone());
            project.sandboxes.retain(|sandbox| *sandbox != here);
            confirm_clone(project, &here, common_dir.as_deref());
            match old {
                Some(_) => project.worktree.clone_from(&here),
                None if project.worktree != here => project.sandboxes.push(here.clone()),
                None => {}
            }
            if !denials.is_empty() {
                add_missing(project.permission.get_or_insert_default(), &denials);
            }
        })?;
        // The store of the old directory learns of the new one (R12); a root that is not captured has none.
        self.relink_stores(ctx, id, &root, moved_from.as_deref())?;
        if moved_from.is_some() {
            drop(self.snapshots.open(&root, ctx.now));
        }
        Ok(RelinkReport { project: self.records.get(ctx, id)?, moved_from, sessions, taken_from })
    }

    /// Links the stores of a project to its directory `root`: those that its sessions there were captured in
    /// and whose directory is not where it was. `old` is where it was, if that is known.
    pub(super) fn relink_stores(
        &self,
        ctx: &Context,
        id: &ProjectId,
        root: &Path,
        old: Option<&str>,
    ) -> Result<()> {
        let project = self.records.get(ctx, id)?;
        let registry = self.snapshots.registry();
        // A store of another directory of the project stays with that one.
        let is_other = |path: &Path| {
            path != root
                && old.is_none_or(|old| path != Path::new(old))
                && project.roots().any(|it| it == path)
        };
        let mut left = BTreeSet::new();
        for session in self.records.list_sessions(ctx, id)? {
            if !Path::new(&session.directory).starts_with(root) {
                continue;
            }
            let rows = self.store.read(ctx, |r| r.change_sets().list(&session.id))?;
            let stores = rows.into_iter().map(|row| row.set.root.store);
            for store in stores.collect::<BTreeSet<String>>() {
                let Ok(store) = store.parse::<StoreId>() else { continue };
                let found = registry.find_store_by_id(&store).map_err(SnapshotError::from)?;
                if found.is_some_and(|it| !it.is_root_in_place() && !is_other(&it.root)) {
                    left.insert(store);
                }
            }
        }
        let here = root.to_string_lossy().into_owned();
        self.snapshots.close(old.map(str::to_owned).iter().chain([&here]));
        Ok(registry.relink_stores(&left, root, ctx.now).map_err(SnapshotError::from)?)
    }

    /// The other project that has this directory, and not one that was at its path before.
    fn find_other_owner(
        &self,
        ctx: &Context,
        id: &ProjectId,
        places: &[ProjectAlias],
        facts: &DirectoryFacts,
    ) -> Result<Option<Project>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let known = self.list_candidates(&projects)?;
        let has = |(project, candidate): &(Project, ProjectCandidate)| {
            project.id != *id
                && !candidate.is_replaced_by(facts)
                && (places.iter().any(|place| project.aliases.contains(place))
                    || project.roots().any(|root| root == Path::new(&facts.directory)))
        };
        Ok(projects.into_iter().zip(known).find(has).map(|(project, _)| project))
    }

    /// Takes a directory away from a project. One that has nothing left is removed: two projects of one
    /// directory would hide each other's sessions.
    fn release_directory(
        &self,
        ctx: &Context,
        owner: &ProjectId,
        places: &[ProjectAlias],
        root: &Path,
    ) -> Result<()> {
        let (here, places) = (root.to_string_lossy().into_owned(), places.to_vec());
        let is_used = self.records.has_sessions(ctx, owner, None)?;
        let now = Number::from(ctx.now.0);
        self.records.modify(ctx, owner, move |project| {
            project.aliases.retain(|alias| !places.contains(alias));
            project.sandboxes.retain(|sandbox| *sandbox != here);
            project.recorded_roots.retain(|recorded| recorded.directory != here);
            if project.worktree != here {
                return;
            }
            if !project.sandboxes.is_empty() {
                project.worktree = project.sandboxes.remove(0);
            } else if !is_used && project.worktrees.is_empty() {
                project.aliases.clear();
                project.worktree.clear();
                project.removed = Some(now.clone());
            }
        })
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
        let others =
            projects.iter().filter(|other| other.id != project.id && other.removed.is_none());
        let listed = StoreRegistry::new(&self.data).list_stores().map_err(SnapshotError::from)?;
        let is_own = |root: &RootIdentity| {
            has_root(project, root) && !others.clone().any(|other| has_root(other, root))
        };
        Ok(listed
            .into_iter()
            .filter(|store| store.root.as_ref().is_some_and(is_own))
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
            project.recorded_roots.clear();
            project.sandboxes.clear();
            project.worktree.clear();
        })?;
        Ok(ProjectRemovalReport { removal, kept })
    }
}

/// A person says that a clone is the project's; all worktrees of its repository are.
fn confirm_clone(project: &mut Project, directory: &str, common_dir: Option<&str>) {
    project.joined_clones.retain(|clone| {
        let is_same = common_dir.is_some() && clone.common_dir.as_deref() == common_dir;
        clone.directory != directory && !is_same
    });
}

/// True if the primary directory of a project is not where it was, and may be the directory of `facts`.
fn has_moved(project: &Project, facts: &DirectoryFacts) -> bool {
    !project.worktree.is_empty()
        && project.worktree != facts.directory
        && (is_directory_gone(&project.worktree)
            || find_primary_root(project)
                .is_some_and(|primary| recorded_root_state(primary) == RootState::Gone))
}

/// True if the primary directory of a project is where it was.
fn has_primary_directory(project: &Project, candidate: &ProjectCandidate) -> bool {
    let primary = candidate.roots.iter().find(|root| root.directory == project.worktree);
    Path::new(&project.worktree).is_dir()
        && primary.is_none_or(|primary| recorded_root_state(primary) != RootState::Gone)
}

fn find_primary_root(project: &Project) -> Option<&RecordedRoot> {
    project.recorded_roots.iter().find(|root| root.directory == project.worktree)
}

/// True if a project has the directory of a store, and not another one at its path.
fn has_root(project: &Project, root: &RootIdentity) -> bool {
    let at = |recorded: &&RecordedRoot| Path::new(&recorded.directory) == root.path;
    let recorded = project.recorded_roots.iter().find(at);
    project.roots().any(|path| path == root.path)
        && recorded.is_none_or(|it| it.identity.is_same_at_path(root.file_identity()))
}

/// The stored rules of a project that deny something: they outlast a merge.
fn list_denials(project: Option<&Project>) -> Vec<PermissionRule> {
    let rules = project.and_then(|project| project.permission.as_ref());
    let denies = |rule: &&PermissionRule| rule.action == RuleAction::Deny;
    rules.into_iter().flatten().filter(denies).cloned().collect()
}

/// Adds what is not there yet.
fn add_missing<T: Clone + PartialEq>(list: &mut Vec<T>, more: &[T]) {
    for one in more {
        if !list.contains(one) {
            list.push(one.clone());
        }
    }
}
