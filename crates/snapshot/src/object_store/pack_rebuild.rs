//! Rebuilding packs: the objects of some packs in a new one, versions of a file as deltas (R13).
//!
//! Objects are copied as they are stored, so the cost follows what is new. A version is stored as a
//! change of the one before it; every so often as a change of the first, so that no chain is long.
//! Old packs are not touched here.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use fail::fail_point;
use gix::objs::Kind;

use super::pack_writer::compress_better;
use super::{
    ObjectEncoding, ObjectRepository, Oid, OpenPack, PackEntry, PackFile, PackWriter, PackedObject,
    delta, hash_object,
};

/// The longest chain of deltas: what reading the last of it costs.
pub(crate) const MAX_DELTA_DEPTH: usize = 50;
/// The longest chain of deltas; after it, the next version is a delta of the first.
const DELTA_RUN: usize = 20;
/// Larger objects stay whole: a few of them are in memory at a time.
const MAX_DELTA_OBJECT_BYTES: u64 = 24 << 20;
/// Smaller objects are not worth it.
const MIN_DELTA_OBJECT_BYTES: u64 = 64;

/// How objects are sorted to find similar ones: by name, by path, by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeltaSortKey {
    pub(crate) name: u64,
    pub(crate) path: u64,
    pub(crate) age: u32,
}

/// A pack in the making.
pub(crate) struct PackRebuild<'r> {
    repository: &'r ObjectRepository,
    packs: Vec<OpenPack>,
    /// Where each object is taken from: the pack, and its entry.
    sources: HashMap<Oid, (usize, usize)>,
    /// How many deltas hang on each object, one after the other.
    deltas_above: HashMap<Oid, usize>,
    /// How many deltas lie below each object in the new pack.
    depths: HashMap<Oid, usize>,
    writer: PackWriter,
    /// Bytes that may still be unpacked to find deltas.
    effort: u64,
}

/// The versions that were seen last.
#[derive(Default)]
struct VersionRun {
    place: DeltaSortKey,
    last: Option<VersionData>,
    first: Option<VersionData>,
}

#[derive(Clone)]
struct VersionData {
    oid: Oid,
    data: Option<Arc<Vec<u8>>>,
}

impl<'r> PackRebuild<'r> {
    /// Begins with the objects of `old` that `keep` wants.
    pub(crate) fn new(
        repository: &'r ObjectRepository,
        old: &[&PackFile],
        keep: &dyn Fn(&Oid) -> bool,
    ) -> io::Result<Self> {
        let packs = old.iter().map(|pack| pack.open()).collect::<io::Result<Vec<_>>>()?;
        let mut sources = HashMap::<Oid, (usize, usize)>::new();
        for (number, pack) in packs.iter().enumerate() {
            for (index, entry) in pack.entries.iter().enumerate() {
                if !keep(&entry.oid) {
                    continue;
                }
                let known = sources.entry(entry.oid).or_insert((number, index));
                if packs[known.0].entries[known.1].length > entry.length {
                    *known = (number, index);
                }
            }
        }
        let (writer, effort) = (repository.new_pack_writer()?, 0);
        let (heights, depths) = (HashMap::new(), HashMap::new());
        let mut rebuild =
            Self { repository, packs, sources, deltas_above: heights, depths, writer, effort };
        rebuild.measure_chains()?;
        Ok(rebuild)
    }

    /// How many objects there are.
    pub(crate) fn object_count(&self) -> usize {
        self.sources.len()
    }

