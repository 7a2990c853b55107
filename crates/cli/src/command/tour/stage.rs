//! The stage: a temporary project, the program in it, and what is said about both.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::app::App;
use crate::error::CliError;
use crate::exit::REPORT;
use crate::text;
use crate::ui::{BAD, DIM, GOOD, HEAD, NAME, Ui, adopt, paint};

/// How long one thing may take: so many looks, so long apart.
const LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(25);

/// How a command ended.
pub(super) struct Ran {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: i32,
}

/// A command that runs meanwhile; killed if the tour ends before it.
pub(super) struct Meanwhile(Option<Child>);

impl Meanwhile {
    /// Kills it, and says whether that worked.
    pub(super) fn kill(&mut self) -> bool {
        let Some(mut child) = self.0.take() else { return false };
        child.kill().and_then(|()| child.wait()).is_ok()
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where the tour is played.
pub(super) struct Stage<'a> {
    ui: &'a mut Ui,
    program: PathBuf,
    path: OsString,
    /// Holds everything; gone with the tour.
    folder: tempfile::TempDir,
    claims: Vec<String>,
}

impl<'a> Stage<'a> {
    /// Makes the project.
    pub(super) fn build(ui: &'a mut Ui, app: &App) -> Result<Self, CliError> {
        let folder = tempfile::Builder::new().prefix("turnstone-tour-").tempdir();
        let folder = folder.map_err(failed("cannot make a temporary directory"))?;
        for name in ["project", "home", "run", "signal"] {
            let made = fs_err::create_dir(folder.path().join(name));
            made.map_err(failed("cannot make a temporary directory"))?;
        }
        let path = app.variables().iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
        let program = app.program()?.to_owned();
        let mut stage = Self { ui, program, path, folder, claims: Vec::new() };
        stage.say(&format!("A project for this tour: {}", stage.project().display()))?;
        Ok(stage)
    }

    /// Takes everything away and returns what was claimed.
    pub(super) fn strike(self) -> Result<Vec<String>, CliError> {
        let Self { ui, folder, mut claims, .. } = self;
        let place = folder.path().to_owned();
        folder.close().map_err(failed("cannot remove the temporary project"))?;
        if place.exists() {
            return Err(broken("nothing is left behind"));
        }
        claims.push("nothing is left behind".to_owned());
        if !ui.wants_json() {
            ui.line(&format!("\n{} nothing is left behind", paint(GOOD, "✓")))?;
            ui.line("\nYour turn: `turnstone exec -- YOUR-AGENT`, then `turnstone undo`.")?;
        }
        Ok(claims)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// A file outside of the project with which commands tell each other how far they are.
    fn signal(&self, name: &str) -> PathBuf {
        self.folder.path().join("signal").join(name)
    }

    /// Says something.
    pub(super) fn say(&mut self, words: &str) -> Result<(), CliError> {
        if self.ui.wants_json() { Ok(()) } else { self.ui.line(words) }
    }

    /// Begins a scene.
    pub(super) fn scene(&mut self, title: &str) -> Result<(), CliError> {
        self.say(&format!("\n{}", paint(HEAD, title)))
    }

    /// What a person does to a file, by hand.
    pub(super) fn edit(&mut self, name: &str, content: &str, words: &str) -> Result<(), CliError> {
        let written = fs_err::write(self.project().join(name), content);
        written.map_err(failed("cannot write in the temporary project"))?;
        self.say(&paint(DIM, format!("# {words}")))
    }

    /// What a file holds; nothing if it is not there.
    pub(super) fn read(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.project().join(name)).ok()
    }

    /// Runs the program, shows what it says, and wants this exit code.
    pub(super) fn run(&mut self, args: &[&str], code: i32) -> Result<Ran, CliError> {
        self.show_command(args)?;
        let child = self.start_quietly(args)?;
        self.finish(child, args, code)
    }

