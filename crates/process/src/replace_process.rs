//! Starting this program again in its own place: the same process, with other variables.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::command_spec::CommandEnvironment;
use crate::umask::with_user_mask;

/// Replaces this process by `program`, with exactly these variables.
///
/// The number of the process stays, and so do its terminal and its open streams; `stdin` takes the place
/// of the standard input. Everything else in this process ends without notice, so call it at the start.
///
/// Returns only if that failed, with the reason.
pub fn replace_process(
    program: &Path,
    args: &[OsString],
    env: &CommandEnvironment,
    stdin: Option<io::PipeReader>,
) -> io::Error {
    #[expect(clippy::disallowed_methods, reason = "this is where this program is started again")]
    let mut command = Command::new(program);
    if let Some(name) = args.first() {
        command.arg0(name);
    }
    command.args(args.iter().skip(1)).env_clear().envs(env.variables());
    command.stdin(stdin.map_or_else(Stdio::inherit, Stdio::from));
    with_user_mask(|| command.exec())
}
