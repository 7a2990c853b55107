//! The form of the log: a header, then records with length and checksum, appended only.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::log::{
    RemainingProcess, Touch, TouchKind, TouchParent, TouchTarget, TraceGap, TraceGapReason,
};

/// A log never grows beyond this: about a million touches.
pub(crate) const MAX_LOG_BYTES: u64 = 256 << 20;
/// Longer than any record: two paths and the open files of a process.
const MAX_RECORD: usize = 1 << 20;
/// Length and checksum before each record.
const FRAME: usize = 8;

/// The beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogHeader {
    pub(crate) boot_id: String,
    /// A record could not be written.
    pub(crate) is_incomplete: bool,
}

impl LogHeader {
    const MAGIC: &[u8; 8] = b"TSTRACE1";
    const BOOT_ID: usize = 36;
    /// Where the mark is that a record is missing. It can be set on a full disk.
    pub(crate) const INCOMPLETE_AT: u64 = Self::MAGIC.len() as u64;
    pub(crate) const LENGTH: usize = Self::MAGIC.len() + 1 + Self::BOOT_ID;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Self::MAGIC.to_vec();
        bytes.push(u8::from(self.is_incomplete));
        bytes.extend(self.boot_id.bytes().chain(std::iter::repeat(b' ')).take(Self::BOOT_ID));
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(Self::MAGIC)?;
        let (mark, rest) = rest.split_first()?;
        let boot_id = std::str::from_utf8(rest.get(..Self::BOOT_ID)?).ok()?.trim_end().to_owned();
        (*mark <= 1).then_some(Self { boot_id, is_incomplete: *mark == 1 })
    }
}

/// One entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogRecord {
    Touch(Touch),
    Gap(TraceGap),
    Remaining(RemainingProcess),
    Ended,
}

/// What follows in the bytes of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextRecord<'a> {
    /// A record, and what follows it.
    Record(LogRecord, &'a [u8]),
    /// The log ends here, or in the middle of a record.
    End,
    /// This is no record.
    Damaged,
}

impl LogRecord {
    /// Encodes the record with its frame; nothing if it is too long.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; FRAME];
        self.encode_body(&mut bytes);
        let (frame, body) = bytes.split_at_mut_checked(FRAME)?;
        let length = u32::try_from(body.len()).ok()?;
        if body.len() > MAX_RECORD {
            return None;
        }
        let checksum = crc32fast::hash(body);
        let parts = length.to_le_bytes().into_iter().chain(checksum.to_le_bytes());
        frame.iter_mut().zip(parts).for_each(|(byte, part)| *byte = part);
        Some(bytes)
    }

    pub(crate) fn decode_next(bytes: &[u8]) -> NextRecord<'_> {
        let mut cursor = Cursor(bytes);
        let (Some(length), Some(checksum)) = (cursor.u32(), cursor.u32()) else {
            return NextRecord::End;
        };
        let length = length as usize;
        if length > MAX_RECORD {
            return NextRecord::Damaged;
        }
        let Some((body, rest)) = cursor.0.split_at_checked(length) else { return NextRecord::End };
        if crc32fast::hash(body) != checksum {
            return if rest.is_empty() { NextRecord::End } else { NextRecord::Damaged };
        }
        match Self::decode_body(body) {
            Some(record) => NextRecord::Record(record, rest),
            None => NextRecord::Damaged,
        }
    }

    fn encode_body(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Touch(touch) => {
                bytes.push(1);
                encode_touch(touch, bytes);
            }
            Self::Gap(gap) => {
                bytes.push(2);
                bytes.push(encode_reason(gap.reason));
                bytes.extend(gap.count.to_le_bytes());
                bytes.push(u8::from(gap.path.is_some()));
                gap.path.iter().for_each(|path| put_path(bytes, path));
            }
            Self::Remaining(process) => {
                bytes.push(3);
                bytes.extend(process.pid.to_le_bytes());
                put_path(bytes, Path::new(&process.name));
                bytes.push(u8::from(process.open_for_writing.is_some()));
                let files = process.open_for_writing.as_deref().unwrap_or_default();
                bytes.extend((files.len() as u64).to_le_bytes());
                files.iter().for_each(|path| put_path(bytes, path));
            }
            Self::Ended => bytes.push(4),
        }
    }

    /// Decodes a whole body; bytes behind the record are an error.
    fn decode_body(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor(body);
        let record = match cursor.u8()? {
            1 => Self::Touch(decode_touch(&mut cursor)?),
            2 => {
                let reason = *TraceGapReason::ALL.get(usize::from(cursor.u8()?))?;
                let count = cursor.u64()?;
                let path = if cursor.flag()? { Some(cursor.path()?) } else { None };
                Self::Gap(TraceGap { reason, path, count })
            }
            3 => {
                let pid = i32::from_le_bytes(cursor.array()?);
                let name = cursor.path()?.to_string_lossy().into_owned();
                let is_known = cursor.flag()?;
                let count = cursor.u64()?;
                let mut files = Vec::new();
                for _ in 0..count {
                    files.push(cursor.path()?);
                }
                let open_for_writing = is_known.then_some(files);
                Self::Remaining(RemainingProcess { pid, name, open_for_writing })
            }
            4 => Self::Ended,
            _ => return None,
        };
        cursor.0.is_empty().then_some(record)
    }
}

