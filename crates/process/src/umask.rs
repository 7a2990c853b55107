//! The file mode mask: closed for the files of this program, the user's own for programs it starts.
//!
//! The mask belongs to the whole process, so it is set once, before any thread runs. A supervised
//! command sets the user's mask itself; for others it is set while they are started.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::Mode;
use rustix::process::umask;

/// Group and others get nothing.
const CLOSED: Mode = Mode::RWXG.union(Mode::RWXO);

/// The mask the process was started with; empty until it was replaced.
static USER: OnceLock<Mode> = OnceLock::new();
/// Held while the user's mask is in force.
static SWITCH: Mutex<()> = Mutex::new(());

/// Closes every file and directory this process makes from now on; returns the user's mask.
pub fn keep_files_private() -> u32 {
    USER.get_or_init(|| umask(CLOSED)).bits()
}

/// The mask of the user, if this process has replaced it.
pub(crate) fn user_mask() -> Option<u32> {
    USER.get().map(|mask| mask.bits())
}

/// Does something with the user's mask in force: starting a program, or writing files for others.
pub fn with_user_mask<T>(work: impl FnOnce() -> T) -> T {
    let Some(user) = USER.get() else { return work() };
    let _switch = SWITCH.lock().unwrap_or_else(PoisonError::into_inner);
    umask(*user);
    let done = work();
    umask(CLOSED);
    done
}

/// Puts the mask of the user in force for the program this process becomes.
pub(crate) fn restore_user_mask(mask: u32) {
    umask(Mode::from_bits_truncate(mask));
}
