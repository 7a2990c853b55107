//! The listener: from the first connection to a graceful end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use turnstone_engine::Engine;
use turnstone_store::Context;

use crate::app::App;
use crate::settings::Settings;
use crate::{branch, connection, route};

/// How often what dead processes left is looked for (R45).
const SWEEP: Duration = Duration::from_secs(60);

/// How often programs that drive turns are looked after.
const LAPSE: Duration = Duration::from_millis(500);

/// How long open requests may take to end when the server is told to stop.
const GRACE: Duration = Duration::from_secs(5);

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else listens there, or this user may not.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Without a password only this machine may be listened to.
    #[error("{0} can be reached from elsewhere: a password is needed to listen there")]
    Unprotected(SocketAddr),
    /// The system refused.
    #[error("the server cannot go on")]
    Io(#[from] io::Error),
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A server that has its socket and answers once it runs.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: App,
}

impl Server {
    /// Takes the socket.
    ///
    /// # Errors
    ///
    /// [`ServeError::Unprotected`] without a password on an address others can reach.
    pub async fn bind(engine: Arc<Engine>, mut settings: Settings) -> Result<Self, ServeError> {
        let address = settings.listen;
        if !address.ip().is_loopback() && settings.credentials.is_none() {
            return Err(ServeError::Unprotected(address));
        }
        let taken = TcpListener::bind(address).await;
        let listener = taken.map_err(|source| ServeError::Listen { address, source })?;
        let address = listener.local_addr()?;
        settings.listen = address;
        connection::make_room(settings.limits.streams);
        Ok(Self { listener, address, app: App::new(engine, settings) })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
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
        let sweeper = tokio::spawn(sweep(self.app.clone()));
        let listener = tokio::spawn(lapse(self.app.clone()));
        let watcher = tokio::spawn(branch::watch(self.app.clone()));
        let router = route::router(self.app.clone());
        let hub = self.app.hub().clone();
        let (told, mut hears) = tokio::sync::watch::channel(false);
        let signal = async move {
            stop.await;
            hub.close();
            told.send_replace(true);
        };
        let limits = self.app.settings().limits;
        let serving = connection::answer(self.listener, router, limits, signal);
        let late = async move {
            drop(hears.wait_for(|stopped| *stopped).await);
            tokio::time::sleep(GRACE).await;
        };
        tokio::select! {
            () = serving => {}
            () = late => tracing::warn!("requests still open after {} s are cut", GRACE.as_secs()),
        }
        sweeper.abort();
        listener.abort();
        watcher.abort();
        Ok(())
    }
}

/// Ends what processes that died have left, at the start and once a minute; upkeep hourly (R41).
async fn sweep(app: App) {
    loop {
        let swept = app
            .blocking(|app| {
                let ctx = Context::system(app.now());
                Ok(app.engine().sweep(&ctx)?)
            })
            .await;
        if swept.is_err() {
            tracing::warn!("what dead processes left could not be swept; trying again in a minute");
        }
        tokio::time::sleep(SWEEP).await;
    }
}

/// Ends the turns of drivers that have vanished, and those that another process wants to be aborted.
async fn lapse(app: App) {
    loop {
        tokio::time::sleep(LAPSE).await;
        if app.blocking(App::end_vanished).await.is_err() {
            tracing::warn!("a turn whose driver has vanished could not be ended; trying again");
        }
        if app.blocking(App::end_aborted).await.is_err() {
            tracing::warn!("a turn that was to be aborted could not be ended; trying again");
        }
    }
}
