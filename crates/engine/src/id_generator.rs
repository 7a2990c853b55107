//! New ids: the one place that mixes the caller's moment with randomness.

use std::sync::{Mutex, PoisonError};

use turnstone_core::id::{
    ChangeId, IdClock, IdTimestamp, MessageId, OperationId, PartId, PermissionId, QuestionId,
    SessionId, TurnId,
};
use turnstone_core::time::EpochMillis;

use crate::error::Result;

/// Random bytes that one id takes.
const RANDOM_BYTES_PER_ID: usize = 14;

/// For how many ids the system is asked at once: a fork takes thousands.
const RANDOM_BATCH: usize = 64;

/// Mints ids; one per process.
#[derive(Debug, Default)]
pub(crate) struct IdGenerator {
    state: Mutex<IdGeneratorState>,
}

#[derive(Debug, Default)]
struct IdGeneratorState {
    ticker: IdClock,
    /// Random bytes that no id has got yet.
    random: Vec<[u8; RANDOM_BYTES_PER_ID]>,
}

impl IdGenerator {
    fn next(&self, now: EpochMillis) -> Result<(IdTimestamp, [u8; RANDOM_BYTES_PER_ID])> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.random.is_empty() {
            let mut fresh = [[0; RANDOM_BYTES_PER_ID]; RANDOM_BATCH];
            getrandom::fill(fresh.as_flattened_mut()).map_err(std::io::Error::other)?;
            state.random.extend(fresh);
        }
        let random = state.random.pop().ok_or_else(|| std::io::Error::other("no random bytes"))?;
        Ok((state.ticker.next_timestamp(now), random))
    }

    pub(crate) fn new_turn_id(&self, now: EpochMillis) -> Result<TurnId> {
        self.next(now).map(|(tick, random)| TurnId::mint(tick, random))
    }

    pub(crate) fn new_message_id(&self, now: EpochMillis) -> Result<MessageId> {
        self.next(now).map(|(tick, random)| MessageId::mint(tick, random))
    }

    /// An id for a message of a session whose newest message is `newest`.
    pub(crate) fn new_message_id_after(
        &self,
        newest: Option<&MessageId>,
        now: EpochMillis,
    ) -> Result<MessageId> {
        self.next(now).map(|(tick, random)| MessageId::mint_after(newest, tick, random))
    }

    pub(crate) fn new_part_id(&self, now: EpochMillis) -> Result<PartId> {
        self.next(now).map(|(tick, random)| PartId::mint(tick, random))
    }

    pub(crate) fn new_change_id(&self, now: EpochMillis) -> Result<ChangeId> {
        self.next(now).map(|(tick, random)| ChangeId::mint(tick, random))
    }

    pub(crate) fn new_session_id(&self, now: EpochMillis) -> Result<(SessionId, [u8; 2])> {
        let (tick, random) = self.next(now)?;
        Ok((SessionId::mint(tick, random), [random[0], random[1]]))
    }

    pub(crate) fn new_permission_id(&self, now: EpochMillis) -> Result<PermissionId> {
        self.next(now).map(|(tick, random)| PermissionId::mint(tick, random))
    }

    pub(crate) fn new_question_id(&self, now: EpochMillis) -> Result<QuestionId> {
        self.next(now).map(|(tick, random)| QuestionId::mint(tick, random))
    }

    pub(crate) fn new_operation_id(&self, now: EpochMillis) -> Result<OperationId> {
        self.next(now).map(|(tick, random)| OperationId::mint(tick, random))
    }
}
