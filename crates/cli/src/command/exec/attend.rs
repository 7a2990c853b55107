//! Running the command: under a supervisor, with a terminal of its own where there is one.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use turnstone_core::id::SessionId;
use turnstone_engine::{Engine, EngineError, Execution, Ran};
use turnstone_process::{
    Attend, Environment, Keeper, Limits, Program, Signals, StartError, Streams, Supervisor,
    Terminal,
};
use turnstone_server::PASSWORD_VARIABLES;
use turnstone_store::Context;

use crate::app::App;
use crate::error::CliError;
use crate::exit::Exit;

/// How often what dead processes left is looked for (R45).
const SWEEP: Duration = Duration::from_secs(60);

/// Our own failure before the start (R33).
pub(super) const NOT_BEGUN: u8 = 125;

/// Watches over one command; everything it needs comes through its standard input.
pub(crate) fn supervise() -> Exit {
    Exit::Of(u8::try_from(turnstone_process::supervise()).unwrap_or(NOT_BEGUN))
}

/// What goes wrong before the command runs; it is told and ends the turn.
enum Failed {
    Start(StartError),
    Ledger(EngineError),
    Io(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StartError> for Failed {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}

/// Runs the command of `execution` to its end.
///
/// # Errors
///
/// Only if this program cannot be found to be started again.
pub(super) fn run(
    app: &App,
    engine: &Engine,
    ctx: &Context,
    execution: &mut Execution,
    place: &Path,
    words: &[OsString],
) -> Result<Ran, CliError> {
    let program = program(app, &execution.turn.session, place, words)?;
    let supervisor =
        Supervisor { program: app.program()?.to_owned(), args: vec![OsString::from("supervise")] };
    let spill = app.layout().root().join("output").join(execution.name());
    let went = sweeping(app, engine, || go(&supervisor, &program, engine, ctx, execution, spill));
    Ok(match went {
        Ok(ran) => ran,
        Err(Failed::Start(error)) => Ran::refused(&error),
        Err(Failed::Ledger(error)) => Ran::not_begun(&error),
        Err(Failed::Io(error)) => Ran::not_begun(&error),
    })
}

/// Does `work`, and once a minute meanwhile what every process does that runs for long (R45).
fn sweeping<T>(app: &App, engine: &Engine, work: impl FnOnce() -> T) -> T {
    let (over, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(SWEEP) {
                if let Err(error) = engine.sweep(&app.context()) {
                    tracing::info!("what dead processes left could not be swept: {error}");
                }
            }
        });
        let done = work();
        drop(over);
        done
    })
}

fn program(
    app: &App,
    session: &SessionId,
    place: &Path,
    words: &[OsString],
) -> Result<Program, CliError> {
    let (name, args) = words.split_first().ok_or_else(|| CliError::Refused {
        what: "there is no command to run".to_owned(),
        hint: None,
    })?;
    // Whoever runs turnstone inside of it works on the same data, below this session. The password of the
    // server is the person's: with it, a tool could answer what it is asked about.
    let env = Environment::without(app.variables().iter().cloned(), &PASSWORD_VARIABLES)
        .with("TURNSTONE_SESSION", session.as_str())
        .with("TURNSTONE_DATA", app.layout().root());
    Ok(Program::new(name, place).args(args).env(env))
}

fn go(
    supervisor: &Supervisor,
    program: &Program,
    engine: &Engine,
    ctx: &Context,
    execution: &mut Execution,
    spill: PathBuf,
) -> Result<Ran, Failed> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let terminal = Terminal::find(&stdin, &stdout)?;
    let streams = match &terminal {
        Some(terminal) => Streams::Terminal {
            size: terminal.size()?,
            outside: Some(terminal),
            errors_apart: !stderr.is_terminal(),
        },
        None => Streams::Pipes { stdin: Some(stdin.as_fd().try_clone_to_owned()?) },
    };
    let signals = Signals::hear()?;
    let prepared = supervisor.prepare(program, streams)?;
    // Before it runs: whoever comes after a crash must find the processes (R32).
    engine.note_group(ctx, execution, prepared.group()).map_err(Failed::Ledger)?;
    if let Some(folder) = spill.parent() {
        fs_err::create_dir_all(folder)?;
    }
    let mut keeper = Keeper::new(Limits::default(), Some(spill));
    let attend = Attend {
        keeper: &mut keeper,
        stdout: &mut { stdout },
        stderr: &mut { stderr },
        terminal: terminal.as_ref(),
        signals: Some(signals),
    };
    let running = prepared.go()?;
    let (ended, aborted) = engine.attend_exec(ctx, &execution.turn, running, attend);
    Ok(Ran::ended(ended, keeper, aborted))
}
