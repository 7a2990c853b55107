//! A command inside a call: shown while it runs, ended when its time is over or the call is aborted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::json;
use turnstone_engine::{
    CallCommand, CallCommandReport, CallCommandStreams, CallCommands, CommandControl, EngineError,
};

use super::command_output::CommandOutput;
use crate::tool::reply::into_fields;
use crate::tool::{AbortWait, ToolHost};

/// How often clients are shown what a command has written.
const SHOW_INTERVAL: Duration = Duration::from_millis(200);
/// The time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// Why a command was ended before it ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandStop {
    Timeout,
    Abort,
}

/// Runs a command inside a call. With a title, clients are shown its output while it runs.
pub(crate) fn run_watched(
    host: &dyn ToolHost,
    command: &CallCommand,
    timeout: Duration,
    (output, title): (&CommandOutput, Option<&str>),
) -> Result<(CallCommandReport, Option<CommandStop>), EngineError> {
    let is_over = AtomicBool::new(false);
    let (sender, control) = channel();
    let (report, stop) = std::thread::scope(|scope| {
        let over = &is_over;
        let watching = scope.spawn(move || watch_command(host, timeout, &control, over));
        if let Some(title) = title {
            scope.spawn(move || {
                while let Some(text) = output.live.next_output(SHOW_INTERVAL) {
                    host.show(Some(title.to_owned()), into_fields(json!({ "output": text })));
                }
            });
        }
        let clock = || host.context();
        let call = CallCommands {
            commands: host.engine().turns().commands(),
            turn: host.turn(),
            part: host.part(),
            clock: &clock,
        };
        let streams = CallCommandStreams {
            stdout: &mut output.writer(),
            stderr: &mut output.writer(),
            started: &mut |control| drop(sender.send(control)),
        };
        let report = call.run(command, streams);
        drop(sender);
        is_over.store(true, Ordering::SeqCst);
        host.abort().wake();
        output.live.finish();
        (report, watching.join().unwrap_or(None))
    });
    let report = report?;
    let stop = stop.or(report.is_aborted.then_some(CommandStop::Abort));
    Ok((report, stop))
}

/// Ends a command when its time is over or the call is aborted; returns why it was ended.
fn watch_command(
    host: &dyn ToolHost,
    timeout: Duration,
    control: &Receiver<CommandControl>,
    is_over: &AtomicBool,
) -> Option<CommandStop> {
    let control = control.recv().ok()?;
    let stop = match host.abort().wait_while_running(timeout, is_over) {
        AbortWait::Over => return None,
        AbortWait::TimedOut => CommandStop::Timeout,
        AbortWait::Requested => CommandStop::Abort,
    };
    // A supervisor that is gone has taken the command along.
    control.end().ok().map(|()| stop)
}
