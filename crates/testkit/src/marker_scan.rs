//! Finds a text wherever it is left below a folder: in raw files, and in the objects of bare git repositories.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Lists where `marker` occurs below `folder`, sorted: files by their bytes, and each bare repository whose
/// objects hold it, as `PATH (git objects)`. Objects are read by the real git, so packs and deltas are inflated.
///
/// # Errors
///
/// A file cannot be read, or git fails. A file that is removed meanwhile is not an error.
pub fn find_marker(folder: &Path, marker: &str) -> io::Result<Vec<String>> {
    let (mut folders, mut found) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        if folder.join("HEAD").is_file() && folder.join("objects").is_dir() {
            let objects = read_all_objects(&folder)?;
            if contains(&objects, marker) {
                found.push(format!("{} (git objects)", folder.display()));
            }
        }
        for path in list_entries(&folder)? {
            let Ok(kind) = fs_err::symlink_metadata(&path) else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && file_contains(&path, marker)? {
                found.push(path.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn list_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs_err::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn file_contains(path: &Path, marker: &str) -> io::Result<bool> {
    match fs_err::read(path) {
        Ok(bytes) => Ok(contains(&bytes, marker)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn contains(bytes: &[u8], marker: &str) -> bool {
    bytes.windows(marker.len()).any(|window| window == marker.as_bytes())
}

/// Every object of a repository, reachable or not, one after the other.
fn read_all_objects(repository: &Path) -> io::Result<Vec<u8>> {
    let output = Command::new("git")
        .arg("--git-dir")
        .arg(repository)
        .args(["cat-file", "--batch-all-objects", "--batch", "--buffer"])
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}
