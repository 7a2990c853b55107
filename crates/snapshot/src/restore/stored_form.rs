//! How plans are stored: the form that data directories hold, whatever the types in memory are.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes as they are stored: base64 text. Until version 3 of the protocol they were an array of numbers,
/// which is still read.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredBytes {
    Text(String),
    Numbers(Vec<u8>),
}

impl StoredBytes {
    fn decode(self) -> Result<Vec<u8>, base64::DecodeError> {
        match self {
            Self::Text(text) => BASE64_STANDARD.decode(text),
            Self::Numbers(bytes) => Ok(bytes),
        }
    }
}

/// The bytes of merges: a list of base64 texts.
pub(super) mod merged_bytes {
    use super::*;

    pub(in crate::restore) fn serialize<S: Serializer>(
        merges: &[Vec<u8>],
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.collect_seq(merges.iter().map(|bytes| BASE64_STANDARD.encode(bytes)))
    }

    pub(in crate::restore) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Vec<u8>>, D::Error> {
        let stored = Vec::<StoredBytes>::deserialize(from)?;
        stored.into_iter().map(|bytes| bytes.decode().map_err(D::Error::custom)).collect()
    }
}

/// The bytes of one file, or none.
pub(super) mod optional_bytes {
    use super::*;

    pub(in crate::restore) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)).serialize(out)
    }

    pub(in crate::restore) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        let stored = Option::<StoredBytes>::deserialize(from)?;
        stored.map(|bytes| bytes.decode().map_err(D::Error::custom)).transpose()
    }
}

/// The image of a step: `"absent"`, `{"present": {"leaf": …, "perm": …}}` or
/// `{"directory": {"perm": …}}`. A step has no other.
pub(super) mod step_image {
    use turnstone_core::change::{PathImage, TreeLeaf};

    use super::*;

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum StoredStepImage {
        Absent,
        Present { leaf: TreeLeaf, perm: u32 },
        Directory { perm: u32 },
    }

    pub(in crate::restore) fn serialize<S: Serializer>(
        image: &PathImage,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        match *image {
            PathImage::Absent => StoredStepImage::Absent.serialize(out),
            PathImage::Present { leaf, perm } => {
                StoredStepImage::Present { leaf, perm }.serialize(out)
            }
            PathImage::Directory { perm } => StoredStepImage::Directory { perm }.serialize(out),
            PathImage::Uncovered { .. } => Err(S::Error::custom("a step of an uncovered path")),
        }
    }

    pub(in crate::restore) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<PathImage, D::Error> {
        Ok(match StoredStepImage::deserialize(from)? {
            StoredStepImage::Absent => PathImage::Absent,
            StoredStepImage::Present { leaf, perm } => PathImage::Present { leaf, perm },
            StoredStepImage::Directory { perm } => PathImage::Directory { perm },
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::restore::{ConditionalWrite, RestorePlan};

    /// A plan with merged bytes as commit b813feb stored it.
    const OLD_PLAN: &str = r#"{"steps":[
        {"path":"merged","expected":{"present":{"leaf":{"blob":
        "3e757656cf36eca53338e520d134963a44f793f8","mode":"file"},"perm":420}},
        "target":{"present":{"leaf":{"blob":"f719efd430d52bcfc8566a43b2eb655688d38871",
        "mode":"file"},"perm":420}},"merged":true},
        {"path":"gone","expected":{"present":{"leaf":{"blob":
        "3e757656cf36eca53338e520d134963a44f793f8","mode":"exec"},"perm":493}},
        "target":"absent","merged":false}],
        "conflicts":[],"unchanged":[],"not_covered":[],"merges":[[111,110,101,10]]}"#;

    /// Proves R17.
    #[test]
    fn plans_store_merged_bytes_as_text_and_read_the_older_form() {
        let plan: RestorePlan = serde_json::from_str(OLD_PLAN).unwrap();
        assert_eq!(plan.merges, [b"one\n"]);

        let text = serde_json::to_string(&plan).unwrap();

        assert!(text.contains(r#""merges":["b25lCg=="]"#), "{text}");
        assert!(text.contains(r#""target":"absent""#), "the rest keeps its form: {text}");
        assert_eq!(serde_json::from_str::<RestorePlan>(&text).unwrap(), plan);
        let damaged = text.replace("b25lCg==", "b25lCg");
        assert!(serde_json::from_str::<RestorePlan>(&damaged).is_err());
    }

    #[test]
    fn written_bytes_are_sent_as_text() {
        let expected = turnstone_core::change::PathImage::Absent;
        let path = "f".parse().unwrap();
        let write = ConditionalWrite { path, expected, bytes: Some(b"one\n".to_vec()) };
        let text = serde_json::to_string(&write).unwrap();
        assert!(text.contains(r#""bytes":"b25lCg==""#), "{text}");
        assert_eq!(serde_json::from_str::<ConditionalWrite>(&text).unwrap(), write);
    }
}
