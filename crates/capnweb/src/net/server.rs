//! Serving with axum: POST is a batch, GET with an upgrade is a WebSocket, on one path.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::metered_stream::MeteredStream;
use super::server_stats::{ServerStats, SessionStatsShare, StatsTotals};
use super::ws_connection::{ConnectionOptions, IncidentHandler, run_connection};
use super::ws_frame;
use crate::error::RpcError;
use crate::run::{Incident, SessionRunner};
use crate::session::{MemoryAccount, MemoryCharge, RpcTarget, SessionOptions, TABLE_ENTRY_BYTES};

/// How sessions are served.
#[derive(Clone)]
pub struct ServerOptions {
    /// Limits and profile of every session.
    pub session: SessionOptions,
    /// How long a batch may take; what is not settled then is rejected with the code `deadline`.
    pub batch_deadline: Duration,
    /// Bytes that calls may hold, all batches together, which go on after their answer was sent because
    /// nobody pulled them. Beyond, they are dropped unfinished.
    pub unpulled_bytes: usize,
    /// How often an idle WebSocket is asked for a sign of life.
    pub ping: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            session: SessionOptions::default(),
            batch_deadline: Duration::from_secs(30),
            unpulled_bytes: 64 * 1024 * 1024,
            ping: Duration::from_secs(30),
        }
    }
}

/// A service: every session gets a main object of its own.
#[derive(Clone)]
pub struct RpcServer {
    main: Arc<dyn Fn() -> Arc<dyn RpcTarget> + Send + Sync>,
    options: ServerOptions,
    on_incident: Option<IncidentHandler>,
    sessions: Arc<AtomicU64>,
    totals: StatsTotals,
    unpulled_account: MemoryAccount,
}

impl RpcServer {
    /// Makes a service of what makes main objects.
    pub fn new<T: RpcTarget>(
        main: impl Fn() -> T + Send + Sync + 'static,
        options: ServerOptions,
    ) -> Self {
        Self {
            unpulled_account: MemoryAccount::new(options.unpulled_bytes),
            main: Arc::new(move || Arc::new(main())),
            options,
            on_incident: None,
            sessions: Arc::default(),
            totals: StatsTotals::default(),
        }
    }

    /// Reports every failure whose text was not sent.
    #[must_use]
    pub fn on_incident(mut self, body: impl Fn(Incident) + Send + Sync + 'static) -> Self {
        self.on_incident = Some(Arc::new(body));
        self
    }

    /// Returns what the open sessions hold.
    pub fn stats(&self) -> ServerStats {
        self.totals.read()
    }

    /// Starts a session whose incidents are numbered apart from all others of this service.
    fn new_runner(&self) -> SessionRunner {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        let mut options = self.options.session.clone();
        options.incident_prefix = format!("{}{number}-", options.incident_prefix);
        SessionRunner::new(Some((self.main)()), options)
    }

    fn report_incidents(&self, runner: &mut SessionRunner) {
        for incident in runner.take_incidents() {
            if let Some(on_incident) = &self.on_incident {
                on_incident(incident);
            }
        }
    }
}

/// Serves batches and WebSockets on `path`; other methods are answered with 405.
pub fn router(path: &str, server: RpcServer) -> Router {
    Router::new().route(path, post(serve_batch_request).get(serve_socket)).with_state(server)
}

async fn serve_socket(State(server): State<RpcServer>, mut request: Request) -> Response {
    let Ok(response) = create_response_with_body(&request, Body::empty) else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        // A client that left before the answer gets nothing.
        let Ok(stream) = upgrade.await else {
            return;
        };
        let limits = &server.options.session.limits;
        let stream = MeteredStream::new(TokioIo::new(stream));
        let config = Some(ws_frame::ws_config(&limits.wire));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, config).await;
        let mut share = SessionStatsShare::new(&server.totals);
        let care = ConnectionOptions {
            ping: server.options.ping,
            age: limits.age,
            on_incident: server.on_incident.clone(),
            observer: Some(Box::new(move |session| share.update(session))),
        };
        let runner = server.new_runner();
        run_connection(socket, runner, care).await;
    });
    response
}

async fn serve_batch_request(State(server): State<RpcServer>, body: Body) -> Response {
    let Ok(body) = to_bytes(body, server.options.session.limits.batch_bytes).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let Ok(text) = std::str::from_utf8(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    Response::new(Body::from(serve_batch(&server, text).await))
}

/// Serves one batch: the messages in, the messages out.
///
/// A wrong message does not fail the request: the answer ends with an abort that says why.
pub async fn serve_batch(server: &RpcServer, text: &str) -> String {
    let mut runner = server.new_runner();
    let mut share = SessionStatsShare::new(&server.totals);
    feed_lines(&mut runner, text, server.options.session.limits.batch_messages);
    runner.session().end_input();
    let settled = poll_fn(|context| {
        runner.poll(context);
        share.update(runner.session());
        let done = runner.close_reason().is_some() || runner.session().pending_pulls() == 0;
        if done { Poll::Ready(()) } else { Poll::Pending }
    });
    let deadline = server.options.batch_deadline;
    if tokio::time::timeout(deadline, settled).await.is_err() {
        let late = RpcError::with_code("deadline", "the batch took too long");
        runner.session().reject_pulls(&late);
    }
    server.report_incidents(&mut runner);
    let mut answer = String::with_capacity(runner.session().outgoing_bytes());
    while let Some(text) = runner.poll_text() {
        if !answer.is_empty() {
            answer.push('\n');
        }
        answer.push_str(&text);
    }
    // What each takes at least, besides what is counted.
    let bytes = runner.session().held_bytes() + 16 * TABLE_ENTRY_BYTES;
    if runner.has_running_calls()
        && let Ok(charge) = server.unpulled_account.charge(bytes)
    {
        tokio::spawn(finish_unpulled_calls(server.clone(), runner, (share, charge)));
    }
    answer
}

/// Feeds the lines of a batch; blank ones are nothing.
fn feed_lines(runner: &mut SessionRunner, text: &str, most: usize) {
    let lines = text.split('\n').map(str::trim).filter(|line| !line.is_empty());
    for (count, line) in lines.enumerate() {
        if count == most {
            let error = RpcError::with_code("limit", "too many messages in a batch");
            runner.session().abort(&error);
        }
        if runner.close_reason().is_some() {
            return;
        }
        runner.receive(line);
    }
}

/// Lets calls end whose results are not waited for.
async fn finish_unpulled_calls(
    server: RpcServer,
    mut runner: SessionRunner,
    (mut share, _charge): (SessionStatsShare, MemoryCharge),
) {
    let idle = poll_fn(|context| {
        runner.poll(context);
        share.update(runner.session());
        if runner.has_running_calls() { Poll::Pending } else { Poll::Ready(()) }
    });
    tokio::time::timeout(server.options.batch_deadline, idle).await.ok();
    server.report_incidents(&mut runner);
}
