//! Running a command line for a model.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};
use turnstone_engine::{
    CallCommand, CallCommandEnd, CallCommandReport, CommandExit, ToolFileAccess,
};

use super::command_line::{CommandLine, read_command_line};
use super::command_output::{CommandOutput, MAX_LIVE_BYTES};
use super::environment::call_environment;
use super::shell_word::ShellKnowledge;
use super::watched_command::{CommandStop, GRACE, run_watched};
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::bounded_output::spill_path;
use crate::tool::input::ToolInput;
use crate::tool::reply::into_fields;
use crate::tool::schema::{integer, string, tool_schema};
use crate::tool::{CommandSettings, Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};

/// The name of the tool.
const NAME: &str = "bash";
/// How long a command may take.
const DEFAULT_TIMEOUT_MILLIS: u64 = 120_000;

const DESCRIPTION: &str = "Runs a command line in a shell and returns its output, standard output and \
    standard error together.\n\n\
    - It runs in the working directory; use workdir instead of `cd` to run it elsewhere.\n\
    - It ends after 120 seconds unless timeout (milliseconds) says otherwise, has no input and no \
    terminal, and everything it started ends with it.\n\
    - Of an output over 2000 lines or 50 KB you get the end; all of it is in a file that read and grep can \
    open, so there is no need for head or tail.\n\
    - Prefer read, edit, write, glob and grep to cat, sed, find and the like: they are exact, and every \
    change can be undone.\n\
    - Quote paths with spaces. Join commands that depend on each other with &&. Commit, push and \
    other lasting actions only if the user asks for them.";

/// Runs command lines.
pub struct BashTool {
    settings: ToolSettings,
}

/// What a call asks for.
struct CommandRequest<'i> {
    command: &'i str,
    directory: AccessedPath,
    timeout: Duration,
}

impl BashTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        Self { settings: settings.clone() }
    }

    fn ask(
        &self,
        host: &dyn ToolHost,
        commands: &CommandSettings,
        request: &CommandRequest<'_>,
    ) -> Result<(), ToolError> {
        let home = commands.variables.iter().find(|(name, _)| name == "HOME");
        let known = ShellKnowledge {
            home: home.map(|(_, home)| home.to_string_lossy().into_owned()),
            directory: request.directory.absolute.to_string_lossy().into_owned(),
        };
        let line = read_command_line(request.command, &known);
        let outside = outside_directories(host, request, &line)?;
        if !outside.is_empty() {
            let directories: Vec<String> =
                outside.iter().map(|path| path.to_string_lossy().into_owned()).collect();
            let patterns: Vec<String> =
                outside.iter().map(|path| path.join("*").to_string_lossy().into_owned()).collect();
            let metadata = json!({ "command": request.command, "directories": directories,
                "patterns": patterns });
            host.ask(permission_ask("external_directory", patterns.clone(), patterns, metadata))?;
        }
        if line.patterns.is_empty() {
            return Ok(());
        }
        let metadata = json!({ "command": request.command });
        host.ask(permission_ask(NAME, line.patterns, line.always, metadata))
    }

    fn run_command(
        &self,
        host: &dyn ToolHost,
        commands: &CommandSettings,
        request: &CommandRequest<'_>,
    ) -> Result<ToolReply, ToolError> {
        let output = CommandOutput::new(self.settings.output_limits, &spill_path(host));
        let title = Some(request.command.to_owned());
        host.show(title, into_fields(json!({ "output": "" })));
        let command = build_command(host, commands, request);
        let ran = run_watched(host, &command, request.timeout, (&output, Some(request.command)));
        let (report, stop) = ran.map_err(|error| ToolError::failed(error.to_string()))?;
        finish_reply(request, &report, stop, &output)
    }
}

fn build_command(
    host: &dyn ToolHost,
    commands: &CommandSettings,
    request: &CommandRequest<'_>,
) -> CallCommand {
    CallCommand {
        supervisor: commands.supervisor.clone(),
        program: commands.shell.clone(),
        args: vec![OsString::from("-c"), OsString::from(request.command)],
        directory: request.directory.real.clone(),
        environment: call_environment(host, commands),
        access: ToolFileAccess::Anything,
        is_traced: commands.is_traced,
        grace: GRACE,
    }
}

