//! Forking a process that has one thread, and what a forked process sheds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::Pid;

/// Which of the two processes this is after a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForkSide {
    Parent(Pid),
    Child,
}

/// Forks this process, which must have one thread.
///
/// A child of several threads could find a lock of the allocator taken by a thread that it lacks.
pub(crate) fn fork_single_threaded() -> io::Result<ForkSide> {
    let threads = fs_err::read_dir("/proc/self/task")?.count();
    if threads != 1 {
        return Err(io::Error::other(format!("cannot fork a process with {threads} threads")));
    }
    #[expect(unsafe_code, reason = "fork(2) has no safe wrapper")]
    // SAFETY: there is one thread, this one, so that the child has every thread of its parent and no
    // lock is held by a missing one. Only a thread could start another one in between, and this one is here.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        // A negative number is no `Pid`.
        return Err(io::Error::last_os_error());
    }
    Ok(Pid::from_raw(pid).map_or(ForkSide::Child, ForkSide::Parent))
}

/// Ends this process at once: nothing that the parent has buffered is written, no destructor runs.
pub(crate) fn end_process(code: i32) -> ! {
    #[expect(unsafe_code, reason = "a forked process ends without the destructors of its parent")]
    // SAFETY: `_exit` only ends the process.
    unsafe {
        libc::_exit(code)
    }
}

/// Closes every descriptor from 3 on but these, owned or not.
///
/// Only for a process that never returns to the code that owns them.
pub(crate) fn close_all_but(kept: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut numbers: Vec<u32> =
        kept.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    numbers.sort_unstable();
    let mut first = 3;
    for number in numbers.into_iter().chain([u32::MAX]) {
        if number > first {
            let last = if number == u32::MAX { number } else { number - 1 };
            close_range(first, last)?;
        }
        first = first.max(number.saturating_add(1));
    }
    Ok(())
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    #[expect(unsafe_code, reason = "close_range(2) has no safe wrapper")]
    // SAFETY: the caller never returns to code that uses one of these descriptors (see above), so
    // that no number is used after it was closed.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ignores every signal that asks a process to end or to stop, and lets the kernel reap children.
pub(crate) fn ignore_signals() {
    let signals = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGALRM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGCHLD,
        libc::SIGXFSZ,
        libc::SIGXCPU,
    ];
    for signal in signals {
        #[expect(unsafe_code, reason = "signal(2) has no safe wrapper")]
        // SAFETY: to ignore a signal installs no code; each number is a signal that can be ignored.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}
