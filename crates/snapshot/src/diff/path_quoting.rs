//! Names in patches, as git writes and reads them.

/// Writes a name; in quotes and escaped if a line of ASCII text could not hold it.
pub(super) fn quote_path(prefix: &str, path: &[u8]) -> Vec<u8> {
    quote_unless(prefix, path, |byte| matches!(byte, 0x20..=0x7e))
}

/// Writes a name; in quotes and escaped if it has control characters, as with `core.quotePath=false`.
pub(super) fn quote_control(prefix: &str, path: &[u8]) -> Vec<u8> {
    quote_unless(prefix, path, |byte| !byte.is_ascii_control())
}

fn quote_unless(prefix: &str, path: &[u8], is_printed: impl Fn(u8) -> bool) -> Vec<u8> {
    let plain = |byte: &u8| is_printed(*byte) && !matches!(byte, b'"' | b'\\');
    let mut out = Vec::with_capacity(path.len() + 4);
    if path.iter().all(plain) {
        out.extend_from_slice(prefix.as_bytes());
        out.extend_from_slice(path);
        return out;
    }
    out.push(b'"');
    out.extend_from_slice(prefix.as_bytes());
    for byte in path {
        match byte {
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            _ if plain(byte) => out.push(*byte),
            _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::quote_path;

    /// Proves W38.
    #[test]
    fn paths_are_quoted_like_git() {
        assert_eq!(quote_path("a/", b"x y"), b"a/x y");
        assert_eq!(quote_path("a/", b"t\t\"\\"), b"\"a/t\\t\\\"\\\\\"");
        assert_eq!(quote_path("b/", "ж".as_bytes()), b"\"b/\\320\\266\"");
    }
}
