//! What to run: program, arguments, directory and exact environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::StartError;
use crate::protocol::{ExecSpec, OsText};
use crate::trace_outcome::TraceOptions;

/// The exact environment of a command; nothing is added to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandEnvironment(BTreeMap<OsString, OsString>);

impl CommandEnvironment {
    /// Takes the variables as they are: the caller decides what is inherited.
    pub fn exact(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(variables.into_iter().collect())
    }

    /// Takes only the variables of these names.
    pub fn only(variables: impl IntoIterator<Item = (OsString, OsString)>, names: &[&str]) -> Self {
        let wanted = |name: &OsString| names.iter().any(|one| name == one);
        Self(variables.into_iter().filter(|(name, _)| wanted(name)).collect())
    }

    /// Takes all but the variables whose names begin so.
    pub fn without(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        beginnings: &[&str],
    ) -> Self {
        let unwanted = |name: &OsString| {
            beginnings.iter().any(|one| name.as_bytes().starts_with(one.as_bytes()))
        };
        Self(variables.into_iter().filter(|(name, _)| !unwanted(name)).collect())
    }

    /// Every variable with its value.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&OsString, &OsString)> {
        self.0.iter()
    }

    /// Sets one variable.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.0.insert(name.into(), value.into());
        self
    }
}

/// What becomes of processes that outlive the command in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanPolicy {
    /// They are ended: nothing writes after the command is said to have ended.
    #[default]
    End,
    /// The supervisor waits until the last one ends by itself.
    Wait,
    /// They run on without a supervisor, and their further output is not read.
    Leave,
}

/// A command to be run under a supervisor.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// A path, or a name to be looked up in the `PATH` of its own environment.
    pub program: OsString,
    /// Its arguments, without the name.
    pub args: Vec<OsString>,
    /// The directory it runs in.
    pub dir: PathBuf,
    /// Its environment.
    pub env: CommandEnvironment,
    /// The time between SIGTERM and SIGKILL when the group is ended.
    pub grace: Duration,
    /// What becomes of the processes it leaves behind.
    pub orphan_policy: OrphanPolicy,
    /// Whether to record what it writes. If that is impossible, it runs untraced.
    pub trace: Option<TraceOptions>,
}

impl CommandSpec {
    /// A command with no arguments and an empty environment.
    pub fn new(program: impl Into<OsString>, dir: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            dir: dir.into(),
            env: CommandEnvironment::default(),
            grace: Duration::from_secs(5),
            orphan_policy: OrphanPolicy::default(),
            trace: None,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<T: Into<OsString>>(mut self, args: impl IntoIterator<Item = T>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the environment.
    #[must_use]
    pub fn env(mut self, env: CommandEnvironment) -> Self {
        self.env = env;
        self
    }

    pub(crate) fn to_exec_spec(&self) -> Result<ExecSpec, StartError> {
        if self.program.is_empty() {
            return Err(StartError::NotFound { program: String::new() });
        }
        let texts = [&self.program].into_iter().chain(&self.args).chain(self.env.0.values());
        texts.map(OsString::as_os_str).chain([self.dir.as_os_str()]).try_for_each(check_text)?;
        self.env.0.keys().try_for_each(|name| check_name(name))?;
        let env = self.env.0.iter().map(|(name, value)| (OsText::from(name), OsText::from(value)));
        Ok(ExecSpec {
            program: OsText::from(&self.program),
            args: self.args.iter().map(OsText::from).collect(),
            env: env.collect(),
            dir: OsText::from(&self.dir),
            mask: crate::umask::user_mask(),
        })
    }
}

fn check_text(text: &OsStr) -> Result<(), StartError> {
    if text.as_bytes().contains(&0) {
        return Err(StartError::InvalidArgument { what: format!("{text:?}") });
    }
    Ok(())
}

fn check_name(name: &OsStr) -> Result<(), StartError> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(StartError::InvalidArgument { what: format!("the variable {name:?}") });
    }
    check_text(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R33.
    #[test]
    fn invalid_arguments_are_rejected_before_start() {
        let program = CommandSpec::new("true", "/");
        for bad in [
            program.clone().args(["a\0b"]),
            program.clone().env(CommandEnvironment::default().with("A=B", "x")),
            program.clone().env(CommandEnvironment::default().with("", "x")),
            program.clone().env(CommandEnvironment::default().with("A", "x\0")),
            CommandSpec::new("tr\0ue", "/"),
            CommandSpec::new("true", "/\0"),
        ] {
            let error = bad.to_exec_spec().unwrap_err();
            assert!(matches!(error, StartError::InvalidArgument { .. }), "{error}");
            assert_eq!(error.exit_code(), 125);
        }
        assert_eq!(CommandSpec::new("", "/").to_exec_spec().unwrap_err().exit_code(), 127);
    }

    #[test]
    fn environment_filters_variables() {
        let all = || {
            ["PATH", "HOME", "GIT_DIR", "GIT_INDEX_FILE"]
                .map(|name| (OsString::from(name), OsString::from("x")))
        };
        let names = |env: CommandEnvironment| env.0.into_keys().collect::<Vec<_>>();
        assert_eq!(names(CommandEnvironment::only(all(), &["PATH"])), ["PATH"]);
        assert_eq!(names(CommandEnvironment::without(all(), &["GIT_"])), ["HOME", "PATH"]);
        assert_eq!(names(CommandEnvironment::exact(all())).len(), 4);
    }
}
