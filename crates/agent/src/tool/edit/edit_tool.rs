//! Editing for a model: looks at the file, replaces, asks, writes; begins again if the file changed.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_engine::FileReadResult;

use super::replacement::replace_text;
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::file_change::{
    ChangeFailure, FileChangeRequest, MAX_ATTEMPTS, busy_file, format_files, view_file, write_files,
};
use crate::tool::file_text::FileText;
use crate::tool::input::ToolInput;
use crate::tool::schema::{boolean, string, tool_schema};
use crate::tool::text_diff::{TextPatch, diff_texts};
use crate::tool::write::named_file;
use crate::tool::{Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};

/// The name of the tool.
const NAME: &str = "edit";

const DESCRIPTION: &str = "Replaces a text in a file by another.\n\n\
    - oldString must be in the file exactly once; add lines around it until it is. With replaceAll \
    every occurrence is replaced, for example to rename a variable.\n\
    - Copy oldString from what read returned, without the line numbers and with the exact \
    indentation. newString is inserted as it is.\n\
    - An empty oldString creates a file that does not exist.\n\
    - Line ends, a byte order mark and the mode of the file are kept.";

/// Replaces texts in files.
pub struct EditTool {
    settings: ToolSettings,
}

/// What a call asks for.
struct EditRequest<'i> {
    path: AccessedPath,
    old: &'i str,
    new: &'i str,
    all: bool,
}

/// A file as it is, and as it is going to be.
struct PlannedEdit {
    found: FileReadResult,
    before: FileText,
    after: String,
}

impl EditTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        Self { settings: settings.clone() }
    }

    /// Writes what was planned, and returns what it came to after the formatter.
    fn apply(
        &self,
        host: &dyn ToolHost,
        request: &EditRequest<'_>,
        planned: PlannedEdit,
    ) -> Result<TextPatch, ChangeFailure> {
        let PlannedEdit { found, before, after } = planned;
        let name = request.path.absolute.to_string_lossy();
        let diff = diff_texts(&name, &before.text, &after);
        let metadata = json!({ "filepath": name, "diff": diff.patch });
        let patterns = vec![request.path.relative.clone()];
        host.ask(permission_ask(NAME, patterns, vec!["*".to_owned()], metadata))?;
        let bytes = match found.bytes {
            Some(_) => before.encode(&after),
            None => after.clone().into_bytes(),
        };
        let change = FileChangeRequest {
            path: found.path.clone(),
            stamp: found.stamp,
            old: found.bytes,
            bytes: Some(bytes),
        };
        write_files(host, &[change])?;
        if !format_files(host, &self.settings, std::slice::from_ref(&found.path))? {
            return Ok(diff);
        }
        let formatted = view_file(host, &request.path)?.bytes.unwrap_or_default();
        let formatted = FileText::decode(&formatted).map_or(after, |file| file.text);
        Ok(diff_texts(&name, &before.text, &formatted))
    }
}

/// Looks at the file and replaces the text in it; writes nothing.
fn plan_edit(host: &dyn ToolHost, request: &EditRequest<'_>) -> Result<PlannedEdit, ToolError> {
    let shown = request.path.absolute.display();
    let found = view_file(host, &request.path)?;
    let Some(bytes) = &found.bytes else {
        if !request.old.is_empty() {
            return Err(ToolError::failed(format!("File not found: {shown}")));
        }
        let after = request.new.to_owned();
        return Ok(PlannedEdit { found, before: FileText::default(), after });
    };
    if request.old.is_empty() {
        return Err(ToolError::failed(format!(
            "{shown} exists: oldString must not be empty. To replace the whole file use write."
        )));
    }
    let Some(before) = FileText::decode(bytes) else {
        return Err(ToolError::failed(format!("{shown} is not UTF-8 text and was not changed.")));
    };
    let texts = (before.with_line_ends(request.old), before.with_line_ends(request.new));
    let after = replace_text(&before.text, (&texts.0, &texts.1), request.all)
        .map_err(|error| ToolError::failed(error.to_string()))?;
    if after == before.text {
        return Err(ToolError::failed(format!("The edit would not change {shown}.")));
    }
    Ok(PlannedEdit { found, before, after })
}

impl Tool for EditTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "filePath": string("The path of the file"),
            "oldString": string("The text to replace"),
            "newString": string("The text to put in its place; must differ from oldString"),
            "replaceAll": boolean("Replace every occurrence of oldString (false)"),
        });
        tool_schema(NAME, DESCRIPTION, &properties, &["filePath", "oldString", "newString"])
    }

    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
        named_file(scope, input)
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let request = EditRequest {
            path: AccessedPath::resolve(host.scope(), input.string("filePath")?)?,
            old: input.string("oldString")?,
            new: input.string("newString")?,
            all: input.optional_flag("replaceAll")?.unwrap_or(false),
        };
        if request.old == request.new {
            let words = "oldString and newString are the same: there is nothing to change.";
            return Err(ToolError::failed(words));
        }
        request.path.require_inside()?;
        for _ in 0..MAX_ATTEMPTS {
            let planned = plan_edit(host, &request)?;
            match self.apply(host, &request, planned) {
                Ok(diff) => return Ok(edit_reply(&request.path, &diff)),
                Err(ChangeFailure::Changed) => {}
                Err(ChangeFailure::Failed(error)) => return Err(error),
            }
        }
        Err(busy_file(&request.path))
    }
}

fn edit_reply(path: &AccessedPath, diff: &TextPatch) -> ToolReply {
    let metadata = json!({
        "diagnostics": {},
        "diff": diff.patch,
        "filediff": {
            "file": path.absolute.to_string_lossy(),
            "patch": diff.patch,
            "additions": diff.additions,
            "deletions": diff.deletions,
        },
    });
    ToolReply::new(path.relative.clone(), "Edit applied successfully.".to_owned(), metadata)
}
