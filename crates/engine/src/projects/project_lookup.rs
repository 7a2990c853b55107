//! Places: which project a directory belongs to, found again wherever it went (R31), and sessions.

use std::path::{Path, PathBuf};

use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{ExtraFields, Project, ProjectTime, Session, SessionModel};
use turnstone_core::permission::PermissionRule;
use turnstone_core::project_match::{
    DirectoryFacts, ProjectCandidate, ProjectMatch, gained_aliases, match_project, new_project_id,
};
use turnstone_core::session_naming;
use turnstone_core::time::EpochMillis;
use turnstone_store::{Context, DeletionReport};

use crate::error::Result;
use crate::projects::project::Projects;

/// Hexadecimal digits of an id that is derived from a place.
const ID_LENGTH: usize = 28;

/// A project as it was found, derived or made for a directory.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenedProject {
    /// The project.
    pub project: Project,
    /// The root of the directory: of its checkout, or the directory itself.
    pub root: PathBuf,
    /// True if this is another clone of a known project: people are told so.
    pub is_joined_clone: bool,
    /// Projects that look alike and stay separate; `project relink` would join them.
    pub similar: Vec<ProjectId>,
    /// True if the ledger holds the project as it is here; false if `Projects::open` would write.
    pub is_stored: bool,
}

/// What a directory is known by, and which stored project that makes it part of.
struct DirectorySurvey {
    root: PathBuf,
    facts: DirectoryFacts,
    projects: Vec<Project>,
    known: Vec<ProjectCandidate>,
    decision: ProjectMatch,
}

impl DirectorySurvey {
    /// The stored project of the directory.
    fn project(&self) -> Option<&Project> {
        let id = match &self.decision {
            ProjectMatch::Same(id, _) | ProjectMatch::Joined(id) => id,
            ProjectMatch::Separate { .. } | ProjectMatch::New => return None,
        };
        self.projects.iter().find(|project| project.id == *id)
    }

    fn into_opened(self, project: Project, stored: bool) -> OpenedProject {
        let (joined, alike) = match self.decision {
            ProjectMatch::Joined(_) => (true, Vec::new()),
            ProjectMatch::Separate { hint } => (false, hint),
            ProjectMatch::Same(..) | ProjectMatch::New => (false, Vec::new()),
        };
        OpenedProject {
            project,
            root: self.root,
            is_joined_clone: joined,
            similar: alike,
            is_stored: stored,
        }
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
    pub metadata: Option<ExtraFields>,
    /// Its own rules.
    pub permission: Option<Vec<PermissionRule>>,
}

impl Projects {
    /// Finds the project of a directory, or makes one; what is new about the place is remembered.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the ledger refused.
    pub fn open(&self, ctx: &Context, directory: &Path) -> Result<OpenedProject> {
        let survey = self.survey_directory(ctx, directory)?;
        self.store_project(ctx, survey)
    }

    /// Finds the project of a directory, or derives the one that [`Self::open`] would store: the
    /// same directory gets the same id until then. For requests that only read: no project, session or
    /// snapshot store is made for a directory the ledger knows nothing of.
    ///
    /// Sessions that are stored already and lie in this directory, because it has moved or because they had no
    /// project, are recovered: then it does what [`Self::open`] does.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the ledger refused.
    pub fn find_or_derive(&self, ctx: &Context, directory: &Path) -> Result<OpenedProject> {
        let survey = self.survey_directory(ctx, directory)?;
        if self.has_unreachable_sessions(ctx, &survey)? {
            return self.store_project(&ctx.without_preconditions(), survey);
        }
        let DirectorySurvey { root, facts, known, .. } = &survey;
        let (project, stored) = match survey.project() {
            None => (derive_project(known, root, facts, ctx.now)?, false),
            Some(found) => match with_directory(found, root, facts, ctx.now) {
                None => (found.clone(), true),
                Some((changed, _)) => (changed, false),
            },
        };
        Ok(survey.into_opened(project, stored))
    }

    fn survey_directory(&self, ctx: &Context, directory: &Path) -> Result<DirectorySurvey> {
        let real = fs_err::canonicalize(directory)?;
        let (root, facts) = self.repositories.gather_directory_facts(&real)?;
        // One that was removed has no facts left to be found by, and keeps its id to itself.
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let known: Vec<ProjectCandidate> = projects
            .iter()
            .map(|project| ProjectCandidate {
                id: project.id.clone(),
                aliases: project.aliases.clone(),
            })
            .collect();
        let decision = match_project(&known, &facts);
        Ok(DirectorySurvey { root, facts, projects, known, decision })
    }

    fn store_project(&self, ctx: &Context, survey: DirectorySurvey) -> Result<OpenedProject> {
        let DirectorySurvey { root, facts, projects, known, .. } = &survey;
        let project = match survey.project() {
            Some(found) => self.update_project_directory(ctx, found, root, facts)?,
            None => self.records.put(ctx, derive_project(known, root, facts, ctx.now)?)?,
        };
        let project = self.adoption.adopt(ctx, project, projects, root)?;
        Ok(survey.into_opened(project, true))
    }

