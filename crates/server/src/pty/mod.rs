//! Terminals of people: programs in a pseudo-terminal that clients see and type into over WebSockets.
//!
//! A terminal runs below a supervisor, so it ends with this server however that ends. Its output goes into a
//! buffer of fixed size ([`scrollback`]); every socket is a position in it, so a client that does
//! not read costs nothing and slows down nothing. What a terminal writes to files belongs to no turn.

mod connect_ticket;
mod pty_command;
mod pty_registry;
mod pty_socket;
mod pty_terminal;
mod scrollback;

pub(crate) use connect_ticket::{ConnectTicket, requested_ticket};
pub(crate) use pty_command::PtyRequest;
pub(crate) use pty_registry::{PtyLifetime, PtyRegistry};
pub(crate) use pty_socket::{MAX_INPUT_BYTES, relay_terminal};
pub(crate) use pty_terminal::{PtyInfo, PtyTerminal, PtyUpdateRequest};
pub(crate) use scrollback::ScrollbackStart;
