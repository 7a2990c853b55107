//! Packs: version 2, whole objects only, written once and never changed.
//!
//! A pack becomes durable in this order: its bytes, the bytes of its index, the name of the pack, the
//! name of the index, the directory. Until the index has its name nobody looks at the pack.

use std::collections::HashSet;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use fail::fail_point;
use gix::objs::Kind;
use gix::zlib::{Compression, stream::deflate};

use super::Oid;

/// Captures wait for this; a later repack may do better.
const LEVEL: Compression = Compression::BEST_SPEED;
/// How files that are not yet a pack are called; whatever is left of them is swept.
pub(super) const TEMP_PREFIX: &str = "tmp_turnstone_";

/// How packs of somebody else are called that are here for a while (R10).
pub(crate) const LENT_PREFIX: &str = "pack-lent-";

/// An object, compressed and ready to be written.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) oid: Oid,
    crc: u32,
    bytes: Vec<u8>,
}

impl Packed {
    /// Hashes and compresses an object.
    pub(crate) fn new(kind: Kind, data: &[u8]) -> io::Result<Self> {
        let oid = Oid::of(kind, data)?;
        Self::named(oid, kind, data)
    }

    /// Compresses an object whose name is known.
    pub(crate) fn named(oid: Oid, kind: Kind, data: &[u8]) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(data.len() / 2 + 32);
        write_header(&mut bytes, kind, data.len() as u64);
        let mut deflate = deflate::Write::new(bytes, LEVEL);
        deflate.write_all(data)?;
        deflate.flush()?;
        let bytes = deflate.into_inner();
        Ok(Self { oid, crc: crc32fast::hash(&bytes), bytes })
    }

    /// The bytes of the object, as they were before.
    pub(crate) fn data(&self) -> io::Result<Vec<u8>> {
        let header = self.bytes.iter().position(|byte| byte & 0x80 == 0).map_or(0, |at| at + 1);
        let (header, body) = self.bytes.split_at(header);
        let more = header.iter().skip(1).rev();
        let high = more.fold(0_usize, |size, byte| size << 7 | usize::from(byte & 0x7f));
        let low = header.first().map_or(0, |byte| usize::from(byte & 0x0f));
        let mut data = vec![0; high << 4 | low];
        let done = gix::zlib::Inflate::default().once(body, &mut data);
        done.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(data)
    }
}

