//! Points: places in a session as people name them.

use turnstone_core::id::{MessageId, OperationId, TurnId};
use turnstone_core::model::Session;
use turnstone_engine::{Engine, SessionPoint};
use turnstone_store::Context;

use crate::error::CliError;
use crate::number_format;

/// What stands before a turn to mean the moment before it.
const BEFORE_PREFIX: &str = "before:";

/// The point a text means: a checkpoint, the end of a turn (`before:TURN`: its beginning), or an
/// operation; ids by a beginning no other id of the session has.
///
/// # Errors
///
/// [`CliError::Refused`] if nothing is called that, or several things are.
pub(crate) fn resolve_point(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    typed: &str,
) -> Result<SessionPoint, CliError> {
    let (turns, operations) = engine
        .store()
        .read(ctx, |r| Ok((r.turns().list(&session.id)?, r.operations().list(&session.id)?)))?;
    let turns: Vec<TurnId> = turns.into_iter().map(|turn| turn.id).collect();
    if let Some(turn) = typed.strip_prefix(BEFORE_PREFIX) {
        let found: Vec<TurnId> = filter_by_prefix(turns, TurnId::PREFIX, turn);
        return require_single(found, typed).map(SessionPoint::Before);
    }
    let named = engine.history().checkpoints().list(ctx, &session.id)?;
    if named.iter().any(|checkpoint| checkpoint.name == typed) {
        return Ok(SessionPoint::Checkpoint(typed.to_owned()));
    }
    let ids: Vec<OperationId> = operations.into_iter().map(|operation| operation.id).collect();
    let turns = filter_by_prefix(turns, TurnId::PREFIX, typed).into_iter().map(SessionPoint::After);
    let operations =
        filter_by_prefix(ids, OperationId::PREFIX, typed).into_iter().map(SessionPoint::Operation);
    require_single(turns.chain(operations).collect(), typed)
}

/// The message a text means: its id, the turn it begins, or a beginning of either.
///
/// # Errors
///
/// As [`resolve_point`].
pub(crate) fn resolve_message(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    typed: &str,
) -> Result<MessageId, CliError> {
    let (outline, turns) = engine
        .store()
        .read(ctx, |r| Ok((r.messages().outline(&session.id)?, r.turns().list(&session.id)?)))?;
    let messages: Vec<MessageId> = outline.into_iter().map(|it| it.message).collect();
    let mut found = filter_by_prefix(messages.clone(), MessageId::PREFIX, typed);
    for turn in turns.into_iter().filter(|turn| messages.contains(&turn.message)) {
        let is_meant = !filter_by_prefix(vec![turn.id], TurnId::PREFIX, typed).is_empty();
        if is_meant && !found.contains(&turn.message) {
            found.push(turn.message);
        }
    }
    require_single(found, typed)
}

/// The ids that begin so, with or without their prefix; the one that is exactly so, if one is.
fn filter_by_prefix<I: ToString>(ids: Vec<I>, prefix: &str, typed: &str) -> Vec<I> {
    let bare = |text: &str| text.strip_prefix(prefix)?.strip_prefix('_').map(str::to_owned);
    let mut found: Vec<I> = Vec::new();
    for id in ids {
        let text = id.to_string();
        if text == typed {
            return vec![id];
        }
        let short = bare(&text).is_some_and(|text| text.starts_with(typed));
        if !typed.is_empty() && (text.starts_with(typed) || short) {
            found.push(id);
        }
    }
    found
}

fn require_single<T>(mut found: Vec<T>, typed: &str) -> Result<T, CliError> {
    let typed = crate::text::sanitize_line(typed);
    let (what, hint) = match found.len() {
        1 => return Ok(found.remove(0)),
        0 => (
            format!("nothing in this session is called {typed}"),
            "`turnstone log --all` shows turns and operations, `turnstone checkpoint` the names",
        ),
        many => (
            format!("{} things begin with {typed}", number_format::format_count(many)),
            "give more letters of the id",
        ),
    };
    Err(CliError::Refused { what, hint: Some(hint.to_owned()) })
}
