//! A pool of servers, and what to start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_mcp::{
    CallControl, ToolServer, ToolServerError, ToolServerPool, ToolServerPoolSettings,
    ToolServerResult, ToolServerSettings, ToolServerStatus, ToolServerTransport,
};
use turnstone_outbound::{HttpClient, HttpClientSettings};
use turnstone_process::SupervisorProgram;
use turnstone_testkit::{npm, required_tools};

/// Longer than any test that passes takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory with a pool of servers.
pub(crate) struct PoolFixture {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) pool: ToolServerPool,
}

impl PoolFixture {
    pub(crate) fn new() -> Self {
        Self::with_idle_limit(Duration::from_secs(3600))
    }

    pub(crate) fn with_idle_limit(idle_limit: Duration) -> Self {
        let profile =
            Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("target").join("debug");
        let program = profile.join("examples/mcp_supervisor");
        assert!(program.exists(), "{} is missing: cargo build --examples", program.display());
        let pool = ToolServerPool::new(ToolServerPoolSettings {
            client_name: "test".to_owned(),
            client_version: "1".to_owned(),
            supervisor: Some(SupervisorProgram { program, args: Vec::new() }),
            http: HttpClient::new(HttpClientSettings::new("test")).ok(),
            idle_limit,
        });
        Self { dir: tempfile::tempdir().expect("a directory"), pool }
    }

    pub(crate) fn root(&self) -> PathBuf {
        fs_err::canonicalize(self.dir.path()).expect("real")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// A program with arguments; it gets `PATH` and one variable.
    pub(crate) fn local(&self, words: &[&str]) -> ToolServerSettings {
        let program = required_tools::find_program(words[0]).expect("a program");
        #[expect(clippy::disallowed_methods, reason = "programs are found as by the test itself")]
        let path = std::env::var_os("PATH").unwrap_or_default();
        let environment = vec![("PATH".into(), path), ("GREETING".into(), "hello".into())];
        let args = words[1..].iter().map(Into::into).collect();
        server(ToolServerTransport::Local {
            program: program.into(),
            args,
            directory: self.root(),
            environment,
        })
    }

    /// The scripted server in one of its modes; `state` is a file of its own.
    pub(crate) fn scripted(&self, mode: &str) -> ToolServerSettings {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/scripted.py");
        let state = self.path("state");
        let [script, state] = [&script, &state].map(|it| it.to_str().expect("text"));
        self.local(&["python3", script, mode, state])
    }

    pub(crate) fn select(&self, settings: &ToolServerSettings) -> ToolServer {
        self.pool.select(&self.root(), std::slice::from_ref(settings)).remove(0)
    }

    /// Connects a server; it must succeed.
    pub(crate) fn connect(&self, settings: &ToolServerSettings) -> ToolServer {
        let server = self.select(settings);
        server.start();
        server.wait(PATIENCE);
        assert_eq!(server.status(), ToolServerStatus::Connected);
        server
    }

    /// Connects a server; it must fail.
    pub(crate) fn fail_to_connect(&self, settings: &ToolServerSettings) -> ToolServerError {
        let server = self.select(settings);
        server.start();
        server.wait(PATIENCE);
        let ToolServerStatus::Failed(error) = server.status() else {
            panic!("{:?}", server.status());
        };
        error
    }
}

pub(crate) fn server(transport: ToolServerTransport) -> ToolServerSettings {
    ToolServerSettings {
        name: "s".to_owned(),
        is_enabled: true,
        transport,
        start_timeout: PATIENCE,
        call_timeout: PATIENCE,
    }
}

/// The reference server.
pub(crate) fn reference_script() -> PathBuf {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/mcp");
    let dir = npm::install(&recipe, Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("installed");
    dir.join("node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}

pub(crate) fn call(
    server: &ToolServer,
    tool: &str,
    arguments: Value,
) -> Result<ToolServerResult, ToolServerError> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    server.call(tool, arguments, &CallControl::default(), &|_| {})
}

pub(crate) fn act(server: &ToolServer) -> Result<ToolServerResult, ToolServerError> {
    call(server, "act", json!({}))
}

pub(crate) fn names(server: &ToolServer) -> Vec<String> {
    server.tools().iter().map(|tool| tool.name.clone()).collect()
}

pub(crate) fn no_arguments() -> Map<String, Value> {
    Map::new()
}

/// Looks until something has come about that must.
pub(crate) fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come about");
}
