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
use turnstone_server::{ServeError, Server, Settings};

use crate::error::CliError;
use crate::exit::Exit;
use crate::ui::Ui;

/// How long threads that still wait for disk or locks may take after the last request.
const BLOCKING: Duration = Duration::from_millis(500);
/// How long the server may take to end in all; the grace for open requests is within it.
const ENDING: Duration = Duration::from_secs(5);

/// What the main thread waits for.
enum Event {
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
pub(super) fn serve(
    ui: &mut Ui,
    engine: Arc<Engine>,
    settings: Settings,
) -> Result<Exit, CliError> {
    let (tell, events) = mpsc::channel();
    listen_to_signals(tell.clone())?;
    let (stop, stopped) = oneshot::channel();
    spawn("turnstone-server", move || {
        let ended = run_server(engine, settings, &tell, stopped);
        tell.send(Event::Ended(ended)).ok();
    })?;
    let mut failed = None;
    loop {
        match events.recv() {
            Ok(Event::Ready(address, socket)) => match tell_ready(ui, address, socket) {
                Ok(()) => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            },
            Ok(Event::Ended(ended)) => return ended.map(|()| Exit::Ok),
            Ok(Event::Signal(_)) => break,
            Err(_) => return Err(died()),
        }
    }
    // The server is gone already if nobody hears this.
    stop.send(()).ok();
    let exit = await_end(ui, &events);
    // Also where the server did not end in time: git would go on without it.
    end_git_commands();
    let exit = exit?;
    failed.map_or(Ok(exit), Err)
}

/// Waits for the end of a server that was asked to end, but not longer than promised.
fn await_end(ui: &mut Ui, events: &mpsc::Receiver<Event>) -> Result<Exit, CliError> {
    loop {
        match events.recv_timeout(ENDING) {
            Ok(Event::Ended(ended)) => {
                ended?;
                ui.note("turnstone: stopped");
                return Ok(Exit::Ok);
            }
            // A second signal: at once, as if nobody had listened to it.
            Ok(Event::Signal(signal)) => {
                return Ok(Exit::Of(u8::try_from(128 + signal).unwrap_or(u8::MAX)));
            }
            Ok(Event::Ready(..)) => {}
            Err(RecvTimeoutError::Timeout) => {
                ui.note("turnstone: stopped; work that did not end in time was cut off");
                return Ok(Exit::Ok);
            }
            Err(RecvTimeoutError::Disconnected) => return Err(died()),
        }
    }
}

/// The server in its runtime, from the sockets to the end.
fn run_server(
    engine: Arc<Engine>,
    settings: Settings,
    tell: &Sender<Event>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .thread_name("turnstone-serve")
        .build()
        .map_err(|source| CliError::File { what: "cannot start the server".to_owned(), source })?;
    let served = runtime.block_on(async {
        let server = Server::bind(engine, settings).await.map_err(|error| refused(&error))?;
        let socket = server.socket().map(ToOwned::to_owned);
        tell.send(Event::Ready(server.address(), socket)).ok();
        let stop = async {
            stopped.await.ok();
        };
        server.run(stop).await.map_err(|error| refused(&error))
    });
    // Requests have had their grace; their threads would wait for git until its limits end it.
    end_git_commands();
    // Dropping a runtime waits for its blocking threads, however long those take.
    runtime.shutdown_timeout(BLOCKING);
    served
}

/// Says where the server is: to programs in one line on stdout, to people on stderr.
fn tell_ready(ui: &mut Ui, address: SocketAddr, socket: Option<PathBuf>) -> Result<(), CliError> {
    let url = format!("http://{address}");
    if ui.wants_json() {
        let socket = socket.map(|path| path.to_string_lossy().into_owned());
        let (port, pid) = (address.port(), std::process::id());
        let line = json!({ "url": url, "port": port, "pid": pid, "socket": socket });
        ui.line(&line.to_string())?;
        ui.finish()?;
    }
    ui.note(&format!("turnstone: listening on {url}"));
    Ok(())
}

/// Passes each signal on that asks for the end.
fn listen_to_signals(tell: Sender<Event>) -> Result<(), CliError> {
    let failed = |source| CliError::File { what: "cannot hear signals".to_owned(), source };
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    spawn("turnstone-stop", move || {
        for signal in signals.forever() {
            if tell.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), CliError> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    let what = "cannot start a thread".to_owned();
    spawned.map(drop).map_err(|source| CliError::File { what, source })
}

fn died() -> CliError {
    let source = std::io::Error::other("its thread has ended");
    CliError::File { what: "the server failed".to_owned(), source }
}

fn refused(error: &ServeError) -> CliError {
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
