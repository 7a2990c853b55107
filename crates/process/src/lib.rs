//! The only place that starts programs: the supervisor, process groups, terminals, and `git`.
//!
//! A command runs in a session of its own below a supervisor, which is this program started again
//! ([`supervise()`]). The supervisor holds a socket to its owner; when the owner dies in whatever way,
//! it ends everything in that session. A [`GroupId`] finds the same processes again after a crash,
//! and never others.
//!
//! Not covered, because it cannot be or should not: programs that make a session of their own
//! (daemons, `setsid`, terminal multiplexers); programs that another service starts on request
//! (`systemd-run`, containers, `at`); set-uid programs, which may not be signalled; processes stuck
//! in the kernel, which are reported. If owner and supervisor are both killed, the command dies
//! with the supervisor and its group is found by [`GroupId`]; jobs in other groups of the session
//! are then left alone, as nothing proves any more whose they are.
//!
//! Knows no sessions of agents, no database and no HTTP; has no async runtime. Linux only: it reads
//! `/proc`.

mod attend;
mod channel;
mod deadline;
mod error;
mod exit;
mod git;
mod group;
mod keep;
mod launch;
mod output;
mod program;
mod pty;
mod replace;
mod signal;
mod start;
mod stat;
mod supervise;
mod terminal;
mod umask;
mod wire;

pub use attend::{Attend, AttendError, Outcome};
pub use error::{GroupError, StartError};
pub use exit::Exit;
pub use git::{
    Branch, Change, ChangeKind, ChangedFile, Git, GitCancellation, GitEnvironment, GitError,
    GitLimits, GitRepository, NewWorktree, WorktreeRow, end_git_commands, end_git_on_signals,
    git_version,
};
pub use group::{Ended, GroupId};
pub use keep::{Keeper, Kept, KeptText, Limits, Piece, Source};
pub use program::{Environment, Leftover, Program};
pub use pty::{Pty, Size};
pub use replace::replace_process;
pub use signal::Signals;
pub use start::{Control, Prepared, Running, Streams, Supervisor};
pub use supervise::supervise;
pub use terminal::{RawMode, Terminal};
pub use umask::{keep_files_private, with_user_mask};
