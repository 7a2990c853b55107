//! Applying a patch for a model: everything is checked, then asked once, then written together.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::patch_text::{PatchOperation, parse_patch};
use super::patched_files::{PatchKind, PatchedFile, PatchedFiles};
use crate::model::ToolSchema;
use crate::tool::accessed_path::{AccessedPath, permission_ask};
use crate::tool::file_change::{ChangeFailure, MAX_ATTEMPTS, format_files, view_file, write_files};
use crate::tool::file_text::FileText;
use crate::tool::input::ToolInput;
use crate::tool::schema::{string, tool_schema};
use crate::tool::text_diff::{TextPatch, diff_texts};
use crate::tool::{Tool, ToolError, ToolHost, ToolReply, ToolScope, ToolSettings};

/// The name of the tool.
const NAME: &str = "apply_patch";

const DESCRIPTION: &str = "Adds, changes, moves and deletes files by a patch of this form:\n\n\
    *** Begin Patch\n\
    *** Add File: docs/new.md\n\
    +a line of the new file\n\
    *** Update File: src/main.rs\n\
    *** Move to: src/program.rs\n\
    @@ fn main() {\n \
     a line that stays\n\
    -a line that goes\n\
    +a line that comes\n\
    *** End of File\n\
    *** Delete File: old.txt\n\
    *** End Patch\n\n\
    - Paths start at the working directory. `Move to` and `End of File` may be left out.\n\
    - Each change of a file begins with @@, optionally with a line that lies above it. Show three lines \
    around a change; if they are not unique, name the function or class after @@.\n\
    - Every line of a change begins with a space (it stays), - (it goes) or + (it comes).\n\
    - If any part does not fit, no file is changed.";

/// Applies patches.
pub struct ApplyPatchTool {
    settings: ToolSettings,
}

/// A file of a patch and its difference.
struct ShownFile<'f> {
    file: &'f PatchedFile,
    diff: TextPatch,
}

impl ApplyPatchTool {
    /// Returns the tool.
    #[must_use]
    pub fn new(settings: &ToolSettings) -> Self {
        Self { settings: settings.clone() }
    }

    fn apply(
        &self,
        host: &dyn ToolHost,
        operations: &[PatchOperation],
    ) -> Result<ToolReply, ChangeFailure> {
        let planned = PatchedFiles::plan(host, operations)?;
        let changes = planned.changes();
        if changes.is_empty() {
            return Err(ToolError::failed("The patch would not change any file.").into());
        }
        let shown: Vec<ShownFile<'_>> =
            planned.files.iter().map(|file| show_file(file, &file.after)).collect();
        ask(host, &shown)?;
        let modes = moved_modes(&planned);
        write_files(host, &changes)?;
        restore_modes(host, &modes)?;
        let is_formatted = format_files(host, &self.settings, &planned.list_written_files())?;
        let shown = match is_formatted {
            false => shown,
            true => planned
                .files
                .iter()
                .map(|file| show_formatted(host, file))
                .collect::<Result<_, _>>()?,
        };
        Ok(reply(&planned, &shown))
    }
}

fn show_file<'f>(file: &'f PatchedFile, after: &str) -> ShownFile<'f> {
    let name = file.final_path().absolute.to_string_lossy();
    ShownFile { file, diff: diff_texts(&name, &file.before, after) }
}

/// Shows a file as the formatter left it.
fn show_formatted<'f>(
    host: &dyn ToolHost,
    file: &'f PatchedFile,
) -> Result<ShownFile<'f>, ToolError> {
    let bytes = view_file(host, file.final_path())?.bytes.unwrap_or_default();
    let text = FileText::decode(&bytes).map_or_else(|| file.after.clone(), |found| found.text);
    Ok(show_file(file, &text))
}

