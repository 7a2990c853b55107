//! Projects of a source and their approvals. A project that is here is not changed by an import: not its
//! rules, its directories, its worktrees, nor its commands.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, Session};
use turnstone_core::permission::PermissionRule;
use turnstone_store::StoreError;

use super::import_run::ImportRun;
use super::rule_trust::{self, RuleTrust, merge_project_rules};
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

pub(super) fn import_project(
    run: &mut ImportRun<'_>,
    id: &str,
    adopted: Result<Project, conversion::ConversionError>,
) -> Result<(), StoreError> {
    let mut project = match adopted {
        Ok(project) => project,
        Err(reason) => {
            run.record_outcome(
                RecordKind::Project,
                id,
                RecordOutcome::Rejected(to_printable(&reason)),
            );
            return Ok(());
        }
    };
    if run.projects.contains_key(id) {
        // A source that names it twice: the first must be here to be found.
        run.flush()?;
    }
    let rules = project.permission.take().unwrap_or_default();
    let commands = project.commands.take();
    let is_here = run.store.read(&run.ctx, |r| r.projects().find(&project.id))?.is_some();
    let home = enclosing_project(run, &project.worktree, &project.id).filter(|_| !is_here);
    let target = home.map_or_else(|| project.id.clone(), |(id, ..)| id);
    report_project_rules(run, id, &target, (&rules, commands.as_ref()))?;
    run.projects.insert(id.to_owned(), target.clone());
    let write = if is_here || target != project.id {
        if target != project.id {
            let note = format!("project {id} lies in project {target}: its sessions go there");
            run.report.add_note(&note);
        }
        let Project { name, icon, .. } = project;
        let trust = run.trust;
        ImportWrite::Update(Box::new(ImportedProjectUpdate {
            id: target,
            name,
            icon,
            commands,
            rules,
            trust,
        }))
    } else {
        run.unclaimed_directories.insert(target, take_further_directories(&mut project));
        merge_project_rules(&mut project, &rules, run.trust);
        project.commands = commands.filter(|_| run.trust == RuleTrust::Trusted);
        ImportWrite::Project(Box::new(project))
    };
    run.push(QueuedWrite {
        kind: RecordKind::Project,
        id: id.to_owned(),
        count: 1,
        fresh: false,
        write,
    })
}

/// Lists what a project of the source says about permissions, as far as it is not in effect.
fn report_project_rules(
    run: &mut ImportRun<'_>,
    id: &str,
    target: &ProjectId,
    (rules, commands): (&[PermissionRule], Option<&Value>),
) -> Result<(), StoreError> {
    let here = run.store.read(&run.ctx, |r| r.projects().find(target))?;
    let live = here.as_ref().and_then(|here| here.permission.clone()).unwrap_or_default();
    let of = format!("project {id}");
    rule_trust::carried_rules(run).add_rules(&of, &rule_trust::rules_not_in(rules.iter(), &live));
    if let Some(commands) = commands
        && here.is_none_or(|here| here.commands.is_none())
    {
        let start = commands.get("start").and_then(Value::as_str).map(str::to_owned);
        let text = start.unwrap_or_else(|| commands.to_string());
        rule_trust::carried_rules(run).add_command(&of, &text);
    }
    Ok(())
}

/// A project the source has no record of: made from its sessions unless it is here.
pub(super) fn import_implied_project(
    run: &mut ImportRun<'_>,
    id: &str,
    worktree: &str,
) -> Result<(), StoreError> {
    if run.projects.contains_key(id) {
        return Ok(());
    }
    let Some(fitted) = map_foreign_id::<ProjectId>(id) else {
        return Ok(());
    };
    if run.store.read(&run.ctx, |r| r.projects().find(&fitted.id))?.is_some() {
        run.projects.insert(id.to_owned(), fitted.id);
        run.record_outcome(RecordKind::Project, id, RecordOutcome::Unchanged);
        return Ok(());
    }
    import_project(run, id, conversion::project_from_worktree(id, worktree))
}

