//! Continuing: the session that the next command of a directory belongs to.

use std::path::Path;

use turnstone_core::id::ProjectId;
use turnstone_core::model::{MessageBody, Session, SessionStatus};
use turnstone_core::time::SessionSeq;
use turnstone_store::{ReadTx, SessionFilter, StoreError};

use super::command_origin::CommandOrigin;

/// Sessions read at once.
const SESSION_PAGE_SIZE: usize = 20;

/// A session that a command can continue, as it was found.
#[derive(Clone, Debug)]
pub struct ContinuableSession {
    /// The session.
    pub session: Session,
    pub(super) seq: SessionSeq,
}

/// Finds the newest session of commands in exactly this directory, if a command can continue it.
pub(super) fn find_continuable(
    r: &ReadTx<'_>,
    project: &ProjectId,
    directory: &Path,
) -> Result<Option<ContinuableSession>, StoreError> {
    let filter = SessionFilter {
        project: Some(project.clone()),
        directory: Some(directory.to_string_lossy().into_owned()),
        roots: true,
        ..SessionFilter::default()
    };
    let mut cursor = None;
    loop {
        let page = r.sessions().list(&filter, cursor.as_deref(), SESSION_PAGE_SIZE)?;
        for session in page.items.into_iter().map(|row| row.session) {
            if is_command_session(r, &session)? {
                return find_continuable_seq(r, session);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(None);
        }
    }
}

/// True if all that the session shows was begun by commands.
fn is_command_session(r: &ReadTx<'_>, session: &Session) -> Result<bool, StoreError> {
    let turns = r.turns().list(&session.id)?;
    let mut shown = turns.iter().filter(|turn| !turn.hidden);
    let (Some(first), last) = (shown.next(), shown.next_back()) else {
        return Ok(false);
    };
    for turn in std::iter::once(first).chain(last) {
        let message = r.messages().get(&session.id, &turn.message)?.message;
        match message.body {
            MessageBody::User(user) if CommandOrigin::is_exec_model(&user.model) => {}
            MessageBody::User(_) | MessageBody::Assistant(_) => return Ok(false),
        }
    }
    Ok(true)
}

fn find_continuable_seq(
    r: &ReadTx<'_>,
    session: Session,
) -> Result<Option<ContinuableSession>, StoreError> {
    let is_idle = matches!(r.sessions().status(&session.id)?, SessionStatus::Idle)
        && !r.operations().sessions_in_operation()?.contains(&session.id);
    if !is_idle || r.sessions().head(&session.id)?.is_some() {
        return Ok(None);
    }
    let seq = r.sessions().seq(&session.id)?;
    Ok(Some(ContinuableSession { session, seq }))
}
