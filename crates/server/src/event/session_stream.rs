//! One session in the second interface: its history by pages, and its stream from a number on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use turnstone_core::id::SessionId;
use turnstone_core::time::LogCursor;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedCache};

use super::event_id::StreamPosition;
use super::event_ring::RingRead;
use super::event_stream::sse_response;
use super::hub::{EventHub, HubShared, WakeSignal};
use super::stream_quota::StreamSlot;
use super::v2_event::{V2Event, v2_events};
use crate::error::ApiError;
use crate::peer::PeerId;

/// Events read at a time.
const PAGE_EVENTS: usize = 64;
/// How often a quiet stream shows that it lives.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Numbered events after `after`, at most `most` that have a word in the second interface, and whether
/// there is more. Those of one number stay together, so a page may be longer by one or two.
pub(crate) fn history_page(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    after: i64,
    most: usize,
) -> Result<(Vec<String>, bool), ApiError> {
    let mut reached = after;
    let mut found: Vec<Vec<V2Event>> = Vec::new();
    let mut memo = FeedCache::default();
    let is_full = |found: &[Vec<V2Event>]| found.iter().map(Vec::len).sum::<usize>() > most;
    // One more than wanted tells whether there is more.
    while !is_full(&found) {
        let read = engine
            .store()
            .read(ctx, |r| r.feed().sync_after(session, reached, PAGE_EVENTS, &mut memo))?;
        let Some(last) = read.last().and_then(|event| event.session.as_ref()?.sync_seq) else {
            break;
        };
        reached = last;
        for event in &read {
            found.push(v2_events(engine, ctx, event)?);
        }
    }
    let (mut shown, mut more) = (Vec::new(), false);
    for number in found.into_iter().filter(|number| !number.is_empty()) {
        if shown.len() >= most {
            more = true;
            break;
        }
        shown.extend(number.into_iter().map(|event| event.json));
    }
    Ok((shown, more))
}

struct SessionStream {
    shared: Arc<HubShared>,
    session: SessionId,
    wake_signal: watch::Receiver<WakeSignal>,
    /// Everything up to here was queued.
    position: StreamPosition,
    /// The ring was looked at up to here.
    ring_number: u64,
    queue: VecDeque<Bytes>,
    /// The last page was not the last there is.
    has_more: bool,
    _seat: StreamSlot,
}

impl EventHub {
    /// Opens the stream of one session after a number, or between the frames of one number.
    pub(crate) async fn open_session_stream(
        &self,
        peer: PeerId,
        session: SessionId,
        place: StreamPosition,
    ) -> Result<Response, ApiError> {
        let shared = self.shared.clone();
        let seat = shared.acquire_stream_slot(peer)?;
        let starts = shared.clone();
        match tokio::task::spawn_blocking(move || starts.start_following()).await {
            Ok(started) => started?,
            Err(error) => return Err(ApiError::unexpected(&error)),
        }
        let wake_signal = shared.subscribe();
        // Looked at before the log is read: what is written in between wakes the stream again.
        let seen = shared.with_ring(super::event_ring::EventRing::next_number);
        let queue = VecDeque::new();
        let mut flow = SessionStream {
            shared,
            session,
            wake_signal,
            position: place,
            ring_number: seen,
            queue,
            has_more: false,
            _seat: seat,
        };
        if flow.read_log().await.is_none() {
            return Err(ApiError::unexpected(&std::io::Error::other("the log cannot be read")));
        }
        let frames = stream::unfold(flow, |mut flow| async move {
            let bytes = flow.next_frame().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), flow))
        });
        Ok(sse_response(Body::from_stream(frames.fuse())))
    }
}

impl SessionStream {
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                return Some(bytes);
            }
            if self.wake_signal.borrow_and_update().is_closed {
                return None;
            }
            if std::mem::take(&mut self.has_more) || self.has_changed() {
                self.read_log().await?;
                continue;
            }
            tokio::select! {
                changed = self.wake_signal.changed() => changed.ok()?,
                () = tokio::time::sleep(HEARTBEAT_INTERVAL) => {
                    self.queue.push_back(Bytes::from_static(b": heartbeat\n\n"));
                }
            }
        }
    }

    /// True if something happened to the session since the ring was looked at.
    fn has_changed(&mut self) -> bool {
        let (found, end) = self
            .shared
            .with_ring(|ring| (ring.read(self.ring_number, usize::MAX), ring.next_number()));
        self.ring_number = end;
        match found {
            RingRead::Behind => true,
            RingRead::Next(next, _) => {
                next.iter().any(|it| it.session.as_ref() == Some(&self.session))
            }
        }
    }

    /// Reads on to the end of the session; none if the log cannot be read.
    async fn read_log(&mut self) -> Option<()> {
        loop {
            let (shared, session, place) =
                (self.shared.clone(), self.session.clone(), self.position);
            let turn = self.shared.acquire_log_reader().await;
            let read = tokio::task::spawn_blocking(move || {
                let ctx = shared.context();
                let mut memo = FeedCache::default();
                let store = shared.engine.store();
                let after = place.read_after().0;
                let events = store
                    .read(&ctx, |r| r.feed().sync_after(&session, after, PAGE_EVENTS, &mut memo))?;
                let last = events.last().and_then(|event| event.session.as_ref()?.sync_seq);
                let mut found = Vec::new();
                for event in &events {
                    let translated = v2_events(&shared.engine, &ctx, event)?;
                    found.extend(translated.into_iter().filter(|it| !it.is_before(place)));
                }
                Ok::<_, turnstone_store::StoreError>((found, last))
            });
            let read = read.await;
            drop(turn);
            let (found, last) = read.ok()?.ok()?;
            let framed =
                |it: V2Event| Bytes::from(format!("id: {}\ndata: {}\n\n", it.place, it.json));
            self.queue.extend(found.into_iter().map(framed));
            let Some(last) = last else { return Some(()) };
            self.position = StreamPosition::after(LogCursor(last));
            if !self.queue.is_empty() {
                // The rest is read when this was sent.
                self.has_more = true;
                return Some(());
            }
        }
    }
}
