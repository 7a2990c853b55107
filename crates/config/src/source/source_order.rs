//! Which sources make up a configuration, the weakest first.

use std::path::{Path, PathBuf};

use super::file_access::SourceFolder;
use super::layer::{LayerOrigin, LayerReader, SettingsLayer};
use crate::environment::ConfigEnvironment;
use crate::error::ConfigError;
use crate::trust::TrustedFiles;

/// The names of a configuration file, the stronger one last.
const FILE_NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// Our own file of a project, stronger than OpenCode's next to it.
const OWN_FILE_NAME: &str = "turnstone.json";
/// Folders of Markdown files: the folder, the table it fills, and the field that holds the text.
const MARKDOWN_FOLDERS: [(&str, &str, &str); 6] = [
    ("command", "command", "template"),
    ("commands", "command", "template"),
    ("agent", "agent", "prompt"),
    ("agents", "agent", "prompt"),
    ("mode", "mode", "prompt"),
    ("modes", "mode", "prompt"),
];

/// Where a configuration comes from.
#[derive(Clone, Copy, Debug)]
pub struct ConfigSources<'s> {
    /// The surroundings of the program.
    pub environment: &'s ConfigEnvironment,
    /// The root of a project and the directory in it that is worked in, both absolute and without links; none
    /// for the user's configuration alone.
    pub project: Option<(&'s Path, &'s Path)>,
}

impl ConfigSources<'_> {
    /// Reads every source, the weakest first, in OpenCode's order.
    pub(crate) fn read_layers(
        &self,
        trusted: &TrustedFiles,
    ) -> Result<Vec<SettingsLayer>, ConfigError> {
        let environment = self.environment;
        let (own, project) = (LayerOrigin::User, LayerOrigin::Project);
        let user = LayerReader { environment, origin: own, trusted };
        let projects = LayerReader { environment, origin: project, trusted };
        let mut list = LayerList { layers: Vec::new() };
        let global = environment.config_folder().map(|folder| folder.join("opencode"));
        let global = global.as_deref().map(SourceFolder::of_user);
        if let Some(global) = &global {
            list.add_file(&user, global, Path::new("config.json"))?;
            list.add_files(&user, global, Path::new(""))?;
        }
        let is_enabled = !environment.has_flag("OPENCODE_DISABLE_PROJECT_CONFIG");
        let project = match self.project {
            Some(found) => Some((SourceFolder::of_project(found.0)?, project_levels(found))),
            None => None,
        };
        if let Some(file) = environment.variable("OPENCODE_CONFIG") {
            list.add_named_file(&user, &projects, self.named_path(file), project.as_ref())?;
        }
        let project = project.filter(|_| is_enabled);
        if let Some((root, levels)) = &project {
            for level in levels {
                list.add_files(&projects, root, level)?;
                list.add_file(&projects, root, &level.join(OWN_FILE_NAME))?;
            }
        }
        if let Some(global) = &global {
            list.add_markdown(&user, global, Path::new(""))?;
        }
        let home = environment.home().map(|home| home.join(".opencode"));
        if let Some((root, levels)) = &project {
            // The folder of the directory itself comes first, so one further up is stronger.
            for level in levels.iter().rev() {
                let folder = level.join(".opencode");
                // A user who works in the home directory meets their own folder.
                if Some(root.full_path(&folder)) != home {
                    list.add_files(&projects, root, &folder)?;
                    list.add_markdown(&projects, root, &folder)?;
                }
            }
        }
        let further = environment.variable("OPENCODE_CONFIG_DIR").map(PathBuf::from);
        // A relative folder would be one of the project.
        let further = further.filter(|folder| folder.is_absolute());
        for path in [home, further].into_iter().flatten() {
            let folder = SourceFolder::of_user(&path);
            list.add_files(&user, &folder, Path::new(""))?;
            list.add_markdown(&user, &folder, Path::new(""))?;
        }
        list.add_variables(&user)?;
        if let Some(path) = environment.managed_folder() {
            list.add_files(&user, &SourceFolder::of_user(path), Path::new(""))?;
        }
        list.add_permission_variable(&user)?;
        Ok(list.layers)
    }

    /// The path of a file that a variable names; a relative one begins at the directory that is worked in.
    fn named_path(&self, file: &str) -> PathBuf {
        let base = self.project.map(|(_, directory)| directory).or(self.environment.home());
        base.map_or_else(|| PathBuf::from(file), |base| base.join(file))
    }
}

/// The folders from the root of a project to the directory, relative to the root.
fn project_levels((root, directory): (&Path, &Path)) -> Vec<PathBuf> {
    let inner = directory.strip_prefix(root).unwrap_or(Path::new(""));
    let mut levels: Vec<PathBuf> = inner.ancestors().map(Path::to_owned).collect();
    levels.reverse();
    levels
}

struct LayerList {
    layers: Vec<SettingsLayer>,
}

impl LayerList {
    fn add_file(
        &mut self,
        reader: &LayerReader<'_>,
        folder: &SourceFolder,
        file: &Path,
    ) -> Result<(), ConfigError> {
        if let Some(text) = folder.read_text(file)? {
            self.layers.push(reader.read_json(&folder.full_path(file), text)?);
        }
        Ok(())
    }

    /// A file that a variable names: it is the project's if it lies in the project.
    fn add_named_file(
        &mut self,
        user: &LayerReader<'_>,
        projects: &LayerReader<'_>,
        path: PathBuf,
        project: Option<&(SourceFolder, Vec<PathBuf>)>,
    ) -> Result<(), ConfigError> {
        let real = fs_err::canonicalize(&path).unwrap_or(path);
        if let Some((root, _)) = project
            && let Ok(inner) = real.strip_prefix(root.full_path(Path::new("")))
        {
            return self.add_file(projects, root, inner);
        }
        self.add_file(user, &SourceFolder::of_user(Path::new("/")), &real)
    }

    fn add_files(
        &mut self,
        reader: &LayerReader<'_>,
        folder: &SourceFolder,
        inner: &Path,
    ) -> Result<(), ConfigError> {
        FILE_NAMES.iter().try_for_each(|name| self.add_file(reader, folder, &inner.join(name)))
    }

    fn add_markdown(
        &mut self,
        reader: &LayerReader<'_>,
        folder: &SourceFolder,
        inner: &Path,
    ) -> Result<(), ConfigError> {
        for (name, kind, body) in MARKDOWN_FOLDERS {
            for file in folder.list_markdown(&inner.join(name))? {
                let Some(text) = folder.read_text(&file.path)? else { continue };
                let path = folder.full_path(&file.path);
                self.layers.push(reader.read_markdown(&path, text, (kind, body, &file.name))?);
            }
        }
        Ok(())
    }

    fn add_variables(&mut self, user: &LayerReader<'_>) -> Result<(), ConfigError> {
        let name = "OPENCODE_CONFIG_CONTENT";
        if let Some(text) = user.environment.variable(name) {
            self.layers.push(user.read_json(Path::new(name), text.to_owned())?);
        }
        Ok(())
    }

    /// `OPENCODE_PERMISSION` holds the value of `permission`.
    fn add_permission_variable(&mut self, user: &LayerReader<'_>) -> Result<(), ConfigError> {
        let name = "OPENCODE_PERMISSION";
        if let Some(text) = user.environment.variable(name) {
            let text = format!("{{\"permission\":{text}\n}}");
            self.layers.push(user.read_json(Path::new(name), text)?);
        }
        Ok(())
    }
}
