//! The state machine of a turn (R28): which event may follow which state, live and in replay alike.
//!
//! Owns the states of a turn, its events and the one table between them. Knows no store, no lease
//! and no clock; the caller says whether an owner is alive.
//!
//! Repeats: every event that finds its own result already there changes nothing, so that a retry
//! after a lost acknowledgement is safe. `Started` in `running`, `Asked` in `waiting` (also: a
//! second request of a parallel call) and `OneshotReceiver` in `running` (also: an answer to one call
//! while another still works) return the same state; so does the same end. Everything else that
//! the table does not name is refused.

use serde::{Deserialize, Serialize};

use crate::transition_table::{RepeatEffect, TransitionRow};

/// How far a turn got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnState {
    /// Accepted, not running yet.
    Accepted,
    /// A runner works on it.
    Running,
    /// The only open work is a permission, a question or a child.
    Waiting,
    /// Ended well.
    Completed,
    /// Ended by an error.
    Failed,
    /// Aborted on request.
    Aborted,
    /// Its runner died.
    Interrupted,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TurnOutcome {
    /// Well.
    Completed,
    /// By an error.
    Failed,
    /// Aborted on request.
    Aborted,
    /// Its runner died.
    Interrupted,
}

/// What happens to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum TurnEvent {
    /// A runner took it up.
    Started,
    /// It needs an answer before anything can go on.
    Asked,
    /// The answer came, or another call has work again.
    Answered,
    /// It is over.
    Ended {
        /// How it ended.
        outcome: TurnOutcome,
    },
}

/// An event the state does not allow; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a turn that is {from} cannot be {event}", from = from.as_str())]
pub struct IllegalTurnTransition {
    /// The state the turn is in.
    pub from: TurnState,
    /// The name of the refused event.
    pub event: &'static str,
}

/// What recovery does with a turn it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryAction {
    /// Nothing: it has ended, its owner is alive, or the next runner starts it.
    Keep,
    /// It ends as interrupted, and its open tool calls with it.
    Interrupt,
}

impl TurnState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Accepted,
        Self::Running,
        Self::Waiting,
        Self::Completed,
        Self::Failed,
        Self::Aborted,
        Self::Interrupted,
    ];

    /// Returns the state after `event`; the same state means the event is a repeat.
    ///
    /// # Errors
    ///
    /// [`IllegalTurnTransition`] for every transition that is not in the table.
    pub fn apply(self, event: &TurnEvent) -> Result<Self, IllegalTurnTransition> {
        match (self, event) {
            (Self::Accepted | Self::Running, TurnEvent::Started) => Ok(Self::Running),
            (Self::Running | Self::Waiting, TurnEvent::Asked) => Ok(Self::Waiting),
            (Self::Waiting | Self::Running, TurnEvent::Answered) => Ok(Self::Running),
            (Self::Accepted | Self::Running | Self::Waiting, TurnEvent::Ended { outcome }) => {
                Ok(outcome.state())
            }
            // Ending twice in the same way is a retry, not a mistake.
            (ended, TurnEvent::Ended { outcome }) if ended == outcome.state() => Ok(ended),
            // All other transitions are refused.
            (from, event) => Err(IllegalTurnTransition { from, event: event.name() }),
        }
    }

    /// Decides what recovery does with a turn in this state (R28, R45).
    ///
    /// Only a `running` turn of a dead owner is interrupted. An `accepted` turn never ran, so
    /// nothing of it can be half done: it stays for the next runner. A `waiting` turn stays too:
    /// its answer is stored and the next runner resumes the call.
    #[must_use]
    pub const fn recovery_action(self, owner_alive: bool) -> RecoveryAction {
        match (self, owner_alive) {
            (Self::Running, false) => RecoveryAction::Interrupt,
            _ => RecoveryAction::Keep,
        }
    }

    /// True until the turn has ended.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Accepted | Self::Running | Self::Waiting)
    }

    /// The word the database and the wire use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
            Self::Interrupted => "interrupted",
        }
    }

    /// The state with this word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

impl std::fmt::Display for TurnState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TurnOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Completed, Self::Failed, Self::Aborted, Self::Interrupted];

    /// The state of a turn that ended so.
    #[must_use]
    pub const fn state(self) -> TurnState {
        match self {
            Self::Completed => TurnState::Completed,
            Self::Failed => TurnState::Failed,
            Self::Aborted => TurnState::Aborted,
            Self::Interrupted => TurnState::Interrupted,
        }
    }

    /// The word the database and the wire use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.state().as_str()
    }
}

