//! The files of projects that the user trusts: path and hash, in the data directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::private_file;
use crate::source::read_text_file;

/// The name of the file below the data directory.
const FILE_NAME: &str = "trust.json";

/// The record of trust cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the record of trusted files {}: {reason}", path.display())]
pub struct TrustError {
    /// The record.
    pub path: PathBuf,
    /// What failed.
    pub action: &'static str,
    /// Why.
    pub reason: String,
}

/// A file that the user trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedFile {
    /// The file.
    pub path: PathBuf,
    /// True if it still is what was trusted.
    pub is_current: bool,
}

/// All files that the user trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedFiles {
    hashes: BTreeMap<PathBuf, String>,
}

/// The record as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredTrust {
    version: u32,
    files: Vec<StoredTrustedFile>,
}

#[derive(Serialize, Deserialize)]
struct StoredTrustedFile {
    path: PathBuf,
    blake3: String,
}

impl TrustedFiles {
    /// Reads the record; empty if there is none.
    ///
    /// # Errors
    ///
    /// The record cannot be read or is damaged: it is never taken for an empty one.
    pub fn read(data: &Path) -> Result<Self, TrustError> {
        let path = data.join(FILE_NAME);
        let failed = |reason: String| TrustError { path: path.clone(), action: "read", reason };
        let Some(text) = read_text_file(&path).map_err(|error| failed(error.message))? else {
            return Ok(Self::default());
        };
        let stored: StoredTrust =
            serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if stored.version != 1 {
            return Err(failed(format!("version {} is not known", stored.version)));
        }
        let hashes = stored.files.into_iter().map(|file| (file.path, file.blake3)).collect();
        Ok(Self { hashes })
    }

    /// Writes the record, readable by its owner only.
    ///
    /// # Errors
    ///
    /// The record cannot be written; the old one is unchanged then.
    pub fn write(&self, data: &Path) -> Result<(), TrustError> {
        let path = data.join(FILE_NAME);
        let entry = |(path, blake3): (&PathBuf, &String)| StoredTrustedFile {
            path: path.clone(),
            blake3: blake3.clone(),
        };
        let stored = StoredTrust { version: 1, files: self.hashes.iter().map(entry).collect() };
        let failed = |reason: String| TrustError { path: path.clone(), action: "write", reason };
        let text = serde_json::to_string_pretty(&stored).map_err(|e| failed(e.to_string()))?;
        private_file::write_private_file(&path, |file| writeln!(file, "{text}"))
            .map_err(|error| failed(error.to_string()))
    }

    /// True if the user trusts a file with exactly this text.
    #[must_use]
    pub fn is_trusted(&self, path: &Path, text: &str) -> bool {
        self.hashes.get(path).is_some_and(|hash| *hash == hash_of(text))
    }

    /// Trusts a file with this text.
    pub fn add(&mut self, path: &Path, text: &str) {
        self.hashes.insert(path.to_owned(), hash_of(text));
    }

    /// Removes the trust in all files below a directory; returns them.
    pub fn remove_below(&mut self, directory: &Path) -> Vec<PathBuf> {
        let below = |path: &&PathBuf| path.starts_with(directory);
        let removed: Vec<PathBuf> = self.hashes.keys().filter(below).cloned().collect();
        for path in &removed {
            self.hashes.remove(path);
        }
        removed
    }

    /// Returns every trusted file, by path.
    #[must_use]
    pub fn list(&self) -> Vec<TrustedFile> {
        let entry = |path: &PathBuf| {
            let text = read_text_file(path).ok().flatten();
            let is_current = text.is_some_and(|text| self.is_trusted(path, &text));
            TrustedFile { path: path.clone(), is_current }
        };
        self.hashes.keys().map(entry).collect()
    }
}

fn hash_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn trust_is_bound_to_path_and_content_and_survives_a_restart() {
        let data = tempfile::tempdir().expect("a directory");
        let (file, text) = (Path::new("/p/opencode.json"), "{\"shell\": \"x\"}");
        let mut trusted = TrustedFiles::read(data.path()).expect("none yet");
        assert!(!trusted.is_trusted(file, text));
        trusted.add(file, text);
        trusted.write(data.path()).expect("written");
        let mut trusted = TrustedFiles::read(data.path()).expect("read");
        assert!(trusted.is_trusted(file, text));
        assert!(!trusted.is_trusted(file, "{\"shell\": \"y\"}"), "a change ends the trust");
        assert!(!trusted.is_trusted(Path::new("/q/opencode.json"), text), "a copy is not trusted");
        let mode = fs_err::metadata(data.path().join(FILE_NAME)).expect("there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(trusted.remove_below(Path::new("/p")), [file]);
        assert!(!trusted.is_trusted(file, text));
    }

    #[test]
    fn damaged_record_is_an_error() {
        let data = tempfile::tempdir().expect("a directory");
        for text in ["", "{", "{\"version\": 2, \"files\": []}"] {
            fs_err::write(data.path().join(FILE_NAME), text).expect("written");
            assert!(TrustedFiles::read(data.path()).is_err(), "{text:?}");
        }
    }
}
