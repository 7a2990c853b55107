//! The tool `skill`: returns instructions for a kind of work, with the files that belong to them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use turnstone_engine::read_bounded_file;

use super::accessed_path::permission_ask;
use super::input::ToolInput;
use super::schema::{string, tool_schema};
use super::{Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};
use crate::model::ToolSchema;

/// The name of the tool.
const NAME: &str = "skill";
/// Files next to the instructions that are named.
const MAX_FILES: usize = 10;
/// A longer file of instructions is refused.
const MAX_SKILL_BYTES: u64 = 1 << 20;

const DESCRIPTION: &str = "Loads a skill: instructions and files for a kind of work. Load one as soon as \
    the task fits its description.";

/// A skill that an agent can load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillInfo {
    /// Its name.
    pub name: String,
    /// When to load it.
    pub description: String,
    /// Its `SKILL.md`.
    pub file: PathBuf,
}

impl SkillInfo {
    /// Reads the instructions, without the block of fields before them; `None` if the file is gone.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or it is too large.
    pub fn read_instructions(&self) -> std::io::Result<Option<String>> {
        let bytes = read_bounded_file(&self.file, MAX_SKILL_BYTES)?;
        let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(text.map(|text| without_front_matter(&text).trim().to_owned()))
    }
}

/// Loads skills.
pub struct SkillTool {
    skills: Vec<SkillInfo>,
}

impl SkillTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        let mut skills = settings.skills.clone();
        skills.sort_by(|one, two| one.name.cmp(&two.name));
        Self { skills }
    }
}

impl Tool for SkillTool {
    fn schema(&self) -> ToolSchema {
        let skill = |skill: &SkillInfo| format!("- {}: {}", skill.name, skill.description);
        let skills: Vec<String> = self.skills.iter().map(skill).collect();
        let description = match skills.is_empty() {
            true => format!("{DESCRIPTION} No skills are available."),
            false => format!("{DESCRIPTION}\n\nSkills:\n{}", skills.join("\n")),
        };
        let properties = json!({ "name": string("The name of the skill") });
        tool_schema(NAME, description, &properties, &["name"])
    }

    fn written_paths(&self, _scope: &ToolScope, _input: &Value) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let name = ToolInput::new(NAME, input)?.string("name")?;
        let Some(skill) = self.skills.iter().find(|skill| skill.name == name) else {
            let names: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(ToolError::failed(format!("There is no skill {name:?}. Skills: {known}")));
        };
        let own = || vec![name.to_owned()];
        host.ask(permission_ask(NAME, own(), own(), json!({})))?;
        let failed = |error| ToolError::failed(format!("The skill {name} cannot be read: {error}"));
        let Some(instructions) = skill.read_instructions().map_err(failed)? else {
            let shown = skill.file.display();
            return Err(ToolError::failed(format!("The skill {name} is gone: {shown}")));
        };
        let folder = skill.file.parent().unwrap_or(Path::new("/"));
        let files: Vec<String> = list_files(folder, &skill.file)
            .into_iter()
            .map(|file| format!("<file>{file}</file>"))
            .collect();
        let output = format!(
            "<skill_content name=\"{name}\">\n# Skill: {name}\n\n{}\n\nBase directory of this skill: {}\n\
             Relative paths in it start there. Not all of its files may be listed.\n\n\
             <skill_files>\n{}\n</skill_files>\n</skill_content>",
            instructions,
            folder.display(),
            files.join("\n")
        );
        let metadata = json!({ "name": name, "dir": folder.to_string_lossy() });
        Ok(ToolReply::new(format!("Loaded skill: {name}"), output, metadata))
    }
}

/// Returns the text behind the block between two lines of `---` that a file may begin with.
fn without_front_matter(text: &str) -> &str {
    let Some(rest) = text.trim_start_matches('\u{feff}').strip_prefix("---") else { return text };
    match rest.find("\n---") {
        Some(at) => {
            let after = rest.get(at + 4..).unwrap_or_default();
            after.split_once('\n').map_or("", |(_, body)| body)
        }
        None => text,
    }
}

/// Returns some files below a folder, sorted; links are not followed.
fn list_files(folder: &Path, except: &Path) -> Vec<String> {
    let walk = ignore::WalkBuilder::new(folder)
        .follow_links(false)
        .sort_by_file_name(Ord::cmp)
        .require_git(false)
        .build();
    let files = walk.filter_map(Result::ok).filter(|entry| {
        entry.file_type().is_some_and(|kind| kind.is_file()) && entry.path() != except
    });
    files.take(MAX_FILES).map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_not_part_of_the_instructions() {
        assert_eq!(without_front_matter("---\nname: a\n---\nbody\n"), "body\n");
        assert_eq!(without_front_matter("body\n---\nmore"), "body\n---\nmore");
        assert_eq!(without_front_matter("---\nno end"), "---\nno end");
        assert_eq!(without_front_matter("---\nname: a\n---"), "");
    }
}
