//! Reading files of the user's repository: regular ones only, and never more than a limit.

use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::worktree::{Kind, Stat};

/// No file that is read whole is larger: an index of two million entries fits.
const LIMIT: u64 = 512 << 20;

/// Reads a file; nothing if it is not there. A pipe or a device is an error and makes nobody wait.
pub(super) fn read(path: &Path) -> io::Result<Option<(Vec<u8>, Stat)>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => fd,
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let file = std::fs::File::from(fd);
    let stat = Stat::of(&file)?;
    if stat.kind != Kind::File || stat.size > LIMIT {
        return Err(io::Error::other("not a regular file of a usual size"));
    }
    let mut bytes = Vec::with_capacity(stat.size as usize + 1);
    (&file).take(LIMIT).read_to_end(&mut bytes)?;
    Ok(Some((bytes, stat)))
}

/// Reads a file that may be missing; then it is empty.
pub(super) fn read_or_empty(path: &Path) -> io::Result<Vec<u8>> {
    Ok(read(path)?.map(|(bytes, _)| bytes).unwrap_or_default())
}