fn ask(host: &dyn ToolHost, shown: &[ShownFile<'_>]) -> Result<(), ToolError> {
    let mut patterns: Vec<String> = Vec::new();
    for path in shown.iter().flat_map(|one| [Some(&one.file.path), one.file.target.as_ref()]) {
        if let Some(path) = path.filter(|path| !patterns.contains(&path.relative)) {
            patterns.push(path.relative.clone());
        }
    }
    let metadata = json!({
        "filepath": patterns.join(", "),
        "diff": joined_diff(shown),
        "files": shown.iter().map(file_metadata).collect::<Vec<_>>(),
    });
    host.ask(permission_ask("edit", patterns, vec!["*".to_owned()], metadata))
}

fn joined_diff(shown: &[ShownFile<'_>]) -> String {
    shown.iter().map(|one| one.diff.patch.as_str()).collect::<Vec<_>>().join("\n")
}

fn file_metadata(one: &ShownFile<'_>) -> Value {
    let kind = match one.file.kind {
        PatchKind::Add => "add",
        PatchKind::Update => "update",
        PatchKind::Delete => "delete",
        PatchKind::Move => "move",
    };
    let mut metadata = json!({
        "filePath": one.file.path.absolute.to_string_lossy(),
        "relativePath": one.file.final_path().relative,
        "type": kind,
        "patch": one.diff.patch,
        "additions": one.diff.additions,
        "deletions": one.diff.deletions,
    });
    if let Some(target) = &one.file.target {
        metadata["movePath"] = json!(target.absolute.to_string_lossy());
    }
    metadata
}

/// Returns the modes of files that are moved, by where they go.
fn moved_modes(planned: &PatchedFiles) -> Vec<(PathBuf, u32)> {
    let moved = planned.files.iter().filter_map(|file| Some((&file.path, file.target.as_ref()?)));
    let mode = |(from, to): (&AccessedPath, &AccessedPath)| {
        let found = fs_err::symlink_metadata(&from.real).ok()?;
        Some((to.real.clone(), found.permissions().mode() & 0o7777))
    };
    moved.filter_map(mode).collect()
}

/// Gives moved files the modes that they had; that is a change of the call, too.
fn restore_modes(host: &dyn ToolHost, modes: &[(PathBuf, u32)]) -> Result<(), ToolError> {
    for (path, mode) in modes {
        let found = fs_err::symlink_metadata(path).map(|found| found.permissions().mode() & 0o7777);
        if found.is_ok_and(|found| found == *mode) {
            continue;
        }
        set_mode(host, path, *mode).map_err(|error| {
            ToolError::failed(format!(
                "The patch was applied, but {} could not get the mode it had: {error}",
                path.display()
            ))
        })?;
    }
    Ok(())
}

fn set_mode(host: &dyn ToolHost, path: &Path, mode: u32) -> Result<(), Box<dyn std::error::Error>> {
    let calls = host.engine().tool_calls();
    let paths = [path.to_owned()];
    let call = calls.open_named(&host.context(), host.turn(), Some(host.part()), &paths)?;
    let set = fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode));
    calls.close(&host.context(), host.turn(), &call)?;
    // The session knows the file with its new mode.
    calls.read_file(&host.context(), &host.scope().session, path)?;
    Ok(set?)
}

fn reply(planned: &PatchedFiles, shown: &[ShownFile<'_>]) -> ToolReply {
    let line = |one: &ShownFile<'_>| {
        let path = one.file.final_path();
        let letter = match one.file.kind {
            PatchKind::Add => "A",
            PatchKind::Delete => "D",
            PatchKind::Update | PatchKind::Move => "M",
        };
        let is_unchanged = planned.is_unchanged(&path.real);
        format!("{letter} {}{}", path.relative, if is_unchanged { " (unchanged)" } else { "" })
    };
    let lines: Vec<String> = shown.iter().map(line).collect();
    let output = format!("Success. Updated the following files:\n{}", lines.join("\n"));
    let metadata = json!({
        "diff": joined_diff(shown),
        "files": shown.iter().map(file_metadata).collect::<Vec<_>>(),
        "diagnostics": {},
    });
    ToolReply::new(output.clone(), output, metadata)
}

impl Tool for ApplyPatchTool {
    fn schema(&self) -> ToolSchema {
        let properties = json!({ "patchText": string("The patch") });
        tool_schema(NAME, DESCRIPTION, &properties, &["patchText"])
    }

    fn written_paths(&self, scope: &ToolScope, input: &Value) -> Option<Vec<PathBuf>> {
        // What is no patch writes nothing.
        let operations = parse_patch(input.get("patchText")?.as_str()?).unwrap_or_default();
        let mut paths = Vec::new();
        for operation in &operations {
            let (path, target) = match operation {
                PatchOperation::Add { path, .. } | PatchOperation::Delete { path } => (path, None),
                PatchOperation::Update { path, target, .. } => (path, target.as_ref()),
            };
            for path in [Some(path), target].into_iter().flatten() {
                paths.push(AccessedPath::resolve(scope, path).ok()?.real);
            }
        }
        Some(paths)
    }

    fn run(&self, host: &dyn ToolHost, input: &Value) -> Result<ToolReply, ToolError> {
        let input = ToolInput::new(NAME, input)?;
        let operations = parse_patch(input.string("patchText")?).map_err(|error| {
            ToolError::failed(format!("This is not a valid patch: {error}. No file was changed."))
        })?;
        for _ in 0..MAX_ATTEMPTS {
            match self.apply(host, &operations) {
                Ok(reply) => return Ok(reply),
                Err(ChangeFailure::Changed) => {}
                Err(ChangeFailure::Failed(error)) => return Err(error),
            }
        }
        Err(ToolError::failed(
            "A file of the patch keeps changing, and no file was changed. Read the files again and retry.",
        ))
    }
}
