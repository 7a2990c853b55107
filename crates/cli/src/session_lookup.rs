//! Resolves the session and the turns that a command works on.

use turnstone_core::id::{MessageId, OperationId, SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_engine::{CheckoutScope, Engine, EngineError, RecoveryReport};
use turnstone_store::{Actor, Context, ReadTx, SessionFilter, StoreError};

use crate::app::CliApp;
use crate::error::CliError;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::point_lookup::{self, BEFORE_PREFIX};
use crate::project_location::ProjectLocation;
use crate::turn_ref::{TurnRef, is_turn_number};
use crate::ui::Ui;

/// Projects without a directory that are named where one of them may have been moved to.
const MAX_NAMED_PROJECTS: usize = 5;
/// Sessions per page.
const SESSION_PAGE_SIZE: usize = 100;

/// Recovers the work of dead processes and reports it; returns the operations that were finished.
pub(crate) fn recover_and_report(ui: &mut Ui, engine: &Engine, ctx: &Context) -> Vec<OperationId> {
    let opened = engine.store().turn_recovery().interrupted.len();
    let recovered = engine.maintenance().recover_all(ctx);
    let finished = recovered.as_ref().map(|done| done.finished.clone()).unwrap_or_default();
    report_recovery(ui, opened, recovered);
    finished
}

/// Reports what recovery did; `opened` turns were ended when the database was opened.
pub(crate) fn report_recovery(
    ui: &mut Ui,
    opened: usize,
    recovered: Result<RecoveryReport, EngineError>,
) {
    match recovered {
        Ok(RecoveryReport { interrupted, closed, continued, finished, pending, removed }) => {
            let turns =
                number_format::format_counted(opened + interrupted.len(), "interrupted turn");
            if opened + interrupted.len() > 0 {
                let recorded =
                    if closed.is_empty() { "" } else { "; the changed files are recorded" };
                ui.print_note(&format!("recovered {turns}{recorded}"));
            } else if !closed.is_empty() {
                let calls = number_format::format_counted(closed.len(), "interrupted command");
                ui.print_note(&format!("recovered {calls}"));
            }
            if !continued.is_empty() {
                let calls = number_format::format_counted(continued.len(), "command");
                ui.print_dim_note(&format!(
                    "recorded what processes changed that {calls} had left running"
                ));
            }
            if !pending.is_empty() {
                let calls = number_format::format_counted(pending.len(), "command");
                ui.print_note(&format!(
                    "no space left to record what {calls} changed; free some disk space"
                ));
            }
            if !finished.is_empty() {
                let count = number_format::format_counted(finished.len(), "interrupted operation");
                ui.print_note(&format!("finished {count}"));
            }
            if !removed.is_empty() {
                let count = number_format::format_counted(removed.len(), "unfinished fork");
                ui.print_note(&format!("removed {count}"));
            }
        }
        Err(error) if error.is_full() => {
            ui.print_note("no space left to recover interrupted commands; free some disk space");
        }
        // This may concern another session; commands on that session report it again.
        Err(error) => tracing::warn!("cannot recover an interrupted command: {error}"),
    }
}

/// The given session, or the newest session of the directory.
///
/// # Errors
///
/// [`CliError::NoSessionHere`], or what [`IdPrefix::resolve_session`] answers.
pub(crate) fn resolve_session_or_newest(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&IdPrefix>,
) -> Result<Session, CliError> {
    let store = engine.store();
    if let Some(prefix) = wanted {
        let id = prefix.resolve_session(store, ctx)?;
        return Ok(store.read(ctx, |r| r.sessions().get(&id))?);
    }
    find_newest_session(app, engine, ctx)?.ok_or_else(|| no_session_error(app, engine, ctx))
}

/// The error of a command that needs a session in a directory without one.
pub(crate) fn no_session_error(app: &CliApp, engine: &Engine, ctx: &Context) -> CliError {
    let describe = || {
        let directory = app.directory()?;
        let similar = ProjectLocation::find(engine, ctx, directory)?.similar;
        let similar = similar.into_iter().map(|project| (project.id, project.worktree)).collect();
        let listed = engine.projects().list(ctx)?.into_iter().rev();
        let gone = listed.filter(|it| !it.exists && it.sessions > 0).map(|it| it.project);
        let gone = gone.map(|project| (project.id, project.worktree)).take(MAX_NAMED_PROJECTS);
        let (directory, gone) = (directory.to_owned(), gone.collect());
        Ok(CliError::NoSessionHere { directory, similar, gone })
    };
    describe().unwrap_or_else(|error| error)
}

/// The newest session of the directory that was created or continued here; an imported one only if there
/// is no other. Imported sessions carry foreign timestamps and could hide the session to undo.
pub(crate) fn find_newest_session(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
) -> Result<Option<Session>, CliError> {
    let (mut found, mut imported) = (None, None);
    for_each_session_here(app, engine, ctx, &mut |r, session| {
        let was_used_here = was_used_here(r, &session)?;
        let _newest = if was_used_here { &mut found } else { &mut imported }.get_or_insert(session);
        Ok(!was_used_here)
    })?;
    Ok(found.or(imported))
}

/// Whether a session was created or continued here.
fn was_used_here(r: &ReadTx<'_>, session: &Session) -> Result<bool, StoreError> {
    Ok(r.sessions().actor(&session.id)? != Actor::IMPORT
        || r.turns().list(&session.id)?.iter().any(|turn| !turn.imported))
}

/// Calls `visit` with the sessions of the directory, newest first, until it returns false.
fn for_each_session_here(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    visit: &mut dyn FnMut(&ReadTx<'_>, Session) -> Result<bool, StoreError>,
) -> Result<(), CliError> {
    let location = ProjectLocation::find(engine, ctx, app.directory()?)?;
    let project = location.project.clone();
    if project.is_none() {
        return Ok(());
    }
    let filter = SessionFilter { roots: true, project, ..SessionFilter::default() };
    Ok(engine.store().read(ctx, |r| {
        let mut cursor = None;
        loop {
            let page = r.sessions().list(&filter, cursor.as_deref(), SESSION_PAGE_SIZE)?;
            for row in page.items.into_iter().filter(|row| location.contains_session(&row.session))
            {
                if !visit(r, row.session)? {
                    return Ok(());
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    })?)
}

/// The checkout of the current directory; an error if it has no session.
///
/// # Errors
///
/// [`CliError::NoSessionHere`].
pub(crate) fn resolve_checkout(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
) -> Result<CheckoutScope, CliError> {
    let scope = ProjectLocation::find(engine, ctx, app.directory()?)?.scope();
    match scope {
        Some(scope) if find_newest_session(app, engine, ctx)?.is_some() => Ok(scope),
        _ => Err(no_session_error(app, engine, ctx)),
    }
}

/// Resolves a turn in the given session, or in all sessions of the directory. Numbers count the turns of
/// the directory.
///
/// # Errors
///
/// [`CliError::NoTurn`], or [`CliError::Refused`] if the prefix is ambiguous.
pub(crate) fn resolve_turn(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&Session>,
    typed: &TurnRef,
) -> Result<(SessionId, TurnId), CliError> {
    match typed {
        TurnRef::Prefix(typed) => resolve_turn_prefix(app, engine, ctx, wanted, typed),
        TurnRef::Number(number) => {
            let scope = resolve_checkout(app, engine, ctx)?;
            let found = engine.history().checkout_turns().find_by_number(ctx, &scope, *number)?;
            let (session, turn) = found.ok_or_else(|| CliError::NoTurn(format!("@{number}")))?;
            match wanted.filter(|wanted| wanted.id != session) {
                None => Ok((session, turn)),
                Some(Session { id, .. }) => {
                    let what = format!("turn @{number} belongs to session {session}, not to {id}");
                    Err(CliError::Refused { what, hint: None })
                }
            }
        }
    }
}

/// The session that a point belongs to, and the point with the ID of a turn in place of its number. Only a
/// number says itself which session is meant.
///
/// # Errors
///
/// As [`resolve_session_or_newest`] and [`resolve_turn`].
pub(crate) fn resolve_session_of_point(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&IdPrefix>,
    typed: &str,
) -> Result<(Session, String), CliError> {
    let (before, turn) = match typed.strip_prefix(BEFORE_PREFIX) {
        Some(turn) => (BEFORE_PREFIX, turn),
        None => ("", typed),
    };
    if !is_turn_number(turn) {
        let session = resolve_session_or_newest(app, engine, ctx, wanted)?;
        return Ok((session, typed.to_owned()));
    }
    let refused = |what: String| CliError::Refused { what, hint: None };
    let turn: TurnRef = turn.parse().map_err(refused)?;
    let wanted = match wanted {
        Some(_) => Some(resolve_session_or_newest(app, engine, ctx, wanted)?),
        None => None,
    };
    let (session, turn) = resolve_turn(app, engine, ctx, wanted.as_ref(), &turn)?;
    let session = engine.store().read(ctx, |r| r.sessions().get(&session))?;
    Ok((session, format!("{before}{turn}")))
}

/// The message that `typed` means, in the newest session of the directory that has one; `None` if no session has.
///
/// # Errors
///
/// [`CliError::Refused`] if the prefix is ambiguous in that session.
pub(crate) fn find_message(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    typed: &str,
) -> Result<Option<(Session, MessageId)>, CliError> {
    if is_turn_number(typed) {
        return Ok(None);
    }
    let mut sessions = Vec::new();
    for_each_session_here(app, engine, ctx, &mut |_, session| {
        sessions.push(session);
        Ok(true)
    })?;
    for session in sessions {
        if let Some(message) = point_lookup::find_message(engine, ctx, &session, typed)? {
            return Ok(Some((session, message)));
        }
    }
    Ok(None)
}

fn resolve_turn_prefix(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    wanted: Option<&Session>,
    typed: &IdPrefix,
) -> Result<(SessionId, TurnId), CliError> {
    let begins = |id: &TurnId| {
        id.as_str().starts_with(typed.as_str())
            || id.as_str().strip_prefix("trn_").is_some_and(|id| id.starts_with(typed.as_str()))
    };
    let mut found: Vec<(SessionId, TurnId)> = Vec::new();
    let mut look = |r: &ReadTx<'_>, session: &SessionId| {
        let turns = r.turns().list(session)?.into_iter().filter(|turn| begins(&turn.id));
        found.extend(turns.map(|turn| (session.clone(), turn.id)));
        Ok::<(), StoreError>(())
    };
    match wanted {
        Some(session) => engine.store().read(ctx, |r| look(r, &session.id))?,
        None => for_each_session_here(app, engine, ctx, &mut |r, session| {
            look(r, &session.id)?;
            Ok(true)
        })?,
    }
    if let Some(exact) = found.iter().find(|(_, id)| id.as_str() == typed.as_str()) {
        return Ok(exact.clone());
    }
    match found.as_slice() {
        [] => Err(CliError::NoTurn(typed.as_str().to_owned())),
        [only] => Ok(only.clone()),
        many => Err(CliError::Refused {
            what: format!(
                "turn ID \"{}\" is ambiguous: {} match",
                typed.as_str(),
                number_format::format_counted(many.len(), "turn")
            ),
            hint: Some("use a longer prefix of the ID".to_owned()),
        }),
    }
}
