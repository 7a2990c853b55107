//! Which skills there are: folders of the user and of the project with a `SKILL.md`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use turnstone_config::{ConfigEnvironment, ConfigError, SourceFolder};
use turnstone_core::front_matter::split_front_matter;

use super::directory_configuration::DirectoryConfiguration;
use crate::tool::SkillInfo;

/// The name of the file, without its ending.
const FILE_STEM: &str = "SKILL";
/// Folders with skills in a home directory and in a project.
const SKILL_FOLDERS: [&str; 4] =
    [".claude/skills", ".agents/skills", ".opencode/skill", ".opencode/skills"];
/// The same in the user's configuration folder.
const CONFIG_FOLDERS: [&str; 2] = ["opencode/skill", "opencode/skills"];

/// Returns the skills of a directory, by name; a nearer one replaces one of the same name.
pub(super) fn list_skills(
    environment: &ConfigEnvironment,
    place: &DirectoryConfiguration,
) -> Vec<SkillInfo> {
    let mut skills = SkillList::default();
    let user = |base: Option<&Path>, folders: &[&str]| -> Vec<PathBuf> {
        base.iter().flat_map(|base| folders.iter().map(|folder| base.join(folder))).collect()
    };
    let mut folders = user(environment.home(), &SKILL_FOLDERS);
    folders.extend(user(environment.config_folder(), &CONFIG_FOLDERS));
    for folder in folders {
        skills.add(&SourceFolder::of_user(&folder), Path::new(""));
    }
    let project = match SourceFolder::of_project(&place.root) {
        Ok(project) => Some(project),
        Err(error) => {
            log_failure(&error);
            None
        }
    };
    if let Some(project) = &project {
        for level in place.levels() {
            let inner = level.strip_prefix(&place.root).unwrap_or(Path::new(""));
            for folder in SKILL_FOLDERS {
                skills.add(project, &inner.join(folder));
            }
        }
    }
    for (text, base) in &place.configuration.settings().skill_paths {
        let path = match (text.strip_prefix("~/"), environment.home()) {
            (Some(inner), Some(home)) => home.join(inner),
            _ => base.as_deref().unwrap_or(&place.directory).join(text),
        };
        match (path.strip_prefix(&place.root), &project, base) {
            // What a project names stays in the project.
            (Ok(inner), Some(project), Some(_)) => skills.add(project, inner),
            _ => skills.add(&SourceFolder::of_user(&path), Path::new("")),
        }
    }
    skills.found.into_values().collect()
}

#[derive(Default)]
struct SkillList {
    found: BTreeMap<String, SkillInfo>,
}

impl SkillList {
    /// Adds the skills of a folder. One that cannot be read is not offered, and the log says why.
    fn add(&mut self, source: &SourceFolder, folder: &Path) {
        let files = match source.list_markdown(folder) {
            Ok(files) => files,
            Err(error) => return log_failure(&error),
        };
        for file in files {
            let is_skill = file.path.file_stem().is_some_and(|stem| stem == FILE_STEM);
            if !is_skill {
                continue;
            }
            match source.read_text(&file.path) {
                Ok(Some(text)) => self.add_file(&source.full_path(&file.path), &text),
                Ok(None) => {}
                Err(error) => log_failure(&error),
            }
        }
    }

    fn add_file(&mut self, file: &Path, text: &str) {
        let fields = match split_front_matter(text) {
            Ok((fields, _)) => fields,
            Err(reason) => {
                tracing::warn!("the skill {} cannot be used: {reason}", file.display());
                return;
            }
        };
        let field = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        let folder = file.parent().and_then(Path::file_name);
        let folder = folder.map(|name| name.to_string_lossy().into_owned());
        let Some(name) = field("name").or(folder).filter(|name| !name.is_empty()) else { return };
        let description = field("description").unwrap_or_default();
        self.found.insert(name.clone(), SkillInfo { name, description, file: file.to_owned() });
    }
}

fn log_failure(error: &ConfigError) {
    tracing::warn!("skills cannot be read: {error}");
}
