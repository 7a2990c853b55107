//! One server in one directory: connected when it is needed, tried again after a failure, closed when it is idle.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rmcp::service::RunningServiceCancellationToken;
use serde_json::{Map, Value};
use tokio::time::{sleep, timeout};

use crate::client_handler::ServerClient;
use crate::connection::{
    ListedTools, OpenedConnection, ServerCall, ServerConnection, open_connection,
};
use crate::http::HttpTransport;
use crate::inbox::FaultSlot;
use crate::local::{LineTransport, ProgramLine, start_program};
use crate::server_pool::PoolShared;
use crate::{
    CallControl, CallProgress, ServerTool, ToolServerError, ToolServerResult, ToolServerSettings,
    ToolServerTransport, clock,
};

/// The shortest wait before a server that failed is tried again; it doubles with every failure.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
/// The longest wait.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The shortest time between two lists of the tools of a server that changes them.
const LIST_INTERVAL: Duration = Duration::from_millis(200);

/// What is known of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolServerStatus {
    /// It is connected.
    Connected,
    /// It is switched off.
    Disabled,
    /// It was not needed yet, or it is closed until it is needed again.
    Idle,
    /// It is being connected.
    Starting,
    /// It cannot be used.
    Failed(ToolServerError),
}

/// A server of tools in a directory. Clones are the same server. Its methods block; they must not be called on a
/// thread that runs asynchronous tasks.
#[derive(Clone)]
pub struct ToolServer {
    pub(crate) shared: Arc<ServerShared>,
}

pub(crate) struct ServerShared {
    pub(crate) settings: ToolServerSettings,
    root: PathBuf,
    pool: Arc<PoolShared>,
    state: Mutex<ToolServerState>,
    changed: Condvar,
}

#[derive(Default)]
struct ToolServerState {
    phase: ServerPhase,
    listed: ListedTools,
    instructions: Option<String>,
    failures: u32,
    last_used: Option<Instant>,
    is_retired: bool,
}

#[derive(Default)]
enum ServerPhase {
    #[default]
    Idle,
    Starting,
    Connected {
        connection: Arc<ServerConnection>,
        stop: Option<RunningServiceCancellationToken>,
    },
    Failed {
        error: ToolServerError,
        at: Instant,
    },
}

impl ToolServer {
    pub(crate) fn new(pool: Arc<PoolShared>, root: PathBuf, settings: ToolServerSettings) -> Self {
        let shared =
            ServerShared { settings, root, pool, state: Mutex::default(), changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.settings.name
    }

    /// Returns what the server is.
    #[must_use]
    pub fn settings(&self) -> &ToolServerSettings {
        &self.shared.settings
    }

    /// Returns what is known of the server, without waiting for it.
    #[must_use]
    pub fn status(&self) -> ToolServerStatus {
        if !self.shared.settings.is_enabled {
            return ToolServerStatus::Disabled;
        }
        match &self.shared.state().phase {
            ServerPhase::Idle => ToolServerStatus::Idle,
            ServerPhase::Starting => ToolServerStatus::Starting,
            ServerPhase::Connected { connection, .. } if connection.is_closed() => {
                ToolServerStatus::Failed(connection.closed())
            }
            ServerPhase::Connected { .. } => ToolServerStatus::Connected,
            ServerPhase::Failed { error, .. } => ToolServerStatus::Failed(error.clone()),
        }
    }

    /// Returns the tools that the server listed last; none before it was connected.
    #[must_use]
    pub fn tools(&self) -> Arc<[ServerTool]> {
        self.shared.state().listed.tools.clone()
    }

    /// Returns how many listed tools cannot be used.
    #[must_use]
    pub fn omitted_tools(&self) -> usize {
        self.shared.state().listed.omitted
    }

    /// Returns what the server wants models to know.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.shared.state().instructions.clone()
    }

    /// Begins to connect unless the server is connected, switched off, or failed a short time ago.
    pub fn start(&self) {
        let shared = &self.shared;
        let mut state = shared.state();
        state.last_used = Some(clock::now());
        let may_start = shared.settings.is_enabled && !state.is_retired && state.may_start();
        if !may_start {
            return;
        }
        match shared.pool.runtime.handle() {
            Ok(runtime) => {
                state.phase = ServerPhase::Starting;
                drop(runtime.spawn(connect(shared.clone())));
            }
            Err(error) => state.fail(error),
        }
    }

