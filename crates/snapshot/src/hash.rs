//! Reading files into a pack: in parallel, in bounded memory, and only as they really are.

use std::collections::BTreeMap;
use std::io::{self, Read};

use gix::objs::Kind as ObjectKind;
use rayon::prelude::*;

use crate::cache::{Cached, mode_of};
use crate::coverage::Reason;
use crate::object::{Leaf, Oid, Packed, Repository, Writer};
use crate::path::RelPath;
use crate::worktree::{Dir, Kind, Stat, Worktree};

/// Bytes of files that are read and compressed at a time.
const BATCH: u64 = 24 << 20;
/// Larger files are streamed, one after the other.
const STREAMED: u64 = 8 << 20;
/// So few files are not worth another thread.
const FEW: usize = 8;
/// How often a file that changes under our eyes is read again.
const TRIES: usize = 3;

/// What came of reading files.
#[derive(Default)]
pub(crate) struct Hashed {
    pub(crate) read: Vec<(RelPath, Cached)>,
    pub(crate) skipped: BTreeMap<RelPath, Reason>,
    /// Paths that were gone.
    pub(crate) absent: Vec<RelPath>,
}

/// One file, read.
enum One {
    Read(Stat, Oid, Option<Packed>),
    Skipped(Reason),
    Absent,
}

/// Reads `files`, puts what the repository lacks into `writer`, and tells what each file is.
pub(crate) fn hash(
    worktree: &Worktree,
    repository: &Repository,
    files: &[(RelPath, Stat)],
    writer: &mut Writer,
    clock: i64,
) -> io::Result<Hashed> {
    let mut hashed = Hashed::default();
    let mut rest = files;
    while let Some(((path, stat), after)) = rest.split_first() {
        if stat.size > STREAMED && stat.kind == Kind::File {
            let one = stream(worktree, path, writer, &repository.known())?;
            hashed.put(path.clone(), one, writer, clock)?;
            rest = after;
            continue;
        }
        let mut bytes = 0;
        let count = rest.iter().take_while(|(_, stat)| {
            bytes += stat.size + 256;
            stat.size <= STREAMED && bytes <= BATCH
        });
        let (batch, after) = rest.split_at(count.count().max(1));
        // A few files are read sooner than other threads wake up.
        let known = repository.known();
        let ones: Vec<One> = match batch.len() {
            0..=FEW => batch.iter().map(|(path, _)| read(worktree, path, &known)).collect(),
            _ => batch
                .par_iter()
                .with_min_len(FEW)
                .map_init(|| repository.known(), |known, (path, _)| read(worktree, path, known))
                .collect(),
        };
        for ((path, _), one) in batch.iter().zip(ones) {
            hashed.put(path.clone(), one, writer, clock)?;
        }
        rest = after;
    }
    Ok(hashed)
}

impl Hashed {
    fn put(&mut self, path: RelPath, one: One, writer: &mut Writer, clock: i64) -> io::Result<()> {
        match one {
            One::Read(stat, blob, packed) => {
                packed.map_or(Ok(()), |packed| writer.add(&packed))?;
                let leaf = Leaf { blob, mode: mode_of(&stat) };
                self.read.push((path, Cached::new(stat, leaf, clock)));
            }
            One::Skipped(reason) => {
                self.skipped.insert(path, reason);
            }
            One::Absent => self.absent.push(path),
        }
        Ok(())
    }
}

/// Reads one file as it is at one moment, or says why not.
fn read(worktree: &Worktree, path: &RelPath, is_known: &dyn Fn(&Oid) -> bool) -> One {
    let mut data = Vec::new();
    for _ in 0..TRIES {
        match attempt(worktree, path, &mut data) {
            Ok(Some(Some(stat))) => {
                let Ok(oid) = Oid::of(ObjectKind::Blob, &data) else {
                    break;
                };
                let packed = match is_known(&oid) {
                    true => None,
                    false => match Packed::named(oid, ObjectKind::Blob, &data) {
                        Ok(packed) => Some(packed),
                        Err(_) => break,
                    },
                };
                return One::Read(stat, oid, packed);
            }
            Ok(Some(None)) => {}
            Ok(None) => return One::Absent,
            Err(reason) => return One::Skipped(reason),
        }
    }
    One::Skipped(Reason::Changing)
}

