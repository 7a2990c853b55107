//! What runs in a terminal: the program a client names, or the shell of the person, in a directory of the project.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use turnstone_process::{CommandEnvironment, CommandSpec};

use crate::app::AppState;
use crate::error::ApiError;
use crate::project_directory::ProjectDirectory;
use crate::request_input::{JsonFields, quote_value};
use crate::settings::PASSWORD_VARIABLES;
use crate::shell_command::user_shell;

/// How long a program may take to end after SIGHUP and SIGTERM.
const END_GRACE: Duration = Duration::from_secs(2);
/// The longest title, in characters.
const MAX_TITLE_CHARS: usize = 1_000;

/// What a client wants to run in a terminal.
#[derive(Debug)]
pub(crate) struct PtyRequest {
    command: Option<String>,
    args: Option<Vec<String>>,
    cwd: Option<String>,
    /// The title of the terminal.
    pub(super) title: Option<String>,
    env: Vec<(String, String)>,
}

impl PtyRequest {
    /// Reads the body of a request.
    pub(crate) fn parse(mut fields: JsonFields) -> Result<Self, ApiError> {
        let env = match fields.object("env")? {
            Some(env) => env.into_map().into_iter().map(read_variable).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        Ok(Self {
            command: fields.text("command")?.filter(|command| !command.is_empty()),
            args: fields.read("args", "a list of strings")?,
            cwd: fields.text("cwd")?.filter(|cwd| !cwd.is_empty()),
            title: parse_title(&mut fields)?,
            env,
        })
    }

    /// The program with its directory and environment.
    pub(super) fn to_command(
        &self,
        app: &AppState,
        place: &ProjectDirectory,
    ) -> Result<CommandSpec, ApiError> {
        let directory = match &self.cwd {
            Some(cwd) => working_directory(place, cwd)?,
            None => place.directory.clone(),
        };
        let program = self.command.clone().map_or_else(|| user_shell(app), OsString::from);
        let login_shell = || vec!["-l".to_owned()];
        let args = match (&self.command, &self.args) {
            (_, Some(args)) => args.clone(),
            (None, None) => login_shell(),
            (Some(command), None) if is_shell(command) => login_shell(),
            (Some(_), None) => Vec::new(),
        };
        let inherited = app.settings().variables.iter().cloned();
        let mut env = CommandEnvironment::without(inherited, &PASSWORD_VARIABLES)
            .with("TERM", "xterm-256color")
            .with("OPENCODE_TERMINAL", "1")
            .with("TURNSTONE_DATA", app.engine().store().layout().root());
        for (name, value) in &self.env {
            env = env.with(name, value);
        }
        let mut command = CommandSpec::new(program, directory).args(args).env(env);
        command.grace = END_GRACE;
        Ok(command)
    }
}

/// Reads the title of a terminal; an empty one is none.
pub(super) fn parse_title(fields: &mut JsonFields) -> Result<Option<String>, ApiError> {
    let title = fields.text("title")?.filter(|title| !title.is_empty());
    match title {
        Some(title) if title.chars().count() > MAX_TITLE_CHARS => {
            let expected = format!("at most {MAX_TITLE_CHARS} characters");
            Err(fields.invalid_field("title", &expected, &Value::from(title)))
        }
        title => Ok(title),
    }
}

fn read_variable((name, value): (String, Value)) -> Result<(String, String), ApiError> {
    let Some(text) = value.as_str() else {
        let (got, at) = (quote_value(&value), quote_value(&Value::from(name)));
        let message = format!("Expected string, got {got}\n  at [\"env\"][{at}]");
        return Err(ApiError::invalid_payload(message));
    };
    Ok((name, text.to_owned()))
}

fn is_shell(command: &str) -> bool {
    let name = Path::new(command).file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| ["sh", "bash", "dash", "fish", "ksh", "zsh"].contains(&name))
}

/// A directory of the project, with links resolved.
fn working_directory(place: &ProjectDirectory, cwd: &str) -> Result<PathBuf, ApiError> {
    let invalid = |why: &str| ApiError::invalid_payload(format!("Expected {why}\n  at [\"cwd\"]"));
    let missing = || invalid("a directory that exists");
    let real = fs_err::canonicalize(place.directory.join(cwd)).map_err(|_| missing())?;
    if !real.is_dir() {
        return Err(missing());
    }
    let root = fs_err::canonicalize(&place.root).map_err(|error| ApiError::unexpected(&error))?;
    if real.starts_with(&root) || real.starts_with(&place.directory) {
        Ok(real)
    } else {
        Err(invalid("a directory of the project"))
    }
}
