//! Pin groups: who keeps captures alive.

use std::fmt::Write;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use crate::object::Oid;

/// A pin group: an opaque name, and the reference its captures are chained on (R9).
///
/// The name is never used as a file name; the reference is a slug of it and a hash (R30, R46).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Group {
    name: String,
    reference: String,
}

impl Group {
    /// Names a group; control characters of the name are dropped.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let name: String = name.chars().filter(|it| !it.is_control()).collect();
        let mut reference: String = name
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(40)
            .collect::<String>()
            .to_ascii_lowercase();
        if let Ok(hash) = Oid::of(Kind::Blob, name.as_bytes()) {
            let short = hash.0.iter().take(8);
            reference.push('-');
            // Writing to a string does not fail.
            short.for_each(|byte| write!(reference, "{byte:02x}").unwrap_or_default());
        }
        Self { name, reference }
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn reference(&self) -> &str {
        &self.reference
    }
}

impl From<String> for Group {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

impl From<Group> for String {
    fn from(group: Group) -> Self {
        group.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_reference_is_never_its_name_r46() {
        let hostile = Group::new("../../HEAD\n@{x}.lock");
        let other = Group::new("HEADxlock");

        assert!(hostile.reference().starts_with("headxlock-"));
        assert_ne!(hostile.reference(), other.reference());
        assert_eq!(Group::new("ses_1"), Group::new("ses_1"));
    }
}
