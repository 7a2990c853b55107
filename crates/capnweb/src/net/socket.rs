//! One session over one WebSocket: one text frame is one message.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink, Stream};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};

use super::frame::{Frame, Incoming, close_reason};
use crate::error::RpcError;
use crate::run::{Incident, Runner};

/// Told of every failure whose text did not leave.
pub(super) type OnIncident = Arc<dyn Fn(Incident) + Send + Sync>;

/// The code that npm closes with.
const CLOSED: u16 = 3000;
const CLOSED_NORMALLY: u16 = 1000;
/// How long a peer may take to take the last messages.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Bytes a socket reads ahead. The libraries keep 128 KiB for every one, idle or not.
pub(super) const READ_BUFFER: usize = 8 * 1024;

/// Frames that are taken before anything is answered.
const FRAMES_AT_ONCE: usize = 128;

/// How a socket is looked after.
pub(super) struct Care {
    pub(super) ping: Duration,
    pub(super) age: Option<Duration>,
    pub(super) on_incident: Option<OnIncident>,
}

struct Connection<S> {
    socket: S,
    runner: Runner,
    ping: Interval,
    begun: Instant,
    age: Option<Pin<Box<Sleep>>>,
    on_incident: Option<OnIncident>,
    /// What gives things back has waited for other messages once.
    waited: bool,
    /// Ticks of `ping` since the peer was last heard.
    unheard: u8,
    /// The peer, or the network, ended it: nothing can be sent.
    gone: bool,
}

/// How many pings may stay without any sign of life.
const MOST_PINGS: u8 = 2;

/// Carries a session until it is over.
pub(super) async fn carry<S, M, E>(socket: S, runner: Runner, care: Care)
where
    S: Stream<Item = Result<M, E>> + Sink<M> + Unpin,
    M: Frame,
{
    let mut ping = tokio::time::interval(care.ping);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let mut connection = Connection {
        socket,
        runner,
        ping,
        begun: Instant::now(),
        age: care.age.map(|age| Box::pin(tokio::time::sleep(age))),
        on_incident: care.on_incident,
        waited: false,
        unheard: 0,
        gone: false,
    };
    poll_fn(|context| connection.poll(context)).await;
    if !connection.gone {
        tokio::time::timeout(LAST_WORDS, connection.say_goodbye()).await.ok();
    }
}

impl<S, M, E> Connection<S>
where
    S: Stream<Item = Result<M, E>> + Sink<M> + Unpin,
    M: Frame,
{
    /// Receives, runs and sends; ready when the session is over.
    ///
    /// What has arrived is taken together and answered together: one write for many messages.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.runner.session().tick(self.begun.elapsed());
            let more = self.poll_receive(context);
            self.runner.poll(context);
            self.report();
            let sending = self.poll_send(context);
            self.poll_times(context);
            if self.runner.closed().is_some() {
                return Poll::Ready(());
            }
            // A peer that does not read is not read from: what it makes us say is bounded.
            if sending.is_pending() || !more {
                return Poll::Pending;
            }
        }
    }

    /// Takes frames; tells whether there may be more.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..FRAMES_AT_ONCE {
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => return false,
                Poll::Ready(frame) => self.take(frame.as_ref()),
            }
            if self.runner.closed().is_some() {
                return false;
            }
        }
        true
    }

    fn take(&mut self, frame: Option<&Result<M, E>>) {
        self.unheard = 0;
        let incoming = match frame {
            Some(Ok(frame)) => frame.read(),
            Some(Err(_)) | None => Incoming::Close(1006, ""),
        };
        match incoming {
            Incoming::Text(text) => self.runner.receive(text),
            Incoming::Binary => {
                let error = RpcError::coded("protocol", "binary frames carry no messages");
                self.runner.session().abort(&error);
            }
            Incoming::Close(code, reason) => {
                self.gone = true;
                let message = format!("Peer closed WebSocket: {code} {reason}");
                self.runner.session().close(&RpcError::new("Error", message));
            }
            Incoming::Other => {}
        }
    }

    /// Hands over messages while the socket takes them.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let session = self.runner.session();
        let unhurried = !session.is_silent() && !session.is_urgent();
        if unhurried && !std::mem::replace(&mut self.waited, true) {
            // Whoever was answered runs first: what it says next goes into the same write.
            context.waker().wake_by_ref();
            return Poll::Ready(());
        }
        self.waited = false;
        while !self.runner.session().is_silent() {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.lost();
                    return Poll::Ready(());
                }
                Poll::Pending => return Poll::Pending,
            }
            let Some(text) = self.runner.poll_text() else {
                break;
            };
            Pin::new(&mut self.socket).start_send(M::text(text)).ok();
        }
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        if matches!(flushed, Poll::Ready(Err(_))) {
            self.lost();
        }
        Poll::Ready(())
    }

    fn lost(&mut self) {
        self.gone = true;
        let error = RpcError::new("Error", "WebSocket connection failed.");
        self.runner.session().close(&error);
    }

    fn poll_times(&mut self, context: &mut Context<'_>) {
        if self.ping.poll_tick(context).is_ready() {
            // Polled again, so that the next tick wakes the task.
            context.waker().wake_by_ref();
            self.ask_for_a_sign(context);
        }
        let old = self.age.as_mut().is_some_and(|age| age.as_mut().poll(context).is_ready());
        if old {
            self.age = None;
            self.runner.session().tick(Duration::MAX);
        }
    }

    /// Pings a peer that was not heard since the last tick; gives it up if pings do not help.
    fn ask_for_a_sign(&mut self, context: &mut Context<'_>) {
        self.unheard += 1;
        if self.unheard > MOST_PINGS + 1 {
            self.lost();
        } else if self.unheard > 1 {
            let socket = Pin::new(&mut self.socket);
            // The next flush sends it; a socket that is full needs no sign of life.
            if matches!(Sink::poll_ready(socket, context), Poll::Ready(Ok(()))) {
                Pin::new(&mut self.socket).start_send(M::ping()).ok();
            }
        }
    }

    fn report(&mut self) {
        let incidents = self.runner.take_incidents();
        if let Some(on_incident) = &self.on_incident {
            incidents.into_iter().for_each(|incident| on_incident(incident));
        }
    }

    /// Sends what is left, then closes as npm does.
    async fn say_goodbye(&mut self) {
        let closed = self.runner.closed();
        let normal = closed.is_some_and(|error| error.code() == Some("age"));
        let reason = close_reason(closed.map_or("", |error| error.message.as_str()));
        let code = if normal { CLOSED_NORMALLY } else { CLOSED };
        while let Some(text) = self.runner.poll_text() {
            if self.send(M::text(text)).await.is_err() {
                return;
            }
        }
        if self.send(M::close(code, reason)).await.is_err() {
            return;
        }
        // The peer answers with a close of its own; then nothing is lost.
        while let Some(Ok(frame)) = poll_fn(|context| self.next(context)).await {
            if matches!(frame.read(), Incoming::Close(..)) {
                return;
            }
        }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<M, E>>> {
        Pin::new(&mut self.socket).poll_next(context)
    }

    async fn send(&mut self, frame: M) -> Result<(), ()> {
        let ready = poll_fn(|context| Pin::new(&mut self.socket).poll_ready(context)).await;
        ready.map_err(drop)?;
        Pin::new(&mut self.socket).start_send(frame).map_err(drop)?;
        let flushed = poll_fn(|context| Pin::new(&mut self.socket).poll_flush(context)).await;
        flushed.map_err(drop)
    }
}
