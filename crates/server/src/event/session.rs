//! One session in the second interface: its history by pages, and its stream from a number on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use turnstone_core::id::SessionId;
use turnstone_core::time::Cursor;
use turnstone_engine::Engine;
use turnstone_store::{Context, FeedMemo};

use super::episode::{Episode, episodes};
use super::hub::{Hub, News, Shared};
use super::ident::Place;
use super::ring::Found;
use super::seats::Seat;
use super::stream::answer;
use crate::error::ApiError;
use crate::peer::PeerId;

/// Events read at a time.
const PAGE: usize = 64;
/// How often a quiet stream shows that it lives.
const BEAT: Duration = Duration::from_secs(15);

/// Numbered events after `after`, at most `most` that have a word in the second interface, and whether
/// there is more. Those of one number stay together, so a page may be longer by one or two.
pub(crate) fn page(
    engine: &Engine,
    ctx: &Context,
    session: &SessionId,
    after: i64,
    most: usize,
) -> Result<(Vec<String>, bool), ApiError> {
    let mut reached = after;
    let mut found: Vec<Vec<Episode>> = Vec::new();
    let mut memo = FeedMemo::default();
    let is_full = |found: &[Vec<Episode>]| found.iter().map(Vec::len).sum::<usize>() > most;
    // One more than wanted tells whether there is more.
    while !is_full(&found) {
        let read = engine.store().read(ctx, |r| r.feed_sync(session, reached, PAGE, &mut memo))?;
        let Some(last) = read.last().and_then(|event| event.session.as_ref()?.sync_seq) else {
            break;
        };
        reached = last;
        for event in &read {
            found.push(episodes(engine, ctx, event)?);
        }
    }
    let (mut shown, mut more) = (Vec::new(), false);
    for number in found.into_iter().filter(|number| !number.is_empty()) {
        if shown.len() >= most {
            more = true;
            break;
        }
        shown.extend(number.into_iter().map(|episode| episode.json));
    }
    Ok((shown, more))
}

struct Flow {
    shared: Arc<Shared>,
    session: SessionId,
    news: watch::Receiver<News>,
    /// Everything up to here was queued.
    place: Place,
    /// The ring was looked at up to here.
    seen: u64,
    queue: VecDeque<Bytes>,
    /// The last page was not the last there is.
    has_more: bool,
    _seat: Seat,
}

impl Hub {
    /// Opens the stream of one session after a number, or inside of what one number is told as.
    pub(crate) async fn listen_to(
        &self,
        peer: PeerId,
        session: SessionId,
        place: Place,
    ) -> Result<Response, ApiError> {
        let shared = self.shared.clone();
        let seat = shared.seat(peer)?;
        let starts = shared.clone();
        match tokio::task::spawn_blocking(move || starts.start()).await {
            Ok(started) => started?,
            Err(error) => return Err(ApiError::unexpected(&error)),
        }
        let news = shared.hear();
        // Looked at before the log is read: what is written in between wakes the stream again.
        let seen = shared.ring(super::ring::Ring::next_number);
        let queue = VecDeque::new();
        let mut flow =
            Flow { shared, session, news, place, seen, queue, has_more: false, _seat: seat };
        if flow.read().await.is_none() {
            return Err(ApiError::unexpected(&std::io::Error::other("the log cannot be read")));
        }
        let frames = stream::unfold(flow, |mut flow| async move {
            let bytes = flow.next().await?;
            Some((Ok::<_, std::convert::Infallible>(bytes), flow))
        });
        Ok(answer(Body::from_stream(frames.fuse())))
    }
}

impl Flow {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.queue.pop_front() {
                return Some(bytes);
            }
            if self.news.borrow_and_update().is_closed {
                return None;
            }
            if std::mem::take(&mut self.has_more) || self.is_touched() {
                self.read().await?;
                continue;
            }
            tokio::select! {
                heard = self.news.changed() => heard.ok()?,
                () = tokio::time::sleep(BEAT) => {
                    self.queue.push_back(Bytes::from_static(b": heartbeat\n\n"));
                }
            }
        }
    }

    /// True if something happened to the session since the ring was looked at.
    fn is_touched(&mut self) -> bool {
        let (found, end) =
            self.shared.ring(|ring| (ring.read(self.seen, usize::MAX), ring.next_number()));
        self.seen = end;
        match found {
            Found::Behind => true,
            Found::Next(next, _) => {
                next.iter().any(|it| it.session.as_ref() == Some(&self.session))
            }
        }
    }

    /// Reads on to the end of the session; none if the log cannot be read.
    async fn read(&mut self) -> Option<()> {
        loop {
            let (shared, session, place) = (self.shared.clone(), self.session.clone(), self.place);
            let turn = self.shared.turn().await;
            let read = tokio::task::spawn_blocking(move || {
                let ctx = shared.context();
                let mut memo = FeedMemo::default();
                let store = shared.engine.store();
                let after = place.before().0;
                let events = store.read(&ctx, |r| r.feed_sync(&session, after, PAGE, &mut memo))?;
                let last = events.last().and_then(|event| event.session.as_ref()?.sync_seq);
                let mut found = Vec::new();
                for event in &events {
                    let told = episodes(&shared.engine, &ctx, event)?;
                    found.extend(told.into_iter().filter(|it| !it.was_seen(place)));
                }
                Ok::<_, turnstone_store::StoreError>((found, last))
            });
            let read = read.await;
            drop(turn);
            let (found, last) = read.ok()?.ok()?;
            let framed =
                |it: Episode| Bytes::from(format!("id: {}\ndata: {}\n\n", it.place, it.json));
            self.queue.extend(found.into_iter().map(framed));
            let Some(last) = last else { return Some(()) };
            self.place = Place::after(Cursor(last));
            if !self.queue.is_empty() {
                // The rest is read when this was sent.
                self.has_more = true;
                return Some(());
            }
        }
    }
}
