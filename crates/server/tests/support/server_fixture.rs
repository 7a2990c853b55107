//! A server in this process, with a data directory, a home and a project of its own.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use turnstone_config::{ConfigEnvironment, ConfigSources, Configuration, TrustedFiles};
use turnstone_core::time::EpochMillis;
use turnstone_engine::Engine;
use turnstone_process::GitEnvironment;
use turnstone_server::{ClientFolders, HttpServer, RequestLimits, ServerSettings};
use turnstone_store::Actor;

use super::client::TestClient;
use super::openapi_schema::OpenApiDocument;

/// Everything a test of the server needs; the server stops when it is dropped.
pub(crate) struct ServerFixture {
    dir: Option<tempfile::TempDir>,
    path: PathBuf,
    engine: Option<Arc<Engine>>,
    client: TestClient,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl ServerFixture {
    /// A server whose project is an empty directory outside any repository.
    pub(crate) fn new() -> Self {
        Self::with_settings(|_| {})
    }

    /// A server whose project is a repository with one commit of `README.md`.
    pub(crate) fn with_git() -> Self {
        let house = Self::new();
        let project = house.project();
        git(&project, &["init", "-q"]);
        house.write_file("README.md", "# demo\n");
        git(&project, &["add", "."]);
        git(&project, &["commit", "-q", "-m", "one"]);
        house
    }

    /// The same with other settings.
    pub(crate) fn with_settings(change: impl FnOnce(&mut ServerSettings)) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let path = fs_err::canonicalize(dir.path()).expect("real");
        for name in ["data", "home/.config", "project"] {
            fs_err::create_dir_all(path.join(name)).expect("made");
        }
        let (engine, client, stop, thread) = start(&path, change);
        Self {
            dir: Some(dir),
            path,
            engine: Some(engine),
            client,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Stops the server and starts another one on the same data, as after a restart.
    pub(crate) fn restart(mut self) -> Self {
        self.stop();
        let (engine, client, stop, thread) = start(&self.path, |_| {});
        Self {
            dir: self.dir.take(),
            path: self.path.clone(),
            engine: Some(engine),
            client,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Another server on the data as it is now, as after a kill: nothing is ended, nobody says goodbye, and
    /// the locks of the first server are gone.
    pub(crate) fn crash(mut self) -> Self {
        let (data, copy) = (self.path.join("data"), self.path.join("copy"));
        self.wait_until_captured();
        copy_consistently(&data, &copy);
        self.stop();
        fs_err::remove_dir_all(&data).expect("removed");
        fs_err::rename(&copy, &data).expect("renamed");
        self.restart()
    }

    pub(crate) fn client(&self) -> &TestClient {
        &self.client
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.client.address()
    }

    /// The engine behind the server.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("runs")
    }

    /// The directory of requests that name none.
    pub(crate) fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    /// The home directory in the server's settings.
    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// Writes the user's own configuration.
    pub(crate) fn configure_user(&self, text: &str) {
        let own = self.home().join(".config/opencode");
        fs_err::create_dir_all(&own).expect("made");
        fs_err::write(own.join("opencode.json"), text).expect("written");
    }

    /// A place next to the project, outside of it.
    pub(crate) fn sibling(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file of the project.
    pub(crate) fn write_file(&self, name: &str, content: &str) {
        let path = self.project().join(name);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs_err::write(path, content).expect("written");
    }

    /// Trusts the project's configuration as it is now.
    pub(crate) fn trust_project(&self) {
        let data = self.path.join("data");
        let (home, project) = (self.home(), self.project());
        let environment = ConfigEnvironment::new(&home, &home.join(".config"), &data);
        let sources =
            ConfigSources { environment: &environment, project: Some((&project, &project)) };
        let config = Configuration::load(&sources).expect("a good configuration");
        let mut trusted = TrustedFiles::read(&data).expect("read");
        config.trust_project_files(&mut trusted);
        trusted.write(&data).expect("written");
    }

    /// Waits for the baselines that requests have started.
    pub(crate) fn wait_until_captured(&self) {
        self.engine().maintenance().watched_roots().wait_until_captured();
    }

    fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server ended well");
        }
        if let Some(engine) = &self.engine {
            // A baseline goes on; the next server, or the end of the directory, is not to meet it.
            engine.maintenance().watched_roots().wait_until_captured();
        }
        self.engine = None;
    }
}

impl Drop for ServerFixture {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

/// Copies a moment of a directory in which a server works: again, until nobody wrote meanwhile.
fn copy_consistently(from: &Path, to: &Path) {
    let state = || -> Vec<_> {
        let reported = |name: &str| fs_err::metadata(from.join(name)).ok();
        let reported = ["turnstone.db", "turnstone.db-wal"].map(reported);
        reported
            .into_iter()
            .flatten()
            .map(|it| (it.len(), it.modified().expect("a time")))
            .collect()
    };
    for _ in 0..100 {
        let before = state();
        assert_eq!(before.len(), 2, "the database and its log are there");
        copy_all(from, to);
        if state() == before {
            return;
        }
        fs_err::remove_dir_all(to).expect("removed");
    }
    panic!("somebody writes all the time");
}

fn copy_all(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).expect("made");
    for entry in fs_err::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            copy_all(&from, &to);
        } else if kind.is_file() && !from.to_string_lossy().ends_with("-shm") {
            // The index of the log is rebuilt; ephemeral events may be gone by now.
            let copied = fs_err::copy(&from, &to).map(drop);
            let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            assert!(copied.as_ref().err().is_none_or(is_gone), "{copied:?}");
        }
    }
}

