//! The registry: which store belongs to which directory, also when the directory has moved (R12).
//!
//! Owns `store/` of the data directory. Every store says in its own `store.json` whose it is; the
//! registry file is an index of these, rebuilt whenever it does not agree with them.

mod path_serde;
mod root_identity;
mod root_resolution;
mod store_lookup;
mod store_record;
mod store_registry;

pub use root_identity::{RootIdentity, read_directory_identity};
pub use store_record::{RegistryError, StoreId};
pub(crate) use store_record::{create_private_dir, write_json};
pub use store_registry::{ListedStore, StoreLinkage, StoreLocation, StoreRegistry};
