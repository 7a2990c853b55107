//! The socket of the store owner: where it is, and who may use it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use gix::objs::Kind;
use nix::sys::socket::sockopt::PeerCredentials;
use rustix::fs::{Mode, OFlags};

use crate::object_store::hash_object;
use crate::registry::create_private_dir;

/// Longer paths do not fit into the address of a socket.
const MAX_SOCKET_PATH: usize = 100;
/// How the lock file names the socket.
const SOCKET_MARKER: &str = ", socket ";

/// Where the socket of the store in `folder` belongs: a short name without information.
pub(super) fn socket_path(runtime: &Path, folder: &Path) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let name = hash_object(Kind::Blob, folder.as_os_str().as_bytes())?.to_string();
    Ok(runtime.join(format!("{}.sock", &name[..16])))
}

/// Listens there. Only the holder of the store's lock may: a socket that is already there is stale.
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a socket without a folder"))?;
    create_private_dir(folder)?;
    if fs_err::metadata(folder)?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to another user", folder.display())));
    }
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    with_short_path(path, |path| UnixListener::bind(path))
}

/// Connects to the owner that listens there, if it runs as the same user.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = with_short_path(path, |path| UnixStream::connect(path))?;
    match is_same_user(&stream)? {
        true => Ok(stream),
        false => Err(io::Error::other(format!("{} is another user's", path.display()))),
    }
}

/// Uses a path that fits into an address, if this one does not: through its open folder.
fn with_short_path<T>(path: &Path, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        return act(path);
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return act(path);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder: OwnedFd = rustix::fs::open(folder, flags, Mode::empty())?;
    act(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

/// True if the process at the other end runs as the same user.
pub(super) fn is_same_user(stream: &UnixStream) -> io::Result<bool> {
    let peer = nix::sys::socket::getsockopt(stream, PeerCredentials)?;
    Ok(is_allowed(peer.uid(), rustix::process::geteuid().as_raw()))
}

/// A store serves the user it belongs to and no other, not even the administrator.
fn is_allowed(peer: u32, own: u32) -> bool {
    peer == own
}

/// What the lock file contains besides the holder of the lock.
pub(super) fn socket_note(path: &Path) -> String {
    match path.to_str() {
        Some(text) => format!("{SOCKET_MARKER}{text}"),
        None => String::new(),
    }
}

/// Reads where the present owner listens; `usual` if the lock file does not say.
pub(super) fn read_socket_path(folder: &Path, usual: &Path) -> PathBuf {
    let text = fs_err::read_to_string(folder.join("keeper")).unwrap_or_default();
    match text.split_once(SOCKET_MARKER) {
        Some((_, path)) if path.starts_with('/') => PathBuf::from(path),
        Some(_) | None => usual.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R11.
    #[test]
    fn other_users_and_root_are_refused() {
        assert!(is_allowed(1000, 1000));
        assert!(!is_allowed(1001, 1000));
        assert!(!is_allowed(0, 1000));
    }

    #[test]
    fn long_socket_path_is_reached_through_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        let long = dir.path().join("a".repeat(90)).join("b".repeat(90)).join("x.sock");

        let _listener = listen(&long).unwrap();

        assert!(connect(&long).is_ok());
        assert!(listen(&long).is_ok(), "what is left of an old one makes way");
    }

    #[test]
    fn socket_path_is_read_from_lock_file_or_defaults() {
        let dir = tempfile::tempdir().unwrap();
        let usual = Path::new("/run/usual.sock");
        let says = |text: &str| {
            fs_err::write(dir.path().join("keeper"), text).unwrap();
            read_socket_path(dir.path(), usual)
        };

        assert_eq!(says("process 1, socket /run/other.sock"), Path::new("/run/other.sock"));
        assert_eq!(says("process 1"), usual);
        assert_eq!(says("process 1, socket nonsense"), usual);
        assert_eq!(says(""), usual);
    }
}
