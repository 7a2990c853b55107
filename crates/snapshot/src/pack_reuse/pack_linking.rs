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

/// A file whose bytes are wanted from a pack.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedBlob {
    /// Which file it is, to the caller.
    pub(super) at: usize,
    pub(super) blob: Oid,
    /// What the file says its size is; the object must agree.
    pub(super) size: u64,
}

/// A pack of the user's.
struct UserPack {
    pack: PathBuf,
    index: index::File,
    bytes: u64,
}

/// Lends the packs of `theirs` that are worth it into `ours`; returns what they have of `wanted`.
pub(super) fn link_packs(
    theirs: &Path,
    ours: &Path,
    mut wanted: Vec<WantedBlob>,
) -> io::Result<Vec<WantedBlob>> {
    let mut lent = Vec::new();
    // A folder that cannot be listed lends nothing.
    for lender in list_user_packs(theirs).unwrap_or_default() {
        if wanted.is_empty() {
            break;
        }
        let hits: Vec<Option<u32>> =
            wanted.par_iter().map(|it| lender.index.lookup(to_gix(&it.blob))).collect();
        let pairs = || wanted.iter().zip(&hits).filter_map(|(it, hit)| Some((*it, (*hit)?)));
        let bytes: u64 = pairs().map(|(it, _)| it.size).sum();
        if lender.bytes > bytes.saturating_mul(MAX_PACK_RATIO) {
            continue;
        }
        let found = match link_pack(&lender, ours, &pairs().collect::<Vec<_>>()) {
            Ok(found) => found,
            // Another file system, a vanished or damaged pack, a user who may not: it stays there.
            Err(_) => continue,
        };
        let taken: std::collections::HashSet<usize> = found.iter().map(|it| it.at).collect();
        wanted.retain(|it| !taken.contains(&it.at));
        lent.extend(found);
    }
    if !lent.is_empty() {
        fs_err::File::open(ours)?.sync_all()?;
        fail_point!("snapshot::loan_durable", |_| Err(io::Error::other("failpoint")));
    }
    Ok(lent)
}

/// The packs of a repository, the largest first; none if some objects are missing by design.
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
        let size = |path: &Path| fs_err::metadata(path).map(|meta| meta.len());
        if let (Ok(index), Ok(one), Ok(other)) =
            (index::File::at(&path, gix::hash::Kind::Sha1), size(&path), size(&pack))
        {
            found.push(UserPack { pack, index, bytes: one + other });
        }
    }
    found.sort_by_key(|lender| std::cmp::Reverse(lender.bytes));
    Ok(found)
}

/// Gives a pack its second name and returns what it holds as it should be, durably.
fn link_pack(
    lender: &UserPack,
    ours: &Path,
    wanted: &[(WantedBlob, u32)],
) -> io::Result<Vec<WantedBlob>> {
    let sum = lender.index.pack_checksum();
    let name = |ending: &str| ours.join(format!("{BORROWED_PREFIX}{sum}.{ending}"));
    let (pack, index) = (name("pack"), name("idx"));
    if index.try_exists()? {
        return verify_blobs(&pack, &lender.index, wanted);
    }
    // The index gets its name last: until then readers skip the pack, and the next open removes it.
    let linked = link_file(&lender.pack, &pack).and_then(|()| {
        fail_point!("snapshot::pack_lent", |_| Err(io::Error::other("failpoint")));
        let found = verify_blobs(&pack, &lender.index, wanted)?;
        if found.is_empty() {
            return Err(io::Error::other("nothing in it can be used"));
        }
        link_file(lender.index.path(), &index)?;
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
fn verify_blobs(
    pack: &Path,
    index: &index::File,
    wanted: &[(WantedBlob, u32)],
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
    let is_good = |inflate: &mut gix::zlib::Inflate, (it, at): &(WantedBlob, u32)| {
        let entry = pack.entry(index.pack_offset_at_index(*at)).ok()?;
        let header = pack.decode_header(entry, inflate, &in_pack).ok()?;
        (header.kind == Kind::Blob && header.object_size == it.size).then_some(*it)
    };
    // Each part reuses one inflater, which is expensive to create.
    let all = wanted.par_iter().with_min_len(8192);
    Ok(all.map_init(gix::zlib::Inflate::default, is_good).flatten().collect())
}
