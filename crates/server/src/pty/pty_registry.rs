//! All terminals of a server: how many there may be, which directory each belongs to, and their common end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use axum::http::StatusCode;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use turnstone_core::id::{IdClock, PtyId};
use turnstone_core::time::EpochMillis;
use turnstone_process::{CommandSpec, CommandStdio, Pty, RunningCommand, StartError, TerminalSize};

use super::connect_ticket::{ConnectTicket, ConnectTickets};
use super::pty_command::PtyRequest;
use super::pty_terminal::{PtyInfo, PtyPhase, PtyStatus, PtyTerminal, PtyUpdateRequest};
use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;
use crate::random::random_bytes;
use crate::settings::RequestLimits;
use crate::shell_command::supervisor;

/// How many that have ended are kept.
const MAX_EXITED: usize = 64;

/// When a terminal is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PtyLifetime {
    /// When its program ends.
    UntilExit,
    /// When a client removes it.
    UntilRemoved,
}

/// The terminals of a server.
pub(crate) struct PtyRegistry {
    running: Arc<Semaphore>,
    table: Mutex<PtyTable>,
    tickets: ConnectTickets,
}

#[derive(Default)]
struct PtyTable {
    terminals: BTreeMap<PtyId, Arc<PtyTerminal>>,
    threads: Vec<JoinHandle<()>>,
    ids: IdClock,
}

impl PtyRegistry {
    /// Room for `most` terminals that run at a time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            running: Arc::new(Semaphore::new(most)),
            table: Mutex::default(),
            tickets: ConnectTickets::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, PtyTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program in a new terminal.
    pub(crate) fn create(
        app: &AppState,
        place: &ProjectDirectory,
        request: &PtyRequest,
        lifetime: PtyLifetime,
    ) -> Result<PtyInfo, ApiError> {
        let registry = app.terminals();
        let most = app.settings().limits.terminals;
        let slot =
            registry.running.clone().try_acquire_owned().map_err(|_| too_many_terminals(most))?;
        let command = request.to_command(app, place)?;
        let running = start_command(app, &command)?;
        let id = registry.mint_id(app.now())?;
        let info = describe(id.clone(), request, &command, &running);
        let (pty, typed_into) = (clone_pty(&running)?, clone_pty(&running)?);
        let (typist, input) = mpsc::channel(1);
        let owner = (place.directory.as_path(), lifetime);
        let ends = (running.control(), pty, typist);
        let terminal = Arc::new(PtyTerminal::new(info.clone(), owner, ends));
        let typing = terminal.clone();
        spawn_thread("turnstone-pty-in", move || typing.type_input(&typed_into, input))?;
        registry.lock().terminals.insert(id, terminal.clone());
        app.hub().publish(&place.directory, "pty.created", json!({ "info": info }));
        let attached = app.clone();
        let thread = spawn_thread("turnstone-pty", move || {
            run_terminal(&attached, &terminal, running, slot);
        });
        let thread = thread.inspect_err(|_| drop(registry.lock().terminals.remove(&info.id)))?;
        let mut table = registry.lock();
        table.threads.retain(|thread| !thread.is_finished());
        table.threads.push(thread);
        drop(table);
        if registry.running.is_closed() {
            // The server began to stop meanwhile.
            registry.close();
        }
        Ok(info)
    }

    fn mint_id(&self, now: EpochMillis) -> Result<PtyId, ApiError> {
        let random = random_bytes().map_err(|error| ApiError::unexpected(&error))?;
        Ok(PtyId::mint(self.lock().ids.next_timestamp(now), random))
    }

    /// There is no such terminal in the directory.
    pub(crate) fn not_found(id: &PtyId) -> ApiError {
        let message = format!("PTY session not found: {id}");
        ApiError::tagged(StatusCode::NOT_FOUND, "PtyNotFoundError", &message)
            .with_field("ptyID", id.as_str())
    }

    /// The terminals of a directory, oldest first.
    pub(crate) fn list(&self, directory: &Path) -> Vec<Arc<PtyTerminal>> {
        let table = self.lock();
        table.terminals.values().filter(|one| one.directory == directory).cloned().collect()
    }

    /// The terminal of that id in a directory.
    pub(crate) fn get(&self, directory: &Path, id: &PtyId) -> Result<Arc<PtyTerminal>, ApiError> {
        let found = self.lock().terminals.get(id).cloned();
        found.filter(|one| one.directory == directory).ok_or_else(|| Self::not_found(id))
    }

    /// Changes title or size of a terminal.
    pub(crate) fn update(
        app: &AppState,
        terminal: &PtyTerminal,
        change: PtyUpdateRequest,
    ) -> Result<PtyInfo, ApiError> {
        let info = terminal.update(change)?;
        app.hub().publish(&terminal.directory, "pty.updated", json!({ "info": info }));
        Ok(info)
    }

    /// Removes a terminal and ends its program, which may take its grace period.
    pub(crate) fn remove(app: &AppState, terminal: &PtyTerminal) {
        let id = terminal.info().id;
        let removed = app.terminals().lock().terminals.remove(&id);
        if removed.is_some() {
            terminal.end(PtyPhase::Removed);
            app.hub().publish(&terminal.directory, "pty.deleted", json!({ "id": id }));
        }
    }

