//! The object store: a bare git repository that plain git can read, written by ourselves.
//!
//! Owns packs, references and temporary files below one directory. Objects are read by gitoxide;
//! packs are written here, one for each capture, durable before anything names them (R9).

mod commit;
mod oid;
mod pack;
mod reference;
mod repository;
mod tree;

pub(crate) use commit::Commit;
pub use oid::{Oid, OidError};
pub(crate) use pack::{LENT_PREFIX, PackFile, Packed, Writer};
pub use repository::ObjectError;
pub(crate) use repository::Repository;
pub use tree::{Leaf, LeafMode};
pub(crate) use tree::{TreeEntry, build, entries, name_tree};