/// The project here for a project of the source; none if it was not accepted.
pub(super) fn existing_project_id(
    run: &ImportRun<'_>,
    id: &str,
) -> Result<Option<ProjectId>, StoreError> {
    if let Some(here) = run.projects.get(id) {
        return Ok(Some(here.clone()));
    }
    let Some(fitted) = map_foreign_id::<ProjectId>(id) else {
        return Ok(None);
    };
    let here = run.store.read(&run.ctx, |r| r.projects().find(&fitted.id))?;
    Ok(here.map(|here| here.id))
}

/// The project that was here before and holds a directory: its id, and the directory's real path with
/// the root above it. What a person set for that project counts in all of its directories, so an
/// import cannot give one of them to another project.
fn enclosing_project(
    run: &ImportRun<'_>,
    directory: &str,
    claimed: &ProjectId,
) -> Option<(ProjectId, PathBuf, PathBuf)> {
    let named = Path::new(directory);
    if run.existing_projects.is_empty() || !named.is_absolute() {
        return None;
    }
    let real = real_path(named);
    let all =
        run.existing_projects.iter().flat_map(|it| it.roots.iter().map(move |root| (it, root)));
    let above = all.filter(|(_, root)| real.starts_with(root));
    let (known, root) =
        above.max_by_key(|(it, root)| (root.components().count(), it.id == *claimed))?;
    Some((known.id.clone(), root.clone(), real))
}

/// Puts a new session into the project that holds its directory, and looks at its parent.
pub(super) fn assign_session(
    run: &mut ImportRun<'_>,
    session: &mut Session,
) -> Result<(), StoreError> {
    if let Some((project, root, real)) =
        enclosing_project(run, &session.directory, &session.project)
    {
        if project != session.project {
            let (id, claimed) = (&session.id, &session.project);
            let note =
                format!("session {id} of project {claimed} works in project {project}, and is its");
            run.report.add_note(&note);
            session.path = real.strip_prefix(&root).ok().map(|p| p.to_string_lossy().into_owned());
            session.project = project;
        }
        // By another name its directory would be outside of the project and of its rules.
        let named = Path::new(&session.directory);
        if !named.starts_with(&root) || leads_up(named) {
            session.directory = real.to_string_lossy().into_owned();
        }
    } else {
        separate_session(run, session)?;
    }
    add_session_directory(run, session)?;
    let Some(parent) = session.parent.clone() else {
        return Ok(());
    };
    let is_local = run.store.read(&run.ctx, |r| match r.sessions().find(&parent)? {
        Some(_) => Ok(r.sessions().actor(&parent)? != super::IMPORT_ACTOR),
        None => Ok(false),
    })?;
    if is_local {
        session.parent = None;
        let note = format!("session {}: its parent {parent} was made here; left out", session.id);
        run.report.add_note(&note);
    }
    Ok(())
}

/// Gives a session its own project if it names a project of here and lies outside of it: the rules of a
/// project count in its directories, and an import adds none to it.
fn separate_session(run: &mut ImportRun<'_>, session: &mut Session) -> Result<(), StoreError> {
    let is_bounded = |it: &ExistingProject| it.id == session.project && !it.roots.is_empty();
    let names_other = run.existing_projects.iter().any(is_bounded);
    if !names_other || run.trust == RuleTrust::Trusted || session.directory.is_empty() {
        return Ok(());
    }
    let directory = real_path(Path::new(&session.directory)).to_string_lossy().into_owned();
    let hash = blake3::derive_key("turnstone imported project id v1", directory.as_bytes());
    let id: String = hash.iter().take(20).map(|byte| format!("{byte:02x}")).collect();
    import_implied_project(run, &id, &directory)?;
    let Some(own) = existing_project_id(run, &id)? else {
        return Err(StoreError::Invalid(format!("no project for {directory}")));
    };
    let note = format!(
        "session {}: {} is outside of project {}; it is in project {own}, and \
         `turnstone import --trust` would let it join",
        session.id,
        to_printable(&directory),
        session.project
    );
    run.report.add_note(&note);
    (session.directory, session.path, session.project) = (directory, Some(String::new()), own);
    Ok(())
}

