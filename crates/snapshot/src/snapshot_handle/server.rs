//! The keeper's socket: a few connections at a time, one request each, nobody trusted.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use fail::fail_point;
use rustix::event::{PollFd, PollFlags, poll};

use super::error::{StoreFailure, StoreFailureKind};
use super::message_frame::{self, FrameError};
use super::protocol::{PROTOCOL_VERSION, RequestEnvelope, StoreResponse};
use super::request_handler::handle_request;
use super::socket;
use crate::snapshot_store::SnapshotStore;

/// Connections at a time; more are told to come back.
const MAX_CONNECTIONS: usize = 32;
/// A request that has not arrived after this is not waited for.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What the threads share. The store is taken out of it when the keeper ends: no request begins then.
struct ServerState {
    store: String,
    shadow: RwLock<Option<Arc<SnapshotStore>>>,
    open: AtomicUsize,
}

/// A socket that is being listened to, until it is dropped.
pub(super) struct StoreServer {
    path: PathBuf,
    desk: Arc<ServerState>,
    /// Closing this end wakes the thread that listens.
    wake: Option<UnixStream>,
    listener: Option<JoinHandle<()>>,
}

impl StoreServer {
    /// Listens at `path` for requests to the store.
    pub(super) fn start(
        path: PathBuf,
        store: &str,
        shadow: Arc<SnapshotStore>,
    ) -> io::Result<Self> {
        let listener = socket::listen(&path)?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let shadow = RwLock::new(Some(shadow));
        let desk =
            Arc::new(ServerState { store: store.to_owned(), shadow, open: AtomicUsize::new(0) });
        let shared = desk.clone();
        let thread = thread::Builder::new().name("keeper".to_owned());
        let thread = thread.spawn(move || accept_loop(&listener, &woken, &shared))?;
        Ok(Self { path, desk, wake: Some(wake), listener: Some(thread) })
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        // Before the lock is freed: whoever comes next makes its own.
        drop(fs_err::remove_file(&self.path));
        drop(self.wake.take());
        if let Some(thread) = self.listener.take() {
            drop(thread.join());
        }
        // Waits for requests that are being served; those still to come find nobody.
        *self.desk.shadow.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn accept_loop(listener: &UnixListener, woken: &UnixStream, desk: &Arc<ServerState>) {
    loop {
        let mut waiting = [PollFd::new(listener, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
        if !waiting[1].revents().is_empty() {
            return;
        }
        if let Ok((stream, _)) = listener.accept() {
            spawn_connection(stream, desk);
        }
    }
}

/// Gives a connection a thread of its own, if there are not too many.
fn spawn_connection(stream: UnixStream, desk: &Arc<ServerState>) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let shared = desk.clone();
    let before = desk.open.fetch_add(1, Ordering::SeqCst);
    let spawned = match before < MAX_CONNECTIONS {
        true => thread::Builder::new().name("request".to_owned()).spawn(move || {
            serve_connection(&stream, &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }),
        false => {
            send_failure(
                &stream,
                StoreFailure::new(StoreFailureKind::Busy, "the keeper has too much to do"),
            );
            Err(io::ErrorKind::WouldBlock.into())
        }
    };
    if spawned.is_err() {
        desk.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn send_failure(stream: &UnixStream, failure: StoreFailure) {
    drop(stream.set_write_timeout(Some(REQUEST_TIMEOUT)));
    // Whoever does not want to hear it need not.
    drop(message_frame::write_frame(stream, &StoreResponse::Failed(failure)));
}

/// Serves one request.
fn serve_connection(stream: &UnixStream, desk: &ServerState) {
    if !matches!(socket::is_same_user(stream), Ok(true)) {
        return send_failure(
            stream,
            StoreFailure::new(StoreFailureKind::Foreign, "another user's store"),
        );
    }
    if stream.set_read_timeout(Some(REQUEST_TIMEOUT)).is_err() {
        return;
    }
    let envelope: RequestEnvelope = match message_frame::read_frame(stream) {
        Ok(envelope) => envelope,
        Err(FrameError::Disconnected(_)) => return,
        Err(error @ FrameError::TooLarge(_)) => {
            return send_failure(
                stream,
                StoreFailure::new(StoreFailureKind::TooLarge, error.to_string()),
            );
        }
        Err(error @ FrameError::Malformed(_)) => {
            return send_failure(
                stream,
                StoreFailure::new(StoreFailureKind::Malformed, error.to_string()),
            );
        }
    };
    if envelope.version != PROTOCOL_VERSION {
        let words = format!("the keeper speaks form {PROTOCOL_VERSION}, not {}", envelope.version);
        return send_failure(stream, StoreFailure::new(StoreFailureKind::Version, words));
    }
    if envelope.store != desk.store {
        let words = "the keeper of another store was asked";
        return send_failure(stream, StoreFailure::new(StoreFailureKind::Missing, words));
    }
    // Held until the answer is sent, so that the store stays kept until then.
    let shadow = desk.shadow.read().unwrap_or_else(PoisonError::into_inner);
    let Some(shadow) = shadow.as_ref() else {
        return;
    };
    fail_point!("keeper::asked", |_| ());
    let answer = handle_request(shadow, &envelope.request);
    fail_point!("keeper::served", |_| ());
    let answer =
        answer.unwrap_or_else(|error| StoreResponse::Failed(StoreFailure::from_error(&error)));
    drop(stream.set_write_timeout(Some(REQUEST_TIMEOUT)));
    if let Err(FrameError::TooLarge(bytes)) = message_frame::write_frame(stream, &answer) {
        let words = format!("the answer of {bytes} bytes is too large to be sent");
        send_failure(stream, StoreFailure::new(StoreFailureKind::TooLarge, words));
    }
}
