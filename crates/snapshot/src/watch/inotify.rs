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

use super::{Drained, JournalState};
use crate::cache::Name;
use crate::path::is_temp;
use crate::worktree::{Dir, Worktree};

/// So many names are noted; with more, looking at everything is as cheap.
const MANY: usize = 1 << 18;
/// The thread rests so long after it emptied the queue, so that a busy writer does not keep it busy.
const REST: Duration = Duration::from_millis(5);

/// File systems that tell of every change made through them on this machine.
const LOCAL: [u64; 9] = [
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
pub(crate) struct Watch {
    shared: Arc<Shared>,
    /// Dropped to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: OwnedFd,
    /// The device of the root.
    device: u64,
    /// The path of the root as the kernel tells it.
    root: Vec<u8>,
    heard: Mutex<Heard>,
}

/// A folder that is watched.
struct Watched {
    folder: Vec<u8>,
    /// True if it is not captured, and only a `.git` in it would change that.
    border: bool,
}

#[derive(Default)]
struct Heard {
    folders: HashMap<i32, Watched>,
    watches: BTreeMap<Vec<u8>, i32>,
    names: HashMap<i32, HashSet<Name>>,
    count: usize,
    lost: Option<JournalState>,
}

impl Watch {
    /// Starts a watch that watches nothing yet.
    pub(crate) fn start(worktree: &Worktree) -> Result<Self, JournalState> {
        fail_point!("snapshot::watch_refused", |_| Err(JournalState::WatchLimit));
        let root = worktree.open_dir(None).map_err(|_| JournalState::NoEvents)?;
        if !root.is_on(&LOCAL) {
            return Err(JournalState::NoEvents);
        }
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        let queue = queue.map_err(|_| JournalState::WatchLimit)?;
        let (device, _) = worktree.identity();
        let root = path_of(&root).ok_or(JournalState::NoEvents)?;
        let shared = Arc::new(Shared { queue, device, root, heard: Mutex::default() });
        let (reader, stop) = std::io::pipe().map_err(|_| JournalState::WatchLimit)?;
        let thread = {
            let shared = shared.clone();
            let name = "snapshot-watch".to_owned();
            std::thread::Builder::new().name(name).spawn(move || shared.listen(&reader))
        };
        let thread = thread.map_err(|_| JournalState::WatchLimit)?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Watches a folder that is about to be listed through `dir`.
    ///
    /// Says no if it is not at this path any more; of that the folder above has been told.
    #[must_use]
    pub(crate) fn add(&self, dir: &Dir, folder: &[u8]) -> bool {
        self.shared.add(dir, folder, false)
    }

    /// Watches a folder that is not captured for a `.git` in it, which would change that.
    pub(crate) fn add_border(&self, dir: &Dir, folder: &[u8]) {
        self.shared.add(dir, folder, true);
    }

    /// Watches a folder no more.
    pub(crate) fn forget(&self, folder: &[u8]) {
        self.shared.heard().forget(&self.shared.queue, folder);
    }

    /// Takes everything that was heard until now.
    pub(crate) fn drain(&self) -> Drained {
        let mut heard = self.shared.heard();
        self.shared.read(&mut heard);
        let drained = heard.translate();
        heard.names.clear();
        heard.count = 0;
        drained
    }

    /// Tells what was heard until now, after waiting a while, and keeps it for the next [`Self::drain`].
    pub(crate) fn peek(&self, wait: Duration) -> Drained {
        std::thread::sleep(wait);
        let mut heard = self.shared.heard();
        self.shared.read(&mut heard);
        heard.translate()
    }

    /// Why not everything is heard, if it is not.
    pub(crate) fn lost(&self) -> Option<JournalState> {
        self.shared.heard().lost
    }

    /// How many folders are watched.
    pub(crate) fn count(&self) -> usize {
        self.shared.heard().watches.len()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic; if it did, the watch is gone all the same.
            thread.join().ok();
        }
    }
}

impl Shared {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the kernel's queue short until the other end of `stop` is closed.
    fn listen(&self, stop: &PipeReader) {
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
            self.read(&mut self.heard());
            let mut end = [PollFd::new(stop, PollFlags::IN)];
            let rest = Timespec { tv_sec: 0, tv_nsec: i64::from(REST.subsec_nanos()) };
            if !matches!(poll(&mut end, Some(&rest)), Ok(0) | Err(Errno::INTR)) {
                return;
            }
        }
    }

    /// Reads the queue until it is empty.
    fn read(&self, heard: &mut Heard) {
        fail_point!("snapshot::queue_overflow", |_| heard.lost = Some(JournalState::Overflow));
        let mut buffer = vec![MaybeUninit::uninit(); 1 << 16];
        let mut reader = inotify::Reader::new(&self.queue, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => heard.note(&event),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    heard.lost = Some(JournalState::Overflow);
                    return;
                }
            }
        }
    }

    fn add(&self, dir: &Dir, folder: &[u8], border: bool) -> bool {
        let mut heard = self.heard();
        if heard.lost.is_some() {
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
        if !dir.is_device(self.device) && !dir.is_on(&LOCAL) {
            heard.lost = Some(JournalState::NoEvents);
            return true;
        }
        fail_point!("snapshot::watch_limit", |_| {
            heard.lost = Some(JournalState::WatchLimit);
            true
        });
        // The handle itself, whatever its path leads to by now.
        match inotify::add_watch(&self.queue, link_of(dir), flags) {
            Ok(watch) if self.is_at(dir, folder) => {
                heard.map(&self.queue, watch, folder, border);
                return true;
            }
            Ok(watch) => {
                // Another one may have found it where it is now; then it stays watched.
                if !heard.folders.contains_key(&watch) {
                    inotify::remove_watch(&self.queue, watch).ok();
                }
                return false;
            }
            Err(Errno::NOSPC | Errno::NOMEM) => heard.lost = Some(JournalState::WatchLimit),
            Err(_) => heard.lost = Some(JournalState::NoEvents),
        }
        true
    }

    /// Tells whether an open folder is at this path.
    ///
    /// Asked with the lock held: whoever finds it elsewhere later, also notes it later.
    fn is_at(&self, dir: &Dir, folder: &[u8]) -> bool {
        let is = path_of(dir);
        let wanted = [&self.root[..], folder].join(&b'/');
        is.is_some_and(|is| is == if folder.is_empty() { &self.root[..] } else { &wanted[..] })
    }
}

