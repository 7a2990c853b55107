//! What every stored value has: a version, and room for fields of other versions.

/// Fields this version does not know; kept and written back as they were.
pub type ExtraFields = serde_json::Map<String, serde_json::Value>;

/// The version of the stored payloads written by this program.
pub const SCHEMA_VERSION: u16 = 1;
