//! The arguments of a call as strace prints them: numbers, flags, and strings all in `\x` escapes.

/// A text that the call was not expected to print.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MalformedValue;

/// Splits arguments at commas outside of strings and brackets.
pub(crate) fn split_args(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut parts, mut begin, mut at, mut depth) = (Vec::new(), 0, 0, 0_u32);
    while at < bytes.len() {
        match bytes[at] {
            // Within a string every byte is escaped, so the next quote ends it.
            b'"' => at += 1 + text[at + 1..].find('"').unwrap_or(0),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if begin < text.len() {
        parts.push(text[begin..].trim());
    }
    parts
}

/// Decodes one complete string; one that strace has cut short is refused.
pub(crate) fn decode_string(token: &str) -> Result<Vec<u8>, MalformedValue> {
    let inner =
        token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(MalformedValue)?;
    let mut decoded = Vec::with_capacity(inner.len() / 4);
    for escape in inner.as_bytes().chunks(4) {
        let [b'\\', b'x', high, low] = escape else {
            return Err(MalformedValue);
        };
        decoded.push((nibble(*high)? << 4) | nibble(*low)?);
    }
    Ok(decoded)
}

fn nibble(digit: u8) -> Result<u8, MalformedValue> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(MalformedValue),
    }
}

/// Decodes an array of buffers (`[{iov_base="…", iov_len=2}, …]`) into one run of bytes.
pub(crate) fn decode_iovec(token: &str) -> Result<Vec<u8>, MalformedValue> {
    let inner =
        token.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(MalformedValue)?;
    let mut joined = Vec::new();
    for element in split_args(inner) {
        let base = struct_field(element, "iov_base").ok_or(MalformedValue)?;
        let len = struct_field(element, "iov_len").and_then(parse_number).ok_or(MalformedValue)?;
        if len > 0 {
            joined.extend(decode_string(base)?);
        }
    }
    Ok(joined)
}

/// The value of `name` in a structure (`{flags=…, mode=…}`).
pub(crate) fn struct_field<'a>(token: &'a str, name: &str) -> Option<&'a str> {
    let inner = token.strip_prefix('{')?;
    let inner = inner.split_once(" => ").map_or(inner, |(before, _)| before);
    let inner = inner.strip_suffix('}')?;
    split_args(inner).into_iter().find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
}

/// A number: decimal, hexadecimal or octal.
pub(crate) fn parse_number(token: &str) -> Option<i64> {
    match token.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None if token.len() > 1 && token.starts_with('0') => i64::from_str_radix(token, 8).ok(),
        None => token.parse().ok(),
    }
}

/// Whether `flag` is among flags joined by `|`.
pub(crate) fn has_flag(token: &str, flag: &str) -> bool {
    token.split('|').any(|part| part == flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_split_outside_strings_and_brackets() {
        assert_eq!(split_args(r#"3, [{iov_base="\x2c", iov_len=1}], 1"#).len(), 3);
        assert_eq!(split_args("{flags=A|B, x=1} => {parent_tid=[7]}, 88")[1], "88");
        assert_eq!(split_args(""), Vec::<&str>::new());
    }

    #[test]
    fn truncated_string_is_refused() {
        assert_eq!(decode_string(r#""\x61\x00""#), Ok(vec![0x61, 0]));
        assert_eq!(decode_string(r#""\x61"..."#), Err(MalformedValue));
        assert_eq!(decode_string("0x7ffe"), Err(MalformedValue));
    }

    #[test]
    fn buffers_are_joined_in_order() {
        let token = r#"[{iov_base="\x61\x62", iov_len=2}, {iov_base="", iov_len=0}, {iov_base="\x63", iov_len=1}]"#;
        assert_eq!(decode_iovec(token), Ok(b"abc".to_vec()));
    }

    #[test]
    fn numbers_are_parsed_in_three_bases() {
        assert_eq!(
            [parse_number("10"), parse_number("0x1f"), parse_number("0600")],
            [Some(10), Some(31), Some(384)]
        );
        assert_eq!(parse_number("AT_FDCWD"), None);
    }
}