/// Adds the further directory of a new project that a session of it works in.
fn add_session_directory(run: &mut ImportRun<'_>, session: &Session) -> Result<(), StoreError> {
    let Some(further) = run.unclaimed_directories.get_mut(&session.project) else {
        return Ok(());
    };
    let holds = |root: &String| Path::new(&session.directory).starts_with(root);
    let Some(at) = further.iter().position(holds) else {
        return Ok(());
    };
    let write = ImportWrite::Directory(session.project.clone(), further.swap_remove(at));
    let id = session.project.to_string();
    run.push(QueuedWrite { kind: RecordKind::Project, id, count: 0, fresh: false, write })
}

pub(super) fn import_approval(
    run: &mut ImportRun<'_>,
    id: String,
    project: &str,
    body: Value,
) -> Result<(), StoreError> {
    let Some(project) = existing_project_id(run, project)? else {
        let reason = format!("project {} was not imported", to_printable(project));
        return record_approval(run, &id, RecordOutcome::Orphaned(reason));
    };
    let rule = match conversion::convert_rule(body) {
        Ok(rule) => rule,
        Err(reason) => {
            let rejected = RecordOutcome::Rejected(to_printable(&reason));
            return record_approval(run, &id, rejected);
        }
    };
    let group = approvals_of(run, &project)?;
    if group.effective.contains(&rule) {
        return record_approval(run, &id, RecordOutcome::Unchanged);
    }
    let is_about =
        |one: &PermissionRule| (&one.permission, &one.pattern) == (&rule.permission, &rule.pattern);
    let is_decided = group.effective.iter().any(is_about);
    let is_stored = group.inert.contains(&rule) || group.new.contains(&rule);
    let is_full = group.inert.len() + group.new.len() >= MAX_APPROVALS;
    if is_decided {
        let reason = "another approval about the same is in effect here".to_owned();
        return record_approval(run, &id, RecordOutcome::Rejected(reason));
    }
    if run.trust == RuleTrust::Inert && is_full && !is_stored {
        let reason = format!("the project has more than {MAX_APPROVALS} approvals");
        return record_approval(run, &id, RecordOutcome::Rejected(reason));
    }
    rule_trust::carried_rules(run).add_approval(&format!("project {project}"), &rule);
    match (run.trust, is_stored) {
        (RuleTrust::Trusted, _) => {
            let write = ImportWrite::Approval(project, rule);
            run.push(QueuedWrite {
                kind: RecordKind::Permission,
                id,
                count: 1,
                fresh: false,
                write,
            })
        }
        (RuleTrust::Inert, true) => record_approval(run, &id, RecordOutcome::Unchanged),
        (RuleTrust::Inert, false) => {
            approvals_of(run, &project)?.new.push(rule);
            Ok(())
        }
    }
}

fn record_approval(
    run: &mut ImportRun<'_>,
    id: &str,
    outcome: RecordOutcome,
) -> Result<(), StoreError> {
    run.record_outcome(RecordKind::Permission, id, outcome);
    Ok(())
}

/// The group of `project`; approvals of a project come one after the other.
fn approvals_of<'r>(
    run: &'r mut ImportRun<'_>,
    project: &ProjectId,
) -> Result<&'r mut ProjectApprovals, StoreError> {
    if run.approvals.as_ref().is_none_or(|group| group.project != *project) {
        finish_approvals(run)?;
        run.flush()?;
        let (live, here) = run.store.read(&run.ctx, |r| {
            Ok((r.projects().approved_rules(project)?, r.projects().find(project)?))
        })?;
        let stored = here.map(|here| here.imported_approvals).unwrap_or_default();
        let project = project.clone();
        run.approvals =
            Some(ProjectApprovals { project, effective: live, inert: stored, new: Vec::new() });
    }
    run.approvals.as_mut().ok_or_else(|| StoreError::Invalid("no approvals".to_owned()))
}

/// Stores the approvals of the project that was read last.
pub(super) fn finish_approvals(run: &mut ImportRun<'_>) -> Result<(), StoreError> {
    let Some(ProjectApprovals { project, new: fresh, .. }) = run.approvals.take() else {
        return Ok(());
    };
    if fresh.is_empty() {
        return Ok(());
    }
    let (id, count) = (project.to_string(), fresh.len() as u64);
    let write = ImportWrite::InertApprovals(project, fresh);
    run.push(QueuedWrite { kind: RecordKind::Permission, id, count, fresh: false, write })
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
