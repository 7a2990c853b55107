//! One reader of the log for all streams.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_engine::Engine;
use turnstone_store::Context;

use super::direct_delivery::DirectStreams;
use super::event_id;
use super::event_ring::{EventRing, RingBounds, RingRead};
use super::log_follower::{self, LogFollower};
use super::recent_events::RecentEventsCache;
use super::stream_event::{EventScope, StreamEvent, WireEvent};
use super::stream_progress::StreamProgress;
use super::stream_quota::{StreamQuota, StreamSlot};
use crate::connection::RingMark;
use crate::error::ApiError;
use crate::peer::PeerId;

/// What the ring holds: some seconds of a busy server.
const RING_BOUNDS: RingBounds = RingBounds { entries: 8_192, bytes: 8 << 20 };

/// How many streams read the log at a time; the others wait for their turn.
const MAX_LOG_READERS: usize = 4;

/// Delivers events to all open streams; a copy is a handle.
#[derive(Clone)]
pub(crate) struct EventHub {
    pub(super) shared: Arc<HubShared>,
}

/// What the streams and the follower share.
pub(super) struct HubShared {
    pub(super) engine: Arc<Engine>,
    pub(super) clock: fn() -> EpochMillis,
    memory: HubMemory,
    wake: watch::Sender<WakeSignal>,
    follower: Mutex<LogFollower>,
    limits: HubLimits,
}

/// What happened lately.
#[derive(Default)]
struct HubMemory {
    /// Empty until the first stream opens: without streams the log is not followed.
    ring: Mutex<Option<EventRing>>,
    recent: RecentEventsCache,
    progress: StreamProgress,
    direct: DirectStreams,
}

/// How many may do what at a time.
struct HubLimits {
    /// Streams of each peer.
    seats: Arc<StreamQuota>,
    /// Streams that read the log.
    readers: Semaphore,
}

/// Tells streams to look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WakeSignal {
    /// The number the next entry of the ring gets.
    pub(super) next: u64,
    /// The server stops.
    pub(super) is_closed: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventHub {
    /// A hub for at most `streams` streams of each peer.
    pub(crate) fn new(engine: Arc<Engine>, clock: fn() -> EpochMillis, streams: usize) -> Self {
        let gates = HubLimits {
            seats: StreamQuota::new(streams),
            readers: Semaphore::new(MAX_LOG_READERS),
        };
        let shared = HubShared {
            engine,
            clock,
            memory: HubMemory::default(),
            wake: watch::Sender::new(WakeSignal::default()),
            follower: Mutex::default(),
            limits: gates,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sends an ephemeral event to the streams of a directory.
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
        self.publish_ephemeral(Some(directory), kind, properties.borrow());
    }

    /// Sends an ephemeral event without a directory to `/global/event` and `/api/event`.
    pub(crate) fn publish_globally(&self, kind: &str, properties: impl Borrow<Value>) {
        self.publish_ephemeral(None, kind, properties.borrow());
    }

    fn publish_ephemeral(&self, directory: Option<Arc<str>>, kind: &str, properties: &Value) {
        if lock(&self.shared.memory.ring).is_none() {
            return;
        }
        let mut follower = lock(&self.shared.follower);
        if let Err(error) = follower.read_to_end(&self.shared) {
            tracing::warn!("the log could not be read before {kind} was sent: {error}");
        }
        let project = directory.as_deref().and_then(|at| follower.known_project(at));
        let id = match event_id::ephemeral_id(&mut follower.ticker, (self.shared.clock)()) {
            Ok(id) => id,
            Err(error) => {
                tracing::error!("{kind} is not published: {error}");
                return;
            }
        };
        let wire_event = WireEvent::new(id, kind, properties);
        self.shared.push_events(|end| {
            vec![StreamEvent::ephemeral(end, EventScope { directory, project }, wire_event)]
        });
    }

    /// Ends all streams: the server stops.
    pub(crate) fn close(&self) {
        self.shared.wake.send_modify(|signal| signal.is_closed = true);
        self.shared.direct_streams().wake_all();
        // The thread that follows the log notices it at once.
        self.shared.engine.store().commit_watch().wake_local();
    }
}

impl HubShared {
    /// Begins to follow the log, once. Waits for the disk.
    pub(super) fn start_following(self: &Arc<Self>) -> turnstone_store::Result<()> {
        let mut ring = lock(&self.memory.ring);
        if ring.is_some() {
            return Ok(());
        }
        let end = self.engine.store().read(&self.context(), |r| r.log().last_cursor())?;
        *ring = Some(EventRing::new(end, RING_BOUNDS));
        drop(ring);
        log_follower::spawn_follower(self);
        Ok(())
    }

    /// Who reads here.
    pub(super) fn context(&self) -> Context {
        Context::system((self.clock)())
    }

    /// Looks into the ring; it is empty before the first stream opens.
    pub(super) fn with_ring<T>(&self, look: impl FnOnce(&EventRing) -> T) -> T {
        let mut ring = lock(&self.memory.ring);
        look(ring.get_or_insert_with(|| EventRing::new(LogCursor(0), RING_BOUNDS)))
    }

    /// How far the streams are.
    pub(super) fn progress(&self) -> &StreamProgress {
        &self.memory.progress
    }

    /// The streams that are sent events directly.
    pub(super) fn direct_streams(&self) -> &DirectStreams {
        &self.memory.direct
    }

    /// What was touched lately, up to `upto`. Waits for the disk.
    pub(super) fn recent_events(
        &self,
        upto: LogCursor,
    ) -> turnstone_store::Result<Arc<[StreamEvent]>> {
        self.memory.recent.up_to(self, upto)
    }

    /// Puts into the ring what `make` makes of its end, and sends it to the streams. One caller at a time: each has
    /// the follower locked.
    pub(super) fn push_events(&self, make: impl FnOnce(LogCursor) -> Vec<StreamEvent>) {
        let mut guard = lock(&self.memory.ring);
        let Some(ring) = guard.as_mut() else { return };
        let before = ring.next_number();
        for event in make(ring.end()) {
            ring.push(event);
        }
        let (next, cursor) = (ring.next_number(), ring.end());
        if next == before {
            return;
        }
        let pushed = ring.read(before, usize::MAX);
        drop(guard);
        self.wake.send_modify(|signal| signal.next = next);
        match pushed {
            RingRead::Next(events, _) => {
                let to = RingMark { number: next, cursor };
                self.memory.direct.deliver(&events, before, to);
            }
            RingRead::Behind => self.memory.direct.wake_all(),
        }
    }

    /// Lets the follower look at the log, unless it is closed.
    pub(super) fn follow_once(&self) -> Option<turnstone_store::Result<bool>> {
        if self.wake.borrow().is_closed {
            return None;
        }
        Some(lock(&self.follower).read_to_end(self))
    }

    /// Subscribes to the wake signal.
    pub(super) fn subscribe(&self) -> watch::Receiver<WakeSignal> {
        self.wake.subscribe()
    }

    /// A place among the streams of a peer.
    pub(super) fn acquire_stream_slot(&self, peer: PeerId) -> Result<StreamSlot, ApiError> {
        self.limits.seats.acquire(peer).ok_or_else(|| {
            let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
            ApiError::tagged(status, "ServiceUnavailableError", "too many event streams")
                .with_field("service", "events")
        })
    }

    /// Waits for a turn at the log.
    pub(super) async fn acquire_log_reader(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.limits.readers.acquire().await.ok()
    }
}
