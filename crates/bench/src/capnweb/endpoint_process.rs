//! The processes that are measured: npm's server and client on Node, and our server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use fs_err as fs;

use crate::Fallible;

/// How calls are made.
#[derive(Clone, Copy)]
pub(crate) enum CallMode {
    /// One WebSocket, one call after the other.
    Sequential,
    /// One WebSocket, [`IN_FLIGHT`] calls under way at any time.
    InFlight,
    /// One POST after the other with [`BATCH_SIZE`] calls each.
    Batch,
}

/// Calls under way at the same time.
pub(crate) const IN_FLIGHT: usize = 64;
/// Calls of one batch.
pub(crate) const BATCH_SIZE: usize = 64;

impl CallMode {
    fn protocol_name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::InFlight => "flight",
            Self::Batch => "batch",
        }
    }

    pub(crate) fn label(self) -> String {
        match self {
            Self::Sequential => "WebSocket, sequential".to_owned(),
            Self::InFlight => format!("WebSocket, {IN_FLIGHT} in flight"),
            Self::Batch => format!("HTTP batches of {BATCH_SIZE}"),
        }
    }
}

/// Calls that were made and answered.
#[derive(Clone, Copy)]
pub(crate) struct CallCount {
    pub(crate) calls: f64,
    pub(crate) seconds: f64,
}

impl CallCount {
    pub(crate) fn per_second(self) -> f64 {
        self.calls / self.seconds
    }
}

/// The npm packages, installed for this run.
pub(crate) struct NpmInstall {
    dir: tempfile::TempDir,
    pub(crate) node_version: String,
}

impl NpmInstall {
    pub(crate) fn install() -> Fallible<Self> {
        let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/capnweb");
        let dir = tempfile::tempdir()?;
        for file in ["package.json", "package-lock.json", ".npmrc", "bench.mjs"] {
            fs::copy(recipe.join(file), dir.path().join(file))?;
        }
        let npm = Command::new("npm").arg("ci").current_dir(dir.path()).output()?;
        if !npm.status.success() {
            return Err(format!("npm ci: {}", String::from_utf8_lossy(&npm.stderr)).into());
        }
        let node = Command::new("node").arg("--version").output()?.stdout;
        Ok(Self { dir, node_version: String::from_utf8_lossy(&node).trim().to_owned() })
    }

    fn start(&self, role: &str) -> Fallible<LineProcess> {
        LineProcess::start(
            Command::new("node").args(["bench.mjs", role]).current_dir(self.dir.path()),
        )
    }

    pub(crate) fn start_server(&self) -> Fallible<ServerProcess> {
        ServerProcess::from_process(self.start("server")?)
    }

    pub(crate) fn start_client(&self) -> Fallible<NpmClient> {
        Ok(NpmClient(self.start("client")?))
    }
}

/// A process that is spoken to in lines; it ends with this value.
struct LineProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl LineProcess {
    fn start(command: &mut Command) -> Fallible<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("the process has no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("the process has no output")?);
        Ok(Self { child, input, output })
    }

    fn read_line(&mut self) -> Fallible<String> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the process ended".into());
        }
        Ok(line.trim().to_owned())
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Seconds that all threads of a process have run, in user and kernel mode.
pub(crate) fn processor_seconds(process: &str) -> Fallible<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name before the last parenthesis may hold anything.
    let fields = stat.rsplit_once(')').ok_or("no stat")?.1;
    let ticks: Result<Vec<u64>, _> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// A server in a process of its own.
pub(crate) struct ServerProcess {
    process: LineProcess,
    pub(crate) url: String,
}

impl ServerProcess {
    fn from_process(mut process: LineProcess) -> Fallible<Self> {
        let url = process.read_line()?;
        Ok(Self { process, url })
    }

    /// Starts our server: this program with the argument to serve.
    pub(crate) fn start_own() -> Fallible<Self> {
        let program = std::env::current_exe()?;
        Self::from_process(LineProcess::start(Command::new(program).arg("capnweb-server"))?)
    }

    /// The processor time of the process so far.
    pub(crate) fn processor_seconds(&self) -> Fallible<f64> {
        processor_seconds(&self.process.child.id().to_string())
    }

    /// The bytes of memory that the process holds, as the kernel says.
    pub(crate) fn resident_bytes(&self) -> Fallible<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.child.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).ok_or("no VmRSS")?;
        Ok(kib.parse::<u64>()? * 1024)
    }
}

/// The npm client as a load generator.
pub(crate) struct NpmClient(LineProcess);

impl NpmClient {
    /// The processor time of the process so far.
    pub(crate) fn processor_seconds(&self) -> Fallible<f64> {
        processor_seconds(&self.0.child.id().to_string())
    }

    /// Makes calls for `span`.
    pub(crate) fn make_calls(
        &mut self,
        mode: CallMode,
        url: &str,
        span: Duration,
    ) -> Fallible<CallCount> {
        writeln!(self.0.input, "{} {url} {}", mode.protocol_name(), span.as_millis())?;
        let line = self.0.read_line()?;
        let (calls, seconds) = line.split_once(' ').ok_or("not a figure")?;
        Ok(CallCount { calls: calls.parse()?, seconds: seconds.parse()? })
    }
}
