//! Projects as people look after them: listed, told where they went, removed.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Project, ProjectAlias, ProjectAliasKind, Session};
use turnstone_core::permission::GatedOperation;
use turnstone_snapshot::{RemovalError, StoreId, StoreRegistry, remove_store};
use turnstone_store::{Context, SessionFilter};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::projects::worktree::{UnsavedWork, WorktreeError};

/// Sessions read at once.
const PAGE: usize = 200;

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

impl Engine {
    /// A project by its id.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], for one that was removed too.
    pub fn get_project(&self, ctx: &Context, id: &ProjectId) -> Result<Project> {
        let found = self.store.read(ctx, |r| r.projects().find(id))?;
        let found = found.filter(|project| project.removed.is_none());
        found.ok_or_else(|| EngineError::NoProject(id.clone()))
    }

    /// The projects, oldest first.
    ///
    /// # Errors
    ///
    /// The ledger refused.
    pub fn list_projects(&self, ctx: &Context) -> Result<Vec<ListedProject>> {
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let mut listed = Vec::new();
        for project in projects.into_iter().filter(|project| project.removed.is_none()) {
            listed.push(ListedProject {
                sessions: self.list_project_sessions(ctx, &project.id)?.len(),
                exists: Path::new(&project.worktree).is_dir(),
                project,
            });
        }
        Ok(listed)
    }

    /// Changes a project from what it is at that moment.
    pub(crate) fn modify_project(
        &self,
        ctx: &Context,
        id: &ProjectId,
        change: impl Fn(&mut Project) + Send + 'static,
    ) -> Result<()> {
        let (id, now) = (id.clone(), Number::from(ctx.now.0));
        let change = move |project: &mut Project| {
            change(project);
            project.time.updated = now.clone();
        };
        self.store.write(ctx, move |tx| tx.projects().update(&id, &change)).wait()?;
        Ok(())
    }

    /// Every session of a project, archived ones too.
    pub(crate) fn list_project_sessions(
        &self,
        ctx: &Context,
        id: &ProjectId,
    ) -> Result<Vec<Session>> {
        let filter =
            SessionFilter { project: Some(id.clone()), archived: true, ..SessionFilter::default() };
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let at: Option<String> = cursor.take();
            let page = self.store.read(ctx, |r| r.sessions().list(&filter, at.as_deref(), PAGE))?;
            found.extend(page.items.into_iter().map(|row| row.session));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// Says that a directory is a project's: its new place if the old one is gone, else a further
    /// one. Sessions go with it, wherever they were listed before.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], or the directory is not there; [`EngineError::PermissionRefused`] or
    /// [`EngineError::PermissionPending`] at the gate. Then nothing has changed.
    pub fn relink_project(
        &self,
        ctx: &Context,
        id: &ProjectId,
        directory: &Path,
    ) -> Result<RelinkReport> {
        let project = self.get_project(ctx, id)?;
        let real = fs_err::canonicalize(directory)?;
        let (root, facts) = self.gather_directory_facts(&real)?;
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
            self.require_permission_in_project(ctx, concerned, GatedOperation::Worktree, &moved)?;
        }
        let taken_from = self.take_aliases(ctx, owner, &places)?;
        let gone = !Path::new(&project.worktree).is_dir() && !project.worktree.is_empty();
        let moved_from = gone.then(|| project.worktree.clone()).filter(|old| *old != here);
        let vcs = facts.common_dir.is_some().then(|| "git".to_owned());
        let old = moved_from.clone();
        self.modify_project(ctx, id, move |project| {
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
            sessions.extend(self.move_sessions(ctx, from, id, &root, &root)?);
        }
        if let Some(old) = &moved_from {
            sessions.extend(self.move_sessions(ctx, id, id, Path::new(old), &root)?);
            // The store of the old place is told of the new one (R12); a root that is not captured
            // has none.
            self.close_snapshot_handles(std::iter::once(old));
            drop(self.open_snapshot_handle(&root, ctx.now));
        }
        Ok(RelinkReport { project: self.get_project(ctx, id)?, moved_from, sessions, taken_from })
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
        self.modify_project(ctx, &owner, move |project| {
            project.aliases.retain(|alias| !places.contains(alias));
            let lost = |one: &String| places.iter().any(|place| place.value == *one);
            project.sandboxes.retain(|sandbox| !lost(sandbox));
        })?;
        Ok(Some(owner))
    }

    /// Moves the sessions of one project below `old` to another project and to `new`.
    pub(crate) fn move_sessions(
        &self,
        ctx: &Context,
        from: &ProjectId,
        to: &ProjectId,
        old: &Path,
        new: &Path,
    ) -> Result<Vec<SessionId>> {
        let mut moved = Vec::new();
        for session in self.list_project_sessions(ctx, from)? {
            let Ok(below) = Path::new(&session.directory).strip_prefix(old) else { continue };
            let directory = match below.as_os_str().is_empty() {
                true => new.to_owned(),
                false => new.join(below),
            };
            let directory = directory.to_string_lossy().into_owned();
            let (id, to) = (session.id.clone(), to.clone());
            if session.directory == directory && session.project == to {
                continue;
            }
            let change = move |tx: &turnstone_store::Tx<'_>| {
                tx.sessions().update(&id, |session| {
                    session.directory.clone_from(&directory);
                    session.project.clone_from(&to);
                    Ok(())
                })
            };
            self.store.write(ctx, change).wait()?;
            moved.push(session.id);
        }
        Ok(moved)
    }

