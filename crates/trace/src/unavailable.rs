//! Why a command runs without a trace.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a command runs without a trace. It runs all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceUnavailable {
    /// The command runs inside of a tree that is traced already, by us or by a sandbox.
    NestedListener,
    /// The kernel lacks seccomp user notification as Linux 5.9 has it.
    KernelTooOld,
    /// A sandbox or a policy of the system refuses it.
    RefusedByPolicy,
    /// The memory of the command may not be read (`kernel.yama.ptrace_scope`).
    MemoryNotReadable,
    /// This architecture has no table of system calls here.
    Architecture,
    /// The log could not be created, or a process could not be started.
    Failed(String),
}

impl fmt::Display for TraceUnavailable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::NestedListener => "another program already traces this process and its children",
            Self::KernelTooOld => "the kernel cannot do it; Linux 5.9 or later can",
            Self::RefusedByPolicy => "a sandbox or a security policy refuses it",
            Self::MemoryNotReadable => {
                "the system forbids reading the command's memory (kernel.yama.ptrace_scope)"
            }
            Self::Architecture => "this processor architecture is not supported",
            Self::Failed(reason) => return write!(formatter, "it could not be set up: {reason}"),
        };
        formatter.write_str(text)
    }
}
