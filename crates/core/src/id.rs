//! Identifiers in OpenCode's format: parsed once on input, opaque afterwards.
//!
//! An id names a thing and never orders anything: the 48-bit time field wraps every 2^36 ms (last on
//! 2026-08-14), so newer ids may sort before older ones. Order is a matter of sequence numbers.

use serde::{Deserialize, Serialize};

use crate::time::EpochMillis;

/// Longest accepted body of an id, R30.
const MAX_BODY: usize = 64;
/// Longest accepted project id; OpenCode uses commit hashes, fast hashes and the word `global`.
const MAX_PROJECT: usize = 128;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const TIME_MASK: u64 = (1 << 48) - 1;

/// Why a text is not an id of the wanted kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {kind} id")]
pub struct IdError {
    /// Name of the expected kind.
    pub kind: &'static str,
    /// The invalid text, truncated.
    pub text: String,
}

impl IdError {
    fn new(kind: &'static str, text: &str) -> Self {
        Self { kind, text: text.chars().take(80).collect() }
    }
}

fn is_id_body(body: &str) -> bool {
    (1..=MAX_BODY).contains(&body.len())
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Accepts `prefix_body` and the legacy `prefixbody`.
fn accepts(prefix: &str, text: &str) -> bool {
    text.strip_prefix(prefix).is_some_and(|rest| is_id_body(rest.strip_prefix('_').unwrap_or(rest)))
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident $prefix:literal $kind:literal $order:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The letters every id of this kind begins with.
            pub const PREFIX: &'static str = $prefix;

            /// Mints an id from a tick of the caller's [`IdClock`] and 14 random bytes.
            #[must_use]
            pub fn mint(tick: IdTimestamp, random: [u8; 14]) -> Self {
                Self(mint($prefix, IdOrder::$order, tick, random))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                if accepts($prefix, &text) { Ok(Self(text)) } else { Err(IdError::new($kind, &text)) }
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

ids! {
    /// Identifies one session; minted descending, as OpenCode's clients expect.
    SessionId "ses" "session" Descending;
    /// Identifies one message.
    MessageId "msg" "message" Ascending;
    /// Identifies one part of a message.
    PartId "prt" "part" Ascending;
    /// Identifies one permission request.
    PermissionId "per" "permission request" Ascending;
    /// Identifies one question.
    QuestionId "que" "question" Ascending;
    /// Identifies one event on the wire.
    EventId "evt" "event" Ascending;
    /// Identifies one turn.
    TurnId "trn" "turn" Ascending;
    /// Identifies one change set: what one call of a tool did to files.
    ChangeId "chg" "change set" Ascending;
    /// Identifies one operation: an undo, a redo, a jump, a checkpoint.
    OperationId "opn" "operation" Ascending;
    /// Identifies one terminal of the server.
    PtyId "pty" "terminal" Ascending;
    /// Identifies one workspace of a project.
    WorkspaceId "wrk" "workspace" Ascending;
}

impl MessageId {
    /// Mints an id that sorts after `newest`: by its moment, or right behind it if the clock or the
    /// wrap of the time field would put it before. Clients find messages by binary search.
    #[must_use]
    pub fn mint_after(newest: Option<&Self>, tick: IdTimestamp, random: [u8; 14]) -> Self {
        let minted = Self::mint(tick, random);
        match newest {
            Some(newest) if minted <= *newest => Self(next_sorting_id(&newest.0, &minted.0)),
            _ => minted,
        }
    }
}

/// The text of an id that sorts right behind `newest`, with the random letters of `minted`.
fn next_sorting_id(newest: &str, minted: &str) -> String {
    let random = &minted[minted.len() - 14..];
    let field = newest.get(4..16).filter(|field| !field.bytes().any(|b| b.is_ascii_uppercase()));
    let value = field.and_then(|field| u64::from_str_radix(field, 16).ok());
    if let Some(value) = value.filter(|value| *value < TIME_MASK) {
        return format!("msg_{:012x}{random}", value + 1);
    }
    // Not in our format, created by a client: increment the last letter.
    let mut text = newest.as_bytes().to_vec();
    for at in (4..text.len()).rev() {
        if let Some(next) = ALPHABET.iter().find(|letter| **letter > text[at]) {
            text[at] = *next;
            text.truncate(at + 1);
            break;
        }
    }
    let grown = String::from_utf8_lossy(&text).into_owned();
    if grown.as_str() > newest { grown } else { format!("{newest}0") }
}

/// Identifies one project: a root commit, a hash or the word `global`; not in the prefix scheme.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProjectId(String);

impl ProjectId {
    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ProjectId {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        let fits = (1..=MAX_PROJECT).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
        if fits { Ok(Self(text)) } else { Err(IdError::new("project", &text)) }
    }
}

impl std::str::FromStr for ProjectId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::try_from(text.to_owned())
    }
}

impl From<ProjectId> for String {
    fn from(id: ProjectId) -> Self {
        id.0
    }
}

impl std::fmt::Display for ProjectId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy)]
enum IdOrder {
    Ascending,
    Descending,
}

/// A time with a counter that distinguishes the ids of one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdTimestamp {
    now: EpochMillis,
    counter: u16,
}

/// Generates timestamps; one per process, so that two ids of one millisecond differ in their time field.
#[derive(Debug, Default)]
pub struct IdClock {
    last: Option<EpochMillis>,
    counter: u16,
}

