//! Commands around a call: hooks before and after it, and formatters of the files it writes. What they write
//! belongs to the call.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use turnstone_engine::{
    CallCommand, CallCommandEnd, CommandExit, FileWriteRequest, ToolFileAccess, WritePrecondition,
};

use super::bash::{CommandOutput, GRACE, call_environment, run_watched};
use super::bounded_output::spill_path;
use super::file_change::file_failure;
use super::{CommandSettings, FileFormatter, ToolError, ToolHost, ToolOutputLimits};

/// How long a hook or a formatter may take unless its setting says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);
/// What is read of its output.
const OUTPUT_LIMITS: ToolOutputLimits = ToolOutputLimits { lines: 200, bytes: 8 << 10 };
/// Longer arguments of a tool are not handed to a hook: a variable cannot hold them.
const MAX_INPUT_BYTES: usize = 64 << 10;
/// What stands for the file in the words of a formatter.
const FILE_WORD: &str = "$FILE";
/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// A command that runs before or after calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables that it gets besides those of every command.
    pub environment: Vec<(String, String)>,
    /// How long it may take; a minute if nothing else is set.
    pub timeout: Option<Duration>,
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookMoment {
    /// Before the call: if the hook fails, the call does.
    Before,
    /// After the call.
    After,
}

/// A formatter of files with some extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatterCommand {
    /// The program and its arguments; `$FILE` stands for the file.
    pub command: HookCommand,
    /// The extensions, with their dots.
    pub extensions: Vec<String>,
}

/// Formats files with the commands of the configuration.
#[derive(Clone, Debug)]
pub struct CommandFormatter {
    /// How commands are run.
    pub commands: CommandSettings,
    /// The formatters: all that fit a file run, in this order.
    pub formatters: Vec<FormatterCommand>,
}

/// Runs a hook inside a call.
///
/// It finds `TURNSTONE_HOOK` (`before` or `after`), `TURNSTONE_TOOL` and `TURNSTONE_TOOL_INPUT`, the arguments as JSON, in
/// its variables; arguments over 64 KiB are left out.
///
/// # Errors
///
/// The hook could not be started, exited with another code than 0, or took too long; with its output.
pub fn run_hook(
    host: &dyn ToolHost,
    commands: &CommandSettings,
    hook: &HookCommand,
    (moment, tool, input): (HookMoment, &str, &Value),
) -> Result<(), ToolError> {
    let mut hook = hook.clone();
    let mut set = |name: &str, value: String| hook.environment.push((name.to_owned(), value));
    let moment = match moment {
        HookMoment::Before => "before",
        HookMoment::After => "after",
    };
    set("TURNSTONE_HOOK", moment.to_owned());
    set("TURNSTONE_TOOL", tool.to_owned());
    let input = input.to_string();
    if input.len() <= MAX_INPUT_BYTES {
        set("TURNSTONE_TOOL_INPUT", input);
    }
    run_command(host, commands, &hook, ToolFileAccess::Anything)
        .map_err(|why| ToolError::failed(format!("The hook {moment} {tool} failed: {why}")))
}

/// Runs a command inside a call; says why it failed.
fn run_command(
    host: &dyn ToolHost,
    commands: &CommandSettings,
    command: &HookCommand,
    access: ToolFileAccess,
) -> Result<(), String> {
    let limit = command.timeout.unwrap_or(TIMEOUT);
    let Some((program, args)) = command.words.split_first() else {
        return Err("it has no command".to_owned());
    };
    let mut environment = call_environment(host, commands);
    let own = command.environment.iter();
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    let command = CallCommand {
        supervisor: commands.supervisor.clone(),
        program: OsString::from(program),
        args: args.iter().map(OsString::from).collect(),
        directory: host.scope().directory.clone(),
        environment,
        access,
        is_traced: commands.is_traced,
        grace: GRACE,
    };
    let output = CommandOutput::new(OUTPUT_LIMITS, &spill_path(host).with_extension("hook"));
    let ran = run_watched(host, &command, limit, (&output, None));
    let (report, stop) = ran.map_err(|error| error.to_string())?;
    match (report.end, stop) {
        (CallCommandEnd::Exited(CommandExit::Code(0)), None) => Ok(()),
        (CallCommandEnd::Exited(_), Some(_)) => Err("it was ended before it was done".to_owned()),
        (CallCommandEnd::Exited(exit), None) => {
            let words = output.finish().text;
            Err(format!("it exited with code {}\n{}", exit.code(), words.trim_end()))
        }
        (CallCommandEnd::NotStarted(why) | CallCommandEnd::Lost(why), _) => Err(why),
    }
}

impl FileFormatter for CommandFormatter {
    fn format(&self, host: &dyn ToolHost, files: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
        let mut formatted = Vec::new();
        for file in files {
            let extension = file.extension().map(|it| format!(".{}", it.to_string_lossy()));
            let fits = |one: &&FormatterCommand| {
                extension.as_ref().is_some_and(|it| one.extensions.contains(it))
            };
            let had_bom = starts_with_bom(file);
            let mut has_run = false;
            for formatter in self.formatters.iter().filter(fits) {
                if host.abort().is_requested() {
                    return Err(ToolError::Aborted);
                }
                let mut command = formatter.command.clone();
                for word in &mut command.words {
                    *word = word.replace(FILE_WORD, &file.to_string_lossy());
                }
                let access = ToolFileAccess::Named(vec![file.clone()]);
                // A formatter that fails leaves the file as it is.
                if let Err(why) = run_command(host, &self.commands, &command, access) {
                    tracing::info!("a formatter failed: {why}");
                }
                has_run = true;
            }
            if has_run {
                restore_bom(host, file, had_bom)?;
                formatted.push(file.clone());
            }
        }
        Ok(formatted)
    }
}

fn starts_with_bom(file: &Path) -> bool {
    fs_err::read(file).is_ok_and(|bytes| bytes.starts_with(BOM))
}

/// Puts a byte order mark back that a formatter has removed.
fn restore_bom(host: &dyn ToolHost, file: &Path, had_bom: bool) -> Result<(), ToolError> {
    if !had_bom || starts_with_bom(file) {
        return Ok(());
    }
    let calls = host.engine().tool_calls();
    let found =
        calls.view_file(&host.context(), &host.scope().session, file).map_err(file_failure)?;
    let bytes = [BOM, found.bytes.as_deref().unwrap_or_default()].concat();
    let write = FileWriteRequest {
        path: file.to_owned(),
        expected: WritePrecondition::Stamp(found.stamp),
        bytes: Some(bytes),
    };
    let written = calls.write_file(&host.context(), host.turn(), Some(host.part()), &write);
    written.map(drop).map_err(file_failure)
}
