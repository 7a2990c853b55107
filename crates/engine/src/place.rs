//! Places: which project a directory belongs to, found again wherever it went (R31), and sessions.

use std::path::{Path, PathBuf};

use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Extra, Project, ProjectTime, Session, SessionModel};
use turnstone_core::name;
use turnstone_core::permission::Rule;
use turnstone_core::place::{
    Facts, Known, Match, find_project, gained_aliases, new_project_id, origin_of,
};
use turnstone_process::{Git, GitError};
use turnstone_store::Context;

use crate::engine::Engine;
use crate::error::Result;

/// A project as it was found or made for a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenProject {
    /// The project.
    pub project: Project,
    /// The root of the directory: of its checkout, or the directory itself.
    pub root: PathBuf,
    /// True if this is another clone of a project that was known: people are told.
    pub joined: bool,
    /// Projects that look alike and stay separate; `project relink` would join them.
    pub alike: Vec<ProjectId>,
}

/// A session to be made; the rest has defaults.
#[derive(Clone, Debug, Default)]
pub struct NewSession {
    /// The title people see; none: the moment.
    pub title: Option<String>,
    /// The session that begins this one.
    pub parent: Option<SessionId>,
    /// The agent it prefers.
    pub agent: Option<String>,
    /// The model it prefers.
    pub model: Option<SessionModel>,
    /// Free data of the client.
    pub metadata: Option<Extra>,
    /// Its own rules.
    pub permission: Option<Vec<Rule>>,
}

impl Engine {
    /// Finds the project of a directory, or makes one; what is new about the place is remembered.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the ledger refused.
    pub fn open_project(&self, ctx: &Context, directory: &Path) -> Result<OpenProject> {
        let real = fs_err::canonicalize(directory)?;
        let (root, facts) = self.gather_facts(&real)?;
        // One that was removed has no facts left to be found by, and keeps its id to itself.
        let projects = self.store.read(ctx, |r| r.projects())?;
        let known: Vec<Known> = projects
            .iter()
            .map(|project| Known { id: project.id.clone(), aliases: project.aliases.clone() })
            .collect();
        let (id, joined, alike) = match find_project(&known, &facts) {
            Match::Same(id, _) => (Some(id), false, Vec::new()),
            Match::Joined(id) => (Some(id), true, Vec::new()),
            Match::Separate { hint } => (None, false, hint),
            Match::New => (None, false, Vec::new()),
        };
        let found = id.and_then(|id| projects.iter().find(|project| project.id == id));
        let project = match found {
            Some(project) => self.update_project(ctx, project.clone(), &root, &facts)?,
            None => self.make_project(ctx, &known, &root, &facts)?,
        };
        let project = self.adopt(ctx, project, &projects, &root)?;
        Ok(OpenProject { project, root, joined, alike })
    }

