//! Names of tool calls that a provider accepts, and names for calls that have none.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a new name for a call that the provider did not name. It is unique among all answers of a
/// conversation.
pub(super) fn mint_call_id() -> String {
    format!("call_{:016x}", RandomState::new().build_hasher().finish())
}

/// Returns the name with letters, digits, `_` and `-` only.
pub(super) fn plain_call_id(call: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    call.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect()
}

/// Returns a name of nine letters and digits, always the same for the same call.
pub(super) fn short_call_id(call: &str) -> String {
    const LENGTH: usize = 9;
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    if call.len() == LENGTH && call.bytes().all(|letter| letter.is_ascii_alphanumeric()) {
        return call.to_owned();
    }
    // FNV-1a: the name must not change between runs of the program.
    let mut hash = call.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let digit = |_| {
        let digit = DIGITS.get((hash % 36) as usize).copied().unwrap_or(b'0');
        hash /= 36;
        char::from(digit)
    };
    (0..LENGTH).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_short_stable_and_distinct() {
        assert_eq!(short_call_id("abcDEF123"), "abcDEF123");
        let (one, two) = (short_call_id("call_1"), short_call_id("call_2"));
        assert_eq!((one.len(), one == two), (9, false));
        assert_eq!(one, short_call_id("call_1"));
        assert_eq!(plain_call_id("a.b:c-d_1ü"), "a_b_c-d_1_");
        assert_ne!(mint_call_id(), mint_call_id());
    }
}
