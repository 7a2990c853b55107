//! What single events say, and how much they weigh: the parts of the feed that need no database.

use rusqlite::Row;
use serde_json::Value;
use turnstone_core::event::EventKind;
use turnstone_core::id::TurnId;
use turnstone_core::model::MessageFailure;
use turnstone_core::turn::{TurnEvent, TurnOutcome};

use super::feed::{FeedBody, PAGE_BYTES};
use super::load::take_id;
use super::reader::parse_id;
use crate::error::Result;
use crate::mutation::failure_or_default;

/// About how much an event weighs, from its row.
pub(super) fn row_bytes(row: &Row<'_>) -> Result<usize> {
    let json = row.get_ref(9)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let refs = row.get_ref(10)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    let (from, to): (Option<i64>, Option<i64>) = (row.get(11)?, row.get(12)?);
    let text = usize::try_from(to.unwrap_or(0) - from.unwrap_or(0)).unwrap_or(0);
    // Each reference is `[pointer, hash, length]`; the length is what counts.
    let outside: usize = match refs {
        None => 0,
        Some(refs) => {
            let list: Vec<Value> = serde_json::from_str(refs)?;
            let lengths = list.iter().filter_map(|it| it[2].as_u64());
            lengths.map(|len| usize::try_from(len).unwrap_or(PAGE_BYTES)).sum()
        }
    };
    let streamed = json.map_or(0, streamed_text_len);
    Ok(64 + json.map_or(0, str::len) + outside + text + streamed)
}

/// The length of the streamed text a part's image refers to.
fn streamed_text_len(json: &str) -> usize {
    let Some((_, rest)) = json.split_once("\"text\":{\"len\":") else { return 0 };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// What a turn's event says.
pub(super) fn decode_turn_event(kind: EventKind, mut value: Value) -> Result<FeedBody> {
    let turn: TurnId = parse_id(take_id(&mut value)?)?;
    // Another program ran it, and it was over before it came here: no client waits for it.
    if value.get("imported").is_some_and(|at| !at.is_null()) {
        return Ok(FeedBody::Other);
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these six")]
    let event = match kind {
        EventKind::TurnAccepted => {
            let message = serde_json::from_value(value["message"].take())?;
            return Ok(FeedBody::TurnAccepted { turn, message });
        }
        EventKind::TurnStarted => TurnEvent::Started,
        EventKind::TurnAsked => TurnEvent::Asked,
        EventKind::TurnAnswered => TurnEvent::Answered,
        EventKind::TurnAbortAsked => return Ok(FeedBody::Other),
        _ => TurnEvent::Ended { outcome: serde_json::from_value(value["outcome"].take())? },
    };
    let given: Option<MessageFailure> = serde_json::from_value(value["error"].take())?;
    let error = match event {
        TurnEvent::Ended { outcome: TurnOutcome::Completed } => given,
        TurnEvent::Ended { outcome } => Some(failure_or_default(outcome, given.as_ref())),
        TurnEvent::Started | TurnEvent::Asked | TurnEvent::Answered => None,
    };
    Ok(FeedBody::Turn { turn, event, error })
}

/// What an event outside of the conversation says.
pub(super) fn decode_session_event(kind: EventKind, mut value: Value) -> Result<FeedBody> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the class of the event leaves these")]
    Ok(match kind {
        EventKind::TodoUpdated => FeedBody::Todos(serde_json::from_value(value["todos"].take())?),
        EventKind::DiffUpdated => FeedBody::Diff(serde_json::from_value(value["diff"].take())?),
        EventKind::StatusRetrying => {
            FeedBody::Status(serde_json::from_value(value["status"].take())?)
        }
        EventKind::RequestAsked => FeedBody::RequestAsked(Box::new(serde_json::from_value(value)?)),
        EventKind::RequestResolved => FeedBody::RequestResolved {
            id: serde_json::from_value(value["id"].take())?,
            state: serde_json::from_value(value["state"].take())?,
        },
        EventKind::InputAdmitted => FeedBody::PromptAdmitted {
            message: parse_id(take_id(&mut value)?)?,
            delivery: serde_json::from_value(value["delivery"].take())?,
        },
        EventKind::InputPromoted => FeedBody::PromptPromoted(parse_id(take_id(&mut value)?)?),
        _ => FeedBody::Other,
    })
}