fn encode_reason(reason: TraceGapReason) -> u8 {
    let index = TraceGapReason::ALL.iter().position(|one| *one == reason).unwrap_or_default();
    u8::try_from(index).unwrap_or_default()
}

fn encode_touch(touch: &Touch, bytes: &mut Vec<u8>) {
    let (code, other) = encode_kind(&touch.kind);
    bytes.push(code);
    bytes.extend(touch.sequence.to_le_bytes());
    bytes.extend(touch.time.to_le_bytes());
    bytes.extend(touch.parent.device.to_le_bytes());
    bytes.extend(touch.parent.inode.to_le_bytes());
    put_time(bytes, touch.parent.born);
    bytes.push(u8::from(touch.target.is_some()));
    if let Some(target) = &touch.target {
        bytes.extend(target.device.to_le_bytes());
        bytes.extend(target.inode.to_le_bytes());
        put_time(bytes, target.born);
        bytes.extend(target.links.to_le_bytes());
        bytes.push(u8::from(target.is_directory));
        bytes.extend(target.size.to_le_bytes());
        bytes.extend(target.modified.to_le_bytes());
        bytes.extend(target.changed.to_le_bytes());
    }
    put_path(bytes, &touch.path);
    other.iter().for_each(|path| put_path(bytes, path));
}

fn decode_touch(cursor: &mut Cursor<'_>) -> Option<Touch> {
    let code = cursor.u8()?;
    let sequence = cursor.u64()?;
    let time = cursor.i64()?;
    let parent = TouchParent { device: cursor.u64()?, inode: cursor.u64()?, born: cursor.time()? };
    let target = if cursor.flag()? {
        Some(TouchTarget {
            device: cursor.u64()?,
            inode: cursor.u64()?,
            born: cursor.time()?,
            links: cursor.u32()?,
            is_directory: cursor.flag()?,
            size: cursor.u64()?,
            modified: cursor.i64()?,
            changed: cursor.i64()?,
        })
    } else {
        None
    };
    let path = cursor.path()?;
    let kind = decode_kind(code, cursor)?;
    Some(Touch { kind, path, parent, target, sequence, time })
}

fn encode_kind(kind: &TouchKind) -> (u8, Option<&PathBuf>) {
    match kind {
        TouchKind::OpenForWrite => (1, None),
        TouchKind::Create => (2, None),
        TouchKind::Truncate => (3, None),
        TouchKind::Remove => (4, None),
        TouchKind::RemoveDirectory => (5, None),
        TouchKind::CreateDirectory => (6, None),
        TouchKind::MoveFrom { to } => (7, Some(to)),
        TouchKind::MoveTo { from } => (8, Some(from)),
        TouchKind::Exchange { with } => (9, Some(with)),
        TouchKind::Link => (10, None),
        TouchKind::Symlink => (11, None),
        TouchKind::Mode => (12, None),
        TouchKind::Owner => (13, None),
        TouchKind::Node => (14, None),
    }
}

fn decode_kind(code: u8, cursor: &mut Cursor<'_>) -> Option<TouchKind> {
    Some(match code {
        1 => TouchKind::OpenForWrite,
        2 => TouchKind::Create,
        3 => TouchKind::Truncate,
        4 => TouchKind::Remove,
        5 => TouchKind::RemoveDirectory,
        6 => TouchKind::CreateDirectory,
        7 => TouchKind::MoveFrom { to: cursor.path()? },
        8 => TouchKind::MoveTo { from: cursor.path()? },
        9 => TouchKind::Exchange { with: cursor.path()? },
        10 => TouchKind::Link,
        11 => TouchKind::Symlink,
        12 => TouchKind::Mode,
        13 => TouchKind::Owner,
        14 => TouchKind::Node,
        _ => return None,
    })
}

