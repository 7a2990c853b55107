//! The picture: what the last capture of the whole worktree saw, folder by folder, in memory.
//!
//! It makes a capture cost what changed: a folder nobody touched keeps its tree, and coverage that did
//! not change keeps its commit. It owns no file but the stat cache, and it proves nothing by itself:
//! a walk or the journal says what to look at.

mod absorb;
mod cover;
mod node;
mod tally;
mod tree;

pub(crate) use absorb::Absorbed;
pub(crate) use node::{Item, Node, Picture, Place, join, split};