    /// Returns the root of a directory and what identifies its repository, if it has one.
    ///
    /// Without a usable git the place of the repository is known, and its history is not.
    ///
    /// # Errors
    ///
    /// [`crate::EngineError::Repository`] if there is a repository that must not be used, and
    /// [`crate::EngineError::Git`] if git could not tell: what is not known must not make another
    /// project of it.
    pub(crate) fn gather_facts(&self, real: &Path) -> Result<(PathBuf, Facts)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let Some(git) = self.find_repository(real)? else {
            return Ok((real.to_owned(), Facts { directory: text(real), ..Facts::default() }));
        };
        let repository = git.repository();
        let placed = Facts {
            directory: text(&repository.worktree),
            common_dir: Some(text(&repository.common_dir)),
            ..Facts::default()
        };
        let facts = match gather_history(&git) {
            Err(GitError::Missing | GitError::TooOld { .. }) => placed,
            history => {
                let Facts { root_commits, shallow, origin, .. } = history?;
                Facts { root_commits, shallow, origin, ..placed }
            }
        };
        Ok((repository.worktree.clone(), facts))
    }

    fn update_project(
        &self,
        ctx: &Context,
        mut project: Project,
        root: &Path,
        facts: &Facts,
    ) -> Result<Project> {
        let known = Known { id: project.id.clone(), aliases: project.aliases.clone() };
        let gained = gained_aliases(&known, facts);
        let here = root.to_string_lossy().into_owned();
        let is_new_place = project.worktree != here && !project.sandboxes.contains(&here);
        // The primary directory is gone and this one is in its place: it has moved.
        let moved = is_new_place && !Path::new(&project.worktree).is_dir();
        let vcs = facts.common_dir.is_some().then(|| "git".to_owned());
        if gained.is_empty() && !is_new_place && project.vcs == vcs {
            return Ok(project);
        }
        project.aliases.extend(gained);
        let old = moved.then(|| project.worktree.clone());
        if moved {
            project.worktree = here;
        } else if is_new_place {
            project.sandboxes.push(here);
        }
        project.vcs = vcs;
        project.time.updated = Number::from(ctx.now.0);
        let project = self.put(ctx, project)?;
        if let Some(old) = old {
            // Its sessions are found where it is now, and so is its store (R12, R31).
            self.move_sessions(ctx, &project.id, &project.id, Path::new(&old), root)?;
            self.close_vaults(std::iter::once(&old));
            drop(self.vault(root, ctx.now));
        }
        Ok(project)
    }

    fn make_project(
        &self,
        ctx: &Context,
        known: &[Known],
        root: &Path,
        facts: &Facts,
    ) -> Result<Project> {
        let id = match new_project_id(known, facts) {
            Some(id) => id,
            None => self.mint.project(ctx.now)?,
        };
        let now = Number::from(ctx.now.0);
        let time = ProjectTime {
            created: now.clone(),
            updated: now,
            initialized: None,
            extra: Extra::default(),
        };
        let project = Project {
            id,
            worktree: root.to_string_lossy().into_owned(),
            vcs: facts.common_dir.is_some().then(|| "git".to_owned()),
            name: None,
            icon: None,
            commands: None,
            permission: None,
            imported_permission: Vec::new(),
            imported_approvals: Vec::new(),
            time,
            sandboxes: Vec::new(),
            aliases: facts.aliases(),
            worktrees: Vec::new(),
            removed: None,
            extra: Extra::default(),
        };
        self.put(ctx, project)
    }

    fn put(&self, ctx: &Context, project: Project) -> Result<Project> {
        let stored = project.clone();
        self.store.write(ctx, move |tx| tx.put_project(&stored)).wait()?;
        Ok(project)
    }

    /// Makes a session in a directory.
    ///
    /// # Errors
    ///
    /// As [`Engine::open_project`].
    pub fn create_session(
        &self,
        ctx: &Context,
        directory: &Path,
        new: &NewSession,
    ) -> Result<Session> {
        let OpenProject { project, root, .. } = self.open_project(ctx, directory)?;
        self.create_session_in(ctx, &project.id, &root, directory, new)
    }

    /// Makes a session in a directory whose project is known; `git` is not asked again.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the ledger refused.
    pub fn create_session_in(
        &self,
        ctx: &Context,
        project: &ProjectId,
        root: &Path,
        directory: &Path,
        new: &NewSession,
    ) -> Result<Session> {
        let real = fs_err::canonicalize(directory)?;
        let (id, random) = self.mint.session(ctx.now)?;
        let title =
            new.title.clone().unwrap_or_else(|| name::default_title(ctx.now, new.parent.is_some()));
        let path = real.strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned());
        let now = Number::from(ctx.now.0);
        let mut session: Session = serde_json::from_value(serde_json::json!({
            "id": id, "slug": name::slug(random), "projectID": project,
            "directory": real.to_string_lossy(), "path": path, "parentID": new.parent,
            "title": title, "version": env!("CARGO_PKG_VERSION"),
            "time": { "created": now, "updated": now },
        }))
        .map_err(std::io::Error::from)?;
        session.agent.clone_from(&new.agent);
        session.model.clone_from(&new.model);
        session.metadata.clone_from(&new.metadata);
        session.permission.clone_from(&new.permission);
        let made = session.clone();
        self.store.write(ctx, move |tx| tx.create_session(&made)).wait()?;
        Ok(session)
    }
}

/// What git knows of the history of a repository.
fn gather_history(git: &Git) -> std::result::Result<Facts, GitError> {
    Ok(Facts {
        root_commits: git.list_root_commits()?,
        // A history that is cut off names no root.
        shallow: git.is_shallow()?,
        origin: git.find_remote("origin")?.as_deref().and_then(origin_of),
        ..Facts::default()
    })
}
