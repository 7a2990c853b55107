//! Resolves the session and the turns that a command works on.

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::model::Session;
use turnstone_engine::{Engine, EngineError, RecoveryReport};
use turnstone_store::{Actor, Context, ReadTx, SessionFilter, Store, StoreError};

use crate::app::CliApp;
use crate::error::CliError;
use crate::id_prefix::IdPrefix;
use crate::number_format;
use crate::project_location::ProjectLocation;
use crate::ui::Ui;

/// Sessions per page.
const SESSION_PAGE_SIZE: usize = 100;

/// Recovers the work of dead processes and reports it.
pub(crate) fn recover_and_report(ui: &mut Ui, engine: &Engine, ctx: &Context) {
    let opened = engine.store().turn_recovery().interrupted.len();
    report_recovery(ui, opened, engine.maintenance().recover_all(ctx));
}

/// Reports what recovery did; `opened` turns were ended when the ledger was opened.
pub(crate) fn report_recovery(
    ui: &mut Ui,
    opened: usize,
    recovered: Result<RecoveryReport, EngineError>,
) {
    match recovered {
        Ok(RecoveryReport { interrupted, closed, finished, removed }) => {
            let turns =
                number_format::format_counted(opened + interrupted.len(), "interrupted turn");
            if opened + interrupted.len() > 0 {
                ui.print_note(&format!("recovered {turns}; the changed files are recorded"));
            } else if !closed.is_empty() {
                let calls = number_format::format_counted(closed.len(), "interrupted command");
                ui.print_note(&format!("recovered {calls}"));
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
    find_newest_session(app, store, ctx)?.ok_or_else(|| no_session_error(app))
}

/// The error of a command that needs a session in a directory without one.
pub(crate) fn no_session_error(app: &CliApp) -> CliError {
    match app.directory() {
        Ok(directory) => CliError::NoSessionHere(directory.to_owned()),
        Err(error) => error,
    }
}

/// The newest session of the directory that was created or continued here; an imported one only if there
/// is no other. Imported sessions carry foreign timestamps and could hide the session to undo.
pub(crate) fn find_newest_session(
    app: &CliApp,
    store: &Store,
    ctx: &Context,
) -> Result<Option<Session>, CliError> {
    let (mut found, mut imported) = (None, None);
    for_each_session_here(app, store, ctx, &mut |r, session| {
        let was_used_here = was_used_here(r, &session)?;
        let _newest = if was_used_here { &mut found } else { &mut imported }.get_or_insert(session);
        Ok(!was_used_here)
    })?;
    Ok(found.or(imported))
}

/// Whether a session was created or continued here: an imported session has no turns.
fn was_used_here(r: &ReadTx<'_>, session: &Session) -> Result<bool, StoreError> {
    Ok(r.sessions().actor(&session.id)? != Actor::IMPORT
        || !r.turns().list(&session.id)?.is_empty())
}

/// Calls `visit` with the sessions of the directory, newest first, until it returns false.
fn for_each_session_here(
    app: &CliApp,
    store: &Store,
    ctx: &Context,
    visit: &mut dyn FnMut(&ReadTx<'_>, Session) -> Result<bool, StoreError>,
) -> Result<(), CliError> {
    let directory = app.directory()?;
    let filter = SessionFilter { roots: true, ..SessionFilter::default() };
    Ok(store.read(ctx, |r| {
        let location = ProjectLocation::find(&r.projects().list()?, directory);
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

/// Resolves a turn in the given session, or in all sessions of the directory.
///
/// # Errors
///
/// [`CliError::NoTurn`], or [`CliError::Refused`] if the prefix is ambiguous.
pub(crate) fn resolve_turn(
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
        None => for_each_session_here(app, engine.store(), ctx, &mut |r, session| {
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
