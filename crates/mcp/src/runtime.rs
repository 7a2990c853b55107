//! The runtime of the connections.

use std::sync::OnceLock;

use tokio::runtime::{Handle, Runtime};

use crate::ToolServerError;

/// A runtime that is started when it is first needed, and may be dropped anywhere.
#[derive(Default)]
pub(crate) struct ToolServerRuntime(OnceLock<Result<ServerRuntime, String>>);

struct ServerRuntime(Option<Runtime>);

impl Drop for ServerRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl ToolServerRuntime {
    /// Returns the handle of the runtime.
    pub(crate) fn handle(&self) -> Result<Handle, ToolServerError> {
        let started = self.0.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(1).thread_name("tool-servers").enable_time();
            runtime.build().map(|it| ServerRuntime(Some(it))).map_err(|error| error.to_string())
        });
        match started {
            Ok(ServerRuntime(Some(runtime))) => Ok(runtime.handle().clone()),
            Ok(ServerRuntime(None)) => Err(ToolServerError::unavailable("its threads have ended")),
            Err(reason) => Err(ToolServerError::unavailable(reason.clone())),
        }
    }
}
