//! What every handler starts from.

use std::sync::Arc;

use turnstone_core::time::Millis;
use turnstone_engine::Engine;

use crate::error::ApiError;
use crate::event::Hub;
use crate::git_pool::GitPool;
use crate::guard::Rates;
use crate::held::Turns;
use crate::once::Claims;
use crate::place::Places;
use crate::runner::Runners;
use crate::search::SearchPool;
use crate::settings::Settings;
use crate::told::Diffs;

/// The application behind the routes; a copy is a handle.
#[derive(Clone)]
pub(crate) struct App {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    settings: Settings,
    places: Places,
    hub: Hub,
    rates: Rates,
    work: Work,
}

/// What is being done for clients right now.
#[derive(Default)]
pub(crate) struct Work {
    /// Requests that are made once.
    pub(crate) claims: Claims,
    /// Turns that are driven from outside.
    pub(crate) turns: Turns,
    /// Who runs turns.
    pub(crate) runners: Runners,
    /// What clients know of the differences of sessions.
    pub(crate) diffs: Diffs,
    /// Searches in files.
    pub(crate) searches: SearchPool,
    /// Requests that ask git.
    pub(crate) git: GitPool,
}

impl App {
    pub(crate) fn new(engine: Arc<Engine>, settings: Settings) -> Self {
        let hub = Hub::new(engine.clone(), settings.clock, settings.limits.streams);
        let rates = Rates::new(settings.limits.rate);
        let (places, work) = (Places::default(), Work::default());
        Self { inner: Arc::new(Inner { engine, settings, places, hub, rates, work }) }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    pub(crate) fn places(&self) -> &Places {
        &self.inner.places
    }

    /// Where events come from.
    pub(crate) fn hub(&self) -> &Hub {
        &self.inner.hub
    }

    /// How often an address may ask.
    pub(crate) fn rates(&self) -> &Rates {
        &self.inner.rates
    }

    /// What is being done for clients right now.
    pub(crate) fn work(&self) -> &Work {
        &self.inner.work
    }

    /// Who runs turns.
    pub(crate) fn runners(&self) -> &Runners {
        &self.inner.work.runners
    }

    /// The present moment.
    pub(crate) fn now(&self) -> Millis {
        (self.inner.settings.clock)()
    }

    /// Runs `work` where it may wait for disk and locks; a panic in it ends this request only.
    pub(crate) async fn blocking<T, F>(&self, work: F) -> Result<T, ApiError>
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
