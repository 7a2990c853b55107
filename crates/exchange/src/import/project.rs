//! Projects of a source and their approvals. A project that is here is not changed by an import: not its
//! rules, its directories, its worktrees, nor its commands.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, Session};
use turnstone_core::permission::Rule;
use turnstone_store::StoreError;

use super::batch::{Pending, ProjectUpdate, Write};
use super::run::Run;
use super::trust::{Trust, merge_project};
use crate::adopt;
use crate::identity::fit;
use crate::kind::Kind;
use crate::report::{Outcome, printable};

/// Approvals of one project that are stored without being in effect.
const MAX_APPROVALS: usize = 1_000;
/// Further directories of a new project that are looked at.
const MAX_DIRECTORIES: usize = 100;

/// A project that was here before the import began, with its directories.
pub(super) struct KnownProject {
    id: ProjectId,
    roots: Vec<PathBuf>,
}

impl KnownProject {
    /// The project, unless it was removed.
    pub(super) fn of(project: Project) -> Option<Self> {
        if project.removed.is_some() {
            return None;
        }
        let roots = project.roots().map(Path::to_path_buf).collect();
        Some(Self { id: project.id, roots })
    }
}

/// The approvals of one project, while they are read.
pub(super) struct ApprovalGroup {
    project: ProjectId,
    /// Approvals in effect here.
    live: Vec<Rule>,
    /// Approvals stored here that are not in effect.
    stored: Vec<Rule>,
    /// Approvals to be stored.
    fresh: Vec<Rule>,
}

