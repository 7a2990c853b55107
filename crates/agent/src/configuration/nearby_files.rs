//! The instruction files between a file that a model reads and the directory of its session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use turnstone_config::SourceFolder;
use turnstone_core::model::{Part, PartBody, ToolState};

use super::directory_configuration::levels_between;
use super::instruction_files::{PROJECT_NAMES, read_project_file};
use crate::tool::{InstructionFile, NearbyInstructions, ToolHost};

/// The tool that shows them, and the field of its metadata that names them.
const READ_TOOL: &str = "read";
const LOADED_FIELD: &str = "loaded";

/// Finds instruction files near a file; each is shown once in a conversation, and again after a compaction.
pub(super) struct NearbyFiles;

impl NearbyInstructions for NearbyFiles {
    fn find(&self, host: &dyn ToolHost, file: &Path) -> Vec<InstructionFile> {
        let directory = &host.scope().directory;
        let Some(folder) = file.parent().filter(|folder| folder.starts_with(directory)) else {
            return Vec::new();
        };
        let Ok(project) = SourceFolder::of_project(directory) else { return Vec::new() };
        // The system prompt has those of the directory itself and above.
        let levels = levels_between(directory, folder).into_iter().skip(1);
        let read = |level: PathBuf| {
            PROJECT_NAMES.iter().map(|name| level.join(name)).find_map(|path| {
                let (_, text) = read_project_file(&project, directory, &path)?;
                Some(InstructionFile { path, text })
            })
        };
        let mut found: Vec<InstructionFile> = levels.filter_map(read).collect();
        found.retain(|near| near.path != file);
        if !found.is_empty() {
            let known = list_loaded(host);
            found.retain(|near| !known.contains(near.path.to_string_lossy().as_ref()));
        }
        found
    }
}

/// The instruction files that the model still sees. If they cannot be read, a file is shown twice.
fn list_loaded(host: &dyn ToolHost) -> BTreeSet<String> {
    let contexts = host.engine().turns().contexts();
    let seen = contexts.model_context(&host.context(), &host.scope().session).unwrap_or_default();
    seen.iter().flat_map(|(_, parts)| parts).flat_map(loaded_by).collect()
}

fn loaded_by(part: &Part) -> Vec<String> {
    let PartBody::Tool(tool) = &part.body else { return Vec::new() };
    let ToolState::Completed { metadata, time, .. } = &tool.state else { return Vec::new() };
    if tool.tool != READ_TOOL || time.compacted.is_some() {
        return Vec::new();
    }
    let loaded = metadata.get(LOADED_FIELD).and_then(|loaded| loaded.as_array());
    let paths = loaded.into_iter().flatten();
    paths.filter_map(|path| path.as_str().map(str::to_owned)).collect()
}
