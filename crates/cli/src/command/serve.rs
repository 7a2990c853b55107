//! `turnstone serve`

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use turnstone_server::{Credentials, Folders, Limits, ServeError, Server, Settings};

use crate::app::App;
use crate::clock;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// The name OpenCode's clients use when none is told.
const USER: &str = "opencode";

/// Answer OpenCode's own clients, and native ones, over HTTP
///
/// One server is enough for all directories: `opencode attach http://127.0.0.1:4096` and the SDK work
/// unmodified. Only this machine can reach it unless --hostname says otherwise, which needs a password in
/// TURNSTONE_SERVER_PASSWORD (or OPENCODE_SERVER_PASSWORD). Ends with SIGINT or SIGTERM.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turnstone serve\n  turnstone serve --port 0 --json")]
pub(crate) struct ServeArgs {
    /// The port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 4096)]
    port: u16,

    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    hostname: String,

    /// Let pages of this origin ask, too; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<String>,

    /// Say on stderr what is asked and answered
    #[arg(long)]
    pub(crate) print_logs: bool,
}

/// Serves until it is told to stop.
///
/// # Errors
///
/// The address cannot be listened on, or the data cannot be opened.
pub(crate) fn run(ui: &mut Ui, app: &App, args: &ServeArgs) -> Result<Exit, CliError> {
    let engine = Arc::new(app.engine()?);
    let settings = settings(app, args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("turnstone-serve")
        .build()
        .map_err(|source| CliError::File { what: "cannot start the server".to_owned(), source })?;
    runtime.block_on(async {
        let server = Server::bind(engine, settings).await.map_err(|error| refused(&error))?;
        let stop = stop()?;
        tell_ready(ui, server.address())?;
        server.run(stop).await.map_err(|error| refused(&error))
    })?;
    ui.note("turnstone: stopped");
    Ok(Exit::Ok)
}

/// Says where the server is: to programs in one line on stdout, to people on stderr.
fn tell_ready(ui: &mut Ui, address: SocketAddr) -> Result<(), CliError> {
    let url = format!("http://{address}");
    if ui.wants_json() {
        let line = json!({ "url": url, "port": address.port(), "pid": std::process::id() });
        ui.line(&line.to_string())?;
        ui.finish()?;
    }
    ui.note(&format!("turnstone: listening on {url}"));
    Ok(())
}

/// Done when somebody wants the program to end.
fn stop() -> Result<impl Future<Output = ()> + Send + 'static, CliError> {
    let failed = |source| CliError::File { what: "cannot hear signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let (told, hears) = tokio::sync::oneshot::channel::<()>();
    let wait = move || {
        if signals.forever().next().is_some() {
            told.send(()).ok();
        }
    };
    std::thread::Builder::new().name("turnstone-stop".to_owned()).spawn(wait).map_err(failed)?;
    Ok(async move {
        hears.await.ok();
    })
}

fn settings(app: &App, args: &ServeArgs) -> Result<Settings, CliError> {
    let host = if args.hostname == "localhost" { "127.0.0.1" } else { &args.hostname };
    let ip: IpAddr = host.parse().map_err(|_| CliError::Refused {
        what: format!("{} is not an address", args.hostname),
        hint: Some("give a number such as 127.0.0.1 or ::1".to_owned()),
    })?;
    let named = |ours: &str, theirs: &str| {
        app.variable(ours).or_else(|| app.variable(theirs)).map(str::to_owned)
    };
    let password = named("TURNSTONE_SERVER_PASSWORD", "OPENCODE_SERVER_PASSWORD");
    let user = named("TURNSTONE_SERVER_USERNAME", "OPENCODE_SERVER_USERNAME");
    let user = user.unwrap_or_else(|| USER.to_owned());
    for origin in &args.cors {
        check_origin(origin)?;
    }
    let home = app.git().home.clone().unwrap_or_else(|| PathBuf::from("/"));
    let config = app.git().config.clone().unwrap_or_else(|| home.join(".config"));
    Ok(Settings {
        listen: SocketAddr::new(ip, args.port),
        directory: app.directory()?.to_owned(),
        actor: app.actor().clone(),
        credentials: password.map(|password| Credentials { user, password }),
        origins: args.cors.clone(),
        folders: Folders { home, config, data: app.layout().root().to_owned() },
        variables: app.variables().to_vec(),
        program: app.program()?.to_owned(),
        limits: Limits::default(),
        clock: clock::now,
    })
}

/// A browser says `https://name:port` and nothing behind it: anything else would never fit.
fn check_origin(origin: &str) -> Result<(), CliError> {
    let is_name = |name: &str| !name.is_empty() && !name.contains(['/', '*', '@', '?', '#', ' ']);
    let (scheme, name) = origin.split_once("://").unwrap_or_default();
    if is_name(scheme) && is_name(name) && !origin.chars().any(char::is_uppercase) {
        return Ok(());
    }
    Err(CliError::Refused {
        what: format!("{origin} is not an origin"),
        hint: Some("give scheme and name as a browser does: https://app.example".to_owned()),
    })
}

fn refused(error: &ServeError) -> CliError {
    let hint = match error {
        ServeError::Unprotected(_) => "set TURNSTONE_SERVER_PASSWORD, or leave --hostname out",
        ServeError::Listen { .. } => "is another server running? --port 0 takes a free port",
        ServeError::Io(_) => "look at the lines above",
    };
    let mut what = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        what = format!("{what}: {cause}");
    }
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}