    /// Writes every object and makes the pack durable; returns its name, if there is any object.
    ///
    /// `place` lines up versions. Up to `effort` bytes are unpacked to make deltas of whole objects;
    /// an object that lost its base gets another one whatever that costs. The second answer tells
    /// whether the effort was enough.
    pub(crate) fn finish(
        mut self,
        place: &dyn Fn(&Oid) -> Option<DeltaSortKey>,
        effort: u64,
    ) -> io::Result<(Option<String>, bool)> {
        self.effort = effort;
        let lined = self.sources.keys().filter_map(|oid| Some((place(oid)?, *oid)));
        let mut lined: Vec<(DeltaSortKey, Oid)> = lined.collect();
        lined.sort_unstable();
        let mut line = VersionRun::default();
        for (place, oid) in lined {
            if place.name != line.place.name {
                line = VersionRun::default();
            }
            line.place = place;
            self.add_version(&oid, &mut line)?;
        }
        fail_point!("snapshot::lined_up", |_| Err(io::Error::other("failpoint")));
        for number in 0..self.packs.len() {
            for index in 0..self.packs[number].entries.len() {
                let oid = self.packs[number].entries[index].oid;
                if self.sources.contains_key(&oid) {
                    self.copy_with_bases(&oid)?;
                }
            }
        }
        let enough = effort == 0 || self.effort > 0;
        Ok((self.writer.finish()?, enough))
    }

    /// Counts what hangs on each object, so that no chain becomes too long.
    fn measure_chains(&mut self) -> io::Result<()> {
        let all: Vec<Oid> = self.sources.keys().copied().collect();
        for oid in all {
            let mut at = self.delta_base(&oid)?;
            for height in 1..=MAX_DELTA_DEPTH {
                let Some(base) = at else {
                    break;
                };
                let known = self.deltas_above.entry(base).or_default();
                if *known >= height {
                    break;
                }
                *known = height;
                at = self.delta_base(&base)?;
            }
        }
        Ok(())
    }

    fn source(&self, oid: &Oid) -> io::Result<(&OpenPack, &PackEntry)> {
        let source = self.sources.get(oid);
        let (pack, entry) = source.ok_or_else(|| io::Error::other("an object from nowhere"))?;
        Ok((&self.packs[*pack], &self.packs[*pack].entries[*entry]))
    }

    /// The object that this one is stored as a change of, if that one stays as well.
    fn delta_base(&self, oid: &Oid) -> io::Result<Option<Oid>> {
        let (pack, entry) = self.source(oid)?;
        match pack.entry_header(entry)?.encoding {
            ObjectEncoding::Delta(base) if self.sources.contains_key(&base) => Ok(Some(base)),
            ObjectEncoding::Delta(_) | ObjectEncoding::Whole(_) => Ok(None),
        }
    }

    fn depth(&self, oid: &Oid) -> usize {
        self.depths.get(oid).copied().unwrap_or_default()
    }

    /// Writes an object as it is stored, what it is a change of before it.
    fn copy_with_bases(&mut self, oid: &Oid) -> io::Result<()> {
        let mut chain = Vec::new();
        let mut at = Some(*oid);
        // Two packs may each hold one object as a change of the other: such a ring is cut.
        while let Some(oid) = at.filter(|oid| !self.writer.has(oid) && !chain.contains(oid)) {
            chain.push(oid);
            at = self.delta_base(&oid)?;
        }
        chain.iter().rev().try_for_each(|oid| self.copy_object(oid))
    }

    fn copy_object(&mut self, oid: &Oid) -> io::Result<()> {
        let (pack, entry) = self.source(oid)?;
        let head = pack.entry_header(entry)?;
        let depth = match head.encoding {
            ObjectEncoding::Whole(_) => Some(0),
            ObjectEncoding::Delta(base) if !self.writer.has(&base) => None,
            ObjectEncoding::Delta(base) => {
                Some(self.depth(&base) + 1).filter(|depth| *depth <= MAX_DELTA_DEPTH)
            }
        };
        let Some(depth) = depth else {
            let (kind, data) = self.read_verified(oid)?;
            return self.writer.add(&PackedObject::with_oid(*oid, kind, &data)?);
        };
        // The pack is borrowed from the same struct as the writer, so the parts are named.
        let (number, index) = self.sources[oid];
        let pack = &self.packs[number];
        let body = |out: &mut dyn io::Write| pack.copy_body(&pack.entries[index], out);
        self.writer.add_encoded(*oid, head.encoding, head.size, body)?;
        self.depths.insert(*oid, depth);
        Ok(())
    }

