//! Cap'n Web: object-capability RPC over JSON messages, as spoken by the npm package `capnweb`.
//!
//! Objects are passed by reference in both directions, calls on results need no round trip, and
//! what is no longer referred to is given back.
//!
//! - [`app`] is for applications: interfaces with typed, checked arguments, and typed calls.
//! - `net` carries sessions: axum batches and WebSockets (feature `server`), and clients for both
//!   (feature `client`).
//! - [`run`] polls a session and its calls inside a task of any runtime.
//! - [`session`] is one end of a session, without I/O: text in, text and events out.
//! - [`wire`] is the codec: every message and expression, strict about tags and limits.
//!
//! Without features the crate starts nothing, reads no clock and opens no socket.
//!
//! ```
//! use std::sync::Arc;
//!
//! use capnweb::app::{Interface, Method};
//! use capnweb::net::{RpcServer, ServerOptions, connect, router};
//! use capnweb::session::{SessionOptions, Stub};
//!
//! // Declared once, used at both ends.
//! const HELLO: Method<(String,), Stub> = Method::new("hello");
//! const NAME: Method<(), String> = Method::new("name");
//! const GUESTS: Method<(), Vec<String>> = Method::new("guests");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let guest = Arc::new(Interface::new().method(NAME, |name: &Arc<String>, ()| Ok(name.to_string())));
//! let hotel = Interface::new()
//!     .method(HELLO, move |_: &Arc<()>, (name,)| Ok(Stub::new(guest.bind(name))))
//!     .method(GUESTS, |_, ()| Ok(vec!["ann".to_owned(), "bob".to_owned()]));
//! let hotel = Arc::new(hotel);
//! let server = RpcServer::new(move || hotel.bind(()), ServerOptions::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("ws://{}/rpc", listener.local_addr()?);
//! tokio::spawn(axum::serve(listener, router("/rpc", server)).into_future());
//!
//! let main = connect(&url, None, SessionOptions::default()).await?;
//! // One round trip: the second call is made on a promise.
//! let name = main.call(HELLO, ("ann",)).call(NAME, ()).await?;
//! assert_eq!(name, "ann");
//! // Still one: the function is sent to the guests, and runs there.
//! let guests = main.call(GUESTS, ());
//! let names = guests.map::<String, _>(|guest| main.call(HELLO, (guest,)).call(NAME, ())).await?;
//! assert_eq!(names, ["ann", "bob"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Objects
//!
//! What an application offers is a [`session::RpcTarget`], usually an [`app::Interface`] bound to a
//! state; what it holds of the peer's is a [`session::Stub`]. Both travel in arguments and results, in
//! both directions. A stub is given back when its last clone is dropped; the object behind it is then
//! dropped by the session that offered it. Dropping the main stub ends the session.
//!
//! # Promises
//!
//! A call starts at once and returns a promise, awaited or not. A promise can be called, passed on as an
//! argument or mapped before it has settled. Only what is awaited is sent back. Calls are started in the
//! order in which they were made, unless one waits for a promise among its arguments.
//!
//! # Errors
//!
//! [`error::RpcError`] travels whole. A method fails with one ([`error::CallFailure::Domain`]) or with
//! anything else, of which the peer learns no more than an incident id. When a session ends, everything
//! that waits for it fails with the reason, and so does every later call.
//!
//! # Limits
//!
//! A peer is held to [`session::SessionLimits`]; beyond them its call fails or its session ends. The
//! protocol negotiates neither limits nor versions: [`wire::PeerVersion`] says what a peer understands.

pub mod app;
pub mod error;
mod id_hash;
pub mod json;
mod memory_cost;
#[cfg(feature = "socket")]
pub mod net;
pub mod run;
pub mod session;
pub mod value;
pub mod wire;
