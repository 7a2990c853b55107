//! Streamable HTTP: every message is a request of its own, and a stream brings what the server says unasked.

use std::sync::{Arc, Condvar, Mutex};

use rmcp::model::{ClientNotification, ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RoleClient, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::runtime::Handle;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use turnstone_outbound::HttpClient;

use super::http_exchange::HttpExchange;
use crate::ToolServerError;
use crate::inbox::{FaultSlot, ServerMessage, open_inbox};

/// Speaks with a server. Dropping it gives up what is under way.
pub(crate) struct HttpTransport {
    exchange: Arc<HttpExchange>,
    incoming: Receiver<ServerMessage>,
    /// Where the blocking requests run.
    runtime: Handle,
    /// The request that began the session: its answer says which version of the protocol counts.
    initialize: Option<RequestId>,
}

impl HttpTransport {
    /// Returns a transport to an address; nothing is sent yet.
    pub(crate) fn new(
        client: HttpClient,
        (url, headers): (&str, &[(String, String)]),
        faults: &FaultSlot,
        runtime: Handle,
    ) -> Self {
        let (inbox, incoming) = open_inbox(faults);
        let exchange = HttpExchange {
            client,
            url: url.to_owned(),
            headers: headers.to_vec(),
            inbox: Mutex::new(Some(Arc::new(inbox))),
            faults: faults.clone(),
            state: Mutex::default(),
            changed: Condvar::new(),
        };
        Self { exchange: Arc::new(exchange), incoming, runtime, initialize: None }
    }

    /// Remembers the version that the server has chosen: every later request names it.
    fn note_version(&mut self, message: &ServerMessage) {
        let JsonRpcMessage::Response(response) = message else { return };
        if self.initialize.as_ref() != Some(&response.id) {
            return;
        }
        if let rmcp::model::ServerResult::InitializeResult(result) = &response.result {
            let version = result.protocol_version.to_string();
            // What is no header is no version of the protocol, either.
            let is_plain = version.len() <= 32 && version.bytes().all(|b| b.is_ascii_graphic());
            self.exchange.state().version = Some(version).filter(|_| is_plain);
        }
        self.initialize = None;
    }
}

impl Transport<RoleClient> for HttpTransport {
    type Error = ToolServerError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let request = match &item {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            JsonRpcMessage::Response(_)
            | JsonRpcMessage::Notification(_)
            | JsonRpcMessage::Error(_) => None,
        };
        if let JsonRpcMessage::Request(request) = &item
            && let ClientRequest::InitializeRequest(_) = &request.request
        {
            self.initialize = Some(request.id.clone());
        }
        let after = Afterwards::of(&item);
        let (exchange, runtime) = (self.exchange.clone(), self.runtime.clone());
        async move {
            let invalid =
                |error: serde_json::Error| ToolServerError::unavailable(error.to_string());
            let body = serde_json::to_vec(&item).map_err(invalid)?;
            let (head, accepted) = oneshot::channel();
            let posting = exchange.clone();
            let posted = runtime.spawn_blocking(move || {
                posting.post(body, request.as_ref(), |result| drop(head.send(result)));
            });
            drop(posted);
            let closed = |_| ToolServerError::Closed { reason: "it was closed".to_owned() };
            let result = accepted.await.map_err(closed)?;
            match after {
                Afterwards::Listen if result.is_ok() => {
                    drop(runtime.spawn_blocking(move || exchange.listen()));
                }
                Afterwards::Cancel(request) => exchange.cancel(&request),
                Afterwards::Listen | Afterwards::Nothing => {}
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<ServerMessage> {
        let message = self.incoming.recv().await?;
        self.note_version(&message);
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.incoming.close();
        let exchange = self.exchange.clone();
        // A task that failed has closed nothing, but its requests end with the runtime.
        drop(self.runtime.spawn_blocking(move || exchange.close()).await);
        Ok(())
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        self.incoming.close();
        let exchange = self.exchange.clone();
        drop(self.runtime.spawn_blocking(move || exchange.close()));
    }
}

/// What follows when a message was sent.
enum Afterwards {
    Nothing,
    /// The session has begun.
    Listen,
    /// The answer to a request is not wanted any more.
    Cancel(RequestId),
}

impl Afterwards {
    fn of(item: &TxJsonRpcMessage<RoleClient>) -> Self {
        let JsonRpcMessage::Notification(notification) = item else { return Self::Nothing };
        let notification = &notification.notification;
        if let ClientNotification::CancelledNotification(cancelled) = notification {
            return cancelled.params.request_id.clone().map_or(Self::Nothing, Self::Cancel);
        }
        let is_initialized = matches!(notification, ClientNotification::InitializedNotification(_));
        if is_initialized { Self::Listen } else { Self::Nothing }
    }
}
