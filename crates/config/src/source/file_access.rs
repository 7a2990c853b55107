//! Reading configuration files: the user's own wherever links lead, a project's only inside of the project.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::error::ConfigError;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The most Markdown files of one folder.
const MAX_MARKDOWN_FILES: usize = 1_000;
/// How deep such a folder may be nested.
const MAX_FOLDER_DEPTH: usize = 4;

/// A folder whose files are read: of the user, or a project that no file may lead out of.
#[derive(Debug)]
pub struct SourceFolder {
    path: PathBuf,
    /// The open root that no file may leave; nothing for the user's own folders.
    confined: Option<OwnedFd>,
}

impl SourceFolder {
    /// A folder of the user: links are followed, because people link their settings.
    #[must_use]
    pub fn of_user(path: &Path) -> Self {
        Self { path: path.to_owned(), confined: None }
    }

    /// The root of a project: what a repository holds leads nowhere else.
    ///
    /// # Errors
    ///
    /// The root cannot be opened.
    pub fn of_project(root: &Path) -> Result<Self, ConfigError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(root, flags, Mode::empty())
            .map_err(|errno| ConfigError::new(root, errno.to_string()))?;
        Ok(Self { path: root.to_owned(), confined: Some(handle) })
    }

    /// Returns the whole path of a file.
    #[must_use]
    pub fn full_path(&self, inner: &Path) -> PathBuf {
        self.path.join(inner)
    }

    /// Reads a file as text; nothing if it does not exist.
    ///
    /// # Errors
    ///
    /// It is no regular file, too large, no text, or leads out of the project.
    pub fn read_text(&self, inner: &Path) -> Result<Option<String>, ConfigError> {
        let whole = self.full_path(inner);
        let Some(root) = &self.confined else { return read_text_file(&whole) };
        let opened = match open_below(root, inner) {
            Err(Errno::LOOP | Errno::NOTDIR) => match self.resolve_link(&whole)? {
                Some(inside) => open_below(root, &inside),
                None => return Ok(None),
            },
            opened => opened,
        };
        match opened {
            Ok(file) => read_open_file(&whole, file).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NXIO | Errno::NODEV) => Err(not_regular(&whole)),
            Err(errno) => Err(ConfigError::new(&whole, errno.to_string())),
        }
    }

    /// Where a link of the project leads, below its root; nothing if it leads nowhere.
    fn resolve_link(&self, whole: &Path) -> Result<Option<PathBuf>, ConfigError> {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        let real = match fs_err::canonicalize(whole) {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
            Err(error) => return Err(ConfigError::new(whole, error.kind().to_string())),
        };
        match real.strip_prefix(&self.path) {
            Ok(inside) => Ok(Some(inside.to_owned())),
            Err(_) => Err(ConfigError::new(whole, "it leads out of the project")),
        }
    }

    /// Lists the Markdown files of a folder and of those below it: names without the ending, and paths.
    ///
    /// # Errors
    ///
    /// A folder cannot be read, or there are too many files.
    pub fn list_markdown(&self, inner: &Path) -> Result<Vec<MarkdownFile>, ConfigError> {
        let mut found = Vec::new();
        let mut open = vec![(String::new(), inner.to_owned(), 0)];
        while let Some((prefix, folder, depth)) = open.pop() {
            let whole = self.full_path(&folder);
            for (name, is_folder) in self.list_entries(&folder)? {
                let path = folder.join(&name);
                if is_folder && depth < MAX_FOLDER_DEPTH {
                    open.push((format!("{prefix}{name}/"), path, depth + 1));
                } else if let Some(name) = name.strip_suffix(".md").filter(|_| !is_folder) {
                    found.push(MarkdownFile { name: format!("{prefix}{name}"), path });
                }
            }
            if found.len() + open.len() > MAX_MARKDOWN_FILES {
                return Err(ConfigError::new(&whole, "there are too many files"));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// The folders and regular files of a folder; links to files count for the user's own folders only.
    fn list_entries(&self, folder: &Path) -> Result<Vec<(String, bool)>, ConfigError> {
        let whole = self.full_path(folder);
        let opened = match &self.confined {
            Some(root) => match open_folder(root, folder) {
                Err(Errno::LOOP | Errno::NOTDIR) => match self.resolve_link(&whole)? {
                    Some(inside) => open_folder(root, &inside),
                    None => return Ok(Vec::new()),
                },
                opened => opened,
            },
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                rustix::fs::open(&whole, flags, Mode::empty())
            }
        };
        let handle = match opened {
            Ok(handle) => handle,
            // A repository may hold anything of this name.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
            Err(errno) => return Err(ConfigError::new(&whole, errno.to_string())),
        };
        let failed = |errno: Errno| ConfigError::new(&whole, errno.to_string());
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&handle).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Without a text as name it cannot be asked for.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if matches!(name, "." | "..") {
                continue;
            }
            let flags = match self.confined {
                Some(_) => rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                None => rustix::fs::AtFlags::empty(),
            };
            let Ok(stat) = rustix::fs::statat(&handle, entry.file_name(), flags) else { continue };
            let kind = FileType::from_raw_mode(stat.st_mode);
            if matches!(kind, FileType::Directory | FileType::RegularFile) {
                entries.push((name.to_owned(), kind == FileType::Directory));
            }
            if entries.len() > MAX_MARKDOWN_FILES {
                return Err(ConfigError::new(&whole, "there are too many files"));
            }
        }
        Ok(entries)
    }
}

/// A Markdown file of an agent, a command or a skill.
#[derive(Debug)]
pub struct MarkdownFile {
    /// Its path below the folder without the ending: the name of the agent or command.
    pub name: String,
    /// Its path below the source folder.
    pub path: PathBuf,
}

/// Reads a file of the user as text; nothing if it does not exist.
///
/// # Errors
///
/// It is no regular file, too large, or no text.
pub(crate) fn read_text_file(path: &Path) -> Result<Option<String>, ConfigError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => read_open_file(path, file).map(Some),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(Errno::NXIO | Errno::NODEV) => Err(not_regular(path)),
        Err(errno) => Err(ConfigError::new(path, errno.to_string())),
    }
}

fn read_open_file(path: &Path, file: OwnedFd) -> Result<String, ConfigError> {
    let file = File::from(file);
    let failed = |error: std::io::Error| ConfigError::new(path, error.kind().to_string());
    // It may hold a denial, so a pipe or a folder is not taken for an absent file.
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(not_regular(path));
    }
    let mut bytes = Vec::new();
    // The size may change meanwhile: what counts is what arrives.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ConfigError::new(path, "it is too large"));
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::new(path, "it is not text"))
}

fn not_regular(path: &Path) -> ConfigError {
    ConfigError::new(path, "it is not a regular file")
}

/// Opens a file component by component: no link leads astray, not even one that is made meanwhile.
fn open_below(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let name = path.file_name().ok_or(Errno::ISDIR)?;
    let folder = open_folder(root, path.parent().unwrap_or(Path::new("")))?;
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat(&folder, name, flags, Mode::empty())
}

fn open_folder(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = rustix::fs::openat(root, ".", flags, Mode::empty())?;
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => at = rustix::fs::openat(&at, name, flags, Mode::empty())?,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(Errno::XDEV);
            }
        }
    }
    Ok(at)
}
