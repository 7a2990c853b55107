//! Calls that fail as the file system is now, and may succeed because of another thread of the tree.
//!
//! `mkdir a/b` is reported while `a` is missing. Before its thread runs on, another one may create `a`.
//! Then the first call succeeds, and nothing else would say so. It is written when the tree makes what was
//! missing, unless its thread has made another call meanwhile.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::log::{Touch, TouchKind};

/// More threads than wait in such calls at once; the oldest are forgotten.
const MAX_PENDING: usize = 256;

/// A path below something that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockedPath {
    /// The first component that does not exist.
    pub(crate) missing: PathBuf,
    /// The whole path.
    pub(crate) path: PathBuf,
    /// Nothing is missing any more.
    pub(crate) is_open: bool,
}

/// A call that waits for something to exist.
#[derive(Debug)]
struct BlockedCall {
    thread: u32,
    missing: PathBuf,
    /// What must exist for the call to succeed.
    needed: PathBuf,
    touches: Vec<Touch>,
}

/// Something that a thread was allowed to make, and may not have made yet.
#[derive(Debug)]
struct RecentCreation {
    thread: u32,
    /// A new directory, which is empty; what is moved here is not.
    is_empty: bool,
    path: PathBuf,
}

/// The calls of one tree that another thread may make succeed.
#[derive(Debug, Default)]
pub(crate) struct BlockedCalls {
    attempts: VecDeque<BlockedCall>,
    creations: VecDeque<RecentCreation>,
}

impl BlockedCalls {
    /// Forgets the calls of a thread that makes another one: they are over.
    pub(crate) fn forget_previous_calls(&mut self, thread: u32) {
        self.attempts.retain(|attempt| attempt.thread != thread);
        self.creations.retain(|creation| creation.thread != thread);
    }

    /// Adds a call that needs a path of which a part is missing. Returns what the call does if that is
    /// already being made.
    pub(crate) fn add(
        &mut self,
        thread: u32,
        missing: PathBuf,
        needed: PathBuf,
        touches: Vec<Touch>,
    ) -> Vec<Touch> {
        let mut attempt = BlockedCall { thread, missing, needed, touches };
        while let Some(made) = self.creations.iter().find(|made| made.path == attempt.missing) {
            if !attempt.advance(made.is_empty) {
                return attempt.touches;
            }
        }
        if self.attempts.len() >= MAX_PENDING {
            self.attempts.pop_front();
        }
        self.attempts.push_back(attempt);
        Vec::new()
    }

    /// Takes what can succeed now that a thread makes a path, with the thread whose call it is.
    pub(crate) fn take_unblocked_by(
        &mut self,
        thread: u32,
        kind: &TouchKind,
        path: &Path,
    ) -> Vec<(u32, Touch)> {
        let is_empty = *kind == TouchKind::CreateDirectory;
        let mut unblocked = Vec::new();
        self.attempts.retain_mut(|attempt| {
            if attempt.missing != path || attempt.advance(is_empty) {
                return true;
            }
            let touches = std::mem::take(&mut attempt.touches);
            unblocked.extend(touches.into_iter().map(|touch| (attempt.thread, touch)));
            false
        });
        if makes_name(kind) {
            if self.creations.len() >= MAX_PENDING {
                self.creations.pop_front();
            }
            self.creations.push_back(RecentCreation { thread, is_empty, path: path.to_owned() });
        }
        unblocked
    }
}

impl BlockedCall {
    /// Goes on to the next component if what was missing is made as an empty directory; false if the call
    /// can succeed now.
    fn advance(&mut self, is_empty: bool) -> bool {
        match next_component(&self.missing, &self.needed).filter(|_| is_empty) {
            Some(next) => {
                self.missing = next;
                true
            }
            None => false,
        }
    }
}

/// Tells whether something exists after such a call that did not before.
fn makes_name(kind: &TouchKind) -> bool {
    matches!(
        kind,
        TouchKind::Create
            | TouchKind::CreateDirectory
            | TouchKind::MoveTo { .. }
            | TouchKind::Exchange { .. }
            | TouchKind::Link
            | TouchKind::Symlink
            | TouchKind::Node
    )
}

/// The path one component longer than `path` on the way to `needed`; `None` at its end.
fn next_component(path: &Path, needed: &Path) -> Option<PathBuf> {
    let next = needed.strip_prefix(path).ok()?.components().next()?;
    Some(path.join(next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::TouchParent;

    fn touch(path: &str) -> Touch {
        let parent = TouchParent { device: 0, inode: 0, born: None };
        let (kind, path) = (TouchKind::Create, PathBuf::from(path));
        Touch { kind, path, parent, target: None, sequence: 0, time: 0 }
    }

    fn pending() -> BlockedCalls {
        let mut pending = BlockedCalls::default();
        let touches = pending.add(1, "/a".into(), "/a/b".into(), vec![touch("/a/b/c")]);
        assert!(touches.is_empty());
        pending
    }

    #[test]
    fn attempt_waits_until_all_its_directories_exist() {
        let mut pending = pending();
        let mut make =
            |path| pending.take_unblocked_by(2, &TouchKind::CreateDirectory, Path::new(path));
        assert!(make("/other").is_empty());
        assert!(make("/a").is_empty());
        assert_eq!(make("/a/b"), [(1, touch("/a/b/c"))]);
        assert!(make("/a/b").is_empty());
    }

    #[test]
    fn moved_directory_may_hold_the_rest() {
        let kind = TouchKind::MoveTo { from: "/x".into() };
        let unblocked = pending().take_unblocked_by(2, &kind, Path::new("/a"));
        assert_eq!(unblocked, [(1, touch("/a/b/c"))]);
    }

    #[test]
    fn attempt_is_over_when_its_thread_calls_again() {
        let mut pending = pending();
        pending.forget_previous_calls(2);
        pending.forget_previous_calls(1);
        let kind = TouchKind::MoveTo { from: "/x".into() };
        assert!(pending.take_unblocked_by(2, &kind, Path::new("/a")).is_empty());
    }

    #[test]
    fn directories_that_are_being_made_count_as_made() {
        let mut pending = BlockedCalls::default();
        let add = |pending: &mut BlockedCalls| {
            pending.add(1, "/a".into(), "/a/b".into(), vec![touch("/a/b/c")])
        };
        pending.take_unblocked_by(2, &TouchKind::CreateDirectory, Path::new("/a"));
        assert!(add(&mut pending).is_empty());
        pending.take_unblocked_by(3, &TouchKind::CreateDirectory, Path::new("/a/b"));
        assert_eq!(add(&mut pending), [touch("/a/b/c")]);
        pending.forget_previous_calls(3);
        assert!(add(&mut pending).is_empty());
    }

    #[test]
    fn only_so_many_attempts_are_kept() {
        let mut pending = pending();
        for thread in 0..2 * MAX_PENDING as u32 {
            pending.add(thread, "/n".into(), "/n".into(), Vec::new());
            pending.take_unblocked_by(thread, &TouchKind::Create, Path::new("/m"));
        }
        assert_eq!((pending.attempts.len(), pending.creations.len()), (MAX_PENDING, MAX_PENDING));
    }
}
