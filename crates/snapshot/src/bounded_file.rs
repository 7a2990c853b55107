//! Reading a file that a repository may have replaced by anything: a pipe, a device, a huge file.
//!
//! Links are followed, because people link their settings; what they lead to must be a regular file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Opens a regular file; `None` if there is none.
///
/// Never waits for the other end of a pipe and takes no terminal.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open_regular_file(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        // A socket, and a device without a driver, cannot even be opened.
        Err(Errno::NXIO | Errno::NODEV) => return Err(not_regular(path)),
        Err(errno) => return Err(with_path(path, &errno.into())),
    };
    let metadata = file.metadata().map_err(|error| with_path(path, &error))?;
    if metadata.is_file() { Ok(Some(file)) } else { Err(not_regular(path)) }
}

/// Reads a regular file of at most `limit` bytes; `None` if there is none.
///
/// # Errors
///
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file,
/// [`io::ErrorKind::FileTooLarge`] beyond the limit; nothing of it is returned then.
pub fn read_bounded_file(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_regular_file(path)? else { return Ok(None) };
    read_open_file(path, &file, limit).map(Some)
}

/// Reads the whole of an open file of at most `limit` bytes; `path` is for messages.
pub(crate) fn read_open_file(path: &Path, file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The size may be a lie (`/proc`) or change: what counts is what arrives.
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if read.map_err(|error| with_path(path, &error))? as u64 > limit {
        let message = format!("{} is larger than {limit} bytes", path.display());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

fn not_regular(path: &Path) -> io::Error {
    let message = format!("{} is not a regular file", path.display());
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot read {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().expect("temp dir");
        let at = |name: &str| dir.path().join(name);
        fs_err::write(at("file"), "12345").expect("written");
        symlink("file", at("link")).expect("linked");
        symlink("/dev/zero", at("zero")).expect("linked");
        symlink("nowhere", at("dangling")).expect("linked");
        let fifo = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, Mode::RWXU, 0).expect("a pipe");
        let _socket = UnixListener::bind(at("socket")).expect("bound");

        let read = |name: &str, limit| read_bounded_file(&at(name), limit);
        assert_eq!(read("file", 5).expect("read"), Some(b"12345".to_vec()));
        assert_eq!(read("link", 5).expect("read"), Some(b"12345".to_vec()));
        assert_eq!(read("file", 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for absent in ["missing", "dangling", "file/below"] {
            assert_eq!(read(absent, 5).expect(absent), None, "{absent}");
        }
        for odd in ["zero", "pipe", "socket", "."] {
            let error = read(odd, 5).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{odd}: {error}");
        }
    }
}
