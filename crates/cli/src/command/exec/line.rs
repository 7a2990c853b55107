//! A command line as a person would type it.

use std::ffi::OsString;

/// The words of a command in one line, quoted where a shell would need it.
pub(crate) fn line(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    // Double quotes, if that is easier to read and nothing in it means anything there.
    if word.contains('\'') && !word.contains(['"', '$', '`', '\\', '!']) {
        return format!("\"{word}\"");
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_typed_again() {
        let words = ["sh", "-c", "echo it's > a", "", "x=1", "it's $1"].map(OsString::from);
        assert_eq!(line(&words), r#"sh -c "echo it's > a" '' x=1 'it'\''s $1'"#);
    }
}