impl Heard {
    fn note(&mut self, event: &inotify::Event<'_>) {
        let flags = event.events();
        if flags.intersects(ReadFlags::QUEUE_OVERFLOW | ReadFlags::UNMOUNT) {
            self.lost = Some(JournalState::Overflow);
            return;
        }
        let watch = event.wd();
        if flags.contains(ReadFlags::IGNORED) {
            if let Some(Watched { folder, .. }) = self.folders.remove(&watch)
                && self.watches.get(&folder) == Some(&watch)
            {
                self.watches.remove(&folder);
            }
            return;
        }
        let Some(Watched { folder, border }) = self.folders.get(&watch) else {
            return;
        };
        let Some(name) = event.file_name() else {
            // Of a folder the one above tells as well; nobody is above the root.
            if folder.is_empty() {
                self.lost = Some(JournalState::Overflow);
            }
            return;
        };
        let name = name.to_bytes();
        if is_temp(name) || *border && name != b".git" {
            return;
        }
        let names = self.names.entry(watch).or_default();
        if !names.contains(name) {
            names.insert(name.into());
            self.count += 1;
        }
        if self.count > MANY {
            self.lost = Some(JournalState::Overflow);
            self.names.clear();
        }
    }

    /// Notes which folder a watch is of now; it may have been moved, or another may be in its place.
    fn map(&mut self, queue: &OwnedFd, watch: i32, folder: &[u8], border: bool) {
        let before = self.watches.insert(folder.to_vec(), watch);
        self.folders.insert(watch, Watched { folder: folder.to_vec(), border });
        if let Some(before) = before.filter(|before| *before != watch) {
            self.end(queue, before, folder);
        }
    }

