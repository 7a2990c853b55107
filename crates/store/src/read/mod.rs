//! Reading: the rows and payloads of the store as values of the model.

mod at;
mod body;
mod change;
mod copy;
mod expire;
mod feed;
mod list;
mod log;
mod outline;
mod past;
mod prompt;
mod reader;
mod recent;
mod replica;
mod saying;
mod shift;
mod shown;
mod sync;
mod taken;
mod tally;

pub use at::{Boundary, SessionAt};
pub(crate) use body::{
    FoundPart, find_message, find_part, is_abort_asked, load_message, load_part, load_project,
    load_session, open_turn, part_text, payload_at,
};
pub use change::{ChangeRow, OperationEnd, OperationRow};
pub use expire::{Expired, Guarding, Unfinished};
pub(crate) use expire::{expired_guards, expired_turns};
pub use feed::{FeedBody, FeedEvent, FeedMemo, FeedPage, FeedSession, SessionThen};
pub(crate) use list::usage_at;
pub use list::{MessagePage, SessionFilter, SessionPage, SessionRow, WithParts};
pub use log::{Delta, LogEvent, LogPage, Tail};
pub use outline::Outline;
pub use prompt::Fate;
pub(crate) use reader::parse_id as parse_stored;
pub use reader::{Reader, TurnRow};
pub use shift::{HeadShift, SessionShift};
pub use shown::{PartView, ShownPage, ShownSession};
pub use sync::{SyncBody, SyncEvent};
