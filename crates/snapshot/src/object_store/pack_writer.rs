//! Writing packs: version 2, bases before their deltas, written once and never changed.
//!
//! A pack becomes durable in this order: its bytes, the bytes of its index, the name of the pack, the
//! name of the index, the directory. Until the index has its name, readers skip the pack.

use std::collections::HashMap;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fail::fail_point;
use gix::objs::Kind;
use gix::odb::pack::data::entry::Header;
use gix::zlib::{Compression, stream::deflate};

use super::{Oid, from_gix, hash_object};

/// Captures wait for this; a later repack may do better.
const CAPTURE_COMPRESSION: Compression = Compression::BEST_SPEED;
/// Bytes that are written before the disk is asked how much is free.
const FREE_SPACE_CHECK_BYTES: u64 = 32 << 20;
/// The names of files that are not yet a pack; leftovers are removed.
///
/// Not `tmp_`: `git gc --prune=now` removes such files even while they are being written.
pub(super) const TEMP_PREFIX: &str = "turnstone_tmp_";
/// The prefix of borrowed packs (R10).
pub(crate) const BORROWED_PREFIX: &str = "pack-lent-";
/// The suffix of the index of a hidden pack.
///
/// Not `.idx`: an index without its pack is removed by `git gc`.
pub(super) fn hidden_index(stem: &str) -> String {
    format!("{TEMP_PREFIX}{stem}{HIDDEN_INDEX_SUFFIX}")
}

pub(super) const HIDDEN_INDEX_SUFFIX: &str = ".index";

/// The file that is hard-linked as the `.keep` file of a pack.
pub(super) const KEEP_TEMPLATE_FILE: &str = "turnstone-held";
/// The content of our `.keep` files; `git gc` leaves their packs alone.
pub(super) const KEEP_FILE_TEXT: &str = "held by turnstone until a reference names what is in it\n";

/// An object, compressed and ready to be written.
#[derive(Debug)]
pub(crate) struct PackedObject {
    pub(crate) oid: Oid,
    crc: u32,
    bytes: Vec<u8>,
}

impl PackedObject {
    /// Hashes and compresses an object.
    pub(crate) fn new(kind: Kind, data: &[u8]) -> io::Result<Self> {
        let oid = hash_object(kind, data)?;
        Self::with_oid(oid, kind, data)
    }

    /// Compresses an object whose name is known.
    pub(crate) fn with_oid(oid: Oid, kind: Kind, data: &[u8]) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(data.len() / 2 + 32);
        header_of(kind).write_to(data.len() as u64, &mut bytes)?;
        let mut deflate = deflate::Write::new(bytes, CAPTURE_COMPRESSION);
        deflate.write_all(data)?;
        deflate.flush()?;
        let bytes = deflate.into_inner();
        Ok(Self { oid, crc: crc32fast::hash(&bytes), bytes })
    }

    /// How many bytes it has in a pack.
    pub(crate) fn packed_len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of the object, as they were before.
    pub(crate) fn decompress(&self) -> io::Result<Vec<u8>> {
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

fn header_of(kind: Kind) -> Header {
    match kind {
        Kind::Commit => Header::Commit,
        Kind::Tree => Header::Tree,
        Kind::Blob => Header::Blob,
        Kind::Tag => Header::Tag,
    }
}

/// Compresses bytes better than a capture has time for.
pub(super) fn compress_better(data: &[u8]) -> io::Result<Vec<u8>> {
    let mut deflate = deflate::Write::new(Vec::new(), Compression::DEFAULT);
    deflate.write_all(data)?;
    deflate.flush()?;
    Ok(deflate.into_inner())
}

/// How the bytes of an object are to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectEncoding {
    /// As they are.
    Whole(Kind),
    /// As a change of another object of the same pack.
    Delta(Oid),
}

struct PackIndexRow {
    oid: Oid,
    crc: u32,
    offset: u64,
}

/// A pack that is being written. Dropped without [`PackWriter::finish`], it leaves nothing behind.
pub(crate) struct PackWriter {
    folder: PathBuf,
    temp: PathBuf,
    /// Made with the first object.
    file: Option<BufWriter<fs_err::File>>,
    offset: u64,
    objects: Vec<PackIndexRow>,
    /// Where each object begins.
    offsets: HashMap<Oid, u64>,
    /// Bytes that must stay free on the disk.
    floor: u64,
    /// Up to where the disk was asked.
    checked_at: u64,
    /// True if git is to leave the pack alone.
    keep_from_gc: bool,
    /// Counts objects, to show progress.
    stored: Arc<AtomicU64>,
}

