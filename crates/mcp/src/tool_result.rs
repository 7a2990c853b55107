//! What a call of a tool returns.

use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

use crate::safe_text::{clean_line, clean_text};

/// The most text of a result; the rest is cut.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// The largest file of a result, decoded.
const MAX_FILE_BYTES: usize = 10 << 20;
/// The most bytes of all files of a result, decoded.
const MAX_FILES_BYTES: usize = 20 << 20;
/// The most files of a result.
const MAX_FILES: usize = 20;
/// The longest address of a resource.
const MAX_URI_BYTES: usize = 2 << 10;
/// The longest media type.
const MAX_MIME_BYTES: usize = 100;

/// What a call of a tool returned, clean and within bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolServerResult {
    /// The texts, joined by empty lines.
    pub text: String,
    /// Images, sounds and other files.
    pub files: Vec<ToolResultFile>,
    /// The result in the shape that the tool declares, if it is not larger than a text may be.
    pub structured: Option<Value>,
    /// The tool says that it failed.
    pub is_error: bool,
}

/// A file in a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResultFile {
    /// The media type.
    pub mime: String,
    /// The content in base64.
    pub base64: String,
    /// The last part of its address, if it has one.
    pub name: Option<String>,
}

/// Reads a result.
pub(crate) fn read_result(result: CallToolResult) -> ToolServerResult {
    let mut found = ResultReader::default();
    for block in result.content {
        found.read(block);
    }
    let structured = result.structured_content.filter(|value| !value.is_null());
    let shown = structured.as_ref().map(Value::to_string);
    let fits = shown.as_ref().is_some_and(|text| text.len() <= MAX_TEXT_BYTES);
    if found.texts.is_empty() && found.files.is_empty() {
        // Servers may leave out the text of what they return in a shape.
        found.texts.extend(shown);
    }
    if found.omitted > 0 {
        found.texts.push(format!(
            "({} files of the result were left out: too many or too large)",
            found.omitted
        ));
    }
    ToolServerResult {
        text: clean_text(&found.texts.join("\n\n"), MAX_TEXT_BYTES),
        files: found.files,
        structured: structured.filter(|_| fits),
        is_error: result.is_error == Some(true),
    }
}

#[derive(Default)]
struct ResultReader {
    texts: Vec<String>,
    files: Vec<ToolResultFile>,
    file_bytes: usize,
    omitted: usize,
}

impl ResultReader {
    fn read(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.texts.push(text.text),
            ContentBlock::Image(image) => self.add_file(&image.mime_type, image.data, None),
            ContentBlock::Audio(audio) => self.add_file(&audio.mime_type, audio.data, None),
            ContentBlock::Resource(embedded) => match embedded.resource {
                ResourceContents::TextResourceContents { text, .. } => self.texts.push(text),
                ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                    let mime = mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    let name = uri.rsplit('/').next().map(|name| clean_line(name, MAX_MIME_BYTES));
                    self.add_file(&mime, blob, name.filter(|name| !name.is_empty()));
                }
                _ => self.omitted += 1,
            },
            ContentBlock::ResourceLink(link) => {
                self.texts.push(format!("(resource: {})", clean_line(&link.uri, MAX_URI_BYTES)));
            }
            _ => self.omitted += 1,
        }
    }

    fn add_file(&mut self, mime: &str, base64: String, name: Option<String>) {
        let bytes = base64.len() / 4 * 3;
        let is_base64 = base64.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
        let fits = bytes <= MAX_FILE_BYTES
            && self.file_bytes + bytes <= MAX_FILES_BYTES
            && self.files.len() < MAX_FILES;
        if !fits || !is_base64 {
            self.omitted += 1;
            return;
        }
        self.file_bytes += bytes;
        self.files.push(ToolResultFile { mime: clean_mime(mime), base64, name });
    }
}

/// A media type, or that of unknown bytes if it has characters that none has.
fn clean_mime(mime: &str) -> String {
    let is_letter = |b: u8| b.is_ascii_alphanumeric() || b"/+-._".contains(&b);
    let is_valid = mime.len() <= MAX_MIME_BYTES
        && mime.bytes().all(is_letter)
        && mime.split('/').filter(|part| !part.is_empty()).count() == 2;
    if is_valid { mime.to_ascii_lowercase() } else { "application/octet-stream".to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(result: &Value) -> ToolServerResult {
        read_result(serde_json::from_value(result.clone()).expect("a result"))
    }

    #[test]
    fn texts_are_joined_and_files_are_attached() {
        let found = read(&json!({"content": [
            {"type": "text", "text": "one\x1b[31m"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a/b.bin", "blob": "AAAA"}},
            {"type": "resource", "resource": {"uri": "file:///a/c", "text": "two"}},
            {"type": "resource_link", "uri": "file:///a/d", "name": "d"},
        ]}));
        assert_eq!(found.text, "one[31m\n\ntwo\n\n(resource: file:///a/d)");
        let files: Vec<_> =
            found.files.iter().map(|it| (it.mime.as_str(), it.name.as_deref())).collect();
        assert_eq!(files, [("image/png", None), ("application/octet-stream", Some("b.bin"))]);
        assert!(!found.is_error);
    }

    #[test]
    fn structured_result_stands_for_missing_text() {
        let found = read(&json!({"structuredContent": {"a": 1}, "isError": true}));
        assert_eq!((found.text.as_str(), found.is_error), ("{\"a\":1}", true));
        assert_eq!(found.structured, Some(json!({"a": 1})));
    }

    #[test]
    fn result_is_bounded() {
        let image = |data: String| json!({"type": "image", "data": data, "mimeType": "text/html;x=<script>"});
        let found = read(&json!({"content": [
            image("A".repeat(16 << 20)), image("not base64 \"'".to_owned()), image("AAAA".to_owned()),
            {"type": "text", "text": "x".repeat(5 << 20)},
        ]}));
        assert_eq!(found.files.len(), 1);
        assert_eq!(found.files[0].mime, "application/octet-stream");
        assert!(found.text.len() <= (4 << 20) + 3);
        let many = read(&json!({"content": vec![image("AAAA".to_owned()); 50]}));
        assert_eq!(many.files.len(), 20);
        assert!(many.text.contains("30 files"));
    }
}
