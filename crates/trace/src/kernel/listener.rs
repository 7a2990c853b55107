//! `seccomp(2)`: a filter for this process and its children, and the listener that answers for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::kernel::shared_state::{RECEIVE_WORDS, SharedState};

/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` of Linux 6.6, which libc lacks.
const SYNC_WAKE_UP: u64 = 1;
const CONTINUE: u32 = 1;

/// The descriptor on which notifications of a filtered tree arrive.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// Installs a filter on this process, which no child can shed, and returns its listener.
///
/// Needs `CAP_SYS_ADMIN` or `no_new_privs`.
pub(crate) fn install_filter(program: &[libc::sock_filter], flags: u64) -> io::Result<OwnedFd> {
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let descriptor = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    let operation = libc::c_long::from(libc::SECCOMP_SET_MODE_FILTER);
    #[expect(unsafe_code, reason = "seccomp(2) has no safe wrapper")]
    // SAFETY: the kernel copies `length` instructions from `filter`, which lives until the call
    // returns, and writes nothing. Which system calls of this process succeed from then on is no matter
    // of memory safety: the filter only notifies or refuses.
    let fd = unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, &raw const descriptor) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "a new descriptor is taken over")]
    // SAFETY: with NEW_LISTENER the call returned a descriptor that no other code knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Tells whether the kernel's notification fits the receive buffer and its answer is the one we know.
pub(crate) fn has_known_sizes() -> io::Result<bool> {
    let mut sizes =
        libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    let operation = libc::c_long::from(libc::SECCOMP_GET_NOTIF_SIZES);
    #[expect(unsafe_code, reason = "seccomp(2) has no safe wrapper")]
    // SAFETY: the kernel writes one `seccomp_notif_sizes` to the place given.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, operation, 0, &raw mut sizes) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let fits = usize::from(sizes.seccomp_notif) <= RECEIVE_WORDS * size_of::<u64>();
    Ok(fits && usize::from(sizes.seccomp_notif_resp) == size_of::<libc::seccomp_notif_resp>())
}

impl Listener {
    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Receives one notification into the shared buffer, which must be clear; waits for one.
    pub(crate) fn receive(&self, state: &SharedState) -> Result<(), Errno> {
        let buffer = state.receive_buffer();
        #[expect(unsafe_code, reason = "the ioctl has no safe wrapper")]
        // SAFETY: the kernel writes one `seccomp_notif` into the buffer. `has_known_sizes` has shown
        // that it fits; the buffer is memory of atomics, so that writing to it through a shared reference is
        // allowed, and it is never unmapped.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, buffer) };
        to_result(result)
    }

    /// Lets a call go on as if there were no filter.
    pub(crate) fn continue_call(&self, id: u64) -> Result<(), Errno> {
        let mut answer = libc::seccomp_notif_resp { id, val: 0, error: 0, flags: CONTINUE };
        #[expect(unsafe_code, reason = "the ioctl has no safe wrapper")]
        // SAFETY: the kernel reads one `seccomp_notif_resp` at the place given.
        let result = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer)
        };
        to_result(result)
    }

    /// Tells whether the process still waits in this call: what was read from it belongs to it.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        #[expect(unsafe_code, reason = "the ioctl has no safe wrapper")]
        // SAFETY: the kernel reads one `u64` at the place given.
        let result = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id)
        };
        result == 0
    }

    /// Asks the kernel to run the receiver on the processor of the caller; older kernels refuse.
    pub(crate) fn wake_on_same_processor(&self) {
        #[expect(unsafe_code, reason = "the ioctl has no safe wrapper")]
        // SAFETY: the argument is a number and no address.
        let _is_old_kernel = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        };
    }
}

fn to_result(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
