//! One stream: what was missed from the log, then what happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::{FutureExt, stream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Interval, MissedTickBehavior};
use turnstone_core::id::Ticker;
use turnstone_core::time::Cursor;

use super::happening::{Happening, Told, own_frame};
use super::hub::{Hub, News, Shared};
use super::ident::{self, Place};
use super::ring::Found;
use crate::error::ApiError;

pub(crate) use super::happening::Wire;

/// How often a quiet stream shows that it lives.
const BEAT: Duration = Duration::from_secs(10);
/// How much is taken from the ring at a time.
const TAKEN: usize = 64;

/// Who listens, and to what.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
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
    _seat: OwnedSemaphorePermit,
}

/// How far a stream is.
struct Line {
    source: Source,
    /// Everything up to here was queued.
    place: Place,
    queue: VecDeque<Bytes>,
    is_over: bool,
}

impl Hub {
    /// Opens a stream.
    pub(crate) async fn listen(&self, listener: Listener) -> Result<Response, ApiError> {
        let shared = self.shared.clone();
        let seat = shared.seat()?;
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
        let line = Line { source, place, queue: VecDeque::new(), is_over: false };
        let mut flow = Flow { shared, listener, news, beat, line, _seat: seat };
        flow.say("server.connected");
        let frames = stream::unfold(flow, |mut flow| async move {
            let bytes = flow.next().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), flow))
        });
        Ok(answer(Body::from_stream(frames)))
    }
}

fn answer(body: Body) -> Response {
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
            if self.beat.tick().now_or_never().is_some() {
                self.say("server.heartbeat");
                continue;
            }
            match self.line.source {
                Source::Ring(from) => self.from_ring(from).await,
                Source::Log => self.from_log().await,
            }
        }
    }

    async fn from_ring(&mut self, from: u64) {
        match self.shared.ring(|ring| ring.read(from, TAKEN)) {
            Found::Next(next, _) if next.is_empty() => {
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
            Found::Behind => self.line.source = Source::Log,
        }
    }

    async fn from_log(&mut self) {
        let next = self.shared.ring(super::ring::Ring::next_number);
        self.line.source = Source::Ring(next);
    }

    /// Queues the frames of a happening that this stream is to see and has not seen.
    fn take(&mut self, happening: &Happening) {
        let line = &mut self.line;
        let place = line.place;
        let directory = self.listener.directory.as_deref();
        if directory.is_none_or(|directory| happening.is_in(directory)) {
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
