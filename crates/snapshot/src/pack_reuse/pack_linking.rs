//! Borrowed packs: a second name in our store, durable before anything relies on it.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use fail::fail_point;
use gix::objs::Kind;
use gix::odb::pack::data::decode::header::ResolvedBase;
use gix::odb::pack::{data, index};
use rayon::prelude::*;

use crate::object_store::{BORROWED_PREFIX, Oid, to_gix};

/// How many bytes may be borrowed for each byte that they prove (R10).
const MAX_PACK_RATIO: u64 = 4;
/// So much of a pack is mapped at a time: what was read of a mapping counts as memory.
const WINDOW_BYTES: u64 = 32 << 20;

/// A file whose bytes are wanted from a pack.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedBlob {
    /// Which file it is, to the caller.
    pub(super) at: usize,
    pub(super) blob: Oid,
    /// The size of the file; the object must have the same.
    pub(super) size: u64,
}

/// A pack of the user's.
struct UserPack {
    pack: PathBuf,
    index: index::File,
    bytes: u64,
}

/// Links the packs of `theirs` that are worth it into `ours`; returns what they have of `wanted`.
///
/// `theirs` are folders of objects: of a repository, and of its alternates.
pub(super) fn link_packs(
    theirs: &[PathBuf],
    ours: &Path,
    mut wanted: Vec<WantedBlob>,
) -> io::Result<Vec<WantedBlob>> {
    let mut reused = Vec::new();
    // No pack of a folder that cannot be listed is linked.
    let listed = theirs.iter().map(|folder| list_user_packs(&folder.join("pack")));
    let mut sources: Vec<UserPack> = listed.flat_map(Result::unwrap_or_default).collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.bytes));
    for source in sources {
        if wanted.is_empty() {
            break;
        }
        let hits: Vec<Option<u32>> =
            wanted.par_iter().map(|it| source.index.lookup(to_gix(&it.blob))).collect();
        let pairs = || wanted.iter().zip(&hits).filter_map(|(it, hit)| Some((*it, (*hit)?)));
        let bytes: u64 = pairs().map(|(it, _)| it.size).sum();
        if source.bytes > bytes.saturating_mul(MAX_PACK_RATIO) {
            continue;
        }
        let found = match link_pack(&source, ours, &pairs().collect::<Vec<_>>()) {
            Ok(found) => found,
            // Another file system, a vanished or damaged pack, a user who may not: it stays there.
            Err(_) => continue,
        };
        let taken: std::collections::HashSet<usize> = found.iter().map(|it| it.at).collect();
        wanted.retain(|it| !taken.contains(&it.at));
        reused.extend(found);
    }
    if !reused.is_empty() {
        fs_err::File::open(ours)?.sync_all()?;
        fail_point!("snapshot::loan_durable", |_| Err(io::Error::other("failpoint")));
    }
    Ok(reused)
}

/// The packs of a folder; none if some objects are missing by design.
fn list_user_packs(folder: &Path) -> io::Result<Vec<UserPack>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        match path.extension().and_then(OsStr::to_str) {
            Some("promisor") => return Ok(Vec::new()),
            Some("idx") => {}
            _ => continue,
        }
        let pack = path.with_extension("pack");
        // A pipe is not opened: opening it would block.
        let size = |path: &Path| {
            let meta = fs_err::symlink_metadata(path).ok()?;
            meta.is_file().then_some(meta.len())
        };
        let (Some(one), Some(other)) = (size(&path), size(&pack)) else {
            continue;
        };
        if let Ok(index) = index::File::at(&path, gix::hash::Kind::Sha1) {
            found.push(UserPack { pack, index, bytes: one + other });
        }
    }
    Ok(found)
}

/// Gives a pack its second name and returns what it holds as it should be, durably.
fn link_pack(
    source: &UserPack,
    ours: &Path,
    wanted: &[(WantedBlob, u32)],
) -> io::Result<Vec<WantedBlob>> {
    let sum = source.index.pack_checksum();
    let name = |ending: &str| ours.join(format!("{BORROWED_PREFIX}{sum}.{ending}"));
    let (pack, index) = (name("pack"), name("idx"));
    if index.try_exists()? {
        return verify_blobs(&pack, &source.index, wanted);
    }
    // The index gets its name last: until then readers skip the pack, and the next open removes it.
    let linked = link_file(&source.pack, &pack).and_then(|()| {
        fail_point!("snapshot::pack_lent", |_| Err(io::Error::other("failpoint")));
        let found = verify_blobs(&pack, &source.index, wanted)?;
        if found.is_empty() {
            return Err(io::Error::other("nothing in it can be used"));
        }
        link_file(source.index.path(), &index)?;
        Ok(found)
    });
    if linked.is_err() {
        fs_err::remove_file(&pack).ok();
    }
    linked
}

/// Links a file and makes its bytes durable: its owner may not have bothered.
fn link_file(from: &Path, to: &Path) -> io::Result<()> {
    if !fs_err::symlink_metadata(from)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    match fs_err::hard_link(from, to) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs_err::File::open(to)?.sync_all()
}

/// Finds the objects that are blobs of the size they should have.
///
/// The headers are read in the order of the pack, a part of it mapped at a time.
fn verify_blobs(
    pack: &Path,
    index: &index::File,
    wanted: &[(WantedBlob, u32)],
) -> io::Result<Vec<WantedBlob>> {
    let place = |at: u32| index.pack_offset_at_index(at);
    let mut placed: Vec<(u64, WantedBlob)> =
        wanted.iter().map(|(it, at)| (place(*at), *it)).collect();
    placed.sort_unstable_by_key(|(offset, _)| *offset);
    let mut found = Vec::with_capacity(placed.len());
    for window in placed.chunk_by(|one, other| one.0 / WINDOW_BYTES == other.0 / WINDOW_BYTES) {
        found.extend(verify_nearby_blobs(pack, index, window)?);
    }
    Ok(found)
}

/// Does [`verify_blobs`] for objects that lie near each other.
fn verify_nearby_blobs(
    pack: &Path,
    index: &index::File,
    placed: &[(u64, WantedBlob)],
) -> io::Result<Vec<WantedBlob>> {
    let pack = data::File::at(pack, gix::hash::Kind::Sha1)
        .map_err(|error| io::Error::other(error.to_string()))?;
    if pack.checksum() != index.pack_checksum() || pack.num_objects() != index.num_objects() {
        return Err(io::Error::other("the index belongs to another pack"));
    }
    let in_pack = |id: &gix::hash::oid| {
        let offset = index.lookup(id).map(|at| index.pack_offset_at_index(at));
        offset.map(|offset| pack.entry(offset).map(ResolvedBase::InPack)).transpose()
    };
    let is_good = |inflate: &mut gix::zlib::Inflate, (offset, it): &(u64, WantedBlob)| {
        let entry = pack.entry(*offset).ok()?;
        let header = pack.decode_header(entry, inflate, &in_pack).ok()?;
        (header.kind == Kind::Blob && header.object_size == it.size).then_some(*it)
    };
    // Each part reuses one inflater, which is expensive to create.
    let all = placed.par_iter().with_min_len(8192);
    Ok(all.map_init(gix::zlib::Inflate::default, is_good).flatten().collect())
}
