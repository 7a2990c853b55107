//! Paths inside a worktree: bytes, relative, and incapable of leaving it (R16).
//!
//! Owns the lexical half of confinement. The code that opens files must not follow links.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why bytes are not a path inside a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelPathError {
    /// There is no name in it.
    #[error("the path is empty or contains an empty component")]
    Empty,
    /// It starts at the root of the file system.
    #[error("the path is absolute")]
    Absolute,
    /// It has a part `.` or `..`.
    #[error("the path contains `.` or `..`")]
    Dots,
    /// It holds a byte no file name can hold.
    #[error("the path contains a NUL byte")]
    Nul,
    /// It passes through a git directory, which is never captured and never written.
    #[error("the path passes through a git directory")]
    GitDirectory,
}

/// A path below the root of a worktree: one or more names, joined by `/`.
///
/// Any bytes a file system allows, so not always text. Never absolute, never with `..`, never
/// through a `.git`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(Vec<u8>);

impl RelPath {
    /// Checks bytes that came from outside.
    ///
    /// # Errors
    ///
    /// See [`RelPathError`].
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, RelPathError> {
        let bytes = bytes.into();
        if bytes.first() == Some(&b'/') {
            return Err(RelPathError::Absolute);
        }
        for part in bytes.split(|byte| *byte == b'/') {
            check_name(part)?;
        }
        Ok(Self(bytes))
    }

    /// Returns this path and one more name.
    ///
    /// # Errors
    ///
    /// `name` is not one plain name.
    pub fn join(&self, name: &[u8]) -> Result<Self, RelPathError> {
        if name.contains(&b'/') {
            return Err(RelPathError::Empty);
        }
        check_name(name)?;
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(name);
        Ok(Self(bytes))
    }

    /// A name in a folder, both as bytes; the root is the empty folder.
    ///
    /// # Errors
    ///
    /// As [`RelPath::new`].
    pub fn in_folder(folder: &[u8], name: &[u8]) -> Result<Self, RelPathError> {
        match folder.is_empty() {
            true => Self::new(name),
            false => Self::new([folder, b"/", name].concat()),
        }
    }

    /// The path as it is stored in trees and given to the kernel.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The names of the path, outermost first.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// The last name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.split().1
    }

    /// The directory that holds it; nothing if that is the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.split().0.map(|parent| Self(parent.to_vec()))
    }

    /// Every directory above it below the root, innermost first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Tells whether `other` lies below this path.
    #[must_use]
    pub fn is_ancestor_of(&self, other: &Self) -> bool {
        other.0.len() > self.0.len()
            && other.0.starts_with(&self.0)
            && other.0[self.0.len()] == b'/'
    }

    fn split(&self) -> (Option<&[u8]>, &[u8]) {
        match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (Some(&self.0[..at]), &self.0[at + 1..]),
            None => (None, &self.0),
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), RelPathError> {
    match name {
        b"" => Err(RelPathError::Empty),
        b"." | b".." => Err(RelPathError::Dots),
        _ if name.contains(&0) => Err(RelPathError::Nul),
        _ if is_git_directory(name) => Err(RelPathError::GitDirectory),
        _ => Ok(()),
    }
}

/// Tells whether a name is a git directory's, also where the file system ignores case.
#[must_use]
pub fn is_git_directory(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Lets sets of paths be asked about bytes.
impl std::borrow::Borrow<[u8]> for RelPath {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl std::str::FromStr for RelPath {
    type Err = RelPathError;

    fn from_str(text: &str) -> Result<Self, RelPathError> {
        Self::new(text.as_bytes())
    }
}

/// How a path is written down that is not text: byte by byte.
#[derive(Serialize, Deserialize)]
struct EncodedBytes {
    bytes: Vec<u8>,
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => EncodedBytes { bytes: self.0.clone() }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RelPathVisitor)
    }
}

/// Reads both ways of writing a path. An untagged enumeration would read numbers before it knows what they are for.
struct RelPathVisitor;

impl<'de> Visitor<'de> for RelPathVisitor {
    type Value = RelPath;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a path as text, or an object with its `bytes`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RelPath, E> {
        RelPath::new(text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RelPath, A::Error> {
        let read = EncodedBytes::deserialize(MapAccessDeserializer::new(map))?;
        RelPath::new(read.bytes).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R16.
    #[test]
    fn rel_path_rejects_escapes_and_git_directories() {
        let refused = |text: &[u8]| RelPath::new(text).unwrap_err();

        assert_eq!(refused(b""), RelPathError::Empty);
        assert_eq!(refused(b"a//b"), RelPathError::Empty);
        assert_eq!(refused(b"a/"), RelPathError::Empty);
        assert_eq!(refused(b"/etc/passwd"), RelPathError::Absolute);
        assert_eq!(refused(b"a/../../b"), RelPathError::Dots);
        assert_eq!(refused(b"./a"), RelPathError::Dots);
        assert_eq!(refused(b"a\0b"), RelPathError::Nul);
        assert_eq!(refused(b".git/config"), RelPathError::GitDirectory);
        assert_eq!(refused(b"sub/.GIT"), RelPathError::GitDirectory);
        for kept in [&b".gitignore"[..], b":src", b"-x", b"a\tb\n\"", b"\xff\xfe", b"...", b"a b"] {
            assert_eq!(RelPath::new(kept).unwrap().as_bytes(), kept);
        }
    }

    #[test]
    fn non_utf8_paths_round_trip() {
        for bytes in [&b"a/\xff"[..], "文件.txt".as_bytes(), b"q\"\n"] {
            let path = RelPath::new(bytes).unwrap();
            let text = serde_json::to_string(&path).unwrap();
            assert_eq!(serde_json::from_str::<RelPath>(&text).unwrap(), path);
        }
        assert!(serde_json::from_str::<RelPath>("\"../x\"").is_err());
    }

    #[test]
    fn directory_is_ancestor_of_its_files_only() {
        let path = |text: &str| text.parse::<RelPath>().unwrap();

        assert!(path("a").is_ancestor_of(&path("a/b")));
        assert!(!path("a").is_ancestor_of(&path("ab")));
        assert!(!path("a").is_ancestor_of(&path("a")));
        let above: Vec<_> = path("a/b/c").ancestors().collect();
        assert_eq!(above, [path("a/b"), path("a")]);
    }
}
