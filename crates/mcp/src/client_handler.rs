//! What a server may ask of this program: its roots, and nothing else.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, Implementation, ProgressNotificationParam, ProgressToken,
    ProtocolVersion,
};
#[expect(
    deprecated,
    reason = "servers of the versions that this program speaks ask for roots"
)]
use rmcp::model::{ListRootsResult, Root, RootsCapabilities};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::CallProgress;
use crate::safe_text::clean_line;

/// The longest words of a server about its progress.
const MAX_PROGRESS_BYTES: usize = 200;

/// Answers the requests of one server and passes its notifications on.
#[derive(Clone)]
pub(crate) struct ServerClient {
    config: ClientConfig,
    root: String,
    calls: Arc<Mutex<HashMap<ProgressToken, Sender<CallProgress>>>>,
    pub(crate) tools_changed: Arc<Notify>,
}

/// Hears of the progress of one call.
pub(crate) struct ProgressReceiver {
    token: ProgressToken,
    client: ServerClient,
    pub(crate) progress: Receiver<CallProgress>,
}

impl Drop for ProgressReceiver {
    fn drop(&mut self) {
        self.client.calls().remove(&self.token);
    }
}

impl ServerClient {
    pub(crate) fn new((name, version): (&str, &str), root: &Path) -> Self {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let config = ClientConfig::new(capabilities, Implementation::new(name, version))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        Self {
            config,
            root: file_address(root),
            calls: Arc::default(),
            tools_changed: Arc::default(),
        }
    }

    /// Passes on the progress of a call. Only the newest counts: what nobody reads in time is dropped.
    pub(crate) fn follow(&self, token: &ProgressToken) -> ProgressReceiver {
        let (sender, progress) = channel(1);
        self.calls().insert(token.clone(), sender);
        ProgressReceiver { token: token.clone(), client: self.clone(), progress }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, Sender<CallProgress>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientHandler for ServerClient {
    #[expect(deprecated, reason = "servers of the versions that this program speaks ask for roots")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, rmcp::ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(self.root.clone())]))
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let sender = self.calls().get(&progress.progress_token).cloned();
        let Some(sender) = sender else { return };
        let message = progress.message.map(|text| clean_line(&text, MAX_PROGRESS_BYTES));
        let progress = CallProgress { done: progress.progress, total: progress.total, message };
        // A full queue means that the last one was not read yet.
        drop(sender.try_send(progress));
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }
}

/// Returns the address of a directory.
fn file_address(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let mut address = "file://".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            // Writing to a String cannot fail.
            byte => drop(write!(address, "%{byte:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_a_directory_has_its_bytes() {
        assert_eq!(file_address(Path::new("/a b/ä%")), "file:///a%20b/%C3%A4%25");
    }
}
