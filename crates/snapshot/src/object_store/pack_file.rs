//! Packs on disk: what is in them, how it is stored, and who may take them away.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gix::objs::Kind;
use gix::odb::pack::data::entry::Header;

use super::pack_writer::{BORROWED_PREFIX, ObjectEncoding, TEMP_PREFIX, hidden_index};
use super::{Oid, from_gix, to_gix};

/// Bytes a head has at most: a size, and the name or the distance of a base.
const MAX_HEADER_BYTES: usize = 32;
/// Bytes that are copied at a time.
const COPY_CHUNK_BYTES: usize = 1 << 18;

/// A pack on disk.
#[derive(Debug)]
pub(crate) struct PackFile {
    folder: PathBuf,
    /// Its name without an ending.
    pub(crate) stem: String,
    /// Bytes of the pack and its index.
    pub(crate) bytes: u64,
    pub(crate) owner: PackOwner,
}

/// Who may take a pack away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackOwner {
    /// We, when its objects are elsewhere or not needed.
    Store,
    /// No one: a `.keep` file protects it.
    Protected,
    /// The user's repository it is borrowed from.
    User,
}

/// An object in a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackEntry {
    pub(crate) oid: Oid,
    pub(crate) offset: u64,
    /// Bytes it takes there.
    pub(crate) length: u64,
    crc: Option<u32>,
}

/// Lists the packs that have an index.
pub(super) fn list_packs(folder: &Path) -> io::Result<Vec<PackFile>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".idx"));
        let Some(stem) = stem.filter(|stem| !stem.starts_with(TEMP_PREFIX)) else {
            continue;
        };
        let length = |ending: &str| {
            let meta = fs_err::metadata(folder.join(format!("{stem}.{ending}")));
            meta.map(|meta| meta.len())
        };
        let bytes = match length("pack").and_then(|pack| Ok(pack + length("idx")?)) {
            Ok(bytes) => bytes,
            // Git is just taking it away: one of both alone is no pack.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let owner = pack_owner_of(folder, stem)?;
        found.push(PackFile { folder: folder.to_owned(), stem: stem.to_owned(), bytes, owner });
    }
    found.sort_by(|one, other| one.stem.cmp(&other.stem));
    Ok(found)
}

/// A pack that is named as borrowed is not ours, nor is one with a `.keep` file of another program.
fn pack_owner_of(folder: &Path, stem: &str) -> io::Result<PackOwner> {
    let has = |ending: &str| folder.join(format!("{stem}.{ending}")).try_exists();
    if stem.starts_with(BORROWED_PREFIX) {
        return Ok(PackOwner::User);
    }
    let ours = stem.starts_with("pack-") && !has("keep")? && !has("promisor")?;
    Ok(if ours { PackOwner::Store } else { PackOwner::Protected })
}

impl PackFile {
    /// True if it is borrowed.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.owner == PackOwner::User
    }

    /// Its objects, in the order of their places.
    pub(crate) fn entries(&self) -> io::Result<Vec<PackEntry>> {
        let index = self.open_index()?;
        let entry = |entry: gix::odb::pack::index::Entry| PackEntry {
            oid: from_gix(entry.oid),
            offset: entry.pack_offset,
            length: 0,
            crc: entry.crc32,
        };
        let mut entries: Vec<PackEntry> = index.iter().map(entry).collect();
        entries.sort_unstable_by_key(|entry| entry.offset);
        let pack = fs_err::metadata(self.folder.join(format!("{}.pack", self.stem)))?.len();
        let mut end = pack.saturating_sub(20);
        for entry in entries.iter_mut().rev() {
            entry.length = end.saturating_sub(entry.offset);
            end = entry.offset;
        }
        Ok(entries)
    }

    fn open_index(&self) -> io::Result<gix::odb::pack::index::File> {
        let path = self.folder.join(format!("{}.idx", self.stem));
        let index = gix::odb::pack::index::File::at(path, gix::hash::Kind::Sha1);
        index.map_err(|error| io::Error::other(error.to_string()))
    }

    /// Returns a lookup of where objects are in it.
    pub(crate) fn offset_lookup(&self) -> io::Result<impl Fn(&Oid) -> Option<u64> + use<>> {
        let index = self.open_index()?;
        Ok(move |oid: &Oid| index.lookup(to_gix(oid)).map(|at| index.pack_offset_at_index(at)))
    }

    /// Opens it to read objects as they are stored.
    pub(crate) fn open(&self) -> io::Result<OpenPack> {
        let file = fs_err::File::open(self.folder.join(format!("{}.pack", self.stem)))?;
        Ok(OpenPack { file: file.into_parts().0, entries: self.entries()? })
    }

    /// Hides it: readers skip it, and the next open removes the rest.
    pub(crate) fn hide(&self) -> io::Result<()> {
        let index = self.folder.join(format!("{}.idx", self.stem));
        let hidden = self.folder.join(hidden_index(&self.stem));
        match fs_err::rename(index, hidden) {
            // Git itself may have been faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes it after it was hidden, durably.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_pack_files(&self.folder, &self.stem)
    }
}

