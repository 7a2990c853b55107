//! When the index of a repository is trusted, and for which files.

use std::collections::BTreeSet;
use std::io::{self, Read};

use crate::path::RelPath;
use crate::user_git::{ConvertedPaths, GitConfig, GitIndex, UserGitSettings, UserRepository};
use crate::worktree::Worktree;

/// What an attributes file is called.
pub(super) const ATTRIBUTES_FILE: &[u8] = b".gitattributes";
/// Larger ones are ignored by git.
const MAX_ATTRIBUTES_BYTES: u64 = 100 << 20;

/// Reads what may convert files of `repo`; `None` if its index must not be trusted.
///
/// `files` are the attributes files of its part of the worktree.
pub(super) fn read_conversions(
    worktree: &Worktree,
    repo: &UserRepository,
    index: &GitIndex,
    user: &UserGitSettings,
    files: &BTreeSet<&RelPath>,
) -> io::Result<Option<ConvertedPaths>> {
    let own = repo.config()?;
    let odd = own.partial || own.id_bytes != 20;
    // What a repository pulls in from elsewhere is not looked for.
    if odd || own.converts || !own.includes.is_empty() || own.attributes_file.is_some() {
        return Ok(None);
    }
    for text in &user.config {
        if GitConfig::parse(text)?.converts {
            return Ok(None);
        }
    }
    let mut texts = vec![(repo.attributes()?, Vec::new())];
    texts.extend(user.attributes.iter().map(|text| (text.clone(), Vec::new())));
    let mut unread = Vec::new();
    for path in files {
        let folder = folder_of(&path.as_bytes()[repo.prefix().len()..]).to_vec();
        match read_attributes(worktree, path) {
            Ok(text) => texts.push((text, folder)),
            Err(_) => unread.push(folder),
        }
    }
    // Git falls back to the index where the file itself is gone.
    for path in index.entries().iter().map(|entry| index.path(entry)) {
        if path.ends_with(ATTRIBUTES_FILE) && !is_among(path, repo.prefix().len(), files) {
            unread.push(folder_of(path).to_vec());
        }
    }
    let mut conversions = ConvertedPaths::from_files(&texts);
    unread.iter().for_each(|folder| conversions.mark_folder(folder));
    Ok(Some(conversions))
}

fn is_among(path: &[u8], prefix: usize, files: &BTreeSet<&RelPath>) -> bool {
    files.iter().any(|file| &file.as_bytes()[prefix..] == path)
}

fn read_attributes(worktree: &Worktree, path: &RelPath) -> io::Result<Vec<u8>> {
    let (file, stat) = worktree.open_parent(path)?.open_file(path.name())?;
    if stat.size > MAX_ATTRIBUTES_BYTES {
        return Err(io::Error::other("too large"));
    }
    let mut text = Vec::new();
    file.take(MAX_ATTRIBUTES_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// The folder of a path, with a slash behind it; empty for the root.
fn folder_of(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[..end]
}
