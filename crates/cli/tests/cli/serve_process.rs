//! Starts `turnstone serve` as a program of its own, and reads the line it prints when it is ready.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::fixture::CliFixture;

/// A running server; it is killed when the test ends.
pub(crate) struct ServeProcess {
    pub(crate) child: Child,
    /// `host:port`
    pub(crate) address: String,
    /// The line it printed.
    pub(crate) ready_line: Value,
}

impl Drop for ServeProcess {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Starts the program with these arguments, in `p`, with an environment that `change` may change.
#[expect(clippy::disallowed_methods, reason = "assert_cmd cannot leave a program running")]
pub(crate) fn start_serve(
    case: &CliFixture,
    args: &[&str],
    change: impl FnOnce(&mut Command),
) -> ServeProcess {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnstone"));
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", case.path("home"))
        .env("TURNSTONE_DATA", case.data_dir())
        .current_dir(case.path("p"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    change(&mut command);
    let mut child = command.spawn().expect("starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("an output");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let ready: Value =
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let url = ready["url"].as_str().expect("an address");
    let address = url.trim_start_matches("http://").to_owned();
    ServeProcess { child, address, ready_line: ready }
}
