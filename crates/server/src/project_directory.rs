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
use turnstone_core::time::EpochMillis;
use turnstone_engine::OpenedProject;
use turnstone_store::Context;

use crate::app::AppState;
use crate::branch_watch::CheckoutHead;
use crate::error::ApiError;
use crate::request_input::QueryParams;

/// Directories remembered at most: they cost memory, and their branches are looked at.
const MAX_CACHED: usize = 256;

/// How long a directory is believed to be what it was.
const CACHE_MS: i64 = 30_000;

/// The directory a request names, not looked at yet.
#[derive(Clone, Debug)]
pub(crate) struct RequestedDirectory {
    /// The directory.
    pub(crate) directory: PathBuf,
    /// True if the request names it in its query: lists are then narrowed to it.
    pub(crate) by_query: bool,
}

impl FromRequestParts<AppState> for RequestedDirectory {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self, ApiError> {
        let query = QueryParams::parse(parts.uri.query().unwrap_or_default());
        if let Some(workspace) =
            query.non_empty("workspace").or(query.non_empty("location[workspace]"))
        {
            return Err(ApiError::NotFound(format!("Workspace not found: {workspace}")));
        }
        let named = query.non_empty("directory").or(query.non_empty("location[directory]"));
        let header = parts
            .headers
            .get("x-opencode-directory")
            .map(|value| percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned());
        let by_query = named.is_some();
        let text = named.map(str::to_owned).or(header.filter(|text| !text.is_empty()));
        let directory = match text {
            None => normalize(&app.settings().directory),
            Some(text) => parse_absolute(&text).map_err(|error| error.into_api_error("Query"))?,
        };
        Ok(Self { directory, by_query })
    }
}

impl RequestedDirectory {
    /// The same for a directory that the body names.
    pub(crate) fn with_body_directory(self, directory: &str) -> Result<Self, ApiError> {
        Ok(Self { directory: body_directory(directory)?, ..self })
    }
}

/// Why a text names no directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedDirectoryError {
    /// A client cannot know what the server would take it relative to.
    Relative,
    /// No file system has such a name.
    ZeroByte,
}

impl RequestedDirectoryError {
    /// The answer; `part` is the part of the request that names the directory.
    fn into_api_error(self, part: &'static str) -> ApiError {
        match self {
            Self::Relative => {
                let message = "Expected an absolute path\n  at [\"directory\"]".to_owned();
                ApiError::InvalidInput { message, kind: part }
            }
            Self::ZeroByte => {
                ApiError::NotFound("Directory not found: it has a zero byte".to_owned())
            }
        }
    }
}

/// The directory that a text of a client names.
fn parse_absolute(text: &str) -> Result<PathBuf, RequestedDirectoryError> {
    let path = Path::new(text);
    if text.contains('\0') {
        return Err(RequestedDirectoryError::ZeroByte);
    }
    if path.is_absolute() { Ok(normalize(path)) } else { Err(RequestedDirectoryError::Relative) }
}

/// The directory that a field of a body names.
pub(crate) fn body_directory(text: &str) -> Result<PathBuf, ApiError> {
    parse_absolute(text).map_err(|error| error.into_api_error("Payload"))
}

/// The directory that a list is narrowed to by its query, as the client wrote it.
pub(crate) fn list_filter_directory(query: &QueryParams) -> Result<Option<String>, ApiError> {
    let Some(text) = query.non_empty("directory") else { return Ok(None) };
    match parse_absolute(text) {
        Err(RequestedDirectoryError::Relative) => {
            Err(RequestedDirectoryError::Relative.into_api_error("Query"))
        }
        // No session is in a directory that cannot be.
        Ok(_) | Err(RequestedDirectoryError::ZeroByte) => Ok(Some(text.to_owned())),
    }
}

/// The same path without `.`, `..` and a slash at its end; the disk is not asked.
fn normalize(path: &Path) -> PathBuf {
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
pub(crate) struct ProjectDirectory {
    /// The directory.
    pub(crate) directory: PathBuf,
    /// The root of its checkout, or the directory itself.
    pub(crate) root: PathBuf,
    /// Its project.
    pub(crate) project: Project,
    /// What the checkout was at when it was looked at.
    pub(crate) head: CheckoutHead,
    /// False if the project was derived, or differs from what the database holds.
    is_stored: bool,
}

/// What makes a directory another one: itself and its repository.
type DirectoryIdentity = (u64, u64, Option<(u64, u64)>);

/// The directories that were asked about lately.
#[derive(Default)]
pub(crate) struct ProjectDirectoryCache {
    known: Mutex<BTreeMap<PathBuf, (DirectoryIdentity, EpochMillis, ProjectDirectory)>>,
}

impl ProjectDirectoryCache {
    /// Clears the cache: the next request reads again.
    pub(crate) fn clear(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The place of a directory that is still the same one.
    fn find(
        &self,
        at: &Path,
        print: DirectoryIdentity,
        now: EpochMillis,
    ) -> Option<ProjectDirectory> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, when, place) = known.get(at)?;
        (*seen == print && now.since(*when) < CACHE_MS).then(|| place.clone())
    }

    /// Remembers a place; where there are too many, the one that was looked at first goes.
    fn insert(
        &self,
        at: &Path,
        print: DirectoryIdentity,
        now: EpochMillis,
        place: ProjectDirectory,
    ) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(at.to_owned(), (print, now, place));
        while known.len() > MAX_CACHED {
            let oldest = known.iter().min_by_key(|(_, (_, when, _))| *when);
            let Some(oldest) = oldest.map(|(path, _)| path.clone()) else { return };
            known.remove(&oldest);
        }
    }

    /// The places that were asked about lately.
    pub(crate) fn list(&self) -> Vec<ProjectDirectory> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|(_, _, place)| place.clone()).collect()
    }
}

