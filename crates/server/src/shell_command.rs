//! Commands of people: run under a supervisor, as turns that can be undone (R32).

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use turnstone_core::id::{MessageId, SessionId};
use turnstone_core::model::Session;
use turnstone_engine::{CommandExecution, ExecutionResult};
use turnstone_process::{
    AttachOptions, CommandEnvironment, CommandSpec, CommandStdio, LiveOutput, OutputLimits,
    OutputRecorder, RunningCommand, StartError, SupervisorProgram,
};
use turnstone_store::Context;

use crate::app::AppState;
use crate::error::ApiError;
use crate::prompt::take_up_inbox;
use crate::settings::PASSWORD_VARIABLES;

/// How often the output of a running command is shown.
const OUTPUT_INTERVAL: Duration = Duration::from_millis(200);
/// How much of it is shown while it runs: its end.
const MAX_LIVE_BYTES: usize = 30_000;
/// How long a command in a template may take.
const TEMPLATE_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs the command of a turn that has begun to its end, and ends the turn.
///
/// Takes as long as the command does: call it on a thread of its own.
pub(crate) fn run_command(
    app: &AppState,
    ctx: &Context,
    session: &Session,
    execution: CommandExecution,
    line: &str,
) -> Result<MessageId, ApiError> {
    let answer = execution.answer_id().clone();
    let mut execution = execution;
    let ran = match supervise_command(app, ctx, session, &mut execution, line) {
        Ok(ran) => ran,
        Err(CommandFailure::Start(error)) => ExecutionResult::start_refused(&error),
        Err(CommandFailure::Other(error)) => ExecutionResult::not_started(&*error),
    };
    if ran.left_running > 0 {
        tracing::warn!("{} processes of a command of {} were left", ran.left_running, session.id);
    }
    let now = ctx.without_expected_seq().at_time(app.now());
    let ended = app.engine().turns().commands().end(&now, execution, &ran.end);
    app.runners().mark_command_ended(&session.id);
    ended?;
    take_up_inbox(app, &now, &session.id)?;
    Ok(answer)
}

fn supervise_command(
    app: &AppState,
    ctx: &Context,
    session: &Session,
    execution: &mut CommandExecution,
    line: &str,
) -> Result<ExecutionResult, CommandFailure> {
    let mut program = shell_program(app, &session.id, Path::new(&session.directory), line);
    if app.settings().traces_commands {
        let trace = app.engine().turns().commands().prepare_trace(execution);
        program.trace = Some(trace.map_err(CommandFailure::other)?);
    }
    let prepared = supervisor(app).prepare(&program, CommandStdio::Pipes { stdin: None })?;
    execution.record_trace(prepared.trace());
    // Before it runs, so that recovery finds its processes after a crash (R32).
    app.engine()
        .turns()
        .commands()
        .record_process_group(ctx, execution, prepared.group())
        .map_err(CommandFailure::other)?;
    let folder = app.engine().store().layout().root().join("output");
    fs_err::create_dir_all(&folder).map_err(CommandFailure::other)?;
    let mut recorder =
        OutputRecorder::new(OutputLimits::default(), Some(folder.join(execution.call_id())));
    let running = prepared.start()?;
    let (live, turn) = (LiveOutput::new(MAX_LIVE_BYTES), execution.turn.clone());
    let (ended, aborted) = std::thread::scope(|scope| {
        let showing = scope.spawn(|| publish_output(app, ctx, execution, &live));
        let (mut stdout, mut stderr) = (live.clone(), live.clone());
        let options = AttachOptions {
            recorder: &mut recorder,
            stdout: &mut stdout,
            stderr: &mut stderr,
            terminal: None,
            signals: None,
        };
        let ended = app.engine().turns().commands().attach(ctx, &turn, running, options);
        live.finish();
        drop(showing.join());
        ended
    });
    Ok(ExecutionResult::from_outcome(ended, Some(recorder), aborted))
}

