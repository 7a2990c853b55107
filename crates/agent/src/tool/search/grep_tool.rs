//! Finding lines by content for a model.

use std::path::PathBuf;

use serde_json::{Value, json};
use turnstone_engine::open_regular_file;

use super::content_search::{ContentSearch, GrepLine};
use super::file_walk::FileWalk;
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::input::ToolInput;
use crate::tool::schema::{string, tool_schema};
use crate::tool::{Tool, ToolError, ToolHost, ToolReply, ToolScope};

/// The name of the tool.
const NAME: &str = "grep";
/// Lines that are returned.
const MAX_MATCHES: usize = 100;

const DESCRIPTION: &str = "Finds lines in files by a regular expression.\n\n\
    - pattern is an expression such as `fn \\w+\\(` in the syntax of Rust's regex crate; it matches \
    within one line.\n\
    - include narrows the files by name, for example `*.rs` or `*.{ts,tsx}`; path is a directory or a file.\n\
    - Returns at most 100 lines with their numbers, by file. Files that git ignores and binary \
    files are left out.";

/// Finds lines by content.
pub struct GrepTool;

impl Tool for GrepTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({
            "pattern": string("The regular expression"),
            "path": string("The directory or file to search (the working directory)"),
            "include": string("A glob for the names of files"),
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
        let include = input.optional_string("include")?.filter(|include| !include.is_empty());
        if pattern.is_empty() {
            return Err(ToolError::failed("pattern must not be empty."));
        }
        let place = AccessedPath::resolve(host.scope(), path.unwrap_or("."))?;
        place.ask_if_outside(host)?;
        let metadata = json!({ "pattern": pattern, "path": path, "include": include });
        host.ask(permission_ask(NAME, vec![pattern.to_owned()], vec!["*".to_owned()], metadata))?;
        let mut search = ContentSearch::new(pattern, MAX_MATCHES)?;
        let mut search_file = |path: PathBuf| match open_regular_file(&path) {
            Ok(Some(file)) => search.search(path, &file),
            // What cannot be read is passed over.
            Ok(None) | Err(_) => true,
        };
        if place.real.is_dir() {
            let walk = FileWalk { directory: &place.real, pattern: include, with_hidden: true };
            walk.run(host.abort(), &mut search_file)?;
        } else if place.real.is_file() {
            search_file(place.real);
        } else {
            let shown = place.absolute.display();
            return Err(ToolError::failed(format!("{shown} is neither a directory nor a file.")));
        }
        Ok(show_matches(pattern, search.found))
    }
}

fn show_matches(pattern: &str, mut found: Vec<GrepLine>) -> ToolReply {
    let is_cut = found.len() > MAX_MATCHES;
    found.truncate(MAX_MATCHES);
    let mut output = match (found.len(), is_cut) {
        (0, _) => "No files found".to_owned(),
        (count, false) => format!("Found {count} matches"),
        (count, true) => format!("Found more than {count} matches, showing the first {count}"),
    };
    let mut file = None;
    for line in &found {
        if file != Some(&line.file) {
            let gap = if file.is_some() { "\n" } else { "" };
            output.push_str(&format!("{gap}\n{}:", line.file.display()));
            file = Some(&line.file);
        }
        output.push_str(&format!("\n  Line {}: {}", line.number, line.text));
    }
    if is_cut {
        output.push_str(
            "\n\n(There are more matches. Use a more specific path, include or pattern.)",
        );
    }
    let metadata = json!({ "matches": found.len(), "truncated": is_cut });
    ToolReply::new(pattern.to_owned(), output, metadata)
}
