//! A file as text: its byte order mark and its line ends, which every change keeps.

/// The byte order mark of UTF-8.
const BOM: char = '\u{feff}';

/// A file as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileText {
    /// True if the file begins with a byte order mark.
    pub(crate) has_bom: bool,
    /// The text behind it.
    pub(crate) text: String,
}

impl FileText {
    /// Reads the bytes of a file; nothing if they are not UTF-8.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        Some(match text.strip_prefix(BOM) {
            Some(rest) => Self { has_bom: true, text: rest.to_owned() },
            None => Self { has_bom: false, text: text.to_owned() },
        })
    }

    /// Returns the bytes of the file with another text.
    pub(crate) fn encode(&self, text: &str) -> Vec<u8> {
        let text = text.strip_prefix(BOM).unwrap_or(text);
        match self.has_bom {
            true => format!("{BOM}{text}").into_bytes(),
            false => text.as_bytes().to_vec(),
        }
    }

    /// Returns `text` with the line ends of the file.
    pub(crate) fn with_line_ends(&self, text: &str) -> String {
        let plain = text.replace("\r\n", "\n");
        if self.text.contains("\r\n") { plain.replace('\n', "\r\n") } else { plain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_order_mark_and_line_ends_are_kept() {
        let file = FileText::decode("\u{feff}a\r\nb\n".as_bytes()).expect("text");
        assert_eq!((file.has_bom, file.text.as_str()), (true, "a\r\nb\n"));
        assert_eq!(file.with_line_ends("x\ny\r\n"), "x\r\ny\r\n");
        assert_eq!(file.encode("new"), "\u{feff}new".as_bytes());
        assert_eq!(file.encode("\u{feff}new"), "\u{feff}new".as_bytes());
        let plain = FileText::decode(b"a\nb").expect("text");
        assert_eq!(plain.with_line_ends("x\r\ny"), "x\ny");
        assert_eq!(FileText::decode(b"\xff\xfe"), None);
    }
}
