//! Trust: a repository is not trusted by being opened. What a file of a project may set before the user
//! trusts it, and which files the user trusts.

mod restriction;
mod trusted_files;

pub(crate) use restriction::restrict_settings;
pub use restriction::{RestrictedKey, RestrictionReason};
pub use trusted_files::{TrustError, TrustedFile, TrustedFiles};
