//! The two programs, each with a home and a project of its own.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fs_err as fs;

use super::http_client::HttpClient;
use crate::Fallible;

/// How long a program may take to answer first.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// How long one early request may take. OpenCode never answers some of those that come while it
/// starts; another one is then sent on a new connection.
const EARLY_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the first request that boots a directory may take, before it is sent again.
const BOOT_REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// A program that serves.
#[derive(Clone)]
pub(crate) struct ServerUnderTest {
    pub(crate) name: &'static str,
    binary: PathBuf,
    home: PathBuf,
    pub(crate) project: PathBuf,
}

/// A program that runs; it ends with this value.
pub(crate) struct RunningServer {
    child: Child,
    pub(crate) address: SocketAddr,
    /// From the start of the process to the first answer.
    pub(crate) cold_start: Duration,
    project: PathBuf,
}

impl ServerUnderTest {
    pub(crate) fn new(name: &'static str, binary: &Path, out: &Path) -> Fallible<Self> {
        let (home, work) = (out.join(name).join("home"), out.join(name).join("project"));
        for folder in ["data", "config", "state", "cache", "tmp", "run"] {
            fs::create_dir_all(home.join(folder))?;
        }
        fs::create_dir_all(&work)?;
        fs::write(work.join("a.txt"), "one\ntwo\n")?;
        let git = |words: &[&str]| -> Fallible {
            let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
            let mut git = Command::new("git");
            let done =
                git.args(identity).args(words).current_dir(&work).env("HOME", &home).output()?;
            if done.status.success() { Ok(()) } else { Err(format!("git {words:?} failed").into()) }
        };
        git(&["init", "-q"])?;
        git(&["add", "."])?;
        git(&["commit", "-qm", "first"])?;
        Ok(Self { name, binary: binary.to_owned(), home, project: work })
    }

    /// The same project in the same place with an empty home, into which this program imports the sessions of
    /// `source`.
    pub(crate) fn importing_from(&self, source: &Self, out: &Path) -> Fallible<Self> {
        let mut importing = Self::new("imported", &self.binary, out)?;
        importing.project.clone_from(&source.project);
        let database = source.home.join("data/opencode");
        let imported = importing.command(&["import", &database.to_string_lossy()]).output()?;
        if imported.status.success() {
            return Ok(importing);
        }
        Err(format!("import: {}", String::from_utf8_lossy(&imported.stderr)).into())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        let folder = |name: &str| self.home.join(name);
        command
            .args(words)
            .current_dir(&self.project)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("TMPDIR", folder("tmp"))
            .env("XDG_DATA_HOME", folder("data"))
            .env("XDG_CONFIG_HOME", folder("config"))
            .env("XDG_STATE_HOME", folder("state"))
            .env("XDG_CACHE_HOME", folder("cache"))
            .env("XDG_RUNTIME_DIR", folder("run"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"] {
            command.env(format!("OPENCODE_DISABLE_{name}"), "1");
        }
        command.env("OPENCODE_PURE", "1");
        command
    }

    /// Starts the program and asks until it answers.
    pub(crate) fn start(&self) -> Fallible<RunningServer> {
        let address = free_address()?;
        let began = Instant::now();
        let port = address.port().to_string();
        let child = self.command(&["serve", "--hostname", "127.0.0.1", "--port", &port]).spawn()?;
        let mut running = RunningServer {
            child,
            address,
            cold_start: Duration::ZERO,
            project: self.project.clone(),
        };
        while began.elapsed() < START_TIMEOUT {
            if running.is_answering("/global/health", EARLY_REQUEST_TIMEOUT) {
                running.cold_start = began.elapsed();
                return Ok(running);
            }
            if running.child.try_wait()?.is_some() {
                return Err(format!("{} ended at once", self.name).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("{} did not answer", self.name).into())
    }
}

/// An address nobody listens on.
fn free_address() -> Fallible<SocketAddr> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

impl RunningServer {
    pub(crate) fn client(&self) -> Fallible<HttpClient> {
        HttpClient::connect(self.address, &self.project.to_string_lossy())
    }

    fn is_answering(&self, path: &str, patience: Duration) -> bool {
        let asked = self
            .client()
            .and_then(|client| client.with_timeout(patience))
            .and_then(|mut client| client.get(path));
        asked.is_ok_and(|answer| answer.status == 200)
    }

    /// Has the program boot what serves its directory.
    pub(crate) fn wait_until_booted(&self) -> Fallible {
        let began = Instant::now();
        while began.elapsed() < START_TIMEOUT {
            if self.is_answering("/session", BOOT_REQUEST_TIMEOUT) {
                return Ok(());
            }
        }
        Err("the directory is not served".into())
    }

    /// The CPU time that the process has used, in milliseconds; the kernel counts in steps of ten.
    pub(crate) fn cpu_millis(&self) -> Fallible<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in parentheses may hold anything; user and system time are the 12th and 13th field after it.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = ticks.sum::<Result<_, _>>()?;
        Ok(ticks as f64 * 1e3 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// The resident memory of the process, in MiB.
    pub(crate) fn resident_mib(&self) -> Fallible<f64> {
        let mut status = String::new();
        let path = format!("/proc/{}/status", self.child.id());
        fs::File::open(path)?.read_to_string(&mut status)?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().nth(1)).ok_or("no VmRSS")?;
        Ok(kib.parse::<f64>()? / 1024.0)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