type StartedServer = (Arc<Engine>, TestClient, oneshot::Sender<()>, std::thread::JoinHandle<()>);

fn start(path: &Path, change: impl FnOnce(&mut ServerSettings)) -> StartedServer {
    let engine = Arc::new(open(path));
    let mut settings = settings(path);
    change(&mut settings);
    let (stop, stopped) = oneshot::channel();
    let (publish, reported) = std::sync::mpsc::channel();
    let served = engine.clone();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let server = HttpServer::bind(served, settings).await.expect("a socket");
            publish.send(server.address()).expect("told");
            server.run(async { drop(stopped.await) }).await.expect("serves");
        });
    };
    let thread = std::thread::spawn(run);
    let address = reported.recv().expect("an address");
    let client = TestClient::new(address).with_check(OpenApiDocument::check_native_answer);
    (engine, client, stop, thread)
}

#[expect(clippy::disallowed_methods, reason = "git is found where the tests find it")]
fn open(path: &Path) -> Engine {
    let found = std::env::var_os("PATH").expect("a path");
    // A test may put another git there.
    let found = std::env::split_paths(&found);
    let found = std::iter::once(path.join("bin")).chain(found);
    let found = std::env::join_paths(found).expect("a path");
    let home = Some(path.join("home").into_os_string());
    let git = GitEnvironment { path: found, home, ..GitEnvironment::default() };
    let data = path.join("data");
    let mut settings =
        turnstone_engine::EngineSettings { git, ..turnstone_engine::EngineSettings::new(&data) };
    let own = path.join("home/.config/opencode");
    settings.rules.user_files = vec![own.join("opencode.json")];
    settings.rules.user_agent_folders = vec![own];
    Engine::open(settings, now()).expect("opens")
}

#[expect(clippy::disallowed_methods, reason = "commands of a test find what the test finds")]
fn settings(path: &Path) -> ServerSettings {
    let home = path.join("home");
    let program = std::env::current_exe().expect("this program");
    let found = std::env::var_os("PATH").unwrap_or_default();
    ServerSettings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        directory: path.join("project"),
        actor: Actor::new("ada").expect("a name"),
        socket: turnstone_server::SocketSetting::default(),
        credentials: None,
        origins: Vec::new(),
        folders: ClientFolders {
            config: home.join(".config"),
            data: path.join("data"),
            home: home.clone(),
        },
        variables: vec![
            (OsString::from("PATH"), found),
            (OsString::from("HOME"), home.into_os_string()),
        ],
        program,
        traces_commands: true,
        limits: RequestLimits::default(),
        clock: now,
    }
}

#[expect(clippy::disallowed_methods, reason = "the server of a test lives in the present")]
fn now() -> EpochMillis {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    EpochMillis(i64::try_from(since.expect("after 1970").as_millis()).expect("a number"))
}

/// Runs `git` as a person would, without the configuration of the user who runs the tests.
#[expect(clippy::disallowed_methods, reason = "git itself makes the repositories of tests")]
pub(crate) fn git(dir: &Path, words: &[&str]) -> String {
    let done = std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim().to_owned()
}
