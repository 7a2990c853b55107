//! Adoption: a project takes over sessions that were created before their directory belonged to it.
//!
//! A session without a project, and those of a plain folder that has become part of a repository,
//! would otherwise not be found in their directory (R31).

use std::path::Path;
use std::sync::Arc;

use serde_json::Number;
use turnstone_core::model::{Project, ProjectAliasKind};
use turnstone_store::{Context, Store};

use crate::error::Result;
use crate::projects::project_records::ProjectRecords;
use crate::projects::repository::Repositories;

/// The project of sessions that OpenCode knew no project for.
const GLOBAL_PROJECT: &str = "global";

/// Moves sessions to the project that their directory belongs to now.
#[derive(Clone)]
pub(crate) struct SessionAdoption {
    pub(crate) store: Arc<Store>,
    pub(crate) records: ProjectRecords,
    pub(crate) repositories: Repositories,
}

impl SessionAdoption {
    /// Brings the sessions of `root` to its project; returns the project as it is then.
    pub(crate) fn adopt(
        &self,
        ctx: &Context,
        project: Project,
        others: &[Project],
        root: &Path,
    ) -> Result<Project> {
        let mut changed = false;
        for other in others.iter().filter(|other| other.id != project.id) {
            if other.id.as_str() == GLOBAL_PROJECT {
                self.adopt_projectless(ctx, &project, other, root)?;
            } else if self.is_folder_inside(other, root)? {
                self.merge_project(ctx, &project, other)?;
                changed = true;
            }
        }
        if changed { self.records.get(ctx, &project.id) } else { Ok(project) }
    }

    /// True if [`Self::adopt`] would bring sessions to the project of `root`.
    pub(crate) fn has_adoptable(
        &self,
        ctx: &Context,
        project: Option<&Project>,
        others: &[Project],
        root: &Path,
    ) -> Result<bool> {
        for other in others.iter().filter(|other| project.is_none_or(|own| own.id != other.id)) {
            let adoptable = match other.id.as_str() == GLOBAL_PROJECT {
                true => self.records.has_sessions(ctx, &other.id, Some(root))?,
                false => {
                    self.is_folder_inside(other, root)?
                        && self.records.has_sessions(ctx, &other.id, None)?
                }
            };
            if adoptable {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sessions without a project in exactly this directory.
    fn adopt_projectless(
        &self,
        ctx: &Context,
        project: &Project,
        global: &Project,
        root: &Path,
    ) -> Result<()> {
        for session in self.records.list_sessions(ctx, &global.id)? {
            if Path::new(&session.directory) == root {
                let (id, to) = (session.id, project.id.clone());
                let change = move |tx: &turnstone_store::Tx<'_>| {
                    tx.sessions().update(&id, |session| {
                        session.project.clone_from(&to);
                        Ok(())
                    })
                };
                self.store.write(ctx, change).wait()?;
            }
        }
        Ok(())
    }

    /// True for a plain folder that now lies in the checkout `root`.
    fn is_folder_inside(&self, other: &Project, root: &Path) -> Result<bool> {
        let folder = Path::new(&other.worktree);
        let is_plain = other.vcs.is_none() && other.removed.is_none() && other.sandboxes.is_empty();
        let below = folder != root && folder.starts_with(root) && root.parent().is_some();
        Ok(is_plain
            && below
            && folder.is_dir()
            && self.repositories.gather_directory_facts(folder)?.0 == root)
    }

    /// Makes the folder of one project a folder of another one, sessions and all.
    fn merge_project(&self, ctx: &Context, into: &Project, other: &Project) -> Result<()> {
        let folder = Path::new(&other.worktree);
        self.records.move_sessions(ctx, &other.id, &into.id, folder, folder)?;
        let is_place = |kind: ProjectAliasKind| kind == ProjectAliasKind::Directory;
        let places: Vec<_> =
            other.aliases.iter().filter(|alias| is_place(alias.kind)).cloned().collect();
        self.records.modify(ctx, &into.id, move |project| {
            for place in &places {
                if !project.aliases.contains(place) {
                    project.aliases.push(place.clone());
                }
            }
        })?;
        let now = Number::from(ctx.now.0);
        self.records.modify(ctx, &other.id, move |project| {
            project.aliases.clear();
            project.recorded_roots.clear();
            project.worktree.clear();
            project.removed = Some(now.clone());
        })
    }
}
