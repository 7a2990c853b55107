//! The sending side of a connection, which an event stream may lend to the thread that has the events.
//!
//! The HTTP connection writes its responses through it. While an event stream waits for events and everything
//! before was sent, the frames of the next events are written directly: no task is woken for them, so one
//! event to a thousand streams costs a thousand system calls and little else. Whatever does not fit at once is
//! left to the connection, which is woken then.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use turnstone_core::time::LogCursor;

/// How far a stream is in the ring of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingMark {
    /// The number of the next event.
    pub(crate) number: u64,
    /// The place in the log that was reached.
    pub(crate) cursor: LogCursor,
}

/// What became of frames that were to be sent directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryOutcome {
    /// They were sent, or as much of them as the client takes now; the connection sends the rest.
    Sent,
    /// The stream was woken and sends them itself.
    Woken,
    /// The stream is not waiting: it looks for new events before it waits again.
    NotWaiting,
}

/// The sending side of one connection.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    state: Mutex<SocketState>,
}

#[derive(Debug)]
struct SocketState {
    half: SocketWriteHalf,
    /// The end of frames that the client did not take at once; goes before everything else.
    unsent: Bytes,
    wait: WaitState,
}

/// Who may write.
#[derive(Debug)]
enum WaitState {
    /// The connection.
    Active,
    /// Either, once the connection has flushed what the stream wrote before it waited.
    Waiting { mark: RingMark, is_direct: bool, is_flushed: bool, waker: Option<Waker> },
    /// The connection; the stream is about to go on from here.
    Woken(RingMark),
}

/// The sending half of either kind of socket.
#[derive(Debug)]
pub(crate) enum SocketWriteHalf {
    /// Of a TCP connection.
    Tcp(tcp::OwnedWriteHalf),
    /// Of a Unix socket.
    Unix(unix::OwnedWriteHalf),
}

impl SocketWriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(half) => half.try_write(bytes),
            Self::Unix(half) => half.try_write(bytes),
        }
    }

    fn pinned(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        match self {
            Self::Tcp(half) => Pin::new(half),
            Self::Unix(half) => Pin::new(half),
        }
    }
}

/// A socket whose sides can be used apart.
pub(super) trait SplitSocket {
    /// The side that reads.
    type ReadHalf: AsyncRead + Send + Unpin + 'static;

    /// Takes the sides apart.
    fn split_socket(self) -> (Self::ReadHalf, SocketWriteHalf);
}

impl SplitSocket for TcpStream {
    type ReadHalf = tcp::OwnedReadHalf;

    fn split_socket(self) -> (Self::ReadHalf, SocketWriteHalf) {
        let (read, write) = self.into_split();
        (read, SocketWriteHalf::Tcp(write))
    }
}

impl SplitSocket for UnixStream {
    type ReadHalf = unix::OwnedReadHalf;

    fn split_socket(self) -> (Self::ReadHalf, SocketWriteHalf) {
        let (read, write) = self.into_split();
        (read, SocketWriteHalf::Unix(write))
    }
}

impl StreamSocket {
    fn new(half: SocketWriteHalf) -> Self {
        let state = SocketState { half, unsent: Bytes::new(), wait: WaitState::Active };
        Self { state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, SocketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream has nothing to send before the event `mark` names. If `is_direct`, the events from there on
    /// may be sent by [`Self::deliver`]. Look for new events after this call: an earlier one wakes nobody.
    pub(crate) fn begin_wait(&self, mark: RingMark, is_direct: bool) {
        self.lock().wait = WaitState::Waiting { mark, is_direct, is_flushed: false, waker: None };
    }

    /// True while the stream has nothing to send itself.
    #[cfg(test)]
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.lock().wait, WaitState::Waiting { .. })
    }

