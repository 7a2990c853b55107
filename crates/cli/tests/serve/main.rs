//! The real clients at work on `turnstone serve`: the SDK, the terminal client, web pages in Chromium, and a plug
//! that is pulled.
//!
//! `interop/client` holds the scripts and pins the SDK, Bun and Playwright, `interop/opencode` the program itself;
//! Node, npm, git, tmux and Chromium are needed. Only loopback and the npm client use a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use turnstone_testkit::{npm, required_tools};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The scripts with the packages they need, and the real program.
struct InteropClients {
    scripts: PathBuf,
    opencode: PathBuf,
    out: tempfile::TempDir,
}

impl InteropClients {
    fn install() -> TestResult<Self> {
        let interop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let scripts = npm::install(&interop.join("client"), target)?;
        let programs = npm::install(&interop.join("opencode"), target)?;
        let opencode = programs.join("node_modules/opencode-today/bin/opencode");
        // Short, because a socket's path must be.
        let out = tempfile::Builder::new().prefix("ts-").tempdir()?;
        Ok(Self { scripts, opencode, out })
    }

    /// Runs a script to its end; a failure contains its output.
    fn run_script(&self, script: &str, args: &[&str]) -> TestResult<Value> {
        self.run_script_with(&required_tools::find_program("node")?, script, args)
    }

    /// The same under another runtime than Node.js.
    #[expect(clippy::disallowed_methods, reason = "tests drive the real clients themselves")]
    fn run_script_with(&self, runtime: &Path, script: &str, args: &[&str]) -> TestResult<Value> {
        let mut command = Command::new(runtime);
        let output = command.arg(script).args(args).current_dir(&self.scripts).output()?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_str(&stdout)?);
        }
        Err(format!("{script}: {stdout}{}", String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Bun as npm brings it for this machine; its package needs no script to be installed.
    fn find_bun(&self) -> TestResult<PathBuf> {
        for entry in fs_err::read_dir(self.scripts.join("node_modules/@oven"))? {
            let program = entry?.path().join("bin/bun");
            if program.is_file() {
                return Ok(program);
            }
        }
        Err("npm has no Bun for this machine".into())
    }

    fn output_dir(&self) -> String {
        self.out.path().to_string_lossy().into_owned()
    }
}

fn turnstone_program() -> &'static str {
    env!("CARGO_BIN_EXE_turnstone")
}

#[test]
fn sdk_gets_the_same_answers_and_events_as_from_opencode() -> TestResult {
    let clients = InteropClients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients
        .run_script("compare.mjs", &[turnstone_program(), &opencode, &clients.output_dir()])?;

    assert_eq!(report["unexpected"], Value::Array(Vec::new()), "{report:#}");
    assert!(report["same"].as_u64() >= Some(100), "{report:#}");
    Ok(())
}

#[test]
fn the_sdk_works_the_same_under_node_and_bun() -> TestResult {
    let clients = InteropClients::install()?;

    let node = clients.run_script("sdk.mjs", &[turnstone_program(), &clients.output_dir()])?;
    let bun = clients.run_script_with(
        &clients.find_bun()?,
        "sdk.mjs",
        &[turnstone_program(), &clients.output_dir()],
    )?;

    assert_eq!((&node["runtime"], &bun["runtime"]), (&"node".into(), &"bun".into()));
    assert_eq!(node["answers"], bun["answers"]);
    assert_eq!(node["heard"], bun["heard"]);
    let answers = bun["answers"].as_array().ok_or("no answers")?;
    let succeeded = answers.iter().filter(|answer| answer["status"] == 200).count();
    assert!(succeeded >= 100, "{bun:#}");
    assert!(answers.iter().all(|a| a["status"] != 0), "{bun:#}");
    Ok(())
}

/// Every way in which a web page can send a request, from another port of the machine and from another name, on a
/// server without a password and on one whose password the browser knows.
#[test]
fn foreign_web_pages_are_blocked_and_allowed_origins_work() -> TestResult {
    let clients = InteropClients::install()?;
    let chromium = required_tools::find_program("chromium")?;
    let chromium = chromium.to_string_lossy().into_owned();

    let report = clients.run_script(
        "foreign-pages.mjs",
        &[turnstone_program(), &chromium, &clients.output_dir()],
    )?;

    let none = Value::Array(Vec::new());
    assert_eq!(report["foreign"], none, "answered with another status than 403: {report:#}");
    assert_eq!(report["revealed"], none, "{report:#}");
    assert_eq!(report["changed"], none, "{report:#}");
    assert_eq!(report["typed"], none, "{report:#}");
    assert_eq!(report["attacks"], 4 * 21, "{report:#}");
    assert!(report["forbidden"].as_u64() >= report["attacks"].as_u64(), "{report:#}");
    assert_eq!(report["rebound"], 421, "{report:#}");
    let works = serde_json::json!({ "listed": true, "posted": 200, "streamed": "server.connected",
        "attached": "open" });
    assert_eq!(report["allowed"], serde_json::json!([works, works, works]), "{report:#}");
    Ok(())
}

