//! The files of a patch before and after it; nothing is written here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use turnstone_engine::FileReadResult;

use super::patch_text::{PatchChunk, PatchOperation};
use super::updated_text::update_text;
use crate::tool::accessed_path::AccessedPath;
use crate::tool::file_change::{FileChangeRequest, view_file};
use crate::tool::file_text::FileText;
use crate::tool::{ToolError, ToolHost};

/// What a patch does to a file, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Add,
    Update,
    Delete,
    Move,
}

/// What a patch does to one file.
pub(super) struct PatchedFile {
    pub(super) kind: PatchKind,
    pub(super) path: AccessedPath,
    /// Where the file goes.
    pub(super) target: Option<AccessedPath>,
    pub(super) before: String,
    pub(super) after: String,
}

/// A file as it is on disk, and as the patch leaves it.
struct PatchedState {
    found: FileReadResult,
    now: Option<Vec<u8>>,
}

/// All files of a patch.
#[derive(Default)]
pub(super) struct PatchedFiles {
    states: BTreeMap<PathBuf, PatchedState>,
    pub(super) files: Vec<PatchedFile>,
}

impl PatchedFiles {
    /// Makes the changes of a patch in memory, one after the other.
    pub(super) fn plan(
        host: &dyn ToolHost,
        operations: &[PatchOperation],
    ) -> Result<Self, ToolError> {
        let mut planned = Self::default();
        for operation in operations {
            let file = match operation {
                PatchOperation::Add { path, content } => planned.add(host, path, content)?,
                PatchOperation::Delete { path } => planned.delete(host, path)?,
                PatchOperation::Update { path, target, chunks } => {
                    planned.update(host, path, target.as_deref(), chunks)?
                }
            };
            planned.files.push(file);
        }
        Ok(planned)
    }

    fn add(
        &mut self,
        host: &dyn ToolHost,
        path: &str,
        content: &str,
    ) -> Result<PatchedFile, ToolError> {
        let path = writable_path(host, path)?;
        let state = self.state(host, &path)?;
        let before = lossy_text(state.now.as_deref());
        state.now = Some(content.as_bytes().to_vec());
        let after = content.to_owned();
        Ok(PatchedFile { kind: PatchKind::Add, path, target: None, before, after })
    }

    fn delete(&mut self, host: &dyn ToolHost, path: &str) -> Result<PatchedFile, ToolError> {
        let path = writable_path(host, path)?;
        require_no_link(&path)?;
        let state = self.state(host, &path)?;
        let Some(bytes) = state.now.take() else { return Err(missing(&path, "deleted")) };
        let before = lossy_text(Some(&bytes));
        let after = String::new();
        Ok(PatchedFile { kind: PatchKind::Delete, path, target: None, before, after })
    }

    fn update(
        &mut self,
        host: &dyn ToolHost,
        path: &str,
        target: Option<&str>,
        chunks: &[PatchChunk],
    ) -> Result<PatchedFile, ToolError> {
        let path = writable_path(host, path)?;
        let state = self.state(host, &path)?;
        let Some(bytes) = &state.now else { return Err(missing(&path, "updated")) };
        let shown = path.absolute.display();
        let Some(before) = FileText::decode(bytes) else {
            return Err(ToolError::failed(format!(
                "{shown} is not UTF-8 text and was not changed."
            )));
        };
        let after = update_text(&before.text, chunks).map_err(|error| {
            ToolError::failed(format!(
                "The patch does not fit {shown}: {error}\n\nNo file was changed. Read the file again and \
                 write the patch against what is there."
            ))
        })?;
        let bytes = before.encode(&after);
        let target = match target {
            None => None,
            Some(target) => Some(writable_path(host, target)?).filter(|it| it.real != path.real),
        };
        match &target {
            None => state.now = Some(bytes),
            Some(target) => {
                require_no_link(&path)?;
                state.now = None;
                self.state(host, target)?.now = Some(bytes);
            }
        }
        let kind = if target.is_some() { PatchKind::Move } else { PatchKind::Update };
        Ok(PatchedFile { kind, path, target, before: before.text, after })
    }

    fn state(
        &mut self,
        host: &dyn ToolHost,
        path: &AccessedPath,
    ) -> Result<&mut PatchedState, ToolError> {
        if !self.states.contains_key(&path.real) {
            let found = view_file(host, path)?;
            let now = found.bytes.clone();
            self.states.insert(path.real.clone(), PatchedState { found, now });
        }
        let lost = || ToolError::failed("A file of the patch was lost from memory.");
        self.states.get_mut(&path.real).ok_or_else(lost)
    }

    /// Returns what has to be written; nothing if the patch changes no file.
    pub(super) fn changes(&self) -> Vec<FileChangeRequest> {
        let changed = self.states.values().filter(|state| state.now != state.found.bytes);
        let request = |state: &PatchedState| FileChangeRequest {
            path: state.found.path.clone(),
            stamp: state.found.stamp.clone(),
            old: state.found.bytes.clone(),
            bytes: state.now.clone(),
        };
        changed.map(request).collect()
    }

    /// Returns the files that exist after the patch and that it wrote.
    pub(super) fn list_written_files(&self) -> Vec<PathBuf> {
        let written = self
            .states
            .iter()
            .filter(|(_, state)| state.now.is_some() && state.now != state.found.bytes);
        written.map(|(path, _)| path.clone()).collect()
    }

    /// True if a file has the content that it had before.
    pub(super) fn is_unchanged(&self, path: &Path) -> bool {
        self.states.get(path).is_some_and(|state| state.now == state.found.bytes)
    }
}

impl PatchedFile {
    /// Where the file is after the patch, or was before it was deleted.
    pub(super) fn final_path(&self) -> &AccessedPath {
        self.target.as_ref().unwrap_or(&self.path)
    }
}

/// Returns a path of a patch, if it is in the project.
pub(super) fn writable_path(host: &dyn ToolHost, path: &str) -> Result<AccessedPath, ToolError> {
    let path = AccessedPath::resolve(host.scope(), path)?;
    path.require_inside()?;
    Ok(path)
}

/// Refuses to remove what a link leads to: a patch means the link.
fn require_no_link(path: &AccessedPath) -> Result<(), ToolError> {
    let found = fs_err::symlink_metadata(&path.absolute);
    if found.is_ok_and(|found| found.is_symlink()) {
        return Err(ToolError::failed(format!(
            "{} is a symbolic link, which a patch does not remove. No file was changed.",
            path.absolute.display()
        )));
    }
    Ok(())
}

fn missing(path: &AccessedPath, what: &str) -> ToolError {
    ToolError::failed(format!(
        "{} does not exist and cannot be {what}. No file was changed.",
        path.absolute.display()
    ))
}

fn lossy_text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}