/// The place of a directory, for requests that only read; nothing if the directory is not there.
pub(crate) fn find_project_directory(
    app: &AppState,
    ctx: &Context,
    at: &Path,
) -> Result<Option<ProjectDirectory>, ApiError> {
    let Some(print) = directory_identity(at)? else { return Ok(None) };
    if let Some(place) = app.project_directories().find(at, print, ctx.now) {
        return Ok(Some(place));
    }
    let found = app.engine().projects().find_or_derive(ctx, at)?;
    cache_project_directory(app, ctx, at, print, found).map(Some)
}

/// The place of a directory, for requests that only read.
pub(crate) fn require_project_directory(
    app: &AppState,
    ctx: &Context,
    at: &Path,
) -> Result<ProjectDirectory, ApiError> {
    find_project_directory(app, ctx, at)?.ok_or_else(|| directory_not_found(at))
}

/// The place of a directory, for requests that change something: its project is stored.
pub(crate) fn open_project_directory(
    app: &AppState,
    ctx: &Context,
    at: &Path,
) -> Result<ProjectDirectory, ApiError> {
    let print = directory_identity(at)?.ok_or_else(|| directory_not_found(at))?;
    let known = app.project_directories().find(at, print, ctx.now).filter(|place| place.is_stored);
    if let Some(place) = known {
        return Ok(place);
    }
    // A request that is repeated or depends on a number is not about this write.
    let open = app.engine().projects().open(&ctx.without_preconditions(), at)?;
    cache_project_directory(app, ctx, at, print, open)
}

/// The project of a place as it is now, also if nothing has stored it yet.
pub(crate) fn current_project(
    app: &AppState,
    ctx: &Context,
    place: &ProjectDirectory,
) -> Result<Project, ApiError> {
    let stored = app.engine().store().read(ctx, |r| r.projects().find(&place.project.id))?;
    let Some(mut project) = stored.filter(|project| project.removed.is_none()) else {
        return Ok(place.project.clone());
    };
    if !place.is_stored {
        // The database does not know of this directory of it.
        project.worktree.clone_from(&place.project.worktree);
        project.sandboxes.clone_from(&place.project.sandboxes);
        project.vcs.clone_from(&place.project.vcs);
    }
    Ok(project)
}

fn cache_project_directory(
    app: &AppState,
    ctx: &Context,
    at: &Path,
    print: DirectoryIdentity,
    found: OpenedProject,
) -> Result<ProjectDirectory, ApiError> {
    let OpenedProject { project, root, is_stored: stored, .. } = found;
    let directory = fs_err::canonicalize(at).map_err(|e| ApiError::unexpected(&e))?;
    let head = CheckoutHead::read(&root);
    let place = ProjectDirectory { directory, root, project, head, is_stored: stored };
    app.project_directories().insert(at, print, ctx.now, place.clone());
    Ok(place)
}

fn directory_not_found(at: &Path) -> ApiError {
    ApiError::NotFound(format!("Directory not found: {}", at.display()))
}

fn directory_identity(at: &Path) -> Result<Option<DirectoryIdentity>, ApiError> {
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
    fn directory_cache_is_bounded_and_evicts_the_oldest() {
        let places = ProjectDirectoryCache::default();
        let project: Project = serde_json::from_value(serde_json::json!({
            "id": "p", "worktree": "/", "time": { "created": 1, "updated": 1 } }))
        .expect("a project");
        let (root, head) = (PathBuf::from("/"), CheckoutHead::Unknown);
        let place =
            ProjectDirectory { directory: root.clone(), root, project, head, is_stored: false };
        let path = |n: i64| PathBuf::from(format!("/{n}"));
        for n in 0..2_000 {
            places.insert(&path(n), (1, 1, None), EpochMillis(n), place.clone());
        }
        assert_eq!(places.list().len(), MAX_CACHED);
        let is_known = |n: i64| places.find(&path(n), (1, 1, None), EpochMillis(2_000)).is_some();
        assert!(is_known(1_999) && !is_known(0));
    }

    #[test]
    fn relative_directories_are_rejected() {
        assert_eq!(parse_absolute("/a/./b/../c/"), Ok(PathBuf::from("/a/c")));
        for relative in ["", "a", "./a", "..", "~/a"] {
            assert_eq!(
                parse_absolute(relative),
                Err(RequestedDirectoryError::Relative),
                "{relative}"
            );
        }
        assert_eq!(parse_absolute("/a\0"), Err(RequestedDirectoryError::ZeroByte));
    }
}
