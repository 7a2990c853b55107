//! How far a stream may run ahead of the peer's answers: what the connection holds, as npm reckons.
//!
//! Local policy: nothing of it is on the wire. Reads no clock; the owner of the session passes the time.

use std::time::Duration;

const INITIAL_WINDOW: f64 = 256.0 * 1024.0;
const MIN_WINDOW: f64 = 64.0 * 1024.0;
/// How much the window may grow in one round trip: while its size is being found, and later.
const STARTUP_GROWTH: f64 = 2.0;
const STEADY_GROWTH: f64 = 1.25;
/// How much of the window is kept in one round trip at least.
const MIN_SHRINK_FACTOR: f64 = 0.9;
/// Rounds without growth after which the size counts as found.
const STARTUP_IDLE_ROUNDS: u8 = 3;

/// The window of one stream.
pub(crate) struct SendWindow {
    size: f64,
    most: f64,
    in_flight: f64,
    starting: bool,
    delivered: f64,
    delivered_at: Option<Duration>,
    /// When the first answer came, and what had been delivered by it.
    first: Option<(Duration, f64)>,
    shortest_trip: Duration,
    idle_rounds: u8,
    round_size: f64,
    round_began: Duration,
}

/// What was known when a chunk was sent.
#[derive(Clone, Copy)]
pub(crate) struct SentChunk {
    at: Duration,
    bytes: f64,
    delivered: f64,
    delivered_at: Option<Duration>,
    size: f64,
    full: bool,
}

impl SendWindow {
    /// Opens a window that never grows beyond `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        let most = most as f64;
        Self {
            size: INITIAL_WINDOW.min(most),
            most,
            in_flight: 0.0,
            starting: true,
            delivered: 0.0,
            delivered_at: None,
            first: None,
            shortest_trip: Duration::MAX,
            idle_rounds: 0,
            round_size: 0.0,
            round_began: Duration::ZERO,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.in_flight >= self.size
    }

    /// Notes a chunk that is sent now.
    pub(crate) fn record_sent(&mut self, bytes: usize, now: Duration) -> SentChunk {
        let bytes = bytes as f64;
        self.in_flight += bytes;
        SentChunk {
            at: now,
            bytes,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            size: self.size,
            full: self.is_full(),
        }
    }

    /// Notes that a chunk was refused: nothing is learnt from it.
    pub(crate) fn record_refused(&mut self, sent: &SentChunk) {
        self.in_flight -= sent.bytes;
    }

    /// Notes that a chunk was taken.
    pub(crate) fn record_taken(&mut self, sent: &SentChunk, now: Duration) {
        self.in_flight -= sent.bytes;
        self.delivered += sent.bytes;
        self.delivered_at = Some(now);
        self.shortest_trip = self.shortest_trip.min(now.saturating_sub(sent.at));
        let Some(first) = self.first else {
            self.first = Some((now, self.delivered));
            return;
        };
        let (since, before) = match sent.delivered_at {
            Some(at) => (at, sent.delivered),
            // Sent before the first answer: that is where the reckoning begins.
            None => first,
        };
        let interval = now.saturating_sub(since).as_secs_f64();
        if interval > 0.0 {
            self.resize(sent, (self.delivered - before) / interval);
            self.end_round(sent, now);
        }
    }

    /// Takes as much as the connection carries in one round trip, and some room to grow.
    fn resize(&mut self, sent: &SentChunk, bytes_per_second: f64) {
        let growth = if self.starting { STARTUP_GROWTH } else { STEADY_GROWTH };
        let carried = bytes_per_second * self.shortest_trip.as_secs_f64() * growth;
        let size = carried.min(sent.size * growth);
        // A window that was not used up says nothing against its size.
        let size = size.max(if sent.full { sent.size * MIN_SHRINK_FACTOR } else { self.size });
        self.size = size.min(self.most).max(MIN_WINDOW.min(self.most));
    }

    fn end_round(&mut self, sent: &SentChunk, now: Duration) {
        if !self.starting || sent.at < self.round_began {
            return;
        }
        let grew = self.size > self.round_size * STEADY_GROWTH;
        self.idle_rounds = if grew { 0 } else { self.idle_rounds + 1 };
        self.starting = self.idle_rounds < STARTUP_IDLE_ROUNDS;
        self.round_began = now;
        self.round_size = self.size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    /// Sends whole windows over a connection of that speed for a while.
    fn window_after(rounds: u32, bytes_per_milli: f64, trip: Duration, most: usize) -> SendWindow {
        let mut window = SendWindow::new(most);
        let mut now = Duration::ZERO;
        for _ in 0..rounds {
            let mut sent = Vec::new();
            while !window.is_full() {
                sent.push(window.record_sent(8 * KIB, now));
            }
            now += trip;
            for sent in &sent {
                now += Duration::from_secs_f64(sent.bytes / bytes_per_milli / 1e3);
                window.record_taken(sent, now);
            }
        }
        window
    }

    #[test]
    fn window_grows_on_a_fast_connection() {
        let window = window_after(12, 100_000.0, Duration::from_millis(50), 64 * KIB * KIB);
        assert!(window.size > 2e6, "{}", window.size);
    }

    #[test]
    fn window_never_exceeds_its_limit() {
        let window = window_after(12, 100_000.0, Duration::from_millis(50), 512 * KIB);
        assert_eq!(window.size, 512.0 * 1024.0);
    }

    #[test]
    fn window_shrinks_to_minimum_on_a_slow_connection() {
        let window = window_after(40, 20.0, Duration::from_millis(1), 64 * KIB * KIB);
        assert_eq!(window.size, MIN_WINDOW);
        assert!(!window.starting);
    }

    #[test]
    fn unused_window_does_not_shrink() {
        let mut window = SendWindow::new(64 * KIB * KIB);
        for second in 0..20 {
            let sent = window.record_sent(10, Duration::from_secs(second));
            window.record_taken(&sent, Duration::from_secs(second) + Duration::from_millis(5));
        }
        assert_eq!(window.size, INITIAL_WINDOW);
        assert_eq!(window.in_flight, 0.0);
    }

    #[test]
    fn window_without_a_clock_keeps_its_size() {
        let mut window = SendWindow::new(64 * KIB * KIB);
        for _ in 0..20 {
            let sent = window.record_sent(100 * KIB, Duration::ZERO);
            window.record_taken(&sent, Duration::ZERO);
        }
        assert_eq!(window.size, INITIAL_WINDOW);
    }

    #[test]
    fn refused_chunk_frees_the_window() {
        let mut window = SendWindow::new(100);
        let sent = window.record_sent(100, Duration::ZERO);
        assert!(window.is_full());
        window.record_refused(&sent);
        assert!(!window.is_full());
    }
}
