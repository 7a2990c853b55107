//! Projections of projects, sessions and what belongs to a session as a whole.

use rusqlite::{Connection, params};
use serde::Deserialize;
use serde_json::Number;
use turnstone_core::event::EventKind;
use turnstone_core::model::ProjectAlias;

use super::ProjectionEvent;
use crate::error::{Result, StoreError};
use crate::table_row_ids::SessionNum;

/// Reads what a projection needs of a payload; the rest is skipped unparsed.
pub(super) fn read_fields<'a, T: Deserialize<'a>>(event: &ProjectionEvent<'a>) -> Result<T> {
    let json = event
        .payload
        .ok_or_else(|| StoreError::Internal(format!("{} without a payload", event.kind)))?;
    Ok(serde_json::from_str(json)?)
}

pub(super) fn require_session(event: &ProjectionEvent<'_>) -> Result<SessionNum> {
    event.session.ok_or_else(|| StoreError::Internal(format!("{} without a session", event.kind)))
}

fn to_f64(n: &Number) -> f64 {
    n.as_f64().unwrap_or(0.0)
}

#[derive(Deserialize)]
struct ProjectFields {
    id: String,
    worktree: String,
    #[serde(default)]
    aliases: Vec<ProjectAlias>,
}

pub(super) fn apply_project_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    // What became of a worktree is said once; the project itself says which there are.
    if event.kind != EventKind::ProjectUpdated {
        return Ok(());
    }
    let head: ProjectFields = read_fields(event)?;
    conn.prepare_cached(
        "INSERT INTO project (num, id, worktree, image) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (num) DO UPDATE SET worktree = excluded.worktree, image = excluded.image",
    )?
    .execute((event.entity, head.id, head.worktree, event.cursor))?;
    conn.prepare_cached("DELETE FROM project_alias WHERE project = ?1")?.execute([event.entity])?;
    for alias in head.aliases {
        conn.prepare_cached(
            "INSERT OR IGNORE INTO project_alias (kind, value, project) VALUES (?1, ?2, ?3)",
        )?
        .execute((alias.kind.as_str(), alias.value, event.entity))?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct SessionFields {
    id: String,
    #[serde(rename = "projectID")]
    project: String,
    #[serde(rename = "workspaceID")]
    workspace: Option<String>,
    #[serde(rename = "parentID")]
    parent: Option<String>,
    directory: String,
    path: Option<String>,
    title: String,
    time: SessionTimeFields,
}

#[derive(Deserialize)]
struct SessionTimeFields {
    created: Number,
    updated: Number,
    archived: Option<Number>,
}

pub(super) fn apply_session_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    if event.kind == EventKind::SessionDeleted {
        // The rows themselves go in small batches, see `purge`.
        conn.prepare_cached("UPDATE session SET hidden = 1 WHERE num = ?1")?
            .execute([event.entity])?;
        return Ok(());
    }
    let head: SessionFields = read_fields(event)?;
    // Who created it stands in the event that first named it, even when that one is a stub.
    let written = conn
        .prepare_cached(
            "INSERT INTO session (num, id, project, parent, workspace, directory, path, title,
                                  created, updated, archived, actor, image)
             SELECT ?1, ?2, project.num, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11,
                    coalesce((SELECT actor FROM event WHERE cursor = ?1), ?12), ?13
             FROM project WHERE project.id = ?3
             ON CONFLICT (num) DO UPDATE SET
               project = excluded.project, parent = excluded.parent,
               workspace = excluded.workspace, directory = excluded.directory,
               path = excluded.path, title = excluded.title, created = excluded.created,
               updated = excluded.updated, archived = excluded.archived, image = excluded.image",
        )?
        .execute(params![
            event.entity,
            head.id,
            head.project,
            head.parent,
            head.workspace,
            head.directory,
            head.path,
            head.title,
            to_f64(&head.time.created),
            to_f64(&head.time.updated),
            head.time.archived.as_ref().map(to_f64),
            event.actor,
            event.cursor,
        ])?;
    if written == 0 {
        return Err(StoreError::NotFound { kind: "project", id: head.project });
    }
    Ok(())
}

pub(super) fn apply_todo_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO todo (session, image) VALUES (?1, ?2)")?
        .execute((require_session(event)?, event.cursor))?;
    Ok(())
}

pub(super) fn apply_diff_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    conn.prepare_cached("INSERT OR REPLACE INTO diff (session, image) VALUES (?1, ?2)")?
        .execute((require_session(event)?, event.cursor))?;
    Ok(())
}

#[derive(Deserialize)]
struct ShareFields {
    id: String,
    url: String,
}

pub(super) fn apply_share_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    let session = require_session(event)?;
    let shared = event.kind == EventKind::ShareCreated;
    if shared {
        let head: ShareFields = read_fields(event)?;
        conn.prepare_cached(
            "INSERT OR REPLACE INTO share (session, id, url, image) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((session, head.id, head.url, event.cursor))?;
    } else {
        conn.prepare_cached("DELETE FROM share WHERE session = ?1")?.execute([session])?;
    }
    conn.prepare_cached("UPDATE session SET shared = ?2 WHERE num = ?1")?
        .execute((session, shared))?;
    Ok(())
}

#[derive(Deserialize)]
struct ApprovalFields {
    permission: String,
    pattern: String,
    action: String,
}

/// The entity of an approval is its project.
pub(super) fn apply_approval_event(conn: &Connection, event: &ProjectionEvent<'_>) -> Result<()> {
    let head: ApprovalFields = read_fields(event)?;
    if event.kind == EventKind::ApprovalWithdrawn {
        conn.prepare_cached(
            "DELETE FROM approval WHERE project = ?1 AND permission = ?2 AND pattern = ?3",
        )?
        .execute((event.entity, head.permission, head.pattern))?;
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO approval (project, permission, pattern, action, granted)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((event.entity, head.permission, head.pattern, head.action, event.cursor))?;
    Ok(())
}
