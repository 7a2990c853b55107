//! The bare repository of one worktree: made whole at every open, read by gitoxide.

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fail::fail_point;
use gix::objs::{Exists, Find, Kind};
use gix::odb::Header as _;
use gix::odb::store::init::{Options, Slots};

use super::pack_file::{self, PackFile};
use super::pack_writer::{
    BORROWED_PREFIX, HIDDEN_INDEX_SUFFIX, KEEP_FILE_TEXT, KEEP_TEMPLATE_FILE, TEMP_PREFIX,
};
use super::refs::{self, GroupRefs};
use super::{Commit, Oid, PackWriter, TreeEntry, hash_object, parse_tree, to_gix};

/// Packs one process can see at a time; gitoxide fixes the number when it opens.
const PACK_SLOTS: u16 = 4096;
/// So much of the packs is read before they are mapped again: what was read of a mapping counts as memory
/// until it is unmapped, and a restore or a copy may read packs of any size.
const MAX_MAPPED_BYTES: u64 = 32 << 20;
/// The kernel maps so much around a byte that is read.
const FAULT_AROUND_BYTES: u64 = 64 << 10;
/// Readers that are kept for reuse.
const MAX_IDLE_READERS: usize = 16;

const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = true
\tlogallrefupdates = false
[gc]
\tauto = 0
";

/// Why objects could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store has no such object.
    #[error("object {0} is not in the store")]
    Missing(Oid),
    /// The hash of the object does not match its name, or it is not of the expected kind.
    #[error("object {0} is damaged")]
    Corrupt(Oid),
    /// The disk reported an error.
    #[error("the store could not be read or written")]
    Io(#[from] io::Error),
}

/// An open object store.
pub(crate) struct ObjectRepository {
    git_dir: PathBuf,
    /// Replaced when packs go, since it remembers where objects were.
    objects: Mutex<Arc<gix::odb::Store>>,
    /// Bytes that must stay free on the disk while packs are written.
    floor: AtomicU64,
    /// Objects that were put into packs so far.
    stored: Arc<AtomicU64>,
    /// Idle readers: creating one costs more than reading most objects.
    idle: Mutex<Vec<gix::odb::HandleArc>>,
    /// True while some packs are borrowed: then every object is compared with its name (R10).
    has_borrowed: AtomicBool,
    /// About how much of the packs was read since they were mapped.
    mapped_bytes: AtomicU64,
}

/// A pack that git leaves alone until this is dropped.
pub(crate) struct KeepFileGuard {
    keep: Option<PathBuf>,
}

impl Drop for KeepFileGuard {
    fn drop(&mut self) {
        // What cannot be removed now is swept at the next open; another's mark is not ours to remove.
        if let Some(keep) = self.keep.as_deref().filter(|keep| is_own_keep_file(keep)) {
            drop(remove_file(keep));
        }
    }
}

impl ObjectRepository {
    /// Opens the repository, makes what is missing of it, and sweeps what a crash left.
    pub(crate) fn open(git_dir: &Path) -> io::Result<Self> {
        for folder in ["objects/pack", "objects/info", "refs/turnstone", "refs/heads", "info"] {
            fs_err::create_dir_all(git_dir.join(folder))?;
        }
        fs_err::set_permissions(git_dir, PermissionsExt::from_mode(0o700))?;
        write_once(git_dir, "config", CONFIG)?;
        if !git_dir.join("HEAD").try_exists()? {
            sync_folders(git_dir)?;
        }
        // A repository is what has a HEAD: written last.
        write_once(git_dir, "HEAD", "ref: refs/heads/none\n")?;
        refs::remove_stale_ref_locks(git_dir)?;
        remove_temp_files(git_dir)?;
        write_once(git_dir, KEEP_TEMPLATE_FILE, KEEP_FILE_TEXT)?;
        remove_stale_keep_files(&git_dir.join("objects/pack"))?;
        remove_temp_files(&git_dir.join("objects/pack"))?;
        remove_temp_files(&git_dir.join("refs/turnstone"))?;
        remove_unfinished_borrows(&git_dir.join("objects/pack"))?;
        Self::open_view(git_dir)
    }

