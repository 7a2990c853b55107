//! Events: the log, translated once for whoever listens.
//!
//! One thread follows the log, translates each event into what OpenCode's clients read, and puts it
//! into a ring; every stream reads from there what it is to see, so a thousand streams cost a thousand
//! positions. A stream that falls out of the ring reads the log from where it was. Nothing here is
//! ever waited for by a writer.
//!
//! What is in the log needs nobody's help: writing it is enough. What is not, such as a toast for the
//! terminal, is published by the handler that knows of it:
//!
//! ```ignore
//! app.hub().publish(&place.directory, "tui.toast.show", json!({ "message": "hi" }));
//! app.hub().publish_globally("global.disposed", json!({}));
//! ```
//!
//! Such an event reaches the streams that are open now, in order with the log, and nobody later.

mod compaction;
mod episode;
mod follow;
mod happening;
mod heard;
mod history;
mod hub;
mod ident;
mod recent;
mod ring;
mod seats;
mod session;
mod shift;
mod stream;
#[cfg(test)]
mod tests;
mod translate;

pub(crate) use history::{History, Replayed, replay};
pub(crate) use hub::Hub;
pub(crate) use ident::Place as StreamPlace;
pub(crate) use session::page;
pub(crate) use stream::{Listener, Wire};
