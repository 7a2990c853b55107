//! Packs on disk: what is in them, how it is stored, and who may take them away.

use std::io;
use std::path::{Path, PathBuf};

use gix::objs::Kind;
use gix::odb::pack::data::entry::Header;

use super::Oid;
use super::pack::{Shape, TEMP_PREFIX, hidden_index};

/// A pack on disk.
#[derive(Debug)]
pub(crate) struct PackFile {
    folder: PathBuf,
    /// Its name without an ending.
    pub(crate) stem: String,
    /// Bytes of the pack and its index.
    pub(crate) bytes: u64,
    pub(crate) owner: Owner,
}

/// Who may take a pack away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// We, when its objects are elsewhere or not needed.
    Store,
    /// Nobody: somebody said so with a file `.keep` beside it.
    Kept,
    /// Whoever lent it.
    Lender,
}

/// An object in a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) oid: Oid,
    pub(crate) offset: u64,
    /// Bytes it takes there.
    pub(crate) length: u64,
    crc: Option<u32>,
}

/// Lists the packs that have an index.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PackFile>> {
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
        let bytes = match length("pack") {
            Ok(pack) => pack + length("idx")?,
            // An index alone is no pack; git takes packs away in this order.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let owner = owner_of(folder, stem)?;
        found.push(PackFile { folder: folder.to_owned(), stem: stem.to_owned(), bytes, owner });
    }
    found.sort_by(|one, other| one.stem.cmp(&other.stem));
    Ok(found)
}

/// A pack whose name begins with `lent-`, or that has a file `.loan` beside it, is not ours.
fn owner_of(folder: &Path, stem: &str) -> io::Result<Owner> {
    let has = |ending: &str| folder.join(format!("{stem}.{ending}")).try_exists();
    if stem.starts_with("lent-") || has("loan")? {
        return Ok(Owner::Lender);
    }
    let ours = stem.starts_with("pack-") && !has("keep")? && !has("promisor")?;
    Ok(if ours { Owner::Store } else { Owner::Kept })
}

impl PackFile {
    /// Its objects, in the order of their places.
    pub(crate) fn entries(&self) -> io::Result<Vec<Entry>> {
        let path = self.folder.join(format!("{}.idx", self.stem));
        let index = gix::odb::pack::index::File::at(path, gix::hash::Kind::Sha1);
        let index = index.map_err(|error| io::Error::other(error.to_string()))?;
        let entry = |entry: gix::odb::pack::index::Entry| Entry {
            oid: Oid::from(entry.oid),
            offset: entry.pack_offset,
            length: 0,
            crc: entry.crc32,
        };
        let mut entries: Vec<Entry> = index.iter().map(entry).collect();
        entries.sort_unstable_by_key(|entry| entry.offset);
        let pack = fs_err::metadata(self.folder.join(format!("{}.pack", self.stem)))?.len();
        let mut end = pack.saturating_sub(20);
        for entry in entries.iter_mut().rev() {
            entry.length = end.saturating_sub(entry.offset);
            end = entry.offset;
        }
        Ok(entries)
    }

    /// Opens it to read objects as they are stored.
    pub(crate) fn open(&self) -> io::Result<OpenPack> {
        let path = self.folder.join(format!("{}.pack", self.stem));
        let data = gix::odb::pack::data::File::at(path, gix::hash::Kind::Sha1);
        let data = data.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(OpenPack { data, entries: self.entries()? })
    }

    /// Hides it: from now on nobody looks at it, and a sweep would finish the rest.
    pub(crate) fn hide(&self) -> io::Result<()> {
        let index = self.folder.join(format!("{}.idx", self.stem));
        match fs_err::rename(index, hidden_index(&self.folder, &self.stem)) {
            // Git itself may have been faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes it after it was hidden, durably.
    pub(crate) fn discard(&self) -> io::Result<()> {
        discard(&self.folder, &self.stem)
    }
}

/// Removes the files of a hidden pack; its hidden index goes last, since it tells of the others.
pub(super) fn discard(folder: &Path, stem: &str) -> io::Result<()> {
    let others = ["pack", "rev", "bitmap", "mtimes"];
    let others = others.map(|ending| folder.join(format!("{stem}.{ending}")));
    for path in others.into_iter().chain([hidden_index(folder, stem)]) {
        match fs_err::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// A pack that is being read.
pub(crate) struct OpenPack {
    data: gix::odb::pack::data::File,
    pub(crate) entries: Vec<Entry>,
}

/// An object as it is stored.
pub(crate) struct Raw<'p> {
    pub(crate) shape: Shape,
    /// Its bytes before they were compressed.
    pub(crate) size: u64,
    pub(crate) body: &'p [u8],
}

impl OpenPack {
    /// How an object is stored, without a look at its bytes.
    pub(crate) fn shape(&self, entry: &Entry) -> io::Result<Shape> {
        Ok(self.parse(entry)?.shape)
    }

    /// An object as it is stored; its bytes are what they were when they were written.
    pub(crate) fn raw(&self, entry: &Entry) -> io::Result<Raw<'_>> {
        let all = self.data.entry_slice(entry.offset..entry.offset + entry.length);
        let found = all.map(crc32fast::hash);
        match entry.crc {
            Some(crc) if Some(crc) != found => Err(damaged(&entry.oid)),
            Some(_) | None => self.parse(entry),
        }
    }

    fn parse(&self, entry: &Entry) -> io::Result<Raw<'_>> {
        let broken = || damaged(&entry.oid);
        let end = entry.offset + entry.length;
        let head = self.data.entry(entry.offset).map_err(|_| broken())?;
        let body = self.data.entry_slice(head.data_offset..end).ok_or_else(broken)?;
        let shape = match head.header {
            Header::RefDelta { base_id } => Shape::Delta(Oid::from(base_id)),
            Header::OfsDelta { base_distance } => {
                let base = head.checked_base_pack_offset(base_distance).ok_or_else(broken)?;
                let place = self.entries.binary_search_by_key(&base, |entry| entry.offset);
                Shape::Delta(self.entries[place.map_err(|_| broken())?].oid)
            }
            Header::Commit => Shape::Whole(Kind::Commit),
            Header::Tree => Shape::Whole(Kind::Tree),
            Header::Blob => Shape::Whole(Kind::Blob),
            Header::Tag => Shape::Whole(Kind::Tag),
        };
        Ok(Raw { shape, size: head.decompressed_size, body })
    }
}

fn damaged(oid: &Oid) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("object {oid} is damaged"))
}