    /// True if stored sessions stay hidden until the project of the directory is opened.
    fn has_unreachable_sessions(&self, ctx: &Context, survey: &DirectorySurvey) -> Result<bool> {
        let DirectorySurvey { root, facts, projects, .. } = survey;
        if let Some(project) = survey.project()
            && with_directory(project, root, facts, ctx.now)
                .is_some_and(|(_, moved)| moved.is_some())
            && self.records.has_sessions(ctx, &project.id, None)?
        {
            return Ok(true);
        }
        self.adoption.has_adoptable(ctx, survey.project(), projects, root)
    }

    fn update_project_directory(
        &self,
        ctx: &Context,
        project: &Project,
        root: &Path,
        facts: &DirectoryFacts,
    ) -> Result<Project> {
        let Some((project, moved_from)) = with_directory(project, root, facts, ctx.now) else {
            return Ok(project.clone());
        };
        let project = self.records.put(ctx, project)?;
        if let Some(old) = moved_from {
            // Its sessions are found where it is now, and so is its store (R12, R31).
            self.records.move_sessions(ctx, &project.id, &project.id, Path::new(&old), root)?;
            self.snapshots.close(std::iter::once(&old));
            drop(self.snapshots.find(root, ctx.now));
        }
        Ok(project)
    }

    /// Makes a session in a directory.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn create_session(
        &self,
        ctx: &Context,
        directory: &Path,
        new: &NewSession,
    ) -> Result<Session> {
        let OpenedProject { project, root, .. } = self.open(ctx, directory)?;
        self.create_session_in(ctx, &project.id, &root, directory, new)
    }

    /// A new session in a directory, which the caller stores.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn draft_session(
        &self,
        ctx: &Context,
        directory: &Path,
        new: &NewSession,
    ) -> Result<Session> {
        let OpenedProject { project, root, .. } = self.open(ctx, directory)?;
        self.draft_session_in(ctx, &project.id, &root, directory, new)
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
        let session = self.draft_session_in(ctx, project, root, directory, new)?;
        let made = session.clone();
        self.store.write(ctx, move |tx| tx.sessions().create(&made)).wait()?;
        Ok(session)
    }

    fn draft_session_in(
        &self,
        ctx: &Context,
        project: &ProjectId,
        root: &Path,
        directory: &Path,
        new: &NewSession,
    ) -> Result<Session> {
        let real = fs_err::canonicalize(directory)?;
        let (id, random) = self.id_generator.new_session_id(ctx.now)?;
        let title = new
            .title
            .clone()
            .unwrap_or_else(|| session_naming::default_title(ctx.now, new.parent.is_some()));
        let path = real.strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned());
        let now = Number::from(ctx.now.0);
        let mut session: Session = serde_json::from_value(serde_json::json!({
            "id": id, "slug": session_naming::random_slug(random), "projectID": project,
            "directory": real.to_string_lossy(), "path": path, "parentID": new.parent,
            "title": title, "version": env!("CARGO_PKG_VERSION"),
            "time": { "created": now, "updated": now },
        }))
        .map_err(std::io::Error::from)?;
        session.agent.clone_from(&new.agent);
        session.model.clone_from(&new.model);
        session.metadata.clone_from(&new.metadata);
        session.permission.clone_from(&new.permission);
        Ok(session)
    }

    /// Deletes a session with the sessions it started, once the gate lets it pass.
    ///
    /// # Errors
    ///
    /// As [`crate::OperationGates::require`] and [`turnstone_store::Store::delete_session`].
    pub fn delete_session(&self, ctx: &Context, session: &SessionId) -> Result<DeletionReport> {
        let ctx = self.gates.require_delete(ctx, session)?;
        Ok(self.store.delete_session(&ctx, session)?)
    }
}

/// The project with what is new about a place of it, and the directory it has moved from, if it has; nothing
/// if nothing is new.
fn with_directory(
    project: &Project,
    root: &Path,
    facts: &DirectoryFacts,
    now: EpochMillis,
) -> Option<(Project, Option<String>)> {
    let known = ProjectCandidate { id: project.id.clone(), aliases: project.aliases.clone() };
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
fn derive_project(
    known: &[ProjectCandidate],
    root: &Path,
    facts: &DirectoryFacts,
    now: EpochMillis,
) -> Result<Project> {
    let now = Number::from(now.0);
    let time = ProjectTime {
        created: now.clone(),
        updated: now,
        initialized: None,
        extra: ExtraFields::default(),
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
        extra: ExtraFields::default(),
    })
}

/// The id of a new project: its root commit, else a hash of its place that no other project has.
fn derive_project_id(known: &[ProjectCandidate], facts: &DirectoryFacts) -> Result<ProjectId> {
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
