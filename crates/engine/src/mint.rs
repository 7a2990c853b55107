//! New ids: the one place that mixes the caller's moment with randomness.

use std::sync::{Mutex, PoisonError};

use turnstone_core::id::{
    ChangeId, MessageId, OperationId, PartId, PermissionId, QuestionId, SessionId, Tick, Ticker,
    TurnId,
};
use turnstone_core::time::Millis;

use crate::error::Result;

/// Random bytes that one id takes.
const EACH: usize = 14;

/// For how many ids the system is asked at once: a fork takes thousands.
const AT_ONCE: usize = 64;

/// Mints ids; one per process.
#[derive(Debug, Default)]
pub(crate) struct Mint {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ticker: Ticker,
    /// Random bytes that no id has got yet.
    random: Vec<[u8; EACH]>,
}

impl Mint {
    fn next(&self, now: Millis) -> Result<(Tick, [u8; EACH])> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.random.is_empty() {
            let mut fresh = [[0; EACH]; AT_ONCE];
            getrandom::fill(fresh.as_flattened_mut()).map_err(std::io::Error::other)?;
            state.random.extend(fresh);
        }
        let random = state.random.pop().ok_or_else(|| std::io::Error::other("no random bytes"))?;
        Ok((state.ticker.tick(now), random))
    }

    pub(crate) fn turn(&self, now: Millis) -> Result<TurnId> {
        self.next(now).map(|(tick, random)| TurnId::mint(tick, random))
    }

    pub(crate) fn message(&self, now: Millis) -> Result<MessageId> {
        self.next(now).map(|(tick, random)| MessageId::mint(tick, random))
    }

    /// An id for a message of a session whose newest message is `newest`.
    pub(crate) fn message_after(
        &self,
        newest: Option<&MessageId>,
        now: Millis,
    ) -> Result<MessageId> {
        self.next(now).map(|(tick, random)| MessageId::mint_after(newest, tick, random))
    }

    pub(crate) fn part(&self, now: Millis) -> Result<PartId> {
        self.next(now).map(|(tick, random)| PartId::mint(tick, random))
    }

    pub(crate) fn change(&self, now: Millis) -> Result<ChangeId> {
        self.next(now).map(|(tick, random)| ChangeId::mint(tick, random))
    }

    pub(crate) fn session(&self, now: Millis) -> Result<(SessionId, [u8; 2])> {
        let (tick, random) = self.next(now)?;
        Ok((SessionId::mint(tick, random), [random[0], random[1]]))
    }

    pub(crate) fn permission(&self, now: Millis) -> Result<PermissionId> {
        self.next(now).map(|(tick, random)| PermissionId::mint(tick, random))
    }

    pub(crate) fn question(&self, now: Millis) -> Result<QuestionId> {
        self.next(now).map(|(tick, random)| QuestionId::mint(tick, random))
    }

    pub(crate) fn operation(&self, now: Millis) -> Result<OperationId> {
        self.next(now).map(|(tick, random)| OperationId::mint(tick, random))
    }
}
