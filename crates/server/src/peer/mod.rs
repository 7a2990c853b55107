//! Who is at the other end of a connection: which user of this machine, or which address.
//!
//! The kernel knows who opened a socket. It is asked once for each connection, when that is accepted;
//! only an answer that leaves no doubt counts. Owns no connection and decides nothing about requests.

mod identity;
mod lookup;
mod proc_net;
mod sock_diag;
mod socket_row;

pub(crate) use identity::{ConnectionPeer, PeerId, Transport, own_user};
pub(crate) use lookup::PeerLookup;
