//! Reading for a model: a page of a file or directory, or media as an attachment.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};
use turnstone_engine::{FileError, open_regular_file};

use super::content_kind::{ContentKind, detect_kind};
use super::directory_page::list_page;
use super::line_page::{LinePage, read_page};
use super::missing_file::missing_file_message;
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::input::ToolInput;
use crate::tool::schema::{integer, string, tool_schema};
use crate::tool::{
    InstructionFile, Tool, ToolAttachment, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings,
};

/// The name of the tool.
const NAME: &str = "read";
/// Lines of a page.
const DEFAULT_LINES: u64 = 2_000;
/// Bytes of a page.
const MAX_PAGE_BYTES: usize = 50 << 10;
/// Bytes by which the kind of a content is recognised.
const HEAD_BYTES: u64 = 4_096;
/// Larger files are read from the disk page by page, and cannot be overwritten with `write`.
const MAX_STAMPED_BYTES: u64 = 16 << 20;
/// Larger media are refused: no provider takes them.
const MAX_MEDIA_BYTES: u64 = 20 << 20;
/// Lines that clients show.
const PREVIEW_LINES: usize = 20;

const DESCRIPTION: &str = "Reads a file or lists a directory.\n\n\
    - A relative filePath starts at the working directory.\n\
    - Up to 2000 lines are returned, each as `N: text`, and not more than 50 KB; longer lines are \
    cut at 2000 characters. Continue with offset, the number of the first line, which begins at 1.\n\
    - A directory is returned as sorted names; those of directories end in /.\n\
    - Images (PNG, JPEG, GIF, WebP) and PDF files are returned as attachments.\n\
    - Read several files in one answer when you need them all. To find a text use grep, to find \
    files by name use glob.";

/// Reads files and directories.
pub struct ReadTool {
    settings: ToolSettings,
}

/// What a call asks for.
struct ReadRequest {
    path: AccessedPath,
    offset: u64,
    limit: u64,
}

/// The bytes of a file, and whether they are the ones that the session is known to have read.
enum PageSource {
    Memory(Vec<u8>),
    Disk(File),
}

impl ReadTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        Self { settings: settings.clone() }
    }

    fn read_directory(&self, request: &ReadRequest) -> Result<ToolReply, ToolError> {
        let path = &request.path;
        let failed = |error: io::Error| ToolError::failed(error.to_string());
        let page = list_page(&path.real, (request.offset, request.limit)).map_err(failed)?;
        let last = request.offset - 1 + page.names.len() as u64;
        let is_cut = last < page.total as u64;
        let remark = match is_cut {
            true => format!(
                "(Showing {} of {} entries. Use offset={} to continue.)",
                page.names.len(),
                page.total,
                last + 1
            ),
            false => format!("({} entries)", page.total),
        };
        let shown = path.absolute.to_string_lossy();
        let output = format!(
            "<path>{shown}</path>\n<type>directory</type>\n<entries>\n{}\n\n{remark}\n</entries>",
            page.names.join("\n")
        );
        let preview: Vec<&String> = page.names.iter().take(PREVIEW_LINES).collect();
        let preview: Vec<&str> = preview.into_iter().map(String::as_str).collect();
        let display = json!({ "type": "directory", "path": shown, "entries": page.names,
            "offset": request.offset, "totalEntries": page.total, "truncated": is_cut });
        let metadata = reply_metadata(&preview.join("\n"), is_cut, &[], Some(display));
        Ok(ToolReply { title: path.relative.clone(), output, metadata, attachments: Vec::new() })
    }

    fn read_file(
        &self,
        host: &dyn ToolHost,
        request: &ReadRequest,
        mut file: File,
    ) -> Result<ToolReply, ToolError> {
        let path = &request.path;
        let failed = |error: io::Error| read_failure(&path.absolute, &error);
        let mut head = Vec::new();
        file.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(failed)?;
        match detect_kind(&path.absolute, &head) {
            ContentKind::Media(mime) => read_media(path, mime, head, file),
            ContentKind::Binary => Err(ToolError::failed(format!(
                "Cannot read {}: it is a binary file.",
                path.absolute.display()
            ))),
            ContentKind::Text => {
                let content = load_content(host, path, file)?;
                let pages = (request.offset, request.limit);
                let page = match content {
                    PageSource::Memory(bytes) => {
                        read_page(&mut Cursor::new(bytes), pages, MAX_PAGE_BYTES)
                    }
                    PageSource::Disk(file) => {
                        let mut reader = BufReader::new(file);
                        reader.fill_buf().map_err(failed)?;
                        read_page(&mut reader, pages, MAX_PAGE_BYTES)
                    }
                };
                self.show_page(host, request, &page.map_err(failed)?)
            }
        }
    }

    fn show_page(
        &self,
        host: &dyn ToolHost,
        request: &ReadRequest,
        page: &LinePage,
    ) -> Result<ToolReply, ToolError> {
        let (path, offset) = (&request.path, request.offset);
        if page.lines.is_empty() && offset > 1 {
            return Err(ToolError::failed(format!(
                "The offset {offset} is beyond the end of {}, which has {} lines.",
                path.absolute.display(),
                page.total
            )));
        }
        let last = offset - 1 + page.lines.len() as u64;
        let is_cut = page.is_full || !page.is_total_known || last < page.total;
        let remark = match (page.is_full, is_cut) {
            (true, _) => format!(
                "(Output capped at 50 KB. Showing lines {offset}-{last}. Use offset={} to continue.)",
                last + 1
            ),
            (false, true) => format!(
                "(Showing lines {offset}-{last} of {}{}. Use offset={} to continue.)",
                if page.is_total_known { "" } else { "more than " },
                page.total,
                last + 1
            ),
            (false, false) => format!("(End of file - total {} lines)", page.total),
        };
        let numbered =
            (offset..).zip(&page.lines).map(|(number, line)| format!("{number}: {line}\n"));
        let numbered: String = numbered.collect();
        let shown = path.absolute.to_string_lossy();
        let mut output = format!(
            "<path>{shown}</path>\n<type>file</type>\n<content>\n{numbered}\n{remark}\n</content>"
        );
        let found = self.settings.instructions.as_ref();
        let loaded = found.map(|find| find.find(host, &path.real)).unwrap_or_default();
        output.push_str(&instruction_reminder(&loaded));
        let display = json!({ "type": "file", "path": shown, "text": page.lines.join("\n"),
            "lineStart": offset, "lineEnd": last, "totalLines": page.total, "truncated": is_cut });
        let preview: Vec<&str> =
            page.lines.iter().take(PREVIEW_LINES).map(String::as_str).collect();
        let metadata = reply_metadata(&preview.join("\n"), is_cut, &loaded, Some(display));
        Ok(ToolReply { title: path.relative.clone(), output, metadata, attachments: Vec::new() })
    }
}

