//! Ids of a source as ids of ours (R30), and the order OpenCode's ids were made in.
//!
//! An id that fits is kept. One that does not is replaced by an id made from a hash of it: the same
//! every time, so that a repeated import meets what it wrote before and every reference to the thing
//! can be replaced without a table.

use turnstone_core::id::{MessageId, PartId, ProjectId, SessionId, WorkspaceId};

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The time field of an id counts modulo this: 48 bits of `ms * 4096 + counter`.
const TIME_FIELD_PERIOD: i128 = 1 << 48;
/// Characters of an id after its prefix and underscore.
const ID_BODY_LEN: usize = 26;

/// An id of ours for a thing of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedId<T> {
    /// The id here.
    pub(crate) id: T,
    /// The id there, if it could not be kept.
    pub(crate) source_id: Option<String>,
}

/// An id type that knows how to take in foreign ids.
pub(crate) trait ForeignId: TryFrom<String> {
    /// The letters its ids begin with; empty for projects, which have none.
    const ID_PREFIX: &'static str;
}

impl ForeignId for SessionId {
    const ID_PREFIX: &'static str = Self::PREFIX;
}
impl ForeignId for MessageId {
    const ID_PREFIX: &'static str = Self::PREFIX;
}
impl ForeignId for PartId {
    const ID_PREFIX: &'static str = Self::PREFIX;
}
impl ForeignId for WorkspaceId {
    const ID_PREFIX: &'static str = Self::PREFIX;
}
impl ForeignId for ProjectId {
    const ID_PREFIX: &'static str = "";
}

/// Returns the id of ours for the source's `text`; nothing for an empty one.
pub(crate) fn map_foreign_id<T: ForeignId>(text: &str) -> Option<MappedId<T>> {
    if text.is_empty() {
        return None;
    }
    if let Ok(id) = T::try_from(text.to_owned()) {
        return Some(MappedId { id, source_id: None });
    }
    let id = T::try_from(derive_id(T::ID_PREFIX, text)).ok()?;
    Some(MappedId { id, source_id: Some(text.to_owned()) })
}

/// An id in OpenCode's form, made from nothing but `source`.
fn derive_id(letters: &str, source: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"turnstone import 1\0");
    hasher.update(letters.as_bytes());
    hasher.update(b"\0");
    hasher.update(source.as_bytes());
    let hash = hasher.finalize();
    if letters.is_empty() {
        return hash.to_hex()[..40].to_owned();
    }
    let (time, random) = hash.as_bytes().split_at(6);
    let mut text = format!("{letters}_");
    text.extend(time.iter().map(|byte| format!("{byte:02x}")));
    text.extend(random.iter().take(14).map(|b| char::from(ALPHABET[usize::from(*b) % 62])));
    text
}

/// Where a part stands among the parts of its message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartSortKey(i128, String);

/// Returns the place of a part among those of a message that was made at `message` (ms).
///
/// OpenCode shows the parts of a message by id. The time field of its ids began again at zero on
/// 2026-08-14, so across that moment the order of ids is wrong (W19). Here the field is read as the
/// moment closest to the message's own time, which gives the order of ids on either side of the wrap
/// and the right order across it. An id of another form is placed by the row's time, `row` (ms).
pub(crate) fn part_sort_key(id: &str, message: i64, row: Option<i64>) -> PartSortKey {
    let near = i128::from(message) * 4096;
    let fallback = || row.map_or(near, |ms| i128::from(ms) * 4096);
    PartSortKey(unwrap_time_field(id, near).unwrap_or_else(fallback), id.to_owned())
}

/// The time field of an ascending id as the moment closest to `near`.
fn unwrap_time_field(id: &str, near: i128) -> Option<i128> {
    let (_, body) = id.split_once('_')?;
    if body.len() != ID_BODY_LEN || !body.is_ascii() {
        return None;
    }
    let field = i128::from(u64::from_str_radix(&body[..12], 16).ok()?);
    let turns = (near - field + TIME_FIELD_PERIOD / 2).div_euclid(TIME_FIELD_PERIOD);
    Some(field + turns * TIME_FIELD_PERIOD)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-08-14 11:19:55.136Z, when the time field wrapped.
    const WRAP: i64 = 1_786_706_395_136;

    #[test]
    fn valid_id_is_kept_and_invalid_id_maps_deterministically() {
        let kept = map_foreign_id::<SessionId>("ses_abc").expect("fits");
        assert_eq!((kept.id.as_str(), kept.source_id), ("ses_abc", None));
        let once = map_foreign_id::<SessionId>("../../etc/passwd").expect("minted");
        let again = map_foreign_id::<SessionId>("../../etc/passwd").expect("minted");
        assert_eq!(once, again);
        assert_eq!(once.source_id.as_deref(), Some("../../etc/passwd"));
        assert_eq!(once.id.as_str().len(), 30);
        assert_ne!(once.id, map_foreign_id::<SessionId>("../../etc/shadow").expect("minted").id);
        assert_eq!(
            map_foreign_id::<ProjectId>("/home/user").expect("minted").id.as_str().len(),
            40
        );
        assert!(map_foreign_id::<PartId>("").is_none());
    }

    #[test]
    fn parts_keep_the_order_of_their_ids() {
        let early = part_sort_key("prt_1debbe39e001KuWRUpjig6iLZq", 1_794_738_217_000, None);
        let late = part_sort_key("prt_1debbe39e0029bCv1IVlYus8ek", 1_794_738_217_000, None);
        assert!(early < late);
    }

    #[test]
    fn parts_created_across_the_id_wrap_keep_creation_order() {
        let before =
            format!("prt_{:012x}AAAAAAAAAAAAAA", ((WRAP - 5) as u64 * 4096) & ((1 << 48) - 1));
        let after =
            format!("prt_{:012x}AAAAAAAAAAAAAA", ((WRAP + 5) as u64 * 4096) & ((1 << 48) - 1));
        assert!(after < before, "by id alone the order is wrong");
        for message in [WRAP - 9, WRAP, WRAP + 3] {
            assert!(part_sort_key(&before, message, None) < part_sort_key(&after, message, None));
        }
    }

    #[test]
    fn part_with_foreign_id_is_ordered_by_row_time() {
        let own = part_sort_key("prt_1debbe39e001KuWRUpjig6iLZq", 1_794_738_217_000, None);
        let earlier = part_sort_key("odd", 1_794_738_217_000, Some(1_700_000_000_000));
        let later = part_sort_key("odd", 1_794_738_217_000, Some(1_900_000_000_000));
        assert!(earlier < own && own < later);
    }
}
