//! The shell and the variables of commands: without keys, and without Turnstone's own settings.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::tool::{CommandSettings, ToolHost};

/// Variables that begin so are settings and secrets of this program and of OpenCode.
const OWN_PREFIXES: [&[u8]; 2] = [b"TURNSTONE_", b"OPENCODE_"];
/// Variables that end so hold the key of a service.
const KEY_SUFFIXES: [&[u8]; 2] = [b"_API_KEY", b"_API_TOKEN"];
/// Shells that do not understand the command lines that models write.
const OTHER_SHELLS: [&str; 4] = ["fish", "nu", "elvish", "xonsh"];

/// Returns the variables of a command: those of this process without keys and secrets.
///
/// `secrets` are the names of variables that hold keys of configured providers, and the keys themselves: a
/// variable with such a value is removed whatever its name.
#[must_use]
pub fn command_environment(
    variables: &[(OsString, OsString)],
    secrets: &[String],
) -> Vec<(OsString, OsString)> {
    let is_secret = |text: &OsStr| secrets.iter().any(|secret| text == secret.as_str());
    let is_kept = |(name, value): &&(OsString, OsString)| {
        let bytes = name.as_bytes();
        !OWN_PREFIXES.iter().any(|prefix| bytes.starts_with(prefix))
            && !KEY_SUFFIXES.iter().any(|suffix| bytes.ends_with(suffix))
            && !is_secret(name)
            && !is_secret(value)
    };
    variables.iter().filter(is_kept).cloned().collect()
}

/// Returns the variables of a command of a call.
pub(crate) fn call_environment(
    host: &dyn ToolHost,
    commands: &CommandSettings,
) -> Vec<(OsString, OsString)> {
    let scope = host.scope();
    let mut environment = command_environment(&commands.variables, &commands.secrets);
    // A turnstone command inside works on the same data, below this session, and answers no requests.
    environment.push(("TURNSTONE_SESSION".into(), scope.session.as_str().into()));
    environment.push(("TURNSTONE_DATA".into(), scope.data_directory.clone().into_os_string()));
    environment
}

/// Returns the shell of commands: the configured one, that of the user unless models cannot write for it, or the
/// usual ones.
#[must_use]
pub fn find_command_shell(
    configured: Option<&str>,
    variables: &[(OsString, OsString)],
) -> OsString {
    if let Some(shell) = configured.filter(|shell| !shell.is_empty()) {
        return OsString::from(shell);
    }
    let of_user =
        variables.iter().find(|(name, _)| name == "SHELL").map(|(_, shell)| shell.clone());
    let is_usable = |shell: &OsString| {
        let path = Path::new(shell);
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        path.is_absolute()
            && path.is_file()
            && name.is_some_and(|name| !OTHER_SHELLS.contains(&name.as_str()))
    };
    let usual = ["/bin/bash", "/usr/bin/bash", "/bin/sh"].map(OsString::from);
    let mut found = of_user.into_iter().chain(usual).filter(is_usable);
    found.next().unwrap_or_else(|| OsString::from("sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_of_commands_has_no_keys() {
        let variables = [
            ("PATH", "/bin"),
            ("HOME", "/home/ada"),
            ("ANTHROPIC_API_KEY", "sk-1"),
            ("ACME_TOKEN", "sk-2"),
            ("COPY", "sk-2"),
            ("CUSTOM", "sk-3"),
            ("TURNSTONE_PASSWORD", "x"),
            ("OPENCODE_AUTH_CONTENT", "{}"),
            ("MY_TURNSTONE", "kept"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let secrets = ["CUSTOM".to_owned(), "sk-2".to_owned()];
        let kept = command_environment(&variables, &secrets);
        let names: Vec<&str> = kept.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(names, ["PATH", "HOME", "MY_TURNSTONE"]);
    }

    #[test]
    fn shell_of_the_user_is_taken_unless_models_cannot_write_for_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).into_os_string();
        for name in ["fish", "zsh"] {
            fs_err::write(dir.path().join(name), "").expect("written");
        }
        let shell = |value: OsString| vec![(OsString::from("SHELL"), value)];
        assert_eq!(find_command_shell(None, &shell(at("zsh"))), at("zsh"));
        assert_ne!(find_command_shell(None, &shell(at("fish"))), at("fish"));
        assert_ne!(find_command_shell(None, &shell(at("missing"))), at("missing"));
        assert_eq!(find_command_shell(Some("/x/fish"), &[]), "/x/fish");
    }
}
