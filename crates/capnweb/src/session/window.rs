//! How far a stream may run ahead of the peer's answers: what the connection holds, as npm reckons.
//!
//! Local policy: nothing of it is on the wire. Reads no clock; whoever owns the session tells the time.

use std::time::Duration;

const FIRST: f64 = 256.0 * 1024.0;
const LEAST: f64 = 64.0 * 1024.0;
/// How much the window may grow in one round trip: while its size is being found, and later.
const STARTUP_GROWTH: f64 = 2.0;
const STEADY_GROWTH: f64 = 1.25;
/// How much of the window is kept in one round trip at least.
const KEPT: f64 = 0.9;
/// Rounds without growth after which the size counts as found.
const LAST_ROUNDS: u8 = 3;

/// The window of one stream.
pub(crate) struct Window {
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
pub(crate) struct Sent {
    at: Duration,
    bytes: f64,
    delivered: f64,
    delivered_at: Option<Duration>,
    size: f64,
    full: bool,
}

impl Window {
    /// Opens a window that never grows beyond `most` bytes.
    pub(crate) fn new(most: usize) -> Self {
        let most = most as f64;
        Self {
            size: FIRST.min(most),
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
    pub(crate) fn sent(&mut self, bytes: usize, now: Duration) -> Sent {
        let bytes = bytes as f64;
        self.in_flight += bytes;
        Sent {
            at: now,
            bytes,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            size: self.size,
            full: self.is_full(),
        }
    }

    /// Notes that a chunk was refused: nothing is learnt from it.
    pub(crate) fn refused(&mut self, sent: &Sent) {
        self.in_flight -= sent.bytes;
    }

    /// Notes that a chunk was taken.
    pub(crate) fn taken(&mut self, sent: &Sent, now: Duration) {
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
    fn resize(&mut self, sent: &Sent, bytes_per_second: f64) {
        let growth = if self.starting { STARTUP_GROWTH } else { STEADY_GROWTH };
        let carried = bytes_per_second * self.shortest_trip.as_secs_f64() * growth;
        let size = carried.min(sent.size * growth);
        // A window that was not used up says nothing against its size.
        let size = size.max(if sent.full { sent.size * KEPT } else { self.size });
        self.size = size.min(self.most).max(LEAST.min(self.most));
    }

    fn end_round(&mut self, sent: &Sent, now: Duration) {
        if !self.starting || sent.at < self.round_began {
            return;
        }
        let grew = self.size > self.round_size * STEADY_GROWTH;
        self.idle_rounds = if grew { 0 } else { self.idle_rounds + 1 };
        self.starting = self.idle_rounds < LAST_ROUNDS;
        self.round_began = now;
        self.round_size = self.size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    /// Sends whole windows over a connection of that speed for a while.
    fn after(rounds: u32, bytes_per_milli: f64, trip: Duration, most: usize) -> Window {
        let mut window = Window::new(most);
        let mut now = Duration::ZERO;
        for _ in 0..rounds {
            let mut sent = Vec::new();
            while !window.is_full() {
                sent.push(window.sent(8 * KIB, now));
            }
            now += trip;
            for sent in &sent {
                now += Duration::from_secs_f64(sent.bytes / bytes_per_milli / 1e3);
                window.taken(sent, now);
            }
        }
        window
    }

    #[test]
    fn a_window_grows_to_what_a_fast_connection_holds() {
        let window = after(12, 100_000.0, Duration::from_millis(50), 64 * KIB * KIB);
        assert!(window.size > 2e6, "{}", window.size);
    }

    #[test]
    fn a_window_never_grows_beyond_its_limit() {
        let window = after(12, 100_000.0, Duration::from_millis(50), 512 * KIB);
        assert_eq!(window.size, 512.0 * 1024.0);
    }

    #[test]
    fn a_window_shrinks_on_a_slow_connection_but_not_below_the_least() {
        let window = after(40, 20.0, Duration::from_millis(1), 64 * KIB * KIB);
        assert_eq!(window.size, LEAST);
        assert!(!window.starting);
    }

    #[test]
    fn a_window_that_is_not_used_up_does_not_shrink() {
        let mut window = Window::new(64 * KIB * KIB);
        for second in 0..20 {
            let sent = window.sent(10, Duration::from_secs(second));
            window.taken(&sent, Duration::from_secs(second) + Duration::from_millis(5));
        }
        assert_eq!(window.size, FIRST);
        assert_eq!(window.in_flight, 0.0);
    }

    #[test]
    fn a_window_without_a_clock_stays_as_it_is() {
        let mut window = Window::new(64 * KIB * KIB);
        for _ in 0..20 {
            let sent = window.sent(100 * KIB, Duration::ZERO);
            window.taken(&sent, Duration::ZERO);
        }
        assert_eq!(window.size, FIRST);
    }

    #[test]
    fn what_is_refused_makes_room() {
        let mut window = Window::new(100);
        let sent = window.sent(100, Duration::ZERO);
        assert!(window.is_full());
        window.refused(&sent);
        assert!(!window.is_full());
    }
}
