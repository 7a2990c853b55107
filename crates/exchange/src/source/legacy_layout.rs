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
use super::json_files::{self, JsonDirEntry};
use super::json_storage::{SessionFiles, read_message_file, read_parts};
use super::source_record::{RecordSink, SourceRecord, hand};

type LegacyFlow = Result<ControlFlow<()>, SourceError>;

/// True if `dir` is the directory `project` of this layout.
pub(super) fn is_legacy_layout(dir: &Path) -> bool {
    let sessions = |path: PathBuf| path.join("storage").join("session").join("info").is_dir();
    json_files::list_dirs(dir).unwrap_or_default().into_iter().any(|(_, path)| sessions(path))
}

/// Hands on one project per directory.
pub(super) fn read_projects(dir: &Path, sink: RecordSink<'_>) -> LegacyFlow {
    for (name, path) in json_files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        if !root.join("info").is_dir() {
            continue;
        }
        let worktree = find_worktree(&root.join("message"))?.unwrap_or_else(|| "/".to_owned());
        let body = json!({ "worktree": worktree, "sandboxes": [] });
        hand!(sink(SourceRecord::Project { id: name, body }));
    }
    Ok(ControlFlow::Continue(()))
}

/// The root of the worktree, as the first message that names one says.
fn find_worktree(messages: &Path) -> Result<Option<String>, SourceError> {
    for (_, dir) in json_files::list_dirs(messages)? {
        for entry in json_files::list_files(&dir)? {
            let JsonDirEntry::Json { path, .. } = entry else {
                continue;
            };
            let body = json_files::read_json(&path).unwrap_or_default();
            if let Some(root) = body.pointer("/path/root").and_then(Value::as_str) {
                return Ok(Some(root.to_owned()));
            }
        }
    }
    Ok(None)
}

/// Every session of this layout with the places of its files.
pub(super) fn list_session_files(dir: &Path) -> Result<Vec<(String, SessionFiles)>, SourceError> {
    let mut list = Vec::new();
    for (project, path) in json_files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        for entry in json_files::list_files(&root.join("info"))? {
            let JsonDirEntry::Json { name, path } = entry else {
                continue;
            };
            let folder = SessionFiles {
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
pub(super) fn read_orphans(dir: &Path, sink: RecordSink<'_>) -> LegacyFlow {
    let known: HashSet<String> = list_session_files(dir)?.into_iter().map(|(id, _)| id).collect();
    for (_, path) in json_files::list_dirs(dir)? {
        let root = path.join("storage").join("session");
        for (session, path) in json_files::list_dirs(&root.join("message"))? {
            if !known.contains(&session) {
                for entry in json_files::list_files(&path)? {
                    hand!(sink(read_message_file(&entry, &session).1));
                }
            }
        }
        for (session, path) in json_files::list_dirs(&root.join("part"))? {
            if !known.contains(&session) {
                for (message, path) in json_files::list_dirs(&path)? {
                    hand!(read_parts(&path, &message, 0, sink)?);
                }
            }
        }
    }
    Ok(ControlFlow::Continue(()))
}
