//! Reading: the rows and payloads of the store as values of the model.

mod change_set;
mod event_decoding;
mod expiry;
mod feed;
mod historical_facts;
mod historical_usage;
mod inbox_promotions;
mod list;
mod load;
mod log;
mod message_outline;
mod prompt_status;
mod raw_messages;
mod reader;
mod recent_changes;
mod session_at_boundary;
mod session_delta;
mod sync_feed;
mod sync_stream;
mod wire_json;

pub use change_set::{ChangeSetRow, OperationEnd, OperationRow};
pub use expiry::{ExpiredTurn, GuardPin, UnfinishedExpiry};
pub(crate) use expiry::{expired_guards, expired_turns};
pub use feed::{FeedBody, FeedCache, FeedEvent, FeedPage, FeedSession, HistoricalSession};
pub(crate) use list::usage_from_row;
pub use list::{MessagePage, MessageWithParts, SessionFilter, SessionPage, SessionRow};
pub(crate) use load::{
    PartLocation, find_message, find_open_turn, find_part, is_abort_requested, load_message,
    load_part, load_part_text, load_payload, load_project, load_session,
};
pub use log::{LogEvent, LogPage, LogTail, TextDelta};
pub use message_outline::MessageOutlineRow;
pub use prompt_status::PromptStatus;
pub(crate) use reader::parse_id as parse_stored;
pub use reader::{ReadTx, TurnRow};
pub use session_at_boundary::{SessionAtBoundary, StreamBoundary};
pub use session_delta::{HeadDelta, SessionDelta};
pub use sync_stream::{SyncBody, SyncEvent};
pub use wire_json::{MessagePageJson, PartRenderer, SessionJson};
