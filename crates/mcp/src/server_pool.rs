//! All servers of this process: one for each directory and name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use turnstone_outbound::HttpClient;
use turnstone_process::SupervisorProgram;

use crate::runtime::ToolServerRuntime;
use crate::{ToolServer, ToolServerSettings, clock};

/// What all servers share.
#[derive(Clone)]
pub struct ToolServerPoolSettings {
    /// The name of this client.
    pub client_name: String,
    /// The version of this client.
    pub client_version: String,
    /// How this program is started again to watch over a local server; without it, there are none.
    pub supervisor: Option<SupervisorProgram>,
    /// Makes the requests to remote servers; without it, there are none.
    pub http: Option<HttpClient>,
    /// After this time without use a connection is closed.
    pub idle_limit: Duration,
}

pub(crate) struct PoolShared {
    pub(crate) settings: ToolServerPoolSettings,
    pub(crate) runtime: ToolServerRuntime,
}

type ServerKey = (PathBuf, String);

/// The servers of all directories. Clones share them; when the last one is dropped, all servers end.
#[derive(Clone)]
pub struct ToolServerPool {
    shared: Arc<PoolShared>,
    servers: Arc<OwnedServers>,
}

#[derive(Default)]
struct OwnedServers(Mutex<HashMap<ServerKey, ToolServer>>);

impl Drop for OwnedServers {
    fn drop(&mut self) {
        self.lock().drain().for_each(|(_, server)| server.retire());
    }
}

impl OwnedServers {
    fn lock(&self) -> MutexGuard<'_, HashMap<ServerKey, ToolServer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ToolServerPool {
    /// Returns a pool without servers.
    #[must_use]
    pub fn new(settings: ToolServerPoolSettings) -> Self {
        let shared = PoolShared { settings, runtime: ToolServerRuntime::default() };
        Self { shared: Arc::new(shared), servers: Arc::default() }
    }

    /// Returns the servers of a directory, one for each of `wanted`, in that order. A server that is no longer wanted
    /// there, or is now something else, ends. Nothing is started.
    pub fn select(&self, root: &Path, wanted: &[ToolServerSettings]) -> Vec<ToolServer> {
        let mut servers = self.servers.lock();
        servers.retain(|(place, _), server| {
            let is_kept = place != root || wanted.contains(server.settings());
            if !is_kept {
                server.retire();
            }
            is_kept
        });
        let select = |settings: &ToolServerSettings| {
            let key = (root.to_owned(), settings.name.clone());
            let new = || ToolServer::new(self.shared.clone(), root.to_owned(), settings.clone());
            servers.entry(key).or_insert_with(new).clone()
        };
        wanted.iter().map(select).collect()
    }

    /// Connects servers at the same time, and waits until each is connected or has failed, or `limit` has passed.
    pub fn connect(servers: &[ToolServer], limit: Duration) {
        let began = clock::now();
        servers.iter().for_each(ToolServer::start);
        for server in servers {
            server.wait(limit.saturating_sub(began.elapsed()));
        }
    }

    /// Ends all servers.
    pub fn close(&self) {
        self.servers.lock().drain().for_each(|(_, server)| server.retire());
    }
}
