//! Paths of clients: every one stays below a root, and no link is followed on the way (R16).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::ApiError;
use crate::name_order::compare_names;

/// Why a path of a client leads nowhere.
#[derive(Debug)]
pub(crate) enum ConfinedPathError {
    /// It is no path below the root.
    Outside(String),
    /// There is a link on the way.
    Symlink(String),
    /// There is nothing.
    Missing(String),
    /// It is something else than was asked for.
    WrongKind(String),
    /// It is larger than what is read.
    TooLarge(String),
    /// The system refused.
    Io(io::Error),
}

impl From<ConfinedPathError> for ApiError {
    fn from(error: ConfinedPathError) -> Self {
        match error {
            ConfinedPathError::Outside(path) => Self::invalid_query(format!(
                "Path escapes the project directory: {path}\n  at [\"path\"]"
            )),
            ConfinedPathError::Symlink(path) => {
                Self::invalid_query(format!("Links are not followed: {path}\n  at [\"path\"]"))
            }
            ConfinedPathError::Missing(path) => Self::NotFound(format!("File not found: {path}")),
            ConfinedPathError::WrongKind(path) => Self::invalid_query(format!(
                "Not a file or directory of the expected kind: {path}\n  at [\"path\"]"
            )),
            ConfinedPathError::TooLarge(path) => {
                let status = axum::http::StatusCode::PAYLOAD_TOO_LARGE;
                Self::tagged(status, "TooLargeError", &format!("{path} is too large to be read"))
            }
            ConfinedPathError::Io(error) => Self::unexpected(&error),
        }
    }
}

/// A path that names something below any root: no `..`, not absolute, no zero byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfinedPath(PathBuf);

impl ConfinedPath {
    /// Reads the path a client gave; empty and `.` are the root itself.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfinedPathError> {
        let outside = || ConfinedPathError::Outside(text.chars().take(200).collect());
        if text.contains('\0') || text.len() > 4_096 {
            return Err(outside());
        }
        let mut path = PathBuf::new();
        for component in Path::new(text).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => path.push(name),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(outside());
                }
            }
        }
        Ok(Self(path))
    }

    /// The path; empty for the root.
    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    fn display(&self) -> String {
        let shown = self.0.display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    }
}

/// A directory, held open: everything else is found from its handle.
#[derive(Debug)]
pub(crate) struct ConfinedRoot {
    handle: OwnedFd,
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct ConfinedEntry {
    /// Its name.
    pub(crate) name: String,
    /// True for a directory; links and special files are not listed.
    pub(crate) is_dir: bool,
}

impl ConfinedRoot {
    /// Opens a root.
    pub(crate) fn open(path: &Path) -> Result<Self, ConfinedPathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty());
        let handle = handle.map_err(|errno| errno_to_error(errno, &path.display().to_string()))?;
        Ok(Self { handle })
    }

    /// Reads a whole file of at most `most` bytes.
    pub(crate) fn read(
        &self,
        path: &ConfinedPath,
        most: u64,
    ) -> Result<Vec<u8>, ConfinedPathError> {
        let shown = path.display();
        let (parent, name) = self.open_parent(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&parent, name, flags, Mode::empty());
        let file = file.map_err(|errno| errno_to_error(errno, &shown))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| errno_to_error(errno, &shown))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ConfinedPathError::WrongKind(shown));
        }
        let mut bytes = Vec::new();
        // One byte more than allowed tells a file that grows from one that fits.
        let file = std::fs::File::from(file);
        let read = io::Read::read_to_end(&mut io::Read::take(file, most + 1), &mut bytes);
        match read {
            Ok(count) if u64::try_from(count).is_ok_and(|count| count <= most) => Ok(bytes),
            Ok(_) => Err(ConfinedPathError::TooLarge(shown)),
            Err(error) => Err(ConfinedPathError::Io(error)),
        }
    }

    /// Lists a directory of at most `most` entries, by name.
    pub(crate) fn list(
        &self,
        path: &ConfinedPath,
        most: usize,
    ) -> Result<Vec<ConfinedEntry>, ConfinedPathError> {
        let (entries, is_whole) = self.list_first(path, most)?;
        if is_whole { Ok(entries) } else { Err(ConfinedPathError::TooLarge(path.display())) }
    }

    /// Lists the first `most` entries of a directory, and says whether these are all.
    pub(crate) fn list_first(
        &self,
        path: &ConfinedPath,
        most: usize,
    ) -> Result<(Vec<ConfinedEntry>, bool), ConfinedPathError> {
        let shown = path.display();
        let handle = self.open_directory(path.as_path(), &shown)?;
        let dir =
            rustix::fs::Dir::read_from(&handle).map_err(|errno| errno_to_error(errno, &shown))?;
        let (mut entries, mut is_whole) = (Vec::new(), true);
        for entry in dir {
            let entry = entry.map_err(|errno| errno_to_error(errno, &shown))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let mut kind = Some(entry.file_type());
            // Some file systems tell only when asked.
            if kind == Some(FileType::Unknown) {
                let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(&handle, entry.file_name(), flags);
                kind = stat.map(|stat| FileType::from_raw_mode(stat.st_mode)).ok();
            }
            let is_dir = kind == Some(FileType::Directory);
            // A name that is no text cannot be said in JSON, so it cannot be asked for either.
            let Ok(name) = str::from_utf8(name) else { continue };
            if !is_dir && kind != Some(FileType::RegularFile) {
                continue;
            }
            if entries.len() == most {
                is_whole = false;
                break;
            }
            entries.push(ConfinedEntry { name: name.to_owned(), is_dir });
        }
        entries
            .sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| compare_names(&a.name, &b.name)));
        Ok((entries, is_whole))
    }

    fn open_parent<'p>(
        &self,
        path: &'p ConfinedPath,
    ) -> Result<(OwnedFd, &'p std::ffi::OsStr), ConfinedPathError> {
        let shown = path.display();
        let name = path.0.file_name().ok_or_else(|| ConfinedPathError::WrongKind(shown.clone()))?;
        let above = path.0.parent().unwrap_or(Path::new(""));
        Ok((self.open_directory(above, &shown)?, name))
    }

    /// Opens directory by directory, so that no link can lead astray, not even one made meanwhile.
    fn open_directory(&self, path: &Path, shown: &str) -> Result<OwnedFd, ConfinedPathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |at: &OwnedFd, name: &[u8]| rustix::fs::openat(at, name, flags, Mode::empty());
        let mut at = open(&self.handle, b".").map_err(|errno| errno_to_error(errno, shown))?;
        for part in path.components() {
            let name = part.as_os_str().as_bytes();
            at = match open(&at, name) {
                Ok(next) => next,
                // A link asked for as a directory is "not a directory": look which it is.
                Err(Errno::NOTDIR) if is_symlink(&at, name) => {
                    return Err(ConfinedPathError::Symlink(shown.to_owned()));
                }
                Err(errno) => return Err(errno_to_error(errno, shown)),
            };
        }
        Ok(at)
    }
}

