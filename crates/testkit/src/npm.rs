//! Programs and packages from npm, installed once per lock file.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::required_tools::{self, RequireError};

/// Why packages could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum NpmError {
    /// Node or npm is missing.
    #[error(transparent)]
    Require(#[from] RequireError),
    /// npm could not install what the lock file names.
    #[error("npm ci failed: {0}")]
    Failed(String),
    /// A file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Installs the packages of the folder `recipe` below `target` and returns where they are.
///
/// A lock file is installed once; concurrent callers wait for the first. All files of the recipe are
/// copied there, so that its scripts find the packages.
///
/// # Errors
///
/// See [`NpmError`].
pub fn install(recipe: &Path, target: &Path) -> Result<PathBuf, NpmError> {
    let npm = required_tools::find_program("npm")?;
    let lock = fs_err::read(recipe.join("package-lock.json"))?;
    let name = recipe.file_name().unwrap_or_default().to_string_lossy();
    let dir = target.join(format!("npm-{name}-{:016x}", fnv1a_hash(&lock)));
    fs_err::create_dir_all(&dir)?;
    let guard = fs_err::File::create(dir.join("lock"))?;
    guard.file().lock()?;
    for entry in fs_err::read_dir(recipe)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs_err::copy(entry.path(), dir.join(entry.file_name()))?;
        }
    }
    if !dir.join("done").exists() {
        let done = Command::new(npm).arg("ci").current_dir(&dir).output()?;
        if !done.status.success() {
            return Err(NpmError::Failed(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        fs_err::write(dir.join("done"), "")?;
    }
    Ok(dir)
}

/// A number that differs when the bytes do (FNV-1a); enough to name a folder.
fn fnv1a_hash(bytes: &[u8]) -> u64 {
    let step =
        |print: u64, byte: &u8| (print ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
