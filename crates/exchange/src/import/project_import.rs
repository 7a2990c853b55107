//! Projects of a source and their approvals. A project that is here is not changed by an import: not its
//! rules, its directories, its worktrees, nor its commands.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, Session};
use turnstone_core::permission::PermissionRule;
use turnstone_store::StoreError;

use super::import_run::ImportRun;
use super::rule_trust::{RuleTrust, merge_project_rules};
use super::write_batch::{ImportWrite, ImportedProjectUpdate, QueuedWrite};
use crate::conversion;
use crate::foreign_id::map_foreign_id;
use crate::import_report::{RecordOutcome, to_printable};
use crate::record_kind::RecordKind;

/// Approvals of one project that are stored without being in effect.
const MAX_APPROVALS: usize = 1_000;
/// Further directories of a new project that are looked at.
const MAX_DIRECTORIES: usize = 100;

/// A project that was here before the import began, with its directories.
pub(super) struct ExistingProject {
    id: ProjectId,
    roots: Vec<PathBuf>,
}

impl ExistingProject {
    /// The project, unless it was removed.
    pub(super) fn from_project(project: Project) -> Option<Self> {
        if project.removed.is_some() {
            return None;
        }
        let roots = project.roots().map(Path::to_path_buf).collect();
        Some(Self { id: project.id, roots })
    }
}

/// The approvals of one project, while they are read.
pub(super) struct ProjectApprovals {
    project: ProjectId,
    /// Approvals in effect here.
    effective: Vec<PermissionRule>,
    /// Approvals stored here that are not in effect.
    inert: Vec<PermissionRule>,
    /// Approvals to be stored.
    new: Vec<PermissionRule>,
}

