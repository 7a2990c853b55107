//! Providers that outlive a request: connections are shared, and a script remembers which errors it gave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use turnstone_engine::read_bounded_file;
use turnstone_outbound::{HttpClient, HttpClientSettings, OutboundError};

use super::network::proxied_settings;
use super::settings_failure::{unusable_proxy, unusable_script};
use crate::run::SettingsFailure;
use crate::wire::ScriptedProvider;

/// A larger script is refused.
const MAX_SCRIPT_BYTES: u64 = 64 << 20;
/// After so many of a kind the cache begins again.
const MAX_ENTRIES: usize = 64;

/// Clients and scripts in use.
pub(super) struct ProviderCache {
    settings: HttpClientSettings,
    client: HttpClient,
    /// Clients through proxies of their own.
    proxied: Mutex<BTreeMap<String, HttpClient>>,
    scripts: Mutex<BTreeMap<PathBuf, LoadedScript>>,
}

/// A script and the text that it was read from.
struct LoadedScript {
    text: Vec<u8>,
    provider: Arc<ScriptedProvider>,
}

impl ProviderCache {
    pub(super) fn new(settings: HttpClientSettings) -> Result<Self, OutboundError> {
        let client = HttpClient::new(settings.clone())?;
        Ok(Self { settings, client, proxied: Mutex::default(), scripts: Mutex::default() })
    }

    /// Returns the client for most requests.
    pub(super) const fn client(&self) -> &HttpClient {
        &self.client
    }

    /// Returns the client for requests to a provider, through its own proxy if it has one.
    pub(super) fn client_for(
        &self,
        provider: &str,
        proxy: Option<&str>,
    ) -> Result<HttpClient, SettingsFailure> {
        let Some(proxy) = proxy else { return Ok(self.client.clone()) };
        let mut proxied = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = proxied.get(proxy) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(proxied_settings(&self.settings, proxy))
            .map_err(|error| unusable_proxy(provider, &error.to_string()))?;
        if proxied.len() >= MAX_ENTRIES {
            proxied.clear();
        }
        proxied.insert(proxy.to_owned(), client.clone());
        Ok(client)
    }

    /// Returns the model that a script plays; the same one while the script does not change.
    pub(super) fn script(&self, path: &Path) -> Result<Arc<ScriptedProvider>, SettingsFailure> {
        let unusable = |reason: &str| unusable_script(path, reason);
        let bytes = read_bounded_file(path, MAX_SCRIPT_BYTES)
            .map_err(|error| unusable(&error.to_string()))?
            .ok_or_else(|| unusable("it does not exist"))?;
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = scripts.get(path).filter(|known| known.text == bytes) {
            return Ok(known.provider.clone());
        }
        let text = str::from_utf8(&bytes).map_err(|_| unusable("it is not UTF-8"))?;
        let provider = ScriptedProvider::from_json(text)
            .map(Arc::new)
            .map_err(|error| unusable(&error.to_string()))?;
        if scripts.len() >= MAX_ENTRIES {
            scripts.clear();
        }
        let loaded = LoadedScript { provider: provider.clone(), text: bytes };
        scripts.insert(path.to_owned(), loaded);
        Ok(provider)
    }
}
