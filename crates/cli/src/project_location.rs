//! Finds the project and checkout that a directory belongs to.

use std::path::{Path, PathBuf};

use turnstone_core::id::ProjectId;
use turnstone_core::model::{Project, Session};
use turnstone_engine::{CheckoutScope, DirectoryLocation, Engine};
use turnstone_store::Context;

use crate::error::CliError;
use crate::text;

/// Project and checkout of a directory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProjectLocation {
    /// The project that contains the directory, if any.
    pub(crate) project: Option<ProjectId>,
    /// The checkout that contains the directory, or the directory itself.
    pub(crate) root: String,
    /// Projects that look alike or may have moved here.
    pub(crate) similar: Vec<Project>,
}

impl ProjectLocation {
    /// Finds the project of a directory; one that has moved is found again, which is reported.
    ///
    /// # Errors
    ///
    /// The directory is gone, or the database cannot be read.
    pub(crate) fn find(engine: &Engine, ctx: &Context, directory: &Path) -> Result<Self, CliError> {
        let found = engine.projects().locate(ctx, directory)?;
        let DirectoryLocation { project, root, moved_from, similar } = found;
        let root = root.to_string_lossy().into_owned();
        if let Some(from) = moved_from {
            let (from, to) = (text::sanitize_line(&from), text::sanitize_line(&root));
            tracing::warn!(
                "the project in {from} has moved to {to}; its sessions are found here now"
            );
        }
        Ok(Self { project: project.map(|project| project.id), root, similar })
    }

    /// The checkout, for what acts on all of its sessions.
    pub(crate) fn scope(&self) -> Option<CheckoutScope> {
        let project = self.project.clone()?;
        Some(CheckoutScope { project, root: PathBuf::from(&self.root) })
    }

    /// True if a session belongs to this checkout. Without a project there is none: sessions of
    /// projects further down are theirs.
    pub(crate) fn contains_session(&self, session: &Session) -> bool {
        self.has_same_project(session)
            && !session.directory.is_empty()
            && Path::new(&session.directory).starts_with(&self.root)
    }

    /// True if a session belongs to this project.
    pub(crate) fn has_same_project(&self, session: &Session) -> bool {
        self.project.as_ref() == Some(&session.project)
    }
}
