//! The accept loop: identifies each peer once and hands the connection on, or turns it away.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;

use super::connection_table::ConnectionTable;
use super::refusal::{ConnectionRefusal, ConnectionRefuser};
use super::serve_connection::serve_connection;
use crate::peer::{ConnectionPeer, PeerId, PeerLookup, Transport, own_user};
use crate::settings::RequestLimits;

/// How long to wait when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Where connections come from, and what is known about their peers.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) tcp: TcpListener,
    pub(crate) unix: Option<UnixListener>,
    /// How users behind TCP connections are found; `None`: peers are distinguished by address.
    pub(crate) lookup: Option<PeerLookup>,
    /// Without a password only this server's own user may connect.
    pub(crate) has_password: bool,
}

/// A connection that was just accepted.
enum AcceptedSocket {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listeners {
    async fn accept(&self) -> io::Result<AcceptedSocket> {
        let tcp = async {
            let (socket, address) = self.tcp.accept().await?;
            Ok(AcceptedSocket::Tcp(socket, address))
        };
        let Some(unix) = &self.unix else { return tcp.await };
        tokio::select! {
            accepted = tcp => accepted,
            accepted = unix.accept() => accepted.map(|(socket, _)| AcceptedSocket::Unix(socket)),
        }
    }

    /// The peer of a TCP connection; `None` if it may not connect.
    fn identify_tcp(&self, socket: &TcpStream, client: SocketAddr) -> Option<ConnectionPeer> {
        let owner = self.lookup.as_ref().map(|lookup| {
            let owner = socket.local_addr().and_then(|server| lookup.owner_of(client, server));
            owner.unwrap_or_else(|error| {
                tracing::warn!("the user behind {client} is unknown: {error}");
                None
            })
        });
        let transport = Transport::Tcp;
        let owner = owner.flatten();
        match owner {
            Some(uid) if self.has_password || uid == own_user() => {
                Some(ConnectionPeer { id: PeerId::User(uid), transport })
            }
            None if self.has_password => {
                Some(ConnectionPeer { id: PeerId::of_address(client.ip()), transport })
            }
            Some(_) | None => {
                tracing::info!("turned away {client}: not a process of this user ({owner:?})");
                None
            }
        }
    }
}

/// The peer of a Unix socket; `None` if it may not connect.
fn identify_unix(socket: &UnixStream) -> Option<ConnectionPeer> {
    match socket.peer_cred() {
        Ok(credentials) if credentials.uid() == own_user() => {
            Some(ConnectionPeer { id: PeerId::User(credentials.uid()), transport: Transport::Unix })
        }
        Ok(credentials) => {
            tracing::info!("turned away uid {} at the Unix socket", credentials.uid());
            None
        }
        Err(error) => {
            tracing::warn!("the user at the Unix socket is unknown: {error}");
            None
        }
    }
}

/// Answers every connection until `stop` is done, then lets open requests end.
pub(crate) async fn accept_connections(
    listeners: Listeners,
    table: Arc<ConnectionTable>,
    (router, limits): (Router, RequestLimits),
    stop: impl Future<Output = ()>,
) {
    let stopping = watch::Sender::new(false);
    let refuser = ConnectionRefuser::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listeners.accept() => accepted,
            () = &mut stop => break,
        };
        let serving = (router.clone(), limits);
        match accepted {
            Ok(AcceptedSocket::Tcp(socket, client)) => {
                // A frame of a stream is small, and a client waits for it.
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!("a connection holds small answers back: {error}");
                }
                let Some(peer) = listeners.identify_tcp(&socket, client) else {
                    refuser.refuse(socket, ConnectionRefusal::OtherUser);
                    continue;
                };
                match table.admit(peer.id, !listeners.has_password) {
                    Some(handle) => {
                        serve_connection(socket, peer, handle, serving, stopping.subscribe())
                    }
                    None => refuser.refuse(socket, ConnectionRefusal::Full),
                }
            }
            Ok(AcceptedSocket::Unix(socket)) => {
                let Some(peer) = identify_unix(&socket) else {
                    refuser.refuse(socket, ConnectionRefusal::OtherUserAtSocket);
                    continue;
                };
                match table.admit(peer.id, true) {
                    Some(handle) => {
                        serve_connection(socket, peer, handle, serving, stopping.subscribe())
                    }
                    None => refuser.refuse(socket, ConnectionRefusal::Full),
                }
            }
            Err(error) if is_connection_error(&error) => {}
            Err(error) => {
                tracing::warn!("cannot accept another connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        // A connection that made way closes its socket before the next one is accepted.
        tokio::task::yield_now().await;
    }
    drop(listeners);
    stopping.send_replace(true);
    // Every connection holds a receiver.
    stopping.closed().await;
}

/// True if only the connection that was about to be accepted is gone.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
