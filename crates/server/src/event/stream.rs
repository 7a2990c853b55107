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
use turnstone_core::id::Ticker;
use turnstone_core::time::{Cursor, Millis};
use turnstone_store::FeedMemo;

use super::happening::{Happening, Told, own_frame};
use super::heard::{FAR, Heard};
use super::hub::{Hub, News, Shared};
use super::ident::{self, Place, event_id};
use super::ring::Found;
use super::seats::Seat;
use crate::error::ApiError;
use crate::peer::PeerId;

pub(crate) use super::happening::Wire;

/// How often a quiet stream shows that it lives.
const BEAT: Duration = Duration::from_secs(10);
/// How much is taken from the ring at a time.
const TAKEN: usize = 64;

/// Who listens, and to what.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// Whose stream it is.
    pub(crate) peer: PeerId,
    /// The form.
    pub(crate) wire: Wire,
    /// Only this directory.
    pub(crate) directory: Option<String>,
    /// Where it was before; none: it is new.
    pub(crate) after: Option<Place>,
}

/// Where the next frames come from.
enum Source {
    /// The log.
    Log,
    /// The ring, from this number on.
    Ring(u64),
}

struct Flow {
    shared: Arc<Shared>,
    listener: Listener,
    news: watch::Receiver<News>,
    beat: Interval,
    line: Line,
    /// Counts this stream while it lives.
    _seat: Seat,
}

/// How far a stream is.
struct Line {
    source: Source,
    /// Everything up to here was queued.
    place: Place,
    queue: VecDeque<Bytes>,
    memo: FeedMemo,
    /// It has to be told what it may have missed.
    is_new: bool,
    /// It was told that something is missing.
    is_told: bool,
    is_over: bool,
    /// The number up to which the ring was handed on, for whoever waits for that.
    heard: Arc<AtomicU64>,
}

impl Line {
    fn new(source: Source, place: Place, heard: &Heard) -> Self {
        let (queue, memo) = (VecDeque::new(), FeedMemo::default());
        let heard = heard.join(if let Source::Ring(from) = source { from } else { FAR });
        Self { source, place, queue, memo, is_new: false, is_told: false, is_over: false, heard }
    }
}

impl Hub {
    /// Opens a stream.
    pub(crate) async fn listen(&self, listener: Listener) -> Result<Response, ApiError> {
        let shared = self.shared.clone();
        let seat = shared.seat(listener.peer)?;
        let starts = shared.clone();
        match tokio::task::spawn_blocking(move || starts.start()).await {
            Ok(started) => started?,
            Err(error) => return Err(ApiError::unexpected(&error)),
        }
        let news = shared.hear();
        let (end, next) = shared.ring(|ring| (ring.end(), ring.next_number()));
        let (place, source) = match listener.after {
            Some(place) => (place, Source::Log),
            None => (Place::after(end), Source::Ring(next)),
        };
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.reset();
        let mut line = Line::new(source, place, shared.heard());
        line.is_new = listener.wire == Wire::Global && listener.after.is_none();
        let mut flow = Flow { shared, listener, news, beat, line, _seat: seat };
        flow.say("server.connected");
        if flow.listener.wire == Wire::Api {
            flow.say("server.heartbeat");
        }
        let frames = stream::unfold(flow, |mut flow| async move {
            let bytes = flow.next().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), flow))
        });
        Ok(answer(Body::from_stream(frames.fuse())))
    }
}

