//! An owner to be killed, and the supervisor that it starts.
//!
//! `owner supervise` is the supervisor. `owner run [GRACE_MS] [GROUP_FILE] CMD…` runs a command in
//! the foreground as `turnstone exec` does: in a terminal if it has one, with pipes otherwise.
//! `owner trace LOG GRACE_MS GROUP_FILE CMD…` does the same, traced, and `owner show LOG` prints the trace.

use std::error::Error;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::termios::isatty;
use turnstone_process::{
    AttachOptions, CommandEnvironment, CommandSpec, CommandStdio, ForegroundSignals, OutputLimits,
    OutputRecorder, StartError, StdioTerminal, SupervisorProgram, TraceOptions, TraceOutcome,
};
use turnstone_trace::TraceLog;

#[expect(clippy::disallowed_methods, reason = "an example decides about its own end")]
fn main() {
    let mut args = std::env::args_os().skip(1);
    let code = match args.next().as_ref().and_then(|word| word.to_str()) {
        Some("supervise") => turnstone_process::run_supervisor(),
        Some("run") => run(args, None).unwrap_or_else(|error| complain(error.as_ref())),
        Some("trace") => {
            let log = args.next().map(|log| TraceOptions { log: log.into() });
            run(args, log).unwrap_or_else(|error| complain(error.as_ref()))
        }
        Some("show") => show(args).unwrap_or_else(|error| complain(error.as_ref())),
        _ => 2,
    };
    std::process::exit(code)
}

#[expect(clippy::print_stderr, reason = "an example prints to its user")]
fn complain(error: &(dyn Error + 'static)) -> i32 {
    eprintln!("owner: {error}");
    error.downcast_ref::<StartError>().map_or(125, StartError::exit_code)
}

/// Prints a trace: a line for each touch and gap.
#[expect(clippy::print_stdout, reason = "an example prints to its user")]
fn show(mut args: impl Iterator<Item = OsString>) -> Result<i32, Box<dyn Error>> {
    let log = TraceLog::read(args.next().ok_or("show LOG")?)?;
    for touch in &log.touches {
        println!("{} {:?} {}", touch.sequence, touch.kind, touch.path.display());
    }
    for gap in &log.gaps {
        println!("gap {:?} {:?} {}", gap.reason, gap.path, gap.count);
    }
    for process in &log.remaining {
        println!("remaining {} {} {:?}", process.pid, process.name, process.open_for_writing);
    }
    println!("ended {}", log.ended);
    Ok(0)
}

#[expect(clippy::disallowed_methods, reason = "an example reads its own surroundings")]
#[expect(clippy::print_stderr, reason = "an example prints to its user")]
fn run(
    mut args: impl Iterator<Item = OsString>,
    trace: Option<TraceOptions>,
) -> Result<i32, Box<dyn Error>> {
    let mut word = || args.next().ok_or("run GRACE_MS GROUP_FILE CMD…");
    let grace = word()?.to_str().ok_or("no number")?.parse()?;
    let record = word()?;
    let mut program = CommandSpec::new(word()?, std::env::current_dir()?)
        .args(args)
        .env(CommandEnvironment::exact(std::env::vars_os()));
    program.grace = Duration::from_millis(grace);
    program.trace = trace;

    let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let terminal = StdioTerminal::find(&stdin, &stdout)?;
    let streams = match &terminal {
        Some(terminal) => CommandStdio::Terminal {
            size: terminal.size()?,
            outside: Some(terminal),
            errors_apart: !isatty(&stderr),
        },
        None => CommandStdio::Pipes { stdin: Some(stdin.as_fd().try_clone_to_owned()?) },
    };
    let supervisor = SupervisorProgram {
        program: std::env::current_exe()?,
        args: vec![OsString::from("supervise")],
    };
    let signals = ForegroundSignals::subscribe()?;
    let prepared = supervisor.prepare(&program, streams)?;
    if let TraceOutcome::Unavailable(reason) = prepared.trace() {
        eprintln!("owner: not traced: {reason}");
    }
    fs_err::write(record, serde_json::to_vec(prepared.group())?)?;
    let outcome = prepared.start()?.attach(AttachOptions {
        recorder: &mut OutputRecorder::new(OutputLimits::default(), None),
        stdout: &mut { stdout },
        stderr: &mut { stderr },
        terminal: terminal.as_ref(),
        signals: Some(signals),
    })?;
    Ok(outcome.exit.code())
}
