//! A temporary project, the program running in it, and the output of the tour.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::app::CliApp;
use crate::error::CliError;
use crate::exit_code::BUG_REPORT_HINT;
use crate::text;
use crate::ui::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, ID_STYLE, SUCCESS_STYLE, Ui, apply_style,
    restore_style_marks,
};

/// How often and how long to wait for a signal file.
const MAX_POLLS: u32 = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Output and exit code of a command.
pub(super) struct TourCommandOutput {
    pub(super) out: String,
    pub(super) err: String,
    pub(super) code: i32,
}

/// A command running in the background; killed when dropped.
pub(super) struct BackgroundCommand(Option<Child>);

impl BackgroundCommand {
    /// Kills the command; returns whether that worked.
    pub(super) fn kill(&mut self) -> bool {
        let Some(mut child) = self.0.take() else { return false };
        child.kill().and_then(|()| child.wait()).is_ok()
    }
}

impl Drop for BackgroundCommand {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The temporary project of the tour.
pub(super) struct TourSandbox<'a> {
    ui: &'a mut Ui,
    program: PathBuf,
    path: OsString,
    /// Contains all files; removed at the end.
    folder: tempfile::TempDir,
    claims: Vec<String>,
}

impl<'a> TourSandbox<'a> {
    /// Creates the project.
    pub(super) fn create(ui: &'a mut Ui, app: &CliApp) -> Result<Self, CliError> {
        let folder = tempfile::Builder::new().prefix("turnstone-tour-").tempdir();
        let folder = folder.map_err(file_error("cannot create a temporary directory"))?;
        for name in ["project", "home", "run", "signal"] {
            let made = fs_err::create_dir(folder.path().join(name));
            made.map_err(file_error("cannot create a temporary directory"))?;
        }
        let path = app.environment_variables().iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.clone()).unwrap_or_default();
        let program = app.executable_path()?.to_owned();
        let mut sandbox = Self { ui, program, path, folder, claims: Vec::new() };
        sandbox.print(&format!("Temporary project: {}", sandbox.project().display()))?;
        Ok(sandbox)
    }

    /// Removes all files and returns the statements that were checked.
    pub(super) fn tear_down(self) -> Result<Vec<String>, CliError> {
        let Self { ui, folder, mut claims, .. } = self;
        let path = folder.path().to_owned();
        folder.close().map_err(file_error("cannot remove the temporary project"))?;
        if path.exists() {
            return Err(claim_error("all temporary files are removed"));
        }
        claims.push("all temporary files are removed".to_owned());
        if !ui.wants_json() {
            ui.print_line(&format!(
                "\n{} all temporary files are removed",
                apply_style(SUCCESS_STYLE, "✓")
            ))?;
            ui.print_line("\nNow try it: `turnstone run \"...\"` or `turnstone exec -- YOUR-AGENT`, then `turnstone undo`.")?;
        }
        Ok(claims)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// A file outside of the project for synchronization between commands.
    pub(super) fn signal_file(&self, name: &str) -> PathBuf {
        self.folder.path().join("signal").join(name)
    }

    /// Prints a line.
    pub(super) fn print(&mut self, text: &str) -> Result<(), CliError> {
        if self.ui.wants_json() { Ok(()) } else { self.ui.print_line(text) }
    }

    /// Prints a heading.
    pub(super) fn print_heading(&mut self, title: &str) -> Result<(), CliError> {
        self.print(&format!("\n{}", apply_style(HEADING_STYLE, title)))
    }

    /// Writes a file as the user would.
    pub(super) fn edit_by_hand(
        &mut self,
        name: &str,
        content: &str,
        text: &str,
    ) -> Result<(), CliError> {
        let written = fs_err::write(self.project().join(name), content);
        written.map_err(file_error("cannot write in the temporary project"))?;
        self.print(&apply_style(DIM_STYLE, format!("# {text}")))
    }

    /// Content of a file; `None` if it does not exist.
    pub(super) fn read_file(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.project().join(name)).ok()
    }

    /// Runs the program, prints its output, and expects this exit code.
    pub(super) fn run(&mut self, args: &[&str], code: i32) -> Result<TourCommandOutput, CliError> {
        self.show_command(args)?;
        let child = self.start_quietly(args)?;
        self.finish(child, args, code)
    }

    /// Runs the program without printing its output.
    pub(super) fn run_silently(&mut self, args: &[&str]) -> Result<TourCommandOutput, CliError> {
        let child = self.start_quietly(args)?;
        let ran = wait_for_output(child)?;
        if ran.code == 0 { Ok(ran) } else { Err(exit_code_error(args, &ran)) }
    }

    /// Starts the program in the background.
    pub(super) fn start(&mut self, args: &[&str]) -> Result<BackgroundCommand, CliError> {
        self.show_command(args)?;
        self.start_quietly(args)
    }

    /// Waits for the program, prints its output, and expects this exit code.
    pub(super) fn finish(
        &mut self,
        child: BackgroundCommand,
        args: &[&str],
        code: i32,
    ) -> Result<TourCommandOutput, CliError> {
        let ran = wait_for_output(child)?;
        for line in ran.out.lines().chain(ran.err.lines()) {
            self.print(&format!("  {}", restore_style_marks(line)))?;
        }
        if ran.code == code { Ok(ran) } else { Err(exit_code_error(args, &ran)) }
    }

    #[expect(clippy::disallowed_methods, reason = "the tour runs this program as a user would")]
    fn start_quietly(&self, args: &[&str]) -> Result<BackgroundCommand, CliError> {
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
        started
            .map(|child| BackgroundCommand(Some(child)))
            .map_err(file_error("cannot run this program again"))
    }

    fn show_command(&mut self, args: &[&str]) -> Result<(), CliError> {
        let words: Vec<OsString> = args.iter().map(OsString::from).collect();
        let line = text::sanitize_line(&crate::command::exec::quote_command(&words));
        self.print(&format!(
            "{} {}",
            apply_style(DIM_STYLE, "$"),
            apply_style(ID_STYLE, format!("turnstone {line}"))
        ))
    }

    /// Waits for a signal file.
    pub(super) fn wait_for_signal(&self, name: &str) -> Result<(), CliError> {
        let path = self.signal_file(name);
        for _ in 0..MAX_POLLS {
            if path.exists() {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(claim_error("every command reaches its signal in time"))
    }

    /// Waits until a file of the project contains a text.
    pub(super) fn wait_for_content(&self, name: &str, text: &str) -> Result<(), CliError> {
        for _ in 0..MAX_POLLS {
            if self.read_file(name).is_some_and(|content| content.contains(text)) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(claim_error("the agent reaches its next step in time"))
    }

    /// Waits until the change of a file is recorded.
    pub(super) fn wait_for_recorded(&mut self, name: &str) -> Result<(), CliError> {
        for _ in 0..MAX_POLLS {
            if self.run_silently(&["log", "--limit", "1"])?.out.contains(name) {
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(claim_error("the agent's change is recorded in time"))
    }

    /// Writes a file outside of the project; returns its path.
    pub(super) fn write_aside(&self, name: &str, content: &str) -> Result<String, CliError> {
        let path = self.folder.path().join(name);
        fs_err::write(&path, content).map_err(file_error("cannot write a file of the tour"))?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Creates a signal file.
    pub(super) fn create_signal(&self, name: &str) -> Result<(), CliError> {
        fs_err::write(self.signal_file(name), "").map_err(file_error("cannot create a signal file"))
    }

    /// Prints the lines that differ.
    pub(super) fn print_line_diff(&mut self, before: &str, after: &str) -> Result<(), CliError> {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.lines().collect(), after.lines().collect());
        for line in old.iter().filter(|line| !new.contains(line)) {
            self.print(&apply_style(ERROR_STYLE, format!("  - {line}")))?;
        }
        for line in new.iter().filter(|line| !old.contains(line)) {
            self.print(&apply_style(SUCCESS_STYLE, format!("  + {line}")))?;
        }
        Ok(())
    }

    /// Prints a statement that was just checked.
    pub(super) fn check_claim(&mut self, holds: bool, text: &str) -> Result<(), CliError> {
        if !holds {
            return Err(claim_error(text));
        }
        self.claims.push(text.to_owned());
        self.print(&format!("{} {text}", apply_style(SUCCESS_STYLE, "✓")))
    }
}

fn wait_for_output(mut child: BackgroundCommand) -> Result<TourCommandOutput, CliError> {
    let child = child.0.take().ok_or_else(|| claim_error("every command runs once"))?;
    let output = child.wait_with_output().map_err(file_error("cannot wait for the program"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(TourCommandOutput { out: text(output.stdout), err: text(output.stderr), code })
}

fn file_error(what: &str) -> impl FnOnce(std::io::Error) -> CliError + use<> {
    let what = what.to_owned();
    move |source| CliError::File { what, source }
}

fn claim_error(text: &str) -> CliError {
    let what = format!("check failed: {text}");
    CliError::Refused { what, hint: Some(BUG_REPORT_HINT.to_owned()) }
}

fn exit_code_error(args: &[&str], ran: &TourCommandOutput) -> CliError {
    let text = format!("`turnstone {}` exited with {}: {}", args.join(" "), ran.code, ran.err);
    claim_error(text.trim_end())
}
