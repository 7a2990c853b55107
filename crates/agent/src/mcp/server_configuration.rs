//! The servers that a configuration names, as they are started.

use std::path::Path;
use std::time::Duration;

use turnstone_config::{Configuration, McpServer, McpTransport};
use turnstone_mcp::{ToolServerSettings, ToolServerTransport};

use crate::tool::{CommandSettings, command_environment};

/// How long a server may take until its tools are known, and a call without progress.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Where servers are wanted, and by which configuration.
#[derive(Clone, Copy)]
pub struct McpPlace<'p> {
    /// The configuration. What of a project is not trusted is not in it.
    pub configuration: &'p Configuration,
    /// The directory of the session.
    pub directory: &'p Path,
    /// The root of its project: servers run there.
    pub root: &'p Path,
    /// How programs are started, and what they do not get.
    pub commands: &'p CommandSettings,
}

/// Returns the servers that a configuration names.
pub(super) fn list_servers(place: &McpPlace<'_>) -> Vec<ToolServerSettings> {
    let settings = place.configuration.settings();
    let call_timeout = settings.mcp_timeout.unwrap_or(CALL_TIMEOUT);
    let server = |server: &McpServer| ToolServerSettings {
        name: server.name.clone(),
        is_enabled: server.is_enabled,
        transport: transport_of(place, &server.transport),
        start_timeout: server.timeout.unwrap_or(START_TIMEOUT),
        call_timeout: server.timeout.unwrap_or(call_timeout),
    };
    settings.mcp.iter().map(server).collect()
}

fn transport_of(place: &McpPlace<'_>, transport: &McpTransport) -> ToolServerTransport {
    match transport {
        McpTransport::Local { command, directory, environment } => {
            let mut words = command.iter().map(Into::into);
            // The variables of this program without keys, and then those that are meant for the server.
            let CommandSettings { variables, secrets, .. } = place.commands;
            let mut variables = command_environment(variables, secrets);
            let own = environment.iter();
            variables.extend(own.map(|(name, value)| (name.into(), value.expose().into())));
            ToolServerTransport::Local {
                program: words.next().unwrap_or_default(),
                args: words.collect(),
                directory: place.root.join(directory.as_deref().unwrap_or_default()),
                environment: variables,
            }
        }
        McpTransport::Remote { url, headers } => {
            let header = |(name, value): &(String, turnstone_config::Secret)| {
                (name.clone(), value.expose().to_owned())
            };
            ToolServerTransport::Remote {
                url: url.clone(),
                headers: headers.iter().map(header).collect(),
            }
        }
    }
}

/// Says what runs the tools of a server, without what may be secret in an address.
pub(super) fn describe_program(settings: &ToolServerSettings) -> String {
    match &settings.transport {
        ToolServerTransport::Local { program, args, .. } => {
            let words = std::iter::once(program).chain(args);
            let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
            words.join("\0")
        }
        ToolServerTransport::Remote { url, .. } => {
            let plain = url.split(['?', '#']).next().unwrap_or_default();
            let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
            let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}/{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_no_secrets() {
        let settings = ToolServerSettings {
            name: "s".to_owned(),
            is_enabled: true,
            transport: ToolServerTransport::Remote {
                url: "https://ada:hunter2@h:1/mcp?key=hunter2#x".to_owned(),
                headers: Vec::new(),
            },
            start_timeout: START_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
        };
        assert_eq!(describe_program(&settings), "https://h:1/mcp");
    }
}