    /// Ready when the stream has to go on itself.
    pub(crate) fn poll_woken(&self, cx: &Context<'_>) -> Poll<()> {
        match &mut self.lock().wait {
            WaitState::Waiting { waker, .. } => {
                match waker {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            WaitState::Active | WaitState::Woken(_) => Poll::Ready(()),
        }
    }

    /// Ends the wait; returns how far the stream is by now, if it was waiting.
    pub(crate) fn end_wait(&self) -> Option<RingMark> {
        match std::mem::replace(&mut self.lock().wait, WaitState::Active) {
            WaitState::Waiting { mark, .. } | WaitState::Woken(mark) => Some(mark),
            WaitState::Active => None,
        }
    }

    /// Wakes the stream if it waits.
    pub(crate) fn wake(&self) {
        let waker = self.lock().wait.end_at(None);
        wake(waker);
    }

    /// Sends `chunk`, the frames of the events from number `from` up to `to`, in the form of the connection
    /// ([`encode_chunk`]); it may be empty.
    pub(crate) fn deliver(&self, from: u64, to: RingMark, chunk: &Bytes) -> DeliveryOutcome {
        let (outcome, waker) = self.lock().deliver(from, to, chunk);
        wake(waker);
        outcome
    }
}

/// Wakes a task; the lock of its socket must not be held, for a task that ends takes it.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl WaitState {
    /// Ends a wait at `reached`, or where it is; returns who is to be woken.
    fn end_at(&mut self, reached: Option<RingMark>) -> Option<Waker> {
        let Self::Waiting { mark, waker, .. } = self else { return None };
        let (mark, waker) = (reached.unwrap_or(*mark), waker.take());
        *self = Self::Woken(mark);
        waker
    }
}

impl SocketState {
    fn deliver(
        &mut self,
        from: u64,
        to: RingMark,
        chunk: &Bytes,
    ) -> (DeliveryOutcome, Option<Waker>) {
        let WaitState::Waiting { mark, is_direct, is_flushed, .. } = &mut self.wait else {
            return (DeliveryOutcome::NotWaiting, None);
        };
        if mark.number != from || !*is_direct || !*is_flushed {
            return (DeliveryOutcome::Woken, self.wait.end_at(None));
        }
        if !chunk.is_empty() {
            match self.half.try_write(chunk) {
                Ok(count) if count == chunk.len() => {}
                Ok(count) => {
                    self.unsent = chunk.slice(count..);
                    return (DeliveryOutcome::Sent, self.wait.end_at(Some(to)));
                }
                // The connection sees the same error, or waits until the client reads.
                Err(_) => return (DeliveryOutcome::Woken, self.wait.end_at(None)),
            }
        }
        *mark = to;
        (DeliveryOutcome::Sent, None)
    }

    /// Sends what [`StreamSocket::deliver`] could not.
    fn poll_send_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let count = ready!(self.half.pinned().poll_write(cx, &self.unsent))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent = self.unsent.split_off(count);
        }
        Poll::Ready(Ok(()))
    }
}

/// Frames as one chunk of the HTTP/1.1 transfer encoding.
pub(crate) fn encode_chunk(frames: &[u8]) -> Bytes {
    if frames.is_empty() {
        // An empty chunk would end the response.
        return Bytes::new();
    }
    let mut chunk = format!("{:X}\r\n", frames.len()).into_bytes();
    chunk.extend_from_slice(frames);
    chunk.extend_from_slice(b"\r\n");
    chunk.into()
}

/// Both sides of a socket, for the HTTP connection.
pub(super) struct SharedSocket<R> {
    read: R,
    write: Arc<StreamSocket>,
}

/// Takes a socket apart so that its sending side can be shared.
pub(super) fn share_socket<S: SplitSocket>(
    socket: S,
) -> (SharedSocket<S::ReadHalf>, Arc<StreamSocket>) {
    let (read, half) = socket.split_socket();
    let write = Arc::new(StreamSocket::new(half));
    (SharedSocket { read, write: write.clone() }, write)
}

impl<R: AsyncRead + Unpin> AsyncRead for SharedSocket<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buffer)
    }
}