fn write_header(out: &mut Vec<u8>, kind: Kind, size: u64) {
    let kind: u8 = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let mut rest = size >> 4;
    let mut byte = kind << 4 | (size & 0x0f) as u8;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

struct Indexed {
    oid: Oid,
    crc: u32,
    offset: u64,
}

/// A pack that is being written. Dropped without [`Writer::finish`], it leaves nothing behind.
pub(crate) struct Writer {
    folder: PathBuf,
    temp: PathBuf,
    /// Made with the first object.
    file: Option<BufWriter<fs_err::File>>,
    offset: u64,
    objects: Vec<Indexed>,
    known: HashSet<Oid>,
}

impl Writer {
    /// Begins a pack in the folder `objects/pack`.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let temp = folder.join(format!("{TEMP_PREFIX}{}.pack", random()?));
        let (objects, known) = (Vec::new(), HashSet::new());
        Ok(Self { folder: folder.to_owned(), temp, file: None, offset: 12, objects, known })
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<fs_err::File>> {
        if self.file.is_none() {
            let mut options = fs_err::OpenOptions::new();
            let file = options.read(true).write(true).create_new(true).open(&self.temp)?;
            let mut file = BufWriter::with_capacity(1 << 18, file);
            // The number of objects is filled in at the end.
            file.write_all(b"PACK\0\0\0\x02\0\0\0\0")?;
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("the pack was just made"))
    }

    /// Adds an object, once.
    pub(crate) fn add(&mut self, packed: &Packed) -> io::Result<()> {
        if !self.known.insert(packed.oid) {
            return Ok(());
        }
        self.open()?.write_all(&packed.bytes)?;
        self.objects.push(Indexed { oid: packed.oid, crc: packed.crc, offset: self.offset });
        self.offset += packed.bytes.len() as u64;
        Ok(())
    }

    /// Adds a blob of exactly `size` bytes without holding it in memory.
    ///
    /// `keep` is asked once the name is known; if it says no, or the reader has another number of
    /// bytes, the pack is as it was before.
    pub(crate) fn add_stream(
        &mut self,
        size: u64,
        mut reader: impl Read,
        keep: impl FnOnce(&Oid) -> bool,
    ) -> io::Result<Option<Oid>> {
        let mut header = Vec::new();
        write_header(&mut header, Kind::Blob, size);
        let sum = Summed { out: self.open()?, crc: crc32fast::Hasher::new(), written: 0 };
        let mut deflate = deflate::Write::new(sum, LEVEL);
        // The header stands before the compressed bytes and is part of the check sum.
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(format!("blob {size}\0").as_bytes());
        deflate = write_plain(deflate, &header)?;
        let mut buffer = vec![0; 1 << 17];
        let mut total = 0;
        loop {
            // A file that cannot be read to its end is too short, and that is what the caller hears.
            let read = reader.read(&mut buffer).unwrap_or_default();
            if read == 0 || total > size {
                break;
            }
            total += read as u64;
            hasher.update(&buffer[..read]);
            deflate.write_all(&buffer[..read])?;
        }
        deflate.flush()?;
        let Summed { crc, written, .. } = deflate.into_inner();
        let oid = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
        let oid = Oid::from(oid);
        if total != size || self.known.contains(&oid) || !keep(&oid) {
            let offset = self.offset;
            let file = self.open()?;
            file.flush()?;
            file.get_ref().set_len(offset)?;
            file.seek(SeekFrom::Start(offset))?;
            return Ok((total == size).then_some(oid));
        }
        self.known.insert(oid);
        self.objects.push(Indexed { oid, crc: crc.finalize(), offset: self.offset });
        self.offset += written;
        Ok(Some(oid))
    }

    /// Makes the pack durable and gives it its name; an empty one is dropped.
    pub(crate) fn finish(mut self) -> io::Result<Option<String>> {
        if self.objects.is_empty() {
            return Ok(None);
        }
        let sum = self.seal()?;
        self.open()?.get_ref().sync_all()?;
        fail_point!("snapshot::pack_synced", |_| Err(io::Error::other("failpoint")));
        let name = format!("pack-{sum}");
        // The index lies ready before the pack has its name: that is how a sweep knows whose it is.
        let temp = self.folder.join(format!("{TEMP_PREFIX}{name}.idx"));
        let index = self.index(&sum)?;
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&index)?;
        file.sync_all()?;
        fs_err::set_permissions(&temp, read_only())?;
        fs_err::set_permissions(&self.temp, read_only())?;
        fs_err::rename(&self.temp, self.folder.join(format!("{name}.pack")))?;
        fail_point!("snapshot::pack_named", |_| Err(io::Error::other("failpoint")));
        fs_err::rename(&temp, self.folder.join(format!("{name}.idx")))?;
        fail_point!("snapshot::index_named", |_| Err(io::Error::other("failpoint")));
        fs_err::File::open(&self.folder)?.sync_all()?;
        fail_point!("snapshot::pack_durable", |_| Err(io::Error::other("failpoint")));
        Ok(Some(name))
    }

    /// Fills in the number of objects and appends the check sum of everything before it.
    fn seal(&mut self) -> io::Result<Oid> {
        let count = u32::try_from(self.objects.len()).map_err(io::Error::other)?;
        self.open()?.flush()?;
        let file = self.open()?.get_mut();
        file.seek(SeekFrom::Start(8))?;
        file.write_all(&count.to_be_bytes())?;
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        let mut buffer = vec![0; 1 << 18];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
        let sum = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
        file.seek(SeekFrom::End(0))?;
        file.write_all(sum.as_slice())?;
        Ok(Oid::from(sum))
    }

    /// The index: where each object is, by name.
    fn index(&mut self, pack: &Oid) -> io::Result<Vec<u8>> {
        self.objects.sort_by_key(|object| object.oid);
        let mut out = Vec::with_capacity(self.objects.len() * 28 + 1100);
        out.extend_from_slice(b"\xfftOc\0\0\0\x02");
        let mut fan = [0_u32; 256];
        for object in &self.objects {
            fan[usize::from(object.oid.0[0])] += 1;
        }
        let mut sum = 0;
        for count in fan {
            sum += count;
            out.extend_from_slice(&sum.to_be_bytes());
        }
        self.objects.iter().for_each(|object| out.extend_from_slice(&object.oid.0));
        self.objects.iter().for_each(|object| out.extend_from_slice(&object.crc.to_be_bytes()));
        let mut far = Vec::new();
        for object in &self.objects {
            let near = u32::try_from(object.offset).ok().filter(|offset| offset >> 31 == 0);
            let offset = near.unwrap_or(0x8000_0000 | (far.len() / 8) as u32);
            out.extend_from_slice(&offset.to_be_bytes());
            if near.is_none() {
                far.extend_from_slice(&object.offset.to_be_bytes());
            }
        }
        out.extend_from_slice(&far);
        out.extend_from_slice(&pack.0);
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&out);
        let sum = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
        out.extend_from_slice(sum.as_slice());
        Ok(out)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Absent once the pack has its name; what cannot be removed now is swept at the next open.
        fs_err::remove_file(&self.temp).ok();
    }
}

