//! Runs the server, and ends it whatever it is doing.
//!
//! The server has a thread of its own, so that this one always hears a signal: a request that never ends
//! cannot keep the program running. What is cut off is what a crash would cut off, and is recovered the
//! same way; commands are ended by their supervisors, which notice that their owner is gone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::sync::oneshot;
use turnstone_engine::Engine;
use turnstone_process::end_git_commands;
use turnstone_server::{HttpServer, ServeError, ServerSettings};

use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// How long threads that still wait for disk or locks may take after the last request.
const BLOCKING_THREAD_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the server may take to end in all; the grace for open requests is within it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// What the main thread waits for.
enum ServerThreadEvent {
    /// The server listens.
    Ready(SocketAddr, Option<PathBuf>),
    /// The server has ended, or could not begin.
    Ended(Result<(), CliError>),
    /// The program is asked to end.
    Signal(i32),
}

/// Serves until a signal asks for the end.
///
/// # Errors
///
/// The address cannot be listened on.
pub(super) fn serve_until_signal(
    ui: &mut Ui,
    engine: Arc<Engine>,
    settings: ServerSettings,
) -> Result<ProgramExit, CliError> {
    let (tell, events) = mpsc::channel();
    forward_signals(tell.clone())?;
    let (stop, stopped) = oneshot::channel();
    spawn_thread("turnstone-server", move || {
        let ended = run_server(engine, settings, &tell, stopped);
        tell.send(ServerThreadEvent::Ended(ended)).ok();
    })?;
    let mut failed = None;
    loop {
        match events.recv() {
            Ok(ServerThreadEvent::Ready(address, socket)) => {
                match print_ready_line(ui, address, socket) {
                    Ok(()) => {}
                    Err(error) => {
                        failed = Some(error);
                        break;
                    }
                }
            }
            Ok(ServerThreadEvent::Ended(ended)) => return ended.map(|()| ProgramExit::Ok),
            Ok(ServerThreadEvent::Signal(_)) => break,
            Err(_) => return Err(thread_died_error()),
        }
    }
    // The server is gone already if nobody hears this.
    stop.send(()).ok();
    let exit = wait_for_shutdown(ui, &events);
    // Also where the server did not end in time: git would go on without it.
    end_git_commands();
    let exit = exit?;
    failed.map_or(Ok(exit), Err)
}

/// Waits for the end of a server that was asked to end, but not longer than promised.
fn wait_for_shutdown(
    ui: &mut Ui,
    events: &mpsc::Receiver<ServerThreadEvent>,
) -> Result<ProgramExit, CliError> {
    loop {
        match events.recv_timeout(SHUTDOWN_TIMEOUT) {
            Ok(ServerThreadEvent::Ended(ended)) => {
                ended?;
                ui.print_note("turnstone: stopped");
                return Ok(ProgramExit::Ok);
            }
            // A second signal: at once, as if nobody had listened to it.
            Ok(ServerThreadEvent::Signal(signal)) => {
                return Ok(ProgramExit::CommandCode(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
            }
            Ok(ServerThreadEvent::Ready(..)) => {}
            Err(RecvTimeoutError::Timeout) => {
                ui.print_note("turnstone: stopped; work that did not end in time was cut off");
                return Ok(ProgramExit::Ok);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(thread_died_error()),
        }
    }
}

/// The server in its runtime, from the sockets to the end.
fn run_server(
    engine: Arc<Engine>,
    settings: ServerSettings,
    tell: &Sender<ServerThreadEvent>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("turnstone-serve")
        .build()
        .map_err(|source| CliError::File { what: "cannot start the server".to_owned(), source })?;
    let served = runtime.block_on(async {
        let server =
            HttpServer::bind(engine, settings).await.map_err(|error| serve_error(&error))?;
        let socket = server.socket().map(ToOwned::to_owned);
        tell.send(ServerThreadEvent::Ready(server.address(), socket)).ok();
        let stop = async {
            stopped.await.ok();
        };
        server.run(stop).await.map_err(|error| serve_error(&error))
    });
    // Requests have had their grace; their threads would wait for git until its limits end it.
    end_git_commands();
    // Dropping a runtime waits for its blocking threads, however long those take.
    runtime.shutdown_timeout(BLOCKING_THREAD_TIMEOUT);
    served
}

/// Says where the server is: to programs in one line on stdout, to people on stderr.
fn print_ready_line(
    ui: &mut Ui,
    address: SocketAddr,
    socket: Option<PathBuf>,
) -> Result<(), CliError> {
    let url = format!("http://{address}");
    if ui.wants_json() {
        let socket = socket.map(|path| path.to_string_lossy().into_owned());
        let (port, pid) = (address.port(), std::process::id());
        let line = json!({ "url": url, "port": port, "pid": pid, "socket": socket });
        ui.print_line(&line.to_string())?;
        ui.flush()?;
    }
    ui.print_note(&format!("turnstone: listening on {url}"));
    Ok(())
}

/// Passes each signal on that asks for the end.
fn forward_signals(tell: Sender<ServerThreadEvent>) -> Result<(), CliError> {
    let failed = |source| CliError::File { what: "cannot hear signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    spawn_thread("turnstone-stop", move || {
        for signal in signals.forever() {
            if tell.send(ServerThreadEvent::Signal(signal)).is_err() {
                return;
            }
        }
    })
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    let what = "cannot start a thread".to_owned();
    spawned.map(drop).map_err(|source| CliError::File { what, source })
}

fn thread_died_error() -> CliError {
    let source = std::io::Error::other("its thread has ended");
    CliError::File { what: "the server failed".to_owned(), source }
}

fn serve_error(error: &ServeError) -> CliError {
    let hint = match error {
        ServeError::Unprotected(_) => {
            "set a password (--password-file or TURNSTONE_SERVER_PASSWORD), or leave --hostname out"
        }
        ServeError::PeersUnknown(_) => {
            "set a password: --password-file PATH, or TURNSTONE_SERVER_PASSWORD"
        }
        ServeError::Listen { .. } => "is another server running? --port 0 takes a free port",
        ServeError::Socket(_) => "--socket PATH names another place, --no-socket does without",
        ServeError::Io(_) => "look at the lines above",
    };
    let mut what = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        what = format!("{what}: {inner}");
        cause = inner.source();
    }
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}
