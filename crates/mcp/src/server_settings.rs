//! What a server of tools is, and how it is reached.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A server of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolServerSettings {
    /// Its name.
    pub name: String,
    /// Whether it is used.
    pub is_enabled: bool,
    /// How it is reached.
    pub transport: ToolServerTransport,
    /// How long it may take until its tools are known.
    pub start_timeout: Duration,
    /// How long a call may take without progress.
    pub call_timeout: Duration,
}

/// How a server of tools is reached. Variables and headers may be secrets: `Debug` shows their names only.
#[derive(Clone, PartialEq, Eq)]
pub enum ToolServerTransport {
    /// A program of this machine, spoken to through its standard input and output.
    Local {
        /// The program.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// Where it runs.
        directory: PathBuf,
        /// All variables that it gets.
        environment: Vec<(OsString, OsString)>,
    },
    /// A server that speaks streamable HTTP.
    Remote {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, String)>,
    },
}

impl fmt::Debug for ToolServerTransport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { program, directory, environment, .. } => {
                let names: Vec<&OsString> = environment.iter().map(|(name, _)| name).collect();
                out.debug_struct("Local")
                    .field("program", program)
                    .field("directory", directory)
                    .field("environment", &names)
                    .finish_non_exhaustive()
            }
            Self::Remote { headers, .. } => {
                let names: Vec<&String> = headers.iter().map(|(name, _)| name).collect();
                out.debug_struct("Remote").field("headers", &names).finish_non_exhaustive()
            }
        }
    }
}
