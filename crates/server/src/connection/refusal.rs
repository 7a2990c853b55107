//! Turning a connection away before a request of it is read.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;

/// How many connections that were turned away may still be read from.
const MAX_LINGERING: usize = 64;
/// How long each of them is, and how much of it.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: u64 = 256 << 10;

/// Why a connection is turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionRefusal {
    /// The peer is not the user this server runs as, or that is unknown.
    OtherUser,
    /// The same at the Unix socket, for which no password helps.
    OtherUserAtSocket,
    /// There are as many connections as there may be.
    Full,
}

impl ConnectionRefusal {
    /// The whole answer; the connection ends with it.
    fn response(self) -> Vec<u8> {
        let (status, tag, message, hint) = match self {
            Self::OtherUser => (
                "403 Forbidden",
                "ForbiddenPeerError",
                "without a password this server answers only processes of its own user",
                "start the server with a password (TURNSTONE_SERVER_PASSWORD or \
                 --password-file), or run the client as the user of the server; its Unix socket \
                 is named by the line that `turnstone serve --json` prints",
            ),
            Self::OtherUserAtSocket => (
                "403 Forbidden",
                "ForbiddenPeerError",
                "this Unix socket answers only processes of the user who runs the server",
                "use the port, with the password of the server",
            ),
            Self::Full => (
                "503 Service Unavailable",
                "ServiceUnavailableError",
                "too many connections",
                "close connections that are not used, or try again later",
            ),
        };
        let body = json!({ "_tag": tag, "name": tag, "message": message, "hint": hint,
            "data": { "message": message } })
        .to_string();
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\ncache-control: no-store\r\n\r\n{body}"
        )
        .into_bytes()
    }
}

/// Turns connections away.
#[derive(Clone, Debug)]
pub(super) struct ConnectionRefuser {
    lingering: Arc<Semaphore>,
}

impl ConnectionRefuser {
    pub(super) fn new() -> Self {
        Self { lingering: Arc::new(Semaphore::new(MAX_LINGERING)) }
    }

    /// Answers and closes. What the client has sent is read and thrown away for a moment: closing a
    /// socket with unread bytes would reset the connection before the client has read the answer.
    pub(super) fn refuse<S>(&self, socket: S, refusal: ConnectionRefusal)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + IntoDescriptor + 'static,
    {
        match self.lingering.clone().try_acquire_owned() {
            Ok(permit) if refusal != ConnectionRefusal::Full => {
                tokio::spawn(async move {
                    if tokio::time::timeout(LINGER_TIME, respond_and_drain(socket, refusal))
                        .await
                        .is_err()
                    {
                        tracing::debug!("a connection that was turned away did not end");
                    }
                    drop(permit);
                });
            }
            Ok(_) | Err(_) => respond_without_waiting(socket, refusal),
        }
    }
}

async fn respond_and_drain<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: S,
    refusal: ConnectionRefusal,
) {
    if socket.write_all(&refusal.response()).await.is_ok() && socket.shutdown().await.is_ok() {
        let rest = &mut socket.take(LINGER_BYTES);
        drop(tokio::io::copy(rest, &mut tokio::io::sink()).await);
    }
}

/// Sends what fits without waiting, and closes.
fn respond_without_waiting<S: IntoDescriptor>(socket: S, refusal: ConnectionRefusal) {
    let Some(descriptor) = socket.into_descriptor() else { return };
    // Any stream socket will do: only `send` and `shutdown` are used of it.
    let mut socket = std::net::TcpStream::from(descriptor);
    // The response is not waited for, and the client may be gone.
    drop(socket.write(&refusal.response()));
    drop(socket.shutdown(Shutdown::Write));
}

/// A socket that can leave the runtime.
pub(super) trait IntoDescriptor {
    /// Its descriptor, still without blocking; `None` if the runtime does not give it back.
    fn into_descriptor(self) -> Option<OwnedFd>;
}

impl IntoDescriptor for tokio::net::TcpStream {
    fn into_descriptor(self) -> Option<OwnedFd> {
        self.into_std().ok().map(OwnedFd::from)
    }
}

impl IntoDescriptor for tokio::net::UnixStream {
    fn into_descriptor(self) -> Option<OwnedFd> {
        self.into_std().ok().map(OwnedFd::from)
    }
}
