//! The machine-readable answers of `git`, taken apart.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::error::GitError;

/// What a worktree has checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeCheckout {
    /// A branch by its full name, as `refs/heads/main`.
    Named(String),
    /// A commit without a branch.
    Detached,
    /// Nothing: the repository is bare.
    Bare,
}

/// One line of `git worktree list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitWorktreeRow {
    /// Where it is.
    pub path: PathBuf,
    /// The commit, if there is one; an unborn branch has none.
    pub head: Option<String>,
    /// What is checked out.
    pub branch: WorktreeCheckout,
    /// Why it is locked, if it is.
    pub locked: Option<String>,
    /// Why its administration could be removed, if it could.
    pub prunable: Option<String>,
}

/// One path that differs from the last commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitStatusEntry {
    /// The letter of the index: ` ` for none, `?` for an untracked path.
    pub index: u8,
    /// The letter of the worktree.
    pub worktree: u8,
    /// The path from the top of the worktree.
    pub path: PathBuf,
}

impl GitStatusEntry {
    /// True if the path is untracked.
    pub fn is_untracked(&self) -> bool {
        self.index == b'?'
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is gone.
    Deleted,
    /// Its content, its mode or its kind is another one.
    Modified,
}

/// A file that differs from a commit, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path from the top of the worktree.
    pub path: PathBuf,
    /// What became of it.
    pub kind: ChangeKind,
    /// Lines that were added; none of a file that is not text.
    pub additions: usize,
    /// Lines that were deleted.
    pub deletions: usize,
}

fn unreadable_answer(command: &str, answer: &[u8]) -> GitError {
    let answer = String::from_utf8_lossy(answer).chars().take(200).collect();
    GitError::Unreadable { command: command.to_owned(), answer }
}

fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Reads `worktree list --porcelain -z`: attributes end with NUL, and each worktree with another.
pub(super) fn parse_worktrees(answer: &[u8]) -> Result<Vec<GitWorktreeRow>, GitError> {
    let mut rows: Vec<GitWorktreeRow> = Vec::new();
    let mut inside = false;
    for line in answer.split(|byte| *byte == 0) {
        if line.is_empty() {
            inside = false;
            continue;
        }
        let split = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (word, rest) = (&line[..split], line.get(split + 1..).unwrap_or_default());
        let text = || String::from_utf8_lossy(rest).into_owned();
        if word == b"worktree" && !inside {
            inside = true;
            let (path, branch) = (to_path(rest), WorktreeCheckout::Detached);
            rows.push(GitWorktreeRow { path, head: None, branch, locked: None, prunable: None });
            continue;
        }
        let row = rows.last_mut().filter(|_| inside);
        let row = row.ok_or_else(|| unreadable_answer("worktree list", line))?;
        match word {
            // An unborn branch is shown with zeros.
            b"HEAD" => row.head = Some(text()).filter(|id| id.bytes().any(|byte| byte != b'0')),
            b"branch" => row.branch = WorktreeCheckout::Named(text()),
            b"bare" => row.branch = WorktreeCheckout::Bare,
            b"locked" => row.locked = Some(text()),
            b"prunable" => row.prunable = Some(text()),
            // `detached` is the default here; later versions may add words.
            _ => {}
        }
    }
    Ok(rows)
}

/// Reads `status --porcelain=v1 -z --no-renames`: two letters, a blank, a path.
pub(super) fn parse_status(answer: &[u8]) -> Result<Vec<GitStatusEntry>, GitError> {
    let lines = answer.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    lines
        .map(|line| match line {
            [index, worktree, b' ', rest @ ..] if !rest.is_empty() => {
                Ok(GitStatusEntry { index: *index, worktree: *worktree, path: to_path(rest) })
            }
            _ => Err(unreadable_answer("status", line)),
        })
        .collect()
}

