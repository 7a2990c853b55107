//! One stream: what was missed from the log, then what happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::{FutureExt, StreamExt as _, stream};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior};
use turnstone_core::id::IdClock;
use turnstone_core::time::{EpochMillis, LogCursor};
use turnstone_store::FeedCache;

use super::direct_delivery::DirectStream;
use super::event_id::{self, StreamPosition, event_id};
use super::event_ring::RingRead;
use super::hub::{EventHub, HubShared, WakeSignal};
use super::pending_requests::{load_pending, without_announced};
use super::stream_event::{StreamEvent, WireEvent, control_frame};
use super::stream_progress::{READING_LOG, StreamProgress};
use super::stream_quota::StreamSlot;
use crate::connection::{RingMark, StreamSocket};
use crate::error::ApiError;
use crate::peer::PeerId;

pub(crate) use super::stream_event::StreamFormat;

/// How often a quiet stream shows that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// How much is taken from the ring at a time.
const RING_BATCH: usize = 64;

/// Who listens, and to what.
#[derive(Clone, Debug)]
pub(crate) struct StreamSubscription {
    /// Whose stream it is.
    pub(crate) peer: PeerId,
    /// The form.
    pub(crate) wire: StreamFormat,
    /// Only this directory.
    pub(crate) directory: Option<String>,
    /// Where it was before; none: it is new.
    pub(crate) after: Option<StreamPosition>,
    /// Where frames can be sent directly.
    pub(crate) socket: Option<Arc<StreamSocket>>,
}

/// Where the next frames come from.
enum FrameSource {
    /// The log.
    Log,
    /// The ring, from this number on.
    Ring(u64),
}

struct EventStream {
    shared: Arc<HubShared>,
    listener: StreamSubscription,
    wake_signal: watch::Receiver<WakeSignal>,
    beat: Interval,
    line: EventStreamState,
    direct: Option<DirectStreamGuard>,
    /// Counts this stream while it lives.
    _seat: StreamSlot,
}

/// A stream that is sent events directly, as long as this value lives.
struct DirectStreamGuard {
    shared: Arc<HubShared>,
    stream: Arc<DirectStream>,
}

impl DirectStreamGuard {
    fn new(shared: &Arc<HubShared>, stream: DirectStream) -> Self {
        let stream = Arc::new(stream);
        shared.direct_streams().add(stream.clone());
        Self { shared: shared.clone(), stream }
    }
}

impl Drop for DirectStreamGuard {
    fn drop(&mut self) {
        self.shared.direct_streams().remove(&self.stream);
        // What comes next on the connection is another response.
        self.stream.socket.end_wait();
    }
}

/// How far a stream is.
struct EventStreamState {
    source: FrameSource,
    /// Everything up to here was queued.
    position: StreamPosition,
    queue: VecDeque<Bytes>,
    memo: FeedCache,
    /// What a client that has just connected needs is still to be sent.
    is_new: bool,
    /// It was notified that something is missing.
    is_resync_sent: bool,
    is_over: bool,
    /// The number up to which the ring was sent, for requests that wait for that.
    progress: Arc<AtomicU64>,
}

impl EventStreamState {
    fn new(source: FrameSource, place: StreamPosition, progress: &StreamProgress) -> Self {
        let (queue, memo) = (VecDeque::new(), FeedCache::default());
        let progress = progress.register(if let FrameSource::Ring(from) = source {
            from
        } else {
            READING_LOG
        });
        Self {
            source,
            position: place,
            queue,
            memo,
            is_new: false,
            is_resync_sent: false,
            is_over: false,
            progress,
        }
    }
}

impl EventHub {
    /// Opens a stream.
    pub(crate) async fn open_stream(
        &self,
        mut listener: StreamSubscription,
    ) -> Result<Response, ApiError> {
        let shared = self.shared.clone();
        let seat = shared.acquire_stream_slot(listener.peer)?;
        let starts = shared.clone();
        match tokio::task::spawn_blocking(move || starts.start_following()).await {
            Ok(started) => started?,
            Err(error) => return Err(ApiError::unexpected(&error)),
        }
        let wake_signal = shared.subscribe();
        let (end, next) = shared.with_ring(|ring| (ring.end(), ring.next_number()));
        let (place, source) = match listener.after {
            Some(place) => (place, FrameSource::Log),
            None => (StreamPosition::after(end), FrameSource::Ring(next)),
        };
        let mut beat = tokio::time::interval(HEARTBEAT_INTERVAL);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let mut line = EventStreamState::new(source, place, shared.progress());
        // One that resumes reads what it missed from the log, and nothing twice.
        line.is_new = listener.wire != StreamFormat::Api && listener.after.is_none();
        let direct = listener.socket.take().map(|socket| {
            let (format, directory) = (listener.wire, listener.directory.clone());
            let progress = line.progress.clone();
            let stream = DirectStream { socket, format, directory, progress };
            DirectStreamGuard::new(&shared, stream)
        });
        let mut flow =
            EventStream { shared, listener, wake_signal, beat, line, direct, _seat: seat };
        flow.queue_control("server.connected");
        if flow.listener.wire == StreamFormat::Api {
            flow.queue_control("server.heartbeat");
        }
        let frames = stream::unfold(flow, |mut flow| async move {
            let bytes = flow.next_frame().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), flow))
        });
        Ok(sse_response(Body::from_stream(frames.fuse())))
    }
}

