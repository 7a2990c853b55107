//! The instruction files of a directory: the person's, the project's, and those that the configuration names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use turnstone_config::{ConfigEnvironment, ConfigError, SourceFolder};
use turnstone_outbound::{
    AddressPolicy, HttpClient, HttpMethod, OutboundError, OutboundRequest, OutboundTimeouts,
    RedirectPolicy,
};

use super::directory_configuration::DirectoryConfiguration;
use super::instruction_patterns::find_matching_files;

/// The names of instruction files in a project: the first that exists anywhere counts.
pub(super) const PROJECT_NAMES: [&str; 3] = ["AGENTS.md", "CLAUDE.md", "CONTEXT.md"];
/// How long an instruction text may take that is fetched.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest text that is fetched.
const MAX_FETCHED_BYTES: u64 = 1 << 20;
/// How many redirects are followed.
const REDIRECT_LIMIT: usize = 5;

/// An instruction text, with where it comes from.
type InstructionText = (String, String);

/// Reads the instruction files of a directory.
pub(super) struct InstructionReader<'r> {
    pub(super) place: &'r DirectoryConfiguration,
    pub(super) environment: &'r ConfigEnvironment,
    pub(super) client: &'r HttpClient,
}

impl InstructionReader<'_> {
    /// Returns the texts, each with its source: the person's, then the project's from the root down, then the
    /// configured ones. A file that cannot be read is named with the reason.
    pub(super) fn read_all(&self) -> Vec<InstructionText> {
        let mut texts = Vec::new();
        let global = [
            self.environment.config_folder().map(|folder| folder.join("opencode/AGENTS.md")),
            self.environment.home().map(|home| home.join(".claude/CLAUDE.md")),
        ];
        let mut global = global.into_iter().flatten();
        texts.extend(global.find_map(|path| read_user_file(&path)));
        let project = match SourceFolder::of_project(&self.place.root) {
            Ok(project) => project,
            Err(error) => {
                texts.push(unreadable(&self.place.root.display().to_string(), &error));
                return texts;
            }
        };
        texts.extend(self.read_project_files(&project));
        for (text, base) in &self.place.configuration.settings().instructions {
            for found in self.read_configured(&project, text, base.as_deref()) {
                if !texts.iter().any(|(known, _)| *known == found.0) {
                    texts.push(found);
                }
            }
        }
        texts
    }

    fn read_project_files(&self, project: &SourceFolder) -> Vec<InstructionText> {
        let levels = self.place.levels();
        let read = |name: &str| -> Vec<InstructionText> {
            let paths = levels.iter().map(|level| level.join(name));
            paths.filter_map(|path| read_project_file(project, &self.place.root, &path)).collect()
        };
        let mut found = PROJECT_NAMES.iter().map(|name| read(name));
        found.find(|texts| !texts.is_empty()).unwrap_or_default()
    }

    /// Reads what one entry of `instructions` names; `base` is the folder of the project's file that has it.
    fn read_configured(
        &self,
        project: &SourceFolder,
        entry: &str,
        base: Option<&Path>,
    ) -> Vec<InstructionText> {
        if entry.starts_with("https://") || entry.starts_with("http://") {
            let addresses = match base {
                Some(_) => AddressPolicy::PublicOnly,
                None => AddressPolicy::Any,
            };
            return vec![self.fetch(entry, addresses)];
        }
        let home =
            entry.strip_prefix("~/").and_then(|inner| Some(self.environment.home()?.join(inner)));
        let pattern = home.unwrap_or_else(|| PathBuf::from(entry));
        let bases = match (pattern.is_absolute(), base) {
            (true, _) => vec![PathBuf::from("/")],
            (false, Some(base)) => vec![base.to_owned()],
            // The user's relative patterns hold at every level of the project.
            (false, None) => self.place.levels(),
        };
        let files = bases.iter().flat_map(|base| find_matching_files(base, &pattern));
        let read = |path: PathBuf| match (path.starts_with(&self.place.root), pattern.is_absolute())
        {
            (true, false) => read_project_file(project, &self.place.root, &path),
            // An absolute entry of a project is in force only if the user trusts it.
            _ => read_user_file(&path),
        };
        files.filter_map(read).collect()
    }

    fn fetch(&self, url: &str, addresses: AddressPolicy) -> InstructionText {
        let mut response = self.client.start(OutboundRequest {
            method: HttpMethod::Get,
            url: url.to_owned(),
            headers: vec![("accept".to_owned(), "text/markdown, text/plain, */*".to_owned())],
            credentials: Vec::new(),
            body: None,
            addresses,
            redirects: RedirectPolicy::Follow(REDIRECT_LIMIT),
            timeouts: OutboundTimeouts { total: Some(FETCH_TIMEOUT), ..OutboundTimeouts::NONE },
            max_body: MAX_FETCHED_BYTES,
        });
        let mut read = || -> Result<String, OutboundError> {
            let head = response.read_head()?;
            let body = response.read_to_end()?;
            Ok(match head.status {
                200..300 => String::from_utf8_lossy(&body).into_owned(),
                status => format!("(This text cannot be read: the server answers {status}.)"),
            })
        };
        let text = read().unwrap_or_else(|error| format!("(This text cannot be read: {error})"));
        (url.to_owned(), text)
    }
}

/// Reads an instruction file of a project; it leads nowhere else.
pub(super) fn read_project_file(
    project: &SourceFolder,
    root: &Path,
    path: &Path,
) -> Option<InstructionText> {
    let inner = path.strip_prefix(root).ok()?;
    text_of(path, project.read_text(inner))
}

fn read_user_file(path: &Path) -> Option<InstructionText> {
    let (folder, name) = (path.parent()?, path.file_name()?);
    text_of(path, SourceFolder::of_user(folder).read_text(Path::new(name)))
}

fn text_of(path: &Path, read: Result<Option<String>, ConfigError>) -> Option<InstructionText> {
    let source = path.display().to_string();
    match read {
        Ok(text) => Some((source, text?)),
        Err(error) => Some(unreadable(&source, &error)),
    }
}

/// A file that is there and cannot be read is named: its rules hold, and nobody knows them.
fn unreadable(source: &str, error: &ConfigError) -> InstructionText {
    tracing::warn!("instructions in {source} cannot be read: {}", error.message);
    (source.to_owned(), format!("(This file cannot be read: {})", error.message))
}
