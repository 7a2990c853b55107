//! Tickets: a page cannot send a password when it opens a WebSocket, so it gets a secret for one connection.

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::Uri;
use serde::Serialize;
use subtle::ConstantTimeEq;
use turnstone_core::id::PtyId;
use turnstone_core::time::EpochMillis;

use crate::error::ApiError;
use crate::random::random_hex;
use crate::request_input::QueryParams;

/// How long a ticket may be used.
const LIFETIME_SECS: u32 = 60;
/// How many are open at a time; the oldest are forgotten.
const MAX_OPEN: usize = 256;

/// A ticket as a client gets it.
#[derive(Debug, Serialize)]
pub(crate) struct ConnectTicket {
    /// The secret.
    pub(crate) ticket: String,
    /// Seconds it may be used.
    expires_in: u32,
}

/// The tickets that can still be used.
#[derive(Debug, Default)]
pub(crate) struct ConnectTickets(Mutex<Vec<OpenTicket>>);

#[derive(Debug)]
struct OpenTicket {
    terminal: PtyId,
    secret: String,
    expires: EpochMillis,
}

impl OpenTicket {
    fn is_valid_for(&self, terminal: &str, secret: &str, now: EpochMillis) -> bool {
        let is_right = bool::from(self.secret.as_bytes().ct_eq(secret.as_bytes()));
        is_right && self.terminal.as_str() == terminal && now < self.expires
    }
}

impl ConnectTickets {
    fn lock(&self) -> MutexGuard<'_, Vec<OpenTicket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new ticket for one connection to `terminal`.
    pub(super) fn issue(
        &self,
        terminal: &PtyId,
        now: EpochMillis,
    ) -> Result<ConnectTicket, ApiError> {
        let secret = random_hex::<24>().map_err(|error| ApiError::unexpected(&error))?;
        let expires = EpochMillis(now.0.saturating_add(i64::from(LIFETIME_SECS) * 1_000));
        let mut open = self.lock();
        open.retain(|ticket| now < ticket.expires);
        let over = (open.len() + 1).saturating_sub(MAX_OPEN);
        open.drain(..over);
        open.push(OpenTicket { terminal: terminal.clone(), secret: secret.clone(), expires });
        Ok(ConnectTicket { ticket: secret, expires_in: LIFETIME_SECS })
    }

    /// True if a ticket would be accepted; it can still be used.
    pub(super) fn is_valid(&self, terminal: &str, secret: &str, now: EpochMillis) -> bool {
        self.lock().iter().any(|ticket| ticket.is_valid_for(terminal, secret, now))
    }

    /// Uses a ticket; false if there is none like it.
    pub(super) fn redeem(&self, terminal: &str, secret: &str, now: EpochMillis) -> bool {
        let mut open = self.lock();
        let found = open.iter().position(|ticket| ticket.is_valid_for(terminal, secret, now));
        found.map(|at| open.swap_remove(at)).is_some()
    }
}

/// The terminal and the ticket of a request that opens a connection to a terminal.
pub(crate) fn requested_ticket(uri: &Uri) -> Option<(String, String)> {
    let path = uri.path();
    let inner = path.strip_prefix("/api/pty/").or_else(|| path.strip_prefix("/pty/"))?;
    let terminal = inner.strip_suffix("/connect")?;
    let query = QueryParams::parse(uri.query()?);
    Some((terminal.to_owned(), query.non_empty("ticket")?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(text: &str) -> PtyId {
        text.parse().expect("an id")
    }

    #[test]
    fn ticket_opens_one_connection_to_its_terminal_for_a_minute() {
        let tickets = ConnectTickets::default();
        let (one, now) = (terminal("pty_one"), EpochMillis(1_000));
        let secret = tickets.issue(&one, now).expect("a ticket").ticket;
        assert!(tickets.is_valid("pty_one", &secret, now));
        assert!(!tickets.redeem("pty_two", &secret, now));
        assert!(!tickets.redeem("pty_one", "", now) && !tickets.redeem("pty_one", "x", now));
        assert!(!tickets.redeem("pty_one", &secret, EpochMillis(61_000)), "too late");
        assert!(tickets.redeem("pty_one", &secret, EpochMillis(60_999)));
        assert!(!tickets.redeem("pty_one", &secret, now), "once");
        (0..1_000).for_each(|_| drop(tickets.issue(&one, now).expect("a ticket")));
        assert_eq!(tickets.lock().len(), MAX_OPEN);
    }

    #[test]
    fn ticket_is_read_from_connect_paths_only() {
        let read = |text: &str| requested_ticket(&text.parse().expect("a path"));
        let found = Some(("pty_a".to_owned(), "t".to_owned()));
        assert_eq!(read("/pty/pty_a/connect?ticket=t"), found);
        assert_eq!(read("/api/pty/pty_a/connect?cursor=1&ticket=t"), found);
        for other in ["/pty/pty_a/connect", "/pty/pty_a/connect?ticket=", "/pty/pty_a?ticket=t"] {
            assert_eq!(read(other), None, "{other}");
        }
        assert_eq!(read("/session/pty/pty_a/connect?ticket=t"), None);
    }
}