fn put_time(bytes: &mut Vec<u8>, time: Option<i64>) {
    bytes.push(u8::from(time.is_some()));
    bytes.extend(time.unwrap_or_default().to_le_bytes());
}

fn put_path(bytes: &mut Vec<u8>, path: &Path) {
    let path = path.as_os_str().as_bytes();
    bytes.extend((path.len() as u64).to_le_bytes());
    bytes.extend(path);
}

/// Reads fields off the beginning of a slice.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn time(&mut self) -> Option<Option<i64>> {
        let is_known = self.flag()?;
        let time = self.i64()?;
        (is_known || time == 0).then_some(is_known.then_some(time))
    }

    fn path(&mut self) -> Option<PathBuf> {
        let length = usize::try_from(self.u64()?).ok()?;
        let (path, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(PathBuf::from(OsString::from_vec(path.to_vec())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn paths() -> impl Strategy<Value = PathBuf> {
        proptest::collection::vec(any::<u8>(), 0..40)
            .prop_map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
    }

    fn kinds() -> impl Strategy<Value = TouchKind> {
        (1_u8..=14, paths()).prop_map(|(code, path)| {
            let mut bytes = Vec::new();
            put_path(&mut bytes, &path);
            decode_kind(code, &mut Cursor(&bytes)).unwrap()
        })
    }

    fn targets() -> impl Strategy<Value = TouchTarget> {
        (any::<[u64; 3]>(), any::<Option<i64>>(), any::<(u32, bool, i64, i64)>()).prop_map(
            |([device, inode, size], born, (links, is_directory, modified, changed))| TouchTarget {
                device,
                inode,
                born,
                links,
                is_directory,
                size,
                modified,
                changed,
            },
        )
    }

    fn records() -> impl Strategy<Value = LogRecord> {
        let born = any::<Option<i64>>();
        let parents = (any::<u64>(), any::<u64>(), born)
            .prop_map(|(device, inode, born)| TouchParent { device, inode, born });
        let numbers = any::<(u64, i64)>();
        let target = proptest::option::of(targets());
        let touches = (kinds(), paths(), parents, target, numbers).prop_map(
            |(kind, path, parent, target, (sequence, time))| {
                LogRecord::Touch(Touch { kind, path, parent, target, sequence, time })
            },
        );
        let reasons = proptest::sample::select(TraceGapReason::ALL.to_vec());
        let gaps = (reasons, proptest::option::of(paths()), any::<u64>())
            .prop_map(|(reason, path, count)| LogRecord::Gap(TraceGap { reason, path, count }));
        let files = proptest::option::of(proptest::collection::vec(paths(), 0..4));
        let remaining = (any::<i32>(), "[a-z]{0,9}", files).prop_map(|(pid, name, files)| {
            LogRecord::Remaining(RemainingProcess { pid, name, open_for_writing: files })
        });
        prop_oneof![touches, gaps, remaining, Just(LogRecord::Ended)]
    }

    proptest! {
        #[test]
        fn records_round_trip(record in records()) {
            let bytes = record.encode().unwrap();
            let next = LogRecord::decode_next(&bytes);
            prop_assert_eq!(next, NextRecord::Record(record, &[]));
        }

        #[test]
        fn torn_record_is_the_end(record in records(), keep in 0.0..1.0) {
            let bytes = record.encode().unwrap();
            let keep = (bytes.len() as f64 * keep) as usize;
            prop_assert_eq!(LogRecord::decode_next(&bytes[..keep]), NextRecord::End);
        }

        #[test]
        fn any_bytes_are_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            LogRecord::decode_next(&bytes);
            LogRecord::decode_body(&bytes);
            LogHeader::decode(&bytes);
        }

        #[test]
        fn flipped_bit_is_noticed(record in records(), at: usize, bit in 0_u8..8) {
            let mut bytes = record.encode().unwrap();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let found = LogRecord::decode_next(&bytes);
            prop_assert!(!matches!(found, NextRecord::Record(..)), "{found:?}");
        }
    }

    #[test]
    fn header_round_trips() {
        let boot_id = "0123456789abcdef0123456789abcdef0123".to_owned();
        for is_incomplete in [false, true] {
            let header = LogHeader { boot_id: boot_id.clone(), is_incomplete };
            let bytes = header.encode();
            assert_eq!(bytes.len(), LogHeader::LENGTH);
            assert_eq!(bytes[LogHeader::INCOMPLETE_AT as usize], u8::from(is_incomplete));
            assert_eq!(LogHeader::decode(&bytes), Some(header));
        }
    }
}
