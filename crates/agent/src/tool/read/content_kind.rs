//! What kind of content a file has, by its first bytes and its name.

use std::path::Path;

/// Extensions of files that a model cannot read as text, whatever their bytes look like.
const BINARY_EXTENSIONS: [&str; 28] = [
    "zip", "tar", "gz", "exe", "dll", "so", "class", "jar", "war", "7z", "doc", "docx", "xls",
    "xlsx", "ppt", "pptx", "odt", "ods", "odp", "bin", "dat", "obj", "o", "a", "lib", "wasm",
    "pyc", "pyo",
];
/// From this share of control bytes on a content is no text, in percent.
const MAX_CONTROL_PERCENT: usize = 30;

/// What kind of content a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    /// Lines.
    Text,
    /// An image or a document that models can look at: its media type.
    Media(&'static str),
    /// Anything else.
    Binary,
}

/// Tells the kind of a content by its first bytes, at least 4096 if it has so many.
pub(super) fn detect_kind(path: &Path, head: &[u8]) -> ContentKind {
    if let Some(media) = media_type(head) {
        return ContentKind::Media(media);
    }
    let extension = path.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
    let is_named_binary = extension.is_some_and(|it| BINARY_EXTENSIONS.contains(&it.as_str()));
    match is_named_binary || has_binary_bytes(head) {
        true => ContentKind::Binary,
        false => ContentKind::Text,
    }
}

/// Returns the media type of an image or document that models can look at.
pub(crate) fn media_type(head: &[u8]) -> Option<&'static str> {
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    match head {
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if head.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some("image/gif"),
        _ if head.starts_with(b"%PDF-") => Some("application/pdf"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

fn has_binary_bytes(head: &[u8]) -> bool {
    let head = head.get(..4096).unwrap_or(head);
    let is_control = |byte: &&u8| **byte < 9 || (14..32).contains(*byte);
    head.contains(&0)
        || head.iter().filter(is_control).count() * 100 > head.len() * MAX_CONTROL_PERCENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_known_by_their_content_and_not_by_their_name() {
        let kind = |name: &str, head: &[u8]| detect_kind(Path::new(name), head);
        assert_eq!(kind("a.txt", b"\x89PNG\r\n\x1a\n..."), ContentKind::Media("image/png"));
        assert_eq!(kind("a.png", b"no image"), ContentKind::Text);
        assert_eq!(kind("a", b"RIFF1234WEBPVP8 "), ContentKind::Media("image/webp"));
        assert_eq!(kind("a", b"%PDF-1.7"), ContentKind::Media("application/pdf"));
        assert_eq!(kind("a.svg", b"<svg/>"), ContentKind::Text);
    }

    #[test]
    fn binary_content_is_recognised() {
        let kind = |name: &str, head: &[u8]| detect_kind(Path::new(name), head);
        assert_eq!(kind("a.rs", b"text\0"), ContentKind::Binary);
        assert_eq!(kind("a.rs", &[1, 2, 3, b'a']), ContentKind::Binary);
        assert_eq!(kind("a.rs", b"tab\tand\x1b[1m colour text text text"), ContentKind::Text);
        assert_eq!(kind("a.PYC", b"text"), ContentKind::Binary);
        assert_eq!(kind("a.rs", b""), ContentKind::Text);
    }
}
