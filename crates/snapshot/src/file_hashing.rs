//! Reading files into a pack: in parallel, in bounded memory, and only as they really are.

use std::collections::BTreeMap;
use std::io::{self, Read};

use gix::objs::Kind as ObjectKind;
use rayon::prelude::*;

use crate::object_store::{ObjectRepository, Oid, PackWriter, PackedObject, TreeLeaf, hash_object};
use crate::path::RelPath;
use crate::path_image::{PathImage, UncoveredReason};
use crate::stat_cache::{CachedFile, leaf_mode_of};
use crate::worktree::{FileKind, FileStat, Worktree, WorktreeDir};

/// Bytes of files that are read and compressed at a time.
const BATCH_BYTES: u64 = 8 << 20;
/// Larger files are streamed, one after the other.
const STREAM_ABOVE_BYTES: u64 = 8 << 20;
/// So few files are not worth another thread.
const MIN_PARALLEL_FILES: usize = 8;
/// How often a file that changes under our eyes is read again.
const READ_ATTEMPTS: usize = 3;

/// What came of reading files.
#[derive(Default)]
pub(crate) struct HashedFiles {
    pub(crate) read: Vec<(RelPath, CachedFile)>,
    pub(crate) skipped: BTreeMap<RelPath, UncoveredReason>,
    /// Paths that were gone.
    pub(crate) absent: Vec<RelPath>,
}

/// One file, read.
enum HashedFile {
    Read(FileStat, Oid, Option<PackedObject>),
    Skipped(UncoveredReason),
    Absent,
}

/// Reads `files`, puts what the repository lacks into `writer`, and returns what each file is.
pub(crate) fn hash_files(
    worktree: &Worktree,
    repository: &ObjectRepository,
    files: &[(RelPath, FileStat)],
    writer: &mut PackWriter,
    clock: i64,
) -> io::Result<HashedFiles> {
    let mut hashed = HashedFiles::default();
    let mut rest = files;
    while let Some(((path, stat), after)) = rest.split_first() {
        if stat.size > STREAM_ABOVE_BYTES && stat.kind == FileKind::File {
            let one = stream_file_into_pack(worktree, path, writer, &repository.existence_check())?;
            hashed.add(path.clone(), one, writer, clock)?;
            rest = after;
            continue;
        }
        let mut bytes = 0;
        let count = rest.iter().take_while(|(_, stat)| {
            bytes += stat.size + 256;
            stat.size <= STREAM_ABOVE_BYTES && bytes <= BATCH_BYTES
        });
        let (batch, after) = rest.split_at(count.count().max(1));
        // A few files are read sooner than other threads wake up.
        let known = repository.existence_check();
        let ones: Vec<HashedFile> = match batch.len() {
            0..=MIN_PARALLEL_FILES => {
                batch.iter().map(|(path, _)| hash_file(worktree, path, &known)).collect()
            }
            _ => batch
                .par_iter()
                .with_min_len(MIN_PARALLEL_FILES)
                .map_init(
                    || repository.existence_check(),
                    |known, (path, _)| hash_file(worktree, path, known),
                )
                .collect(),
        };
        for ((path, _), one) in batch.iter().zip(ones) {
            hashed.add(path.clone(), one, writer, clock)?;
        }
        rest = after;
    }
    Ok(hashed)
}

impl HashedFiles {
    /// Adds what other files turned out to be.
    pub(crate) fn extend(&mut self, other: Self) {
        self.read.extend(other.read);
        self.skipped.extend(other.skipped);
        self.absent.extend(other.absent);
    }

    fn add(
        &mut self,
        path: RelPath,
        one: HashedFile,
        writer: &mut PackWriter,
        clock: i64,
    ) -> io::Result<()> {
        match one {
            HashedFile::Read(stat, blob, packed) => {
                packed.map_or(Ok(()), |packed| writer.add(&packed))?;
                let leaf = TreeLeaf { blob, mode: leaf_mode_of(&stat) };
                self.read.push((path, CachedFile::new(stat, leaf, clock)));
            }
            HashedFile::Skipped(reason) => {
                self.skipped.insert(path, reason);
            }
            HashedFile::Absent => self.absent.push(path),
        }
        Ok(())
    }
}

/// Reads one file as it is at one moment, or returns why it cannot.
fn hash_file(worktree: &Worktree, path: &RelPath, is_known: &dyn Fn(&Oid) -> bool) -> HashedFile {
    let mut data = Vec::new();
    for _ in 0..READ_ATTEMPTS {
        match read_once(worktree, path, &mut data) {
            Ok(Some(Some(stat))) => {
                let Ok(oid) = hash_object(ObjectKind::Blob, &data) else {
                    break;
                };
                let packed = match is_known(&oid) {
                    true => None,
                    false => match PackedObject::with_oid(oid, ObjectKind::Blob, &data) {
                        Ok(packed) => Some(packed),
                        Err(_) => break,
                    },
                };
                return HashedFile::Read(stat, oid, packed);
            }
            Ok(Some(None)) => {}
            Ok(None) => return HashedFile::Absent,
            Err(reason) => return HashedFile::Skipped(reason),
        }
    }
    HashedFile::Skipped(UncoveredReason::Changing)
}

/// What a path holds now: its image, and the stat and bytes of a file or a link. A
/// [`crate::PathImage`] alone is the part that is stored.
pub(crate) struct CurrentContent {
    pub(crate) image: PathImage,
    /// Set for a file or a link.
    pub(crate) stat: Option<FileStat>,
    /// Its bytes; empty for anything else.
    pub(crate) data: Vec<u8>,
}

