//! The Unix socket: a way in for native clients of the same user, without a port and a password.
//!
//! Its directory is closed to other users before the socket exists, the socket has mode 0600 from the
//! start, and each peer's user is checked besides. The directory is locked while a name is taken or given
//! back, so that servers on the same data do not take each other's.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::settings::SocketSetting;

/// The longest path that fits into the address of a socket, with the zero behind it.
const MAX_PATH_BYTES: usize = 107;
/// Servers on one data directory that have a socket in it.
const MAX_SERVERS: usize = 16;
const BACKLOG: i32 = 1_024;

/// Why there is no Unix socket.
#[derive(Debug, thiserror::Error)]
pub enum UnixSocketError {
    /// Clients could not name it.
    #[error("the path of the Unix socket has {length} bytes; the limit is {MAX_PATH_BYTES}: {}", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        length: usize,
    },
    /// A server is listening on it.
    #[error("another server listens on {}", .0.display())]
    InUse(PathBuf),
    /// It is not a socket, or not this user's.
    #[error("{} exists and is not a socket of this user", .0.display())]
    Occupied(PathBuf),
    /// The directory is not this user's alone.
    #[error("{} must belong to this user, and others must not be able to write to it", .0.display())]
    OpenDirectory(PathBuf),
    /// The system refused.
    #[error("cannot listen on {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A listening Unix socket; its name is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    path: PathBuf,
    directory: OwnedFd,
    /// Device and inode: only the own name is removed.
    identity: (u64, u64),
}

impl UnixSocket {
    /// Listens where the setting says; `None` if it says nowhere.
    ///
    /// # Errors
    ///
    /// As [`UnixSocketError`] says; no file of others was touched.
    pub(crate) fn bind(
        setting: &SocketSetting,
        data: &Path,
    ) -> Result<Option<(Self, UnixListener)>, UnixSocketError> {
        match setting {
            SocketSetting::Off => Ok(None),
            SocketSetting::At(path) => {
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                let directory = directory.unwrap_or(Path::new("."));
                Self::bind_in(directory, std::slice::from_ref(path)).map(Some)
            }
            SocketSetting::InDataDirectory => {
                let directory = data.join("socket");
                let more = (2..=MAX_SERVERS).map(|nth| format!("server-{nth}.sock"));
                let names = std::iter::once("server.sock".to_owned()).chain(more);
                let paths: Vec<PathBuf> = names.map(|name| directory.join(name)).collect();
                if let Some(path) = paths.first() {
                    check_length(path)?;
                }
                create_private_dir(&directory).map_err(|source| io_error(&directory, source))?;
                Self::bind_in(&directory, &paths).map(Some)
            }
        }
    }

    /// Takes the first of `paths` on which no server listens.
    fn bind_in(
        directory: &Path,
        paths: &[PathBuf],
    ) -> Result<(Self, UnixListener), UnixSocketError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| {
            let missing = format!("the directory {} does not exist", directory.display());
            match (errno, paths.first()) {
                (rustix::io::Errno::NOENT, Some(path)) => {
                    io_error(path, io::Error::new(io::ErrorKind::NotFound, missing))
                }
                _ => io_error(directory, errno.into()),
            }
        })?;
        check_directory(directory)?;
        let io = |errno: rustix::io::Errno| io_error(directory, errno.into());
        rustix::fs::flock(&opened, FlockOperation::LockExclusive).map_err(io)?;
        let bound = Self::bind_first(paths);
        rustix::fs::flock(&opened, FlockOperation::Unlock).map_err(io)?;
        let (path, identity, listener) = bound?;
        Ok((Self { path, directory: opened, identity }, listener))
    }

    fn bind_first(
        paths: &[PathBuf],
    ) -> Result<(PathBuf, (u64, u64), UnixListener), UnixSocketError> {
        let mut in_use = None;
        for path in paths {
            check_length(path)?;
            match remove_stale_socket(path) {
                Ok(()) => {}
                Err(error @ UnixSocketError::InUse(_)) => {
                    in_use = Some(error);
                    continue;
                }
                Err(error) => return Err(error),
            }
            let listener = listen(path).map_err(|source| io_error(path, source))?;
            let found = fs_err::symlink_metadata(path).map_err(|source| io_error(path, source))?;
            return Ok((path.clone(), (found.dev(), found.ino()), listener));
        }
        Err(in_use.unwrap_or_else(|| UnixSocketError::InUse(PathBuf::new())))
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn remove(&self) -> io::Result<()> {
        rustix::fs::flock(&self.directory, FlockOperation::LockExclusive)?;
        let found = fs_err::symlink_metadata(&self.path)?;
        if (found.dev(), found.ino()) == self.identity {
            fs_err::remove_file(&self.path)?;
        }
        Ok(())
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::debug!("the Unix socket is left behind: {error}");
        }
    }
}

