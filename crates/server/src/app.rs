//! What every handler starts from.

use std::path::Path;
use std::sync::{Arc, Weak};

use tokio::sync::Notify;
use turnstone_core::time::EpochMillis;
use turnstone_engine::Engine;

use crate::diff_dedup::DiffDedup;
use crate::driven_turn::DrivenTurns;
use crate::error::ApiError;
use crate::event::EventHub;
use crate::file_access::FileAccess;
use crate::file_search::SearchPool;
use crate::git_pool::GitPool;
use crate::guard::RateLimits;
use crate::idempotency::InFlightRequests;
use crate::project_directory::ProjectDirectoryCache;
use crate::pty::PtyRegistry;
use crate::runner_registry::RunnerRegistry;
use crate::settings::ServerSettings;

/// The application behind the routes; a copy is a handle.
#[derive(Clone)]
pub(crate) struct AppState {
    inner: Arc<AppInner>,
}

pub(crate) struct AppInner {
    engine: Arc<Engine>,
    settings: ServerSettings,
    places: ProjectDirectoryCache,
    hub: EventHub,
    rates: RateLimits,
    work: InFlightWork,
    terminals: PtyRegistry,
}

/// What is being done for clients right now.
#[derive(Default)]
pub(crate) struct InFlightWork {
    /// Requests that are made once.
    pub(crate) idempotent_requests: InFlightRequests,
    /// Turns that are driven from outside.
    pub(crate) driven_turns: DrivenTurns,
    /// Who runs turns.
    pub(crate) runners: RunnerRegistry,
    /// What clients know of the differences of sessions.
    pub(crate) diff_dedup: DiffDedup,
    /// Locks on files, and files that are read.
    pub(crate) files: FileAccess,
    /// Searches in files.
    pub(crate) searches: SearchPool,
    /// Requests that ask git.
    pub(crate) git: GitPool,
    /// Wakes maintenance after a deletion.
    pub(crate) deletion_signal: Notify,
}

impl AppState {
    pub(crate) fn new(engine: Arc<Engine>, settings: ServerSettings) -> Self {
        let hub = EventHub::new(engine.clone(), settings.clock, settings.limits.streams);
        let rates = RateLimits::new(settings.limits.rate);
        let terminals = PtyRegistry::new(settings.limits.terminals);
        let files = FileAccess::new(&settings.limits);
        let work = InFlightWork { files, ..InFlightWork::default() };
        let places = ProjectDirectoryCache::default();
        Self { inner: Arc::new(AppInner { engine, settings, places, hub, rates, work, terminals }) }
    }

    /// A handle that does not keep the application alive.
    pub(crate) fn downgrade(&self) -> Weak<AppInner> {
        Arc::downgrade(&self.inner)
    }

    /// The application of a handle, while it lives.
    pub(crate) fn upgrade(handle: &Weak<AppInner>) -> Option<Self> {
        handle.upgrade().map(|inner| Self { inner })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn settings(&self) -> &ServerSettings {
        &self.inner.settings
    }

    pub(crate) fn project_directories(&self) -> &ProjectDirectoryCache {
        &self.inner.places
    }

    /// Where events come from.
    pub(crate) fn hub(&self) -> &EventHub {
        &self.inner.hub
    }

    /// How often an address may ask.
    pub(crate) fn rates(&self) -> &RateLimits {
        &self.inner.rates
    }

    /// What is being done for clients right now.
    pub(crate) fn in_flight(&self) -> &InFlightWork {
        &self.inner.work
    }

    /// Terminals of people.
    pub(crate) fn terminals(&self) -> &PtyRegistry {
        &self.inner.terminals
    }

    /// Who runs turns.
    pub(crate) fn runners(&self) -> &RunnerRegistry {
        &self.inner.work.runners
    }

    /// Watches the root of a directory in which work begins or goes on, so that captures cost what changed (R42).
    ///
    /// Requests that only read never call it.
    pub(crate) fn watch_directory(&self, directory: &Path) {
        self.engine().maintenance().watched_roots().ensure_watched(directory, self.now());
    }

    /// The present moment.
    pub(crate) fn now(&self) -> EpochMillis {
        (self.inner.settings.clock)()
    }

    /// Runs `work` where it may wait for disk and locks; a panic in it ends this request only.
    pub(crate) async fn run_blocking<T, F>(&self, work: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, ApiError> + Send + 'static,
    {
        let app = self.clone();
        match tokio::task::spawn_blocking(move || work(&app)).await {
            Ok(done) => done,
            Err(error) => Err(ApiError::unexpected(&error)),
        }
    }
}
