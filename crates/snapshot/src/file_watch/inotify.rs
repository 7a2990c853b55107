//! The watch on Linux: one inotify instance, one watch for each folder.
//!
//! The kernel notes an event before the call that caused it returns, so whatever was done before the
//! queue is read is in it. A folder is watched before it is listed, through the very handle that lists
//! it, so that nothing falls between and no path is followed twice. A thread keeps the queue short.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{PipeReader, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fail::fail_point;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

use super::{DrainedEvents, JournalState};
use crate::path::is_temp_name;
use crate::stat_cache::EntryName;
use crate::worktree::{Worktree, WorktreeDir};

/// So many names are noted; with more, looking at everything is as cheap.
const MAX_PENDING_NAMES: usize = 1 << 18;
/// The thread rests so long after it emptied the queue, so that a busy writer does not keep it busy.
const READ_PAUSE: Duration = Duration::from_millis(5);

/// File systems that report every change made through them on this machine.
const LOCAL_FILE_SYSTEMS: [u64; 9] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x794c_7630, // overlayfs; only changes below it, behind its back, are not told
    0x8584_58f6, // ramfs
];

/// A running watch.
pub(crate) struct FileWatcher {
    shared: Arc<WatcherShared>,
    /// Dropped to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

struct WatcherShared {
    queue: OwnedFd,
    /// The device of the root.
    device: u64,
    /// The path of the root according to the kernel.
    root: Vec<u8>,
    events: Mutex<PendingEvents>,
}

/// A folder that is watched.
struct WatchedFolder {
    folder: Vec<u8>,
    /// True if it is not captured, and only a `.git` in it would change that.
    is_ignored: bool,
}

#[derive(Default)]
struct PendingEvents {
    folders: HashMap<i32, WatchedFolder>,
    watches: BTreeMap<Vec<u8>, i32>,
    names: HashMap<i32, HashSet<EntryName>>,
    count: usize,
    loss: Option<JournalState>,
}

impl FileWatcher {
    /// Starts a watch that watches nothing yet.
    pub(crate) fn start(worktree: &Worktree) -> Result<Self, JournalState> {
        fail_point!("snapshot::watch_refused", |_| Err(JournalState::WatchLimit));
        let root = worktree.open_dir(None).map_err(|_| JournalState::NoEvents)?;
        if !root.is_on_file_system(&LOCAL_FILE_SYSTEMS) {
            return Err(JournalState::NoEvents);
        }
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let queue = queue.map_err(|_| JournalState::WatchLimit)?;
        let (device, _) = worktree.identity();
        let root = current_path_of(&root).ok_or(JournalState::NoEvents)?;
        let shared = Arc::new(WatcherShared { queue, device, root, events: Mutex::default() });
        let (reader, stop) = std::io::pipe().map_err(|_| JournalState::WatchLimit)?;
        let thread = {
            let shared = shared.clone();
            let name = "snapshot-watch".to_owned();
            std::thread::Builder::new().name(name).spawn(move || shared.run_reader(&reader))
        };
        let thread = thread.map_err(|_| JournalState::WatchLimit)?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Watches a folder that is about to be listed through `dir`.
    ///
    /// Returns false if it is no longer at this path; the folder above has an event for that.
    #[must_use]
    pub(crate) fn watch_folder(&self, dir: &WorktreeDir, folder: &[u8]) -> bool {
        self.shared.watch_folder(dir, folder, false)
    }

    /// Watches a folder that is not captured for a `.git` in it, which would change that.
    pub(crate) fn watch_ignored_folder(&self, dir: &WorktreeDir, folder: &[u8]) {
        self.shared.watch_folder(dir, folder, true);
    }

    /// Watches a folder no more.
    pub(crate) fn unwatch_folder(&self, folder: &[u8]) {
        self.shared.lock_events().unwatch_folder(&self.shared.queue, folder);
    }

    /// Takes all events received so far.
    pub(crate) fn drain(&self) -> DrainedEvents {
        let mut events = self.shared.lock_events();
        self.shared.read_queue(&mut events);
        let drained = events.to_drained();
        events.names.clear();
        events.count = 0;
        drained
    }

    /// Waits, then returns the events received so far and keeps them for the next [`Self::drain`].
    pub(crate) fn peek(&self, wait: Duration) -> DrainedEvents {
        std::thread::sleep(wait);
        let mut events = self.shared.lock_events();
        self.shared.read_queue(&mut events);
        events.to_drained()
    }

    /// Why events were lost, if any were.
    pub(crate) fn lost_events(&self) -> Option<JournalState> {
        self.shared.lock_events().loss
    }

    /// How many folders are watched.
    pub(crate) fn watched_count(&self) -> usize {
        self.shared.lock_events().watches.len()
    }
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic; if it did, the watch is gone all the same.
            thread.join().ok();
        }
    }
}

