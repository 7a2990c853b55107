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

use super::metered_stream::MeteredStream;
use super::ws_frame::{self, IncomingFrame};
use crate::error::RpcError;
use crate::run::{Incident, SessionRunner};
use crate::session::RpcSession;

/// Told of every failure whose text did not leave.
pub(super) type IncidentHandler = Arc<dyn Fn(Incident) + Send + Sync>;

/// How long a peer may take to take the last messages.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Frames that are taken before anything is answered.
const MAX_FRAMES_PER_POLL: usize = 128;

/// How many pings may stay without any sign of life.
const MAX_MISSED_PINGS: u8 = 2;

/// How a socket is looked after.
pub(super) struct ConnectionOptions {
    pub(super) ping: Duration,
    pub(super) age: Option<Duration>,
    pub(super) on_incident: Option<IncidentHandler>,
    /// Told what the session holds, whenever it has done something.
    pub(super) observer: Option<SessionObserver>,
}

/// See [`ConnectionOptions::observer`].
pub(super) type SessionObserver = Box<dyn FnMut(&RpcSession) + Send>;

struct WsConnection<S> {
    socket: WebSocketStream<MeteredStream<S>>,
    runner: SessionRunner,
    ping: Interval,
    begun: Instant,
    age: Option<Pin<Box<Sleep>>>,
    on_incident: Option<IncidentHandler>,
    observer: Option<SessionObserver>,
    /// What gives things back has waited for other messages once.
    release_delayed: bool,
    /// Ticks of `ping` since the last frame of the peer.
    silent_ticks: u8,
    /// The connection takes no more bytes until the peer has taken some.
    blocked: bool,
    /// Ticks of `ping` in which it was blocked and the peer took not one byte.
    stuck_ticks: u8,
    /// What the peer had taken at the last tick.
    written: u64,
    /// The peer, or the network, ended it: nothing can be sent.
    is_lost: bool,
    /// The peer broke the rules of WebSockets: the code to close with. Nothing more can be read.
    violation_code: Option<u16>,
}