    /// Tells what removing a project would take away; changes nothing.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], or a fact could not be obtained.
    pub fn plan_project_removal(
        &self,
        ctx: &Context,
        id: &ProjectId,
    ) -> Result<ProjectRemovalPlan, WorktreeError> {
        let project = self.get_project(ctx, id)?;
        let sessions =
            self.list_project_sessions(ctx, id)?.into_iter().map(|session| session.id).collect();
        let mut worktrees = Vec::new();
        for made in &project.worktrees {
            let work = self.find_unsaved_work(&project, made)?;
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
        let listed = StoreRegistry::new(&self.settings.data)
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
    pub fn remove_project(
        &self,
        ctx: &Context,
        id: &ProjectId,
        force: bool,
    ) -> Result<ProjectRemovalReport, WorktreeError> {
        let removal = self.plan_project_removal(ctx, id)?;
        if let Some((directory, work)) =
            removal.worktrees.iter().find(|(_, work)| !force && !work.is_empty())
        {
            return Err(WorktreeError::UnsavedWork {
                directory: directory.clone(),
                work: work.clone(),
            });
        }
        let ids: Vec<String> = removal.sessions.iter().map(ToString::to_string).collect();
        self.require_permission_in_project(ctx, id, GatedOperation::Delete, &ids)?;
        self.check_own_denials(ctx, None, &removal.sessions)?;
        for (directory, _) in &removal.worktrees {
            self.remove_worktree(ctx, id, directory, force)?;
        }
        for session in &removal.sessions {
            match self.store.delete_session(ctx, session) {
                // It went with the session that began it.
                Ok(_) | Err(turnstone_store::StoreError::NoSession(_)) => {}
                Err(error) => return Err(EngineError::from(error).into()),
            }
        }
        let project = self.get_project(ctx, id)?;
        self.close_snapshot_handles(std::iter::once(&project.worktree).chain(&project.sandboxes));
        let mut kept = Vec::new();
        for (store, _) in &removal.stores {
            match remove_store(&self.settings.data.join("store"), store) {
                Ok(_) => {}
                Err(RemovalError::Locked(who)) => kept.push((store.clone(), who)),
                Err(RemovalError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(std::io::Error::other(error).into()),
            }
        }
        let now = Number::from(ctx.now.0);
        self.modify_project(ctx, id, move |project| {
            project.removed = Some(now.clone());
            project.aliases.clear();
            project.sandboxes.clear();
            project.worktree.clear();
        })?;
        Ok(ProjectRemovalReport { removal, kept })
    }
}