/// Removes the files of a hidden pack; its hidden index last, since it names the others.
pub(super) fn remove_pack_files(folder: &Path, stem: &str) -> io::Result<()> {
    let others = ["pack", "rev", "bitmap", "mtimes"].map(|ending| format!("{stem}.{ending}"));
    for name in others.into_iter().chain([hidden_index(stem)]) {
        match fs_err::remove_file(folder.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// A pack that is being read, piece by piece: a mapped one would count as memory.
pub(crate) struct OpenPack {
    file: std::fs::File,
    /// Its objects, in the order of their places.
    pub(crate) entries: Vec<PackEntry>,
}

/// How an object is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackEntryHeader {
    pub(crate) encoding: ObjectEncoding,
    /// Its bytes before they were compressed.
    pub(crate) size: u64,
    /// Bytes of the head itself.
    length: u64,
}

impl PackEntryHeader {
    /// Bytes of the object after they were compressed.
    pub(crate) fn stored_bytes(&self, entry: &PackEntry) -> u64 {
        entry.length - self.length
    }
}

impl OpenPack {
    /// How an object is stored; its bytes are not read.
    pub(crate) fn entry_header(&self, entry: &PackEntry) -> io::Result<PackEntryHeader> {
        let broken = || damaged_object(&entry.oid);
        let mut bytes = [0; MAX_HEADER_BYTES];
        let bytes = &mut bytes[..MAX_HEADER_BYTES.min(entry.length as usize)];
        self.file.read_exact_at(bytes, entry.offset)?;
        let kind = gix::hash::Kind::Sha1;
        let head = gix::odb::pack::data::Entry::from_bytes(bytes, entry.offset, kind);
        let head = head.map_err(|_| broken())?;
        let shape = match head.header {
            Header::RefDelta { base_id } => ObjectEncoding::Delta(from_gix(base_id)),
            Header::OfsDelta { base_distance } => {
                let base = head.checked_base_pack_offset(base_distance).ok_or_else(broken)?;
                let place = self.entries.binary_search_by_key(&base, |entry| entry.offset);
                ObjectEncoding::Delta(self.entries[place.map_err(|_| broken())?].oid)
            }
            Header::Commit => ObjectEncoding::Whole(Kind::Commit),
            Header::Tree => ObjectEncoding::Whole(Kind::Tree),
            Header::Blob => ObjectEncoding::Whole(Kind::Blob),
            Header::Tag => ObjectEncoding::Whole(Kind::Tag),
        };
        let length = head.data_offset - entry.offset;
        Ok(PackEntryHeader { encoding: shape, size: head.decompressed_size, length })
    }

    /// Passes the compressed bytes of an object on; they are what they were when they were written.
    pub(crate) fn copy_body(&self, entry: &PackEntry, out: &mut dyn Write) -> io::Result<()> {
        let mut skip = self.entry_header(entry)?.length as usize;
        let mut crc = crc32fast::Hasher::new();
        let mut buffer = vec![0; COPY_CHUNK_BYTES.min(entry.length as usize)];
        let (mut at, end) = (entry.offset, entry.offset + entry.length);
        while at < end {
            let piece = &mut buffer[..COPY_CHUNK_BYTES.min((end - at) as usize)];
            self.file.read_exact_at(piece, at)?;
            crc.update(piece);
            at += piece.len() as u64;
            out.write_all(&piece[skip..])?;
            skip = 0;
        }
        match entry.crc {
            Some(known) if known != crc.finalize() => Err(damaged_object(&entry.oid)),
            Some(_) | None => Ok(()),
        }
    }

    /// Reads a whole object; `None` if it is a change of another one.
    pub(crate) fn read_whole(&self, entry: &PackEntry) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let head = self.entry_header(entry)?;
        let ObjectEncoding::Whole(kind) = head.encoding else {
            return Ok(None);
        };
        let mut body = Vec::with_capacity(entry.length as usize);
        self.copy_body(entry, &mut body)?;
        let mut data = vec![0; usize::try_from(head.size).map_err(|_| damaged_object(&entry.oid))?];
        let done = gix::zlib::Inflate::default().once(&body, &mut data);
        match done {
            Ok((gix::zlib::Status::StreamEnd, _, length)) if length == data.len() => {
                Ok(Some((kind, data)))
            }
            Ok(_) | Err(_) => Err(damaged_object(&entry.oid)),
        }
    }
}

fn damaged_object(oid: &Oid) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("object {oid} is damaged"))
}