/// The answer that is a stream.
pub(super) fn answer(body: Body) -> Response {
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

impl Flow {
    /// The next frame; none when the stream is over.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.line.queue.pop_front() {
                return Some(bytes);
            }
            if self.line.is_over || self.news.borrow_and_update().is_closed {
                return None;
            }
            if std::mem::take(&mut self.line.is_new) {
                self.heal().await;
                continue;
            }
            if self.beat.tick().now_or_never().is_some() {
                self.say("server.heartbeat");
                continue;
            }
            match self.line.source {
                Source::Ring(from) => self.read_ring(from).await,
                Source::Log => self.read_log().await,
            }
        }
    }

    async fn read_ring(&mut self, from: u64) {
        match self.shared.ring(|ring| ring.read(from, TAKEN)) {
            Found::Next(next, _) if next.is_empty() => {
                self.line.heard.store(from, Ordering::Relaxed);
                tokio::select! {
                    _ = self.news.changed() => {}
                    _ = self.beat.tick() => self.say("server.heartbeat"),
                }
            }
            Found::Next(next, to) => {
                for happening in next {
                    self.take(&happening);
                }
                self.line.source = Source::Ring(to);
            }
            Found::Behind => {
                self.say("server.lagged");
                self.line.is_told = false;
                self.line.heard.store(FAR, Ordering::Relaxed);
                self.line.source = Source::Log;
            }
        }
    }

    /// Reads on in the log, or goes over to the ring once that reaches back to here.
    async fn read_log(&mut self) {
        let place = self.line.place;
        let hop = self.shared.ring(|ring| {
            (place.cursor <= ring.end()).then(|| ring.number_after(place.before())).flatten()
        });
        if let Some(number) = hop {
            self.line.source = Source::Ring(number);
            return;
        }
        let (shared, after) = (self.shared.clone(), place.before());
        let mut memo = std::mem::take(&mut self.line.memo);
        let reading = move || {
            let happenings = shared.piece(after, &mut memo)?;
            let ctx = shared.context();
            let end = shared.engine.store().read(&ctx, |r| r.last_cursor())?;
            Ok::<_, turnstone_store::StoreError>((happenings, end, memo))
        };
        let Some((happenings, end, memo)) = self.read(reading).await else { return };
        self.line.memo = memo;
        for happening in &happenings {
            self.take(happening);
        }
        if happenings.is_empty() && place.cursor <= end {
            // The log has nothing more: whatever comes next comes through the ring.
            let number = self.shared.ring(|ring| ring.number_after(place.cursor));
            self.line.source = number.map_or(Source::Log, Source::Ring);
        } else if place.cursor > end {
            // A place this log never reached: of what happened since nothing can be said.
            self.line.place = Place::after(end);
            self.resync(end, (self.shared.clock)());
        }
    }

    /// Runs `reading` where it may wait for the disk, when it is this stream's turn. A stream that cannot
    /// read is over: its client comes back and says where it was.
    async fn read<T, F>(&mut self, reading: F) -> Option<T>
    where
        T: Send + 'static,
        F: FnOnce() -> turnstone_store::Result<T> + Send + 'static,
    {
        let turn = self.shared.turn().await;
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

    /// Tells the newest state of what was touched lately.
    async fn heal(&mut self) {
        let (shared, upto) = (self.shared.clone(), self.line.place.cursor);
        let Some(told) = self.read(move || shared.recent(upto)).await else { return };
        for happening in &*told {
            if !self.is_for(happening) {
                continue;
            }
            let frames = happening.shown(self.listener.wire).iter();
            self.line.queue.extend(frames.map(|shown| shown.bytes.clone()));
        }
    }

    fn is_for(&self, happening: &Happening) -> bool {
        let directory = self.listener.directory.as_deref();
        directory.is_none_or(|directory| happening.is_in(directory))
    }

    /// Tells once that something is missing before `cursor`.
    fn resync(&mut self, cursor: Cursor, time: Millis) {
        if !self.line.is_told {
            let told = Told::bare(event_id(cursor, time, 0), "resync");
            let frame = own_frame(self.listener.wire, Place::after(cursor), &told);
            self.line.queue.push_back(frame);
            self.line.is_told = true;
        }
    }

    /// Queues the frames of a happening that this stream is to see and has not seen.
    fn take(&mut self, happening: &Happening) {
        let is_for = self.is_for(happening);
        let line = &mut self.line;
        let place = line.place;
        if let Some(time) = happening.gap {
            if !place.has(happening.cursor, u32::MAX) {
                self.resync(happening.cursor, time);
            }
        } else if is_for {
            for shown in happening.shown(self.listener.wire) {
                if !happening.is_logged || !place.has(happening.cursor, shown.frame) {
                    line.queue.push_back(shown.bytes.clone());
                }
            }
            line.is_over |= self.listener.wire == Wire::Instance && happening.is_end();
        }
        self.pass(happening.cursor);
    }

    /// Everything up to `cursor` was queued.
    fn pass(&mut self, cursor: Cursor) {
        if cursor >= self.line.place.cursor {
            self.line.place = Place::after(cursor);
        }
    }

    /// Queues a word of the stream itself; it carries the place, so that a stream that breaks before
    /// anything happened can go on as well.
    fn say(&mut self, kind: &str) {
        let id = ident::passing_id(&mut Ticker::default(), (self.shared.clock)());
        let frame = match (self.listener.wire, kind) {
            (Wire::Api, "server.heartbeat") => Bytes::from_static(b": heartbeat\n\n"),
            (wire, kind) => own_frame(wire, self.line.place, &Told::bare(id, kind)),
        };
        self.line.queue.push_back(frame);
    }
}
