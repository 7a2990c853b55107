//! A server in a process of its own: this test binary, started again.
#![expect(clippy::disallowed_methods, reason = "these tests start a process and read its memory")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use capnweb::net::{RpcServer, ServerOptions, router};
use capnweb::session::SessionLimits;

use crate::service;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Set in the process that serves, to the bytes that a session may hold.
const SERVER_ENV: &str = "CAPNWEB_MEMORY_SERVER";

/// A server; it ends with this value.
pub(crate) struct MeasuredServer {
    child: Child,
    /// Address without a scheme.
    pub(crate) address: String,
    before: usize,
    /// Kept open: the test harness in the process writes to it, too.
    _output: ChildStdout,
}

impl MeasuredServer {
    /// Starts a server with the usual limits.
    pub(crate) fn start() -> TestResult<Self> {
        Self::start_with_limit(SessionLimits::default().held_bytes)
    }

    /// Starts a server whose sessions hold so many bytes for their peers.
    pub(crate) fn start_with_limit(bytes: usize) -> TestResult<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "server_process::server_process_entry_point", "--nocapture"]);
        command.env(SERVER_ENV, bytes.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut output = child.stdout.take().ok_or("the server has no output")?;
        let mut lines = BufReader::new(&mut output).lines();
        let address = loop {
            let line = lines.next().ok_or("the server ended")??;
            // The test harness may have written the name of the test before it, on the same line.
            if let Some((_, address)) = line.split_once("listening on ") {
                break address.to_owned();
            }
        };
        let mut victim = Self { child, address, before: 0, _output: output };
        victim.before = victim.peak_memory()?;
        Ok(victim)
    }

    /// Returns the high-water mark in bytes.
    fn peak_memory(&self) -> TestResult<usize> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: usize = line.ok_or("no VmHWM")?.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    /// Fails if the server ever took more than so many MiB beyond what it began with.
    pub(crate) fn assert_grew_at_most(&self, mebibytes: usize) -> TestResult {
        let grown = self.peak_memory()?.saturating_sub(self.before) / (1024 * 1024);
        assert!(grown <= mebibytes, "the server took {grown} MiB, not {mebibytes}");
        Ok(())
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Serves until its input ends, if it was started for that; otherwise there is nothing to show.
#[test]
fn server_process_entry_point() -> TestResult {
    let Ok(held) = std::env::var(SERVER_ENV) else {
        return Ok(());
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        // A peer that takes nothing is given up after three of these.
        let ping = Duration::from_secs(1);
        let mut options = ServerOptions { ping, ..ServerOptions::default() };
        options.session.limits.held_bytes = held.parse()?;
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
        let server = RpcServer::new(service::main_object, options);
        tokio::spawn(axum::serve(listener, router("/", server)).into_future());
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
            .await??;
        Ok(())
    })
}
