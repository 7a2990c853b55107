//! Which directory a request is about.
//!
//! The session's own directory wins, then the query, then the header, then where the server was started. Requests
//! that only read find the project of a directory or derive it; those that change something store it.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode;
use turnstone_core::model::Project;
use turnstone_core::time::Millis;
use turnstone_engine::OpenProject;
use turnstone_store::Context;

use crate::app::App;
use crate::branch::Head;
use crate::error::ApiError;
use crate::input::Query;

/// Directories remembered at most: they cost memory, and their branches are looked at.
const MOST: usize = 256;

/// How long a directory is believed to be what it was.
const FRESH: i64 = 30_000;

/// The directory a request names, not looked at yet.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The directory.
    pub(crate) directory: PathBuf,
    /// True if the request names it in its query: lists are then narrowed to it.
    pub(crate) by_query: bool,
}

impl FromRequestParts<App> for Asked {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let query = Query::of(parts.uri.query().unwrap_or_default());
        if let Some(workspace) = query.filled("workspace").or(query.filled("location[workspace]")) {
            return Err(ApiError::NotFound(format!("Workspace not found: {workspace}")));
        }
        let named = query.filled("directory").or(query.filled("location[directory]"));
        let header = parts
            .headers
            .get("x-opencode-directory")
            .map(|value| percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned());
        let by_query = named.is_some();
        let text = named.map(str::to_owned).or(header.filter(|text| !text.is_empty()));
        let directory = match text {
            None => plain(&app.settings().directory),
            Some(text) => absolute(&text).map_err(|error| error.in_request("Query"))?,
        };
        Ok(Self { directory, by_query })
    }
}

impl Asked {
    /// The same for a directory that the body names.
    pub(crate) fn at(self, directory: &str) -> Result<Self, ApiError> {
        Ok(Self { directory: body_directory(directory)?, ..self })
    }
}

/// Why a text names no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DirectoryError {
    /// A client cannot know what the server would take it relative to.
    Relative,
    /// No file system has such a name.
    ZeroByte,
}

impl DirectoryError {
    /// The answer; `part` is the part of the request that names the directory.
    fn in_request(self, part: &'static str) -> ApiError {
        match self {
            Self::Relative => {
                let message = "Expected an absolute path\n  at [\"directory\"]".to_owned();
                ApiError::Shape { message, kind: part }
            }
            Self::ZeroByte => {
                ApiError::NotFound("Directory not found: it has a zero byte".to_owned())
            }
        }
    }
}

/// The directory that a text of a client names.
fn absolute(text: &str) -> Result<PathBuf, DirectoryError> {
    let path = Path::new(text);
    if text.contains('\0') {
        return Err(DirectoryError::ZeroByte);
    }
    if path.is_absolute() { Ok(plain(path)) } else { Err(DirectoryError::Relative) }
}

/// The directory that a field of a body names.
pub(crate) fn body_directory(text: &str) -> Result<PathBuf, ApiError> {
    absolute(text).map_err(|error| error.in_request("Payload"))
}

/// The directory that a list is narrowed to by its query, as the client wrote it.
pub(crate) fn narrowed_directory(query: &Query) -> Result<Option<String>, ApiError> {
    let Some(text) = query.filled("directory") else { return Ok(None) };
    match absolute(text) {
        Err(DirectoryError::Relative) => Err(DirectoryError::Relative.in_request("Query")),
        // No session is in a directory that cannot be.
        Ok(_) | Err(DirectoryError::ZeroByte) => Ok(Some(text.to_owned())),
    }
}

/// The same path without `.`, `..` and a slash at its end; the disk is not asked.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => drop(plain.pop()),
            std::path::Component::CurDir => {}
            other @ (std::path::Component::Prefix(_)
            | std::path::Component::RootDir
            | std::path::Component::Normal(_)) => plain.push(other),
        }
    }
    plain
}

/// A directory with the project it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The directory.
    pub(crate) directory: PathBuf,
    /// The root of its checkout, or the directory itself.
    pub(crate) root: PathBuf,
    /// Its project.
    pub(crate) project: Project,
    /// What the checkout was at when it was looked at.
    pub(crate) head: Head,
    /// False if the project was derived, or differs from what the ledger holds.
    stored: bool,
}

/// What makes a directory another one: itself and its repository.
type Print = (u64, u64, Option<(u64, u64)>);

/// The directories that were asked about lately.
#[derive(Default)]
pub(crate) struct Places {
    known: Mutex<BTreeMap<PathBuf, (Print, Millis, Place)>>,
}