fn io_error(path: &Path, source: io::Error) -> UnixSocketError {
    UnixSocketError::Io { path: path.to_owned(), source }
}

fn check_length(path: &Path) -> Result<(), UnixSocketError> {
    let length = path.as_os_str().len();
    if length > MAX_PATH_BYTES {
        return Err(UnixSocketError::TooLong { path: path.to_owned(), length });
    }
    Ok(())
}

/// Makes the directory, closed to others, or closes one that is there.
fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(directory)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs_err::set_permissions(directory, mode)
}

/// Who may write to the directory could put a socket of their own in place of this one.
fn check_directory(directory: &Path) -> Result<(), UnixSocketError> {
    let found = fs_err::metadata(directory).map_err(|source| io_error(directory, source))?;
    let (own, mode) = (crate::peer::own_user(), found.mode());
    // In a directory such as /tmp the sticky bit keeps others from removing a name.
    let is_safe = mode & 0o022 == 0 || mode & 0o1000 != 0;
    if is_safe && (found.uid() == own || found.uid() == 0) {
        return Ok(());
    }
    Err(UnixSocketError::OpenDirectory(directory.to_owned()))
}

/// Makes sure the name is free: removes a socket of this user on which no process listens any more.
fn remove_stale_socket(path: &Path) -> Result<(), UnixSocketError> {
    let found = match fs_err::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(io_error(path, source)),
    };
    if !found.file_type().is_socket() || found.uid() != crate::peer::own_user() {
        return Err(UnixSocketError::Occupied(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs_err::remove_file(path).map_err(|source| io_error(path, source))
        }
        // It accepts connections, its backlog is full, or its state is unknown: it is not ours to remove.
        Ok(_) | Err(_) => Err(UnixSocketError::InUse(path.to_owned())),
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The name gets the mode of the socket: at no moment it is open to others.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(data: &Path) -> Result<(UnixSocket, UnixListener), UnixSocketError> {
        Ok(UnixSocket::bind(&SocketSetting::InDataDirectory, data)?.expect("a socket"))
    }

    #[test]
    fn socket_is_private_and_removed_on_drop() {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, _listener) = bind(dir.path()).expect("listens");
        let mode = |path: &Path| fs_err::metadata(path).expect("is there").mode() & 0o777;
        assert_eq!(mode(&dir.path().join("socket")), 0o700);
        assert_eq!(mode(socket.path()), 0o600);
        let path = socket.path().to_owned();
        drop(socket);
        assert!(!path.exists());
    }

    #[test]
    fn second_server_uses_another_name_and_replaces_stale_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let (first, listener) = bind(dir.path()).expect("listens");
        let (second, _second) = bind(dir.path()).expect("listens");
        assert_eq!(second.path(), dir.path().join("socket/server-2.sock"));
        // As after a kill: the name stays, and no process listens.
        drop(listener);
        std::mem::forget(first);
        let (third, _third) = bind(dir.path()).expect("listens");
        assert_eq!(third.path(), dir.path().join("socket/server.sock"));
    }

    #[test]
    fn non_socket_and_too_long_path_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("mine");
        fs_err::write(&path, "text").expect("written");
        let at = |path: &Path| UnixSocket::bind(&SocketSetting::At(path.to_owned()), dir.path());
        assert!(matches!(at(&path), Err(UnixSocketError::Occupied(_))));
        assert_eq!(fs_err::read_to_string(&path).expect("read"), "text");
        let long = dir.path().join("x".repeat(120));
        assert!(matches!(at(&long), Err(UnixSocketError::TooLong { .. })));
        let deep = dir.path().join("y".repeat(120));
        assert!(matches!(bind(&deep), Err(UnixSocketError::TooLong { .. })));
        assert!(!deep.exists(), "nothing is made for a socket that cannot be");
    }

    #[test]
    fn socket_of_another_server_is_not_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (first, _listener) = bind(dir.path()).expect("listens");
        fs_err::remove_file(first.path()).expect("removed");
        let (second, _second) = bind(dir.path()).expect("listens");
        assert_eq!(first.path(), second.path());
        drop(first);
        assert!(second.path().exists());
    }
}
