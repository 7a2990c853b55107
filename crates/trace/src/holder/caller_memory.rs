//! Reading arguments from the memory of a process that waits in a call.

use std::ffi::OsString;
use std::io::IoSliceMut;
use std::os::unix::ffi::OsStringExt;

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// The longest path that the kernel takes, with its end.
const PATH_MAX: usize = 4096;
/// Strings are read up to the end of a page: what follows may not be mapped.
const PAGE: u64 = 4096;

/// Why an argument could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryError {
    /// The address is not mapped or the string too long: the call itself fails.
    Invalid,
    /// The process is gone.
    Gone,
    /// Reading is forbidden.
    Refused,
}

/// Reads a path. It is empty if its first byte is zero.
pub(crate) fn read_path(pid: u32, address: u64) -> Result<OsString, MemoryError> {
    let mut path = Vec::new();
    while path.len() < PATH_MAX {
        let from = address.checked_add(path.len() as u64).ok_or(MemoryError::Invalid)?;
        let mut buffer = [0; PAGE as usize];
        let wanted = (PAGE - from % PAGE) as usize;
        let wanted = wanted.min(PATH_MAX - path.len());
        let part = buffer.get_mut(..wanted).ok_or(MemoryError::Invalid)?;
        read_memory(pid, from, part)?;
        match part.iter().position(|byte| *byte == 0) {
            Some(end) => {
                path.extend(part.iter().take(end));
                return Ok(OsString::from_vec(path));
            }
            None => path.extend(part.iter()),
        }
    }
    Err(MemoryError::Invalid)
}

/// Fills a buffer completely.
pub(crate) fn read_memory(pid: u32, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
    let length = into.len();
    let base = usize::try_from(address).map_err(|_| MemoryError::Invalid)?;
    let pid = i32::try_from(pid).map_err(|_| MemoryError::Gone)?;
    let remote = [RemoteIoVec { base, len: length }];
    match process_vm_readv(Pid::from_raw(pid), &mut [IoSliceMut::new(into)], &remote) {
        Ok(count) if count == length => Ok(()),
        Ok(_) | Err(Errno::EFAULT | Errno::EINVAL) => Err(MemoryError::Invalid),
        Err(Errno::ESRCH) => Err(MemoryError::Gone),
        Err(_) => Err(MemoryError::Refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_read_up_to_its_end() {
        let path = c"/some/where".to_owned();
        let read = read_path(std::process::id(), path.as_ptr() as u64).unwrap();
        assert_eq!(read, "/some/where");
    }

    #[test]
    fn path_without_end_is_invalid() {
        let long = vec![b'x'; 8192];
        let read = read_path(std::process::id(), long.as_ptr() as u64);
        assert_eq!(read, Err(MemoryError::Invalid));
        assert_eq!(read_path(std::process::id(), 8), Err(MemoryError::Invalid));
    }
}