/// Returns the directories outside of the project that a command line names.
fn outside_directories(
    host: &dyn ToolHost,
    request: &CommandRequest<'_>,
    line: &CommandLine,
) -> Result<BTreeSet<PathBuf>, ToolError> {
    let mut found = BTreeSet::new();
    if !request.directory.is_inside {
        found.insert(request.directory.absolute.clone());
    }
    for text in &line.paths {
        let base = &request.directory.absolute;
        let path = AccessedPath::resolve_from(host.scope(), base, text)?;
        if path.is_inside {
            continue;
        }
        for path in [&path.absolute, &path.real] {
            let is_directory = path.is_dir() || text.ends_with('/');
            let folder = if is_directory { Some(path.as_path()) } else { path.parent() };
            found.extend(folder.map(Path::to_owned));
        }
    }
    Ok(found)
}

fn finish_reply(
    request: &CommandRequest<'_>,
    report: &CallCommandReport,
    stop: Option<CommandStop>,
    output: &CommandOutput,
) -> Result<ToolReply, ToolError> {
    let found = output.finish();
    let mut text = found.text;
    if text.is_empty() {
        "(no output)".clone_into(&mut text);
    }
    let exit = match (&report.end, stop) {
        (CallCommandEnd::NotStarted(why), _) => {
            return Err(ToolError::failed(format!("The command could not be started: {why}")));
        }
        (CallCommandEnd::Lost(why), _) => {
            return Err(ToolError::Failed {
                message: format!("{text}\n\nIt is not known how the command ended: {why}"),
                metadata: Map::new(),
            });
        }
        (CallCommandEnd::Exited(_), Some(stop)) => {
            text.push_str(&stop_note(stop, request.timeout));
            None
        }
        (CallCommandEnd::Exited(exit), None) => {
            if let CommandExit::Signal(number) = exit {
                text.push_str(&format!(
                    "\n\n<shell_metadata>\nThe command was ended by signal {number}.\n</shell_metadata>"
                ));
            }
            Some(exit.code())
        }
    };
    let mut metadata = into_fields(json!({
        "output": last_bytes(&text, MAX_LIVE_BYTES),
        "exit": exit,
        "truncated": found.is_cut,
    }));
    if let Some(path) = found.spill {
        metadata.insert("outputPath".to_owned(), json!(path.to_string_lossy()));
    }
    let title = request.command.to_owned();
    Ok(ToolReply { title, output: text, metadata, attachments: Vec::new() })
}

fn stop_note(stop: CommandStop, timeout: Duration) -> String {
    let note = match stop {
        CommandStop::Timeout => format!(
            "The command was ended because it took longer than {} ms. If it needs more time, call it again \
             with a larger timeout.",
            timeout.as_millis()
        ),
        CommandStop::Abort => "User aborted the command".to_owned(),
    };
    format!("\n\n<shell_metadata>\n{note}\n</shell_metadata>")
}

fn last_bytes(text: &str, count: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(count));
    text.get(start..).unwrap_or_default()
}

impl Tool for BashTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "command": string("The command line"),
            "timeout": integer(1, "How long it may take, in milliseconds (120000)"),
            "workdir": string("Where it runs (the working directory)"),
        });
        tool_schema(NAME, DESCRIPTION, &properties, &["command"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        None
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let workdir = input.optional_string("workdir")?.filter(|it| !it.is_empty());
        let request = CommandRequest {
            command: input.string("command")?,
            directory: AccessedPath::resolve(host.scope(), workdir.unwrap_or("."))?,
            timeout: Duration::from_millis(
                input.optional_integer("timeout", 1)?.unwrap_or(DEFAULT_TIMEOUT_MILLIS),
            ),
        };
        let Some(commands) = &self.settings.commands else {
            return Err(ToolError::failed("No commands can be run here."));
        };
        if request.command.contains('\0') {
            return Err(ToolError::failed("A command line cannot contain a NUL character."));
        }
        self.ask(host, commands, &request)?;
        if !request.directory.real.is_dir() {
            let shown = request.directory.absolute.display();
            return Err(ToolError::failed(format!("{shown} is not a directory.")));
        }
        self.run_command(host, commands, &request)
    }
}
