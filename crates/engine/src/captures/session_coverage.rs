//! Roots: which store covers a session, and where in it a tool's path lies (R16, R39).

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use turnstone_core::change::ChangeRoot;
use turnstone_core::model::Session;
use turnstone_core::rel_path::RelPath;
use turnstone_core::time::EpochMillis;
use turnstone_snapshot::{SnapshotError, SnapshotHandle};

use crate::captures::snapshot_handles::SnapshotHandles;
use crate::error::{EngineError, Result};
use crate::permissions::is_link_circle;

/// Whether the files of a session are captured.
pub enum SnapshotAccess {
    /// They are, in this store.
    Available(Arc<SnapshotHandle>),
    /// They are not: the session works, and its file changes cannot be undone (R6).
    Refused(SnapshotError),
}

/// Where a path of a tool lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathLocation {
    /// Below the root, links resolved; `also` is the link itself, if the path named one.
    Inside {
        /// Where the bytes are.
        path: RelPath,
        /// The link that leads there.
        also: Option<RelPath>,
    },
    /// Outside of the root: it is not captured, and never written by an undo.
    Outside,
}

impl SnapshotHandles {
    /// The store that covers a session.
    ///
    /// # Errors
    ///
    /// [`EngineError::RootGone`] if its directory is not there.
    pub fn open_for_session(&self, session: &Session, now: EpochMillis) -> Result<SnapshotAccess> {
        let directory = Path::new(&session.directory);
        if !directory.is_dir() {
            let path = directory.to_owned();
            return Err(EngineError::RootGone { session: session.id.clone(), path });
        }
        match self.open(directory, now) {
            Ok(handle) => Ok(SnapshotAccess::Available(handle)),
            Err(error) if error.is_refused_root() => Ok(SnapshotAccess::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }
}

/// What is known of the captures of a session.
pub enum SessionCoverage {
    /// This root is captured, or will be from the first change on.
    Covered {
        /// The root.
        root: PathBuf,
        /// True once the whole root was captured.
        has_baseline: bool,
    },
    /// It is not captured, for this reason.
    Refused(SnapshotError),
}

impl SnapshotHandles {
    /// Tells whether the files of a session are captured, without making a store for them.
    ///
    /// # Errors
    ///
    /// [`EngineError::RootGone`] if its directory is not there.
    pub fn find_coverage(&self, session: &Session, now: EpochMillis) -> Result<SessionCoverage> {
        let directory = Path::new(&session.directory);
        if !directory.is_dir() {
            let path = directory.to_owned();
            return Err(EngineError::RootGone { session: session.id.clone(), path });
        }
        let found = self.find(directory, now).and_then(|handle| match handle {
            Some(handle) => Ok((handle.location().root.clone(), handle.reader().has_baseline())),
            None => {
                let registry = self.registry();
                let root = registry.find_root(directory, self.policy())?;
                Ok((root, false))
            }
        });
        match found {
            Ok((root, has_baseline)) => Ok(SessionCoverage::Covered { root, has_baseline }),
            Err(error) if error.is_refused_root() => Ok(SessionCoverage::Refused(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// The store of another root of the session's project that holds a path, and where in it the
    /// path lies; nothing if no root does, or the root is not captured (R39).
    pub(crate) fn locate_in_other_roots(
        &self,
        session: &Session,
        roots: &[String],
        path: &Path,
        now: EpochMillis,
    ) -> Result<Option<(Arc<SnapshotHandle>, PathLocation)>> {
        let asked = Path::new(&session.directory).join(path);
        let Some(real) = resolve_links(&asked)? else {
            return Ok(None);
        };
        let holds = |root: &&Path| real.starts_with(root) && root.is_dir();
        let closest = roots.iter().map(Path::new).filter(holds);
        let Some(root) = closest.max_by_key(|root| root.components().count()) else {
            return Ok(None);
        };
        let handle = match self.open(root, now) {
            Ok(handle) => handle,
            Err(error) if error.is_refused_root() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match locate_path(&handle, root, &real)? {
            PathLocation::Outside => Ok(None),
            found @ PathLocation::Inside { .. } => Ok(Some((handle, found))),
        }
    }
}

/// The root of a store, as change sets name it.
pub(crate) fn change_root_of(handle: &SnapshotHandle) -> ChangeRoot {
    let place = handle.location();
    ChangeRoot { store: place.id.to_string(), path: place.root.to_string_lossy().into_owned() }
}

/// Finds where `path`, relative to `directory`, lies in the root of `handle`.
///
/// Every link on the way is followed first, by the kernel's own answer; names that do not exist
/// yet are taken as they are.
pub(crate) fn locate_path(
    handle: &SnapshotHandle,
    directory: &Path,
    path: &Path,
) -> std::io::Result<PathLocation> {
    let root = &handle.location().root;
    let asked = directory.join(path);
    let Some(real) = resolve_links(&asked)? else {
        return Ok(PathLocation::Outside);
    };
    let Some(inside) = relative_path(root, &real) else {
        return Ok(PathLocation::Outside);
    };
    // The path names a link: replacing the file replaces the link, not its target.
    let link = match (asked.parent(), asked.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent)?.map(|parent| parent.join(name)),
        _ => None,
    };
    let also = link.filter(|link| *link != real).and_then(|link| relative_path(root, &link));
    Ok(PathLocation::Inside { path: inside, also })
}

fn relative_path(root: &Path, path: &Path) -> Option<RelPath> {
    let relative = path.strip_prefix(root).ok()?;
    RelPath::new(relative.as_os_str().as_bytes()).ok()
}

fn leads_nowhere(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory};
    [InvalidFilename, InvalidInput, NotADirectory].contains(&error.kind())
}

/// The real path of the part that exists; `None` if a missing part is followed by `..`, or if no file can have this
/// path.
fn resolve_links(path: &Path) -> std::io::Result<Option<PathBuf>> {
    let mut missing = Vec::new();
    let mut at = path;
    loop {
        match fs_err::canonicalize(at) {
            Ok(real) => {
                return Ok(Some(
                    missing.into_iter().rev().fold(real, |path, name| path.join(name)),
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // Through a file, or in a circle of links: no file can be there.
            Err(error) if leads_nowhere(&error) || is_link_circle(at)? => return Ok(None),
            Err(error) => return Err(error),
        }
        // A dangling link counts as a name.
        match at.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name),
            _ => return Ok(None),
        }
        match at.parent() {
            Some(parent) => at = parent,
            None => return Ok(None),
        }
    }
}
