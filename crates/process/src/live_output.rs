//! The output of a command while it runs: its end, for readers that come back now and then.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The last bytes that a command has written so far. Clones share them: one side writes, the other reads.
#[derive(Clone, Debug)]
pub struct LiveOutput {
    shared: Arc<(Mutex<OutputTail>, Condvar)>,
    limit: usize,
}

#[derive(Debug, Default)]
struct OutputTail {
    bytes: Vec<u8>,
    is_new: bool,
    is_over: bool,
}

impl LiveOutput {
    /// Keeps the last `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { shared: Arc::default(), limit }
    }

    fn lock(&self) -> MutexGuard<'_, OutputTail> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `interval` and then for more output, and returns its end; `None` once the command has ended.
    #[must_use]
    pub fn next_output(&self, interval: Duration) -> Option<String> {
        let over = |tail: &mut OutputTail| !tail.is_over;
        let waited = self.shared.1.wait_timeout_while(self.lock(), interval, over);
        let tail = waited.unwrap_or_else(PoisonError::into_inner).0;
        let quiet = |tail: &mut OutputTail| !tail.is_over && !tail.is_new;
        let waited = self.shared.1.wait_while(tail, quiet);
        let mut tail = waited.unwrap_or_else(PoisonError::into_inner);
        if tail.is_over {
            return None;
        }
        tail.is_new = false;
        Some(complete_utf8(&tail.bytes))
    }

    /// Ends the waiting of [`Self::next_output`].
    pub fn finish(&self) {
        self.lock().is_over = true;
        self.shared.1.notify_all();
    }
}

impl Write for LiveOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tail = self.lock();
        let end = bytes.len().saturating_sub(self.limit);
        let over = (tail.bytes.len() + bytes.len() - end).saturating_sub(self.limit);
        tail.bytes.drain(..over);
        tail.bytes.extend_from_slice(&bytes[end..]);
        if !std::mem::replace(&mut tail.is_new, true) {
            self.shared.1.notify_all();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes as text; a character that is still being written is left out.
fn complete_utf8(bytes: &[u8]) -> String {
    let whole = match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    };
    String::from_utf8_lossy(whole).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_output_keeps_the_end_of_what_was_written() {
        let live = LiveOutput::new(8);
        let mut writer = live.clone();
        for piece in ["ab", "cdefgh", "ij", "klmnopqrstuvw", "xy\u{e4}"] {
            writer.write_all(piece.as_bytes()).expect("written");
        }
        assert_eq!(live.next_output(Duration::ZERO).as_deref(), Some("tuvwxy\u{e4}"));
        writer.write_all(b"\xc3").expect("written");
        assert_eq!(live.next_output(Duration::ZERO).as_deref(), Some("uvwxy\u{e4}"));
        live.finish();
        assert_eq!(live.next_output(Duration::from_secs(3600)), None);
    }
}
