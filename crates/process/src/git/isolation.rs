//! A stand-in for the shared folder of a repository, without its configuration and hooks.
//!
//! Git reads `$GIT_COMMON_DIR/config`. The folder here has a `config` of ours and links to what is data:
//! objects, references, excludes. So the repository's own configuration, with all it includes, is not
//! overridden setting by setting but never read. Removed when it is dropped.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use tempfile::TempDir;

/// What is linked even where it is missing: it may be created while a command runs.
const ALWAYS: [&str; 5] = ["objects", "refs", "packed-refs", "info", "shallow"];
/// What is linked where it is there; a link that leads nowhere would make git fail.
const EXISTING: [&str; 2] = ["logs", "reftable"];

/// The stand-in of one repository.
#[derive(Debug)]
pub(super) struct IsolatedCommonDir(TempDir);

impl IsolatedCommonDir {
    /// Creates the folder for the repository whose shared folder is `common_dir`.
    pub(super) fn create(common_dir: &Path, format_file: &str) -> io::Result<Self> {
        let closed = Permissions::from_mode(0o700);
        let folder =
            tempfile::Builder::new().prefix("turnstone-git-").permissions(closed).tempdir()?;
        let existing = EXISTING.iter().filter(|name| common_dir.join(name).is_dir());
        for name in ALWAYS.iter().chain(existing) {
            symlink(common_dir.join(name), folder.path().join(name))?;
        }
        fs_err::write(folder.path().join("config"), format_file)?;
        Ok(Self(folder))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}
