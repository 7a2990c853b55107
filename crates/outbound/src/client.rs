//! The client: one runtime, and one pool of connections for each way to a host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::{Proxy, Url};
use tokio::runtime::Runtime;

use crate::exchange::exchange;
use crate::proxy::ProxyRules;
use crate::resolver::PolicyResolver;
use crate::trust::tls_configuration;
use crate::{
    AddressPolicy, OutboundError, OutboundRequest, ProxySettings, ResponseStream, TrustSettings,
};

/// How long an idle connection is kept.
const IDLE_CONNECTION: Duration = Duration::from_secs(90);

/// What holds for all requests.
#[derive(Clone, Debug)]
pub struct HttpClientSettings {
    /// The proxies.
    pub proxies: ProxySettings,
    /// The certificates that are trusted.
    pub trust: TrustSettings,
    /// The `User-Agent` of requests that set none.
    pub user_agent: String,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
}

impl HttpClientSettings {
    /// Returns settings without proxies, with the certificates of the system.
    #[must_use]
    pub fn new(user_agent: &str) -> Self {
        Self {
            proxies: ProxySettings::default(),
            trust: TrustSettings::default(),
            user_agent: user_agent.to_owned(),
            connect_timeout: Duration::from_secs(30),
        }
    }
}

/// Makes requests. Clones share connections. Threads and certificates are loaded by the first request.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<SharedClient>,
}

/// What requests under way need of their client.
pub(crate) struct SharedClient {
    settings: HttpClientSettings,
    pub(crate) proxies: ProxyRules,
    runtime: OnceLock<Result<PrivateRuntime, String>>,
    tls: OnceLock<Result<rustls::ClientConfig, String>>,
    pools: Mutex<HashMap<ConnectionRoute, reqwest::Client>>,
}

/// How a host is reached. Each has connections of its own, so that none is reused under a weaker policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConnectionRoute {
    Direct(AddressPolicy),
    Proxy(Url),
}

/// A runtime that may be dropped anywhere, also on a thread of another runtime.
struct PrivateRuntime(Option<Runtime>);

impl Drop for PrivateRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl HttpClient {
    /// Returns a client, or an error if a proxy is not valid.
    pub fn new(settings: HttpClientSettings) -> Result<Self, OutboundError> {
        let proxies = ProxyRules::new(&settings.proxies)?;
        let shared = SharedClient {
            settings,
            proxies,
            runtime: OnceLock::new(),
            tls: OnceLock::new(),
            pools: Mutex::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Starts a request and returns at once.
    #[must_use]
    pub fn start(&self, request: OutboundRequest) -> ResponseStream {
        let runtime = match self.shared.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return ResponseStream::failed(error),
        };
        let shared = Arc::clone(&self.shared);
        ResponseStream::open(|sender| {
            Some(runtime.spawn(exchange(shared, request, sender)).abort_handle())
        })
    }
}

impl SharedClient {
    fn runtime(&self) -> Result<&Runtime, OutboundError> {
        let started = self.runtime.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(1).thread_name("outbound-http").enable_all();
            let runtime = runtime.build().map_err(|error| error.to_string())?;
            Ok(PrivateRuntime(Some(runtime)))
        });
        match started {
            Ok(PrivateRuntime(Some(runtime))) => Ok(runtime),
            Ok(PrivateRuntime(None)) => Err(setup_error("its threads have ended")),
            Err(reason) => Err(setup_error(reason)),
        }
    }

    /// Returns the pool of connections of a route.
    pub(crate) fn pool(&self, route: &ConnectionRoute) -> Result<reqwest::Client, OutboundError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(route) {
            return Ok(pool.clone());
        }
        let pool = self.create_pool(route)?;
        pools.insert(route.clone(), pool.clone());
        Ok(pool)
    }

    fn create_pool(&self, route: &ConnectionRoute) -> Result<reqwest::Client, OutboundError> {
        let tls = self.tls.get_or_init(|| tls_configuration(&self.settings.trust));
        let tls = tls.clone().map_err(|reason| setup_error(&reason))?;
        let policy = match route {
            ConnectionRoute::Direct(policy) => *policy,
            // The resolver finds the proxy here, which may be in this network.
            ConnectionRoute::Proxy(_) => AddressPolicy::Any,
        };
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .http1_only()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(self.settings.connect_timeout)
            .pool_idle_timeout(IDLE_CONNECTION)
            .user_agent(self.settings.user_agent.as_str())
            .dns_resolver(PolicyResolver(policy));
        let builder = match route {
            ConnectionRoute::Direct(_) => builder,
            ConnectionRoute::Proxy(proxy) => {
                let proxy = Proxy::all(proxy.clone()).map_err(|_| OutboundError::InvalidProxy {
                    reason: "its address cannot be used".to_owned(),
                })?;
                builder.proxy(proxy)
            }
        };
        builder.build().map_err(|error| setup_error(&error.without_url().to_string()))
    }
}

fn setup_error(reason: &str) -> OutboundError {
    OutboundError::Setup { reason: reason.to_owned() }
}
