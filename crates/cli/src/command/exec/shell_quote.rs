//! Quotes a command line for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Joins the words of a command, quoting where a shell needs it.
pub(crate) fn quote_command(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_word(&word.to_string_lossy())).collect();
    words.join(" ")
}

/// Quotes one word of any bytes where a shell needs it; what is no text, or is a control character, needs bash,
/// zsh or another shell with `$'…'`.
pub(crate) fn quote_os_word(word: &OsStr) -> String {
    match word.to_str().filter(|text| !text.chars().any(char::is_control)) {
        Some(text) => quote_word(text),
        None => {
            let quoted: String = word.as_bytes().iter().map(|byte| escape_byte(*byte)).collect();
            format!("$'{quoted}'")
        }
    }
}

fn escape_byte(byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

/// Quotes one word where a shell needs it.
fn quote_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // Double quotes read better around an apostrophe if nothing inside is special there.
    if word.contains('\'') && !word.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_command_line_can_be_retyped() {
        let words = ["sh", "-c", "echo it's > a", "", "x=1", "it's $1"].map(OsString::from);
        assert_eq!(quote_command(&words), r#"sh -c "echo it's > a" '' x=1 'it'\''s $1'"#);
    }
}
