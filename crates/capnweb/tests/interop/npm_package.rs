//! Installing and running the npm package.
#![expect(clippy::disallowed_methods, reason = "these tests start Node and lock a directory")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fs_err as fs;

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// The directory with the packages, installed once per state of the recipe.
pub(crate) fn install() -> TestResult<PathBuf> {
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/capnweb");
    let recipes = ["package.json", "package-lock.json", ".npmrc"];
    let scripts = ["client.mjs", "disposing-client.mjs", "server.mjs", "write-vectors.mjs"];
    let files = recipes.into_iter().chain(scripts);
    let mut hasher = DefaultHasher::new();
    for file in files.clone() {
        fs::read(recipe.join(file))?.hash(&mut hasher);
    }
    let name = format!("capnweb-{:016x}", hasher.finish());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&dir)?;
    let guard = std::fs::File::create(dir.join("lock"))?;
    guard.lock()?;
    if !dir.join("done").exists() {
        for file in files {
            fs::copy(recipe.join(file), dir.join(file))?;
        }
        run(Command::new("npm").arg("ci").current_dir(&dir))?;
        fs::write(dir.join("done"), "")?;
    }
    Ok(dir)
}

/// Runs a command; a missing program is a failure that says what to install.
pub(crate) fn run(command: &mut Command) -> TestResult {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| missing_program(&name, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} failed with {}: {said}", output.status).into())
}

fn missing_program(name: &str, error: &std::io::Error) -> String {
    format!("{name} cannot be run ({error}): install Node.js 20 or newer with npm")
}

/// Runs a script with a version and an address.
pub(crate) fn script(name: &str, version: &str, url: &str) -> TestResult {
    let dir = install()?;
    run(Command::new("node").args([name, version, url]).current_dir(dir))
}

/// Writes the golden vectors again and returns where they are.
pub(crate) fn generate_vectors() -> TestResult<PathBuf> {
    let dir = install()?;
    let out = dir.join("vectors");
    fs::create_dir_all(&out)?;
    run(Command::new("node").arg("write-vectors.mjs").arg(&out).current_dir(dir))?;
    Ok(out)
}

/// A server of the npm package; it ends with this value.
pub(crate) struct NpmServer {
    child: Child,
    pub(crate) url: String,
}

impl NpmServer {
    pub(crate) fn start(version: &str) -> TestResult<Self> {
        let dir = install()?;
        let mut command = Command::new("node");
        command.args(["server.mjs", version]).current_dir(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| missing_program("node", &error))?;
        let out = child.stdout.take().ok_or("the server has no output")?;
        let mut url = String::new();
        BufReader::new(out).read_line(&mut url)?;
        let url = url.trim().to_owned();
        Ok(Self { child, url })
    }

    pub(crate) fn socket_url(&self) -> String {
        self.url.replacen("http", "ws", 1)
    }
}

impl Drop for NpmServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
