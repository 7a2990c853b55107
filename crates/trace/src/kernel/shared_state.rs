//! Memory that the processes answering for one tree share: what one of them knew when it was killed.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The size of the receive buffer: several times what the kernel of today writes into it.
pub(crate) const RECEIVE_WORDS: usize = 64;
/// The words of a notification that have a meaning.
pub(crate) const NOTIFICATION_WORDS: usize = 10;

/// State that survives the death of any of the processes that map it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct SharedState {
    /// The notification being answered; its first word, the id, is zero between two of them.
    receive: [AtomicU64; RECEIVE_WORDS],
    /// The call whose recording was begun last, and how often: a holder that dies or hangs while it
    /// records is replaced, and its successor must not fail in the same way without end.
    attempted: AtomicU64,
    attempts: AtomicU64,
    /// How much of the log is complete.
    pub(crate) log_length: AtomicU64,
    /// The number of the last touch.
    pub(crate) sequence: AtomicU64,
    /// Records that could not be written.
    pub(crate) lost_records: AtomicU64,
    /// Which holder answers, by the number of its socket to the supervisor.
    pub(crate) primary: AtomicU64,
    /// A holder hung while it recorded: a file system of the tree waits for the tree. From then on
    /// nothing is recorded.
    pub(crate) is_blind: AtomicBool,
    /// The timer runs by which the standby notices a primary that hangs.
    pub(crate) is_watched: AtomicBool,
    /// A process of the tree may have another root or other mounts than we have.
    pub(crate) views_differ: AtomicBool,
    /// The last process of the tree has ended.
    pub(crate) is_finished: AtomicBool,
}

const _: () = assert!(size_of::<SharedState>() <= 4096);

impl SharedState {
    /// Maps a new one, which every process forked from here on shares. It is never unmapped.
    pub(crate) fn map() -> io::Result<&'static Self> {
        #[expect(unsafe_code, reason = "a mapping is memory from nowhere")]
        // SAFETY: an anonymous mapping at an address that the kernel chooses overlaps nothing.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                size_of::<Self>(),
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
            )?
        };
        #[expect(unsafe_code, reason = "a mapping is memory from nowhere")]
        // SAFETY: the mapping is large enough, aligned to a page, zeroed, and never unmapped or moved.
        // All fields are atomics, for which zero is a value and which several processes may change.
        Ok(unsafe { &*memory.cast::<Self>() })
    }

    /// Where the kernel writes a notification.
    pub(crate) fn receive_buffer(&self) -> *mut u64 {
        self.receive.first().map_or(std::ptr::null_mut(), AtomicU64::as_ptr)
    }

    /// Returns the notification being answered; all zero if there is none.
    pub(crate) fn notification(&self) -> [u64; NOTIFICATION_WORDS] {
        let mut words = [0; NOTIFICATION_WORDS];
        for (word, shared) in words.iter_mut().zip(&self.receive) {
            *word = shared.load(Ordering::SeqCst);
        }
        words
    }

    /// The id of the call being answered; zero if there is none.
    pub(crate) fn current_call(&self) -> u64 {
        self.receive.first().map_or(0, |id| id.load(Ordering::SeqCst))
    }

    /// Counts how often a call's recording was begun, by whichever holder.
    pub(crate) fn count_attempt(&self, id: u64) -> u64 {
        if self.attempted.swap(id, Ordering::SeqCst) != id {
            self.attempts.store(0, Ordering::SeqCst);
        }
        self.attempts.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Clears the buffer: the call has gone on. The kernel receives only into a clear buffer.
    pub(crate) fn clear_notification(&self) {
        // The id first: without it the rest means nothing.
        for shared in self.receive.iter().take(NOTIFICATION_WORDS) {
            shared.store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_mapped_clear() {
        let state = SharedState::map().unwrap();
        assert_eq!(state.notification(), [0; NOTIFICATION_WORDS]);
        assert!(!state.is_finished.load(Ordering::SeqCst));
        state.receive[0].store(7, Ordering::SeqCst);
        assert_eq!(state.notification()[0], 7);
        state.clear_notification();
        assert_eq!(state.notification(), [0; NOTIFICATION_WORDS]);
    }

    #[test]
    fn attempts_are_counted_for_one_call() {
        let state = SharedState::map().unwrap();
        let counts = [7, 7, 8, 8, 8, 7].map(|id| state.count_attempt(id));
        assert_eq!(counts, [1, 2, 1, 2, 3, 1]);
    }
}
