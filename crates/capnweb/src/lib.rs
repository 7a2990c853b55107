//! Cap'n Web: object-capability RPC over JSON messages, as spoken by the npm package `capnweb`.
//!
//! Objects are passed by reference in both directions, calls on results need no round trip, and
//! what is no longer referred to is given back.
//!
//! - [`wire`] is the codec: every message and expression, strict about tags and limits.
//! - [`session`] is one end of a session, without I/O: text in, text and events out.
//! - [`app`] is for applications: interfaces with typed, checked arguments, and typed calls.
//! - [`run`] polls a session and its calls inside a task of any runtime.
//! - `net` carries sessions: axum batches and WebSockets (feature `server`), and clients for both
//!   (feature `client`). Without features the crate starts nothing, reads no clock and opens no
//!   socket.
//!
//! ```
//! use std::sync::Arc;
//!
//! use capnweb::app::{Interface, Method};
//! use capnweb::net::{Server, ServerOptions, connect, router};
//! use capnweb::session::{Options, Stub};
//!
//! // Declared once, used at both ends.
//! const HELLO: Method<(String,), Stub> = Method::new("hello");
//! const NAME: Method<(), String> = Method::new("name");
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let guest = Arc::new(Interface::new().method(NAME, |name: &Arc<String>, ()| Ok(name.to_string())));
//! let hotel = Arc::new(Interface::new().method(HELLO, move |_: &Arc<()>, (name,)| {
//!     Ok(Stub::new(guest.bind(name)))
//! }));
//! let server = Server::new(move || hotel.bind(()), ServerOptions::default());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let url = format!("ws://{}/rpc", listener.local_addr()?);
//! tokio::spawn(axum::serve(listener, router("/rpc", server)).into_future());
//!
//! let main = connect(&url, None, Options::default()).await?;
//! // One round trip: the second call is made on a promise.
//! let name = main.call(HELLO, ("ann",)).call(NAME, ()).await?;
//! assert_eq!(name, "ann");
//! # Ok(())
//! # }
//! ```

pub mod app;
pub mod error;
mod hash;
pub mod json;
#[cfg(feature = "socket")]
pub mod net;
pub mod run;
pub mod session;
pub mod value;
pub mod wire;
