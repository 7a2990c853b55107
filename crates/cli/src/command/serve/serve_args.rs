//! Arguments of `turnstone serve` and the server settings built from them.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use turnstone_server::{ClientFolders, Credentials, RequestLimits, ServerSettings, SocketSetting};

use super::password;
use super::served_agent::AgentSetup;
use super::server_thread::serve_until_signal;
use crate::app::CliApp;
use crate::clock;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Default user name of OpenCode's clients.
const DEFAULT_USERNAME: &str = "opencode";

/// Serve the HTTP API for OpenCode clients and native clients
///
/// One server is enough for all directories. `opencode attach http://127.0.0.1:4096` and the SDK work
/// unmodified: the server runs the agent itself, with the models and rules of your configuration. `turnstone
/// auth set` stores a key for a provider, `turnstone models` lists the models. Without a password the server answers only processes of the same user on this machine.
/// Other users, and other machines with --hostname, need a password: set it with --password-file,
/// --password-stdin, or the variable TURNSTONE_SERVER_PASSWORD (or OPENCODE_SERVER_PASSWORD). Programs of
/// the same user can also connect to the Unix socket, without a password. SIGINT or SIGTERM stops the
/// server within seconds; a second signal stops it at once.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone serve\n  turnstone serve --port 0 --json")]
pub(crate) struct ServeArgs {
    /// Port to listen on; 0 picks a free port
    #[arg(long, value_name = "PORT", default_value_t = 4096)]
    port: u16,

    /// IP address to listen on; addresses other than loopback need a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    hostname: String,

    /// Read the password from this file; only its owner may have access to it
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(super) password_file: Option<PathBuf>,

    /// Read the password from standard input until end of file
    #[arg(long, conflicts_with = "password_file")]
    pub(super) password_stdin: bool,

    /// Listen on a Unix socket at this path [default: socket/server.sock in the data directory]
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    socket: Option<PathBuf>,

    /// Do not listen on a Unix socket
    #[arg(long, conflicts_with = "socket")]
    no_socket: bool,

    /// Allow this CORS origin; can be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,

    /// Run no agent: prompts wait for an external runner (the setting `serve.agent` does the same)
    #[arg(long)]
    no_agent: bool,

    /// Log requests and responses to stderr
    #[arg(long)]
    pub(crate) print_logs: bool,
}

/// Serves until a signal stops it.
///
/// # Errors
///
/// The address cannot be listened on, or the data cannot be opened.
pub(crate) fn run(ui: &mut Ui, app: &CliApp, args: &ServeArgs) -> Result<ProgramExit, CliError> {
    // First, because it may execute the program again without the password in its environment.
    let password = password::read_password(app, args)?;
    let engine = Arc::new(app.open_engine()?);
    let settings = build_settings(app, args, password)?;
    let runs_agent = !args.no_agent && app.read_config()?.serve.agent;
    let agent = runs_agent.then(|| AgentSetup::new(app, &engine)).transpose()?;
    serve_until_signal(ui, engine, settings, agent)
}

fn build_settings(
    app: &CliApp,
    args: &ServeArgs,
    password: Option<String>,
) -> Result<ServerSettings, CliError> {
    let host = if args.hostname == "localhost" { "127.0.0.1" } else { &args.hostname };
    let ip: IpAddr = host.parse().map_err(|_| CliError::Refused {
        what: format!("{} is not an IP address", args.hostname),
        hint: Some("use an address such as 127.0.0.1 or ::1".to_owned()),
    })?;
    let named = |ours: &str, theirs: &str| {
        app.environment_variable(ours)
            .or_else(|| app.environment_variable(theirs))
            .map(str::to_owned)
    };
    let user = named("TURNSTONE_SERVER_USERNAME", "OPENCODE_SERVER_USERNAME");
    let user = user.unwrap_or_else(|| DEFAULT_USERNAME.to_owned());
    for origin in &args.cors {
        validate_origin(origin)?;
    }
    let socket = match &args.socket {
        Some(path) => SocketSetting::At(app.directory()?.join(path)),
        None if args.no_socket => SocketSetting::Off,
        None => SocketSetting::InDataDirectory,
    };
    let home = app.user_git_config().home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let config = app.user_git_config().config.clone().unwrap_or_else(|| home.join(".config"));
    Ok(ServerSettings {
        listen: SocketAddr::new(ip, args.port),
        directory: app.directory()?.to_owned(),
        actor: app.actor().clone(),
        socket,
        credentials: password.map(|password| Credentials { user, password }),
        origins: args.cors.clone(),
        folders: ClientFolders { home, config, data: app.layout().root().to_owned() },
        variables: app.environment_variables().to_vec(),
        program: app.executable_path()?.to_owned(),
        traces_commands: app.read_config()?.exec.trace,
        limits: RequestLimits::default(),
        clock: clock::now,
    })
}

/// Browsers send `scheme://host:port` without a path; other values would never match.
fn validate_origin(origin: &str) -> Result<(), CliError> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '*', '@', '?', '#', ' ']);
    let (scheme, name) = origin.split_once("://").unwrap_or_default();
    if is_name(scheme) && is_name(name) && !origin.chars().any(char::is_uppercase) {
        return Ok(());
    }
    Err(CliError::Refused {
        what: format!("{origin} is not a CORS origin"),
        hint: Some(
            "use scheme, host and port, as in https://app.example or http://localhost:3000"
                .to_owned(),
        ),
    })
}
