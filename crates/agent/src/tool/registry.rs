//! The built-in tools.

use std::sync::Arc;

use super::bash::BashTool;
use super::edit::EditTool;
use super::patch::ApplyPatchTool;
use super::question::QuestionTool;
use super::read::ReadTool;
use super::search::{GlobTool, GrepTool};
use super::skill::SkillTool;
use super::task::TaskTool;
use super::todo_write::TodoWriteTool;
use super::web::WebFetchTool;
use super::write::WriteTool;
use super::{Tool, ToolSettings};

/// Returns the built-in tools, sorted by name.
#[must_use]
pub fn builtin_tools(settings: &ToolSettings) -> Vec<Arc<dyn Tool>> {
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(ApplyPatchTool::new(settings)),
        Arc::new(BashTool::new(settings)),
        Arc::new(EditTool::new(settings)),
        Arc::new(GlobTool),
        Arc::new(GrepTool),
        Arc::new(QuestionTool),
        Arc::new(ReadTool::new(settings)),
        Arc::new(SkillTool::new(settings)),
        Arc::new(TaskTool::new(settings)),
        Arc::new(TodoWriteTool),
        Arc::new(WebFetchTool::new(settings)),
        Arc::new(WriteTool::new(settings)),
    ];
    tools.sort_by_key(|tool| tool.schema().name);
    tools
}

/// True if a model, by its name at the provider, changes files with `apply_patch` instead of `edit` and
/// `write`.
#[must_use]
pub fn prefers_patches(model: &str) -> bool {
    model.contains("gpt-") && !model.contains("gpt-4") && !model.contains("oss")
}
