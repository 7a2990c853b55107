//! What OpenCode's own tests ask of snapshots, and what its weaknesses teach, asked of ours.
//!
//! The numbers (8.1.24, W43, S6) are those of `docs/snapshot-parity.md`, which says where each is.

#[cfg(test)]
mod diff_parity;
#[cfg(test)]
mod file_selection;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod parity_table;
#[cfg(test)]
mod path_confinement;
#[cfg(test)]
mod revert_parity;
#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
#[path = "../support/mod.rs"]
mod support;
