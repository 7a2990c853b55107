//! Walking a directory as ripgrep does: ignore files count, links are not followed, `.git` is left out.

use std::path::{Path, PathBuf};

use ignore::overrides::OverrideBuilder;
use ignore::{DirEntry, WalkBuilder};

use crate::tool::{ToolAbort, ToolError};

/// Which files of a directory are visited.
pub(super) struct FileWalk<'w> {
    /// The directory.
    pub(super) directory: &'w Path,
    /// The names that count, such as `src/**/*.rs`.
    pub(super) pattern: Option<&'w str>,
    /// Whether names that begin with a dot count.
    pub(super) with_hidden: bool,
}

impl FileWalk<'_> {
    /// Visits regular files, sorted by name, until `visit` returns false.
    pub(super) fn run(
        &self,
        abort: &ToolAbort,
        visit: &mut dyn FnMut(PathBuf) -> bool,
    ) -> Result<(), ToolError> {
        let mut walk = WalkBuilder::new(self.directory);
        walk.hidden(!self.with_hidden)
            .require_git(false)
            .follow_links(false)
            .sort_by_file_name(Ord::cmp)
            .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        if let Some(pattern) = self.pattern {
            let mut overrides = OverrideBuilder::new(self.directory);
            let invalid =
                |error| ToolError::failed(format!("{pattern:?} is not a valid pattern: {error}"));
            overrides.add(pattern).map_err(invalid)?;
            walk.overrides(overrides.build().map_err(invalid)?);
        }
        let is_file = |entry: &DirEntry| entry.file_type().is_some_and(|kind| kind.is_file());
        // What cannot be read is passed over, as ripgrep does.
        for entry in walk.build().filter_map(Result::ok) {
            if abort.is_requested() {
                return Err(ToolError::Aborted);
            }
            if is_file(&entry) && !visit(entry.into_path()) {
                break;
            }
        }
        Ok(())
    }
}
