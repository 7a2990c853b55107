//! The numbers and short IDs of the turns of a project.

use std::collections::HashMap;

use turnstone_core::id::{SessionId, TurnId};
use turnstone_core::time::LogCursor;
use turnstone_store::ProjectTurnRow;

/// Shortest shown ID, with its type prefix.
const MIN_ID_LENGTH: usize = 12;

/// Numbers of turns, counted from the newest: 1, 2 and so on.
#[derive(Default)]
pub(super) struct TurnNumbers {
    numbers: HashMap<TurnId, usize>,
}

impl TurnNumbers {
    /// Numbers turns that are listed newest first; abandoned and imported ones get no number.
    pub(super) fn new(turns: &[ProjectTurnRow]) -> Self {
        let shown = turns.iter().filter(|row| !row.turn.hidden && !row.turn.imported);
        let numbers = shown.zip(1..).map(|(row, number)| (row.turn.id.clone(), number));
        Self { numbers: numbers.collect() }
    }

    /// The number of a turn.
    pub(super) fn find(&self, turn: &TurnId) -> Option<usize> {
        self.numbers.get(turn).copied()
    }
}

/// The sessions of listed turns, each once.
pub(super) fn list_sessions(turns: &[ProjectTurnRow]) -> Vec<&SessionId> {
    let mut found: Vec<&SessionId> = turns.iter().map(|row| &row.session).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Where the newest `limit` shown turns begin in the log, and how many older ones there are.
pub(super) fn find_start(turns: &[ProjectTurnRow], all: bool, limit: usize) -> (LogCursor, usize) {
    let mut shown = turns.iter().filter(|row| all || !row.turn.hidden);
    match shown.by_ref().take(limit).last() {
        Some(oldest) => match shown.count() {
            0 => (LogCursor(0), 0),
            older => (oldest.turn.span.0, older),
        },
        None => (LogCursor(0), 0),
    }
}

/// How many characters tell IDs apart.
pub(super) fn unique_length<'i>(ids: impl Iterator<Item = &'i str>) -> usize {
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    let shared = |pair: &[&str]| match pair {
        [one, other] => one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count() + 1,
        _ => 0,
    };
    ids.windows(2).map(shared).max().unwrap_or(0).max(MIN_ID_LENGTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_long_enough_to_be_distinct() {
        assert_eq!(unique_length(["trn_0197c2aaaabbbb"].into_iter()), MIN_ID_LENGTH);
        let ids = ["trn_0197c2aaaabbbb", "trn_0197c2aaaabbcc", "trn_0198"];
        assert_eq!(unique_length(ids.into_iter()), "trn_0197c2aaaabbb".len());
    }
}
