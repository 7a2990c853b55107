//! The launcher's side: this process installs the filter on itself, and becomes the command.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::system::uname;
use rustix::thread::set_no_new_privs;

use crate::filter::{Architecture, build_filter};
use crate::holder::PROBE;
use crate::kernel::listener::{has_known_sizes, install_filter};
use crate::unavailable::TraceUnavailable;

/// What the holders read to find out whether they can.
static PROBE_TEXT: [u8; 8] = PROBE;

const NEW_LISTENER: u64 = 1 << 3;
/// Since Linux 5.19: once received, only a fatal signal interrupts the call.
const WAIT_KILLABLE: u64 = 1 << 5;

/// What a launcher gives to its supervisor.
#[derive(Debug)]
pub struct ListenerOffer {
    /// Where notifications arrive. Nothing of the tree may keep it.
    pub listener: OwnedFd,
    /// Where the launcher's memory holds what the holders try to read.
    pub address: u64,
}

/// Installs the filter on this process and everything that it will start.
///
/// From here on its calls that could write wait for an answer: it may not make one before the holders have
/// the listener. Privileges stay as they are if this process may install filters; otherwise programs
/// with rights of their own lose them (`no_new_privs`), and are named in the log.
///
/// # Errors
///
/// Why no filter was installed; nothing has changed then, except that `no_new_privs` may be set.
pub fn install_trace_filter() -> Result<ListenerOffer, TraceUnavailable> {
    if Architecture::NATIVE.is_empty() {
        return Err(TraceUnavailable::Architecture);
    }
    if !is_kernel_known(&uname().release().to_string_lossy()) {
        return Err(TraceUnavailable::KernelTooOld);
    }
    match has_known_sizes() {
        Ok(true) => {}
        Ok(false) => return Err(TraceUnavailable::KernelTooOld),
        Err(error) => return Err(explain(&error)),
    }
    let address = PROBE_TEXT.as_ptr() as u64;
    let listener = match install(false) {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            set_no_new_privs(true).map_err(|errno| explain(&errno.into()))?;
            install(true)
        }
        other => other,
    };
    listener.map(|listener| ListenerOffer { listener, address }).map_err(|error| explain(&error))
}

/// Tells whether a kernel has all that is needed: the end of a tree is reported since Linux 5.8, and
/// descriptors can be closed by range since 5.9.
fn is_kernel_known(release: &str) -> bool {
    let mut numbers = release.split(['.', '-', '+']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (5, 9),
        _ => false,
    }
}

/// Installs with the newest flags that the kernel knows.
fn install(reports_exec: bool) -> io::Result<OwnedFd> {
    let program = build_filter(Architecture::NATIVE, reports_exec);
    match install_filter(&program, NEW_LISTENER | WAIT_KILLABLE) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            install_filter(&program, NEW_LISTENER)
        }
        other => other,
    }
}

fn explain(error: &io::Error) -> TraceUnavailable {
    match Errno::from_io_error(error) {
        Some(Errno::BUSY) => TraceUnavailable::NestedListener,
        Some(Errno::INVAL | Errno::NOSYS) => TraceUnavailable::KernelTooOld,
        Some(Errno::PERM | Errno::ACCESS) => TraceUnavailable::RefusedByPolicy,
        _ => TraceUnavailable::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_recognised() {
        for known in ["5.9.0", "5.15.0-91-generic", "6.18.44-fc-v657", "10.0+"] {
            assert!(is_kernel_known(known), "{known}");
        }
        for old in ["5.8.1", "4.4.0", "3.10", "six", ""] {
            assert!(!is_kernel_known(old), "{old}");
        }
    }
}
