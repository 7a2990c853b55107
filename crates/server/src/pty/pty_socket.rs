//! One WebSocket of a terminal: output to the client, input from it.
//!
//! The forms are OpenCode's. Output comes as text. A binary frame that begins with a zero byte carries JSON
//! with the position of the client; it comes after the output that was there at the start, and whenever
//! output was skipped because the client read too slowly. What a client sends, as text or binary, is typed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

use super::pty_terminal::{PtyPhase, PtyProgress, PtyTerminal};
use super::scrollback::ScrollbackStart;
use crate::connection::ConnectionHandle;

/// How much a client may type at once.
pub(crate) const MAX_INPUT_BYTES: usize = 1 << 20;
/// How often a client is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How many pings a client may leave without any answer.
const MAX_SILENT_PINGS: u32 = 3;

/// The ends of a connection; the numbers are those of WebSocket and, above 4000, of OpenCode.
const NORMAL_CLOSE: (u16, &str) = (1000, "");
const GOING_AWAY: (u16, &str) = (1001, "the server stops");
const SESSION_EXITED: (u16, &str) = (4404, "session exited");

/// The connection is over.
struct SocketClosed;

/// One client of a terminal.
struct PtySocket {
    socket: WebSocket,
    terminal: Arc<PtyTerminal>,
    progress: watch::Receiver<PtyProgress>,
    /// The position after what was sent.
    position: u64,
    /// The end of the output when the client came, until its position has been sent.
    replayed_to: Option<u64>,
    typist: mpsc::Sender<Bytes>,
    /// What was received and waits for the program; nothing more is received meanwhile.
    input: Bytes,
    silent_pings: u32,
}

/// Shows a terminal to a client until one of them goes.
pub(crate) async fn relay_terminal(
    mut socket: WebSocket,
    terminal: Arc<PtyTerminal>,
    start: ScrollbackStart,
    (connection, slot): (ConnectionHandle, OwnedSemaphorePermit),
) {
    let active = connection.begin_request();
    let Some(typist) = terminal.input() else {
        return close(&mut socket, SESSION_EXITED).await;
    };
    let progress = terminal.subscribe();
    let end = progress.borrow().end;
    let position = match start {
        ScrollbackStart::At(position) => position.min(end),
        ScrollbackStart::End => end,
    };
    let mut relay = PtySocket {
        socket,
        terminal,
        progress,
        position,
        replayed_to: Some(end),
        typist,
        input: Bytes::new(),
        silent_pings: 0,
    };
    tokio::select! {
        _ = relay.run() => {}
        () = connection.wait_for_eviction() => {}
    }
    drop((active, slot));
}

async fn close(socket: &mut WebSocket, (code, reason): (u16, &'static str)) {
    let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
    // A client that is gone needs no goodbye.
    drop(socket.send(Message::Close(Some(frame))).await);
}

impl PtySocket {
    async fn run(&mut self) -> Result<(), SocketClosed> {
        let mut pings = tokio::time::interval(PING_INTERVAL);
        pings.tick().await;
        loop {
            let PtyProgress { end, phase } = *self.progress.borrow_and_update();
            match phase {
                PtyPhase::Removed => return self.close(NORMAL_CLOSE).await,
                PtyPhase::ServerStopping => return self.close(GOING_AWAY).await,
                PtyPhase::Exited if self.position >= end => {
                    return self.close(NORMAL_CLOSE).await;
                }
                PtyPhase::Running | PtyPhase::Exited => {}
            }
            let is_behind = self.position < end || self.replayed_to.is_some();
            tokio::select! {
                () = std::future::ready(()), if is_behind => self.send_output().await?,
                changed = self.progress.changed(), if !is_behind => {
                    changed.map_err(|_| SocketClosed)?;
                }
                received = self.socket.recv(), if self.input.is_empty() => {
                    self.handle_input(received).await?;
                }
                permit = self.typist.clone().reserve_owned(), if !self.input.is_empty() => {
                    let input = std::mem::take(&mut self.input);
                    // A program that has ended reads nothing more; its end is on its way.
                    if let Ok(permit) = permit {
                        drop(permit.send(input));
                    }
                }
                _ = pings.tick() => self.ping().await?,
            }
        }
    }

    /// Sends the next piece of output. Waits as long as the client does not read.
    async fn send_output(&mut self) -> Result<(), SocketClosed> {
        let read = self.terminal.read_output(self.position);
        if read.start > self.position {
            // Older output is no longer kept.
            self.position = read.start;
            self.send_position().await?;
        }
        if !read.text.is_empty() {
            self.position = read.next;
            self.send(Message::Text(read.text.into())).await?;
        }
        match self.replayed_to {
            Some(end) if self.position >= end => {
                self.replayed_to = None;
                self.send_position().await
            }
            _ => Ok(()),
        }
    }

    async fn send_position(&mut self) -> Result<(), SocketClosed> {
        let mut frame = vec![0];
        frame.extend(json!({ "cursor": self.position }).to_string().into_bytes());
        self.send(Message::Binary(frame.into())).await
    }

    async fn send(&mut self, message: Message) -> Result<(), SocketClosed> {
        self.socket.send(message).await.map_err(|_| SocketClosed)
    }

    /// Asks whether the client is there; one that has not answered for long is left.
    async fn ping(&mut self) -> Result<(), SocketClosed> {
        // While its input waits for the program, its answers are not read.
        if self.input.is_empty() {
            self.silent_pings += 1;
        }
        if self.silent_pings > MAX_SILENT_PINGS {
            return Err(SocketClosed);
        }
        self.send(Message::Ping(Bytes::new())).await
    }

    async fn handle_input(
        &mut self,
        received: Option<Result<Message, axum::Error>>,
    ) -> Result<(), SocketClosed> {
        self.silent_pings = 0;
        match received {
            Some(Ok(Message::Text(text))) => self.input = text.into(),
            Some(Ok(Message::Binary(bytes))) => self.input = bytes,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err(SocketClosed),
            Some(Err(error)) => {
                tracing::debug!("a client of a terminal sent an invalid frame: {error}");
                let (code, reason) = invalid_frame_close(&error);
                return self.close((code, reason)).await.and(Err(SocketClosed));
            }
        }
        Ok(())
    }

    async fn close(&mut self, end: (u16, &'static str)) -> Result<(), SocketClosed> {
        close(&mut self.socket, end).await;
        Ok(())
    }
}

/// How a connection is closed whose client breaks the rules.
fn invalid_frame_close(error: &axum::Error) -> (u16, &'static str) {
    let text = error.to_string();
    if text.contains("too long") || text.contains("too big") {
        (1009, "too much input at once")
    } else if text.contains("UTF-8") {
        (1007, "text that is no UTF-8")
    } else {
        (1002, "an invalid frame")
    }
}
