//! Paths of the file system, written down: as text where they are text, else byte by byte.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SerializedPath {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl From<&Path> for SerializedPath {
    fn from(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes { bytes: path.as_os_str().as_bytes().to_vec() },
        }
    }
}

impl From<SerializedPath> for PathBuf {
    fn from(written: SerializedPath) -> Self {
        match written {
            SerializedPath::Text(text) => Self::from(text),
            SerializedPath::Bytes { bytes } => Self::from(OsString::from_vec(bytes)),
        }
    }
}

pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    SerializedPath::from(path).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Ok(SerializedPath::deserialize(from)?.into())
}

/// The stored form of a path that may be missing.
pub(super) mod optional {
    use super::{Deserialize, Deserializer, PathBuf, Serialize, SerializedPath, Serializer};

    pub(in crate::registry) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(SerializedPath::from).serialize(serializer)
    }

    pub(in crate::registry) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<SerializedPath>::deserialize(from)?.map(PathBuf::from))
    }
}
