//! Calling: a session over a WebSocket, or one batch over HTTP.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::Uri;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite;

use super::metered_stream::MeteredStream;
use super::ws_connection::{ConnectionOptions, run_connection};
use super::ws_frame;
use crate::error::RpcError;
use crate::run::SessionRunner;
use crate::session::{RpcTarget, SessionOptions, Stub};

/// Why a server could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The WebSocket could not be opened.
    #[error("WebSocket connection failed.")]
    WebSocket(#[from] Box<tungstenite::Error>),
    /// The address is not one that can be called: `ws://host:port/path`, or `http` for a batch.
    #[error("not an address that can be called: {0}")]
    Address(String),
    /// The address asks for TLS, which is not built in: nothing was sent.
    #[error(
        "{0} asks for TLS: open the stream with a TLS library and pass it to connect_over or send_over"
    )]
    Tls(String),
    /// The connection broke.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// The request broke.
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    /// The answer is longer than the limit; none of it was taken.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
    /// The server refused.
    #[error("RPC request failed: {0}")]
    Status(hyper::StatusCode),
}

const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Opens a WebSocket session and returns the main object of the server.
///
/// The session runs in a task of its own until the last clone of the stub is dropped or the
/// connection ends. `main` is what the server may call.
///
/// # Errors
///
/// [`ConnectError::Tls`] for `wss` addresses; see [`connect_over`].
pub async fn connect(
    url: &str,
    main: Option<Arc<dyn RpcTarget>>,
    options: SessionOptions,
) -> Result<Stub, ConnectError> {
    let stream = open_tcp(url, "ws").await?;
    connect_over(stream, url, main, options).await
}

/// Opens a WebSocket session as [`connect`] does, over a stream that is open already.
///
/// For what this crate does not bring along: TLS, proxies, Unix sockets. The stream leads to the host
/// of `url`, which may be a `wss` address.
///
/// # Errors
///
/// [`ConnectError::WebSocket`] if the server does not take the session.
pub async fn connect_over<S>(
    stream: S,
    url: &str,
    main: Option<Arc<dyn RpcTarget>>,
    options: SessionOptions,
) -> Result<Stub, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &options.limits;
    let config = ws_frame::ws_config(&limits.wire);
    let stream = MeteredStream::new(stream);
    let connected = tokio_tungstenite::client_async_with_config(url, stream, Some(config)).await;
    let (socket, _) = connected.map_err(Box::new)?;
    let care = ConnectionOptions {
        ping: PING_INTERVAL,
        age: limits.age,
        on_incident: None,
        observer: None,
    };
    let mut runner = SessionRunner::new(main, options);
    let stub = runner.main();
    tokio::spawn(run_connection(socket, runner, care));
    Ok(stub)
}

/// One batch: calls are collected, sent together, and answered together.
///
/// Only what is pulled before [`send`](RpcBatch::send) is answered; pull a promise with
/// [`into_future`](std::future::IntoFuture::into_future) and await that future afterwards.
pub struct RpcBatch {
    runner: SessionRunner,
    max_response_bytes: usize,
    main: Stub,
}

impl RpcBatch {
    /// Begins a batch.
    pub fn new(options: SessionOptions) -> Self {
        let most_bytes = options.limits.batch_bytes;
        let mut runner = SessionRunner::new(None, options);
        let main = runner.main();
        Self { runner, max_response_bytes: most_bytes, main }
    }

    /// Returns the main object of the server.
    pub fn main(&self) -> &Stub {
        &self.main
    }

    /// Returns the messages so far, for a transport of your own; see [`finish`](Self::apply_response).
    pub async fn build_request(&mut self) -> String {
        let collected = poll_fn(|context| {
            self.runner.poll(context);
            Poll::Ready(())
        });
        collected.await;
        let texts: Vec<_> = std::iter::from_fn(|| self.runner.poll_text()).collect();
        texts.join("\n")
    }

    /// Takes the answer; what it does not settle fails.
    pub fn apply_response(mut self, response: &str) {
        let lines = response.split('\n').map(str::trim);
        for line in lines.filter(|line| !line.is_empty()) {
            self.runner.receive(line);
        }
        let ended = RpcError::with_code("batch", "Batch RPC request ended.");
        self.runner.session().close(&ended);
    }

    /// Sends the batch to `http://host:port/path` and takes the answer.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; every call of the batch fails with the same words.
    pub async fn send(self, url: &str) -> Result<(), ConnectError> {
        match open_tcp(url, "http").await {
            Ok(stream) => self.send_over(stream, url).await,
            Err(error) => self.fail_all(error),
        }
    }

    /// Sends the batch as [`send`](Self::send) does, over a stream that is open already.
    ///
    /// The stream leads to the host of `url`, which may be an `https` address.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; every call of the batch fails with the same words.
    pub async fn send_over<S>(mut self, stream: S, url: &str) -> Result<(), ConnectError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let body = self.build_request().await;
        match post_batch(stream, url, body, self.max_response_bytes).await {
            Ok(response) => {
                self.apply_response(&response);
                Ok(())
            }
            Err(error) => self.fail_all(error),
        }
    }

    fn fail_all(mut self, error: ConnectError) -> Result<(), ConnectError> {
        let reported = RpcError::new("Error", error.to_string());
        self.runner.session().close(&reported);
        Err(error)
    }
}

/// Reads an address whose scheme is `plain`; one that asks for TLS is refused.
fn parse_address(url: &str, plain: &str) -> Result<Uri, ConnectError> {
    let address = || ConnectError::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| address())?;
    match uri.scheme_str() {
        Some(scheme) if scheme == plain && uri.authority().is_some() => Ok(uri),
        Some("wss" | "https") => Err(ConnectError::Tls(url.to_owned())),
        _ => Err(address()),
    }
}

/// Opens a stream to an address whose scheme is `plain`.
async fn open_tcp(url: &str, plain: &str) -> Result<TcpStream, ConnectError> {
    let uri = parse_address(url, plain)?;
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
    // Messages are small and wanted at once.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn post_batch<S>(
    stream: S,
    url: &str,
    body: String,
    most_bytes: usize,
) -> Result<String, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let address = || ConnectError::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| address())?;
    let authority = uri.authority().ok_or_else(address)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::post(path)
        .header("host", authority.as_str())
        .header("content-type", "text/plain;charset=UTF-8")
        .body(Full::new(Bytes::from(body)))
        .map_err(|_| address())?;
    let response = sender.send_request(request).await?;
    if !response.status().is_success() {
        return Err(ConnectError::Status(response.status()));
    }
    let body = Limited::new(response.into_body(), most_bytes).collect().await;
    connection.abort();
    match body {
        Ok(body) => Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(error) => ConnectError::Http(*error),
            Err(_) => ConnectError::TooLong(most_bytes),
        }),
    }
}
