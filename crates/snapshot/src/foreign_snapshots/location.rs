//! Where OpenCode keeps the snapshots of a directory: `snapshot/<project>/<SHA-1 of the worktree's path>`.
//!
//! Older versions keep them in `snapshot/<project>`. A project may have got another id since, so every project is
//! looked at: trees are found by their content, and it does not matter which repository has them.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// More projects of a source are not looked at.
const MAX_PROJECTS: usize = 10_000;
/// More repositories are not opened for one directory.
const MAX_REPOSITORIES: usize = 64;

/// The repositories that may hold snapshots of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignSnapshots {
    /// The repositories, the likeliest first.
    pub repositories: Vec<PathBuf>,
    /// The directory whose files their trees hold, as the source named it.
    pub worktree: PathBuf,
}

/// Finds the repositories below `folder` that may hold snapshots of `directory`; `None` if there are none.
///
/// # Errors
///
/// The folder is there and cannot be listed.
pub fn find_foreign_snapshots(
    folder: &Path,
    directory: &Path,
) -> io::Result<Option<ForeignSnapshots>> {
    let projects = list_projects(folder)?;
    let mut found = ForeignSnapshots { repositories: Vec::new(), worktree: PathBuf::new() };
    for worktree in directory.ancestors() {
        let name = hex_sha1(worktree.as_os_str().as_bytes())?;
        let named = projects.iter().map(|project| project.join(&name));
        found.repositories.extend(named.filter(|path| is_repository(path)).take(MAX_REPOSITORIES));
        if !found.repositories.is_empty() {
            found.worktree = worktree.to_owned();
            break;
        }
    }
    let room = MAX_REPOSITORIES - found.repositories.len();
    let older = projects.into_iter().filter(|path| is_repository(path)).take(room);
    found.repositories.extend(older);
    if found.repositories.is_empty() {
        return Ok(None);
    }
    if found.worktree.as_os_str().is_empty() {
        let checkout = directory.ancestors().find(|above| above.join(".git").exists());
        found.worktree = checkout.unwrap_or(directory).to_owned();
    }
    Ok(Some(found))
}

fn list_projects(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs_err::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut projects = Vec::new();
    for entry in entries.take(MAX_PROJECTS) {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            projects.push(entry.path());
        }
    }
    projects.sort();
    Ok(projects)
}

/// True for a folder with a `HEAD` and objects, as git makes them.
fn is_repository(path: &Path) -> bool {
    path.join("HEAD").is_file() && path.join("objects").is_dir()
}

fn hex_sha1(bytes: &[u8]) -> io::Result<String> {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(bytes);
    let digest = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
    Ok(digest.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_repository(at: &Path) {
        fs_err::create_dir_all(at.join("objects")).unwrap();
        fs_err::write(at.join("HEAD"), "ref: refs/heads/master\n").unwrap();
    }

    #[test]
    fn snapshots_are_found_by_the_path_of_the_worktree() {
        let dir = tempfile::tempdir().unwrap();
        let find = |directory: &str| {
            find_foreign_snapshots(&dir.path().join("snapshot"), Path::new(directory)).unwrap()
        };
        assert_eq!(find("/home/ada/p"), None);
        // printf %s /home/ada/p | sha1sum
        let name = "263dc78e98ccb2854c0a41fccdf5dc1714085f69";
        make_repository(&dir.path().join("snapshot/one").join(name));
        make_repository(&dir.path().join("snapshot/two").join(name));
        make_repository(&dir.path().join("snapshot/old"));

        let found = find("/home/ada/p/src/deep").expect("found");
        assert_eq!(found.worktree, Path::new("/home/ada/p"));
        let names: Vec<_> = ["one", "two"].iter().map(|it| format!("{it}/{name}")).collect();
        let names = names.into_iter().chain(["old".to_owned()]);
        let expected: Vec<_> = names.map(|it| dir.path().join("snapshot").join(it)).collect();
        assert_eq!(found.repositories, expected);
        // Only the older layout may hold anything of another directory.
        let other = find("/home/ada/q").expect("the older layout");
        assert_eq!(other.repositories, [dir.path().join("snapshot/old")]);
        assert_eq!(other.worktree, Path::new("/home/ada/q"));
    }
}