    /// Reads an object whose hash matches its name.
    fn read_verified(&self, oid: &Oid) -> io::Result<(Kind, Vec<u8>)> {
        let (pack, entry) = self.source(oid)?;
        let (kind, data) = match pack.read_whole(entry)? {
            Some(found) => found,
            None => self.repository.read(oid).map_err(io::Error::other)?,
        };
        if hash_object(kind, &data)? != *oid {
            let text = format!("object {oid} is damaged");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok((kind, data))
    }

    /// Writes the next version of a line: as it is stored, or as a change of one before it.
    fn add_version(&mut self, oid: &Oid, line: &mut VersionRun) -> io::Result<()> {
        let mut data = None;
        if !self.writer.has(oid) {
            let (pack, entry) = self.source(oid)?;
            let head = pack.entry_header(entry)?;
            let (stored, is_orphan) = match head.encoding {
                ObjectEncoding::Delta(base) if self.sources.contains_key(&base) => (None, false),
                ObjectEncoding::Delta(_) => (Some(u64::MAX), true),
                ObjectEncoding::Whole(_) => {
                    let fits =
                        head.size >= MIN_DELTA_OBJECT_BYTES && head.size <= MAX_DELTA_OBJECT_BYTES;
                    (fits.then_some(head.stored_bytes(entry)), false)
                }
            };
            let tries = line.last.is_some() && (is_orphan || self.effort > 0);
            if let Some(stored) = stored.filter(|_| tries) {
                let (kind, bytes) = self.read_verified(oid)?;
                self.effort = self.effort.saturating_sub(bytes.len() as u64);
                let bytes = Arc::new(bytes);
                if !self.add_delta(oid, &bytes, stored, line)? && is_orphan {
                    self.writer.add(&PackedObject::with_oid(*oid, kind, &bytes)?)?;
                }
                data = Some(bytes);
            }
            self.copy_with_bases(oid)?;
        }
        let version = VersionData { oid: *oid, data };
        if self.depth(oid) == 0 {
            line.first = Some(version.clone());
        }
        line.last = Some(version);
        Ok(())
    }

    /// Tries to write an object as a change that takes less than the `stored` bytes.
    fn add_delta(
        &mut self,
        oid: &Oid,
        data: &Arc<Vec<u8>>,
        stored: u64,
        line: &mut VersionRun,
    ) -> io::Result<bool> {
        if data.len() as u64 > MAX_DELTA_OBJECT_BYTES {
            return Ok(false);
        }
        let height = self.deltas_above.get(oid).copied().unwrap_or_default();
        let reach = |version: &Option<VersionData>, limit: usize| {
            version.as_ref().is_some_and(|it| self.depth(&it.oid) + 1 + height <= limit)
        };
        let (first, near, far) = (
            reach(&line.first, MAX_DELTA_DEPTH),
            reach(&line.last, DELTA_RUN),
            reach(&line.last, MAX_DELTA_DEPTH),
        );
        let half = data.len() / 2;
        let tries = [(near, true, half), (first, false, half / 2), (far && !near, true, half)];
        for (_, is_last, limit) in tries.into_iter().filter(|(possible, ..)| *possible) {
            let version = if is_last { &mut line.last } else { &mut line.first };
            let Some(version) = version else {
                continue;
            };
            let base = match &version.data {
                Some(base) => base.clone(),
                None => Arc::new(self.read_verified(&version.oid)?.1),
            };
            self.effort = self.effort.saturating_sub(base.len() as u64 / 4);
            version.data = Some(base.clone());
            if base.len() as u64 > MAX_DELTA_OBJECT_BYTES {
                continue;
            }
            let Some(delta) = delta::encode_delta(&base, data, limit) else {
                continue;
            };
            let body = compress_better(&delta)?;
            // A delta that does not restore the object is never written.
            let is_good = delta::apply_delta(&base, &delta).as_deref() == Some(data.as_slice());
            if is_good && (body.len() as u64) < stored {
                let base = version.oid;
                let fill = |out: &mut dyn io::Write| out.write_all(&body);
                self.writer.add_encoded(
                    *oid,
                    ObjectEncoding::Delta(base),
                    delta.len() as u64,
                    fill,
                )?;
                self.depths.insert(*oid, self.depth(&base) + 1);
                return Ok(true);
            }
        }
        Ok(false)
    }
}