impl CurrentContent {
    const fn without_bytes(image: PathImage) -> Self {
        Self { image, stat: None, data: Vec::new() }
    }

    const fn uncovered(reason: UncoveredReason) -> Self {
        Self::without_bytes(PathImage::Uncovered { reason })
    }
}

/// Reads one path from disk, without any cache (R8).
pub(crate) fn read_current_content(worktree: &Worktree, path: &RelPath) -> CurrentContent {
    let mut data = Vec::new();
    for _ in 0..READ_ATTEMPTS {
        match read_once(worktree, path, &mut data) {
            Ok(Some(Some(stat))) => {
                let Ok(blob) = hash_object(ObjectKind::Blob, &data) else {
                    break;
                };
                let leaf = TreeLeaf { blob, mode: leaf_mode_of(&stat) };
                let perm = if stat.kind == FileKind::Link { 0 } else { stat.perm };
                let image = PathImage::Present { leaf, perm };
                return CurrentContent { image, stat: Some(stat), data };
            }
            Ok(Some(None)) => {}
            Ok(None) => return CurrentContent::without_bytes(read_folder_image(worktree, path)),
            Err(reason) => return CurrentContent::uncovered(reason),
        }
    }
    CurrentContent::uncovered(UncoveredReason::Changing)
}

/// The image of a path that is no file or link.
fn read_folder_image(worktree: &Worktree, path: &RelPath) -> PathImage {
    match worktree.stat(path) {
        Ok(Some(stat)) if stat.kind == FileKind::Directory => {
            PathImage::Directory { perm: stat.perm }
        }
        Ok(_) => PathImage::Absent,
        Err(error) => PathImage::Uncovered { reason: uncovered_reason_of(&error) },
    }
}

/// Reads a file once; `Some(None)` if it changed meanwhile, nothing if it is gone.
fn read_once(
    worktree: &Worktree,
    path: &RelPath,
    data: &mut Vec<u8>,
) -> Result<Option<Option<FileStat>>, UncoveredReason> {
    let dir = match worktree.open_parent(path) {
        Ok(dir) => dir,
        Err(error) => {
            return worktree
                .absent_unless_link(path, error)
                .map(|()| None)
                .map_err(|error| uncovered_reason_of(&error));
        }
    };
    read_once_in(&dir, path.name(), data)
}

/// Reads a name in an open directory once; returns what [`read_once`] returns.
pub(crate) fn read_once_in(
    dir: &WorktreeDir,
    name: &[u8],
    data: &mut Vec<u8>,
) -> Result<Option<Option<FileStat>>, UncoveredReason> {
    data.clear();
    let Some(before) = dir.stat(name).map_err(|error| uncovered_reason_of(&error))? else {
        return Ok(None);
    };
    let same = |after: &FileStat| before.is_unchanged(after).then_some(before);
    match before.kind {
        FileKind::Link => {
            *data = match dir.read_link(name) {
                Ok(target) => target,
                Err(_) => return Ok(Some(None)),
            };
            let after = dir.stat(name).map_err(|error| uncovered_reason_of(&error))?;
            Ok(Some(after.as_ref().and_then(same)))
        }
        FileKind::File => {
            let (file, _) = match dir.open_file(name) {
                Ok(opened) => opened,
                // Gone, or a link by now: it changed after it was described.
                Err(error) if has_vanished(&error) => return Ok(Some(None)),
                Err(error) => return Err(uncovered_reason_of(&error)),
            };
            data.reserve(before.size as usize + 1);
            (&file)
                .take(before.size + 1)
                .read_to_end(data)
                .map_err(|_| UncoveredReason::Unreadable)?;
            let after = FileStat::of(&file).map_err(|_| UncoveredReason::Unreadable)?;
            Ok(Some(same(&after).filter(|stat| stat.size == data.len() as u64)))
        }
        FileKind::Directory => Ok(None),
        FileKind::Special => Err(UncoveredReason::Special),
    }
}

/// Reads a large file straight into the pack.
fn stream_file_into_pack(
    worktree: &Worktree,
    path: &RelPath,
    writer: &mut PackWriter,
    is_known: &dyn Fn(&Oid) -> bool,
) -> io::Result<HashedFile> {
    for _ in 0..READ_ATTEMPTS {
        let opened = worktree.open_parent(path).and_then(|dir| dir.open_file(path.name()));
        let (file, before) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashedFile::Absent),
            Err(error) => return Ok(HashedFile::Skipped(uncovered_reason_of(&error))),
        };
        let mut after = None;
        let oid = writer.add_stream(before.size, &file, |oid| {
            after = FileStat::of(&file).ok();
            after.as_ref().is_some_and(|after| before.is_unchanged(after)) && !is_known(oid)
        })?;
        let after = after.or_else(|| FileStat::of(&file).ok());
        if let (Some(oid), true) = (oid, after.is_some_and(|after| before.is_unchanged(&after))) {
            return Ok(HashedFile::Read(before, oid, None));
        }
    }
    Ok(HashedFile::Skipped(UncoveredReason::Changing))
}

fn has_vanished(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

fn uncovered_reason_of(error: &io::Error) -> UncoveredReason {
    let code = rustix::io::Errno::from_io_error(error);
    if code == Some(rustix::io::Errno::LOOP) {
        UncoveredReason::BehindLink
    } else {
        UncoveredReason::Unreadable
    }
}
