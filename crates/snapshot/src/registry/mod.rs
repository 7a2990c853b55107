//! The registry: which store belongs to which directory, also when the directory has moved (R12).
//!
//! Owns `store/` of the data directory. Every store says in its own `store.json` whose it is; the
//! registry file is an index of these, made anew whenever it does not agree with them.

mod facts;
mod file;
mod find;
mod table;
mod written;

pub use facts::RootFacts;
pub use file::{RegistryError, StoreId};
pub(crate) use file::{private_folder, write_json};
pub use table::{Link, ListedStore, Place, Registry};
