//! How a command ended, and the exit code that says so.

use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandExit {
    /// It ended by itself with this code.
    Code(i32),
    /// A signal ended it.
    Signal(i32),
}

impl CommandExit {
    /// The exit code of a program that represents the command: its own, or 128 + the signal (R33).
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    /// Whether the command ended by itself with code 0.
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}
