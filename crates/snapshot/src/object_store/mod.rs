//! The object store: a bare git repository that plain git can read, written by ourselves.
//!
//! Owns packs, references and temporary files below one directory. Objects are read by gitoxide;
//! packs are written here, one for each capture, durable before anything names them (R9).

mod commit;
mod delta;
mod oid;
mod pack_file;
mod pack_rebuild;
mod pack_writer;
mod ref_lock;
mod refs;
mod repository;
mod tree;

pub(crate) use commit::Commit;
pub use oid::{Oid, OidError};
pub(crate) use oid::{from_gix, hash_object, to_gix};
pub(crate) use pack_file::{OpenPack, PackEntry, PackFile, PackOwner};
pub(crate) use pack_rebuild::{DeltaSortKey, PackRebuild};
pub(crate) use pack_writer::{
    BORROWED_PREFIX, ObjectEncoding, PackWriter, PackedObject, random_hex,
};
pub use repository::ObjectError;
pub(crate) use repository::{ObjectRepository, loose_bytes, pack_bytes};
pub(crate) use tree::{TreeEntry, build_trees, hash_tree, parse_tree};
pub use turnstone_core::change::{FileMode, TreeLeaf};
