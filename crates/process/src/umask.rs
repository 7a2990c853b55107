//! The file mode mask: closed for the files of this program, the user's own for programs it starts.
//!
//! The mask belongs to the whole process, so it is set once, before any thread runs. A supervised
//! command sets the user's mask itself; for others it is set while they are started.

use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::Mode;
use rustix::process::umask;

/// Group and others get nothing.
const PRIVATE_MASK: Mode = Mode::RWXG.union(Mode::RWXO);

/// The mask the process was started with; empty until it was replaced.
static USER_MASK: OnceLock<Mode> = OnceLock::new();
/// Held while the user's mask is in force.
static MASK_LOCK: Mutex<()> = Mutex::new(());

/// Closes every file and directory this process makes from now on; returns the user's mask.
pub fn keep_files_private() -> u32 {
    USER_MASK.get_or_init(|| umask(PRIVATE_MASK)).bits()
}

/// The mask of the user, if this process has replaced it.
pub(crate) fn user_mask() -> Option<u32> {
    USER_MASK.get().map(|mask| mask.bits())
}

/// Does something with the user's mask in force: starting a program, or writing files for others.
pub fn with_user_mask<T>(work: impl FnOnce() -> T) -> T {
    let Some(user) = USER_MASK.get() else { return work() };
    let _switch = MASK_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    umask(*user);
    let done = work();
    umask(PRIVATE_MASK);
    done
}

/// Puts the mask of the user in force for the program this process becomes.
pub(crate) fn restore_user_mask(mask: u32) {
    umask(Mode::from_bits_truncate(mask));
}
