//! Attributes: which files may not be stored as they are.
//!
//! Deliberately blunt. A line that sets a converting attribute counts for whatever its pattern matches,
//! even if a later line takes it back; a line that is not understood counts for everything.
//!
//! `text`, `text=auto`, `eol=lf` and the old `crlf` are no such attributes. For them git only deletes CRs on
//! the way into the repository and only inserts CRs on the way out, so a file and its blob hold the same
//! bytes if and only if they have the same size; and reuse always compares the sizes. A filter, `ident` and an
//! encoding may change bytes and keep the size. `eol=crlf` is left out for simplicity: no text has equal sizes.

use gix::bstr::ByteSlice;
use gix::glob::Pattern;
use gix::glob::pattern::Case;
use gix::glob::wildmatch::Mode;

/// The attributes that may make git store other bytes of the same size.
const CONVERTING_ATTRIBUTES: [&[u8]; 4] = [b"filter", b"ident", b"eol", b"working-tree-encoding"];
/// The only value of `eol` whose conversion shows in the size.
const LF_EOL_ATTRIBUTE: &[u8] = b"eol=lf";

/// Which files of a repository may be converted.
#[derive(Debug, Default)]
pub(crate) struct ConvertedPaths {
    patterns: Vec<ConversionPattern>,
    /// Names of macros that set a converting attribute.
    macros: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct ConversionPattern {
    /// Where the pattern applies: empty, or a path that ends with a slash.
    folder: Vec<u8>,
    /// Nothing matches everything.
    pattern: Option<Pattern>,
}

impl ConvertedPaths {
    /// Gathers what attributes files say, each with the folder it applies below.
    pub(crate) fn from_files(files: &[(Vec<u8>, Vec<u8>)]) -> Self {
        let mut found = Self::default();
        // A macro may stand behind its use, and use others: learned until there is nothing to learn.
        loop {
            let known = found.macros.len();
            for (text, _) in files {
                text.lines().for_each(|line| found.learn_macro(line.trim()));
            }
            if found.macros.len() == known {
                break;
            }
        }
        for (text, folder) in files {
            text.lines().for_each(|line| found.add_line(line.trim_start(), folder));
        }
        found
    }

    /// Whatever lies below `folder` may be converted.
    pub(crate) fn mark_folder(&mut self, folder: &[u8]) {
        self.patterns.push(ConversionPattern { folder: folder.to_vec(), pattern: None });
    }

    fn learn_macro(&mut self, line: &[u8]) {
        if let Some(line) = line.strip_prefix(b"[attr]") {
            let mut words = split_words(line);
            let name = words.next().unwrap_or_default().to_vec();
            if !self.macros.contains(&name) && words.any(|word| self.is_converting(word)) {
                self.macros.push(name);
            }
        }
    }

    fn add_line(&mut self, line: &[u8], folder: &[u8]) {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"[attr]") {
            return;
        }
        // A quoted pattern may contain spaces, so the attributes after it cannot be separated.
        let quoted = line.starts_with(b"\"");
        let mut parts = split_words(line);
        let pattern = parts.next().unwrap_or_default();
        if !parts.any(|word| self.is_converting(word)) {
            return;
        }
        let pattern = if quoted { None } else { Pattern::from_bytes_without_negation(pattern) };
        self.patterns.push(ConversionPattern { folder: folder.to_vec(), pattern });
    }

    /// True if a word sets a converting attribute: `-x` and `!x` do not.
    fn is_converting(&self, word: &[u8]) -> bool {
        if word == LF_EOL_ATTRIBUTE {
            return false;
        }
        let name = word.split(|byte| *byte == b'=').next().unwrap_or_default();
        CONVERTING_ATTRIBUTES.contains(&name) || self.macros.iter().any(|known| known == name)
    }

    /// True if the file at `path`, from the root of the repository, may be converted.
    pub(crate) fn may_convert(&self, path: &[u8]) -> bool {
        self.patterns.iter().any(|ConversionPattern { folder, pattern }| {
            let Some(path) = path.strip_prefix(&folder[..]) else {
                return false;
            };
            let Some(pattern) = pattern else {
                return true;
            };
            let name = path.rfind_byte(b'/').map(|slash| slash + 1);
            let (path, mode) = (path.as_bstr(), Mode::NO_MATCH_SLASH_LITERAL);
            pattern.matches_repo_relative_path(path, name, Some(false), Case::Fold, mode)
        })
    }
}

fn split_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touches(text: &str, folder: &str, path: &str) -> bool {
        let file = (text.as_bytes().to_vec(), folder.as_bytes().to_vec());
        ConvertedPaths::from_files(&[file]).may_convert(path.as_bytes())
    }

    /// Proves R10.
    #[test]
    fn every_converting_attribute_is_detected() {
        for text in [
            "*.txt filter=x",
            "*.txt ident",
            "*.txt eol",
            "*.txt eol=crlf",
            "*.txt text=auto eol=crlf",
            "*.txt working-tree-encoding=UTF-16",
            "* diff text=auto ident merge=x",
            "  a.txt ident",
            "/sub/*.txt ident",
            "\"a b.txt\" ident",
            "[attr]mine ident\n*.txt mine",
            "*.txt yours\n[attr]yours mine\n[attr]mine ident",
            "*.TXT ident",
            "*.txt ident\n*.txt -ident",
        ] {
            assert!(touches(text, "", "sub/a.txt"), "{text}");
        }
        for text in [
            "",
            "*.txt -text diff",
            "*.txt binary",
            "*.txt !filter",
            "*.png filter=lfs",
            "# *.txt ident",
            "/a.txt ident",
            "*.txt text",
            "* text=auto",
            "*.txt text eol=lf",
            "*.txt crlf=input",
            "*.txt export-subst whitespace=cr-at-eol",
        ] {
            assert!(!touches(text, "", "sub/a.txt"), "{text}");
        }
    }

    #[test]
    fn attributes_apply_only_below_their_folder() {
        assert!(touches("*.txt ident", "sub/", "sub/deep/a.txt"));
        assert!(touches("/a.txt ident", "sub/", "sub/a.txt"));
        assert!(!touches("*.txt ident", "sub/", "other/a.txt"));
        assert!(!touches("*.txt ident", "sub/", "sub2/a.txt"));
    }
}
