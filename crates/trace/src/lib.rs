//! Exact attribution of writes: which paths a tree of processes opened for writing, renamed, linked or
//! removed, recorded without privileges by seccomp user notification.
//!
//! A **launcher** installs a filter on itself ([`install_trace_filter`]) and becomes the command. The
//! kernel stops each call of its tree that could change a file and reports it to a **listener**. Two
//! small processes, the **holders** ([`TraceHolders`]), record the call in a log and let it go on: the tracer
//! observes and never decides. They outlive the supervisor, because a tree without an answer can never
//! write again. [`TraceLog`] reads the log, while it is written or afterwards.
//!
//! Linux only. Knows no sessions and no captures, and starts no programs. Unsafe code is allowed in
//! `kernel` alone, which has its own review notes.

mod call;
mod filter;
mod holder;
mod install;
mod kernel;
mod log;
mod resolve;
mod unavailable;

pub use holder::{TraceHolders, fork_holders};
pub use install::{ListenerOffer, install_trace_filter};
pub use log::{
    RemainingProcess, Touch, TouchKind, TouchParent, TouchTarget, TraceGap, TraceGapReason,
    TraceLog, TraceLogError,
};
pub use unavailable::TraceUnavailable;
