//! Signals as bytes in a pipe, so that a loop can wait for them together with everything else.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::SigId;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};
use signal_hook::low_level::unregister;

/// The signals with which a user or the system ends a process.
pub(crate) const TERMINATION_SIGNALS: [i32; 4] = [
    signal_hook::consts::SIGHUP,
    signal_hook::consts::SIGINT,
    signal_hook::consts::SIGQUIT,
    signal_hook::consts::SIGTERM,
];

/// Catches the signals to this process for a command in the foreground, until this is dropped.
///
/// Taken before the command goes, so that none is lost in between: interrupt, quit, hangup, the
/// request to end or to stop, and changes of the terminal's size.
#[derive(Debug)]
pub struct ForegroundSignals(pub(crate) SignalGuard);

impl ForegroundSignals {
    /// Starts to catch them.
    ///
    /// # Errors
    ///
    /// When the handlers cannot be set.
    pub fn subscribe() -> io::Result<Self> {
        let also = [SIGWINCH, SIGTSTP, SIGCONT];
        SignalGuard::new(&TERMINATION_SIGNALS.into_iter().chain(also).collect::<Vec<_>>()).map(Self)
    }
}

/// Signals that are caught, until this is dropped.
#[derive(Debug)]
pub(crate) struct SignalGuard {
    wake: UnixStream,
    flags: Vec<(i32, Arc<AtomicBool>)>,
    ids: Vec<SigId>,
}

impl SignalGuard {
    pub(crate) fn new(signals: &[i32]) -> io::Result<Self> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let mut guard = Self { wake, flags: Vec::new(), ids: Vec::new() };
        LISTENERS.fetch_add(1, Ordering::SeqCst);
        default_action_flag()?.store(false, Ordering::SeqCst);
        let ignored = ignored_signals()?;
        for signal in signals {
            // A parent set it to be ignored (`nohup`), for us and our command: it stays ignored.
            if *signal != SIGCHLD && ignored >> (signal - 1) & 1 == 1 {
                continue;
            }
            let flag = Arc::new(AtomicBool::new(false));
            // The flag first: a woken thread finds it set.
            guard.ids.push(signal_hook::flag::register(*signal, Arc::clone(&flag))?);
            let write = write.try_clone()?;
            guard.ids.push(signal_hook::low_level::pipe::register(*signal, write)?);
            guard.flags.push((*signal, flag));
        }
        Ok(guard)
    }

    /// Takes the signals that came since the last time.
    pub(crate) fn take_pending(&self) -> Vec<i32> {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(count) if count > 0) {}
        let came = self.flags.iter().filter(|(_, flag)| flag.swap(false, Ordering::SeqCst));
        came.map(|(signal, _)| *signal).collect()
    }
}

impl AsFd for SignalGuard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for SignalGuard {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
        if LISTENERS.fetch_sub(1, Ordering::SeqCst) == 1
            && let Ok(quiet) = default_action_flag()
        {
            quiet.store(true, Ordering::SeqCst);
        }
    }
}

/// The signals this process ignores, one bit each.
fn ignored_signals() -> io::Result<u64> {
    let status = fs_err::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no mask of ignored signals"))
}

static LISTENERS: AtomicUsize = AtomicUsize::new(0);
static DEFAULT_ACTION: OnceLock<Result<Arc<AtomicBool>, String>> = OnceLock::new();

/// How many listen right now.
pub(crate) fn count_listeners() -> usize {
    LISTENERS.load(Ordering::SeqCst)
}

/// A handler once set stays; without a listener it does what the system would have done.
fn default_action_flag() -> io::Result<&'static AtomicBool> {
    let quiet = DEFAULT_ACTION.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let ignored = ignored_signals().map_err(|error| error.to_string())?;
        for signal in
            TERMINATION_SIGNALS.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0)
        {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))
                .map_err(|error| error.to_string())?;
        }
        Ok(flag)
    });
    quiet.as_deref().map_err(|error| io::Error::other(error.clone()))
}