impl Places {
    /// Forgets what is known: the next request looks anew.
    pub(crate) fn forget(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The place of a directory that is still the same one.
    fn find(&self, at: &Path, print: Print, now: Millis) -> Option<Place> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, when, place) = known.get(at)?;
        (*seen == print && now.since(*when) < FRESH).then(|| place.clone())
    }

    /// Remembers a place; where there are too many, the one that was looked at first goes.
    fn insert(&self, at: &Path, print: Print, now: Millis, place: Place) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(at.to_owned(), (print, now, place));
        while known.len() > MOST {
            let oldest = known.iter().min_by_key(|(_, (_, when, _))| *when);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { return };
            known.remove(&oldest);
        }
    }

    /// The places that were asked about lately.
    pub(crate) fn list(&self) -> Vec<Place> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|(_, _, place)| place.clone()).collect()
    }
}

impl App {
    /// The place of a directory, for requests that only read; nothing if the directory is not there.
    pub(crate) fn find_place(&self, ctx: &Context, at: &Path) -> Result<Option<Place>, ApiError> {
        let Some(print) = print_of(at)? else { return Ok(None) };
        if let Some(place) = self.places().find(at, print, ctx.now) {
            return Ok(Some(place));
        }
        let found = self.engine().find_or_derive_project(ctx, at)?;
        self.remember_place(ctx, at, print, found).map(Some)
    }

    /// The place of a directory, for requests that only read.
    pub(crate) fn place(&self, ctx: &Context, at: &Path) -> Result<Place, ApiError> {
        self.find_place(ctx, at)?.ok_or_else(|| no_directory(at))
    }

    /// The place of a directory, for requests that change something: its project is stored.
    pub(crate) fn open_place(&self, ctx: &Context, at: &Path) -> Result<Place, ApiError> {
        let print = print_of(at)?.ok_or_else(|| no_directory(at))?;
        let known = self.places().find(at, print, ctx.now).filter(|place| place.stored);
        if let Some(place) = known {
            return Ok(place);
        }
        // A request that is repeated or depends on a number is not about this write.
        let open = self.engine().open_project(&ctx.aside(), at)?;
        self.remember_place(ctx, at, print, open)
    }

    /// The project of a place as it is now, also if nothing has stored it yet.
    pub(crate) fn project_of(&self, ctx: &Context, place: &Place) -> Result<Project, ApiError> {
        let stored = self.engine().store().read(ctx, |r| r.find_project(&place.project.id))?;
        let Some(mut project) = stored.filter(|project| project.removed.is_none()) else {
            return Ok(place.project.clone());
        };
        if !place.stored {
            // The ledger does not know of this directory of it.
            project.worktree.clone_from(&place.project.worktree);
            project.sandboxes.clone_from(&place.project.sandboxes);
            project.vcs.clone_from(&place.project.vcs);
        }
        Ok(project)
    }

    fn remember_place(
        &self,
        ctx: &Context,
        at: &Path,
        print: Print,
        found: OpenProject,
    ) -> Result<Place, ApiError> {
        let OpenProject { project, root, stored, .. } = found;
        let directory = fs_err::canonicalize(at).map_err(|e| ApiError::unexpected(&e))?;
        let head = Head::of(&root);
        let place = Place { directory, root, project, head, stored };
        self.places().insert(at, print, ctx.now, place.clone());
        Ok(place)
    }
}

fn no_directory(at: &Path) -> ApiError {
    ApiError::NotFound(format!("Directory not found: {}", at.display()))
}

fn print_of(at: &Path) -> Result<Option<Print>, ApiError> {
    use std::io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    let found = match fs_err::metadata(at) {
        Ok(found) if found.is_dir() => found,
        Ok(_) => return Ok(None),
        // No directory has a name that is too long, or lies below a file.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory | InvalidFilename) => {
            return Ok(None);
        }
        Err(error) => return Err(ApiError::unexpected(&error)),
    };
    let git = fs_err::symlink_metadata(at.join(".git")).ok().map(|m| (m.dev(), m.ino()));
    Ok(Some((found.dev(), found.ino(), git)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_places_are_bounded_and_the_oldest_goes_first() {
        let places = Places::default();
        let project: Project = serde_json::from_value(serde_json::json!({
            "id": "p", "worktree": "/", "time": { "created": 1, "updated": 1 } }))
        .expect("a project");
        let (root, head) = (PathBuf::from("/"), Head::Unknown);
        let place = Place { directory: root.clone(), root, project, head, stored: false };
        let path = |n: i64| PathBuf::from(format!("/{n}"));
        for n in 0..2_000 {
            places.insert(&path(n), (1, 1, None), Millis(n), place.clone());
        }
        assert_eq!(places.list().len(), MOST);
        let is_known = |n: i64| places.find(&path(n), (1, 1, None), Millis(2_000)).is_some();
        assert!(is_known(1_999) && !is_known(0));
    }

    #[test]
    fn only_absolute_paths_name_a_directory() {
        assert_eq!(absolute("/a/./b/../c/"), Ok(PathBuf::from("/a/c")));
        for relative in ["", "a", "./a", "..", "~/a"] {
            assert_eq!(absolute(relative), Err(DirectoryError::Relative), "{relative}");
        }
        assert_eq!(absolute("/a\0"), Err(DirectoryError::ZeroByte));
    }
}