    fn open_view(git_dir: &Path) -> io::Result<Self> {
        let repository = Self {
            git_dir: git_dir.to_owned(),
            objects: Mutex::new(open_objects(git_dir)?),
            floor: AtomicU64::new(0),
            stored: Arc::default(),
            idle: Mutex::default(),
            has_borrowed: AtomicBool::default(),
            mapped_bytes: AtomicU64::new(0),
        };
        repository.detect_borrowed_packs()?;
        Ok(repository)
    }

    fn detect_borrowed_packs(&self) -> io::Result<()> {
        let borrowed = self.list_packs()?.iter().any(PackFile::is_borrowed);
        self.has_borrowed.store(borrowed, Ordering::SeqCst);
        Ok(())
    }

    /// True if some packs are borrowed.
    pub(crate) fn has_borrowed_packs(&self) -> bool {
        self.has_borrowed.load(Ordering::SeqCst)
    }

    /// Where packs are.
    pub(crate) fn pack_folder(&self) -> PathBuf {
        self.git_dir.join("objects/pack")
    }

    /// Opens a repository that another process writes; nothing of it is made or swept.
    pub(crate) fn open_read_only(git_dir: &Path) -> io::Result<Self> {
        fs_err::metadata(git_dir.join("HEAD"))?;
        Self::open_view(git_dir)
    }

