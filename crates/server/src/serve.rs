//! The listener: from the first connection to a graceful end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinSet;
use turnstone_engine::Engine;
use turnstone_store::Context;

use crate::app::AppState;
use crate::connection::{
    ConnectionTable, Listeners, UnixSocket, UnixSocketError, accept_connections, raise_file_limit,
};
use crate::driven_turn::{end_aborted_turns, end_silent_turns};
use crate::idle_maintenance::run_idle_maintenance;
use crate::peer::{PeerId, PeerLookup, own_user};
use crate::prompt_runner::{PromptRunner, PromptRunnerHost};
use crate::settings::{ServerSettings, SocketSetting};
use crate::{branch_watch, route};

/// How often what dead processes left is looked for (R45).
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// How often programs that drive turns are looked after.
const TURN_WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// How long the runner of this process may take to end its turns when the server stops.
const RUNNER_GRACE: Duration = Duration::from_millis(2_500);

/// How often the runner of this process looks for work that no request of this server has announced.
const WAKE_INTERVAL: Duration = Duration::from_secs(5);

/// How long open requests may take to end when the server stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(3);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens there, or this user may not.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Without a password only this machine may be listened to.
    #[error("a password is required to listen on {0}, which other machines can reach")]
    Unprotected(SocketAddr),
    /// Without a password, a peer that cannot be identified could be any user of this machine.
    #[error("a password is required: this system cannot identify the users that connect")]
    PeersUnknown(#[source] io::Error),
    /// The Unix socket that was asked for cannot be had.
    #[error(transparent)]
    Socket(#[from] UnixSocketError),
    /// The system refused.
    #[error("the server failed")]
    Io(#[from] io::Error),
}

/// A server that has its sockets and answers once it runs.
pub struct HttpServer {
    listeners: Listeners,
    /// Removes the name of the Unix socket at the end.
    socket: Option<UnixSocket>,
    table: Arc<ConnectionTable>,
    address: SocketAddr,
    app: AppState,
}

impl HttpServer {
    /// Takes the sockets.
    ///
    /// # Errors
    ///
    /// [`ServeError::Unprotected`] without a password on an address others can reach,
    /// [`ServeError::PeersUnknown`] without a password where peers cannot be identified.
    pub async fn bind(
        engine: Arc<Engine>,
        mut settings: ServerSettings,
    ) -> Result<Self, ServeError> {
        let address = settings.listen;
        if !address.ip().is_loopback() && settings.credentials.is_none() {
            return Err(ServeError::Unprotected(address));
        }
        let has_password = settings.credentials.is_some();
        let lookup = match PeerLookup::probe(address.ip()) {
            Ok(lookup) => Some(lookup),
            Err(error) if has_password => {
                tracing::info!("peers are distinguished by their addresses only: {error}");
                None
            }
            Err(error) => return Err(ServeError::PeersUnknown(error)),
        };
        let bound = TcpListener::bind(address).await;
        let tcp = bound.map_err(|source| ServeError::Listen { address, source })?;
        let address = tcp.local_addr()?;
        settings.listen = address;
        let (socket, unix) = bind_unix(&settings)?.unzip();
        settings.socket = match &socket {
            Some(socket) => SocketSetting::At(socket.path().to_owned()),
            None => SocketSetting::Off,
        };
        let budget = raise_file_limit(&settings.limits);
        settings.limits.terminals = budget.terminals;
        settings.limits.file_locks = budget.file_locks;
        let table = ConnectionTable::new(budget.connections, PeerId::User(own_user()));
        let listeners = Listeners { tcp, unix, lookup, has_password };
        Ok(Self { listeners, socket, table, address, app: AppState::new(engine, settings) })
    }

    /// The path of the Unix socket, if there is one.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(UnixSocket::path)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Lets a runner of this process take the prompts that no external runner takes. `make` gets what the runner
    /// may know of the server. The first runner counts.
    pub fn attach_runner(&self, make: impl FnOnce(PromptRunnerHost) -> Arc<dyn PromptRunner>) {
        self.app.runners().attach(make(PromptRunnerHost::new(&self.app)));
    }

    /// Answers until `stop` is done, then lets open requests end; streams are closed at once.
    ///
    /// # Errors
    ///
    /// The socket failed.
    pub async fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServeError> {
        let mut background = JoinSet::new();
        background.spawn(run_sweep_loop(self.app.clone()));
        background.spawn(run_turn_watch_loop(self.app.clone()));
        background.spawn(run_idle_maintenance(self.app.clone()));
        background.spawn(branch_watch::watch_branches(self.app.clone()));
        background.spawn(run_wake_loop(self.app.clone()));
        let router = route::router(self.app.clone());
        let (hub, stopping) = (self.app.hub().clone(), self.app.clone());
        let (stop_sender, mut stop_receiver) = tokio::sync::watch::channel(false);
        let signal = async move {
            stop.await;
            hub.close();
            stopping.terminals().close();
            stopping.in_flight().files.close();
            stop_sender.send_replace(true);
        };
        let runner_end = tokio::spawn(stop_runner(self.app.clone(), stop_receiver.clone()));
        let limits = self.app.settings().limits;
        let serving = accept_connections(self.listeners, self.table, (router, limits), signal);
        let late = async move {
            drop(stop_receiver.wait_for(|stopped| *stopped).await);
            tokio::time::sleep(SHUTDOWN_GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = late => tracing::warn!("requests still open after {} s are cut", SHUTDOWN_GRACE.as_secs()),
        }
        background.abort_all();
        // It has been stopping since the signal; what it could not end in time is recovered by the next process.
        drop(tokio::time::timeout(RUNNER_GRACE, runner_end).await);
        let ended = self.app.run_blocking(|app| {
            app.terminals().wait();
            Ok(())
        });
        if tokio::time::timeout(SHUTDOWN_GRACE, ended).await.is_err() {
            tracing::warn!("programs of terminals are left to their supervisors");
        }
        drop(self.socket);
        Ok(())
    }
}

/// Listens on the Unix socket; one that was not asked for may be missing.
fn bind_unix(settings: &ServerSettings) -> Result<Option<(UnixSocket, UnixListener)>, ServeError> {
    let bound = UnixSocket::bind(&settings.socket, &settings.folders.data);
    let (socket, listener) = match bound {
        Ok(Some(bound)) => bound,
        Ok(None) => return Ok(None),
        Err(error) if settings.socket == SocketSetting::InDataDirectory => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let source = source.map(|source| format!(": {source}")).unwrap_or_default();
            tracing::warn!("no Unix socket (--socket PATH names another place): {error}{source}");
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Some((socket, UnixListener::from_std(listener)?)))
}

/// Ends the turns of the runner of this process as soon as the server stops.
async fn stop_runner(app: AppState, mut stopping: tokio::sync::watch::Receiver<bool>) {
    let Some(runner) = app.runners().in_process().cloned() else { return };
    drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    let stopped = app.run_blocking(move |_| {
        runner.stop(RUNNER_GRACE);
        Ok(())
    });
    if stopped.await.is_err() {
        tracing::warn!(
            "the agent could not be stopped; its turns are recovered by the next process"
        );
    }
}

/// Lets the runner of this process look for work: at the start for what an earlier process left, then for what
/// other processes store and for what external runners leave behind.
async fn run_wake_loop(app: AppState) {
    while let Some(runner) = app.runners().in_process().cloned() {
        let woken = app.run_blocking(move |_| Ok(runner.wake_all()?));
        if woken.await.is_err() {
            tracing::warn!("waiting prompts could not be looked for; trying again");
        }
        tokio::time::sleep(WAKE_INTERVAL).await;
    }
}

/// Ends what processes that died have left, at the start and once a minute; maintenance hourly (R41).
async fn run_sweep_loop(app: AppState) {
    loop {
        let swept = app
            .run_blocking(|app| {
                let ctx = Context::system(app.now());
                Ok(app.engine().maintenance().recover_and_maintain(&ctx)?)
            })
            .await;
        if swept.is_err() {
            tracing::warn!("what dead processes left could not be swept; trying again in a minute");
        }
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

/// Ends the turns of drivers that have vanished, those that another process wants to be aborted, and those whose
/// end could not be stored: as long as the disk is full they look as if they were running.
async fn run_turn_watch_loop(app: AppState) {
    loop {
        tokio::time::sleep(TURN_WATCH_INTERVAL).await;
        let stored = app.run_blocking(|app| {
            app.engine().maintenance().store_pending_turn_ends();
            Ok(())
        });
        if stored.await.is_err() {
            tracing::warn!("the end of a turn could not be stored; trying again");
        }
        if app.run_blocking(end_silent_turns).await.is_err() {
            tracing::warn!("a turn whose driver has vanished could not be ended; trying again");
        }
        if app.run_blocking(end_aborted_turns).await.is_err() {
            tracing::warn!("a turn that was to be aborted could not be ended; trying again");
        }
    }
}
