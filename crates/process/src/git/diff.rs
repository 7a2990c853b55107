//! Differences between commits and files, as patches.

use std::ffi::{OsStr, OsString};

use super::error::GitError;
use super::parse;
use super::run::Git;
use crate::exit::Exit;

/// No program of the user's has a say in what is shown.
const PLAIN: [&str; 6] =
    ["diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--submodule=short"];

impl Git {
    /// The patch of every tracked file that differs from a commit; nothing: from no file at all.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell, or the patch is larger than the limits allow.
    pub fn diff_since(&self, commit: Option<&str>, context: u32) -> Result<Vec<u8>, GitError> {
        let lines = format!("--unified={context}");
        let mut args = Vec::from(PLAIN.map(OsString::from));
        args.extend(["--ignore-submodules=dirty", &lines].map(OsString::from));
        let empty = if commit.is_none() { Some(self.empty_tree()?) } else { None };
        args.extend(commit.or(empty.as_deref()).map(OsString::from));
        args.push(OsString::from("--"));
        self.run(&args)
    }

    /// The id of the tree without entries, which depends on the hash the repository uses.
    fn empty_tree(&self) -> Result<String, GitError> {
        // Its input is empty; nothing is written.
        parse::line("hash-object", &self.run(&["hash-object", "-t", "tree", "--stdin"])?)
    }

    /// The patch that adds a file `git` does not know.
    ///
    /// # Errors
    ///
    /// When `git` cannot read it.
    pub fn diff_untracked(&self, path: &OsStr, context: u32) -> Result<Vec<u8>, GitError> {
        let lines = format!("--unified={context}");
        let mut args = Vec::from(PLAIN.map(OsString::from));
        args.extend(["--no-index", &lines, "--", "/dev/null"].map(OsString::from));
        args.push(path.to_owned());
        let answer = self.ask(&args)?;
        match answer.exit {
            // One is "there are differences".
            Exit::Code(0 | 1) if answer.stderr.is_empty() => Ok(answer.stdout),
            Exit::Code(_) | Exit::Signal(_) => Err(answer.refusal(&args)),
        }
    }

    /// The commit where two histories part; nothing if they share none.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_merge_base(&self, one: &str, other: &str) -> Result<Option<String>, GitError> {
        let args = ["merge-base", "--end-of-options", one, other];
        let answer = self.ask(&args)?;
        match answer.exit {
            Exit::Code(0) => parse::line("merge-base", &answer.stdout).map(Some),
            Exit::Code(1) if answer.stderr.is_empty() => Ok(None),
            Exit::Code(_) | Exit::Signal(_) => Err(answer.refusal(&args)),
        }
    }

    /// The branch work goes back to: that of the remote, else the one new repositories of the user begin
    /// with, else `main` or `master`, whichever is there; or nothing.
    ///
    /// # Errors
    ///
    /// When `git` cannot tell.
    pub fn find_default_branch(&self) -> Result<Option<String>, GitError> {
        let args = ["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"];
        let answer = self.ask(&args)?;
        match answer.exit {
            Exit::Code(0) => {
                let name = parse::line("symbolic-ref", &answer.stdout)?;
                return Ok(Some(name.strip_prefix("origin/").unwrap_or(&name).to_owned()));
            }
            Exit::Code(1) if answer.stderr.is_empty() => {}
            Exit::Code(_) | Exit::Signal(_) => return Err(answer.refusal(&args)),
        }
        let configured = self.configuration()?.value("init.defaultbranch");
        for name in configured.as_deref().into_iter().chain(["main", "master"]) {
            if self.find_commit(&format!("refs/heads/{name}"))?.is_some() {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }
}
