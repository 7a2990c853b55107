//! The stored projects and the sessions in them: the one place that changes their rows.

use std::path::Path;
use std::sync::Arc;

use serde_json::Number;
use turnstone_core::id::{ProjectId, SessionId};
use turnstone_core::model::{Project, Session};
use turnstone_store::{Context, SessionFilter, Store};

use crate::error::{EngineError, Result};

/// Sessions read at once.
const PAGE: usize = 200;

/// The stored projects and the sessions in them.
#[derive(Clone)]
pub(crate) struct ProjectRecords {
    pub(crate) store: Arc<Store>,
}

impl ProjectRecords {
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
        let page = self.store.read(ctx, |r| r.sessions().list(&filter, None, 1))?;
        Ok(!page.items.is_empty())
    }

    pub(crate) fn put(&self, ctx: &Context, project: Project) -> Result<Project> {
        let stored = project.clone();
        self.store.write(ctx, move |tx| tx.projects().put(&stored)).wait()?;
        Ok(project)
    }

    /// A project by its id.
    ///
    /// # Errors
    ///
    /// [`EngineError::NoProject`], for one that was removed too.
    pub(crate) fn get(&self, ctx: &Context, id: &ProjectId) -> Result<Project> {
        let found = self.store.read(ctx, |r| r.projects().find(id))?;
        let found = found.filter(|project| project.removed.is_none());
        found.ok_or_else(|| EngineError::NoProject(id.clone()))
    }

    /// Changes a project from what it is at that moment.
    pub(crate) fn modify(
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
    pub(crate) fn list_sessions(&self, ctx: &Context, id: &ProjectId) -> Result<Vec<Session>> {
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
        for session in self.list_sessions(ctx, from)? {
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
}
