//! The only place that starts programs: the supervisor, process groups, terminals, the pager, and `git`.
//!
//! A command runs in a session of its own below a supervisor, which is this program started again
//! ([`run_supervisor`]). The supervisor holds a socket to its owner; when the owner dies in whatever way,
//! it ends everything in that session. A [`ProcessGroupId`] finds the same processes again after a crash,
//! and never others.
//!
//! A command can be traced ([`TraceOptions`]): what it and its children write is recorded by the crate
//! `trace`, whose processes are forked by the supervisor before it does anything else.
//!
//! Not covered, because it cannot be or should not: programs that make a session of their own
//! (daemons, `setsid`, terminal multiplexers); programs that another service starts on request
//! (`systemd-run`, containers, `at`); set-uid programs, which may not be signalled; processes stuck
//! in the kernel, which are reported. If owner and supervisor are both killed, the command dies
//! with the supervisor and its group is found by [`ProcessGroupId`]; jobs in other groups of the session
//! are then left alone, as nothing proves any more whose they are.
//!
//! Knows no sessions of agents, no database and no HTTP; has no async runtime. Linux only: it reads
//! `/proc`.

mod ancestry;
mod attach;
mod channel;
mod command_lookup;
mod command_spec;
mod deadline;
mod error;
mod exit;
mod git;
mod launcher;
mod launcher_start;
mod live_output;
mod multiplexer;
mod output_recorder;
mod pager;
mod proc_stat;
mod process_group;
mod protocol;
mod pty;
mod replace_process;
mod signal;
mod supervisor;
mod supervisor_client;
mod terminal;
mod trace_outcome;
mod umask;

pub use ancestry::is_below_supervisor;
pub use attach::{AttachError, AttachOptions, AttachOutcome};
pub use command_spec::{CommandEnvironment, CommandSpec, OrphanPolicy};
pub use error::{ProcessGroupError, StartError};
pub use exit::{CommandExit, signal_name};
pub use git::{
    ChangeKind, ChangedFile, Git, GitCancellation, GitEnvironment, GitError, GitHistory, GitLimits,
    GitRepository, GitStatusEntry, GitWorktreeRequest, GitWorktreeRow, GitWorktrees,
    WorktreeCheckout, end_git_commands, end_git_on_signals, git_version,
};
pub use live_output::LiveOutput;
pub use output_recorder::{
    OutputBytes, OutputLimits, OutputRecorder, OutputSource, OutputText, RecordedOutput,
};
pub use pager::Pager;
pub use process_group::{GroupEndOutcome, ProcessGroupId};
pub use pty::{Pty, TerminalSize};
pub use replace_process::replace_process;
pub use signal::ForegroundSignals;
pub use supervisor::run_supervisor;
pub use supervisor_client::{
    CommandControl, CommandStdio, PreparedCommand, RunningCommand, SupervisorProgram,
};
pub use terminal::{RawMode, StdioTerminal};
pub use trace_outcome::{TraceOptions, TraceOutcome};
pub use turnstone_trace as trace;
pub use umask::{keep_files_private, with_user_mask};
