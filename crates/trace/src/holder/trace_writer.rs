//! Appending to the log, so that the death of the writer at any moment loses nothing.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use crate::kernel::shared_state::SharedState;
use crate::log::{LogHeader, LogRecord, MAX_LOG_BYTES, Touch, TraceGap};

/// How many touches are remembered so that they are not written again.
const MAX_REMEMBERED: usize = 1 << 16;
/// Records of the end of the log that are written even if it is full.
const RESERVE: u64 = 1 << 20;

/// Writes records behind the complete ones; their length is shared with the other holder.
#[derive(Debug)]
pub(crate) struct TraceWriter {
    file: File,
    state: &'static SharedState,
    written: HashSet<u64>,
}

impl TraceWriter {
    pub(crate) fn new(file: File, state: &'static SharedState) -> Self {
        Self { file, state, written: HashSet::new() }
    }

    /// Goes on behind what is complete, and cuts a record that another writer did not finish.
    pub(crate) fn resume(&self) {
        if self.file.set_len(self.state.log_length.load(Ordering::SeqCst)).is_err() {
            self.mark_incomplete();
        }
    }

    /// Writes one touch and no other.
    pub(crate) fn into_touch(mut self, touch: Touch) {
        self.write_touch(touch);
    }

    /// Writes a touch, numbered and dated, unless the log has it.
    pub(crate) fn write_touch(&mut self, mut touch: Touch) {
        let key = touch.repetition_key();
        if key.is_some_and(|key| self.written.contains(&key)) {
            return;
        }
        touch.sequence = self.state.sequence.fetch_add(1, Ordering::SeqCst).saturating_add(1);
        touch.time = current_time();
        if self.append(&LogRecord::Touch(touch), MAX_LOG_BYTES)
            && let Some(key) = key
        {
            if self.written.len() >= MAX_REMEMBERED {
                self.written.clear();
            }
            self.written.insert(key);
        }
    }

    /// Has touches that the log knows written again.
    pub(crate) fn forget_written(&mut self) {
        self.written.clear();
    }

    /// Writes a gap.
    pub(crate) fn write_gap(&self, gap: TraceGap) {
        self.append(&LogRecord::Gap(gap), MAX_LOG_BYTES);
    }

    /// Writes a record of the end, for which there is always room below the limit.
    pub(crate) fn write_end(&self, record: &LogRecord) {
        self.append(record, MAX_LOG_BYTES + RESERVE);
    }

    /// Appends a record; says whether it is in the log. A missing record is marked in the header.
    fn append(&self, record: &LogRecord, limit: u64) -> bool {
        let start = self.state.log_length.load(Ordering::SeqCst);
        let written = record
            .encode()
            .filter(|bytes| start + bytes.len() as u64 <= limit)
            .is_some_and(|bytes| {
                let end = start + bytes.len() as u64;
                let written = self.file.write_all_at(&bytes, start);
                if written.is_ok() {
                    self.state.log_length.store(end, Ordering::SeqCst);
                }
                written.is_ok()
            });
        if !written {
            self.mark_incomplete();
        }
        written
    }

    /// Marks the log as incomplete. The byte exists already, so that a full disk has room for it.
    fn mark_incomplete(&self) {
        if self.state.lost_records.fetch_add(1, Ordering::SeqCst) == 0 {
            self.file.set_len(self.state.log_length.load(Ordering::SeqCst)).ok();
        }
        self.file.write_all_at(&[1], LogHeader::INCOMPLETE_AT).ok();
    }
}

/// Writes the beginning of a log into an empty file.
pub(crate) fn write_header(file: &File, state: &SharedState) -> io::Result<()> {
    let boot_id = fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
    let header = LogHeader { boot_id, is_incomplete: false }.encode();
    file.write_all_at(&header, 0)?;
    state.log_length.store(header.len() as u64, Ordering::SeqCst);
    Ok(())
}

/// The time of day in nanoseconds since 1970.
fn current_time() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}