    /// Runs the program for an answer that is not shown.
    pub(super) fn ask(&mut self, args: &[&str]) -> Result<Ran, CliError> {
        let child = self.start_quietly(args)?;
        let ran = wait(child)?;
        if ran.code == 0 { Ok(ran) } else { Err(unexpected(args, &ran)) }
    }

    /// Starts the program and does not wait for it.
    pub(super) fn start(&mut self, args: &[&str]) -> Result<Meanwhile, CliError> {
        self.show_command(args)?;
        self.start_quietly(args)
    }

    /// Waits for the program, shows what it said, and wants this exit code.
    pub(super) fn finish(
        &mut self,
        child: Meanwhile,
        args: &[&str],
        code: i32,
    ) -> Result<Ran, CliError> {
        let ran = wait(child)?;
        for line in ran.out.lines().chain(ran.err.lines()) {
            self.say(&format!("  {}", adopt(line)))?;
        }
        if ran.code == code { Ok(ran) } else { Err(unexpected(args, &ran)) }
    }

    #[expect(clippy::disallowed_methods, reason = "the tour runs this program as a person would")]
    fn start_quietly(&self, args: &[&str]) -> Result<Meanwhile, CliError> {
        let below = |name: &str| self.folder.path().join(name);
        let colour = if self.ui.has_colour() { "always" } else { "never" };
        let started = Command::new(&self.program)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", below("home"))
            .env("USER", "tour")
            .env("TURNSTONE_DATA", below("data"))
            .env("XDG_RUNTIME_DIR", below("run"))
            .args(["--color", colour])
            .args(args)
            .current_dir(self.project())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        started.map(|child| Meanwhile(Some(child))).map_err(failed("cannot run this program again"))
    }

    fn show_command(&mut self, args: &[&str]) -> Result<(), CliError> {
        let words: Vec<OsString> = args.iter().map(OsString::from).collect();
        let line = text::clean_line(&crate::command::exec::line(&words));
        self.say(&format!("{} {}", paint(DIM, "$"), paint(NAME, format!("turnstone {line}"))))
    }

    /// Waits until a command has left its signal.
    pub(super) fn wait_for(&self, name: &str) -> Result<(), CliError> {
        let path = self.signal(name);
        for _ in 0..LOOKS {
            if path.exists() {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        Err(broken("every command gets to its point in time"))
    }

    /// Gives a signal.
    pub(super) fn give(&self, name: &str) -> Result<(), CliError> {
        fs_err::write(self.signal(name), "").map_err(failed("cannot write a signal"))
    }

    /// Shows which lines of a file differ.
    pub(super) fn diff(&mut self, before: &str, after: &str) -> Result<(), CliError> {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.lines().collect(), after.lines().collect());
        for line in old.iter().filter(|line| !new.contains(line)) {
            self.say(&paint(BAD, format!("  - {line}")))?;
        }
        for line in new.iter().filter(|line| !old.contains(line)) {
            self.say(&paint(GOOD, format!("  + {line}")))?;
        }
        Ok(())
    }

    /// Claims something that was just compared.
    pub(super) fn claim(&mut self, holds: bool, words: &str) -> Result<(), CliError> {
        if !holds {
            return Err(broken(words));
        }
        self.claims.push(words.to_owned());
        self.say(&format!("{} {words}", paint(GOOD, "✓")))
    }
}

fn wait(mut child: Meanwhile) -> Result<Ran, CliError> {
    let child = child.0.take().ok_or_else(|| broken("every command runs once"))?;
    let output = child.wait_with_output().map_err(failed("cannot wait for the program"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(Ran { out: text(output.stdout), err: text(output.stderr), code })
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> CliError + use<> {
    let what = what.to_owned();
    move |source| CliError::File { what, source }
}

fn broken(words: &str) -> CliError {
    let what = format!("this did not hold: {words}");
    CliError::Refused { what, hint: Some(REPORT.to_owned()) }
}

fn unexpected(args: &[&str], ran: &Ran) -> CliError {
    let words = format!("`turnstone {}` ended with {}: {}", args.join(" "), ran.code, ran.err);
    broken(words.trim_end())
}
