//! Reading: the rows and payloads of the store as values of the model.

mod change_set;
mod event_decoding;
mod expiry;
mod feed;
mod historical_facts;
mod historical_usage;
mod inbox_promotions;
mod list;
mod list_page;
mod load;
mod log;
mod message_outline;
mod project;
mod prompt_status;
mod raw_messages;
mod reader;
mod recent_changes;
mod request;
mod session;
mod session_at_boundary;
mod session_delta;
mod share;
mod sync_feed;
mod sync_stream;
mod turn;
mod wire_json;

pub(crate) use change_set::decode_changes;
pub use change_set::{
    ChangeSetQueries, ChangeSetRow, OperationEnd, OperationQueries, OperationRow,
};
pub use expiry::{ExpiredTurn, GuardPin, UndoExpiryQueries, UnfinishedExpiry};
pub(crate) use expiry::{expired_guards, expired_turns};
pub use feed::{
    FeedBody, FeedCache, FeedEvent, FeedPage, FeedQueries, FeedSession, HistoricalSession,
};
pub(crate) use list::usage_from_row;
pub use list::{
    MessagePage, MessageQueries, MessageWithParts, SessionFilter, SessionPage, SessionRow,
};
pub use list_page::{CreationFilter, ListWindow, PageQueries, ScanDirection};
pub(crate) use load::{
    PartLocation, find_message, find_open_turn, find_part, is_abort_requested, load_message,
    load_part, load_part_text, load_payload, load_project, load_session,
};
pub use log::{LogEvent, LogPage, LogQueries, LogTail, TextDelta};
pub use message_outline::MessageOutlineRow;
pub use project::ProjectQueries;
pub use prompt_status::{PromptQueries, PromptStatus};
pub use reader::ReadTx;
pub(crate) use reader::parse_id as parse_stored;
pub use request::RequestQueries;
pub use session::SessionQueries;
pub use session_at_boundary::{HistoryQueries, SessionAtBoundary, StreamBoundary};
pub use session_delta::{HeadDelta, SessionDelta};
pub use share::ShareQueries;
pub use sync_stream::{SyncBody, SyncEvent, SyncQueries};
pub use turn::{ProjectTurnRow, TurnQueries, TurnRow};
pub use wire_json::{ListedSession, MessagePageJson, PartRenderer, WireJsonQueries};
