//! Which project a directory belongs to, also after it has moved (R31), and new sessions.

use std::path::{Path, PathBuf};

use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{
    ExtraFields, JoinedClone, Project, ProjectAliasKind, ProjectTime, Session, SessionModel,
};
use turnstone_core::permission::PermissionRule;
use turnstone_core::project_match::{
    DirectoryFacts, ProjectCandidate, ProjectMatch, gained_aliases, match_project, new_project_id,
};
use turnstone_core::session_naming;
use turnstone_core::time::EpochMillis;
use turnstone_store::{Context, DeletionReport};

use crate::error::Result;
use crate::projects::directory_location::{is_directory_gone, recorded_root_state};
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
    /// True if this is another clone of a known project; commands print a note.
    pub is_joined_clone: bool,
    /// Projects that look alike, or that may have moved here, and stay separate; `project relink` would
    /// join them.
    pub similar: Vec<ProjectId>,
    /// Where the directory was before, if it has moved and that was recorded now.
    pub moved_from: Option<String>,
    /// True if the database holds the project as it is here; false if `Projects::open` would write.
    pub is_stored: bool,
}

/// What a directory is known by, and which stored project that makes it part of.
pub(super) struct DirectorySurvey {
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
            ProjectMatch::Same(id, _)
            | ProjectMatch::Joined(id)
            | ProjectMatch::Moved { id, .. } => id,
            ProjectMatch::Separate { .. } | ProjectMatch::New => return None,
        };
        self.projects.iter().find(|project| project.id == *id)
    }

    /// The stored project of the directory with what is new about it, and the directory it has moved from;
    /// nothing if nothing is new.
    fn changed_project(&self, now: EpochMillis) -> Option<(Project, Option<String>)> {
        let from = match &self.decision {
            ProjectMatch::Moved { from, .. } => Some(from.as_str()),
            ProjectMatch::Same(..)
            | ProjectMatch::Joined(_)
            | ProjectMatch::Separate { .. }
            | ProjectMatch::New => None,
        };
        let (mut project, moved_from) =
            with_directory(self.project()?, &self.root, &self.facts, now, from)?;
        let common_dir = self.facts.common_dir.clone();
        let clones = &mut project.joined_clones;
        let is_worktree_of =
            |clone: &JoinedClone| clone.common_dir.is_some() && clone.common_dir == common_dir;
        let is_unconfirmed =
            matches!(self.decision, ProjectMatch::Joined(_)) || clones.iter().any(is_worktree_of);
        let directory = self.root.to_string_lossy().into_owned();
        if is_unconfirmed && clones.iter().all(|clone| clone.directory != directory) {
            clones.push(JoinedClone { directory, common_dir, allowed: Vec::new() });
        }
        Some((project, moved_from))
    }

    fn into_opened(
        self,
        project: Project,
        stored: bool,
        moved_from: Option<String>,
    ) -> OpenedProject {
        let (joined, alike) = match self.decision {
            ProjectMatch::Joined(_) => (true, Vec::new()),
            ProjectMatch::Separate { hint } => (false, hint),
            ProjectMatch::Same(..) | ProjectMatch::Moved { .. } | ProjectMatch::New => {
                (false, Vec::new())
            }
        };
        OpenedProject {
            project,
            root: self.root,
            is_joined_clone: joined,
            similar: alike,
            is_stored: stored,
            moved_from,
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
    /// The directory is not there, or the database refused.
    pub fn open(&self, ctx: &Context, directory: &Path) -> Result<OpenedProject> {
        let survey = self.survey_directory(ctx, directory)?;
        self.store_project(ctx, survey)
    }

    /// Finds the project of a directory, or derives the one that [`Self::open`] would store: the
    /// same directory gets the same id until then. For requests that only read: no project, session or
    /// snapshot store is made for a directory the database knows nothing of.
    ///
    /// Sessions that are stored already and lie in this directory, because it has moved or because they had no
    /// project, are recovered: then it does what [`Self::open`] does.
    ///
    /// # Errors
    ///
    /// The directory is not there, or the database refused.
    pub fn find_or_derive(&self, ctx: &Context, directory: &Path) -> Result<OpenedProject> {
        let survey = self.survey_directory(ctx, directory)?;
        if self.has_unreachable_sessions(ctx, &survey)? {
            return self.store_project(&ctx.without_preconditions(), survey);
        }
        let DirectorySurvey { root, facts, known, .. } = &survey;
        let (project, stored) = match (survey.project(), survey.changed_project(ctx.now)) {
            (None, _) => (derive_project(known, root, facts, ctx.now)?, false),
            (Some(found), None) => (found.clone(), true),
            (Some(_), Some((changed, _))) => (changed, false),
        };
        Ok(survey.into_opened(project, stored, None))
    }

    fn survey_directory(&self, ctx: &Context, directory: &Path) -> Result<DirectorySurvey> {
        let real = fs_err::canonicalize(directory)?;
        // One that was removed has no facts left to be found by, and keeps its id to itself.
        let projects = self.store.read(ctx, |r| r.projects().list())?;
        let known = self.list_candidates(&projects)?;
        let (mut root, mut facts) = self.repositories.gather_directory_facts(&real)?;
        if facts.common_dir.is_none()
            && let Some(moved) = self.find_moved_root(&real, &root, &known)?
        {
            (root, facts) = moved;
        }
        let decision = match_project(&known, &facts, &recorded_root_state);
        Ok(DirectorySurvey { root, facts, projects, known, decision })
    }

    fn store_project(&self, ctx: &Context, survey: DirectorySurvey) -> Result<OpenedProject> {
        let DirectorySurvey { root, facts, projects, known, .. } = &survey;
        let (project, moved_from) = match (survey.project(), survey.changed_project(ctx.now)) {
            (None, _) => {
                (self.records.put(ctx, derive_project(known, root, facts, ctx.now)?)?, None)
            }
            (Some(found), None) => (found.clone(), None),
            (Some(_), Some((changed, moved_from))) => {
                let project = self.store_directory(ctx, changed, moved_from.as_deref(), root)?;
                if let (ProjectMatch::Joined(id), Some(old)) = (&survey.decision, &moved_from) {
                    // Root commit and origin say that it is the same project, on another file system.
                    self.relink_stores(ctx, id, root, Some(old))?;
                }
                (project, moved_from)
            }
        };
        let project = self.adoption.adopt(ctx, project, projects, root)?;
        Ok(survey.into_opened(project, true, moved_from))
    }

    /// True if stored sessions stay hidden until the project of the directory is opened.
    fn has_unreachable_sessions(&self, ctx: &Context, survey: &DirectorySurvey) -> Result<bool> {
        let DirectorySurvey { root, projects, .. } = survey;
        if let Some(project) = survey.project()
            && survey.changed_project(ctx.now).is_some_and(|(_, moved)| moved.is_some())
            && self.records.has_sessions(ctx, &project.id, None)?
        {
            return Ok(true);
        }
        self.adoption.has_adoptable(ctx, survey.project(), projects, root)
    }

    /// Stores what is new about a directory of a project. After a move its sessions are found where it is
    /// now, and so is its store (R12, R31).
    fn store_directory(
        &self,
        ctx: &Context,
        project: Project,
        moved_from: Option<&str>,
        root: &Path,
    ) -> Result<Project> {
        // The sessions first: if this is cut off, the project is still recognised as moved.
        if let Some(old) = moved_from {
            self.records.move_sessions(ctx, &project.id, &project.id, Path::new(old), root)?;
        }
        let project = self.records.put(ctx, project)?;
        if let Some(old) = moved_from {
            self.snapshots.close(std::iter::once(&old.to_owned()));
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
    /// The directory is not there, or the database refused.
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
/// if nothing is new. `from` is where the directory was, if it was recognised.
fn with_directory(
    project: &Project,
    root: &Path,
    facts: &DirectoryFacts,
    now: EpochMillis,
    from: Option<&str>,
) -> Option<(Project, Option<String>)> {
    let known = ProjectCandidate {
        id: project.id.clone(),
        aliases: project.aliases.clone(),
        roots: Vec::new(),
    };
    let gained = gained_aliases(&known, facts);
    let here = root.to_string_lossy().into_owned();
    let is_new_place = project.worktree != here && !project.sandboxes.contains(&here);
    // The primary directory is gone and this one is in its place: it has moved.
    let moved_from = match from {
        Some(from) => Some(from.to_owned()),
        None => (is_new_place
            && is_directory_gone(&project.worktree)
            && !is_other_directory(project, facts))
        .then(|| project.worktree.clone()),
    };
    let vcs = facts.common_dir.is_some().then(|| "git".to_owned());
    let recorded = facts.recorded_root();
    let is_recorded =
        recorded.as_ref().is_none_or(|recorded| project.recorded_roots.contains(recorded));
    let is_known = gained.is_empty() && !is_new_place && project.vcs == vcs && is_recorded;
    if is_known && moved_from.is_none() {
        return None;
    }
    let mut project = project.clone();
    if let Some(from) = from {
        remove_directory_references(&mut project, from);
    }
    for clone in &mut project.joined_clones {
        if moved_from.as_ref() == Some(&clone.directory) {
            clone.directory.clone_from(&here);
            clone.common_dir.clone_from(&facts.common_dir);
        }
    }
    project.aliases.extend(gained);
    if moved_from.as_ref() == Some(&project.worktree) {
        project.sandboxes.retain(|sandbox| *sandbox != here);
        project.worktree = here;
    } else if project.worktree != here && !project.sandboxes.contains(&here) {
        project.sandboxes.push(here);
    }
    if let Some(recorded) = recorded {
        project.recorded_roots.retain(|known| known.directory != recorded.directory);
        project.recorded_roots.push(recorded);
    }
    project.vcs = vcs;
    project.time.updated = Number::from(now.0);
    Some((project, moved_from))
}

/// True if the primary directory of a project cannot have become this one: on one file system it would have
/// kept its identity.
fn is_other_directory(project: &Project, facts: &DirectoryFacts) -> bool {
    let primary = project.recorded_roots.iter().find(|root| root.directory == project.worktree);
    primary.zip(facts.identity).is_some_and(|(primary, seen)| {
        primary.identity.device == seen.device && primary.identity != seen
    })
}

/// Removes what a project records of a directory that has moved away: another one may be created at its path.
fn remove_directory_references(project: &mut Project, from: &str) {
    let within = |value: &str| Path::new(value).starts_with(from);
    project.aliases.retain(|alias| match alias.kind {
        ProjectAliasKind::Directory => alias.value != from,
        ProjectAliasKind::CommonDir => !within(&alias.value),
        ProjectAliasKind::RootCommit | ProjectAliasKind::Origin => true,
    });
    project.sandboxes.retain(|sandbox| sandbox != from);
    project.recorded_roots.retain(|root| root.directory != from);
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
        recorded_roots: facts.recorded_root().into_iter().collect(),
        joined_clones: Vec::new(),
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
