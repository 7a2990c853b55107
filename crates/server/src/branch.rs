//! Which branch a checkout is on, and telling clients when it is another one.
//!
//! One small file says it, so nobody runs git: `HEAD` of every directory that was asked about is read once a
//! second while the server runs.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use crate::app::App;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(1);

/// The most of a file that is read.
const MOST: u64 = 4096;

/// What a checkout is at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// On a branch.
    Branch(String),
    /// At a commit and on no branch.
    Detached,
    /// Nothing that can be read: no repository, or one that keeps its references elsewhere.
    Unknown,
}

impl Head {
    /// What the checkout at `root` is at.
    pub(crate) fn of(root: &Path) -> Self {
        let git = root.join(".git");
        let folder = match fs_err::symlink_metadata(&git) {
            Ok(found) if found.is_file() => match read(&git) {
                Some(text) => match text.trim_end().strip_prefix("gitdir: ") {
                    Some(folder) => root.join(folder),
                    None => return Self::Unknown,
                },
                None => return Self::Unknown,
            },
            Ok(_) => git,
            Err(_) => return Self::Unknown,
        };
        match read(&folder.join("HEAD")) {
            Some(text) => Self::parse(text.trim_end()),
            None => Self::Unknown,
        }
    }

    fn parse(text: &str) -> Self {
        match text.strip_prefix("ref: refs/heads/") {
            // What stands there if references are kept in tables.
            Some(".invalid") => Self::Unknown,
            Some(branch) => Self::Branch(branch.to_owned()),
            None if text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Self::Detached
            }
            None => Self::Unknown,
        }
    }
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs_err::File::open(path).ok()?.take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Tells the streams of a directory when its checkout is on another branch, for as long as the server runs.
pub(crate) async fn watch(app: App) {
    let mut told: BTreeMap<PathBuf, Head> = BTreeMap::new();
    loop {
        tokio::time::sleep(EVERY).await;
        let known = told.clone();
        match app.blocking(move |app| Ok(look(app, known))).await {
            Ok(now) => told = now,
            Err(_) => tracing::warn!("the branches of checkouts could not be looked at"),
        }
    }
}

/// Looks at every directory that is known; what each is at now.
fn look(app: &App, mut told: BTreeMap<PathBuf, Head>) -> BTreeMap<PathBuf, Head> {
    for place in app.places().list() {
        let before = told.entry(place.directory.clone()).or_insert(place.head);
        let now = Head::of(&place.root);
        // In the middle of a switch there may be nothing to read.
        if now == Head::Unknown || now == *before {
            continue;
        }
        let properties = match &now {
            Head::Branch(branch) => json!({ "branch": branch }),
            Head::Detached | Head::Unknown => json!({}),
        };
        *before = now;
        app.hub().publish(&place.directory, "vcs.branch.updated", properties);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::Head;

    #[test]
    fn a_head_is_a_branch_a_commit_or_not_known() {
        assert_eq!(Head::parse("ref: refs/heads/a/b"), Head::Branch("a/b".to_owned()));
        assert_eq!(Head::parse(&"0a".repeat(20)), Head::Detached);
        assert_eq!(Head::parse(&"0a".repeat(32)), Head::Detached);
        for text in ["", "ref: refs/heads/.invalid", "ref: refs/remotes/origin/x", "words"] {
            assert_eq!(Head::parse(text), Head::Unknown, "{text:?}");
        }
    }
}
