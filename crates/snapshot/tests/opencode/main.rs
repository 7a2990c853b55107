//! What OpenCode's own tests ask of snapshots, and what its weaknesses teach, asked of ours.
//!
//! The numbers (8.1.24, W9, S6) are those of `docs/snapshot-parity.md`, which says where each is.

#[cfg(test)]
mod compare;
#[cfg(test)]
mod confine;
#[cfg(test)]
mod index;
#[cfg(test)]
mod revert;
#[cfg(test)]
mod select;
#[cfg(test)]
mod session;
#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
#[path = "../support/mod.rs"]
mod support;
