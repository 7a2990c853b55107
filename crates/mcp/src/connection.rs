//! One connection to a server: the agreement at its beginning, its tools, and calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest,
    PaginatedRequestParams, ServerResult,
};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RoleClient, RunningService, ServiceError,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};

use crate::client_handler::ServerClient;
use crate::inbox::FaultSlot;
use crate::safe_text::{clean_line, clean_text};
use crate::server_tool::{MAX_TOOLS, read_tools};
use crate::tool_result::read_result;
use crate::{CallControl, CallProgress, ServerTool, ToolServerError, ToolServerResult};

/// The most pages of a list of tools.
const MAX_PAGES: usize = 50;
/// The longest instructions of a server.
const MAX_INSTRUCTION_BYTES: usize = 8 << 10;
/// The longest error of a server.
const MAX_ERROR_BYTES: usize = 2 << 10;
/// The longest a call may take, whatever progress it makes.
const MAX_CALL_TIME: Duration = Duration::from_secs(3600);
/// How long telling a server that a call is cancelled may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// An agreed connection.
pub(crate) struct ServerConnection {
    peer: Peer<RoleClient>,
    client: ServerClient,
    faults: FaultSlot,
    calls: AtomicUsize,
}

/// A connection that has just begun, and how the server describes itself.
pub(crate) struct OpenedConnection {
    pub(crate) connection: Arc<ServerConnection>,
    pub(crate) running: RunningService<RoleClient, ServerClient>,
    pub(crate) listed: ListedTools,
    pub(crate) instructions: Option<String>,
}

/// The tools of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ListedTools {
    pub(crate) tools: Arc<[ServerTool]>,
    /// Listed tools that cannot be used.
    pub(crate) omitted: usize,
}

/// What a call is about.
pub(crate) struct ServerCall<'c> {
    pub(crate) tool: &'c str,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) timeout: Duration,
}

/// Agrees on a connection and lists the tools.
pub(crate) async fn open_connection<T>(
    transport: T,
    client: ServerClient,
    faults: FaultSlot,
) -> Result<OpenedConnection, ToolServerError>
where
    T: Transport<RoleClient, Error = ToolServerError> + 'static,
{
    let running = client.clone().serve(transport).await;
    let running = running.map_err(|error| initialize_error(&error, &faults))?;
    let peer = running.peer().clone();
    let info = peer.peer_info();
    let has_tools = info.as_ref().is_some_and(|it| it.capabilities.tools.is_some());
    let instructions = info.and_then(|it| it.instructions.clone());
    let instructions = instructions.map(|it| clean_text(it.trim(), MAX_INSTRUCTION_BYTES));
    let connection = ServerConnection { peer, client, faults, calls: AtomicUsize::new(0) };
    let listed = if has_tools { connection.list_tools().await? } else { ListedTools::default() };
    let instructions = instructions.filter(|it| !it.is_empty());
    Ok(OpenedConnection { connection: Arc::new(connection), running, listed, instructions })
}

impl ServerConnection {
    /// Lists the tools, page by page.
    pub(crate) async fn list_tools(&self) -> Result<ListedTools, ToolServerError> {
        let (mut listed, mut cursor, mut more) = (Vec::new(), None, 0);
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let request = ListToolsRequest::with_param(params);
            let sent = self.peer.send_request(ClientRequest::ListToolsRequest(request)).await;
            let ServerResult::ListToolsResult(page) = sent.map_err(|it| self.service_error(&it))?
            else {
                return Err(invalid("it is no list of tools"));
            };
            for tool in page.tools {
                // Beyond the limit they are counted, not kept.
                if listed.len() < MAX_TOOLS * 2 { listed.push(tool) } else { more += 1 }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let (tools, omitted) = read_tools(listed);
        Ok(ListedTools { tools: tools.into(), omitted: omitted + more })
    }

    /// Calls a tool. Runs on the thread of the caller, which `on_progress` may block.
    pub(crate) async fn call_tool(
        &self,
        call: ServerCall<'_>,
        control: &CallControl,
        on_progress: &dyn Fn(CallProgress),
    ) -> Result<ToolServerResult, ToolServerError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = self.call_counted(call, control, on_progress).await;
        self.calls.fetch_sub(1, Ordering::SeqCst);
        result
    }

