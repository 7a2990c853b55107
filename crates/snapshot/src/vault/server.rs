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

use super::error::{Failure, FailureKind};
use super::frame::{self, FrameError};
use super::request::{Answer, Envelope, VERSION};
use super::socket;
use super::work::serve;
use crate::shadow::Shadow;

/// Connections at a time; more are told to come back.
const MOST: usize = 32;
/// A request that has not arrived after this is not waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the threads share. The store is taken out of it when the keeper ends: no request begins then.
struct Desk {
    store: String,
    shadow: RwLock<Option<Arc<Shadow>>>,
    open: AtomicUsize,
}

/// A socket that is being listened to, until it is dropped.
pub(super) struct Server {
    path: PathBuf,
    desk: Arc<Desk>,
    /// Closing this end wakes the thread that listens.
    wake: Option<UnixStream>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path` for requests to the store.
    pub(super) fn start(path: PathBuf, store: &str, shadow: Arc<Shadow>) -> io::Result<Self> {
        let listener = socket::listen(&path)?;
        listener.set_nonblocking(true)?;
        let (wake, woken) = UnixStream::pair()?;
        let shadow = RwLock::new(Some(shadow));
        let desk = Arc::new(Desk { store: store.to_owned(), shadow, open: AtomicUsize::new(0) });
        let shared = desk.clone();
        let thread = thread::Builder::new().name("keeper".to_owned());
        let thread = thread.spawn(move || listen(&listener, &woken, &shared))?;
        Ok(Self { path, desk, wake: Some(wake), listener: Some(thread) })
    }
}

impl Drop for Server {
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

fn listen(listener: &UnixListener, woken: &UnixStream, desk: &Arc<Desk>) {
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
            receive(stream, desk);
        }
    }
}

/// Gives a connection a thread of its own, if there are not too many.
fn receive(stream: UnixStream, desk: &Arc<Desk>) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let shared = desk.clone();
    let before = desk.open.fetch_add(1, Ordering::SeqCst);
    let spawned = match before < MOST {
        true => thread::Builder::new().name("request".to_owned()).spawn(move || {
            attend(&stream, &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        }),
        false => {
            refuse(&stream, Failure::new(FailureKind::Busy, "the keeper has too much to do"));
            Err(io::ErrorKind::WouldBlock.into())
        }
    };
    if spawned.is_err() {
        desk.open.fetch_sub(1, Ordering::SeqCst);
    }
}

fn refuse(stream: &UnixStream, failure: Failure) {
    drop(stream.set_write_timeout(Some(PATIENCE)));
    // Whoever does not want to hear it need not.
    drop(frame::write(stream, &Answer::Failed(failure)));
}

/// Serves one request.
fn attend(stream: &UnixStream, desk: &Desk) {
    if !matches!(socket::is_own(stream), Ok(true)) {
        return refuse(stream, Failure::new(FailureKind::Foreign, "another user's store"));
    }
    if stream.set_read_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let envelope: Envelope = match frame::read(stream) {
        Ok(envelope) => envelope,
        Err(FrameError::Cut(_)) => return,
        Err(error @ FrameError::TooLarge(_)) => {
            return refuse(stream, Failure::new(FailureKind::TooLarge, error.to_string()));
        }
        Err(error @ FrameError::Malformed(_)) => {
            return refuse(stream, Failure::new(FailureKind::Malformed, error.to_string()));
        }
    };
    if envelope.version != VERSION {
        let words = format!("the keeper speaks form {VERSION}, not {}", envelope.version);
        return refuse(stream, Failure::new(FailureKind::Version, words));
    }
    if envelope.store != desk.store {
        let words = "the keeper of another store was asked";
        return refuse(stream, Failure::new(FailureKind::Missing, words));
    }
    // Held until the answer is sent, so that the store stays kept until then.
    let shadow = desk.shadow.read().unwrap_or_else(PoisonError::into_inner);
    let Some(shadow) = shadow.as_ref() else {
        return;
    };
    fail_point!("keeper::asked", |_| ());
    let answer = serve(shadow, &envelope.request);
    fail_point!("keeper::served", |_| ());
    let answer = answer.unwrap_or_else(|error| Answer::Failed(Failure::of(&error)));
    drop(stream.set_write_timeout(Some(PATIENCE)));
    if let Err(FrameError::TooLarge(bytes)) = frame::write(stream, &answer) {
        let words = format!("the answer of {bytes} bytes is too large to be sent");
        refuse(stream, Failure::new(FailureKind::TooLarge, words));
    }
}