impl WatcherShared {
    fn lock_events(&self) -> MutexGuard<'_, PendingEvents> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the kernel's queue short until the other end of `stop` is closed.
    fn run_reader(&self, stop: &PipeReader) {
        loop {
            let mut both =
                [PollFd::new(&self.queue, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut both, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !both[1].revents().is_empty() {
                return;
            }
            self.read_queue(&mut self.lock_events());
            let mut end = [PollFd::new(stop, PollFlags::IN)];
            let rest = Timespec { tv_sec: 0, tv_nsec: i64::from(READ_PAUSE.subsec_nanos()) };
            if !matches!(poll(&mut end, Some(&rest)), Ok(0) | Err(Errno::INTR)) {
                return;
            }
        }
    }

    /// Reads the queue until it is empty.
    fn read_queue(&self, events: &mut PendingEvents) {
        fail_point!("snapshot::queue_overflow", |_| events.loss = Some(JournalState::Overflow));
        let mut buffer = vec![MaybeUninit::uninit(); 1 << 16];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => events.record_event(&event),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    events.loss = Some(JournalState::Overflow);
                    return;
                }
            }
        }
    }

    fn watch_folder(&self, dir: &WorktreeDir, folder: &[u8], border: bool) -> bool {
        let mut events = self.lock_events();
        if events.loss.is_some() {
            return true;
        }
        let inside = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONLYDIR;
        let flags = match border {
            true => inside,
            false => {
                inside
                    | WatchFlags::MODIFY
                    | WatchFlags::ATTRIB
                    | WatchFlags::CLOSE_WRITE
                    | WatchFlags::MOVE_SELF
                    | WatchFlags::DELETE_SELF
                    | WatchFlags::EXCL_UNLINK
            }
        };
        if !dir.is_on_device(self.device) && !dir.is_on_file_system(&LOCAL_FILE_SYSTEMS) {
            events.loss = Some(JournalState::NoEvents);
            return true;
        }
        fail_point!("snapshot::watch_limit", |_| {
            events.loss = Some(JournalState::WatchLimit);
            true
        });
        // The handle itself, whatever its path leads to by now.
        match inotify::add_watch(&self.queue, fd_path(dir), flags) {
            Ok(watch) if self.is_folder_at(dir, folder) => {
                events.map_watch(&self.queue, watch, folder, border);
                return true;
            }
            Ok(watch) => {
                // Another one may have found it where it is now; then it stays watched.
                if !events.folders.contains_key(&watch) {
                    inotify::remove_watch(&self.queue, watch).ok();
                }
                return false;
            }
            Err(Errno::NOSPC | Errno::NOMEM) => events.loss = Some(JournalState::WatchLimit),
            Err(_) => events.loss = Some(JournalState::NoEvents),
        }
        true
    }

    /// True if an open folder is at this path.
    ///
    /// Called with the lock held, so that a later move is also recorded later.
    fn is_folder_at(&self, dir: &WorktreeDir, folder: &[u8]) -> bool {
        let is = current_path_of(dir);
        let wanted = [&self.root[..], folder].join(&b'/');
        is.is_some_and(|is| is == if folder.is_empty() { &self.root[..] } else { &wanted[..] })
    }
}