/// What is at a path now.
pub(crate) enum Look {
    /// A file or link with these bytes.
    Present(Stat, Leaf, Vec<u8>),
    /// No file: nothing, or a directory.
    Absent,
    /// It cannot be told.
    Uncovered(Reason),
}

/// Looks at one path, whatever any cache says of it (R8).
pub(crate) fn look(worktree: &Worktree, path: &RelPath) -> Look {
    let mut data = Vec::new();
    for _ in 0..TRIES {
        match attempt(worktree, path, &mut data) {
            Ok(Some(Some(stat))) => {
                let Ok(blob) = Oid::of(ObjectKind::Blob, &data) else {
                    break;
                };
                return Look::Present(stat, Leaf { blob, mode: mode_of(&stat) }, data);
            }
            Ok(Some(None)) => {}
            Ok(None) => return Look::Absent,
            Err(reason) => return Look::Uncovered(reason),
        }
    }
    Look::Uncovered(Reason::Changing)
}

/// Reads a file once; `Some(None)` if it changed meanwhile, nothing if it is gone.
fn attempt(
    worktree: &Worktree,
    path: &RelPath,
    data: &mut Vec<u8>,
) -> Result<Option<Option<Stat>>, Reason> {
    let dir = match worktree.open_parent(path) {
        Ok(dir) => dir,
        Err(error) => {
            return worktree
                .absent_parent(path, error)
                .map(|()| None)
                .map_err(|error| reason_of(&error));
        }
    };
    attempt_in(&dir, path.name(), data)
}

/// The same for a name in an open directory.
pub(crate) fn attempt_in(
    dir: &Dir,
    name: &[u8],
    data: &mut Vec<u8>,
) -> Result<Option<Option<Stat>>, Reason> {
    data.clear();
    let Some(before) = dir.stat(name).map_err(|error| reason_of(&error))? else {
        return Ok(None);
    };
    let same = |after: &Stat| before.is_same(after).then_some(before);
    match before.kind {
        Kind::Link => {
            *data = match dir.read_link(name) {
                Ok(target) => target,
                Err(_) => return Ok(Some(None)),
            };
            let after = dir.stat(name).map_err(|error| reason_of(&error))?;
            Ok(Some(after.as_ref().and_then(same)))
        }
        Kind::File => {
            let (file, _) = match dir.open_file(name) {
                Ok(opened) => opened,
                // Gone, or a link by now: it changed after it was described.
                Err(error) if is_gone(&error) => return Ok(Some(None)),
                Err(error) => return Err(reason_of(&error)),
            };
            data.reserve(before.size as usize + 1);
            (&file).take(before.size + 1).read_to_end(data).map_err(|_| Reason::Unreadable)?;
            let after = Stat::of(&file).map_err(|_| Reason::Unreadable)?;
            Ok(Some(same(&after).filter(|stat| stat.size == data.len() as u64)))
        }
        Kind::Directory => Ok(None),
        Kind::Special => Err(Reason::Special),
    }
}

/// Reads a large file straight into the pack.
fn stream(
    worktree: &Worktree,
    path: &RelPath,
    writer: &mut Writer,
    is_known: &dyn Fn(&Oid) -> bool,
) -> io::Result<One> {
    for _ in 0..TRIES {
        let opened = worktree.open_parent(path).and_then(|dir| dir.open_file(path.name()));
        let (file, before) = match opened {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(One::Absent),
            Err(error) => return Ok(One::Skipped(reason_of(&error))),
        };
        let mut after = None;
        let oid = writer.add_stream(before.size, &file, |oid| {
            after = Stat::of(&file).ok();
            after.as_ref().is_some_and(|after| before.is_same(after)) && !is_known(oid)
        })?;
        let after = after.or_else(|| Stat::of(&file).ok());
        if let (Some(oid), true) = (oid, after.is_some_and(|after| before.is_same(&after))) {
            return Ok(One::Read(before, oid, None));
        }
    }
    Ok(One::Skipped(Reason::Changing))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

fn reason_of(error: &io::Error) -> Reason {
    let code = rustix::io::Errno::from_io_error(error);
    if code == Some(rustix::io::Errno::LOOP) { Reason::BehindLink } else { Reason::Unreadable }
}
