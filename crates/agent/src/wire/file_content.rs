//! Files in a request.

use turnstone_core::context::ModelFile;

/// Where the bytes of a file are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileSource<'f> {
    /// In the request, as base64.
    Inline(&'f str),
    /// At an address that the provider can read.
    Web(&'f str),
}

/// Returns where the bytes of a file are, or `None` if no provider can get them.
pub(super) fn file_source(file: &ModelFile) -> Option<FileSource<'_>> {
    if let Some(rest) = file.url.strip_prefix("data:") {
        let (kind, data) = rest.split_once(',')?;
        return kind.ends_with(";base64").then_some(FileSource::Inline(data));
    }
    let is_web = file.url.starts_with("https://") || file.url.starts_with("http://");
    is_web.then_some(FileSource::Web(&file.url))
}

/// Returns the line that stands for a file which a wire cannot carry.
pub(super) fn describe_unsent_file(file: &ModelFile) -> String {
    let name = file.filename.as_deref().unwrap_or("unnamed");
    format!("[File {name} of type {} cannot be sent to this model]", file.mime)
}
