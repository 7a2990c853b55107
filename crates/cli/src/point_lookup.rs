//! Resolves points of a session: checkpoints, turns, operations, messages.

use turnstone_core::id::{MessageId, OperationId, TurnId};
use turnstone_core::model::Session;
use turnstone_engine::{Engine, SessionPoint};
use turnstone_store::Context;

use crate::error::CliError;
use crate::number_format;

/// Prefix that selects the state before a turn.
pub(crate) const BEFORE_PREFIX: &str = "before:";

/// Resolves a checkpoint, the end of a turn (`before:TURN`: its start), or an operation; IDs can be
/// shortened to a prefix that is unique in the session.
///
/// # Errors
///
/// [`CliError::Refused`] if nothing or more than one thing matches.
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
        return require_single(found, typed, "turn").map(SessionPoint::Before);
    }
    let named = engine.history().checkpoints().list(ctx, &session.id)?;
    if named.iter().any(|checkpoint| checkpoint.name == typed) {
        return Ok(SessionPoint::Checkpoint(typed.to_owned()));
    }
    let ids: Vec<OperationId> = operations.into_iter().map(|operation| operation.id).collect();
    let turns = filter_by_prefix(turns, TurnId::PREFIX, typed).into_iter().map(SessionPoint::After);
    let operations =
        filter_by_prefix(ids, OperationId::PREFIX, typed).into_iter().map(SessionPoint::Operation);
    let found = turns.chain(operations).collect();
    require_single(found, typed, "checkpoint, turn or operation")
}

/// Resolves a message by its ID, the ID of the turn it starts, or a prefix of either.
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
    require_single(list_messages(engine, ctx, session, typed)?, typed, "message or turn")
}

/// As [`resolve_message`]; `None` if the session has no such message.
///
/// # Errors
///
/// As [`resolve_point`].
pub(crate) fn find_message(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    typed: &str,
) -> Result<Option<MessageId>, CliError> {
    let found = list_messages(engine, ctx, session, typed)?;
    if found.is_empty() {
        Ok(None)
    } else {
        require_single(found, typed, "message or turn").map(Some)
    }
}

/// The messages of a session that `typed` may mean.
fn list_messages(
    engine: &Engine,
    ctx: &Context,
    session: &Session,
    typed: &str,
) -> Result<Vec<MessageId>, CliError> {
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
    Ok(found)
}

/// The IDs that start with `typed`, with or without their type prefix; an exact match wins.
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

/// The only match; `wanted` names what could have matched.
fn require_single<T>(mut found: Vec<T>, typed: &str, wanted: &str) -> Result<T, CliError> {
    let typed = crate::text::sanitize_line(typed);
    let (what, hint) = match found.len() {
        1 => return Ok(found.remove(0)),
        0 => (
            format!("no {wanted} of this session matches \"{typed}\""),
            "`turnstone log --all` lists turns and operations, `turnstone checkpoint list` the checkpoints",
        ),
        many => (
            format!(
                "\"{typed}\" is ambiguous: {} match",
                number_format::format_counted(many, "ID")
            ),
            "use a longer prefix of the ID",
        ),
    };
    Err(CliError::Refused { what, hint: Some(hint.to_owned()) })
}
