//! Everything that was recorded about one tree of processes.

use std::collections::HashSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::log::log_record::NextRecord;
use crate::log::{LogHeader, LogRecord, MAX_LOG_BYTES, Touch, TraceGap, TraceGapReason};

/// What was recorded so far about one tree of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceLog {
    /// The run of the machine in which it was written. After a crash of the machine the file may have
    /// lost its end: a log of an earlier run proves nothing.
    pub boot_id: String,
    /// The touched paths in the order of their first touch, without repetitions.
    pub touches: Vec<Touch>,
    /// Why something may be missing.
    pub gaps: Vec<TraceGap>,
    /// Processes of the tree that lived on when the command ended.
    pub remaining: Vec<RemainingProcess>,
    /// How many of the touches were recorded before these were listed. Those after it are theirs; a path may be
    /// touched before and after.
    pub touches_of_command: usize,
    /// True if the last process of the tree has ended: nothing will be added.
    pub ended: bool,
}

/// A process of the tree that lived on when the command ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemainingProcess {
    /// Its number.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// The files that it had open for writing or mapped writable, if that could be read.
    pub open_for_writing: Option<Vec<PathBuf>>,
}

/// Why a log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceLogError {
    /// The file could not be read.
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// The file is no trace, or another program wrote into it.
    #[error("the trace is damaged at byte {offset}")]
    Damaged {
        /// Where.
        offset: u64,
    },
    /// The file holds more than a trace can.
    #[error("the trace is larger than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
}

