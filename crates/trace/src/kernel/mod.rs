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
//! - Miri passes on 34 tests of this crate. It knows neither `seccomp`, shared mappings, `process_vm_readv` nor `O_PATH`,
//!   so this module itself is out of its reach. Its one complaint, about `start_message_arrives_with_its_descriptors`,
//!   is about how rustix writes a control message (an experimental rule).
//! - The decoding of logs and notifications, which unsafe code does not touch, is fuzzed with AddressSanitizer:
//!   `cargo +nightly fuzz run log` and `notification` in `fuzz`.
//!
//! Nothing here knows what is traced.

pub(crate) mod forked_role;
pub(crate) mod listener;
pub(crate) mod shared_state;