/// Carries a session until it is over.
pub(super) async fn run_connection<S>(
    socket: WebSocketStream<MeteredStream<S>>,
    runner: SessionRunner,
    care: ConnectionOptions,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = tokio::time::interval(care.ping);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.reset();
    let mut connection = WsConnection {
        socket,
        runner,
        ping,
        begun: Instant::now(),
        age: care.age.map(|age| Box::pin(tokio::time::sleep(age))),
        on_incident: care.on_incident,
        observer: care.observer,
        release_delayed: false,
        silent_ticks: 0,
        blocked: false,
        stuck_ticks: 0,
        written: 0,
        is_lost: false,
        violation_code: None,
    };
    poll_fn(|context| connection.poll(context)).await;
    if !connection.is_lost {
        tokio::time::timeout(CLOSE_TIMEOUT, connection.close_gracefully()).await.ok();
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WsConnection<S> {
    /// Receives, runs and sends; ready when the session is over.
    ///
    /// What has arrived is taken together and answered together: one write for many messages.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.runner.session().set_age(self.begun.elapsed());
            let more = self.poll_receive(context);
            self.runner.poll(context);
            self.report_incidents();
            let sending = self.poll_send(context);
            self.poll_timers(context);
            if let Some(watch) = &mut self.observer {
                watch(self.runner.session());
            }
            if self.runner.close_reason().is_some() {
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
        for _ in 0..MAX_FRAMES_PER_POLL {
            if self.runner.session().is_congested() {
                return true;
            }
            match Pin::new(&mut self.socket).poll_next(context) {
                Poll::Pending => return false,
                Poll::Ready(frame) => self.handle_frame(frame.as_ref()),
            }
            if self.runner.close_reason().is_some() {
                return false;
            }
        }
        true
    }

    fn handle_frame(&mut self, frame: Option<&Result<Message, Error>>) {
        self.silent_ticks = 0;
        match ws_frame::classify_frame(frame, self.runner.session().wire_limits()) {
            IncomingFrame::Text(text) => self.runner.receive(text),
            IncomingFrame::Binary => {
                let error = RpcError::with_code("protocol", "binary frames carry no messages");
                self.runner.session().abort(&error);
            }
            IncomingFrame::Closed(error) => {
                self.is_lost = true;
                self.runner.session().close(&error);
            }
            IncomingFrame::ProtocolViolation(code, error) => {
                self.violation_code = Some(code);
                self.runner.session().close(&error);
            }
            IncomingFrame::Other => {}
        }
    }

    /// Hands over messages while the socket takes them.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let session = self.runner.session();
        let unhurried = !session.is_outgoing_empty() && !session.has_urgent_message();
        if unhurried && !std::mem::replace(&mut self.release_delayed, true) {
            // The task that was answered runs first: what it sends next goes into the same write.
            context.waker().wake_by_ref();
            return Poll::Ready(());
        }
        self.release_delayed = false;
        while !self.runner.session().is_outgoing_empty() {
            match Pin::new(&mut self.socket).poll_ready(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.mark_lost();
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
            self.mark_lost();
        }
        Poll::Ready(())
    }

    fn mark_lost(&mut self) {
        self.is_lost = true;
        let error = RpcError::new("Error", "WebSocket connection failed.");
        self.runner.session().close(&error);
    }

    fn poll_timers(&mut self, context: &mut Context<'_>) {
        if self.ping.poll_tick(context).is_ready() {
            // Polled again, so that the next tick wakes the task.
            context.waker().wake_by_ref();
            if self.blocked {
                self.close_if_stuck();
            } else {
                self.stuck_ticks = 0;
                self.ping_if_silent(context);
            }
            self.written = self.socket.get_ref().written_bytes();
        }
        let old = self.age.as_mut().is_some_and(|age| age.as_mut().poll(context).is_ready());
        if old {
            self.age = None;
            self.runner.session().set_age(Duration::MAX);
        }
    }

    /// Ends a session whose peer takes nothing of what waits for it; taking is a sign of life.
    fn close_if_stuck(&mut self) {
        self.silent_ticks = 0;
        let idle = self.written == self.socket.get_ref().written_bytes();
        self.stuck_ticks = if idle { self.stuck_ticks + 1 } else { 0 };
        if self.stuck_ticks > MAX_MISSED_PINGS {
            let error = RpcError::with_code("slow", "the peer does not take its messages");
            self.runner.session().close(&error);
        }
    }

    /// Pings a peer that sent nothing since the last tick; disconnects it after unanswered pings.
    fn ping_if_silent(&mut self, context: &mut Context<'_>) {
        self.silent_ticks += 1;
        if self.silent_ticks > MAX_MISSED_PINGS + 1 {
            self.mark_lost();
        } else if self.silent_ticks > 1 {
            let socket = Pin::new(&mut self.socket);
            // The next flush sends it; a socket that is full needs no sign of life.
            if matches!(Sink::poll_ready(socket, context), Poll::Ready(Ok(()))) {
                Pin::new(&mut self.socket).start_send(Message::Ping(Vec::new().into())).ok();
            }
        }
    }

    fn report_incidents(&mut self) {
        let incidents = self.runner.take_incidents();
        if let Some(on_incident) = &self.on_incident {
            incidents.into_iter().for_each(|incident| on_incident(incident));
        }
    }

    /// Sends what is left, then closes as npm does.
    async fn close_gracefully(&mut self) {
        let reason = self.runner.close_reason().cloned();
        let slow = reason.as_ref().and_then(RpcError::code) == Some("slow");
        while let Some(text) = self.runner.poll_text() {
            // A slow peer would not get to the reason before the time is over.
            if !slow && self.send_frame(Message::text(text)).await.is_err() {
                return;
            }
        }
        if self
            .send_frame(ws_frame::close_frame(self.violation_code, reason.as_ref()))
            .await
            .is_err()
        {
            return;
        }
        if self.violation_code.is_some() {
            self.discard_input().await;
            return;
        }
        // The peer answers with a close of its own; then nothing is lost.
        while let Some(Ok(frame)) = poll_fn(|context| self.poll_frame(context)).await {
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

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        Pin::new(&mut self.socket).poll_next(context)
    }

    async fn send_frame(&mut self, frame: Message) -> Result<(), Error> {
        poll_fn(|context| Pin::new(&mut self.socket).poll_ready(context)).await?;
        Pin::new(&mut self.socket).start_send(frame)?;
        poll_fn(|context| Pin::new(&mut self.socket).poll_flush(context)).await
    }
}
