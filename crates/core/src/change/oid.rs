//! Names of objects: the SHA-1 that git gives to the same content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The name of a blob, a tree or a commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(pub [u8; 20]);

/// Text that is not the name of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an object name: 40 hexadecimal digits are expected")]
pub struct OidError(String);

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        let wrong = || OidError(text.to_owned());
        let digits: Option<Vec<u8>> =
            text.bytes().map(|byte| char::from(byte).to_digit(16).map(|it| it as u8)).collect();
        let digits = digits.filter(|digits| digits.len() == 40).ok_or_else(wrong)?;
        let mut bytes = [0; 20];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Oid {
    type Error = OidError;

    fn try_from(text: String) -> Result<Self, OidError> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.to_string()
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}