impl TurnEvent {
    /// Every event.
    pub const ALL: [Self; 7] = [
        Self::Started,
        Self::Asked,
        Self::Answered,
        Self::Ended { outcome: TurnOutcome::Completed },
        Self::Ended { outcome: TurnOutcome::Failed },
        Self::Ended { outcome: TurnOutcome::Aborted },
        Self::Ended { outcome: TurnOutcome::Interrupted },
    ];

    /// The event in one word; an end is named by its outcome.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Asked => "asked",
            Self::Answered => "answered",
            Self::Ended { outcome } => outcome.as_str(),
        }
    }

    const fn writes(&self) -> &'static str {
        match self {
            Self::Started => "turn, event `turn.started`",
            Self::Asked => "turn, request, events `request.asked`, `turn.asked`",
            Self::Answered => "turn, request, events `request.resolved`, `turn.answered`",
            Self::Ended { .. } => {
                "turn, its open tool parts, its open requests, one event for each, `turn.ended`"
            }
        }
    }
}

/// The table of the machine, found by running it over every state and every event.
#[must_use]
pub fn transition_table() -> Vec<TransitionRow> {
    TurnEvent::ALL.iter().filter_map(transition_row).collect()
}

fn transition_row(event: &TurnEvent) -> Option<TransitionRow> {
    let moves = |from: &TurnState| from.apply(event).ok().filter(|to| to != from);
    let to = TurnState::ALL.iter().find_map(moves)?;
    let pick = |keep: &dyn Fn(&TurnState) -> bool| {
        TurnState::ALL.iter().filter(|state| keep(state)).map(|state| state.as_str()).collect()
    };
    Some(TransitionRow {
        event: event.name().to_owned(),
        from: pick(&|state| moves(state) == Some(to)),
        to: to.as_str(),
        refused: pick(&|state| state.apply(event).is_err()),
        writes: event.writes(),
        repeat: match to.apply(event) {
            Ok(again) if again == to => RepeatEffect::NoChange,
            Ok(_) => RepeatEffect::Moves,
            Err(_) => RepeatEffect::Refused,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_states_round_trip_by_name_and_json() {
        for state in TurnState::ALL {
            assert_eq!(TurnState::parse(state.as_str()), Some(state));
            let json = serde_json::to_value(state).expect("a word");
            assert_eq!(json, state.as_str());
        }
        assert_eq!(TurnState::parse("Running"), None);
        assert_eq!(serde_json::to_value(TurnOutcome::Aborted).expect("a word"), "aborted");
    }

    /// Proves R28.
    #[test]
    fn waiting_turn_path_is_allowed() {
        let mut state = TurnState::Accepted;
        let path = [
            (TurnEvent::Started, TurnState::Running),
            (TurnEvent::Asked, TurnState::Waiting),
            (TurnEvent::Answered, TurnState::Running),
            (TurnEvent::Ended { outcome: TurnOutcome::Completed }, TurnState::Completed),
        ];
        for (event, expected) in path {
            state = state.apply(&event).expect("allowed");
            assert_eq!(state, expected);
        }
        assert!(!state.is_open());
    }

    /// Proves R28.
    #[test]
    fn ended_turn_accepts_only_the_same_end() {
        for outcome in TurnOutcome::ALL {
            let ended = outcome.state();
            for event in TurnEvent::ALL {
                let expected = if event == (TurnEvent::Ended { outcome }) {
                    Ok(ended)
                } else {
                    Err(IllegalTurnTransition { from: ended, event: event.name() })
                };
                assert_eq!(ended.apply(&event), expected);
            }
        }
    }

    /// Proves R28.
    #[test]
    fn only_running_turns_of_dead_owners_are_interrupted() {
        for state in TurnState::ALL {
            assert_eq!(state.recovery_action(true), RecoveryAction::Keep);
            let dead = state.recovery_action(false);
            assert_eq!(dead == RecoveryAction::Interrupt, state == TurnState::Running, "{state}");
        }
    }

    /// Proves R28.
    #[test]
    fn recovery_action_is_a_legal_transition() {
        let end = TurnEvent::Ended { outcome: TurnOutcome::Interrupted };
        for state in TurnState::ALL {
            if state.recovery_action(false) == RecoveryAction::Interrupt {
                assert_eq!(state.apply(&end), Ok(TurnState::Interrupted));
            }
        }
    }

    #[test]
    fn illegal_transition_names_state_and_event() {
        let error = TurnState::Failed.apply(&TurnEvent::Asked).expect_err("refused");
        assert_eq!(error.to_string(), "a turn that is failed cannot be asked");
    }
}
