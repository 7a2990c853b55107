//! Letters without case and diacritics, as FTS5's `unicode61 remove_diacritics 2` folds them.
//!
//! Needed to find in a text what FTS5 found in the index. The two tables are those of SQLite
//! (public domain), so both sides agree.

/// First code point of a range times eight, plus how many more belong to it.
const RANGE: [u16; 126] = [
    0, 1797, 1848, 1859, 1891, 1928, 1940, 1995, 2024, 2040, 2060, 2110, 2168, 2206, 2264, 2286,
    2344, 2383, 2472, 2488, 2516, 2596, 2668, 2732, 2782, 2842, 2894, 2954, 2984, 3000, 3028, 3336,
    3456, 3696, 3712, 3728, 3744, 3766, 3832, 3896, 3912, 3928, 3944, 3968, 4008, 4040, 4056, 4106,
    4138, 4170, 4202, 4234, 4266, 4296, 4312, 4344, 4408, 4424, 4442, 4472, 4488, 4504, 6148, 6198,
    6264, 6280, 6360, 6429, 6505, 6529, 61448, 61468, 61512, 61534, 61592, 61610, 61642, 61672,
    61688, 61704, 61726, 61784, 61800, 61816, 61836, 61880, 61896, 61914, 61948, 61998, 62062,
    62122, 62154, 62184, 62200, 62218, 62252, 62302, 62364, 62410, 62442, 62478, 62536, 62554,
    62584, 62604, 62640, 62648, 62656, 62664, 62730, 62766, 62830, 62890, 62924, 62974, 63032,
    63050, 63082, 63118, 63182, 63242, 63274, 63310, 63368, 63390,
];

/// The plain letter of each range; `.` where a mark stands for nothing.
const LETTER: [u8; 126] = *b".aceinouyyacdeeghijklnorstuuwyzouaiouuagkoojgnaaeiorusthaeoooy\
........abcddeeefghhiiklllmnoprrrsstuuvwwxyzhtwyaaaaeeeioooouuuy";

/// The folded form of a letter; nothing for a combining mark.
pub(super) fn fold_char(c: char) -> Option<char> {
    if c.is_ascii() {
        return Some(c.to_ascii_lowercase());
    }
    let lower = c.to_lowercase().next().unwrap_or(c);
    let code = u32::from(lower);
    let key = (code << 3) | 7;
    let at = RANGE.partition_point(|first| u32::from(*first) <= key).saturating_sub(1);
    let (first, letter) = (u32::from(RANGE[at]), LETTER[at]);
    if code > (first >> 3) + (first & 7) {
        return Some(lower);
    }
    (letter != b'.').then_some(char::from(letter))
}

/// True for the combining marks that belong to the letter before them.
pub(super) fn is_combining_mark(c: char) -> bool {
    let code = u32::from(c);
    match code {
        768..800 => 0x0802_9FDF_u32 & (1 << (code - 768)) != 0,
        800..=817 => 0x0003_61F8_u32 & (1 << (code - 800)) != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_removes_diacritics() {
        let folded = |text: &str| text.chars().filter_map(fold_char).collect::<String>();
        assert_eq!(folded("Müller ÀÉÎõç ŠŽ Ệ ǖ"), "muller aeioc sz e u");
        assert_eq!(folded("u\u{308}ber"), "uber");
        assert_eq!(folded("Straße Ж 漢 9"), "straße ж 漢 9");
    }
}