    /// Waits until the server is connected or has failed, or `limit` has passed.
    pub fn wait(&self, limit: Duration) {
        let state = self.shared.state();
        let is_starting =
            |state: &mut ToolServerState| matches!(state.phase, ServerPhase::Starting);
        let waited = self.shared.changed.wait_timeout_while(state, limit, is_starting);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Calls a tool, and connects first if that is needed. `on_progress` runs on this thread.
    ///
    /// # Errors
    ///
    /// The server cannot be used, refuses, takes too long, or its answer cannot be used.
    pub fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        control: &CallControl,
        on_progress: &dyn Fn(CallProgress),
    ) -> Result<ToolServerResult, ToolServerError> {
        let runtime = self.shared.pool.runtime.handle()?;
        self.start();
        // The attempt to connect ends by itself after this time.
        self.wait(self.shared.settings.start_timeout + Duration::from_secs(1));
        if control.is_cancelled() {
            return Err(ToolServerError::Cancelled);
        }
        let connection = {
            let mut state = self.shared.state();
            // From here on the connection is in use: it is not closed before the call counts as busy.
            state.last_used = Some(clock::now());
            state.connected(&self.shared.settings)?
        };
        let call = ServerCall { tool, arguments, timeout: self.shared.settings.call_timeout };
        let result = runtime.block_on(connection.call_tool(call, control, on_progress));
        let mut state = self.shared.state();
        state.last_used = Some(clock::now());
        if result.is_ok() {
            state.failures = 0;
        }
        result
    }

    /// Closes the connection; the server is not connected again.
    pub(crate) fn retire(&self) {
        let mut state = self.shared.state();
        state.is_retired = true;
        state.stop();
    }
}

impl ServerShared {
    fn state(&self) -> MutexGuard<'_, ToolServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_failed(&self, error: ToolServerError) {
        self.state().fail(error);
        self.changed.notify_all();
    }
}

impl ToolServerState {
    fn may_start(&self) -> bool {
        match &self.phase {
            ServerPhase::Idle => true,
            ServerPhase::Starting => false,
            // Its end was not noted yet.
            ServerPhase::Connected { .. } => false,
            ServerPhase::Failed { at, .. } => at.elapsed() >= backoff(self.failures),
        }
    }

    fn fail(&mut self, error: ToolServerError) {
        self.failures = self.failures.saturating_add(1);
        self.phase = ServerPhase::Failed { error, at: clock::now() };
    }

    fn stop(&mut self) {
        if let ServerPhase::Connected { stop, .. } = &mut self.phase
            && let Some(stop) = stop.take()
        {
            stop.cancel();
        }
        self.phase = ServerPhase::Idle;
    }

    fn connected(
        &self,
        settings: &ToolServerSettings,
    ) -> Result<Arc<ServerConnection>, ToolServerError> {
        match &self.phase {
            ServerPhase::Connected { connection, .. } => Ok(connection.clone()),
            ServerPhase::Idle if !settings.is_enabled => Err(ToolServerError::Disabled),
            ServerPhase::Idle => {
                Err(ToolServerError::Closed { reason: "it was closed".to_owned() })
            }
            ServerPhase::Starting => {
                Err(ToolServerError::Timeout { limit: settings.start_timeout })
            }
            ServerPhase::Failed { error, at } => {
                let retry_after = backoff(self.failures).saturating_sub(at.elapsed());
                if *error == ToolServerError::NeedsAuthorization {
                    return Err(error.clone());
                }
                Err(ToolServerError::Waiting { reason: error.to_string(), retry_after })
            }
        }
    }
}

/// How long to wait after so many failures in a row.
fn backoff(failures: u32) -> Duration {
    let doubled = MIN_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(10));
    doubled.min(MAX_BACKOFF)
}

