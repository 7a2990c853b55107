//! Whether a command can be started, before anything is recorded for it.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::command_spec::CommandSpec;
use crate::error::StartError;

/// Where names are looked up if the environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";
/// How many bytes of a script the system reads for its first line.
const FIRST_LINE_BYTES: u64 = 256;

impl CommandSpec {
    /// Looks programs up in the absolute folders of `PATH` only, for a program that the user has not chosen for
    /// this directory: others control what is in a relative one.
    #[must_use]
    pub fn without_relative_folders(mut self) -> Self {
        let path = self.env.variables().find(|(name, _)| *name == "PATH").map(|(_, value)| value);
        let absolute = path.map(|path| {
            let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
            std::env::join_paths(folders).unwrap_or_default()
        });
        // An empty `PATH` means the directory of the command.
        let absolute = absolute.filter(|path| !path.is_empty());
        let absolute = absolute.unwrap_or_else(|| DEFAULT_PATH.into());
        self.env = self.env.with("PATH", absolute);
        self
    }

    /// Checks that there is such a program, that it may be executed, and that its directory exists. The start
    /// itself can still fail.
    ///
    /// # Errors
    ///
    /// The error that the start would return.
    pub fn check_startable(&self) -> Result<(), StartError> {
        self.to_exec_spec()?;
        if let Err(source) = fs_err::read_dir(&self.dir).map(drop)
            && source.kind() != io::ErrorKind::PermissionDenied
        {
            return Err(StartError::Directory { dir: self.dir.clone(), source });
        }
        let program = || self.program.to_string_lossy().into_owned();
        let mut refused = None;
        for path in self.candidates() {
            match check_file(&self.dir, &path) {
                Ok(()) => return Ok(()),
                Err(error) if is_missing(&error) => {}
                Err(error) => refused = Some(error),
            }
        }
        Err(match refused {
            Some(source) => StartError::NotExecutable { program: program(), source },
            None => StartError::NotFound { program: program() },
        })
    }

    /// The files that the name may mean, in order.
    fn candidates(&self) -> Vec<PathBuf> {
        if self.program.as_bytes().contains(&b'/') {
            return vec![self.dir.join(&self.program)];
        }
        let path = self.env.variables().find(|(name, _)| *name == "PATH").map(|(_, value)| value);
        let path = path.map_or(OsStr::new(DEFAULT_PATH), |path| path);
        // An empty entry means the directory of the command.
        std::env::split_paths(path).map(|entry| self.dir.join(entry).join(&self.program)).collect()
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Checks that a file may be executed, and the interpreter in its first line too.
fn check_file(dir: &Path, path: &Path) -> io::Result<()> {
    if !fs_err::metadata(path)?.is_file() {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    access(path, Access::EXEC_OK)?;
    match read_interpreter(path) {
        Some(interpreter) => {
            access(dir.join(interpreter), Access::EXEC_OK).map_err(io::Error::from)
        }
        None => Ok(()),
    }
}

/// The interpreter of a script; `None` of anything else, and if the file cannot be read.
fn read_interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    let file = fs_err::File::open(path).ok()?;
    file.take(FIRST_LINE_BYTES).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::command_spec::CommandEnvironment;

    fn check(dir: &Path, program: &str, path: Option<&str>) -> Result<(), StartError> {
        let env = CommandEnvironment::default();
        let env = path.map_or(env.clone(), |path| env.with("PATH", path));
        CommandSpec::new(program, dir).env(env).check_startable()
    }

    /// Proves R33.
    #[test]
    fn commands_that_cannot_start_are_found_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path();
        let write = |name: &str, text: &str, mode: u32| {
            fs_err::write(dir.join(name), text).expect("written");
            fs_err::set_permissions(dir.join(name), Permissions::from_mode(mode)).expect("set");
        };
        write("own-script", "#!/bin/sh\n", 0o755);
        write("plain", "echo\n", 0o644);
        write("lost", "#! /no/such/interpreter -x\n", 0o755);
        fs_err::create_dir(dir.join("folder")).expect("created");

        for (program, path) in
            [("sh", Some("/usr/bin:/bin")), ("sh", None), ("own-script", Some(""))]
        {
            assert!(check(dir, program, path).is_ok(), "{program} {path:?}");
        }
        assert!(check(dir, "./own-script", None).is_ok());
        let code = |program: &str, path: Option<&str>| {
            check(dir, program, path).expect_err("cannot start").exit_code()
        };
        assert_eq!([code("own-script", None), code("./missing", None), code("", None)], [127; 3]);
        assert_eq!(code("./lost", None), 127);
        assert_eq!([code("./plain", None), code("./folder", None)], [126; 2]);
        assert_eq!(code("plain", Some("/bin:.")), 126);
        assert_eq!(check(&dir.join("gone"), "sh", None).expect_err("gone").exit_code(), 125);
    }
}