impl Tool for ReadTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "filePath": string("The path of the file or directory"),
            "offset": integer(1, "The first line or entry to return, from 1"),
            "limit": integer(1, "How many lines or entries to return at most (2000)"),
        });
        tool_schema(NAME, DESCRIPTION, &properties, &["filePath"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let request = ReadRequest {
            path: AccessedPath::resolve(host.scope(), input.string("filePath")?)?,
            offset: input.optional_integer("offset", 0)?.unwrap_or(1).max(1),
            limit: input.optional_integer("limit", 1)?.unwrap_or(DEFAULT_LINES),
        };
        request.path.ask_if_outside(host)?;
        let patterns = vec![request.path.relative.clone()];
        host.ask(permission_ask(NAME, patterns, vec!["*".to_owned()], json!({})))?;
        if request.path.real.is_dir() {
            return self.read_directory(&request);
        }
        match open_regular_file(&request.path.real) {
            Ok(Some(file)) => self.read_file(host, &request, file),
            Ok(None) => Err(ToolError::failed(missing_file_message(&request.path.absolute))),
            Err(error) => Err(read_failure(&request.path.absolute, &error)),
        }
    }
}

/// Loads a file, and remembers for the session what it has read where the file can be overwritten later.
fn load_content(
    host: &dyn ToolHost,
    path: &AccessedPath,
    mut file: File,
) -> Result<PageSource, ToolError> {
    use std::io::Seek;
    let failed = |error: io::Error| read_failure(&path.absolute, &error);
    let size = file.metadata().map_err(failed)?.len();
    if path.is_inside && size <= MAX_STAMPED_BYTES {
        let calls = host.engine().tool_calls();
        match calls.read_file(&host.context(), &host.scope().session, &path.real) {
            Ok(read) => return Ok(PageSource::Memory(read.bytes.unwrap_or_default())),
            // Not captured, so not written either: it can be read all the same.
            Err(
                FileError::NotCovered { .. }
                | FileError::Outside { .. }
                | FileError::InvalidPath { .. },
            ) => {}
            Err(error) => return Err(ToolError::failed(error.to_string())),
        }
    }
    file.rewind().map_err(failed)?;
    Ok(PageSource::Disk(file))
}

fn read_media(
    path: &AccessedPath,
    mime: &str,
    mut bytes: Vec<u8>,
    file: File,
) -> Result<ToolReply, ToolError> {
    let failed = |error: io::Error| read_failure(&path.absolute, &error);
    file.take(MAX_MEDIA_BYTES).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_MEDIA_BYTES {
        return Err(ToolError::failed(format!(
            "{} is larger than {} MiB and cannot be attached.",
            path.absolute.display(),
            MAX_MEDIA_BYTES >> 20
        )));
    }
    let what = if mime == "application/pdf" { "PDF" } else { "Image" };
    let url = format!("data:{mime};base64,{}", BASE64.encode(&bytes));
    let filename = path.absolute.file_name().map(|name| name.to_string_lossy().into_owned());
    let output = format!("{what} read successfully");
    Ok(ToolReply {
        title: path.relative.clone(),
        metadata: reply_metadata(&output, false, &[], None),
        output,
        attachments: vec![ToolAttachment { mime: mime.to_owned(), url, filename }],
    })
}

fn reply_metadata(
    preview: &str,
    is_cut: bool,
    loaded: &[InstructionFile],
    display: Option<Value>,
) -> Map<String, Value> {
    let loaded: Vec<String> =
        loaded.iter().map(|file| file.path.to_string_lossy().into_owned()).collect();
    let mut metadata = Map::new();
    metadata.insert("preview".to_owned(), json!(preview));
    metadata.insert("truncated".to_owned(), json!(is_cut));
    metadata.insert("loaded".to_owned(), json!(loaded));
    if let Some(display) = display {
        metadata.insert("display".to_owned(), display);
    }
    metadata
}

fn instruction_reminder(loaded: &[InstructionFile]) -> String {
    if loaded.is_empty() {
        return String::new();
    }
    let texts = loaded
        .iter()
        .map(|file| format!("Instructions from: {}\n{}", file.path.display(), file.text));
    let texts: Vec<String> = texts.collect();
    format!("\n\n<system-reminder>\n{}\n</system-reminder>", texts.join("\n\n"))
}

fn read_failure(path: &Path, error: &io::Error) -> ToolError {
    ToolError::failed(format!("Cannot read {}: {error}", path.display()))
}
