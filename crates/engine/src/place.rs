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
use turnstone_core::time::Millis;
use turnstone_process::{Git, GitError};
use turnstone_store::{Context, SessionFilter};

use crate::engine::Engine;
use crate::error::Result;

/// Hexadecimal digits of an id that is derived from a place.
const ID_LENGTH: usize = 28;

/// A project as it was found, derived or made for a directory.
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
    /// True if the ledger holds the project as it is here; false if [`Engine::open_project`] would write.
    pub stored: bool,
}

/// What a directory is known by, and which stored project that makes it part of.
struct Survey {
    root: PathBuf,
    facts: Facts,
    projects: Vec<Project>,
    known: Vec<Known>,
    decision: Match,
}

impl Survey {
    /// The stored project of the directory.
    fn project(&self) -> Option<&Project> {
        let id = match &self.decision {
            Match::Same(id, _) | Match::Joined(id) => id,
            Match::Separate { .. } | Match::New => return None,
        };
        self.projects.iter().find(|project| project.id == *id)
    }

    fn into_open(self, project: Project, stored: bool) -> OpenProject {
        let (joined, alike) = match self.decision {
            Match::Joined(_) => (true, Vec::new()),
            Match::Separate { hint } => (false, hint),
            Match::Same(..) | Match::New => (false, Vec::new()),
        };
        OpenProject { project, root: self.root, joined, alike, stored }
    }
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
        let survey = self.survey(ctx, directory)?;
        self.store_surveyed(ctx, survey)
    }

    /// Finds the project of a directory, or derives the one that [`Engine::open_project`] would store: the
    /// same directory gets the same id until then. For requests that only read: no project, session or
    /// snapshot store is made for a directory the ledger knows nothing of.
    ///
    /// Sessions that are stored already and lie in this directory, because it has moved or because they had no
    /// project, are recovered: then it does what [`Engine::open_project`] does.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the ledger refused.
    pub fn find_or_derive_project(&self, ctx: &Context, directory: &Path) -> Result<OpenProject> {
        let survey = self.survey(ctx, directory)?;
        if self.has_lost_sessions(ctx, &survey)? {
            return self.store_surveyed(&ctx.aside(), survey);
        }
        let Survey { root, facts, known, .. } = &survey;
        let (project, stored) = match survey.project() {
            None => (derive_project(known, root, facts, ctx.now)?, false),
            Some(found) => match with_place(found, root, facts, ctx.now) {
                None => (found.clone(), true),
                Some((changed, _)) => (changed, false),
            },
        };
        Ok(survey.into_open(project, stored))
    }

    fn survey(&self, ctx: &Context, directory: &Path) -> Result<Survey> {
        let real = fs_err::canonicalize(directory)?;
        let (root, facts) = self.gather_facts(&real)?;
        // One that was removed has no facts left to be found by, and keeps its id to itself.
        let projects = self.store.read(ctx, |r| r.projects())?;
        let known: Vec<Known> = projects
            .iter()
            .map(|project| Known { id: project.id.clone(), aliases: project.aliases.clone() })
            .collect();
        let decision = find_project(&known, &facts);
        Ok(Survey { root, facts, projects, known, decision })
    }

    fn store_surveyed(&self, ctx: &Context, survey: Survey) -> Result<OpenProject> {
        let Survey { root, facts, projects, known, .. } = &survey;
        let project = match survey.project() {
            Some(found) => self.update_project(ctx, found, root, facts)?,
            None => self.put(ctx, derive_project(known, root, facts, ctx.now)?)?,
        };
        let project = self.adopt(ctx, project, projects, root)?;
        Ok(survey.into_open(project, true))
    }

    /// True if stored sessions stay hidden until the project of the directory is opened.
    fn has_lost_sessions(&self, ctx: &Context, survey: &Survey) -> Result<bool> {
        let Survey { root, facts, projects, .. } = survey;
        if let Some(project) = survey.project()
            && with_place(project, root, facts, ctx.now).is_some_and(|(_, moved)| moved.is_some())
            && self.has_sessions(ctx, &project.id, None)?
        {
            return Ok(true);
        }
        self.has_adoptable(ctx, survey.project(), projects, root)
    }

    /// True if a project has sessions, in any directory or in exactly this one.
    pub(crate) fn has_sessions(
        &self,
        ctx: &Context,
        project: &ProjectId,
        directory: Option<&Path>,
    ) -> Result<bool> {
        let filter = SessionFilter {
            project: Some(project.clone()),
            directory: directory.map(|path| path.to_string_lossy().into_owned()),
            archived: true,
            ..SessionFilter::default()
        };
        let page = self.store.read(ctx, |r| r.list_sessions(&filter, None, 1))?;
        Ok(!page.items.is_empty())
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
        project: &Project,
        root: &Path,
        facts: &Facts,
    ) -> Result<Project> {
        let Some((project, moved_from)) = with_place(project, root, facts, ctx.now) else {
            return Ok(project.clone());
        };
        let project = self.put(ctx, project)?;
        if let Some(old) = moved_from {
            // Its sessions are found where it is now, and so is its store (R12, R31).
            self.move_sessions(ctx, &project.id, &project.id, Path::new(&old), root)?;
            self.close_vaults(std::iter::once(&old));
            drop(self.find_vault(root, ctx.now));
        }
        Ok(project)
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

/// The project with what is new about a place of it, and the directory it has moved from, if it has; nothing
/// if nothing is new.
fn with_place(
    project: &Project,
    root: &Path,
    facts: &Facts,
    now: Millis,
) -> Option<(Project, Option<String>)> {
    let known = Known { id: project.id.clone(), aliases: project.aliases.clone() };
    let gained = gained_aliases(&known, facts);
    let here = root.to_string_lossy().into_owned();
    let is_new_place = project.worktree != here && !project.sandboxes.contains(&here);
    // The primary directory is gone and this one is in its place: it has moved.
    let moved = is_new_place && !Path::new(&project.worktree).is_dir();
    let vcs = facts.common_dir.is_some().then(|| "git".to_owned());
    if gained.is_empty() && !is_new_place && project.vcs == vcs {
        return None;
    }
    let mut project = project.clone();
    project.aliases.extend(gained);
    let moved_from = moved.then(|| project.worktree.clone());
    if moved {
        project.worktree = here;
    } else if is_new_place {
        project.sandboxes.push(here);
    }
    project.vcs = vcs;
    project.time.updated = Number::from(now.0);
    Some((project, moved_from))
}

/// The project that a directory of no stored project gets.
fn derive_project(known: &[Known], root: &Path, facts: &Facts, now: Millis) -> Result<Project> {
    let now = Number::from(now.0);
    let time = ProjectTime {
        created: now.clone(),
        updated: now,
        initialized: None,
        extra: Extra::default(),
    };
    Ok(Project {
        id: derive_project_id(known, facts)?,
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
    })
}

/// The id of a new project: its root commit, else a hash of its place that no other project has.
fn derive_project_id(known: &[Known], facts: &Facts) -> Result<ProjectId> {
    if let Some(id) = new_project_id(known, facts) {
        return Ok(id);
    }
    let place = facts.common_dir.as_ref().unwrap_or(&facts.directory);
    // A project that was removed keeps its id, so its place may need a further one.
    for attempt in 0..=known.len() as u64 {
        let mut hasher = blake3::Hasher::new_derive_key("turnstone project id v1");
        hasher.update(&attempt.to_le_bytes()).update(place.as_bytes());
        let hash = hasher.finalize().to_hex();
        let text = hash.chars().take(ID_LENGTH).collect::<String>();
        let id = ProjectId::try_from(text).map_err(std::io::Error::other)?;
        if known.iter().all(|project| project.id != id) {
            return Ok(id);
        }
    }
    Err(std::io::Error::other("no project id is free").into())
}
