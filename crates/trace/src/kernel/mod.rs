//! The system calls without a safe wrapper. All unsafe code of this crate is here.
//!
//! Review notes:
//!
//! - [`listener`]: `seccomp(2)` and four ioctls of its listener. The kernel reads and writes only the
//!   structures given; the receive buffer is larger than the kernel's structure, which is checked
//!   before the first use.
//! - [`shared_state`]: one anonymous shared mapping, never unmapped, accessed only as atomics.
//! - [`forked_role`]: `fork(2)`, allowed only while the process has one thread, which is checked; and what a
//!   forked process that never returns does with inherited descriptors and signals.
//!
//! Nothing here knows what is traced.

pub(crate) mod forked_role;
pub(crate) mod listener;
pub(crate) mod shared_state;
