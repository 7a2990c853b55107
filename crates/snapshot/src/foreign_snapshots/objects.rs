//! Objects of foreign repositories: bounded, verified, and looked for in one repository after the other.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::objs::tree::EntryKind;
use gix::objs::{Find, Kind, TreeRefIter};
use gix::odb::Header as _;

use crate::bounded_file::open_regular_file;
use crate::object_store::{FileMode, Oid, TreeLeaf, from_gix, hash_object, to_gix};
use crate::path::RelPath;
use crate::user_git::list_object_folders;

/// No tree is larger: one of a million files fits.
const MAX_TREE_BYTES: u64 = 64 << 20;
/// No list of alternates is larger.
const MAX_ALTERNATES_BYTES: u64 = 1 << 20;
/// Entries of trees that are kept while a session is copied.
const MAX_CACHED_ENTRIES: usize = 500_000;

/// Why an object cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignObjectError {
    /// No repository has it, or what it has is not the object of that name.
    Missing,
    /// It has more bytes than allowed.
    TooLarge,
}

/// What a tree holds at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForeignEntry {
    /// A file or a link.
    Leaf(TreeLeaf),
    /// Another repository, of which only a commit is known.
    Repository,
    /// No file: a directory, or nothing.
    None,
}

/// One line of a tree.
#[derive(Clone, Copy)]
enum ForeignTreeLine {
    Leaf(TreeLeaf),
    Repository,
    Tree(Oid),
}

type ForeignTree = Arc<HashMap<Vec<u8>, ForeignTreeLine>>;

/// A repository that is open for reading.
struct ForeignRepository {
    folders: Vec<PathBuf>,
    objects: gix::odb::HandleArc,
}

/// The objects of some repositories.
pub(super) struct ForeignObjects {
    repositories: Vec<ForeignRepository>,
    trees: HashMap<Oid, ForeignTree>,
    cached_entries: usize,
}

impl ForeignObjects {
    /// Opens the repositories; one that cannot be used has no objects.
    pub(super) fn open(git_dirs: &[PathBuf]) -> Self {
        let repositories = git_dirs.iter().filter_map(|path| ForeignRepository::open(path).ok());
        Self { repositories: repositories.collect(), trees: HashMap::new(), cached_entries: 0 }
    }

    /// Reads an object of at most `limit` bytes.
    pub(super) fn read(
        &self,
        oid: &Oid,
        kind: Kind,
        limit: u64,
    ) -> Result<Vec<u8>, ForeignObjectError> {
        let mut failure = ForeignObjectError::Missing;
        for repository in &self.repositories {
            match repository.read(oid, kind, limit) {
                Ok(data) => return Ok(data),
                Err(ForeignObjectError::TooLarge) => failure = ForeignObjectError::TooLarge,
                Err(ForeignObjectError::Missing) => {}
            }
        }
        Err(failure)
    }

    /// True if a tree is there; what is below it may be missing all the same.
    pub(super) fn has_tree(&mut self, tree: &Oid) -> bool {
        self.read_tree(tree).is_ok()
    }

    /// What a tree holds at a path.
    pub(super) fn find_entry(
        &mut self,
        tree: &Oid,
        path: &RelPath,
    ) -> Result<ForeignEntry, ForeignObjectError> {
        let mut at = *tree;
        let mut names = path.as_bytes().split(|byte| *byte == b'/').peekable();
        while let Some(name) = names.next() {
            let line = self.read_tree(&at)?.get(name).copied();
            let is_last = names.peek().is_none();
            match line {
                Some(ForeignTreeLine::Tree(below)) if !is_last => at = below,
                Some(ForeignTreeLine::Leaf(leaf)) if is_last => {
                    return Ok(ForeignEntry::Leaf(leaf));
                }
                // What lies in the other repository is not known either.
                Some(ForeignTreeLine::Repository) => return Ok(ForeignEntry::Repository),
                Some(ForeignTreeLine::Tree(_) | ForeignTreeLine::Leaf(_)) | None => {
                    return Ok(ForeignEntry::None);
                }
            }
        }
        Ok(ForeignEntry::None)
    }