/// Shows what a command writes while it runs.
fn publish_output(
    app: &AppState,
    ctx: &Context,
    execution: &mut CommandExecution,
    live: &LiveOutput,
) {
    while let Some(text) = live.next_output(OUTPUT_INTERVAL) {
        let now = ctx.clone().at_time(app.now());
        if let Err(error) =
            app.engine().turns().commands().record_partial_output(&now, execution, &text)
        {
            // The command goes on; its whole output is kept at its end.
            tracing::warn!("the output of a command is not shown while it runs: {error}");
            return;
        }
    }
}

/// Runs a command line of a template and returns what it wrote; it is no turn of its own.
///
/// The arguments are parameters of the shell, so that nothing in them is taken for code.
pub(crate) fn template_output(
    app: &AppState,
    session: &Session,
    line: &str,
    (arguments, parameters): (&str, &[String]),
) -> String {
    let mut program = shell_program(app, &session.id, Path::new(&session.directory), line);
    program = program.args(["sh"]).args(parameters);
    program.env = program.env.with("ARGUMENTS", arguments);
    let prepared = supervisor(app).prepare(&program, CommandStdio::Pipes { stdin: None });
    let running = match prepared.and_then(turnstone_process::PreparedCommand::start) {
        Ok(running) => running,
        Err(error) => return format!("({line}: {error})"),
    };
    let mut recorder = OutputRecorder::new(OutputLimits::default(), None);
    let ended = run_with_timeout(running, &mut recorder);
    let text = recorder.finish().text();
    let omitted = text.omitted;
    let output = match omitted {
        0 => text.head,
        _ => format!("{}\n… {omitted} bytes left out …\n{}", text.head, text.tail),
    };
    match ended {
        Ok(()) => output,
        Err(why) => format!("{output}({line}: {why})"),
    }
}

/// How this program is started again to watch over a command.
pub(crate) fn supervisor(app: &AppState) -> SupervisorProgram {
    let program = app.settings().program.clone();
    SupervisorProgram { program, args: vec![OsString::from("supervise")] }
}

/// A command line for the shell of the user who started the server.
fn shell_program(app: &AppState, session: &SessionId, directory: &Path, line: &str) -> CommandSpec {
    let variables = &app.settings().variables;
    // A turnstone command inside of it works on the same data, below this session.
    let env = CommandEnvironment::without(variables.iter().cloned(), &PASSWORD_VARIABLES)
        .with("TURNSTONE_SESSION", session.as_str())
        .with("TURNSTONE_DATA", app.engine().store().layout().root());
    CommandSpec::new(user_shell(app), directory).args(["-c", line]).env(env)
}

/// The shell of the user who started the server.
pub(crate) fn user_shell(app: &AppState) -> OsString {
    let variables = &app.settings().variables;
    let shell = variables.iter().find(|(name, _)| name == "SHELL").map(|(_, value)| value);
    let shell = shell.filter(|shell| Path::new(shell).is_absolute());
    let shell = shell.filter(|shell| Path::new(shell).is_file()).cloned();
    shell.unwrap_or_else(|| OsString::from("/bin/sh"))
}

/// Stays with a command for as long as a template may take; then it is ended.
fn run_with_timeout(running: RunningCommand, recorder: &mut OutputRecorder) -> Result<(), String> {
    let control = running.control();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let timer = scope.spawn(move || {
            let late = is_done.recv_timeout(TEMPLATE_TIMEOUT)
                == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            late && control.end().is_ok()
        });
        let options = AttachOptions {
            recorder,
            stdout: &mut io::sink(),
            stderr: &mut io::sink(),
            terminal: None,
            signals: None,
        };
        let ended = running.attach(options);
        drop(done);
        let late = timer.join().unwrap_or(false);
        match ended {
            Ok(_) if late => Err(format!("ended after {} seconds", TEMPLATE_TIMEOUT.as_secs())),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Why a command could not be started.
enum CommandFailure {
    Start(StartError),
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl CommandFailure {
    fn other(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Other(Box::new(error))
    }
}

impl From<StartError> for CommandFailure {
    fn from(error: StartError) -> Self {
        Self::Start(error)
    }
}
