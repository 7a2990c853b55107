//! The published form of a state machine: a table computed by running it.
//!
//! Owns the row and its Markdown. The columns about states are asked of the machine itself, for
//! every state and every event, so the table cannot drift from the code.

use std::fmt::Write as _;

/// One event of a machine and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransitionRow {
    /// The event.
    pub event: String,
    /// The states it moves on from; computed.
    pub from: Vec<&'static str>,
    /// The state it leads to; computed.
    pub to: &'static str,
    /// The states that refuse it; computed.
    pub refused: Vec<&'static str>,
    /// The rows a store writes with it, in one transaction.
    pub writes: &'static str,
    /// What the same event does when it comes again; computed.
    pub repeat: RepeatEffect,
}

/// What an event does when it comes a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatEffect {
    /// Nothing: it is a retry.
    NoChange,
    /// It is refused.
    Refused,
    /// It moves the machine again.
    Moves,
}

impl RepeatEffect {
    /// Display names of the states.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoChange => "changes nothing",
            Self::Refused => "refused",
            Self::Moves => "moves again",
        }
    }
}

/// Writes a table as Markdown.
#[must_use]
pub fn render_markdown(rows: &[TransitionRow]) -> String {
    let mut text = String::from(
        "| Event | Allowed from | To | Refused in | Rows written | The same again |\n\
         |---|---|---|---|---|---|\n",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let written = writeln!(
            text,
            "| `{}` | {} | `{}` | {} | {} | {} |",
            row.event,
            join_states(&row.from),
            row.to,
            join_states(&row.refused),
            row.writes,
            row.repeat.as_str()
        );
        debug_assert!(written.is_ok());
    }
    text
}

fn join_states(states: &[&str]) -> String {
    if states.is_empty() {
        return "–".to_owned();
    }
    states.iter().map(|state| format!("`{state}`")).collect::<Vec<_>>().join(", ")
}