impl TraceLog {
    /// Reads a log, complete or while it is being written.
    ///
    /// A last record that is torn is left out: the call that it belongs to has not gone on yet.
    ///
    /// # Errors
    ///
    /// See [`TraceLogError`]: nothing is known about the tree then.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, TraceLogError> {
        let file = fs_err::File::open(path.as_ref())?;
        let length = file.metadata()?.len();
        // Room for the last records of a log at its limit.
        let limit = 2 * MAX_LOG_BYTES;
        if length > limit {
            return Err(TraceLogError::TooLarge { limit });
        }
        let mut bytes = Vec::new();
        file.take(limit).read_to_end(&mut bytes)?;
        Self::decode(&bytes)
    }

    /// Reads a log that is in memory.
    ///
    /// # Errors
    ///
    /// [`TraceLogError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, TraceLogError> {
        let header = LogHeader::decode(bytes).ok_or(TraceLogError::Damaged { offset: 0 })?;
        let mut log = Self { boot_id: header.boot_id, ..Self::default() };
        log.touches_of_command = usize::MAX;
        let mut known = HashSet::new();
        let mut rest = bytes.get(LogHeader::LENGTH..).unwrap_or_default();
        loop {
            match LogRecord::decode_next(rest) {
                NextRecord::Record(record, after) => {
                    log.add(record, &mut known);
                    rest = after;
                }
                NextRecord::End => break,
                NextRecord::Damaged => {
                    let offset = (bytes.len() - rest.len()) as u64;
                    return Err(TraceLogError::Damaged { offset });
                }
            }
        }
        log.touches_of_command = log.touches_of_command.min(log.touches.len());
        if header.is_incomplete {
            let reason = TraceGapReason::LogIncomplete;
            log.add_gap(TraceGap { reason, path: None, count: 1 });
        }
        Ok(log)
    }

    fn add(&mut self, record: LogRecord, known: &mut HashSet<u64>) {
        match record {
            LogRecord::Touch(touch) => {
                if touch.repetition_key().is_none_or(|key| known.insert(key)) {
                    self.touches.push(touch);
                }
            }
            LogRecord::Gap(gap) => self.add_gap(gap),
            LogRecord::Remaining(process) => {
                if self.remaining.is_empty() {
                    self.touches_of_command = self.touches.len();
                    known.clear();
                }
                self.remaining.retain(|known| known.pid != process.pid);
                self.remaining.push(process);
            }
            LogRecord::Ended => self.ended = true,
        }
    }

    /// Tells whether processes record into a log: until the last process of its tree has ended, or all who record
    /// have died.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or its file system has no locks.
    pub fn is_being_written(path: impl AsRef<Path>) -> io::Result<bool> {
        let file = fs_err::File::open(path.as_ref())?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The touches of the processes that lived on when the command ended.
    pub fn touches_after_command(&self) -> &[Touch] {
        self.touches.get(self.touches_of_command..).unwrap_or_default()
    }

    fn add_gap(&mut self, gap: TraceGap) {
        let same = |known: &&mut TraceGap| known.reason == gap.reason && known.path == gap.path;
        match self.gaps.iter_mut().find(same) {
            Some(known) => known.count = known.count.saturating_add(gap.count),
            None => self.gaps.push(gap),
        }
    }

    /// The gaps that may hide a change; without any, the touches are complete.
    pub fn hiding_gaps(&self) -> impl Iterator<Item = &TraceGap> {
        self.gaps.iter().filter(|gap| gap.reason.can_hide_a_change())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{TouchKind, TouchParent};

    fn touch(path: &str, sequence: u64) -> Touch {
        let parent = TouchParent { device: 1, inode: 2, born: None };
        let (kind, path) = (TouchKind::Create, PathBuf::from(path));
        Touch { kind, path, parent, target: None, sequence, time: 9 }
    }

    fn bytes_of(records: &[LogRecord]) -> Vec<u8> {
        let header = LogHeader { boot_id: "boot".to_owned(), is_incomplete: false };
        let records = records.iter().flat_map(|record| record.encode().unwrap());
        header.encode().into_iter().chain(records).collect()
    }

    #[test]
    fn repeated_touches_and_gaps_are_merged() {
        let gap = TraceGap { reason: TraceGapReason::UnresolvedPath, path: None, count: 2 };
        let log = TraceLog::decode(&bytes_of(&[
            LogRecord::Touch(touch("/a", 1)),
            LogRecord::Gap(gap.clone()),
            LogRecord::Touch(touch("/a", 2)),
            LogRecord::Touch(touch("/b", 3)),
            LogRecord::Gap(gap),
            LogRecord::Ended,
        ]))
        .unwrap();
        assert_eq!(log.touches, [touch("/a", 1), touch("/b", 3)]);
        assert_eq!(log.gaps.iter().map(|gap| gap.count).collect::<Vec<_>>(), [4]);
        assert_eq!((log.boot_id.as_str(), log.ended), ("boot", true));
    }

    /// A file that the command wrote, and that a process which it left behind wrote again.
    #[test]
    fn touches_after_the_command_are_kept_apart_even_if_repeated() {
        let process = RemainingProcess { pid: 7, name: "d".to_owned(), open_for_writing: None };
        let other = RemainingProcess { pid: 8, ..process.clone() };
        let log = TraceLog::decode(&bytes_of(&[
            LogRecord::Touch(touch("/a", 1)),
            LogRecord::Remaining(process),
            LogRecord::Remaining(other),
            LogRecord::Touch(touch("/a", 2)),
        ]))
        .unwrap();
        assert_eq!(log.touches_after_command(), [touch("/a", 2)]);
        assert_eq!(log.remaining.len(), 2);

        let alone = TraceLog::decode(&bytes_of(&[LogRecord::Touch(touch("/a", 1))])).unwrap();
        assert_eq!(alone.touches_after_command(), []);
    }

    #[test]
    fn log_is_being_written_as_long_as_its_lock_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(!TraceLog::is_being_written(file.path()).unwrap());
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert!(TraceLog::is_being_written(file.path()).unwrap());
        flock(&file, FlockOperation::Unlock).unwrap();
        assert!(!TraceLog::is_being_written(file.path()).unwrap());
        assert!(TraceLog::is_being_written("/no/such/log").is_err());
    }

    #[test]
    fn torn_end_is_left_out_and_damage_is_an_error() {
        let mut bytes = bytes_of(&[LogRecord::Touch(touch("/a", 1)), LogRecord::Ended]);
        bytes.pop();
        assert_eq!(TraceLog::decode(&bytes).unwrap().touches.len(), 1);
        bytes[LogHeader::LENGTH + 20] ^= 1;
        assert!(matches!(TraceLog::decode(&bytes), Err(TraceLogError::Damaged { offset: 45 })));
        assert!(TraceLog::decode(b"something else").is_err());
    }

    #[test]
    fn mark_of_a_missing_record_is_a_gap() {
        let mut bytes = bytes_of(&[]);
        bytes[LogHeader::INCOMPLETE_AT as usize] = 1;
        let log = TraceLog::decode(&bytes).unwrap();
        assert_eq!(log.hiding_gaps().count(), 1);
    }
}
