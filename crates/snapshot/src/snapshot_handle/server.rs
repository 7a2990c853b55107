//! The owner's socket: a few connections at a time, one request each, no peer trusted.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use fail::fail_point;
use rustix::event::{PollFd, PollFlags, poll};

use super::error::{StoreFailure, StoreFailureKind};
use super::message_frame::{self, FrameError};
use super::protocol::{PROTOCOL_VERSION, RequestEnvelope, StoreRequest, StoreResponse};
use super::request_handler::handle_request;
use super::socket;
use crate::snapshot_store::SnapshotStore;

/// Connections at a time; further clients are asked to retry.
const MAX_CONNECTIONS: usize = 32;
/// A request that has not arrived after this is not waited for.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What the threads share. The store is removed from it when the owner ends: no request begins then.
struct ServerState {
    store_id: String,
    store: RwLock<Option<Arc<SnapshotStore>>>,
    open: AtomicUsize,
    /// Requests that were served so far, without those for the status.
    served: AtomicU64,
}

/// A socket that is being listened to, until it is dropped.
pub(super) struct StoreServer {
    path: PathBuf,
    state: Arc<ServerState>,
    /// Closing this end wakes the thread that listens.
    wake: Option<UnixStream>,
    listener: Option<JoinHandle<()>>,
}

impl StoreServer {
    /// Listens at `path` for requests to the store.
    pub(super) fn start(
        path: PathBuf,
        store_id: &str,
        store: Arc<SnapshotStore>,
    ) -> io::Result<Self> {
        let listener = socket::listen(&path)?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let store = RwLock::new(Some(store));
        let state = Arc::new(ServerState {
            store_id: store_id.to_owned(),
            store,
            open: AtomicUsize::new(0),
            served: AtomicU64::new(0),
        });
        let shared = state.clone();
        let thread = thread::Builder::new().name("store-owner".to_owned());
        let thread = thread.spawn(move || accept_loop(&listener, &woken, &shared))?;
        Ok(Self { path, state, wake: Some(wake), listener: Some(thread) })
    }

    /// How many requests it has served; those for the status do not count.
    pub(super) fn served_request_count(&self) -> u64 {
        self.state.served.load(Ordering::Relaxed)
    }
}

impl Drop for StoreServer {
    fn drop(&mut self) {
        // Before the lock is freed: the next owner creates its own.
        drop(fs_err::remove_file(&self.path));
        drop(self.wake.take());
        if let Some(thread) = self.listener.take() {
            drop(thread.join());
        }
        // Waits for requests that are being served; later ones find no listener.
        *self.state.store.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn accept_loop(listener: &UnixListener, woken: &UnixStream, state: &Arc<ServerState>) {
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
            spawn_connection(stream, state);
        }
    }
}

/// Starts a thread for a connection, unless there are too many.
fn spawn_connection(stream: UnixStream, state: &Arc<ServerState>) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let shared = state.clone();
    let before = state.open.fetch_add(1, Ordering::SeqCst);
    let spawned = match before < MAX_CONNECTIONS {
        true => thread::Builder::new().name("request".to_owned()).spawn(move || {
            serve_connection(&stream, &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }),
        false => {
            send_failure(
                &stream,
                StoreFailure::new(StoreFailureKind::Busy, "the store owner is busy"),
            );
            Err(io::ErrorKind::WouldBlock.into())
        }
    };
    if spawned.is_err() {
        state.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn send_failure(stream: &UnixStream, failure: StoreFailure) {
    drop(stream.set_write_timeout(Some(REQUEST_TIMEOUT)));
    // A client that has gone needs no answer.
    drop(message_frame::write_frame(stream, &StoreResponse::Failed(failure)));
}

/// Serves one request.
fn serve_connection(stream: &UnixStream, state: &ServerState) {
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
        let words = format!(
            "the store owner speaks protocol version {PROTOCOL_VERSION}, not {}",
            envelope.version
        );
        return send_failure(stream, StoreFailure::new(StoreFailureKind::Version, words));
    }
    if envelope.store != state.store_id {
        let words = "this process owns another store";
        return send_failure(stream, StoreFailure::new(StoreFailureKind::Missing, words));
    }
    // Held until the answer is sent, so that the store stays owned until then.
    let store = state.store.read().unwrap_or_else(PoisonError::into_inner);
    let Some(store) = store.as_ref() else {
        return;
    };
    fail_point!("store_owner::asked", |_| ());
    if !matches!(envelope.request, StoreRequest::Status) {
        state.served.fetch_add(1, Ordering::Relaxed);
    }
    let answer = handle_request(store, &envelope.request);
    fail_point!("store_owner::served", |_| ());
    let answer =
        answer.unwrap_or_else(|error| StoreResponse::Failed(StoreFailure::from_error(&error)));
    drop(stream.set_write_timeout(Some(REQUEST_TIMEOUT)));
    if let Err(FrameError::TooLarge(bytes)) = message_frame::write_frame(stream, &answer) {
        let words = format!("the answer of {bytes} bytes is too large to be sent");
        send_failure(stream, StoreFailure::new(StoreFailureKind::TooLarge, words));
    }
}