impl ImportRun<'_> {
    pub(super) fn import_project(
        &mut self,
        id: &str,
        adopted: Result<Project, conversion::ConversionError>,
    ) -> Result<(), StoreError> {
        let mut project = match adopted {
            Ok(project) => project,
            Err(reason) => {
                self.record_outcome(
                    RecordKind::Project,
                    id,
                    RecordOutcome::Rejected(to_printable(&reason)),
                );
                return Ok(());
            }
        };
        if self.projects.contains_key(id) {
            // A source that names it twice: the first must be here to be found.
            self.flush()?;
        }
        let rules = project.permission.take().unwrap_or_default();
        let commands = project.commands.take();
        let is_here = self.store.read(&self.ctx, |r| r.projects().find(&project.id))?.is_some();
        let home = self.enclosing_project(&project.worktree, &project.id).filter(|_| !is_here);
        let target = home.map_or_else(|| project.id.clone(), |(id, ..)| id);
        self.report_project_rules(id, &target, (&rules, commands.as_ref()))?;
        self.projects.insert(id.to_owned(), target.clone());
        let write = if is_here || target != project.id {
            if target != project.id {
                let note = format!("project {id} lies in project {target}: its sessions go there");
                self.report.add_note(&note);
            }
            let Project { name, icon, .. } = project;
            let trust = self.trust;
            ImportWrite::Update(Box::new(ImportedProjectUpdate {
                id: target,
                name,
                icon,
                commands,
                rules,
                trust,
            }))
        } else {
            self.unclaimed_directories.insert(target, take_further_directories(&mut project));
            merge_project_rules(&mut project, &rules, self.trust);
            project.commands = commands.filter(|_| self.trust == RuleTrust::Trusted);
            ImportWrite::Project(Box::new(project))
        };
        self.push(QueuedWrite {
            kind: RecordKind::Project,
            id: id.to_owned(),
            count: 1,
            fresh: false,
            write,
        })
    }

    /// Lists what a project of the source says about permissions, as far as it is not in effect.
    fn report_project_rules(
        &mut self,
        id: &str,
        target: &ProjectId,
        (rules, commands): (&[PermissionRule], Option<&Value>),
    ) -> Result<(), StoreError> {
        let here = self.store.read(&self.ctx, |r| r.projects().find(target))?;
        let live = here.as_ref().and_then(|here| here.permission.clone()).unwrap_or_default();
        let of = format!("project {id}");
        self.carried_rules().add_rules(&of, &super::rule_trust::rules_not_in(rules.iter(), &live));
        if let Some(commands) = commands
            && here.is_none_or(|here| here.commands.is_none())
        {
            let start = commands.get("start").and_then(Value::as_str).map(str::to_owned);
            let text = start.unwrap_or_else(|| commands.to_string());
            self.carried_rules().add_command(&of, &text);
        }
        Ok(())
    }

    /// A project the source has no record of: made from its sessions unless it is here.
    pub(super) fn import_implied_project(
        &mut self,
        id: &str,
        worktree: &str,
    ) -> Result<(), StoreError> {
        if self.projects.contains_key(id) {
            return Ok(());
        }
        let Some(fitted) = map_foreign_id::<ProjectId>(id) else {
            return Ok(());
        };
        if self.store.read(&self.ctx, |r| r.projects().find(&fitted.id))?.is_some() {
            self.projects.insert(id.to_owned(), fitted.id);
            self.record_outcome(RecordKind::Project, id, RecordOutcome::Unchanged);
            return Ok(());
        }
        self.import_project(id, conversion::project_from_worktree(id, worktree))
    }

    /// The project here for a project of the source; none if it was not accepted.
    pub(super) fn existing_project_id(&self, id: &str) -> Result<Option<ProjectId>, StoreError> {
        if let Some(here) = self.projects.get(id) {
            return Ok(Some(here.clone()));
        }
        let Some(fitted) = map_foreign_id::<ProjectId>(id) else {
            return Ok(None);
        };
        let here = self.store.read(&self.ctx, |r| r.projects().find(&fitted.id))?;
        Ok(here.map(|here| here.id))
    }

    /// The project that was here before and holds a directory: its id, and the directory's real path with
    /// the root above it. What a person set for that project counts in all of its directories, so an
    /// import cannot give one of them to another project.
    fn enclosing_project(
        &self,
        directory: &str,
        claimed: &ProjectId,
    ) -> Option<(ProjectId, PathBuf, PathBuf)> {
        let named = Path::new(directory);
        if self.existing_projects.is_empty() || !named.is_absolute() {
            return None;
        }
        let real = real_path(named);
        let all = self
            .existing_projects
            .iter()
            .flat_map(|it| it.roots.iter().map(move |root| (it, root)));
        let above = all.filter(|(_, root)| real.starts_with(root));
        let (known, root) =
            above.max_by_key(|(it, root)| (root.components().count(), it.id == *claimed))?;
        Some((known.id.clone(), root.clone(), real))
    }

    /// Puts a new session into the project that holds its directory, and looks at its parent.
    pub(super) fn assign_session(&mut self, session: &mut Session) -> Result<(), StoreError> {
        if let Some((project, root, real)) =
            self.enclosing_project(&session.directory, &session.project)
        {
            if project != session.project {
                let (id, claimed) = (&session.id, &session.project);
                let note = format!(
                    "session {id} of project {claimed} works in project {project}, and is its"
                );
                self.report.add_note(&note);
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
        self.add_session_directory(session)?;
        let Some(parent) = session.parent.clone() else {
            return Ok(());
        };
        let is_local = self.store.read(&self.ctx, |r| match r.sessions().find(&parent)? {
            Some(_) => Ok(r.sessions().actor(&parent)? != super::IMPORT_ACTOR),
            None => Ok(false),
        })?;
        if is_local {
            session.parent = None;
            let note =
                format!("session {}: its parent {parent} was made here; left out", session.id);
            self.report.add_note(&note);
        }
        Ok(())
    }

    /// Gives a session its own project if it names a project of here and lies outside of it: the rules of a
    /// project count in its directories, and an import adds none to it.
    fn separate_session(&mut self, session: &mut Session) -> Result<(), StoreError> {
        let is_bounded = |it: &ExistingProject| it.id == session.project && !it.roots.is_empty();
        let names_other = self.existing_projects.iter().any(is_bounded);
        if !names_other || self.trust == RuleTrust::Trusted || session.directory.is_empty() {
            return Ok(());
        }
        let directory = real_path(Path::new(&session.directory)).to_string_lossy().into_owned();
        let hash = blake3::derive_key("turnstone imported project id v1", directory.as_bytes());
        let id: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
        self.import_implied_project(&id, &directory)?;
        let Some(own) = self.existing_project_id(&id)? else {
            return Err(StoreError::Invalid(format!("no project for {directory}")));
        };
        let note = format!(
            "session {}: {} is outside of project {}; it is in project {own}, and \
             `turnstone import --trust` would let it join",
            session.id,
            to_printable(&directory),
            session.project
        );
        self.report.add_note(&note);
        (session.directory, session.path, session.project) = (directory, Some(String::new()), own);
        Ok(())
    }

    /// Adds the further directory of a new project that a session of it works in.
    fn add_session_directory(&mut self, session: &Session) -> Result<(), StoreError> {
        let Some(further) = self.unclaimed_directories.get_mut(&session.project) else {
            return Ok(());
        };
        let holds = |root: &String| Path::new(&session.directory).starts_with(root);
        let Some(at) = further.iter().position(holds) else {
            return Ok(());
        };
        let write = ImportWrite::Directory(session.project.clone(), further.swap_remove(at));
        let id = session.project.to_string();
        self.push(QueuedWrite { kind: RecordKind::Project, id, count: 0, fresh: false, write })
    }

    pub(super) fn import_approval(
        &mut self,
        id: String,
        project: &str,
        body: Value,
    ) -> Result<(), StoreError> {
        let Some(project) = self.existing_project_id(project)? else {
            let reason = format!("project {} was not imported", to_printable(project));
            return self.record_approval(&id, RecordOutcome::Orphaned(reason));
        };
        let rule = match conversion::convert_rule(body) {
            Ok(rule) => rule,
            Err(reason) => {
                let rejected = RecordOutcome::Rejected(to_printable(&reason));
                return self.record_approval(&id, rejected);
            }
        };
        let group = self.approvals_of(&project)?;
        if group.effective.contains(&rule) {
            return self.record_approval(&id, RecordOutcome::Unchanged);
        }
        let is_about = |one: &PermissionRule| {
            (&one.permission, &one.pattern) == (&rule.permission, &rule.pattern)
        };
        let is_decided = group.effective.iter().any(is_about);
        let is_stored = group.inert.contains(&rule) || group.new.contains(&rule);
        let is_full = group.inert.len() + group.new.len() >= MAX_APPROVALS;
        if is_decided {
            let reason = "another approval about the same is in effect here".to_owned();
            return self.record_approval(&id, RecordOutcome::Rejected(reason));
        }
        if self.trust == RuleTrust::Inert && is_full && !is_stored {
            let reason = format!("the project has more than {MAX_APPROVALS} approvals");
            return self.record_approval(&id, RecordOutcome::Rejected(reason));
        }
        self.carried_rules().add_approval(&format!("project {project}"), &rule);
        match (self.trust, is_stored) {
            (RuleTrust::Trusted, _) => {
                let write = ImportWrite::Approval(project, rule);
                self.push(QueuedWrite {
                    kind: RecordKind::Permission,
                    id,
                    count: 1,
                    fresh: false,
                    write,
                })
            }
            (RuleTrust::Inert, true) => self.record_approval(&id, RecordOutcome::Unchanged),
            (RuleTrust::Inert, false) => {
                self.approvals_of(&project)?.new.push(rule);
                Ok(())
            }
        }
    }

    fn record_approval(&mut self, id: &str, outcome: RecordOutcome) -> Result<(), StoreError> {
        self.record_outcome(RecordKind::Permission, id, outcome);
        Ok(())
    }

    /// The group of `project`; approvals of a project come one after the other.
    fn approvals_of(&mut self, project: &ProjectId) -> Result<&mut ProjectApprovals, StoreError> {
        if self.approvals.as_ref().is_none_or(|group| group.project != *project) {
            self.finish_approvals()?;
            self.flush()?;
            let (live, here) = self.store.read(&self.ctx, |r| {
                Ok((r.projects().approved_rules(project)?, r.projects().find(project)?))
            })?;
            let stored = here.map(|here| here.imported_approvals).unwrap_or_default();
            let project = project.clone();
            self.approvals =
                Some(ProjectApprovals { project, effective: live, inert: stored, new: Vec::new() });
        }
        self.approvals.as_mut().ok_or_else(|| StoreError::Invalid("no approvals".to_owned()))
    }

    /// Stores the approvals of the project that was read last.
    pub(super) fn finish_approvals(&mut self) -> Result<(), StoreError> {
        let Some(ProjectApprovals { project, new: fresh, .. }) = self.approvals.take() else {
            return Ok(());
        };
        if fresh.is_empty() {
            return Ok(());
        }
        let (id, count) = (project.to_string(), fresh.len() as u64);
        let write = ImportWrite::InertApprovals(project, fresh);
        self.push(QueuedWrite { kind: RecordKind::Permission, id, count, fresh: false, write })
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
fn take_further_directories(project: &mut Project) -> Vec<String> {
    let root = project.worktree.clone();
    let aliases = std::mem::take(&mut project.aliases);
    let (own, others): (Vec<_>, Vec<_>) = aliases.into_iter().partition(|it| it.value == root);
    project.aliases = own;
    project.sandboxes.clear();
    others.into_iter().take(MAX_DIRECTORIES).map(|alias| alias.value).collect()
}
