//! The real clients at work on `turnstone serve`: the SDK, the terminal client, web pages in Chromium, and a plug
//! that is pulled.
//!
//! `interop/client` holds the scripts and pins the SDK, Bun and Playwright, `interop/opencode` the program itself;
//! Node, npm, git, tmux and Chromium are needed. Only loopback and the npm client use a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use turnstone_testkit::{npm, require};

type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The scripts with the packages they need, and the real program.
struct Clients {
    scripts: PathBuf,
    opencode: PathBuf,
    out: tempfile::TempDir,
}

impl Clients {
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

    /// Runs a script to its end; what it says of a failure is the failure.
    fn run(&self, script: &str, words: &[&str]) -> TestResult<Value> {
        self.run_under(&require::program("node")?, script, words)
    }

    /// The same under another runtime than Node.js.
    #[expect(clippy::disallowed_methods, reason = "tests drive the real clients themselves")]
    fn run_under(&self, runtime: &Path, script: &str, words: &[&str]) -> TestResult<Value> {
        let mut command = Command::new(runtime);
        let output = command.arg(script).args(words).current_dir(&self.scripts).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_str(&said)?);
        }
        Err(format!("{script}: {said}{}", String::from_utf8_lossy(&output.stderr)).into())
    }

    /// Bun as npm brings it for this machine; its package needs no script to be installed.
    fn bun(&self) -> TestResult<PathBuf> {
        for entry in fs_err::read_dir(self.scripts.join("node_modules/@oven"))? {
            let program = entry?.path().join("bin/bun");
            if program.is_file() {
                return Ok(program);
            }
        }
        Err("npm has no Bun for this machine".into())
    }

    fn out(&self) -> String {
        self.out.path().to_string_lossy().into_owned()
    }
}

fn turnstone() -> &'static str {
    env!("CARGO_BIN_EXE_turnstone")
}

#[test]
fn the_sdk_gets_the_answers_and_events_that_opencode_gives() -> TestResult {
    let clients = Clients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients.run("compare.mjs", &[turnstone(), &opencode, &clients.out()])?;

    assert_eq!(report["unexpected"], Value::Array(Vec::new()), "{report:#}");
    assert!(report["same"].as_u64() >= Some(100), "{report:#}");
    Ok(())
}

#[test]
fn the_sdk_works_the_same_under_node_and_bun() -> TestResult {
    let clients = Clients::install()?;

    let node = clients.run("sdk.mjs", &[turnstone(), &clients.out()])?;
    let bun = clients.run_under(&clients.bun()?, "sdk.mjs", &[turnstone(), &clients.out()])?;

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
fn foreign_pages_in_chromium_reach_nothing_and_allowed_pages_work() -> TestResult {
    let clients = Clients::install()?;
    let chromium = require::program("chromium")?;
    let chromium = chromium.to_string_lossy().into_owned();

    let report = clients.run("pages.mjs", &[turnstone(), &chromium, &clients.out()])?;

    let none = Value::Array(Vec::new());
    assert_eq!(report["foreign"], none, "answered with another status than 403: {report:#}");
    assert_eq!(report["revealed"], none, "{report:#}");
    assert_eq!(report["changed"], none, "{report:#}");
    assert_eq!(report["attacks"], 4 * 19, "{report:#}");
    assert!(report["forbidden"].as_u64() >= report["attacks"].as_u64(), "{report:#}");
    assert_eq!(report["rebound"], 421, "{report:#}");
    let works =
        serde_json::json!({ "listed": true, "posted": 200, "streamed": "server.connected" });
    assert_eq!(report["allowed"], serde_json::json!([works, works, works]), "{report:#}");
    Ok(())
}

#[test]
fn the_real_terminal_client_works_and_goes_on_after_a_crash() -> TestResult {
    let clients = Clients::install()?;
    require::program("tmux")?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients.run("tui.mjs", &[turnstone(), &opencode, &clients.out()])?;

    assert_eq!(report["done"].as_array().map(Vec::len), Some(12), "{report:#}");
    Ok(())
}

#[test]
fn the_real_program_runs_prompts_on_our_server_as_on_its_own() -> TestResult {
    let clients = Clients::install()?;
    let opencode = clients.opencode.to_string_lossy().into_owned();

    let report = clients.run("run.mjs", &[turnstone(), &opencode, &clients.out()])?;

    assert_eq!(report["unexpected"], Value::Array(Vec::new()), "{report:#}");
    assert_eq!(report["same"].as_array().map(Vec::len), Some(12), "{report:#}");
    Ok(())
}

/// R22, R25: fifty clients, three kills; the seed is printed by a failure.
#[test]
fn nothing_acknowledged_is_lost_and_no_stream_misses_anything_when_the_server_is_killed()
-> TestResult {
    let clients = Clients::install()?;

    let report = clients.run("crash.mjs", &[turnstone(), &clients.out(), "3"])?;

    assert!(report["looked"].as_u64() >= Some(100), "{report:#}");
    Ok(())
}
