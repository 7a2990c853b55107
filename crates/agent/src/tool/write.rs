//! The tool `write`: creates a file or replaces all of it.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_engine::FileReadResult;

use super::accessed_path::{AccessedPath, permission_ask};
use super::file_change::{
    ChangeFailure, FileChangeRequest, file_failure, format_files, view_file, write_files,
};
use super::file_text::FileText;
use super::input::ToolInput;
use super::schema::{string, tool_schema};
use super::text_diff::{TextPatch, diff_texts};
use super::{Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};
use crate::model::ToolSchema;

/// The name of the tool.
const NAME: &str = "write";

const DESCRIPTION: &str = "Creates a file or replaces the whole content of one.\n\n\
    - A file that exists must have been read with read in this session before; the call fails \
    otherwise, and also if the file has changed since.\n\
    - Missing folders are created.\n\
    - To change part of a file use edit. Write documentation only if the user asks for it.";

/// Creates and replaces files.
pub struct WriteTool {
    settings: ToolSettings,
}

impl WriteTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        Self { settings: settings.clone() }
    }

    /// Returns what is there, if the session may replace it.
    fn view(host: &dyn ToolHost, path: &AccessedPath) -> Result<FileReadResult, ToolError> {
        // A directory is refused first.
        view_file(host, path)?;
        let calls = host.engine().tool_calls();
        let found = calls.view_file_to_replace(&host.context(), &host.scope().session, &path.real);
        found.map_err(file_failure)
    }
}

/// Compares two contents for people; what is not text has no lines.
fn diff_bytes(path: &AccessedPath, old: Option<&[u8]>, new: &str) -> TextPatch {
    let old = String::from_utf8_lossy(old.unwrap_or_default());
    diff_texts(&path.absolute.to_string_lossy(), &old, new)
}

impl Tool for WriteTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "filePath": string("The path of the file"),
            "content": string("The whole content of the file"),
        });
        tool_schema(NAME, DESCRIPTION, &properties, &["filePath", "content"])
    }

    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
        named_file(scope, input)
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let path = AccessedPath::resolve(host.scope(), input.string("filePath")?)?;
        let content = input.string("content")?;
        path.require_inside()?;
        let found = Self::view(host, &path)?;
        let before = found.bytes.as_deref().and_then(FileText::decode).unwrap_or_default();
        let bytes = match content.starts_with('\u{feff}') {
            true => content.as_bytes().to_vec(),
            false => before.encode(content),
        };
        let diff = diff_bytes(&path, found.bytes.as_deref(), content);
        let shown = path.absolute.to_string_lossy().into_owned();
        let metadata = json!({ "filepath": shown, "diff": diff.patch });
        let patterns = vec![path.relative.clone()];
        host.ask(permission_ask("edit", patterns, vec!["*".to_owned()], metadata))?;
        let exists = found.bytes.is_some();
        let change = FileChangeRequest {
            path: found.path.clone(),
            stamp: found.stamp,
            old: found.bytes,
            bytes: Some(bytes),
        };
        match write_files(host, &[change]) {
            Ok(()) => {}
            Err(ChangeFailure::Failed(error)) => return Err(error),
            Err(ChangeFailure::Changed) => {
                let shown = path.absolute.display();
                return Err(ToolError::failed(format!(
                    "{shown} has changed since it was read. Read it again with the tool read, then \
                     write it."
                )));
            }
        }
        format_files(host, &self.settings, &[found.path])?;
        let metadata = json!({ "diagnostics": {}, "filepath": shown, "exists": exists });
        Ok(ToolReply::new(path.relative, "Wrote file successfully.".to_owned(), metadata))
    }
}

/// Returns the file that a call with a `filePath` writes; unknown if it has none.
pub(crate) fn named_file(scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
    let path = AccessedPath::resolve(scope, input.get("filePath")?.as_str()?).ok()?;
    Some(vec![path.real])
}
