//! The server password: its sources, and its removal from the environment.
//!
//! The environment of a process is readable by all processes of the same user and ends up in crash dumps.
//! A password found there is removed: the program executes itself again in the same process, without the
//! variables, and passes the password through a pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use turnstone_process::{CommandEnvironment, replace_process};
use turnstone_server::PASSWORD_VARIABLES;
use turnstone_snapshot::open_regular_file;

use super::ServeArgs;
use crate::app::CliApp;
use crate::error::CliError;

/// Maximum length of a password in bytes; it must fit into a pipe.
const MAX_PASSWORD_BYTES: u64 = 4_096;

/// Reads the password, if one is set. May execute the program again without the variables that contain it.
///
/// # Errors
///
/// A configured password cannot be read: the server never starts without it by mistake.
pub(super) fn read_password(app: &CliApp, args: &ServeArgs) -> Result<Option<String>, CliError> {
    let is_explicit = args.password_file.is_some() || args.password_stdin;
    if has_password_variable(app) {
        let password = if is_explicit { None } else { password_from_environment(app)? };
        return Err(reexec_without_password(app, password.as_deref()));
    }
    if let Some(path) = &args.password_file {
        return password_from_file(path).map(Some);
    }
    if args.password_stdin {
        return password_from_reader(io::stdin().lock(), "standard input").map(Some);
    }
    Ok(None)
}

fn has_password_variable(app: &CliApp) -> bool {
    let is_password = |name: &OsStr| PASSWORD_VARIABLES.iter().any(|one| name == OsStr::new(one));
    app.environment_variables().iter().any(|(name, value)| is_password(name) && !value.is_empty())
}

/// TURNSTONE_SERVER_PASSWORD takes precedence over OpenCode's variable.
fn password_from_environment(app: &CliApp) -> Result<Option<String>, CliError> {
    for name in PASSWORD_VARIABLES {
        let mut all = app.environment_variables().iter();
        let found = all.find(|(key, value)| key == OsStr::new(name) && !value.is_empty());
        let Some((_, value)) = found else { continue };
        let Some(text) = value.to_str() else {
            return Err(password_error(format!("{name} is not UTF-8"), "set another password"));
        };
        return validate_password(text, name).map(Some);
    }
    Ok(None)
}

fn password_from_file(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::File {
        what: format!("cannot read the password file {}", path.display()),
        source,
    };
    let missing = || io::Error::new(io::ErrorKind::NotFound, "file not found");
    let file: File =
        open_regular_file(path).and_then(|it| it.ok_or_else(missing)).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let what = format!("other users can read {} (mode {:o})", path.display(), mode & 0o777);
        return Err(password_error(what, &format!("run `chmod 600 {}`", path.display())));
    }
    password_from_reader(file, &path.display().to_string())
}

/// Reads to the end and strips the final line break.
fn password_from_reader(reader: impl Read, name: &str) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let failed = |source| CliError::File { what: format!("cannot read {name}"), source };
    reader.take(MAX_PASSWORD_BYTES + 3).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        password_error(format!("the password in {name} is not UTF-8"), "set another password")
    })?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    validate_password(line.strip_suffix('\r').unwrap_or(line), name)
}

fn validate_password(password: &str, name: &str) -> Result<String, CliError> {
    if password.is_empty() {
        return Err(password_error(
            format!("the password in {name} is empty"),
            "set a password, or remove the option",
        ));
    }
    if password.len() as u64 > MAX_PASSWORD_BYTES {
        let what = format!("the password in {name} is longer than {MAX_PASSWORD_BYTES} bytes");
        return Err(password_error(what, "choose a shorter password"));
    }
    if password.contains(['\n', '\r', '\0']) {
        let what = format!("the password in {name} has more than one line");
        return Err(password_error(what, "provide the password on a single line"));
    }
    Ok(password.to_owned())
}

fn password_error(what: String, hint: &str) -> CliError {
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}

/// Executes this program again without the password variables; returns only on failure.
fn reexec_without_password(app: &CliApp, password: Option<&str>) -> CliError {
    let failed = |source| CliError::File {
        what: "cannot restart without the password variables".to_owned(),
        source,
    };
    let program = match app.executable_path() {
        Ok(program) => program,
        Err(error) => return error,
    };
    let mut args = app.args().to_vec();
    let mut stdin = None;
    if let Some(password) = password {
        let written = io::pipe().and_then(|(reader, mut writer)| {
            writer.write_all(password.as_bytes())?;
            Ok(reader)
        });
        match written {
            Ok(reader) => stdin = Some(reader),
            Err(error) => return failed(error),
        }
        let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
        args.insert(end, "--password-stdin".into());
    }
    let env = CommandEnvironment::without(
        app.environment_variables().iter().cloned(),
        &PASSWORD_VARIABLES,
    );
    failed(replace_process(program, &args, &env, stdin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_must_be_one_short_line_of_utf8() {
        let read = |text: &[u8]| password_from_reader(text, "a file");
        assert_eq!(read(b"hush\n").expect("read"), "hush");
        assert_eq!(read(b"hush\r\n").expect("read"), "hush");
        assert_eq!(read(b" hush ").expect("read"), " hush ");
        assert_eq!(read(&[b'x'; 4_096]).expect("read").len(), 4_096);
        for bad in [&b""[..], b"\n", b"a\nb", b"a\0b", b"\xff", &[b'x'; 4_097], &[b'x'; 9_000]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
