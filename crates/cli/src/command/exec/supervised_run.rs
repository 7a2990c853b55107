//! Runs the command under a supervisor, on a pseudo-terminal if there is a terminal.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_engine::{CommandExecution, Engine, EngineError, ExecutionResult};
use turnstone_process::{
    AttachOptions, CommandEnvironment, CommandSpec, CommandStdio, ForegroundSignals, LiveOutput,
    OutputLimits, OutputRecorder, PreparedCommand, StartError, StdioTerminal, SupervisorProgram,
};
use turnstone_server::PASSWORD_VARIABLES;
use turnstone_store::Context;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::ProgramExit;

/// Interval of recovery while a command runs (R45).
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Time after which the first output of a running command is stored, in case this process is killed.
const FIRST_OUTPUT_INTERVAL: Duration = Duration::from_millis(200);
/// Longest time after which further output is stored.
const MAX_OUTPUT_INTERVAL: Duration = Duration::from_secs(5);
/// How much output is stored while the command runs: its end.
const MAX_LIVE_BYTES: usize = 16 << 10;

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

/// How a command is run.
#[derive(Clone, Copy)]
pub(super) struct RunOptions {
    /// Whether its output is stored.
    pub(super) keeps_output: bool,
    /// Whether it is traced which files it writes.
    pub(super) is_traced: bool,
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
    (place, words): (&Path, &[OsString]),
    RunOptions { keeps_output, is_traced }: RunOptions,
) -> Result<ExecutionResult, CliError> {
    let mut program = build_program(app, Some(&execution.turn.session), place, words)?;
    let supervisor = SupervisorProgram {
        program: app.executable_path()?.to_owned(),
        args: vec![OsString::from("supervise")],
    };
    let spill = app.layout().root().join("output").join(execution.call_id());
    let spill = keeps_output.then_some(spill);
    let outcome = with_periodic_sweep(app, engine, || {
        if is_traced {
            let trace = engine.turns().commands().prepare_trace(execution);
            program.trace = Some(trace.map_err(ExecStartError::Engine)?);
        }
        let prepared = prepare_command(&supervisor, &program, engine, ctx, execution)?;
        attach_command(app, engine, ctx, execution, prepared, spill)
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

/// Checks that a command can be started, before anything is stored for it.
///
/// # Errors
///
/// No command was given.
pub(super) fn check_command(
    app: &CliApp,
    place: &Path,
    words: &[OsString],
) -> Result<Result<(), StartError>, CliError> {
    Ok(build_program(app, None, place, words)?.check_startable())
}

fn build_program(
    app: &CliApp,
    session: Option<&SessionId>,
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
    .with("TURNSTONE_SESSION", session.map_or("", SessionId::as_str))
    .with("TURNSTONE_DATA", app.layout().root());
    Ok(CommandSpec::new(name, place).args(args).env(env))
}

/// A command that is ready to run, and the terminal it takes over.
struct ForegroundCommand {
    command: PreparedCommand,
    terminal: Option<StdioTerminal>,
    signals: ForegroundSignals,
}

fn prepare_command(
    supervisor: &SupervisorProgram,
    program: &CommandSpec,
    engine: &Engine,
    ctx: &Context,
    execution: &mut CommandExecution,
) -> Result<ForegroundCommand, ExecStartError> {
    let stdin = io::stdin();
    let terminal = StdioTerminal::find(&stdin, io::stdout())?;
    let streams = match &terminal {
        Some(terminal) => CommandStdio::Terminal {
            size: terminal.size()?,
            outside: Some(terminal),
            errors_apart: !io::stderr().is_terminal(),
        },
        None => CommandStdio::Pipes { stdin: Some(stdin.as_fd().try_clone_to_owned()?) },
    };
    let signals = ForegroundSignals::subscribe()?;
    let command = supervisor.prepare(program, streams)?;
    execution.record_trace(command.trace());
    // Before the start, so that recovery finds the processes after a crash (R32).
    engine
        .turns()
        .commands()
        .record_process_group(ctx, execution, command.group())
        .map_err(ExecStartError::Engine)?;
    Ok(ForegroundCommand { command, terminal, signals })
}

/// Starts a command and stays with it to its end; its output is stored if there is a `spill` file for its middle.
fn attach_command(
    app: &CliApp,
    engine: &Engine,
    ctx: &Context,
    execution: &mut CommandExecution,
    prepared: ForegroundCommand,
    spill: Option<PathBuf>,
) -> Result<ExecutionResult, ExecStartError> {
    let ForegroundCommand { command, terminal, signals } = prepared;
    if let Some(folder) = spill.as_deref().and_then(Path::parent) {
        fs_err::create_dir_all(folder)?;
    }
    let (keeps_output, live) = (spill.is_some(), LiveOutput::new(MAX_LIVE_BYTES));
    let limits = match keeps_output {
        true => OutputLimits::default(),
        false => OutputLimits { head: 0, tail: 0, spill: 0 },
    };
    let mut recorder = OutputRecorder::new(limits, spill);
    let running = command.start()?;
    let turn = execution.turn.clone();
    let (ended, aborted) = std::thread::scope(|scope| {
        if keeps_output {
            scope.spawn(|| store_live_output(app, engine, execution, &live));
        }
        let copy = || keeps_output.then(|| live.clone());
        let options = AttachOptions {
            recorder: &mut recorder,
            stdout: &mut CopiedStream { stream: io::stdout(), copy: copy() },
            stderr: &mut CopiedStream { stream: io::stderr(), copy: copy() },
            terminal: terminal.as_ref(),
            signals: Some(signals),
        };
        let ended = engine.turns().commands().attach(ctx, &turn, running, options);
        live.finish();
        ended
    });
    let recorder = keeps_output.then_some(recorder);
    Ok(ExecutionResult::from_outcome(ended, recorder, aborted))
}

/// Stores the end of the output now and then while the command runs, so that it is not lost if this process is killed.
fn store_live_output(
    app: &CliApp,
    engine: &Engine,
    execution: &mut CommandExecution,
    live: &LiveOutput,
) {
    let mut interval = FIRST_OUTPUT_INTERVAL;
    while let Some(text) = live.next_output(interval) {
        let stored =
            engine.turns().commands().record_partial_output(&app.context(), execution, &text);
        if let Err(error) = stored {
            // The command continues; all of its output is stored at its end.
            tracing::info!("cannot store the output of a running command: {error}");
            return;
        }
        interval = MAX_OUTPUT_INTERVAL.min(interval * 2);
    }
}

/// A stream of the user that gets the output, and the copy that is stored while the command runs.
struct CopiedStream<S> {
    stream: S,
    copy: Option<LiveOutput>,
}

impl<S: Write> Write for CopiedStream<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.stream.write(bytes)?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&bytes[..written])?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