impl PackWriter {
    /// Begins a pack in the folder `objects/pack`.
    pub(crate) fn create(folder: &Path, floor: u64, stored: Arc<AtomicU64>) -> io::Result<Self> {
        let temp = folder.join(format!("{TEMP_PREFIX}{}.pack", random_hex()?));
        let folder = folder.to_owned();
        let (objects, known) = (Vec::new(), HashMap::new());
        let (file, held) = (None, false);
        Ok(Self {
            folder,
            temp,
            file,
            offset: 12,
            objects,
            offsets: known,
            floor,
            checked_at: 0,
            keep_from_gc: held,
            stored,
        })
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
    pub(crate) fn add(&mut self, packed: &PackedObject) -> io::Result<()> {
        if self.offsets.contains_key(&packed.oid) {
            return Ok(());
        }
        self.check_free_space()?;
        self.open()?.write_all(&packed.bytes)?;
        self.record_object(packed.oid, packed.crc, packed.bytes.len() as u64);
        Ok(())
    }

    fn record_object(&mut self, oid: Oid, crc: u32, length: u64) {
        self.offsets.insert(oid, self.offset);
        self.objects.push(PackIndexRow { oid, crc, offset: self.offset });
        self.offset += length;
        self.stored.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops before the disk is full: a large pack asks from time to time.
    fn check_free_space(&mut self) -> io::Result<()> {
        if self.floor == 0 || self.offset - self.checked_at < FREE_SPACE_CHECK_BYTES {
            return Ok(());
        }
        self.checked_at = self.offset;
        let disk = rustix::fs::statvfs(&self.folder)?;
        match disk.f_bavail.saturating_mul(disk.f_frsize) {
            free if free < self.floor => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    /// Adds an object whose bytes `fill` writes, compressed already; `size` is what they were before.
    ///
    /// The base of a delta must be in this pack already. After an error the pack is of no use.
    pub(crate) fn add_encoded(
        &mut self,
        oid: Oid,
        shape: ObjectEncoding,
        size: u64,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.offsets.contains_key(&oid) {
            return Ok(());
        }
        self.check_free_space()?;
        let header = match shape {
            ObjectEncoding::Whole(kind) => header_of(kind),
            ObjectEncoding::Delta(base) => {
                let base = self.offsets.get(&base);
                let base = base.ok_or_else(|| io::Error::other("a delta without its base"))?;
                Header::OfsDelta { base_distance: self.offset - base }
            }
        };
        let mut sum =
            ChecksumWriter { out: self.open()?, crc: crc32fast::Hasher::new(), written: 0 };
        header.write_to(size, &mut sum)?;
        fill(&mut sum)?;
        let ChecksumWriter { crc, written, .. } = sum;
        self.record_object(oid, crc.finalize(), written);
        Ok(())
    }

    /// True if an object is in the pack.
    pub(crate) fn has(&self, oid: &Oid) -> bool {
        self.offsets.contains_key(oid)
    }

    /// How many bytes the pack and its index will have.
    pub(crate) fn estimated_bytes(&self) -> u64 {
        match self.objects.len() as u64 {
            0 => 0,
            count => self.offset + 20 + 1072 + count * 28,
        }
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
        self.check_free_space()?;
        let mut header = Vec::new();
        Header::Blob.write_to(size, &mut header)?;
        let sum = ChecksumWriter { out: self.open()?, crc: crc32fast::Hasher::new(), written: 0 };
        let mut deflate = deflate::Write::new(sum, CAPTURE_COMPRESSION);
        // The header precedes the compressed bytes and is part of the checksum.
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(format!("blob {size}\0").as_bytes());
        deflate = write_plain(deflate, &header)?;
        let mut buffer = vec![0; 1 << 17];
        let mut total = 0;
        loop {
            // A file that cannot be read to its end is reported as too short.
            let read = reader.read(&mut buffer).unwrap_or_default();
            if read == 0 || total > size {
                break;
            }
            total += read as u64;
            hasher.update(&buffer[..read]);
            deflate.write_all(&buffer[..read])?;
        }
        deflate.flush()?;
        let ChecksumWriter { crc, written, .. } = deflate.into_inner();
        let oid = hasher.try_finalize().map_err(|error| io::Error::other(error.to_string()))?;
        let oid = from_gix(oid);
        if total != size || self.offsets.contains_key(&oid) || !keep(&oid) {
            let offset = self.offset;
            let file = self.open()?;
            file.flush()?;
            file.get_ref().set_len(offset)?;
            file.seek(SeekFrom::Start(offset))?;
            return Ok((total == size).then_some(oid));
        }
        self.record_object(oid, crc.finalize(), written);
        Ok(Some(oid))
    }

    /// Lets git leave the pack alone until its file `.keep` is removed.
    pub(crate) fn keep_from_gc(&mut self) {
        self.keep_from_gc = true;
    }

    /// Makes the pack durable and gives it its name; an empty one is dropped.
    pub(crate) fn finish(mut self) -> io::Result<Option<String>> {
        if self.objects.is_empty() {
            return Ok(None);
        }
        let sum = self.write_trailer()?;
        let name = format!("pack-{sum}");
        // The index lies ready before the pack has its name: that is how a sweep knows whose it is.
        let temp = self.folder.join(hidden_index(&name));
        let index = self.encode_index(&sum)?;
        let mut file = fs_err::File::create(&temp)?;
        file.write_all(&index)?;
        let pack = self.open()?.get_ref();
        // The disk is waited for once, not twice.
        std::thread::scope(|scope| {
            let synced = scope.spawn(|| pack.sync_all());
            let index = file.sync_all();
            let pack =
                synced.join().unwrap_or_else(|_| Err(io::Error::other("a sync ended badly")));
            pack.and(index)
        })?;
        fail_point!("snapshot::pack_synced", |_| Err(io::Error::other("failpoint")));
        fs_err::set_permissions(&temp, read_only())?;
        fs_err::set_permissions(&self.temp, read_only())?;
        if self.keep_from_gc {
            self.write_keep_file(&name)?;
        }
        fs_err::rename(&self.temp, self.folder.join(format!("{name}.pack")))?;
        fail_point!("snapshot::pack_named", |_| Err(io::Error::other("failpoint")));
        fs_err::rename(&temp, self.folder.join(format!("{name}.idx")))?;
        fail_point!("snapshot::index_named", |_| Err(io::Error::other("failpoint")));
        fs_err::File::open(&self.folder)?.sync_all()?;
        fail_point!("snapshot::pack_durable", |_| Err(io::Error::other("failpoint")));
        Ok(Some(name))
    }

    /// Tells git to leave the pack alone. The mark is a second name of a durable file, so that it
    /// says whose it is even after a power cut.
    fn write_keep_file(&self, name: &str) -> io::Result<()> {
        let path = self.folder.join(format!("{name}.keep"));
        match fs_err::hard_link(self.folder.join("../..").join(KEEP_TEMPLATE_FILE), &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Not every disk has second names.
            Err(_) => fs_err::write(path, KEEP_FILE_TEXT),
            Ok(()) => Ok(()),
        }
    }

    /// Fills in the number of objects and appends the check sum of everything before it.
    fn write_trailer(&mut self) -> io::Result<Oid> {
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
        Ok(from_gix(sum))
    }

    /// The index: where each object is, by name.
    fn encode_index(&mut self, pack: &Oid) -> io::Result<Vec<u8>> {
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

impl Drop for PackWriter {
    fn drop(&mut self) {
        // Absent once the pack has its name; what cannot be removed now is swept at the next open.
        fs_err::remove_file(&self.temp).ok();
    }
}

/// Passes bytes on and keeps their check sum.
struct ChecksumWriter<W> {
    out: W,
    crc: crc32fast::Hasher,
    written: u64,
}

impl<W: Write> Write for ChecksumWriter<W> {
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
    deflate: deflate::Write<ChecksumWriter<W>>,
    bytes: &[u8],
) -> io::Result<deflate::Write<ChecksumWriter<W>>> {
    let mut inner = deflate.into_inner();
    inner.write_all(bytes)?;
    Ok(deflate::Write::new(inner, CAPTURE_COMPRESSION))
}

fn read_only() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o400)
}

/// A random name.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0_u8; 12];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