    fn read_tree(&mut self, oid: &Oid) -> Result<ForeignTree, ForeignObjectError> {
        if let Some(lines) = self.trees.get(oid) {
            return Ok(lines.clone());
        }
        let lines = parse_lines(&self.read(oid, Kind::Tree, MAX_TREE_BYTES)?)?;
        self.cached_entries += lines.len();
        if self.cached_entries > MAX_CACHED_ENTRIES {
            self.cached_entries = lines.len();
            self.trees.clear();
        }
        let lines = Arc::new(lines);
        self.trees.insert(*oid, lines.clone());
        Ok(lines)
    }
}

fn parse_lines(data: &[u8]) -> Result<HashMap<Vec<u8>, ForeignTreeLine>, ForeignObjectError> {
    let mut lines = HashMap::new();
    for entry in TreeRefIter::from_bytes(data, gix::hash::Kind::Sha1) {
        let entry = entry.map_err(|_| ForeignObjectError::Missing)?;
        let oid = from_gix(entry.oid.to_owned());
        let leaf = |mode| ForeignTreeLine::Leaf(TreeLeaf { blob: oid, mode });
        let line = match entry.mode.kind() {
            EntryKind::Blob => leaf(FileMode::File),
            EntryKind::BlobExecutable => leaf(FileMode::Exec),
            EntryKind::Link => leaf(FileMode::Link),
            EntryKind::Tree => ForeignTreeLine::Tree(oid),
            EntryKind::Commit => ForeignTreeLine::Repository,
        };
        // Of two lines with one name, which no git writes, the first counts.
        lines.entry(entry.filename.to_vec()).or_insert(line);
    }
    Ok(lines)
}

impl ForeignRepository {
    fn open(git_dir: &Path) -> io::Result<Self> {
        let folders = list_object_folders(git_dir);
        for folder in &folders {
            check_object_folder(folder)?;
        }
        let kind = gix::hash::Kind::Sha1;
        let options = gix::odb::store::init::Options {
            current_dir: Some(git_dir.to_owned()),
            ..gix::odb::store::init::Options::default()
        };
        let objects = git_dir.join("objects");
        let store = gix::odb::Store::at_opts(objects, kind, &mut std::iter::empty(), options)?;
        Ok(Self { folders, objects: Arc::new(store).to_cache_arc() })
    }

    fn read(&self, oid: &Oid, kind: Kind, limit: u64) -> Result<Vec<u8>, ForeignObjectError> {
        if !self.is_loose_object_regular(oid) {
            return Err(ForeignObjectError::Missing);
        }
        let header = self.objects.try_header(&to_gix(oid)).ok().flatten();
        let header = header.ok_or(ForeignObjectError::Missing)?;
        if header.size() > limit {
            return Err(ForeignObjectError::TooLarge);
        }
        let mut data = Vec::new();
        let found = self.objects.try_find(&to_gix(oid), &mut data).ok().flatten();
        let is_of_kind = found.is_some_and(|object| object.kind == kind);
        let is_named = hash_object(kind, &data).is_ok_and(|name| name == *oid);
        if is_of_kind && is_named { Ok(data) } else { Err(ForeignObjectError::Missing) }
    }

    /// False if a pipe or a device is in the place of a loose object: reading it would wait.
    fn is_loose_object_regular(&self, oid: &Oid) -> bool {
        let name = oid.to_string();
        let (folder, file) = name.split_at(2);
        let paths = self.folders.iter().map(|objects| objects.join(folder).join(file));
        paths.into_iter().all(|path| open_regular_file(&path).is_ok())
    }
}

/// Checks that everything the library opens in a folder of objects is a regular file.
fn check_object_folder(folder: &Path) -> io::Result<()> {
    if let Some(list) = open_regular_file(&folder.join("info/alternates"))?
        && list.metadata()?.len() > MAX_ALTERNATES_BYTES
    {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let entries = match fs_err::read_dir(folder.join("pack")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            open_regular_file(&entry.path())?;
        }
    }
    Ok(())
}
