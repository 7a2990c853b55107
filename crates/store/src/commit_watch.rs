//! Wakes readers that wait for the log to grow, in this process and in others (R26).
//!
//! After each commit the writer touches the wake file; every process watches it with inotify. A wake
//! is only a hint: the waiter reads the log again, so a lost or a surplus wake is harmless.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;

use crate::data_layout::open_private_file;

/// How often a waiter looks without having been woken.
const SAFETY_TICK: Duration = Duration::from_secs(1);

/// The highest cursor known here, and who waits for a higher one.
#[derive(Clone)]
pub struct CommitWatch {
    shared: Arc<WatchShared>,
}

struct WatchShared {
    state: Mutex<WatchState>,
    changed: Condvar,
    wake: Mutex<Option<std::fs::File>>,
    path: PathBuf,
    tick: bool,
}

#[derive(Default)]
struct WatchState {
    /// The highest cursor this process committed.
    cursor: i64,
    /// Grows with every wake from elsewhere.
    wakes: u64,
    listening: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CommitWatch {
    pub(crate) fn new(wake: PathBuf, tick: bool) -> Self {
        let file = open_private_file(&wake).ok();
        let shared = WatchShared {
            state: Mutex::new(WatchState::default()),
            changed: Condvar::new(),
            wake: Mutex::new(file),
            path: wake,
            tick,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Tells everybody that the log reaches to `cursor`; called after the commit returned.
    pub(crate) fn notify_committed(&self, cursor: i64) {
        let mut state = lock(&self.shared.state);
        state.cursor = state.cursor.max(cursor);
        drop(state);
        self.shared.changed.notify_all();
        if let Some(file) = lock(&self.shared.wake).as_ref() {
            // A failed touch costs other processes at most one safety tick.
            drop(file.write_at(b".", 0));
        }
    }

    /// Wakes the waiting readers of this process.
    pub fn wake_local(&self) {
        lock(&self.shared.state).wakes += 1;
        self.shared.changed.notify_all();
    }

    /// A place to start waiting from; take it before reading the log.
    #[must_use]
    pub fn mark(&self) -> CommitMark {
        self.start_listener();
        let state = lock(&self.shared.state);
        CommitMark { cursor: state.cursor, wakes: state.wakes }
    }

    /// How long to wait at once when `left` is to be waited in all: at most a safety tick.
    #[must_use]
    pub fn wait_step(&self, left: Duration) -> Duration {
        if self.shared.tick { left.min(SAFETY_TICK) } else { left }
    }

    /// Waits until something may have been committed after `mark`, or `step` has passed.
    ///
    /// Returns true if so; read the log again in either case to be sure.
    #[must_use]
    pub fn wait(&self, mark: CommitMark, step: Duration) -> bool {
        let state = lock(&self.shared.state);
        let waited = self.shared.changed.wait_timeout_while(state, step, |state| {
            state.cursor <= mark.cursor && state.wakes == mark.wakes
        });
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.cursor > mark.cursor || state.wakes != mark.wakes
    }

    /// Starts the thread that hears other processes, once.
    fn start_listener(&self) {
        let mut state = lock(&self.shared.state);
        if state.listening {
            return;
        }
        state.listening = true;
        drop(state);
        let Ok(notify) = open_inotify(&self.shared.path) else { return };
        let weak = Arc::downgrade(&self.shared);
        let thread = std::thread::Builder::new().name("turnstone-watch".to_owned());
        // Without the thread the safety tick still finds what others wrote.
        drop(thread.spawn(move || forward_wakes(&notify, &weak)));
    }
}

fn open_inotify(path: &Path) -> rustix::io::Result<std::os::fd::OwnedFd> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let notify = inotify::init(flags)?;
    inotify::add_watch(&notify, path, inotify::WatchFlags::MODIFY)?;
    Ok(notify)
}

fn forward_wakes(notify: &std::os::fd::OwnedFd, shared: &Weak<WatchShared>) {
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let quarter = rustix::event::Timespec { tv_sec: 0, tv_nsec: 250_000_000 };
    loop {
        // The store may be gone; look for that now and then.
        let ready = poll(&mut [PollFd::new(notify, PollFlags::IN)], Some(&quarter));
        let Some(shared) = shared.upgrade() else { return };
        if !matches!(ready, Ok(n) if n > 0) {
            continue;
        }
        let mut reader = inotify::Reader::new(notify, &mut buffer);
        while reader.next().is_ok() {}
        lock(&shared.state).wakes += 1;
        shared.changed.notify_all();
    }
}

/// What was known when a waiter last looked.
#[derive(Clone, Copy, Debug)]
pub struct CommitMark {
    cursor: i64,
    wakes: u64,
}
