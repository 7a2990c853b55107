//! The real clients at work on `turnstone serve`: the SDK, the terminal client, and a plug that is pulled.
//!
//! `interop/client` holds the scripts and pins the SDK, `interop/opencode` the program itself; Node, npm,
//! git and tmux are needed. Only loopback and the npm client use a network.

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
    #[expect(clippy::disallowed_methods, reason = "tests drive the real clients themselves")]
    fn run(&self, script: &str, words: &[&str]) -> TestResult<Value> {
        let node = require::program("node")?;
        let output =
            Command::new(node).arg(script).args(words).current_dir(&self.scripts).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(serde_json::from_str(&said)?);
        }
        Err(format!("{script}: {said}{}", String::from_utf8_lossy(&output.stderr)).into())
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
