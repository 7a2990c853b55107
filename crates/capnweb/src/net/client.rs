//! Calling: a session over a WebSocket, or one batch over HTTP.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite;

use super::socket::{Care, READ_BUFFER, carry};
use crate::error::RpcError;
use crate::run::Runner;
use crate::session::{Options, Stub, Target};

/// Why a server could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The WebSocket could not be opened.
    #[error("WebSocket connection failed.")]
    WebSocket(#[from] Box<tungstenite::Error>),
    /// The address is not one that can be called: `http://host:port/path`.
    #[error("not an http address: {0}")]
    Address(String),
    /// The connection broke.
    #[error("the connection failed")]
    Io(#[from] std::io::Error),
    /// The request broke.
    #[error("the request failed")]
    Http(#[from] hyper::Error),
    /// The server refused.
    #[error("RPC request failed: {0}")]
    Status(hyper::StatusCode),
}

const PING: Duration = Duration::from_secs(30);

/// Opens a WebSocket session and returns the main object of the server.
///
/// The session runs in a task of its own until the last clone of the stub is dropped or the
/// connection ends. `main` is what the server may call.
///
/// # Errors
///
/// [`ConnectError::WebSocket`]
pub async fn connect(
    url: &str,
    main: Option<Arc<dyn Target>>,
    options: Options,
) -> Result<Stub, ConnectError> {
    let limits = &options.limits;
    let config = tungstenite::protocol::WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .max_message_size(Some(limits.wire.message_bytes))
        .max_frame_size(Some(limits.wire.message_bytes));
    let connected = tokio_tungstenite::connect_async_with_config(url, Some(config), true).await;
    let (socket, _) = connected.map_err(Box::new)?;
    let care =
        Care { ping: PING, age: limits.age_millis.map(Duration::from_millis), on_incident: None };
    let mut runner = Runner::new(main, options);
    let stub = runner.main();
    tokio::spawn(carry(socket, runner, care));
    Ok(stub)
}

/// One batch: calls are collected, sent together, and answered together.
///
/// Only what is pulled before [`send`](Batch::send) is answered; pull a promise with
/// [`into_future`](std::future::IntoFuture::into_future) and await that future afterwards.
pub struct Batch {
    runner: Runner,
    main: Stub,
}

impl Batch {
    /// Begins a batch.
    pub fn new(options: Options) -> Self {
        let mut runner = Runner::new(None, options);
        let main = runner.main();
        Self { runner, main }
    }

    /// Returns the main object of the server.
    pub fn main(&self) -> &Stub {
        &self.main
    }

    /// Returns the messages so far, for a transport of your own; see [`finish`](Self::finish).
    pub async fn take_request(&mut self) -> String {
        let collected = poll_fn(|context| {
            self.runner.poll(context);
            Poll::Ready(())
        });
        collected.await;
        let texts: Vec<_> = std::iter::from_fn(|| self.runner.poll_text()).collect();
        texts.join("\n")
    }

    /// Takes the answer; what it does not settle fails.
    pub fn finish(mut self, response: &str) {
        let lines = response.split('\n').map(str::trim);
        for line in lines.filter(|line| !line.is_empty()) {
            self.runner.receive(line);
        }
        let ended = RpcError::coded("batch", "Batch RPC request ended.");
        self.runner.session().close(&ended);
    }

    /// Sends the batch to `http://host:port/path` and takes the answer.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]; every call of the batch fails with the same words.
    pub async fn send(mut self, url: &str) -> Result<(), ConnectError> {
        let body = self.take_request().await;
        match post(url, body).await {
            Ok(response) => {
                self.finish(&response);
                Ok(())
            }
            Err(error) => {
                let told = RpcError::new("Error", error.to_string());
                self.runner.session().close(&told);
                Err(error)
            }
        }
    }
}

async fn post(url: &str, body: String) -> Result<String, ConnectError> {
    let address = || ConnectError::Address(url.to_owned());
    let uri: Uri = url.parse().map_err(|_| address())?;
    let authority = uri.authority().filter(|_| uri.scheme_str() == Some("http"));
    let authority = authority.ok_or_else(address)?;
    let stream = TcpStream::connect((authority.host(), authority.port_u16().unwrap_or(80))).await?;
    stream.set_nodelay(true)?;
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
    let body = response.into_body().collect().await?.to_bytes();
    connection.abort();
    Ok(String::from_utf8_lossy(&body).into_owned())
}