    fn forget(&mut self, queue: &OwnedFd, folder: &[u8]) {
        let Some(watch) = self.watches.get(folder).copied() else {
            return;
        };
        // One that is not captured any more is still watched for what would change that.
        if self.folders.get(&watch).is_some_and(|it| it.border && it.folder == folder) {
            return;
        }
        self.watches.remove(folder);
        self.end(queue, watch, folder);
    }

    /// Ends a watch unless its folder is known under another path by now.
    fn end(&mut self, queue: &OwnedFd, watch: i32, folder: &[u8]) {
        if self.folders.get(&watch).is_some_and(|watched| watched.folder == folder) {
            self.folders.remove(&watch);
            self.names.remove(&watch);
            // Gone already if the folder is.
            inotify::remove_watch(queue, watch).ok();
        }
    }

    /// What was heard, by path; of a folder that is not captured, its own name in the folder above.
    fn translate(&self) -> Drained {
        let mut drained = Drained { lost: self.lost, ..Drained::default() };
        for (watch, names) in &self.names {
            let Some(Watched { folder, border }) = self.folders.get(watch) else {
                continue;
            };
            match (border, crate::picture::split(folder)) {
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
fn link_of(dir: &Dir) -> String {
    format!("/proc/self/fd/{}", dir.handle().as_raw_fd())
}

/// Where an open folder is now.
fn path_of(dir: &Dir) -> Option<Vec<u8>> {
    rustix::fs::readlink(link_of(dir), Vec::new()).ok().map(std::ffi::CString::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worktree::RootPolicy;

    /// A watch without the thread that keeps its queue short.
    fn idle(path: &std::path::Path) -> (Watch, Dir) {
        let worktree = Worktree::open(path, &RootPolicy::default()).unwrap();
        let mut watch = Watch::start(&worktree).unwrap();
        drop(watch.stop.take());
        watch.thread.take().unwrap().join().unwrap();
        let root = worktree.open_dir(None).unwrap();
        assert!(watch.add(&root, b""));
        (watch, root)
    }

    #[test]
    fn what_the_kernel_could_not_keep_is_known_to_be_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (watch, _root) = idle(dir.path());
        let limit = fs_err::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        assert!(limit <= 1 << 17, "the kernel keeps {limit} events here: too many for a test");
        let (one, other) = (dir.path().join("a"), dir.path().join("b"));
        fs_err::write(&one, "").unwrap();
        for _ in 0..limit.div_ceil(4) {
            fs_err::rename(&one, &other).unwrap();
            fs_err::rename(&other, &one).unwrap();
        }

        assert_eq!(watch.drain().lost, Some(JournalState::Overflow));
    }

    #[test]
    fn a_folder_that_is_not_where_it_was_is_not_watched_under_its_old_path() {
        let dir = tempfile::tempdir().unwrap();
        let (watch, root) = idle(dir.path());
        fs_err::create_dir(dir.path().join("old")).unwrap();
        let folder = root.open_dir(b"old").unwrap();
        fs_err::rename(dir.path().join("old"), dir.path().join("new")).unwrap();

        assert!(!watch.add(&folder, b"old"));
        assert!(watch.add(&folder, b"new"));
        assert!(!watch.add(&folder, b"old"), "and the watch under the new path stays");
        watch.drain();
        fs_err::write(dir.path().join("new/file"), "x").unwrap();
        let heard = watch.drain();
        assert_eq!(heard.names.keys().collect::<Vec<_>>(), [b"new"]);
    }
}
