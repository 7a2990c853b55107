//! The layout before `storage/`: `project/<name>/storage/session/{info,message,part}`.
//!
//! OpenCode named a project after its first commit when it left this layout, which takes git and the
//! worktree. Here the project keeps the name of its directory; its worktree is an alias by which it is
//! found again (R31).

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::SourceError;
use super::files::{self, Entry};
use super::record::{Record, Sink, hand};
use super::storage::{Folder, message_file, parts};

type Flow = Result<ControlFlow<()>, SourceError>;

/// True if `dir` is the directory `project` of this layout.
pub(super) fn is_one(dir: &Path) -> bool {
    let sessions = |path: PathBuf| path.join("storage").join("session").join("info").is_dir();
    files::list_dirs(dir).unwrap_or_default().into_iter().any(|(_, path)| sessions(path))
}

/// Hands on one project per directory.
pub(super) fn projects(dir: &Path, sink: Sink<'_>) -> Flow {
    for (name, path) in files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        if !root.join("info").is_dir() {
            continue;
        }
        let worktree = worktree(&root.join("message"))?.unwrap_or_else(|| "/".to_owned());
        let body = json!({ "worktree": worktree, "sandboxes": [] });
        hand!(sink(Record::Project { id: name, body }));
    }
    Ok(ControlFlow::Continue(()))
}

/// The root of the worktree, as the first message that names one says.
fn worktree(messages: &Path) -> Result<Option<String>, SourceError> {
    for (_, dir) in files::list_dirs(messages)? {
        for entry in files::list_files(&dir)? {
            let Entry::Json { path, .. } = entry else {
                continue;
            };
            let body = files::read_json(&path).unwrap_or_default();
            if let Some(root) = body.pointer("/path/root").and_then(Value::as_str) {
                return Ok(Some(root.to_owned()));
            }
        }
    }
    Ok(None)
}

/// Every session of this layout with the places of its files.
pub(super) fn folders(dir: &Path) -> Result<Vec<(String, Folder)>, SourceError> {
    let mut list = Vec::new();
    for (project, path) in files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        for entry in files::list_files(&root.join("info"))? {
            let Entry::Json { name, path } = entry else {
                continue;
            };
            let folder = Folder {
                project: project.clone(),
                messages: root.join("message").join(&name),
                parts: root.join("part").join(&name),
                file: path,
            };
            list.push((name, folder));
        }
    }
    Ok(list)
}

/// Messages and parts of sessions that have no file of their own.
pub(super) fn strays(dir: &Path, sink: Sink<'_>) -> Flow {
    let known: HashSet<String> = folders(dir)?.into_iter().map(|(id, _)| id).collect();
    for (_, path) in files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        for (session, path) in files::list_dirs(&root.join("message"))? {
            if !known.contains(&session) {
                for entry in files::list_files(&path)? {
                    hand!(sink(message_file(&entry, &session).1));
                }
            }
        }
        for (session, path) in files::list_dirs(&root.join("part"))? {
            if !known.contains(&session) {
                for (message, path) in files::list_dirs(&path)? {
                    hand!(parts(&path, &message, 0, sink)?);
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