impl<R: Unpin> AsyncWrite for SharedSocket<R> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.write.lock();
        ready!(state.poll_send_rest(cx))?;
        state.half.pinned().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.write.lock();
        ready!(state.poll_send_rest(cx))?;
        state.half.pinned().poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The connection flushes when it has handed over everything it has.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.write.lock();
        ready!(state.poll_send_rest(cx))?;
        ready!(state.half.pinned().poll_flush(cx))?;
        if let WaitState::Waiting { is_flushed, .. } = &mut state.wait {
            *is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.write.lock();
        ready!(state.poll_send_rest(cx))?;
        state.half.pinned().poll_shutdown(cx)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;
    use std::net::TcpStream as Client;

    use super::*;

    /// A socket as the server has it, and the other end.
    pub(crate) async fn socket_and_client() -> (impl AsyncWrite + Unpin, Arc<StreamSocket>, Client)
    {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listens");
        let client = Client::connect(listener.local_addr().expect("an address")).expect("connects");
        let (socket, _) = listener.accept().await.expect("accepted");
        let (shared, write_side) = share_socket(socket);
        (shared, write_side, client)
    }

    pub(crate) async fn flush(socket: &mut (impl AsyncWrite + Unpin)) {
        std::future::poll_fn(|cx| Pin::new(&mut *socket).poll_flush(cx)).await.expect("flushed");
    }

    fn mark(number: u64) -> RingMark {
        RingMark { number, cursor: LogCursor(40) }
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn frames_are_sent_directly_only_behind_what_was_flushed() {
        block_on(async {
            let (mut socket, stream, mut client) = socket_and_client().await;
            let chunk = encode_chunk(b"data: 1\n\n");
            assert_eq!(stream.deliver(5, mark(6), &chunk), DeliveryOutcome::NotWaiting);
            stream.begin_wait(mark(5), true);
            // The connection may still have something to write.
            assert_eq!(stream.deliver(5, mark(6), &chunk), DeliveryOutcome::Woken);
            assert_eq!(stream.end_wait(), Some(mark(5)));

            stream.begin_wait(mark(5), true);
            flush(&mut socket).await;
            assert_eq!(stream.deliver(5, mark(6), &chunk), DeliveryOutcome::Sent);
            assert_eq!(stream.deliver(6, mark(7), &Bytes::new()), DeliveryOutcome::Sent);
            // An event was missed.
            assert_eq!(stream.deliver(8, mark(9), &chunk), DeliveryOutcome::Woken);
            assert_eq!(stream.end_wait(), Some(mark(7)));
            drop((socket, stream));
            let mut received = String::new();
            client.read_to_string(&mut received).expect("read");
            assert_eq!(received, "9\r\ndata: 1\n\n\r\n");
        });
    }

    #[test]
    fn stream_that_must_send_itself_is_woken() {
        block_on(async {
            let (mut socket, stream, _client) = socket_and_client().await;
            stream.begin_wait(mark(5), false);
            flush(&mut socket).await;
            let woken = {
                let stream = stream.clone();
                tokio::spawn(async move {
                    std::future::poll_fn(|cx| stream.poll_woken(cx)).await;
                    stream.end_wait()
                })
            };
            tokio::task::yield_now().await;
            assert_eq!(stream.deliver(5, mark(6), &Bytes::new()), DeliveryOutcome::Woken);
            assert_eq!(woken.await.expect("woken"), Some(mark(5)));
        });
    }

    #[test]
    fn rest_of_direct_frames_goes_before_everything_else() {
        block_on(async {
            let (mut socket, stream, mut client) = socket_and_client().await;
            // More than the buffers of both ends hold.
            let chunk = encode_chunk(&vec![b'x'; 64 << 20]);
            stream.begin_wait(mark(5), true);
            flush(&mut socket).await;
            assert_eq!(stream.deliver(5, mark(6), &chunk), DeliveryOutcome::Sent);
            assert_eq!(stream.end_wait(), Some(mark(6)));
            let reader = std::thread::spawn(move || {
                let mut received = Vec::new();
                client.read_to_end(&mut received).expect("read");
                received
            });
            let written = std::future::poll_fn(|cx| Pin::new(&mut socket).poll_write(cx, b"end"));
            assert_eq!(written.await.expect("written"), 3);
            drop((socket, stream));
            let received = reader.join().expect("read");
            assert_eq!(received.len(), chunk.len() + 3);
            assert!(received.starts_with(&chunk[..100]) && received.ends_with(b"x\r\nend"));
        });
    }
}