    fn objects(&self) -> Arc<gix::odb::Store> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the packs again.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        // Set before a borrowed pack can be read, and cleared after the last one is gone.
        self.has_borrowed.store(true, Ordering::SeqCst);
        let objects = open_objects(&self.git_dir)?;
        *self.objects.lock().unwrap_or_else(PoisonError::into_inner) = objects;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.detect_borrowed_packs()
    }

    /// The references of pin groups.
    pub(crate) fn refs(&self) -> GroupRefs<'_> {
        GroupRefs { git_dir: &self.git_dir }
    }

    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Reads an object; the store is opened again, once, before it is called missing (R11).
    ///
    /// Packs may have been replaced by others since they were looked at, here or by another process.
    pub(crate) fn read(&self, oid: &Oid) -> Result<(Kind, Vec<u8>), ObjectError> {
        if let Ok(found) = self.read_once(oid) {
            return Ok(found);
        }
        self.reopen()?;
        self.read_once(oid)
    }

    /// Runs a query with an idle reader, or with a new one.
    fn with_reader<T>(&self, question: impl FnOnce(&gix::odb::HandleArc) -> T) -> T {
        let objects = self.objects();
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop().filter(|handle| std::ptr::eq(handle.store_ref(), &*objects));
        let handle = waiting.unwrap_or_else(|| objects.to_cache_arc());
        let answer = question(&handle);
        let mut idle = idle();
        if idle.len() < MAX_IDLE_READERS {
            idle.push(handle);
        }
        answer
    }

    /// Counts a read, and maps the packs again after many.
    fn count_mapped_bytes(&self, bytes: usize) {
        let more = bytes as u64 + FAULT_AROUND_BYTES;
        if self.mapped_bytes.fetch_add(more, Ordering::Relaxed) + more > MAX_MAPPED_BYTES {
            self.mapped_bytes.store(0, Ordering::Relaxed);
            // Where that fails, the packs stay mapped and can be read as before.
            self.reopen().ok();
        }
    }

    fn read_once(&self, oid: &Oid) -> Result<(Kind, Vec<u8>), ObjectError> {
        let mut data = Vec::new();
        let kind = self.with_reader(|handle| {
            let found = handle.try_find(&to_gix(oid), &mut data);
            let found = found.map_err(|error| io::Error::other(error.to_string()))?;
            found.map(|object| object.kind).ok_or(ObjectError::Missing(*oid))
        })?;
        self.count_mapped_bytes(data.len());
        if self.has_borrowed_packs() && hash_object(kind, &data)? != *oid {
            return Err(ObjectError::Corrupt(*oid));
        }
        Ok((kind, data))
    }

    /// Tells how many bytes an object has.
    pub(crate) fn object_size(&self, oid: &Oid) -> Result<u64, ObjectError> {
        let header = self.with_reader(|handle| handle.try_header(&to_gix(oid)));
        self.count_mapped_bytes(0);
        match header {
            Ok(Some(header)) => Ok(header.size()),
            // The slow way finds out what is wrong with it.
            Ok(None) | Err(_) => self.read(oid).map(|(_, data)| data.len() as u64),
        }
    }

    /// Reads an object of one kind and verifies its hash.
    pub(crate) fn read_verified(&self, oid: &Oid, kind: Kind) -> Result<Vec<u8>, ObjectError> {
        let (found, data) = self.read(oid)?;
        if found != kind || hash_object(kind, &data)? != *oid {
            return Err(ObjectError::Corrupt(*oid));
        }
        Ok(data)
    }

    /// Reads the lines of a tree.
    pub(crate) fn read_tree(&self, oid: &Oid) -> Result<Vec<(Vec<u8>, TreeEntry)>, ObjectError> {
        match self.read(oid)? {
            (Kind::Tree, data) => parse_tree(oid, &data),
            _ => Err(ObjectError::Corrupt(*oid)),
        }
    }

    /// Reads a commit.
    pub(crate) fn read_commit(&self, oid: &Oid) -> Result<Commit, ObjectError> {
        match self.read(oid)? {
            (Kind::Commit, data) => Commit::decode(oid, &data),
            _ => Err(ObjectError::Corrupt(*oid)),
        }
    }

    /// Returns a check for which objects exist, for repeated use.
    ///
    /// It does not list the packs again, since this process is the only writer: each miss would
    /// list the folder of packs.
    pub(crate) fn existence_check(&self) -> impl Fn(&Oid) -> bool + use<> {
        let mut handle = self.objects().to_cache_arc();
        handle.refresh_never();
        move |oid| handle.exists(&to_gix(oid))
    }

    /// Begins a pack.
    pub(crate) fn new_pack_writer(&self) -> io::Result<PackWriter> {
        let floor = self.floor.load(Ordering::Relaxed);
        PackWriter::create(&self.git_dir.join("objects/pack"), floor, self.stored.clone())
    }

    pub(crate) fn stored_object_count(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    pub(crate) fn set_free_space_floor(&self, floor: u64) {
        self.floor.store(floor, Ordering::Relaxed);
    }

    /// Makes a pack durable and visible to readers; `sample` is an object in it.
    ///
    /// As long as the answer is held, git leaves the pack alone although no reference names it yet.
    pub(crate) fn publish_pack(
        &self,
        mut writer: PackWriter,
        sample: &Oid,
    ) -> io::Result<KeepFileGuard> {
        writer.keep_from_gc();
        let name = writer.finish()?;
        let keep = name.map(|name| self.git_dir.join(format!("objects/pack/{name}.keep")));
        let held = KeepFileGuard { keep };
        // Finding it refreshes the shared view of the disk.
        if self.objects().to_cache_arc().exists(&to_gix(sample)) {
            return Ok(held);
        }
        // Unless others took so many packs away that the view is of no use any more.
        self.reopen()?;
        match self.objects().to_cache_arc().exists(&to_gix(sample)) {
            true => Ok(held),
            false => Err(io::Error::other("the pack just written cannot be read")),
        }
    }

    /// The packs, each with its size and its index.
    pub(crate) fn list_packs(&self) -> io::Result<Vec<PackFile>> {
        pack_file::list_packs(&self.git_dir.join("objects/pack"))
    }

    /// Hides packs whose objects are elsewhere or not needed; readers no longer find them.
    pub(crate) fn hide_packs(&self, old: &[&PackFile]) -> io::Result<()> {
        // What git itself may have written about packs and commits that are about to go.
        let objects = self.git_dir.join("objects");
        for name in ["pack/multi-pack-index", "info/commit-graph"] {
            remove_file(&objects.join(name))?;
        }
        match fs_err::remove_dir_all(objects.join("info/commit-graphs")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for pack in old {
            pack.hide()?;
            fail_point!("snapshot::pack_hidden", |_| Err(io::Error::other("failpoint")));
        }
        self.reopen()
    }

    /// Removes hidden packs.
    pub(crate) fn remove_packs(&self, old: &[&PackFile]) -> io::Result<()> {
        // An index must not come back after a power cut when its pack does not.
        fs_err::File::open(self.git_dir.join("objects/pack"))?.sync_all()?;
        for pack in old {
            pack.remove()?;
            fail_point!("snapshot::pack_dropped", |_| Err(io::Error::other("failpoint")));
        }
        Ok(())
    }
}

/// Bytes of the packs of a repository that need not be open.
pub(crate) fn pack_bytes(git_dir: &Path) -> io::Result<u64> {
    let packs = pack_file::list_packs(&git_dir.join("objects/pack"))?;
    Ok(packs.iter().map(|pack| pack.bytes).sum())
}

/// Bytes of the objects of a repository that are outside of packs.
pub(crate) fn loose_bytes(git_dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs_err::read_dir(git_dir.join("objects"))? {
        let entry = entry?;
        if entry.file_name().len() == 2 {
            for object in fs_err::read_dir(entry.path())? {
                sum += object?.metadata()?.len();
            }
        }
    }
    Ok(sum)
}

fn open_objects(git_dir: &Path) -> io::Result<Arc<gix::odb::Store>> {
    let options = Options {
        slots: Slots::Given(PACK_SLOTS),
        current_dir: Some(git_dir.to_owned()),
        ..Options::default()
    };
    let folder = git_dir.join("objects");
    let kind = gix::hash::Kind::Sha1;
    let objects = gix::odb::Store::at_opts(folder, kind, &mut std::iter::empty(), options)?;
    Ok(Arc::new(objects))
}

/// Makes the folders of a new repository durable, and the two above it, which may be new as well.
fn sync_folders(git_dir: &Path) -> io::Result<()> {
    let inside = ["objects", "refs"].map(|name| git_dir.join(name));
    let above = git_dir.ancestors().take(3).map(Path::to_owned);
    for folder in inside.into_iter().chain(above) {
        fs_err::File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Writes a small file unless it is there with some content.
fn write_once(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if fs_err::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let temp = folder.join(format!("{TEMP_PREFIX}{name}"));
    let mut file = fs_err::File::create(&temp)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs_err::rename(&temp, &path)?;
    fs_err::File::open(folder)?.sync_all()
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// True if a mark that keeps git away is ours.
fn is_own_keep_file(keep: &Path) -> bool {
    fs_err::read(keep).is_ok_and(|text| text == KEEP_FILE_TEXT.as_bytes())
}

/// Lets go of packs that were held when a process died.
fn remove_stale_keep_files(folder: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "keep") && is_own_keep_file(&path) {
            remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes borrowed packs without an index: linking them was interrupted.
fn remove_unfinished_borrows(folder: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_pack = name.starts_with(BORROWED_PREFIX) && name.ends_with(".pack");
        if is_pack && !path.with_extension("idx").try_exists()? {
            fs_err::remove_file(path)?;
        }
    }
    Ok(())
}

/// Removes what was being written when a process died.
///
/// A pack without its index is removed only if our hidden index for it exists: a pack that another program
/// else is about to finish (`git gc`) is not ours to judge.
fn remove_temp_files(folder: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(TEMP_PREFIX)) else {
            continue;
        };
        if let Some(stem) = name.strip_suffix(HIDDEN_INDEX_SUFFIX)
            && !folder.join(format!("{stem}.idx")).try_exists()?
        {
            pack_file::remove_pack_files(folder, stem)?;
        }
        remove_file(&folder.join(format!("{TEMP_PREFIX}{name}")))?;
    }
    Ok(())
}