/// Connects a server, and looks after the connection until it ends.
async fn connect(shared: Arc<ServerShared>) {
    let faults = FaultSlot::default();
    let limit = shared.settings.start_timeout;
    let opened = match timeout(limit, open(&shared, &faults)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => return shared.set_failed(error),
        // What a program complained about says more than that it is slow.
        Err(_) => return shared.set_failed(ToolServerError::Timeout { limit }),
    };
    let OpenedConnection { connection, running, listed, instructions } = opened;
    {
        let mut state = shared.state();
        state.listed = listed;
        state.instructions = instructions;
        state.last_used = Some(clock::now());
        let stop = Some(running.cancellation_token());
        state.phase = ServerPhase::Connected { connection: connection.clone(), stop };
        if state.is_retired {
            state.stop();
        }
    }
    shared.changed.notify_all();
    let weak = Arc::downgrade(&shared);
    drop(shared);
    tokio::select! {
        _ = running.waiting() => {}
        () = follow_tools(&weak, &connection) => {}
        () = end_when_idle(&weak, &connection) => {}
    }
    let Some(shared) = weak.upgrade() else { return };
    let mut state = shared.state();
    let is_this = matches!(&state.phase, ServerPhase::Connected { connection: current, .. }
        if Arc::ptr_eq(current, &connection));
    if is_this {
        state.fail(connection.closed());
        drop(state);
        shared.changed.notify_all();
    }
}

async fn open(
    shared: &ServerShared,
    faults: &FaultSlot,
) -> Result<OpenedConnection, ToolServerError> {
    let pool = &shared.pool;
    let identity = (pool.settings.client_name.as_str(), pool.settings.client_version.as_str());
    let client = ServerClient::new(identity, &shared.root);
    match &shared.settings.transport {
        ToolServerTransport::Local { program, args, directory, environment } => {
            let supervisor = pool.settings.supervisor.clone();
            let supervisor = supervisor
                .ok_or_else(|| ToolServerError::unavailable("no programs can be started here"))?;
            let (program, args) = (program.clone(), args.clone());
            let (directory, environment) = (directory.clone(), environment.clone());
            let started = tokio::task::spawn_blocking(move || {
                let (program, args, environment) = (&program, &args[..], &environment[..]);
                let line = ProgramLine { program, args, directory: &directory, environment };
                start_program(&supervisor, &line)
            });
            let started =
                started.await.map_err(|error| ToolServerError::unavailable(error.to_string()))?;
            open_connection(LineTransport::new(started?, faults)?, client, faults.clone()).await
        }
        ToolServerTransport::Remote { url, headers } => {
            let http = pool.settings.http.clone();
            let http =
                http.ok_or_else(|| ToolServerError::unavailable("no requests can be made here"))?;
            let address = (url.as_str(), &headers[..]);
            let transport = HttpTransport::new(http, address, faults, pool.runtime.handle()?);
            open_connection(transport, client, faults.clone()).await
        }
    }
}

/// Lists the tools again whenever the server says that they have changed.
async fn follow_tools(server: &Weak<ServerShared>, connection: &ServerConnection) {
    loop {
        connection.tools_changed().await;
        // A list that cannot be had leaves the last one, and the next change is another chance.
        let Some(limit) = server.upgrade().map(|it| it.settings.start_timeout) else { return };
        if let Ok(Ok(listed)) = timeout(limit, connection.list_tools()).await
            && let Some(shared) = server.upgrade()
        {
            shared.state().listed = listed;
            shared.changed.notify_all();
        }
        sleep(LIST_INTERVAL).await;
    }
}

/// Closes a connection that has not been used for a while.
async fn end_when_idle(server: &Weak<ServerShared>, connection: &Arc<ServerConnection>) {
    loop {
        let left = {
            let Some(shared) = server.upgrade() else { return };
            let limit = shared.pool.settings.idle_limit;
            let mut state = shared.state();
            let used = state.last_used.map_or(Duration::ZERO, |it| it.elapsed());
            let left = limit.saturating_sub(used);
            if left.is_zero() && !connection.is_busy() {
                state.stop();
                return;
            }
            left.max(limit / 10).max(Duration::from_millis(10))
        };
        sleep(left).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|failures| backoff(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff(u32::MAX).as_secs(), 60);
    }
}