/// The answer that is a stream.
pub(super) fn sse_response(body: Body) -> Response {
    let mut response = Response::new(body);
    for (name, value) in [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-cache, no-transform"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl EventStream {
    /// The next frame; none when the stream is over.
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.line.queue.pop_front() {
                return Some(bytes);
            }
            if self.line.is_over || self.wake_signal.borrow_and_update().is_closed {
                return None;
            }
            if std::mem::take(&mut self.line.is_new) {
                self.send_opening().await;
                continue;
            }
            if self.beat.tick().now_or_never().is_some() {
                self.queue_control("server.heartbeat");
                continue;
            }
            match self.line.source {
                FrameSource::Ring(from) => self.read_ring(from).await,
                FrameSource::Log => self.read_log().await,
            }
        }
    }

    async fn read_ring(&mut self, from: u64) {
        match self.shared.with_ring(|ring| ring.read(from, RING_BATCH)) {
            RingRead::Next(next, _) if next.is_empty() => {
                self.line.progress.store(from, Ordering::Relaxed);
                if self.wait_for_events(from).await {
                    self.queue_control("server.heartbeat");
                }
            }
            RingRead::Next(next, to) => {
                for event in next {
                    self.queue_event(&event);
                }
                self.line.source = FrameSource::Ring(to);
            }
            RingRead::Behind => {
                self.queue_control("server.lagged");
                self.line.is_resync_sent = false;
                self.line.progress.store(READING_LOG, Ordering::Relaxed);
                self.line.source = FrameSource::Log;
            }
        }
    }

    /// Waits until there are events from number `from` on which this stream has to send itself, or a heartbeat is due:
    /// then returns true.
    async fn wait_for_events(&mut self, from: u64) -> bool {
        let Some(direct) = &self.direct else {
            return tokio::select! {
                _ = self.wake_signal.changed() => false,
                _ = self.beat.tick() => true,
            };
        };
        let (socket, cursor) = (&direct.stream.socket, self.line.position.cursor);
        // A stream that has read the log further than the ring reaches must leave out what it has sent.
        let is_ahead = self.shared.with_ring(|ring| cursor > ring.end());
        socket.begin_wait(RingMark { number: from, cursor }, !is_ahead);
        let is_last = self.shared.with_ring(|ring| ring.next_number() == from);
        let is_due = is_last
            && !self.wake_signal.borrow().is_closed
            && tokio::select! {
                () = std::future::poll_fn(|cx| socket.poll_woken(cx)) => false,
                _ = self.beat.tick() => true,
            };
        if let Some(mark) = socket.end_wait() {
            self.line.source = FrameSource::Ring(mark.number);
            self.advance_to(mark.cursor);
        }
        is_due
    }

    /// Reads on in the log, or goes over to the ring once that reaches back to here.
    async fn read_log(&mut self) {
        let place = self.line.position;
        let hop = self.shared.with_ring(|ring| {
            (place.cursor <= ring.end()).then(|| ring.number_after(place.read_after())).flatten()
        });
        if let Some(number) = hop {
            self.line.source = FrameSource::Ring(number);
            return;
        }
        let (shared, after) = (self.shared.clone(), place.read_after());
        let mut memo = std::mem::take(&mut self.line.memo);
        let reading = move || {
            let events = shared.read_events(after, &mut memo)?;
            let ctx = shared.context();
            let end = shared.engine.store().read(&ctx, |r| r.log().last_cursor())?;
            Ok::<_, turnstone_store::StoreError>((events, end, memo))
        };
        let Some((events, end, memo)) = self.read_blocking(reading).await else { return };
        self.line.memo = memo;
        for event in &events {
            self.queue_event(event);
        }
        if events.is_empty() && place.cursor <= end {
            // The log has nothing more: whatever comes next comes through the ring.
            let number = self.shared.with_ring(|ring| ring.number_after(place.cursor));
            self.line.source = number.map_or(FrameSource::Log, FrameSource::Ring);
        } else if place.cursor > end {
            // A position this log never reached: what happened since is unknown.
            self.line.position = StreamPosition::after(end);
            self.queue_resync(end, (self.shared.clock)());
        }
    }

    /// Runs `reading` where it may wait for the disk, when it is this stream's turn. A stream that cannot
    /// read is over: its client comes back and says where it was.
    async fn read_blocking<T, F>(&mut self, reading: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> turnstone_store::Result<T> + Send + 'static,
    {
        let turn = self.shared.acquire_log_reader().await;
        let read = match turn {
            Some(_) => tokio::task::spawn_blocking(reading).await.ok(),
            None => None,
        };
        match read {
            Some(Ok(value)) => return Some(value),
            Some(Err(error)) => tracing::error!("a stream cannot read the log: {error}"),
            None => tracing::error!("a stream cannot read the log"),
        }
        drop(turn);
        self.line.is_over = true;
        None
    }

    /// Sends what a client that has just connected would miss: the newest state of what changed recently, and every
    /// request that waits for an answer.
    async fn send_opening(&mut self) {
        let (shared, upto) = (self.shared.clone(), self.line.position.cursor);
        let shows_recent = self.listener.wire == StreamFormat::Global;
        let reading = move || {
            let recent = match shows_recent {
                true => shared.recent_events(upto)?,
                false => Arc::default(),
            };
            Ok((recent, load_pending(&shared, upto)?))
        };
        let Some((recent, pending)) = self.read_blocking(reading).await else { return };
        recent.iter().for_each(|event| self.queue_opening(event));
        without_announced(pending, &recent).for_each(|event| self.queue_opening(&event));
    }

    /// Queues the frames of an event without moving the position.
    fn queue_opening(&mut self, event: &StreamEvent) {
        if self.is_subscribed(event) {
            let frames = event.frames(self.listener.wire).iter();
            self.line.queue.extend(frames.map(|shown| shown.bytes.clone()));
        }
    }

    fn is_subscribed(&self, event: &StreamEvent) -> bool {
        let directory = self.listener.directory.as_deref();
        directory.is_none_or(|directory| event.is_in_directory(directory))
    }

    /// Sends once that something is missing before `cursor`.
    fn queue_resync(&mut self, cursor: LogCursor, time: EpochMillis) {
        if !self.line.is_resync_sent {
            let resync = WireEvent::without_properties(event_id(cursor, time, 0), "resync");
            let frame = control_frame(self.listener.wire, StreamPosition::after(cursor), &resync);
            self.line.queue.push_back(frame);
            self.line.is_resync_sent = true;
        }
    }

    /// Queues the frames of a happening that this stream is to see and has not seen.
    fn queue_event(&mut self, event: &StreamEvent) {
        let is_for = self.is_subscribed(event);
        let line = &mut self.line;
        let place = line.position;
        if let Some(time) = event.gap {
            if !place.includes(event.cursor, u32::MAX) {
                self.queue_resync(event.cursor, time);
            }
        } else if is_for {
            for shown in event.frames(self.listener.wire) {
                if !event.is_logged || !place.includes(event.cursor, shown.frame) {
                    line.queue.push_back(shown.bytes.clone());
                }
            }
            line.is_over |=
                self.listener.wire == StreamFormat::Instance && event.is_instance_disposed();
        }
        self.advance_to(event.cursor);
    }

    /// Everything up to `cursor` was queued.
    fn advance_to(&mut self, cursor: LogCursor) {
        if cursor >= self.line.position.cursor {
            self.line.position = StreamPosition::after(cursor);
        }
    }

    /// Queues a word of the stream itself; it carries the place, so that a stream that breaks before
    /// anything happened can go on as well.
    fn queue_control(&mut self, kind: &str) {
        let id = match event_id::ephemeral_id(&mut IdClock::default(), (self.shared.clock)()) {
            Ok(id) => id,
            Err(error) => {
                tracing::error!("a stream ends before {kind}: {error}");
                self.line.is_over = true;
                return;
            }
        };
        let frame = match (self.listener.wire, kind) {
            (StreamFormat::Api, "server.heartbeat") => Bytes::from_static(b": heartbeat\n\n"),
            (wire, kind) => {
                control_frame(wire, self.line.position, &WireEvent::without_properties(id, kind))
            }
        };
        self.line.queue.push_back(frame);
    }
}
