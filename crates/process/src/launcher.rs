//! The launcher: the process that becomes the command, once its owner has recorded it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use turnstone_trace::{ListenerOffer, install_trace_filter};

use crate::channel::Channel;
use crate::protocol::{
    ExecSpec, LauncherTrace, StartFailure, StartStep, SupervisorReport, SupervisorRequest,
};
use crate::umask::restore_user_mask;

/// Takes streams and directory, waits for the word, and becomes the command.
///
/// Returns only if that failed; the reason has been reported then.
pub(crate) fn run_launcher(
    channel: &Channel,
    exec: &ExecSpec,
    is_traced: bool,
    streams: Vec<OwnedFd>,
) -> io::Result<()> {
    // The command dies with its supervisor, which alone would end it otherwise.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let [input, output, error] = streams.as_slice() else {
        return Err(io::Error::other("a command has three streams"));
    };
    dup2_stdin(input)?;
    dup2_stdout(output)?;
    dup2_stderr(error)?;
    drop(streams);
    if let Err(error) = std::env::set_current_dir(exec.dir.as_os()) {
        return channel
            .send(&SupervisorReport::Failed(StartFailure::new(StartStep::Directory, &error)), &[]);
    }
    report_ready(channel, is_traced)?;
    // A supervisor that died before this line is the end of the channel; after it, the end of us.
    match channel.receive::<SupervisorRequest>()? {
        Some((SupervisorRequest::Go, _)) => {}
        _ => return Ok(()),
    }
    if let Some(mask) = exec.mask {
        restore_user_mask(mask);
    }
    let error = build_command(exec).exec();
    channel.send(&SupervisorReport::Failed(StartFailure::new(StartStep::Exec, &error)), &[])
}

/// Installs the filter if asked, and gives its listener away: from here to the start, every call that
/// could write waits for the holders.
fn report_ready(channel: &Channel, is_traced: bool) -> io::Result<()> {
    let ready = |trace| SupervisorReport::Ready(trace);
    if !is_traced {
        return channel.send(&ready(LauncherTrace::NotRequested), &[]);
    }
    match install_trace_filter() {
        Ok(ListenerOffer { listener, address }) => {
            channel.send(&ready(LauncherTrace::Installed { address }), &[listener.as_fd()])
        }
        Err(reason) => channel.send(&ready(LauncherTrace::Unavailable(reason)), &[]),
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where a supervised program is started")]
fn build_command(exec: &ExecSpec) -> Command {
    let mut command = Command::new(exec.program.as_os());
    command.args(exec.args.iter().map(|arg| arg.as_os()));
    command.env_clear().envs(exec.env.iter().map(|(name, value)| (name.as_os(), value.as_os())));
    command
}