/// A pack on disk.
#[derive(Debug)]
pub(crate) struct PackFile {
    folder: PathBuf,
    /// Its name without an ending.
    pub(crate) stem: String,
    pub(crate) bytes: u64,
}

/// Lists the packs that have an index.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PackFile>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let name = entry?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".idx"));
        let Some(stem) = stem.filter(|stem| stem.starts_with("pack-")) else {
            continue;
        };
        let bytes = fs_err::metadata(folder.join(format!("{stem}.pack")))?.len();
        found.push(PackFile { folder: folder.to_owned(), stem: stem.to_owned(), bytes });
    }
    found.sort_by(|one, other| one.stem.cmp(&other.stem));
    Ok(found)
}

impl PackFile {
    /// Tells whether it is on loan.
    pub(crate) fn is_lent(&self) -> bool {
        self.stem.starts_with(LENT_PREFIX)
    }

    /// The names of the objects in it.
    pub(crate) fn objects(&self) -> io::Result<Vec<Oid>> {
        let path = self.folder.join(format!("{}.idx", self.stem));
        let index = gix::odb::pack::index::File::at(path, gix::hash::Kind::Sha1);
        let index = index.map_err(|error| io::Error::other(error.to_string()))?;
        Ok(index.iter().map(|entry| Oid::from(entry.oid)).collect())
    }

    /// Removes it. After the first step nobody looks at it, and a sweep would finish the rest.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let at = |ending: &str| self.folder.join(format!("{}.{ending}", self.stem));
        let dead = self.folder.join(format!("{TEMP_PREFIX}{}.idx", self.stem));
        fs_err::rename(at("idx"), &dead)?;
        for ending in ["pack", "rev", "bitmap", "mtimes", "keep"] {
            match fs_err::remove_file(at(ending)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs_err::remove_file(dead)
    }
}

/// Passes bytes on and keeps their check sum.
struct Summed<W> {
    out: W,
    crc: crc32fast::Hasher,
    written: u64,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes bytes before the compressed ones.
fn write_plain<W: Write>(
    deflate: deflate::Write<Summed<W>>,
    bytes: &[u8],
) -> io::Result<deflate::Write<Summed<W>>> {
    let mut inner = deflate.into_inner();
    inner.write_all(bytes)?;
    Ok(deflate::Write::new(inner, LEVEL))
}

fn read_only() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o400)
}

/// A name nobody else has.
pub(super) fn random() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
