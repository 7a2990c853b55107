//! How a server is set up: everything it may know of its surroundings.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use turnstone_core::time::EpochMillis;
use turnstone_store::Actor;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The directory of requests that name none.
    pub directory: PathBuf,
    /// Who asks, unless the request says otherwise.
    pub actor: Actor,
    /// Where the Unix socket is.
    pub socket: SocketSetting,
    /// What a client of the port must know; `None`: only processes of this server's own user may connect.
    pub credentials: Option<Credentials>,
    /// Further origins whose pages may ask.
    pub origins: Vec<String>,
    /// The folders that `/path` returns.
    pub folders: ClientFolders,
    /// What a command inherits.
    pub variables: Vec<(OsString, OsString)>,
    /// This program, started again to watch over a command.
    pub program: PathBuf,
    /// Whether commands are traced, so that their changes can be distinguished from those of others.
    pub traces_commands: bool,
    /// How much a request may ask for.
    pub limits: RequestLimits,
    /// The present moment.
    pub clock: fn() -> EpochMillis,
}

/// Whether the server listens on a Unix socket, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SocketSetting {
    /// In `socket/` of the data directory; the server runs without one where that is impossible.
    #[default]
    InDataDirectory,
    /// There, or the server does not start.
    At(PathBuf),
    /// On no Unix socket.
    Off,
}

/// The folders that `/path` returns.
#[derive(Clone, Debug, Default)]
pub struct ClientFolders {
    /// The home directory.
    pub home: PathBuf,
    /// Where the configuration is.
    pub config: PathBuf,
    /// Where the data is.
    pub data: PathBuf,
}

/// The variables that may hold the password of a server: no command inherits them.
pub const PASSWORD_VARIABLES: [&str; 2] = ["TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD"];

/// A name and a password; never shown.
#[derive(Clone)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How much a request may ask for.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// The largest body, in bytes.
    pub body: usize,
    /// How deep a body may be nested.
    pub depth: usize,
    /// How many values a body may hold.
    pub values: usize,
    /// How long the head of a request may take to arrive, in seconds; also how long a connection is kept
    /// on which nothing is asked.
    pub head_timeout_secs: u64,
    /// How long a request's body may take to arrive, in seconds.
    pub body_timeout_secs: u64,
    /// How long a client may take nothing of what it is sent, in seconds.
    pub write_timeout_secs: u64,
    /// Requests a second of one peer; a burst may be ten times that.
    pub rate: u32,
    /// Event streams of one peer at a time.
    pub streams: usize,
    /// Terminals that run at a time.
    pub terminals: usize,
    /// Files that turns may lock at a time; fewer if the limit on open files leaves no room for them.
    pub file_locks: usize,
    /// Requests that may wait for files that are locked.
    pub file_waiting: usize,
    /// How long a request waits for a file, in milliseconds.
    pub file_wait_ms: u64,
    /// Bytes of files that are read and not yet collected.
    pub file_read_bytes: usize,
    /// Connections at a time; fewer if the limit on open files leaves no room for them.
    pub connections: usize,
    /// How long a program that drives a turn may be silent, in milliseconds.
    pub driver_timeout_ms: u64,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            body: 32 << 20,
            depth: 64,
            values: 500_000,
            head_timeout_secs: 60,
            body_timeout_secs: 30,
            write_timeout_secs: 60,
            rate: 2_000,
            streams: 4_096,
            terminals: 64,
            file_locks: 512,
            file_waiting: 64,
            file_wait_ms: 30_000,
            file_read_bytes: 256 << 20,
            connections: 8_192,
            driver_timeout_ms: 90_000,
        }
    }
}
