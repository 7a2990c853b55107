//! One session over one WebSocket: one text frame is one message.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Sink, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Interval, MissedTickBehavior, Sleep};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::frame::{self, Incoming};
use super::metered::Metered;
use crate::error::RpcError;
use crate::run::{Incident, Runner};
use crate::session::Session;

/// Told of every failure whose text did not leave.
pub(super) type OnIncident = Arc<dyn Fn(Incident) + Send + Sync>;

/// How long a peer may take to take the last messages.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Frames that are taken before anything is answered.
const FRAMES_AT_ONCE: usize = 128;

/// How many pings may stay without any sign of life.
const MOST_PINGS: u8 = 2;

/// How a socket is looked after.
pub(super) struct Care {
    pub(super) ping: Duration,
    pub(super) age: Option<Duration>,
    pub(super) on_incident: Option<OnIncident>,
    /// Told what the session holds, whenever it has done something.
    pub(super) watch: Option<Watch>,
}

/// See [`Care::watch`].
pub(super) type Watch = Box<dyn FnMut(&Session) + Send>;

struct Connection<S> {
    socket: WebSocketStream<Metered<S>>,
    runner: Runner,
    ping: Interval,
    begun: Instant,
    age: Option<Pin<Box<Sleep>>>,
    on_incident: Option<OnIncident>,
    watch: Option<Watch>,
    /// What gives things back has waited for other messages once.
    waited: bool,
    /// Ticks of `ping` since the peer was last heard.
    unheard: u8,
    /// The connection takes no more bytes until the peer has taken some.
    blocked: bool,
    /// Ticks of `ping` in which it was blocked and the peer took not one byte.
    stuck: u8,
    /// What the peer had taken at the last tick.
    written: u64,
    /// The peer, or the network, ended it: nothing can be sent.
    gone: bool,
    /// The peer broke the rules of WebSockets: the code to close with. Nothing more can be read.
    broken: Option<u16>,
}

/// Carries a session until it is over.
pub(super) async fn carry<S>(socket: WebSocketStream<Metered<S>>, runner: Runner, care: Care)
where
    S: AsyncRead + AsyncWrite + Unpin,
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
        watch: care.watch,
        waited: false,
        unheard: 0,
        blocked: false,
        stuck: 0,
        written: 0,
        gone: false,
        broken: None,
    };
    poll_fn(|context| connection.poll(context)).await;
    if !connection.gone {
        tokio::time::timeout(LAST_WORDS, connection.say_goodbye()).await.ok();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
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
            if let Some(watch) = &mut self.watch {
                watch(self.runner.session());
            }
            if self.runner.closed().is_some() {
                return Poll::Ready(());
            }
            if sending.is_pending() || !more {
                return Poll::Pending;
            }
        }
    }

    /// Takes frames; tells whether there may be more.
    ///
    /// A peer that does not take its answers is not read from: it can make us say only so much.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..FRAMES_AT_ONCE {
            if self.runner.session().is_congested() {
                return true;
            }
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

    fn take(&mut self, frame: Option<&Result<Message, Error>>) {
        self.unheard = 0;
        match frame::read(frame, self.runner.session().wire_limits()) {
            Incoming::Text(text) => self.runner.receive(text),
            Incoming::Binary => {
                let error = RpcError::coded("protocol", "binary frames carry no messages");
                self.runner.session().abort(&error);
            }
            Incoming::Closed(error) => {
                self.gone = true;
                self.runner.session().close(&error);
            }
            Incoming::Broken(code, error) => {
                self.broken = Some(code);
                self.runner.session().close(&error);
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
                Poll::Pending => {
                    self.blocked = true;
                    return Poll::Pending;
                }
            }
            let Some(text) = self.runner.poll_text() else {
                break;
            };
            Pin::new(&mut self.socket).start_send(Message::text(text)).ok();
        }
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        self.blocked = flushed.is_pending();
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
            if self.blocked {
                self.give_up_if_stuck();
            } else {
                self.stuck = 0;
                self.ask_for_a_sign(context);
            }
            self.written = self.socket.get_ref().written();
        }
        let old = self.age.as_mut().is_some_and(|age| age.as_mut().poll(context).is_ready());
        if old {
            self.age = None;
            self.runner.session().tick(Duration::MAX);
        }
    }

    /// Ends a session whose peer takes nothing of what waits for it; taking is a sign of life.
    fn give_up_if_stuck(&mut self) {
        self.unheard = 0;
        let idle = self.written == self.socket.get_ref().written();
        self.stuck = if idle { self.stuck + 1 } else { 0 };
        if self.stuck > MOST_PINGS {
            let error = RpcError::coded("slow", "the peer does not take its messages");
            self.runner.session().close(&error);
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
                Pin::new(&mut self.socket).start_send(Message::Ping(Vec::new().into())).ok();
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
        let reason = self.runner.closed().cloned();
        let slow = reason.as_ref().and_then(RpcError::code) == Some("slow");
        while let Some(text) = self.runner.poll_text() {
            // A slow peer would not get to the reason before the time is over.
            if !slow && self.send(Message::text(text)).await.is_err() {
                return;
            }
        }
        if self.send(frame::close(self.broken, reason.as_ref())).await.is_err() {
            return;
        }
        if self.broken.is_some() {
            self.discard_input().await;
            return;
        }
        // The peer answers with a close of its own; then nothing is lost.
        while let Some(Ok(frame)) = poll_fn(|context| self.next(context)).await {
            if matches!(frame, Message::Close(_)) {
                return;
            }
        }
    }

    /// Reads until the peer is done: closing with bytes unread would reset the connection, and the peer
    /// would not see the reason.
    async fn discard_input(&mut self) {
        let stream = self.socket.get_mut();
        poll_fn(|context| Pin::new(&mut *stream).poll_shutdown(context)).await.ok();
        let mut scratch = [0; 4 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            let read = poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer));
            if read.await.is_err() || buffer.filled().is_empty() {
                return;
            }
        }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        Pin::new(&mut self.socket).poll_next(context)
    }

    async fn send(&mut self, frame: Message) -> Result<(), Error> {
        poll_fn(|context| Pin::new(&mut self.socket).poll_ready(context)).await?;
        Pin::new(&mut self.socket).start_send(frame)?;
        poll_fn(|context| Pin::new(&mut self.socket).poll_flush(context)).await
    }
}
