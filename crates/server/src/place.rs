//! Which directory a request is about.
//!
//! The session's own directory wins, then the query, then the header, then where the server was started.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode;
use turnstone_core::model::Project;
use turnstone_core::time::Millis;
use turnstone_store::Context;

use crate::app::App;
use crate::branch::Head;
use crate::error::ApiError;
use crate::input::Query;

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
        let base = &app.settings().directory;
        let directory = text.map_or_else(|| base.clone(), |text| base.join(text));
        if directory.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(ApiError::NotFound("Directory not found: it has a zero byte".to_owned()));
        }
        Ok(Self { directory: plain(&directory), by_query })
    }
}

impl Asked {
    /// The same for a directory that the body names.
    pub(crate) fn at(self, app: &App, directory: &str) -> Result<Self, ApiError> {
        if directory.contains('\0') {
            return Err(ApiError::NotFound("Directory not found: it has a zero byte".to_owned()));
        }
        let directory = plain(&app.settings().directory.join(directory));
        Ok(Self { directory, ..self })
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

    /// The places that were asked about lately.
    pub(crate) fn list(&self) -> Vec<Place> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|(_, _, place)| place.clone()).collect()
    }
}

impl App {
    /// The place of a directory; nothing if the directory is not there.
    pub(crate) fn find_place(&self, ctx: &Context, at: &Path) -> Result<Option<Place>, ApiError> {
        let Some(print) = print_of(at)? else { return Ok(None) };
        let known = &self.places().known;
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((seen, when, place)) = lock().get(at)
            && *seen == print
            && ctx.now.since(*when) < FRESH
        {
            return Ok(Some(place.clone()));
        }
        let open = self.engine().open_project(ctx, at)?;
        let directory = fs_err::canonicalize(at).map_err(|e| ApiError::unexpected(&e))?;
        let head = Head::of(&open.root);
        let place = Place { directory, root: open.root, project: open.project, head };
        lock().insert(at.to_owned(), (print, ctx.now, place.clone()));
        Ok(Some(place))
    }

    /// The place of a directory.
    pub(crate) fn place(&self, ctx: &Context, at: &Path) -> Result<Place, ApiError> {
        let gone = || ApiError::NotFound(format!("Directory not found: {}", at.display()));
        self.find_place(ctx, at)?.ok_or_else(gone)
    }
}

fn print_of(at: &Path) -> Result<Option<Print>, ApiError> {
    let found = match fs_err::metadata(at) {
        Ok(found) if found.is_dir() => found,
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(None),
        Err(error) => return Err(ApiError::unexpected(&error)),
    };
    let git = fs_err::symlink_metadata(at.join(".git")).ok().map(|m| (m.dev(), m.ino()));
    Ok(Some((found.dev(), found.ino(), git)))
}
