//! What the tests need from the machine: found, or an error that names the package to install.
//!
//! A test calls these and fails when something is missing. It never skips.

use std::{
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Why the machine cannot run a test.
#[derive(Debug, thiserror::Error)]
pub enum RequireError {
    /// No program of this name is on the `PATH`.
    #[error("`{program}` is not on the PATH; {hint}")]
    Missing {
        /// The program that was looked for.
        program: String,
        /// What to install, in words.
        hint: String,
    },
    /// The program is there and cannot do what the tests need.
    #[error("`{program}` does not work here: {reason}")]
    Unusable {
        /// The program that was tried.
        program: String,
        /// Its message, and what helps.
        reason: String,
    },
}

/// Finds `name` on the `PATH`.
///
/// # Errors
///
/// [`RequireError::Missing`], with the package that holds the program.
pub fn find_program(name: &str) -> Result<PathBuf, RequireError> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| is_executable(file))
        .ok_or_else(|| RequireError::Missing { program: name.to_owned(), hint: package_hint(name) })
}

/// Finds strace and checks that it may trace a process on this machine.
///
/// # Errors
///
/// [`RequireError::Missing`] without strace; [`RequireError::Unusable`] if it is older than 5.3 or if
/// tracing is forbidden, as in a container without `SYS_PTRACE`.
pub fn find_strace() -> Result<PathBuf, RequireError> {
    let strace = find_program("strace")?;
    let unusable = |reason: String| RequireError::Unusable { program: "strace".to_owned(), reason };
    let tried = Command::new(&strace)
        .args(["-f", "--seccomp-bpf", "-qqq", "-e", "trace=fsync", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unusable(error.to_string()))?;
    if tried.status.success() {
        return Ok(strace);
    }
    let said = String::from_utf8_lossy(&tried.stderr);
    Err(unusable(format!(
        "{}; it must be 5.3 or newer and allowed to trace (docker: --cap-add SYS_PTRACE)",
        said.trim()
    )))
}

fn is_executable(file: &Path) -> bool {
    fs_err::metadata(file)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn package_hint(name: &str) -> String {
    let package = match name {
        "python3" => "python3",
        "git" => "git",
        "strace" => "strace",
        "tmux" => "tmux",
        "chromium" => "chromium",
        "sqlite3" => "sqlite3",
        "fsck.ext4" | "mkfs.ext4" => "e2fsprogs",
        other => return format!("install the package that provides `{other}`"),
    };
    format!(
        "install the package `{package}`: `apt-get install {package}` or your system's like of it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(find_program("sh").unwrap().is_absolute());
    }

    #[test]
    fn a_missing_program_is_an_error_that_names_it() {
        let error = find_program("no-such-program-here").unwrap_err().to_string();
        assert!(error.contains("no-such-program-here"), "{error}");
        assert!(package_hint("strace").contains("apt-get install strace"));
    }

    #[test]
    fn strace_works_on_this_machine() {
        find_strace().unwrap();
    }
}
