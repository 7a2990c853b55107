//! What is written down: each store's own record, and the index of all of them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fs_err::os::unix::fs::OpenOptionsExt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use turnstone_core::time::EpochMillis;

use super::RootIdentity;
use crate::worktree::RootError;

/// The form of both files; a higher number was written by a later program.
const VERSION: u32 = 1;
/// Nothing we write is larger; whatever is was not written by us.
const MAX_BYTES: u64 = 16 << 20;
pub(super) const RECORD_FILE: &str = "store.json";
pub(super) const INDEX_FILE: &str = "registry.json";
/// What a store is called before it is whole.
pub(super) const TEMP_PREFIX: &str = "tmp-";

/// Why no store was found or made. Nothing was linked to another directory.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The directory is not usable as a root.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The directory lies inside a git directory, of which nothing is ever captured.
    #[error("{0} is inside a git directory")]
    InsideGit(PathBuf),
    /// A record was written by a later version of the program.
    #[error("{path} was written by a newer version of Turnstone (format {version})")]
    TooNew {
        /// The record.
        path: PathBuf,
        /// Its form.
        version: u32,
    },
    /// A store does not say any more whose it is.
    #[error("{path} is not a valid store record")]
    Damaged {
        /// The record.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The data directory cannot be read or written.
    #[error("the registry of snapshot stores could not be read or written")]
    Io(#[from] io::Error),
}

/// Names a store: minted, and so the name of its folder (R46).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StoreId(String);

impl StoreId {
    pub(super) fn generate() -> io::Result<Self> {
        Ok(Self(crate::restore::random_id()?))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StoreId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 24 && text.bytes().all(is_hex) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("{text:?} is not the id of a store")),
        }
    }
}

impl TryFrom<String> for StoreId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreId> for String {
    fn from(id: StoreId) -> Self {
        id.0
    }
}

impl std::fmt::Display for StoreId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a store records about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoreRecord {
    pub(super) version: u32,
    pub(super) id: StoreId,
    pub(super) root: RootIdentity,
    pub(super) made: EpochMillis,
}

impl StoreRecord {
    pub(super) fn new(id: StoreId, root: RootIdentity, made: EpochMillis) -> Self {
        Self { version: VERSION, id, root, made }
    }

    /// Reads the record of the store `id`, which must be the store's own.
    pub(super) fn read(stores: &Path, id: &StoreId) -> Result<Self, RegistryError> {
        let path = stores.join(id.as_str()).join(RECORD_FILE);
        let record: Self = read_json(&path)?;
        if record.id == *id {
            return Ok(record);
        }
        let reason = format!("it is the record of {}", record.id);
        Err(RegistryError::Damaged { path, reason })
    }

    /// Writes the record into `folder`, durably.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        write_json(&folder.join(RECORD_FILE), self)
    }
}

/// The index of all stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RegistryIndex {
    version: u32,
    pub(super) stores: BTreeMap<StoreId, RootIdentity>,
}

impl RegistryIndex {
    /// Reads the index; `None` if it is missing or cannot be read.
    ///
    /// It holds nothing that the stores do not say themselves, so a damaged one is no loss.
    pub(super) fn read(stores: &Path) -> Result<Option<Self>, RegistryError> {
        match read_json(&stores.join(INDEX_FILE)) {
            Ok(index) => Ok(Some(index)),
            Err(RegistryError::Damaged { .. }) => Ok(None),
            Err(RegistryError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn new(stores: BTreeMap<StoreId, RootIdentity>) -> Self {
        Self { version: VERSION, stores }
    }

    pub(super) fn write(&self, stores: &Path) -> io::Result<()> {
        write_json(&stores.join(INDEX_FILE), self)
    }
}

/// Reads one of our files without trusting its content.
fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RegistryError> {
    #[derive(Deserialize)]
    struct RecordVersion {
        version: u32,
    }
    let damaged = |reason: String| RegistryError::Damaged { path: path.to_owned(), reason };
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(damaged("it is too large".to_owned()));
    }
    let form: RecordVersion =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if form.version > VERSION {
        return Err(RegistryError::TooNew { path: path.to_owned(), version: form.version });
    }
    serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
}

/// Writes a file durably, whole or not at all, for its owner only.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a file without a folder"))?;
    let temp = path.with_extension("tmp");
    let mut options = fs_err::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.sync_all()?;
    fs_err::rename(&temp, path)?;
    fs_err::File::open(folder)?.sync_all()
}

/// Makes a folder that is closed to other users.
pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
    fs_err::create_dir_all(path)?;
    if fs_err::metadata(path)?.permissions().mode() & 0o777 != 0o700 {
        fs_err::set_permissions(path, PermissionsExt::from_mode(0o700))?;
    }
    Ok(())
}