    async fn call_counted(
        &self,
        call: ServerCall<'_>,
        control: &CallControl,
        on_progress: &dyn Fn(CallProgress),
    ) -> Result<ToolServerResult, ToolServerError> {
        let limit = call.timeout;
        let mut params = CallToolRequestParams::new(call.tool.to_owned());
        params.arguments = Some(call.arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let sent = timeout(limit, self.peer.send_cancellable_request(request, options)).await;
        let sent = sent.map_err(|_| ToolServerError::Timeout { limit })?;
        let mut handle = sent.map_err(|error| self.service_error(&error))?;
        let mut progress = self.client.follow(&handle.progress_token);
        let end = Instant::now() + MAX_CALL_TIME;
        let mut silence_ends = Instant::now() + limit;
        let error = loop {
            tokio::select! {
                biased;
                () = control.cancelled() => break ToolServerError::Cancelled,
                answer = &mut handle.rx => {
                    let answer = answer.map_err(|_| self.closed())?;
                    return read_answer(answer.map_err(|error| self.service_error(&error))?);
                }
                () = sleep_until(silence_ends.min(end)) => break ToolServerError::Timeout { limit },
                update = progress.progress.recv() => if let Some(update) = update {
                    silence_ends = Instant::now() + limit;
                    on_progress(update);
                },
            }
        };
        let cancelled = handle.cancel(Some(error.to_string()));
        // A server that does not read is not waited for.
        drop(timeout(CANCEL_TIMEOUT, cancelled).await);
        Err(error)
    }

    /// True while a call runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.calls.load(Ordering::SeqCst) > 0
    }

    /// True once the connection is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.peer.is_transport_closed()
    }

    /// Returns why the connection is over.
    pub(crate) fn closed(&self) -> ToolServerError {
        self.faults.get().unwrap_or_else(|| closed_error("it was closed"))
    }

    /// Waits until the server says that its tools have changed.
    pub(crate) async fn tools_changed(&self) {
        self.client.tools_changed.notified().await;
    }

    fn service_error(&self, error: &ServiceError) -> ToolServerError {
        if let ServiceError::McpError(error) = error {
            return refused(&error.message);
        }
        if let ServiceError::TransportSend(error) = error {
            let known = error.error.downcast_ref::<ToolServerError>();
            let is_closed =
                |error: &&ToolServerError| matches!(error, ToolServerError::Closed { .. });
            return known.filter(|it| !is_closed(it)).cloned().unwrap_or_else(|| self.closed());
        }
        if matches!(error, ServiceError::TransportClosed) {
            return self.closed();
        }
        if matches!(error, ServiceError::Cancelled { .. }) {
            return ToolServerError::Cancelled;
        }
        invalid("it is not one to this request")
    }
}

fn read_answer(answer: ServerResult) -> Result<ToolServerResult, ToolServerError> {
    let ServerResult::CallToolResult(result) = answer else {
        return Err(invalid("it is no result of a tool"));
    };
    Ok(read_result(result))
}

fn initialize_error(error: &ClientInitializeError, faults: &FaultSlot) -> ToolServerError {
    let closed = || faults.get().unwrap_or_else(|| closed_error("it was closed"));
    if let ClientInitializeError::TransportError { error, .. } = error {
        let known = error.error.downcast_ref::<ToolServerError>().cloned();
        return faults.get().or(known).unwrap_or_else(closed);
    }
    if let ClientInitializeError::JsonRpcError(error) = error {
        return refused(&error.message);
    }
    let is_over = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::Cancelled
    );
    if is_over { closed() } else { invalid("it is no answer to initialize") }
}

fn refused(message: &str) -> ToolServerError {
    ToolServerError::Refused { message: clean_line(message, MAX_ERROR_BYTES) }
}

fn invalid(reason: &str) -> ToolServerError {
    ToolServerError::InvalidAnswer { reason: reason.to_owned() }
}

fn closed_error(reason: &str) -> ToolServerError {
    ToolServerError::Closed { reason: reason.to_owned() }
}
