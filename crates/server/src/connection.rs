//! Connections: each is patient with its client, up to a limit.
//!
//! A client has so long to say what it wants, and so long to take what it is sent; the body of a request
//! has a limit of its own where it is read. Whoever is slower loses the connection and nothing else.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

use crate::serve::Peer;
use crate::settings::Limits;

/// How long to wait when the system has no room for another connection.
const PAUSE: Duration = Duration::from_millis(200);

/// The largest head of a request, in bytes.
const HEAD: usize = 64 << 10;

/// Files the server opens besides the sockets of streams.
const FILES: u64 = 1_024;

/// Makes sure that there may be as many streams as are promised, as far as this user may: many systems
/// allow a program 1,024 open files unless it asks for more.
pub(crate) fn make_room(streams: usize) {
    let wanted = FILES + streams as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = maximum.map_or(wanted, |most| most.min(wanted));
    if current.is_some_and(|now| now < raised) {
        let limit = Rlimit { current: Some(raised), maximum };
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!("there may be fewer than {streams} streams: {error}");
        }
    }
}

/// Answers every connection until `stop` is done, then lets open requests end.
pub(crate) async fn answer(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let open = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = &mut stop => break,
        };
        match taken {
            Ok((socket, address)) => {
                serve(socket, Peer(address), router.clone(), limits, &open);
            }
            Err(error) if is_of_one(&error) => {}
            Err(error) => {
                tracing::warn!("cannot take another connection: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    open.shutdown().await;
}

/// Answers the requests of one connection, beside all others.
fn serve(socket: TcpStream, peer: Peer, router: Router, limits: Limits, open: &GracefulShutdown) {
    // A frame of a stream is small and somebody waits for it.
    if let Err(error) = socket.set_nodelay(true) {
        tracing::debug!("a connection keeps small answers back: {error}");
    }
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        routes.call(request)
    });
    let socket = TokioIo::new(Taken::new(socket, Duration::from_secs(limits.taken)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(limits.head))
        .max_buf_size(HEAD)
        .serve_connection(socket, service);
    let watched = open.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!("a connection ended early: {error}");
        }
    });
}

/// True if only the connection that was about to be taken is gone.
fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// A socket whose other end has to take what it is sent in time.
struct Taken {
    socket: TcpStream,
    patience: Duration,
    waits: Option<Pin<Box<Sleep>>>,
}

impl Taken {
    const fn new(socket: TcpStream, patience: Duration) -> Self {
        Self { socket, patience, waits: None }
    }

    /// What writing came to; an error once nothing could be written for too long.
    fn judge<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.waits = None;
            return wrote;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match waits.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Taken {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Taken {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.judge(wrote, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.socket).poll_write_vectored(cx, pieces);
        self.judge(wrote, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
