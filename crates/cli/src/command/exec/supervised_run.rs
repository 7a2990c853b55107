//! Runs the command under a supervisor, on a pseudo-terminal if there is a terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_engine::{CommandExecution, Engine, EngineError, ExecutionResult};
use turnstone_process::{
    AttachOptions, CommandEnvironment, CommandSpec, CommandStdio, ForegroundSignals, OutputLimits,
    OutputRecorder, StartError, StdioTerminal, SupervisorProgram,
};
use turnstone_server::PASSWORD_VARIABLES;
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;

/// Interval of recovery while a command runs (R45).
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Exit code if Turnstone fails before the start of the command (R33).
pub(super) const EXIT_NOT_STARTED: u8 = 125;

/// Runs the supervisor of one command; its input comes through standard input.
pub(crate) fn supervise() -> ProgramExit {
    ProgramExit::CommandCode(
        u8::try_from(turnstone_process::run_supervisor()).unwrap_or(EXIT_NOT_STARTED),
    )
}

/// An error before the start of the command; it is printed and ends the turn.
enum ExecStartError {
    Start(StartError),
    Engine(EngineError),
    Io(io::Error),
}

impl From<io::Error> for ExecStartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StartError> for ExecStartError {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

/// Runs the command of `execution` to its end.
///
/// # Errors
///
/// The path of this executable is unknown.
pub(super) fn run_supervised(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    execution: &mut CommandExecution,
    place: &Path,
    words: &[OsString],
) -> Result<ExecutionResult, CliError> {
    let program = build_program(app, &execution.turn.session, place, words)?;
    let supervisor = SupervisorProgram {
        program: app.executable_path()?.to_owned(),
        args: vec![OsString::from("supervise")],
    };
    let spill = app.layout().root().join("output").join(execution.call_id());
    let outcome = with_periodic_sweep(app, engine, || {
        start_and_wait(&supervisor, &program, engine, ctx, execution, spill)
    });
    Ok(match outcome {
        Ok(ran) => ran,
        Err(ExecStartError::Start(error)) => ExecutionResult::start_refused(&error),
        Err(ExecStartError::Engine(error)) => ExecutionResult::not_started(&error),
        Err(ExecStartError::Io(error)) => ExecutionResult::not_started(&error),
    })
}

/// Does `work`, and runs recovery and maintenance once a minute meanwhile (R45).
fn with_periodic_sweep<T>(app: &CliApp, engine: &Engine, work: impl FnOnce() -> T) -> T {
    let (over, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SWEEP_INTERVAL) {
                if let Err(error) = engine.maintenance().recover_and_maintain(&app.context()) {
                    tracing::info!("recovery failed: {error}");
                }
            }
        });
        let done = work();
        drop(over);
        done
    })
}

fn build_program(
    app: &CliApp,
    session: &SessionId,
    place: &Path,
    words: &[OsString],
) -> Result<CommandSpec, CliError> {
    let (name, args) = words.split_first().ok_or_else(|| CliError::Refused {
        what: "no command given".to_owned(),
        hint: Some("`turnstone exec -- COMMAND [ARGUMENT]...`".to_owned()),
    })?;
    // A nested turnstone uses the same data directory and becomes a child session. The server password is
    // removed: with it, a tool could approve its own requests.
    let env = CommandEnvironment::without(
        app.environment_variables().iter().cloned(),
        &PASSWORD_VARIABLES,
    )
    .with("TURNSTONE_SESSION", session.as_str())
    .with("TURNSTONE_DATA", app.layout().root());
    Ok(CommandSpec::new(name, place).args(args).env(env))
}

fn start_and_wait(
    supervisor: &SupervisorProgram,
    program: &CommandSpec,
    engine: &Engine,
    ctx: &Context,
    execution: &mut CommandExecution,
    spill: PathBuf,
) -> Result<ExecutionResult, ExecStartError> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let terminal = StdioTerminal::find(&stdin, &stdout)?;
    let streams = match &terminal {
        Some(terminal) => CommandStdio::Terminal {
            size: terminal.size()?,
            outside: Some(terminal),
            errors_apart: !stderr.is_terminal(),
        },
        None => CommandStdio::Pipes { stdin: Some(stdin.as_fd().try_clone_to_owned()?) },
    };
    let signals = ForegroundSignals::subscribe()?;
    let prepared = supervisor.prepare(program, streams)?;
    // Before the start, so that recovery finds the processes after a crash (R32).
    engine
        .turns()
        .commands()
        .record_process_group(ctx, execution, prepared.group())
        .map_err(ExecStartError::Engine)?;
    if let Some(folder) = spill.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut recorder = OutputRecorder::new(OutputLimits::default(), Some(spill));
    let options = AttachOptions {
        recorder: &mut recorder,
        stdout: &mut { stdout },
        stderr: &mut { stderr },
        terminal: terminal.as_ref(),
        signals: Some(signals),
    };
    let running = prepared.start()?;
    let (ended, aborted) = engine.turns().commands().attach(ctx, &execution.turn, running, options);
    Ok(ExecutionResult::from_outcome(ended, recorder, aborted))
}