#[test]
fn opencode_tui_works_and_survives_a_server_crash() -> TestResult {
    let clients = InteropClients::install()?;
    required_tools::find_program("tmux")?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report =
        clients.run_script("tui.mjs", &[turnstone_program(), &opencode, &clients.output_dir()])?;

    assert_eq!(report["done"].as_array().map(Vec::len), Some(12), "{report:#}");
    Ok(())
}

/// The server's own agent, as a person sees it.
#[test]
fn opencode_tui_works_with_the_agent_of_the_server() -> TestResult {
    let clients = InteropClients::install()?;
    required_tools::find_program("tmux")?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients
        .run_script("agent-tui.mjs", &[turnstone_program(), &opencode, &clients.output_dir()])?;

    assert_eq!(report["done"].as_array().map(Vec::len), Some(11), "{report:#}");
    Ok(())
}

/// The example that docs/http.md names, as a person sees it.
#[test]
fn opencode_tui_shows_what_the_example_runner_does() -> TestResult {
    let clients = InteropClients::install()?;
    required_tools::find_program("tmux")?;
    let python = required_tools::find_program("python3")?.to_string_lossy().into_owned();
    let opencode = clients.opencode.to_string_lossy().into_owned();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/runner.py");

    let report = clients.run_script(
        "runner-example.mjs",
        &[turnstone_program(), &opencode, &python, example, &clients.output_dir()],
    )?;

    assert_eq!(report["done"].as_array().map(Vec::len), Some(5), "{report:#}");
    Ok(())
}

#[test]
fn opencode_run_prints_the_same_on_both_servers() -> TestResult {
    let clients = InteropClients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients
        .run_script("opencode-run.mjs", &[turnstone_program(), &opencode, &clients.output_dir()])?;

    assert_eq!(report["unexpected"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["same"].as_array().map(Vec::len), Some(12), "{report:#}");
    Ok(())
}

/// `opencode run --attach` is one executable with Bun inside: under Node.js, the SDK asks what it asks.
#[test]
fn steps_of_run_attach_work_the_same_under_node_and_bun() -> TestResult {
    let clients = InteropClients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();
    let args = [turnstone_program(), &opencode, &clients.output_dir()];

    let node = clients.run_script("attach.mjs", &args)?;
    let bun = clients.run_script_with(&clients.find_bun()?, "attach.mjs", &args)?;

    assert_eq!((&node["runtime"], &bun["runtime"]), (&"node".into(), &"bun".into()));
    for field in ["parts", "output", "shell", "heard", "made"] {
        assert_eq!(node[field], bun[field], "{field}");
    }
    assert_eq!(node["output"], serde_json::json!(["from bash\n"]), "{node:#}");
    assert_eq!(node["shell"], serde_json::json!(["from shell\n"]), "{node:#}");
    assert_eq!(node["made"], "by attach\n", "{node:#}");
    Ok(())
}

/// The steps of OpenCode's web client: the SDK for requests, a WebSocket for input and output.
#[test]
fn terminals_work_for_the_sdk_and_a_web_socket_as_on_opencode() -> TestResult {
    let clients = InteropClients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients.run_script_with(
        &clients.find_bun()?,
        "pty.mjs",
        &[turnstone_program(), &opencode, &clients.output_dir()],
    )?;

    assert_eq!(report["different"], serde_json::json!({}), "{report:#}");
    assert!(report["same"].as_array().map(Vec::len) >= Some(20), "{report:#}");
    Ok(())
}

/// R22, R25: fifty clients, three kills; the seed is printed by a failure.
#[test]
fn kill_loses_no_acknowledged_write_and_no_stream_event() -> TestResult {
    let clients = InteropClients::install()?;

    let report =
        clients.run_script("crash.mjs", &[turnstone_program(), &clients.output_dir(), "3"])?;

    assert!(report["looked"].as_u64() >= Some(100), "{report:#}");
    Ok(())
}