impl Run<'_> {
    pub(super) fn project(
        &mut self,
        id: &str,
        adopted: Result<Project, adopt::Refused>,
    ) -> Result<(), StoreError> {
        let mut project = match adopted {
            Ok(project) => project,
            Err(reason) => {
                self.count(Kind::Project, id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        if self.projects.contains_key(id) {
            // A source that names it twice: the first must be here to be found.
            self.flush()?;
        }
        let rules = project.permission.take().unwrap_or_default();
        let commands = project.commands.take();
        let is_here = self.store.read(&self.ctx, |r| r.find_project(&project.id))?.is_some();
        let home = self.home_of(&project.worktree, &project.id).filter(|_| !is_here);
        let target = home.map_or_else(|| project.id.clone(), |(id, ..)| id);
        self.list_project(id, &target, (&rules, commands.as_ref()))?;
        self.projects.insert(id.to_owned(), target.clone());
        let write = if is_here || target != project.id {
            if target != project.id {
                let note = format!("project {id} lies in project {target}: its sessions go there");
                self.report.note(&note);
            }
            let Project { name, icon, .. } = project;
            let trust = self.trust;
            Write::Update(Box::new(ProjectUpdate {
                id: target,
                name,
                icon,
                commands,
                rules,
                trust,
            }))
        } else {
            self.further.insert(target, further(&mut project));
            merge_project(&mut project, &rules, self.trust);
            project.commands = commands.filter(|_| self.trust == Trust::Yes);
            Write::Project(Box::new(project))
        };
        self.push(Pending { kind: Kind::Project, id: id.to_owned(), count: 1, fresh: false, write })
    }

    /// Lists what a project of the source says about permissions, as far as it is not in effect.
    fn list_project(
        &mut self,
        id: &str,
        target: &ProjectId,
        (rules, commands): (&[Rule], Option<&Value>),
    ) -> Result<(), StoreError> {
        let here = self.store.read(&self.ctx, |r| r.find_project(target))?;
        let live = here.as_ref().and_then(|here| here.permission.clone()).unwrap_or_default();
        let of = format!("project {id}");
        self.carried().add_rules(&of, &super::trust::not_in(rules.iter(), &live));
        if let Some(commands) = commands
            && here.is_none_or(|here| here.commands.is_none())
        {
            let start = commands.get("start").and_then(Value::as_str).map(str::to_owned);
            let text = start.unwrap_or_else(|| commands.to_string());
            self.carried().add_command(&of, &text);
        }
        Ok(())
    }

    /// A project the source has no record of: made from its sessions unless it is here.
    pub(super) fn place(&mut self, id: &str, worktree: &str) -> Result<(), StoreError> {
        if self.projects.contains_key(id) {
            return Ok(());
        }
        let Some(fitted) = fit::<ProjectId>(id) else {
            return Ok(());
        };
        if self.store.read(&self.ctx, |r| r.find_project(&fitted.id))?.is_some() {
            self.projects.insert(id.to_owned(), fitted.id);
            self.count(Kind::Project, id, Outcome::Unchanged);
            return Ok(());
        }
        self.project(id, adopt::place(id, worktree))
    }

    /// The project here for a project of the source; none if it was not accepted.
    pub(super) fn project_here(&self, id: &str) -> Result<Option<ProjectId>, StoreError> {
        if let Some(here) = self.projects.get(id) {
            return Ok(Some(here.clone()));
        }
        let Some(fitted) = fit::<ProjectId>(id) else {
            return Ok(None);
        };
        let here = self.store.read(&self.ctx, |r| r.find_project(&fitted.id))?;
        Ok(here.map(|here| here.id))
    }

    /// The project that was here before and holds a directory: its id, and the directory's real path with
    /// the root above it. What a person set for that project counts in all of its directories, so an
    /// import cannot give one of them to another project.
    fn home_of(
        &self,
        directory: &str,
        claimed: &ProjectId,
    ) -> Option<(ProjectId, PathBuf, PathBuf)> {
        let named = Path::new(directory);
        if self.known.is_empty() || !named.is_absolute() {
            return None;
        }
        let real = real_path(named);
        let all = self.known.iter().flat_map(|it| it.roots.iter().map(move |root| (it, root)));
        let above = all.filter(|(_, root)| real.starts_with(root));
        let (known, root) =
            above.max_by_key(|(it, root)| (root.components().count(), it.id == *claimed))?;
        Some((known.id.clone(), root.clone(), real))
    }

    /// Puts a new session into the project that holds its directory, and looks at its parent.
    pub(super) fn settle_session(&mut self, session: &mut Session) -> Result<(), StoreError> {
        if let Some((project, root, real)) = self.home_of(&session.directory, &session.project) {
            if project != session.project {
                let (id, claimed) = (&session.id, &session.project);
                let note = format!(
                    "session {id} of project {claimed} works in project {project}, and is its"
                );
                self.report.note(&note);
                session.path =
                    real.strip_prefix(&root).ok().map(|p| p.to_string_lossy().into_owned());
                session.project = project;
            }
            // By another name its directory would be outside of the project and of its rules.
            let named = Path::new(&session.directory);
            if !named.starts_with(&root) || leads_up(named) {
                session.directory = real.to_string_lossy().into_owned();
            }
        } else {
            self.separate_session(session)?;
        }
        self.claim_directory(session)?;
        let Some(parent) = session.parent.clone() else {
            return Ok(());
        };
        let is_local = self.store.read(&self.ctx, |r| match r.find_session(&parent)? {
            Some(_) => Ok(r.session_actor(&parent)? != super::ACTOR),
            None => Ok(false),
        })?;
        if is_local {
            session.parent = None;
            let note =
                format!("session {}: its parent {parent} was made here; left out", session.id);
            self.report.note(&note);
        }
        Ok(())
    }

    /// Gives a session its own project if it names a project of here and lies outside of it: the rules of a
    /// project count in its directories, and an import adds none to it.
    fn separate_session(&mut self, session: &mut Session) -> Result<(), StoreError> {
        let is_bounded = |it: &KnownProject| it.id == session.project && !it.roots.is_empty();
        let names_other = self.known.iter().any(is_bounded);
        if !names_other || self.trust == Trust::Yes || session.directory.is_empty() {
            return Ok(());
        }
        let directory = real_path(Path::new(&session.directory)).to_string_lossy().into_owned();
        let hash = blake3::derive_key("turnstone imported project id v1", directory.as_bytes());
        let id: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        self.place(&id, &directory)?;
        let Some(own) = self.project_here(&id)? else {
            return Err(StoreError::Invalid(format!("no project for {directory}")));
        };
        let note = format!(
            "session {}: {} is outside of project {}; it is in project {own}, and \
             `turnstone import --trust` would let it join",
            session.id,
            printable(&directory),
            session.project
        );
        self.report.note(&note);
        (session.directory, session.path, session.project) = (directory, Some(String::new()), own);
        Ok(())
    }

    /// Adds the further directory of a new project that a session of it works in.
    fn claim_directory(&mut self, session: &Session) -> Result<(), StoreError> {
        let Some(further) = self.further.get_mut(&session.project) else {
            return Ok(());
        };
        let holds = |root: &String| Path::new(&session.directory).starts_with(root);
        let Some(at) = further.iter().position(holds) else {
            return Ok(());
        };
        let write = Write::Directory(session.project.clone(), further.swap_remove(at));
        let id = session.project.to_string();
        self.push(Pending { kind: Kind::Project, id, count: 0, fresh: false, write })
    }

    pub(super) fn approval(
        &mut self,
        id: String,
        project: &str,
        body: Value,
    ) -> Result<(), StoreError> {
        let Some(project) = self.project_here(project)? else {
            let reason = format!("project {} was not imported", printable(project));
            self.count(Kind::Permission, &id, Outcome::Orphaned(reason));
            return Ok(());
        };
        let rule = match adopt::rule(body) {
            Ok(rule) => rule,
            Err(reason) => {
                self.count(Kind::Permission, &id, Outcome::Rejected(printable(&reason)));
                return Ok(());
            }
        };
        let group = self.approval_group(&project)?;
        if group.live.contains(&rule) {
            self.count(Kind::Permission, &id, Outcome::Unchanged);
            return Ok(());
        }
        let is_about =
            |one: &Rule| (&one.permission, &one.pattern) == (&rule.permission, &rule.pattern);
        let is_decided = group.live.iter().any(is_about);
        let is_stored = group.stored.contains(&rule) || group.fresh.contains(&rule);
        let is_full = group.stored.len() + group.fresh.len() >= MAX_APPROVALS;
        if is_decided {
            let reason = "another approval about the same is in effect here".to_owned();
            self.count(Kind::Permission, &id, Outcome::Rejected(reason));
            return Ok(());
        }
        if self.trust == Trust::No && is_full && !is_stored {
            let reason = format!("the project has more than {MAX_APPROVALS} approvals");
            self.count(Kind::Permission, &id, Outcome::Rejected(reason));
            return Ok(());
        }
        self.carried().add_approval(&format!("project {project}"), &rule);
        match (self.trust, is_stored) {
            (Trust::Yes, _) => {
                let write = Write::Approval(project, rule);
                self.push(Pending { kind: Kind::Permission, id, count: 1, fresh: false, write })
            }
            (Trust::No, true) => {
                self.count(Kind::Permission, &id, Outcome::Unchanged);
                Ok(())
            }
            (Trust::No, false) => {
                self.approval_group(&project)?.fresh.push(rule);
                Ok(())
            }
        }
    }

    /// The group of `project`; approvals of a project come one after the other.
    fn approval_group(&mut self, project: &ProjectId) -> Result<&mut ApprovalGroup, StoreError> {
        if self.approvals.as_ref().is_none_or(|group| group.project != *project) {
            self.finish_approvals()?;
            self.flush()?;
            let (live, here) = self
                .store
                .read(&self.ctx, |r| Ok((r.approvals(project)?, r.find_project(project)?)))?;
            let stored = here.map(|here| here.imported_approvals).unwrap_or_default();
            let project = project.clone();
            self.approvals = Some(ApprovalGroup { project, live, stored, fresh: Vec::new() });
        }
        self.approvals.as_mut().ok_or_else(|| StoreError::Invalid("no approvals".to_owned()))
    }

    /// Stores the approvals of the project that was read last.
    pub(super) fn finish_approvals(&mut self) -> Result<(), StoreError> {
        let Some(ApprovalGroup { project, fresh, .. }) = self.approvals.take() else {
            return Ok(());
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let (id, count) = (project.to_string(), fresh.len() as u64);
        let write = Write::SetAside(project, fresh);
        self.push(Pending { kind: Kind::Permission, id, count, fresh: false, write })
    }
}

/// A path without links and `..`, as far as it exists.
fn real_path(named: &Path) -> PathBuf {
    let mut missing = Vec::new();
    for ancestor in named.ancestors() {
        let Ok(mut real) = fs_err::canonicalize(ancestor) else {
            missing.push(ancestor.components().next_back());
            continue;
        };
        for part in missing.into_iter().rev().flatten() {
            match part {
                Component::ParentDir => drop(real.pop()),
                Component::Normal(name) => real.push(name),
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
            }
        }
        return real;
    }
    named.to_path_buf()
}

/// True for a path with `..` in it.
fn leads_up(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Takes the further directories out of a new project: a session that works in one of them brings it
/// back.
fn further(project: &mut Project) -> Vec<String> {
    let root = project.worktree.clone();
    let aliases = std::mem::take(&mut project.aliases);
    let (own, others): (Vec<_>, Vec<_>) = aliases.into_iter().partition(|it| it.value == root);
    project.aliases = own;
    project.sandboxes.clear();
    others.into_iter().take(MAX_DIRECTORIES).map(|alias| alias.value).collect()
}
