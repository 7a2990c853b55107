//! Runs the server in a thread and stops it within a time limit.
//!
//! The server has its own thread, so that the main thread always handles signals: a request that never ends
//! cannot keep the program running. Interrupted work is recovered as after a crash; commands are ended by
//! their supervisors, which notice that their owner is gone.

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

use super::served_agent::AgentSetup;
use crate::error::CliError;
use crate::exit_code::ProgramExit;
use crate::ui::Ui;

/// Time for blocked threads to end after the last request.
const BLOCKING_THREAD_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for the whole shutdown, including the grace period for open requests.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Events for the main thread.
enum ServerThreadEvent {
    /// The server listens.
    Ready(SocketAddr, Option<PathBuf>),
    /// The server has ended or failed to start.
    Ended(Result<(), CliError>),
    /// A signal to stop.
    Signal(i32),
}

/// Serves until a signal stops it.
///
/// # Errors
///
/// The address cannot be listened on.
pub(super) fn serve_until_signal(
    ui: &mut Ui,
    engine: Arc<Engine>,
    settings: ServerSettings,
    agent: Option<AgentSetup>,
) -> Result<ProgramExit, CliError> {
    let (sender, events) = mpsc::channel();
    forward_signals(sender.clone())?;
    let (stop, stopped) = oneshot::channel();
    spawn_thread("turnstone-server", move || {
        let ended = run_server(engine, (settings, agent), &sender, stopped);
        sender.send(ServerThreadEvent::Ended(ended)).ok();
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
    // Fails only if the server has already ended.
    stop.send(()).ok();
    let exit = wait_for_shutdown(ui, &events);
    // Also after a timeout: git commands would keep running.
    end_git_commands();
    let exit = exit?;
    failed.map_or(Ok(exit), Err)
}

/// Waits for the server to stop, up to the time limit.
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
            // A second signal stops at once.
            Ok(ServerThreadEvent::Signal(signal)) => {
                return Ok(ProgramExit::CommandCode(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
            }
            Ok(ServerThreadEvent::Ready(..)) => {}
            Err(RecvTimeoutError::Timeout) => {
                ui.print_note("turnstone: stopped; unfinished requests were interrupted");
                return Ok(ProgramExit::Ok);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(thread_died_error()),
        }
    }
}

/// Runs the server in its own runtime.
fn run_server(
    engine: Arc<Engine>,
    (settings, agent): (ServerSettings, Option<AgentSetup>),
    events: &Sender<ServerThreadEvent>,
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
        if let Some(agent) = agent {
            server.attach_runner(|host| agent.into_runner(host));
        }
        let socket = server.socket().map(ToOwned::to_owned);
        events.send(ServerThreadEvent::Ready(server.address(), socket)).ok();
        let stop = async {
            stopped.await.ok();
        };
        server.run(stop).await.map_err(|error| serve_error(&error))
    });
    // The grace period is over; blocked threads would wait for git until its own timeout.
    end_git_commands();
    // Dropping a runtime waits for its blocking threads without a limit.
    runtime.shutdown_timeout(BLOCKING_THREAD_TIMEOUT);
    served
}

/// Prints the address: as JSON on stdout for programs, as text on stderr for people.
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

/// Forwards stop signals to the main thread.
fn forward_signals(events: Sender<ServerThreadEvent>) -> Result<(), CliError> {
    let failed = |source| CliError::File { what: "cannot handle signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    spawn_thread("turnstone-stop", move || {
        for signal in signals.forever() {
            if events.send(ServerThreadEvent::Signal(signal)).is_err() {
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
    let source = std::io::Error::other("its thread ended unexpectedly");
    CliError::File { what: "the server failed".to_owned(), source }
}

fn serve_error(error: &ServeError) -> CliError {
    let hint = match error {
        ServeError::Unprotected(_) => {
            "set a password (--password-file or TURNSTONE_SERVER_PASSWORD), or omit --hostname"
        }
        ServeError::PeersUnknown(_) => {
            "set a password: --password-file PATH, or TURNSTONE_SERVER_PASSWORD"
        }
        ServeError::Listen { .. } => {
            "another server may be using this port; `--port 0` picks a free port"
        }
        ServeError::Socket(_) => "choose another path with `--socket PATH`, or use `--no-socket`",
        ServeError::Io(_) => "see the messages above",
    };
    let mut what = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        what = format!("{what}: {inner}");
        cause = inner.source();
    }
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}
