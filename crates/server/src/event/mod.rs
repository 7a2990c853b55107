//! Events: the log, translated once for all streams.
//!
//! One thread follows the log, translates each event into what OpenCode's clients read, and puts it
//! into a ring; every stream reads from there what it is to see, so a thousand streams cost a thousand
//! positions. Streams that wait are sent new events by the thread that has them ([`direct_delivery`]); their
//! tasks sleep on. A stream that falls out of the ring reads the log from where it was. Nothing here is
//! ever waited for by a writer.
//!
//! Events of the log are published by being written. Other events, such as a toast for the
//! terminal, are published by their handler:
//!
//! ```ignore
//! app.hub().publish(&place.directory, "tui.toast.show", json!({ "message": "hi" }));
//! app.hub().publish_globally("global.disposed", json!({}));
//! ```
//!
//! Such an event reaches the streams that are open now, in order with the log, and no later stream.

mod direct_delivery;
mod event_id;
mod event_ring;
mod event_stream;
mod hub;
mod log_follower;
mod pending_requests;
mod recent_events;
mod session_stream;
mod stream_event;
mod stream_progress;
mod stream_quota;
mod sync_history;
#[cfg(test)]
mod tests;
mod translation;
mod v2_compaction;
mod v2_event;
mod v2_session_delta;

pub(crate) use event_id::StreamPosition as StreamPlace;
pub(crate) use event_stream::{StreamFormat, StreamSubscription};
pub(crate) use hub::EventHub;
pub(crate) use session_stream::history_page;
pub(crate) use stream_progress::flush_streams;
pub(crate) use sync_history::{ReplayedEvent, SyncHistory, replay_events};
