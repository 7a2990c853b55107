//! The tools of all servers that a directory has, and what people are shown of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use turnstone_mcp::{
    ServerTool, ToolServer, ToolServerError, ToolServerPool, ToolServerPoolSettings,
    ToolServerStatus,
};

use super::mcp_tool::McpTool;
use super::server_configuration::{McpPlace, describe_program, list_servers};
use super::tool_names::assign_tool_names;
use super::tool_pins::{PinState, ToolPin, ToolPinError, ToolPins};
use crate::tool::Tool;

/// How long a step waits for servers that are being connected; one that is slower joins a later step.
const STEP_WAIT: Duration = Duration::from_secs(15);

/// The servers of this process and the record of their tools. Clones share both.
#[derive(Clone)]
pub struct McpToolSet {
    pool: ToolServerPool,
    pins: ToolPins,
}

/// Whether a server can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum McpState {
    /// It is connected, or would be when it is needed.
    Connected,
    /// It is switched off.
    Disabled,
    /// It cannot be used.
    Failed,
    /// It wants an authorization.
    NeedsAuth,
}

/// A server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerReport {
    /// Its name.
    pub name: String,
    /// Whether it can be used.
    pub state: McpState,
    /// Why it cannot.
    pub error: Option<String>,
    /// Its tools.
    pub tools: Vec<McpToolReport>,
    /// Tools that it lists and that cannot be used.
    pub omitted: usize,
}

/// A tool of a server, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpToolReport {
    /// The name that models and rules use; none if another tool would have the same.
    pub name: Option<String>,
    /// Its name at the server.
    pub original: String,
    /// The server says that it changes nothing.
    pub is_read_only: bool,
    /// The hash of its definition.
    pub hash: String,
    /// True if it was allowed as it is now.
    pub is_pinned: bool,
    /// What has changed since it was allowed.
    pub changed: Vec<&'static str>,
}

/// A tool and its server.
struct OfferedTool {
    server: ToolServer,
    tool: ServerTool,
    pin: ToolPin,
}

impl McpToolSet {
    /// Returns a set without servers; nothing is started before it is needed.
    #[must_use]
    pub fn new(settings: ToolServerPoolSettings, data: &Path) -> Self {
        Self { pool: ToolServerPool::new(settings), pins: ToolPins::new(data) }
    }

    /// Returns the tools of a directory. Connects its servers if they are not, and waits a little for them; the tools of a
    /// server that has failed stay until it is back.
    #[must_use]
    pub fn tools(&self, place: &McpPlace<'_>) -> Vec<Arc<dyn Tool>> {
        let offered = list_tools(&self.connect(place, STEP_WAIT));
        let names = name_tools(&offered);
        let tool = |(OfferedTool { server, tool, pin }, name): (OfferedTool, Option<String>)| {
            let pins = self.pins.clone();
            let tool: Arc<dyn Tool> = Arc::new(McpTool { name: name?, server, tool, pin, pins });
            Some(tool)
        };
        offered.into_iter().zip(names).filter_map(tool).collect()
    }

    /// Returns what the servers of a directory want models to know, each with its source. Connects none.
    #[must_use]
    pub fn instructions(&self, place: &McpPlace<'_>) -> Vec<(String, String)> {
        let servers = self.pool.select(place.directory, &list_servers(place));
        let text = |server: &ToolServer| {
            let source = format!("the tool server {}, about its tools", server.name());
            Some((source, server.instructions()?))
        };
        servers.iter().filter_map(text).collect()
    }

    /// Connects the servers of a directory and describes them.
    ///
    /// # Errors
    ///
    /// The record of allowed tools cannot be read.
    pub fn report(
        &self,
        place: &McpPlace<'_>,
        limit: Duration,
    ) -> Result<Vec<McpServerReport>, ToolPinError> {
        let servers = self.connect(place, limit);
        let offered = list_tools(&servers);
        let names = name_tools(&offered);
        let mut reports: Vec<McpServerReport> = servers.iter().map(report_server).collect();
        for (one, name) in offered.iter().zip(names) {
            let state = self.pins.check(&one.pin)?;
            let of_server = reports.iter_mut().find(|it| it.name == one.server.name());
            of_server
                .into_iter()
                .for_each(|it| it.tools.push(report_tool(one, name.clone(), &state)));
        }
        Ok(reports)
    }

    /// Ends all servers.
    pub fn close(&self) {
        self.pool.close();
    }

    fn connect(&self, place: &McpPlace<'_>, limit: Duration) -> Vec<ToolServer> {
        let servers = self.pool.select(place.directory, &list_servers(place));
        ToolServerPool::connect(&servers, limit);
        servers
    }
}

fn list_tools(servers: &[ToolServer]) -> Vec<OfferedTool> {
    let mut offered = Vec::new();
    for server in servers.iter().filter(|it| it.settings().is_enabled) {
        let program = describe_program(server.settings());
        for tool in server.tools().iter() {
            let pin = ToolPin::new(server.name(), &program, tool);
            offered.push(OfferedTool { server: server.clone(), tool: tool.clone(), pin });
        }
    }
    offered
}

fn name_tools(offered: &[OfferedTool]) -> Vec<Option<String>> {
    let tools: Vec<_> =
        offered.iter().map(|it| (it.server.name(), it.tool.name.as_str())).collect();
    assign_tool_names(&tools)
}

fn report_server(server: &ToolServer) -> McpServerReport {
    let (state, error) = match server.status() {
        ToolServerStatus::Connected | ToolServerStatus::Idle => (McpState::Connected, None),
        ToolServerStatus::Disabled => (McpState::Disabled, None),
        ToolServerStatus::Starting => (McpState::Failed, Some("it is still starting".to_owned())),
        ToolServerStatus::Failed(error @ ToolServerError::NeedsAuthorization) => {
            (McpState::NeedsAuth, Some(error.to_string()))
        }
        ToolServerStatus::Failed(error) => (McpState::Failed, Some(error.to_string())),
    };
    McpServerReport {
        name: server.name().to_owned(),
        state,
        error,
        tools: Vec::new(),
        omitted: server.omitted_tools(),
    }
}

fn report_tool(offered: &OfferedTool, name: Option<String>, state: &PinState) -> McpToolReport {
    McpToolReport {
        name,
        original: offered.tool.name.clone(),
        is_read_only: offered.tool.is_read_only,
        hash: offered.pin.hash(),
        is_pinned: *state == PinState::Known,
        changed: match state {
            PinState::Changed(what) => what.clone(),
            PinState::Known | PinState::New => Vec::new(),
        },
    }
}