/// Reads `diff --raw --numstat -z`: first every file as `:modes ids letter`, NUL, path; then its lines
/// as `added`, tab, `deleted`, tab, path.
pub(super) fn changed_files(answer: &[u8]) -> Result<Vec<ChangedFile>, GitError> {
    let mut files: BTreeMap<&[u8], ChangedFile> = BTreeMap::new();
    let mut records = answer.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        let wrong = || unreadable_answer("diff", record);
        if record.starts_with(b":") {
            let name = records.next().ok_or_else(wrong)?;
            let kind = match record.rsplit(|byte| *byte == b' ').next() {
                Some(b"A") => ChangeKind::Added,
                Some(b"D") => ChangeKind::Deleted,
                Some(_) => ChangeKind::Modified,
                None => return Err(wrong()),
            };
            // A path with a merge conflict is listed twice.
            files.entry(name).or_insert(ChangedFile {
                path: to_path(name),
                kind,
                additions: 0,
                deletions: 0,
            });
            continue;
        }
        let mut fields = record.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(deleted), Some(name)) =
            (fields.next(), fields.next(), fields.next())
        else {
            return Err(wrong());
        };
        let count = |field: &[u8]| match field {
            b"-" => Ok(0),
            digits => str::from_utf8(digits).ok().and_then(|it| it.parse().ok()).ok_or_else(wrong),
        };
        let file = files.get_mut(name).ok_or_else(wrong)?;
        (file.additions, file.deletions) = (count(added)?, count(deleted)?);
    }
    Ok(files.into_values().collect())
}

/// Reads one line of plain text.
pub(super) fn parse_line(command: &str, answer: &[u8]) -> Result<String, GitError> {
    let line = answer.strip_suffix(b"\n").unwrap_or(answer);
    let text = std::str::from_utf8(line).ok().filter(|text| !text.is_empty());
    let text = text.filter(|text| !text.contains('\n'));
    Ok(text.ok_or_else(|| unreadable_answer(command, answer))?.to_owned())
}

/// Reads lines of plain text.
pub(super) fn parse_lines(command: &str, answer: &[u8]) -> Result<Vec<String>, GitError> {
    let text = std::str::from_utf8(answer).map_err(|_| unreadable_answer(command, answer))?;
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worktree_list_is_parsed() {
        let answer = b"worktree /a b\nc\0HEAD 11aa\0branch refs/heads/main\0\0\
            worktree /d\0HEAD 22bb\0detached\0locked why not\0\0\
            worktree /e\0HEAD 0000\0branch refs/heads/new\0prunable gone\0\0\
            worktree /f\0bare\0\0";
        let rows = parse_worktrees(answer).unwrap();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[0].path, PathBuf::from("/a b\nc"));
        assert_eq!(rows[0].branch, WorktreeCheckout::Named("refs/heads/main".to_owned()));
        assert_eq!(rows[1].branch, WorktreeCheckout::Detached);
        assert_eq!(rows[1].locked.as_deref(), Some("why not"));
        assert_eq!(rows[2].head, None);
        assert_eq!(rows[2].prunable.as_deref(), Some("gone"));
        assert_eq!(rows[3].branch, WorktreeCheckout::Bare);
    }

    #[test]
    fn invalid_git_output_is_an_error() {
        assert!(parse_worktrees(b"HEAD 11aa\0").is_err());
        assert!(parse_status(b"?? \0").is_err());
        assert!(parse_status(b"nonsense\0").is_err());
        for answer in ["1\t1\tunknown\0", ":1 1 a b M\0", ":1 1 a b M\0f\0x\t0\tf\0", "1\0"] {
            assert!(changed_files(answer.as_bytes()).is_err(), "{answer:?}");
        }
        assert!(parse_line("rev-parse", b"").is_err());
        assert!(parse_line("rev-parse", b"a\nb\n").is_err());
    }

    #[test]
    fn status_is_parsed() {
        let all = parse_status(b" M a b\0?? \xff\0A  c\0").unwrap();
        assert_eq!((all[0].index, all[0].worktree), (b' ', b'M'));
        assert!(all[1].is_untracked() && !all[2].is_untracked());
        assert_eq!(all[1].path.as_os_str().as_bytes(), b"\xff");
    }
}
