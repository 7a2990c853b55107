//! Pin groups: who keeps captures alive.

use std::fmt::Write;

use gix::objs::Kind;
use serde::{Deserialize, Serialize};

use crate::object_store::hash_object;

/// A pin group: an opaque name, and the reference its captures are chained on (R9).
///
/// The name is never used as a file name; the reference is a slug of it and a hash (R30, R46).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct PinGroup {
    name: String,
    reference: String,
}

impl PinGroup {
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
        if let Ok(hash) = hash_object(Kind::Blob, name.as_bytes()) {
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

impl From<String> for PinGroup {
    fn from(name: String) -> Self {
        Self::new(&name)
    }
}

impl From<PinGroup> for String {
    fn from(group: PinGroup) -> Self {
        group.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Proves R46.
    #[test]
    fn pin_group_reference_is_a_slug_never_the_raw_name() {
        let hostile = PinGroup::new("../../HEAD\n@{x}.lock");
        let other = PinGroup::new("HEADxlock");

        assert!(hostile.reference().starts_with("headxlock-"));
        assert_ne!(hostile.reference(), other.reference());
        assert_eq!(PinGroup::new("ses_1"), PinGroup::new("ses_1"));
    }
}