impl IdClock {
    /// Returns the tick for an id made at `now`; the first of a millisecond has counter 1.
    ///
    /// Ticks never go back: what is made at an earlier moment than the last goes on from there, so
    /// that ids made one after the other sort that way.
    pub fn next_timestamp(&mut self, now: EpochMillis) -> IdTimestamp {
        let last = *self.last.get_or_insert(now);
        if now > last {
            self.last = Some(now);
            self.counter = 0;
        } else if self.counter == u16::MAX {
            self.last = Some(last.plus(1));
            self.counter = 0;
        }
        self.counter += 1;
        IdTimestamp { now: self.last.unwrap_or(now), counter: self.counter }
    }
}

fn mint(prefix: &str, order: IdOrder, tick: IdTimestamp, random: [u8; 14]) -> String {
    let value = (tick.now.0 as u64).wrapping_mul(4096).wrapping_add(u64::from(tick.counter));
    let field = match order {
        IdOrder::Ascending => value & TIME_MASK,
        IdOrder::Descending => !value & TIME_MASK,
    };
    let mut text = format!("{prefix}_{field:012x}");
    text.extend(random.iter().map(|b| char::from(ALPHABET[usize::from(*b) % 62])));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: [u8; 14] = [0; 14];
    /// 2026-08-14 11:19:55.136Z, when the time field wrapped.
    const WRAP: i64 = 1_786_706_395_136;

    fn tick(ms: i64) -> IdTimestamp {
        IdClock::default().next_timestamp(EpochMillis(ms))
    }

    #[test]
    fn minted_id_matches_opencode_format() {
        let id = SessionId::mint(tick(1_794_728_448_904), *b"0123456789ABCD");
        assert_eq!(id.as_str().len(), 30);
        // Recorded from the real program for the same millisecond: ses_e21d92c77ffe…
        assert!(id.as_str().starts_with("ses_e21d92c77ffe"), "{id}");
        let message = MessageId::mint(tick(1_794_728_449_001), ZERO);
        assert_eq!(message.as_str(), "msg_1de26d3e900100000000000000");
    }

    #[test]
    fn ids_in_one_millisecond_count_up() {
        let mut ticker = IdClock::default();
        let one = MessageId::mint(ticker.next_timestamp(EpochMillis(5)), ZERO);
        let two = MessageId::mint(ticker.next_timestamp(EpochMillis(5)), ZERO);
        let next = MessageId::mint(ticker.next_timestamp(EpochMillis(6)), ZERO);
        assert_eq!(one.as_str(), "msg_00000000500100000000000000");
        assert_eq!(two.as_str(), "msg_00000000500200000000000000");
        assert_eq!(next.as_str(), "msg_00000000600100000000000000");
    }

    #[test]
    fn ids_after_wrap_sort_before_older_ids() {
        // W19: this is why nothing here is ever ordered by id.
        let before = MessageId::mint(tick(WRAP - 1), ZERO);
        let after = MessageId::mint(tick(WRAP + 1), ZERO);
        assert!(after < before, "{after} {before}");
        let old = SessionId::mint(tick(WRAP - 1), ZERO);
        let new = SessionId::mint(tick(WRAP + 1), ZERO);
        assert!(new > old, "descending ids turn round too: {new} {old}");
    }

    #[test]
    fn ids_stay_ascending_when_clock_goes_back() {
        let mut ticker = IdClock::default();
        let moments = [9, 7, 9, 8, 10, 3];
        let ids: Vec<_> = moments
            .iter()
            .map(|ms| PartId::mint(ticker.next_timestamp(EpochMillis(*ms)), ZERO))
            .collect();
        assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    }

    #[test]
    fn mint_after_sorts_after_any_newest_id() {
        let id = |text: &str| text.parse::<MessageId>().expect("an id");
        let late = MessageId::mint(tick(WRAP - 1), [61; 14]);
        let own = ["msg_zzzzzzzzzzzz0000000000000a", "msg_zzzz", "msg_", "msgOLD", "msg_a-b_z"];
        let own = own.iter().filter_map(|text| text.parse().ok());
        let newest = [late, id("msg_ffffffffffff00000000000000"), id("msg_Zz")];
        for newest in newest.into_iter().chain(own) {
            let next = MessageId::mint_after(Some(&newest), tick(WRAP + 1), ZERO);
            assert!(next > newest, "{next} {newest}");
            assert!(next.as_str().parse::<MessageId>().is_ok(), "{next}");
        }
        // In the usual case its own moment is good enough.
        let next = MessageId::mint_after(Some(&id("msg_000000001001a")), tick(5), ZERO);
        assert_eq!(next, MessageId::mint(tick(5), ZERO));
    }

    /// Proves R30.
    #[test]
    fn ids_require_prefix_and_short_plain_body() {
        for good in ["ses_a", "ses_A-b_9", "sesLEGACY", "ses_nope"] {
            assert!(good.parse::<SessionId>().is_ok(), "{good}");
        }
        let long = format!("ses_{}", "x".repeat(65));
        for bad in ["", "ses", "ses_", "msg_abc", "ses_a/b", "ses_a b", "ses_ä", "SES_a", &long] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
        assert!(format!("ses_{}", "x".repeat(64)).parse::<SessionId>().is_ok());
        for bad in ["", "../up", "a b", "a/b"] {
            assert!(bad.parse::<ProjectId>().is_err(), "{bad}");
        }
        assert!("global".parse::<ProjectId>().is_ok());
    }

    #[test]
    fn id_error_truncates_the_text() {
        let error = "x".repeat(500).parse::<PartId>().expect_err("not a part id");
        assert_eq!(error.text.len(), 80);
        assert!(error.to_string().ends_with("is not a part id"));
    }
}
