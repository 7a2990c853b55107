//! The password of the server: where it comes from, and that it does not stay where others can read it.
//!
//! The environment of a process can be read for as long as it runs, by every process of the same user and
//! by whoever looks at a crash. A password found there is taken out: the program starts itself again in
//! the same process, without the variables, and hands the password over in a pipe.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use turnstone_process::{Environment, replace_process};
use turnstone_server::PASSWORD_VARIABLES;
use turnstone_snapshot::open_regular_file;

use super::ServeArgs;
use crate::app::App;
use crate::error::CliError;

/// The longest password, in bytes: it must fit into a pipe, and nobody types more.
const LONGEST: u64 = 4_096;

/// The password, if there is one. May start the program again without the variables that hold it.
///
/// # Errors
///
/// It was named but cannot be read: a server without one is never started by mistake.
pub(super) fn read(app: &App, args: &ServeArgs) -> Result<Option<String>, CliError> {
    let is_explicit = args.password_file.is_some() || args.password_stdin;
    if holds_password(app) {
        let password = if is_explicit { None } else { from_variables(app)? };
        return Err(start_again(app, password.as_deref()));
    }
    if let Some(path) = &args.password_file {
        return from_file(path).map(Some);
    }
    if args.password_stdin {
        return from_reader(io::stdin().lock(), "standard input").map(Some);
    }
    Ok(None)
}

fn holds_password(app: &App) -> bool {
    let is_password = |name: &OsStr| PASSWORD_VARIABLES.iter().any(|one| name == OsStr::new(one));
    app.variables().iter().any(|(name, value)| is_password(name) && !value.is_empty())
}

/// Our own variable goes before the one of OpenCode.
fn from_variables(app: &App) -> Result<Option<String>, CliError> {
    for name in PASSWORD_VARIABLES {
        let mut all = app.variables().iter();
        let found = all.find(|(key, value)| key == OsStr::new(name) && !value.is_empty());
        let Some((_, value)) = found else { continue };
        let Some(text) = value.to_str() else {
            return Err(refused(format!("{name} is not UTF-8"), "set another password"));
        };
        return check(text, name).map(Some);
    }
    Ok(None)
}

fn from_file(path: &Path) -> Result<String, CliError> {
    let failed = |source| CliError::File { what: "cannot read the password".to_owned(), source };
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no {}", path.display()));
    let file: File =
        open_regular_file(path).and_then(|it| it.ok_or_else(missing)).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        let what = format!("other users can read {} (mode {:o})", path.display(), mode & 0o777);
        return Err(refused(what, &format!("chmod 600 {}", path.display())));
    }
    from_reader(file, &path.display().to_string())
}

/// Everything up to the end, without the line break that editors and `echo` put there.
fn from_reader(reader: impl Read, name: &str) -> Result<String, CliError> {
    let mut bytes = Vec::new();
    let failed = |source| CliError::File { what: format!("cannot read {name}"), source };
    reader.take(LONGEST + 3).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8(bytes)
        .map_err(|_| refused(format!("the password in {name} is not UTF-8"), "set another one"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    check(line.strip_suffix('\r').unwrap_or(line), name)
}

fn check(password: &str, name: &str) -> Result<String, CliError> {
    if password.is_empty() {
        return Err(refused(
            format!("the password in {name} is empty"),
            "set one, or leave it out",
        ));
    }
    if password.len() as u64 > LONGEST {
        let what = format!("the password in {name} is longer than {LONGEST} bytes");
        return Err(refused(what, "choose a shorter one"));
    }
    if password.contains(['\n', '\r', '\0']) {
        let what = format!("the password in {name} has more than one line");
        return Err(refused(what, "put the password and nothing else there"));
    }
    Ok(password.to_owned())
}

fn refused(what: String, hint: &str) -> CliError {
    CliError::Refused { what, hint: Some(hint.to_owned()) }
}

/// Becomes the same program without the password in its environment; returns only if that fails.
fn start_again(app: &App, password: Option<&str>) -> CliError {
    let failed = |source| CliError::File { what: "cannot start again".to_owned(), source };
    let program = match app.program() {
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
    let env = Environment::without(app.variables().iter().cloned(), &PASSWORD_VARIABLES);
    failed(replace_process(program, &args, &env, stdin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_of_text_within_bounds() {
        let read = |text: &[u8]| from_reader(text, "a file");
        assert_eq!(read(b"hush\n").expect("read"), "hush");
        assert_eq!(read(b"hush\r\n").expect("read"), "hush");
        assert_eq!(read(b" hush ").expect("read"), " hush ");
        assert_eq!(read(&[b'x'; 4_096]).expect("read").len(), 4_096);
        for bad in [&b""[..], b"\n", b"a\nb", b"a\0b", b"\xff", &[b'x'; 4_097], &[b'x'; 9_000]] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