    /// Removes the terminals of a directory, or all.
    pub(crate) fn remove_all(app: &AppState, directory: Option<&Path>) {
        let all: Vec<_> = app.terminals().lock().terminals.values().cloned().collect();
        let is_meant = |one: &&Arc<PtyTerminal>| directory.is_none_or(|at| one.directory == at);
        all.iter().filter(is_meant).for_each(|terminal| Self::remove(app, terminal));
    }

    /// A ticket for one connection to a terminal.
    pub(crate) fn issue_ticket(
        &self,
        terminal: &PtyTerminal,
        now: EpochMillis,
    ) -> Result<ConnectTicket, ApiError> {
        self.tickets.issue(&terminal.info().id, now)
    }

    /// True if the ticket of a request would be accepted.
    pub(crate) fn is_valid_ticket(
        &self,
        (id, secret): &(String, String),
        now: EpochMillis,
    ) -> bool {
        self.tickets.is_valid(id, secret, now)
    }

    /// Uses the ticket of a request; false if there is none like it.
    pub(crate) fn redeem_ticket(&self, (id, secret): &(String, String), now: EpochMillis) -> bool {
        self.tickets.redeem(id, secret, now)
    }

    /// Begins to end all terminals: the server stops.
    pub(crate) fn close(&self) {
        self.running.close();
        for terminal in self.lock().terminals.values() {
            terminal.end(PtyPhase::ServerStopping);
        }
    }

    /// Waits until every program has ended; call it after [`close`](Self::close).
    pub(crate) fn wait(&self) {
        let threads = std::mem::take(&mut self.lock().threads);
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("the thread of a terminal panicked");
            }
        }
    }

    /// Forgets a terminal whose program has ended, or the oldest such ones if there are too many.
    fn forget_exited(&self, exited: &PtyTerminal) -> Vec<Arc<PtyTerminal>> {
        let mut table = self.lock();
        if exited.lifetime == PtyLifetime::UntilExit {
            table.terminals.remove(&exited.info().id);
            return Vec::new();
        }
        let ended = table.terminals.iter().filter(|(_, terminal)| !terminal.is_running());
        let ended: Vec<PtyId> = ended.map(|(id, _)| id.clone()).collect();
        let over = ended.len().saturating_sub(MAX_EXITED);
        ended.iter().take(over).filter_map(|id| table.terminals.remove(id)).collect()
    }
}

/// Stays with a program until it has ended, and publishes its end unless the terminal was removed.
fn run_terminal(
    app: &AppState,
    terminal: &PtyTerminal,
    running: RunningCommand,
    slot: OwnedSemaphorePermit,
) {
    let code = terminal.attach(running);
    drop(slot);
    let was_kept = terminal.set_exited(code);
    let forgotten = app.terminals().forget_exited(terminal);
    if was_kept {
        let ended = json!({ "id": terminal.info().id, "exitCode": code });
        app.hub().publish(&terminal.directory, "pty.exited", ended);
    }
    for old in forgotten {
        app.hub().publish(&old.directory, "pty.deleted", json!({ "id": old.info().id }));
    }
}

fn clone_pty(running: &RunningCommand) -> Result<Pty, ApiError> {
    let pty =
        running.pty().map_or_else(|| Err(std::io::ErrorKind::NotFound.into()), Pty::try_clone);
    pty.map_err(|error| ApiError::unexpected(&error))
}

fn spawn_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ApiError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| ApiError::unexpected(&error))
}

fn start_command(app: &AppState, command: &CommandSpec) -> Result<RunningCommand, ApiError> {
    let stdio = CommandStdio::Terminal {
        size: TerminalSize::default(),
        outside: None,
        errors_apart: false,
    };
    let mut supervisor = supervisor(app);
    // What is typed in a terminal comes from a person: below other supervisors, agents act.
    supervisor.args.push(OsString::from("--terminal"));
    let prepared = supervisor.prepare(command, stdio);
    prepared
        .and_then(turnstone_process::PreparedCommand::start)
        .map_err(|error| start_error(&error))
}

fn start_error(error: &StartError) -> ApiError {
    match error {
        StartError::NotFound { .. }
        | StartError::NotExecutable { .. }
        | StartError::InvalidArgument { .. }
        | StartError::Directory { .. } => ApiError::invalid_payload(error.to_string()),
        StartError::Supervisor { .. }
        | StartError::SupervisorReported(_)
        | StartError::SupervisorGone => ApiError::unexpected(error),
    }
}

fn describe(
    id: PtyId,
    request: &PtyRequest,
    command: &CommandSpec,
    running: &RunningCommand,
) -> PtyInfo {
    let text = |text: &OsString| text.to_string_lossy().into_owned();
    let short = id.as_str().get(id.as_str().len().saturating_sub(4)..).unwrap_or_default();
    let title = request.title.clone().unwrap_or_else(|| format!("Terminal {short}"));
    PtyInfo {
        title,
        command: text(&command.program),
        args: command.args.iter().map(text).collect(),
        cwd: command.dir.to_string_lossy().into_owned(),
        status: PtyStatus::Running,
        pid: running.group().pgid,
        exit_code: None,
        id,
    }
}

fn too_many_terminals(most: usize) -> ApiError {
    let mut message = format!("no more than {most} terminals may run at a time; end one");
    if most < RequestLimits::default().terminals {
        message += ", or raise the limit on open files (ulimit -n) and restart the server";
    }
    ApiError::tagged(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", &message)
        .with_field("service", "pty")
}
