//! Finding files by name for a model.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::file_walk::FileWalk;
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::input::ToolInput;
use crate::tool::schema::{string, tool_schema};
use crate::tool::{Tool, ToolError, ToolHost, ToolReply, ToolScope};

/// The name of the tool.
const NAME: &str = "glob";
/// Files that are returned.
const MAX_FILES: usize = 100;

const DESCRIPTION: &str = "Finds files by name.\n\n\
    - pattern is a glob such as `*.rs` (in every folder) or `src/**/*.ts` (from path).\n\
    - Returns absolute paths, at most 100. Files that git ignores and hidden files are left out.\n\
    - To search the contents of files use grep; for a search of many steps use task.";

/// Finds files by name.
pub struct GlobTool;

impl Tool for GlobTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "pattern": string("The glob"),
            "path": string("The directory to search (the working directory)"),
        });
        tool_schema(NAME, DESCRIPTION, &properties, &["pattern"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let pattern = input.string("pattern")?;
        let path = input.optional_string("path")?.filter(|path| !path.is_empty());
        let directory = AccessedPath::resolve(host.scope(), path.unwrap_or("."))?;
        directory.ask_if_outside(host)?;
        let metadata = json!({ "pattern": pattern, "path": path });
        host.ask(permission_ask(NAME, vec![pattern.to_owned()], vec!["*".to_owned()], metadata))?;
        if !directory.real.is_dir() {
            let shown = directory.absolute.display();
            return Err(ToolError::failed(format!("{shown} is not a directory.")));
        }
        // An absolute pattern means files below the directory.
        let prefix = format!("{}/", directory.absolute.display());
        let pattern = pattern.strip_prefix(&prefix).unwrap_or(pattern);
        let walk =
            FileWalk { directory: &directory.real, pattern: Some(pattern), with_hidden: false };
        let mut files = Vec::new();
        walk.run(host.abort(), &mut |file| {
            files.push(file);
            files.len() <= MAX_FILES
        })?;
        let is_cut = files.len() > MAX_FILES;
        files.truncate(MAX_FILES);
        let mut lines: Vec<String> =
            files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        if lines.is_empty() {
            lines.push("No files found".to_owned());
        }
        if is_cut {
            lines.push(String::new());
            lines.push(format!(
                "(Only the first {MAX_FILES} files are shown. Use a more specific path or pattern.)"
            ));
        }
        let metadata = json!({ "count": files.len(), "truncated": is_cut });
        Ok(ToolReply::new(directory.relative, lines.join("\n"), metadata))
    }
}
