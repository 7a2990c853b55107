//! One reader of the log for all streams.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use turnstone_core::time::{Cursor, Millis};
use turnstone_engine::Engine;
use turnstone_store::Context;

use super::follow::{self, Follower};
use super::happening::{Happening, Scene, Told};
use super::heard::Heard;
use super::ident;
use super::recent::Recent;
use super::ring::{Bounds, Ring};
use super::seats::{Seat, Seats};
use crate::error::ApiError;
use crate::peer::PeerId;

/// What the ring holds: some seconds of a busy server.
const BOUNDS: Bounds = Bounds { entries: 8_192, bytes: 8 << 20 };

/// How many streams read the log at a time; the others wait for their turn.
const READERS: usize = 4;

/// Hands what happens to whoever listens; a copy is a handle.
#[derive(Clone)]
pub(crate) struct Hub {
    pub(super) shared: Arc<Shared>,
}

/// What the streams and the follower share.
pub(super) struct Shared {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: fn() -> Millis,
    lately: Lately,
    news: watch::Sender<News>,
    follower: Mutex<Follower>,
    gates: Gates,
}

/// What happened lately.
#[derive(Default)]
struct Lately {
    /// Empty until somebody listens: nobody follows the log for nobody.
    ring: Mutex<Option<Ring>>,
    recent: Recent,
    heard: Heard,
}

/// How many may do what at a time.
struct Gates {
    /// Streams of each peer.
    seats: Arc<Seats>,
    /// Streams that read the log.
    readers: Semaphore,
}

/// Tells streams to look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// The number the next entry of the ring gets.
    pub(super) next: u64,
    /// The server stops.
    pub(super) is_closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A hub for at most `streams` streams of each peer.
    pub(crate) fn new(engine: Arc<Engine>, clock: fn() -> Millis, streams: usize) -> Self {
        let gates = Gates { seats: Seats::new(streams), readers: Semaphore::new(READERS) };
        let shared = Shared {
            engine,
            clock,
            lately: Lately::default(),
            news: watch::Sender::new(News::default()),
            follower: Mutex::default(),
            gates,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Tells the streams of a directory what is in no log.
    ///
    /// Comes after everything that was durable before the call. Reads the log up to its end first, so
    /// call it where one may wait for the disk.
    pub(crate) fn publish(
        &self,
        directory: impl AsRef<Path>,
        kind: &str,
        properties: impl Borrow<Value>,
    ) {
        // Streams know a directory by its real path.
        let asked = directory.as_ref();
        let real = fs_err::canonicalize(asked).unwrap_or_else(|_| asked.to_path_buf());
        let directory: Arc<str> = real.to_string_lossy().into();
        self.pass_on(Some(directory), kind, properties.borrow());
    }

    /// Tells `/global/event` and `/api/event` what is in no log and belongs to no directory.
    pub(crate) fn publish_globally(&self, kind: &str, properties: impl Borrow<Value>) {
        self.pass_on(None, kind, properties.borrow());
    }

    fn pass_on(&self, directory: Option<Arc<str>>, kind: &str, properties: &Value) {
        if lock(&self.shared.lately.ring).is_none() {
            return;
        }
        let mut follower = lock(&self.shared.follower);
        if let Err(error) = follower.drain(&self.shared) {
            tracing::warn!("the log could not be read before {kind} was told: {error}");
        }
        let project = directory.as_deref().and_then(|at| follower.project_of(at));
        let id = ident::passing_id(&mut follower.ticker, (self.shared.clock)());
        let told = Told::new(id, kind, properties);
        self.shared.push(|end| vec![Happening::passing(end, Scene { directory, project }, told)]);
    }

    /// Ends all streams: the server stops.
    pub(crate) fn close(&self) {
        self.shared.news.send_modify(|news| news.is_closed = true);
        // The thread that follows the log hears it at once.
        self.shared.engine.store().watch().wake();
    }
}

impl Shared {
    /// Begins to follow the log, once. Waits for the disk.
    pub(super) fn start(self: &Arc<Self>) -> turnstone_store::Result<()> {
        let mut ring = lock(&self.lately.ring);
        if ring.is_some() {
            return Ok(());
        }
        let end = self.engine.store().read(&self.context(), |r| r.last_cursor())?;
        *ring = Some(Ring::new(end, BOUNDS));
        drop(ring);
        follow::start(self);
        Ok(())
    }

    /// Who reads here.
    pub(super) fn context(&self) -> Context {
        Context::system((self.clock)())
    }

    /// Looks into the ring; before anybody listened it is empty.
    pub(super) fn ring<T>(&self, look: impl FnOnce(&Ring) -> T) -> T {
        let mut ring = lock(&self.lately.ring);
        look(ring.get_or_insert_with(|| Ring::new(Cursor(0), BOUNDS)))
    }

    /// How far the streams are.
    pub(super) fn heard(&self) -> &Heard {
        &self.lately.heard
    }

    /// What was touched lately, up to `upto`. Waits for the disk.
    pub(super) fn recent(&self, upto: Cursor) -> turnstone_store::Result<Arc<[Happening]>> {
        self.lately.recent.before(self, upto)
    }

    /// Puts into the ring what `make` makes of its end, and tells the streams.
    pub(super) fn push(&self, make: impl FnOnce(Cursor) -> Vec<Happening>) {
        let mut guard = lock(&self.lately.ring);
        let Some(ring) = guard.as_mut() else { return };
        let before = ring.next_number();
        for happening in make(ring.end()) {
            ring.push(happening);
        }
        let next = ring.next_number();
        drop(guard);
        if next != before {
            self.news.send_modify(|news| news.next = next);
        }
    }

    /// Lets the follower look at the log, unless it is closed.
    pub(super) fn follow(&self) -> Option<turnstone_store::Result<bool>> {
        if self.news.borrow().is_closed {
            return None;
        }
        Some(lock(&self.follower).drain(self))
    }

    /// Hears of news.
    pub(super) fn hear(&self) -> watch::Receiver<News> {
        self.news.subscribe()
    }

    /// A place among the streams of a peer.
    pub(super) fn seat(&self, peer: PeerId) -> Result<Seat, ApiError> {
        self.gates.seats.take(peer).ok_or_else(|| {
            let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
            ApiError::tagged(status, "ServiceUnavailableError", "too many event streams")
                .with("service", "events")
        })
    }

    /// Waits for a turn at the log.
    pub(super) async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.gates.readers.acquire().await.ok()
    }
}