impl PendingEvents {
    fn record_event(&mut self, event: &inotify::Event<'_>) {
        let flags = event.events();
        if flags.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
            self.loss = Some(JournalState::Overflow);
            return;
        }
        let watch = event.wd();
        if flags.contains(ReadFlags::IGNORED) {
            if let Some(WatchedFolder { folder, .. }) = self.folders.remove(&watch)
                && self.watches.get(&folder) == Some(&watch)
            {
                self.watches.remove(&folder);
            }
            return;
        }
        let Some(WatchedFolder { folder, is_ignored: border }) = self.folders.get(&watch) else {
            return;
        };
        let Some(name) = event.file_name() else {
            // The parent reports changes of a folder too; the root has no parent.
            if folder.is_empty() {
                self.loss = Some(JournalState::Overflow);
            }
            return;
        };
        let name = name.to_bytes();
        if is_temp_name(name) || *border && name != b".git" {
            return;
        }
        let names = self.names.entry(watch).or_default();
        if !names.contains(name) {
            names.insert(name.into());
            self.count += 1;
        }
        if self.count > MAX_PENDING_NAMES {
            self.loss = Some(JournalState::Overflow);
            self.names.clear();
        }
    }

    /// Notes which folder a watch is of now; it may have been moved, or another may be in its place.
    fn map_watch(&mut self, queue: &OwnedFd, watch: i32, folder: &[u8], border: bool) {
        let before = self.watches.insert(folder.to_vec(), watch);
        self.folders.insert(watch, WatchedFolder { folder: folder.to_vec(), is_ignored: border });
        if let Some(before) = before.filter(|before| *before != watch) {
            self.remove_watch(queue, before, folder);
        }
    }

    fn unwatch_folder(&mut self, queue: &OwnedFd, folder: &[u8]) {
        let Some(watch) = self.watches.get(folder).copied() else {
            return;
        };
        // One that is not captured any more is still watched for what would change that.
        if self.folders.get(&watch).is_some_and(|it| it.is_ignored && it.folder == folder) {
            return;
        }
        self.watches.remove(folder);
        self.remove_watch(queue, watch, folder);
    }

    /// Ends a watch unless its folder is known under another path by now.
    fn remove_watch(&mut self, queue: &OwnedFd, watch: i32, folder: &[u8]) {
        if self.folders.get(&watch).is_some_and(|watched| watched.folder == folder) {
            self.folders.remove(&watch);
            self.names.remove(&watch);
            // Gone already if the folder is.
            inotify::remove_watch(queue, watch).ok();
        }
    }

    /// The events by path; for a folder that is not captured, its own name in the folder above.
    fn to_drained(&self) -> DrainedEvents {
        let mut drained = DrainedEvents { loss: self.loss, ..DrainedEvents::default() };
        for (watch, names) in &self.names {
            let Some(WatchedFolder { folder, is_ignored: border }) = self.folders.get(watch) else {
                continue;
            };
            match (border, crate::worktree_index::split_parent(folder)) {
                (true, Some((above, name))) => {
                    drained.names.entry(above.to_vec()).or_default().insert(name.into());
                }
                (true, None) | (false, _) => {
                    let known = drained.names.entry(folder.clone()).or_default();
                    known.extend(names.iter().cloned());
                }
            }
        }
        drained
    }
}

/// A name of the handle itself, which the kernel follows to the folder that is open.
fn fd_path(dir: &WorktreeDir) -> String {
    format!("/proc/self/fd/{}", dir.fd().as_raw_fd())
}

/// Where an open folder is now.
fn current_path_of(dir: &WorktreeDir) -> Option<Vec<u8>> {
    rustix::fs::readlink(fd_path(dir), Vec::new()).ok().map(std::ffi::CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worktree::RootPolicy;

    /// A watch without the thread that keeps its queue short.
    fn watcher_without_thread(path: &std::path::Path) -> (FileWatcher, WorktreeDir) {
        let worktree = Worktree::open(path, &RootPolicy::default()).unwrap();
        let mut watch = FileWatcher::start(&worktree).unwrap();
        drop(watch.stop.take());
        watch.thread.take().unwrap().join().unwrap();
        let root = worktree.open_dir(None).unwrap();
        assert!(watch.watch_folder(&root, b""));
        (watch, root)
    }

    #[test]
    fn inotify_queue_overflow_is_reported_as_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (watch, _root) = watcher_without_thread(dir.path());
        let limit = fs_err::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        assert!(limit <= 1 << 17, "the kernel keeps {limit} events here: too many for a test");
        let (one, other) = (dir.path().join("a"), dir.path().join("b"));
        fs_err::write(&one, "").unwrap();
        for _ in 0..limit.div_ceil(4) {
            fs_err::rename(&one, &other).unwrap();
            fs_err::rename(&other, &one).unwrap();
        }

        assert_eq!(watch.drain().loss, Some(JournalState::Overflow));
    }

    #[test]
    fn moved_folder_is_not_watched_under_its_old_path() {
        let dir = tempfile::tempdir().unwrap();
        let (watch, root) = watcher_without_thread(dir.path());
        fs_err::create_dir(dir.path().join("old")).unwrap();
        let folder = root.open_dir(b"old").unwrap();
        fs_err::rename(dir.path().join("old"), dir.path().join("new")).unwrap();

        assert!(!watch.watch_folder(&folder, b"old"));
        assert!(watch.watch_folder(&folder, b"new"));
        assert!(!watch.watch_folder(&folder, b"old"), "and the watch under the new path stays");
        watch.drain();
        fs_err::write(dir.path().join("new/file"), "x").unwrap();
        let events = watch.drain();
        assert_eq!(events.names.keys().collect::<Vec<_>>(), [b"new"]);
    }
}