fn is_symlink(at: &OwnedFd, name: &[u8]) -> bool {
    let stat = rustix::fs::statat(at, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

fn errno_to_error(errno: Errno, shown: &str) -> ConfinedPathError {
    let shown = shown.to_owned();
    match errno {
        Errno::NOENT => ConfinedPathError::Missing(shown),
        Errno::LOOP => ConfinedPathError::Symlink(shown),
        Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => ConfinedPathError::WrongKind(shown),
        Errno::NAMETOOLONG | Errno::INVAL => ConfinedPathError::Outside(shown),
        other => ConfinedPathError::Io(other.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(text: &str) -> ConfinedPath {
        ConfinedPath::parse(text).expect("a path")
    }

    /// Proves R16.
    #[test]
    fn confined_path_never_leaves_the_root() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("root");
        fs_err::create_dir_all(root.join("sub")).expect("made");
        fs_err::write(dir.path().join("secret"), "s").expect("written");
        fs_err::write(root.join("sub/file"), "inside").expect("written");
        std::os::unix::fs::symlink("../secret", root.join("link")).expect("linked");
        std::os::unix::fs::symlink("..", root.join("up")).expect("linked");
        let open = ConfinedRoot::open(&root).expect("opens");

        for text in ["/etc/passwd", "../secret", "sub/../../secret", "a\0b"] {
            assert!(
                matches!(ConfinedPath::parse(text), Err(ConfinedPathError::Outside(_))),
                "{text:?}"
            );
        }
        assert_eq!(open.read(&below("./sub/file"), 10).expect("read"), b"inside");
        assert!(matches!(open.read(&below("sub/file"), 5), Err(ConfinedPathError::TooLarge(_))));
        assert!(matches!(open.read(&below("link"), 10), Err(ConfinedPathError::Symlink(_))));
        assert!(matches!(open.read(&below("up/secret"), 10), Err(ConfinedPathError::Symlink(_))));
        assert!(matches!(open.list(&below("up"), 10), Err(ConfinedPathError::Symlink(_))));
        assert!(matches!(open.read(&below("sub"), 10), Err(ConfinedPathError::WrongKind(_))));
        assert!(matches!(open.read(&below("none"), 10), Err(ConfinedPathError::Missing(_))));
        let names: Vec<_> = open.list(&below(""), 10).expect("listed");
        assert_eq!(names.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(), ["sub"]);
    }
}
