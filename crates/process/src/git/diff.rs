//! Differences between commits and files, as patches.

use std::ffi::OsString;

use super::error::GitError;
use super::parse::{self, ChangedFile};
use super::run::Git;

/// No program of the user changes what is shown.
const PLAIN_DIFF_ARGS: [&str; 6] =
    ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--submodule=short"];

impl Git {
    /// The patch of every tracked file that differs from a commit; nothing: from no file at all.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell, or the patch is larger than the limits allow.
    pub fn diff_since(&self, commit: Option<&str>, context: u32) -> Result<Vec<u8>, GitError> {
        self.compare(commit, &[&format!("--unified={context}")])
    }

    /// Every tracked file that differs from a commit, with its number of changed lines and without them.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn diff_summary_since(&self, commit: Option<&str>) -> Result<Vec<ChangedFile>, GitError> {
        parse::changed_files(&self.compare(commit, &["--raw", "--numstat", "-z"])?)
    }

    /// Compares the worktree with a commit, or with no file at all.
    fn compare(&self, commit: Option<&str>, form: &[&str]) -> Result<Vec<u8>, GitError> {
        let mut args = Vec::from(PLAIN_DIFF_ARGS.map(OsString::from));
        args.push(OsString::from("--ignore-submodules=dirty"));
        args.extend(form.iter().map(OsString::from));
        let empty = if commit.is_none() { Some(self.empty_tree()?) } else { None };
        args.extend(commit.or(empty.as_deref()).map(OsString::from));
        args.push(OsString::from("--"));
        self.run(&args)
    }

    /// The id of the tree without entries, which depends on the hash the repository uses.
    fn empty_tree(&self) -> Result<String, GitError> {
        // Its input is empty; nothing is written.
        parse::parse_line("hash-object", &self.run(&["hash-object", "-t", "tree", "--stdin"])?)
    }

    /// True if the repository names objects by SHA-1, as most do.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn names_by_sha1(&self) -> Result<bool, GitError> {
        let format = self.configuration()?.local_value("extensions.objectformat");
        Ok(format.is_none_or(|format| format.eq_ignore_ascii_case("sha1")))
    }
}
