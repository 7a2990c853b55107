//! Which files an entry of `instructions` names: one, or those that fit a pattern.

use std::path::{Component, Path, PathBuf};

use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;

/// The most files of one pattern.
const MAX_FILES: usize = 100;
/// How many entries are looked at for one pattern.
const MAX_ENTRIES: usize = 10_000;
/// How deep below its fixed beginning a pattern is looked for.
const MAX_DEPTH: usize = 8;

/// Returns the files below `base` that `pattern` names, sorted. Links are not followed to find them.
pub(super) fn find_matching_files(base: &Path, pattern: &Path) -> Vec<PathBuf> {
    let (folder, rest) = split_pattern(pattern);
    let folder = base.join(folder);
    if rest.as_os_str().is_empty() {
        return vec![folder];
    }
    let mut wanted = OverrideBuilder::new(&folder);
    // A pattern that begins with a slash is not looked for at any depth.
    let anchored = format!("/{}", rest.display());
    let Ok(wanted) = wanted.add(&anchored).and_then(|builder| builder.build()) else {
        tracing::warn!("the pattern {} in `instructions` is not understood", pattern.display());
        return Vec::new();
    };
    let mut walk = WalkBuilder::new(&folder);
    walk.standard_filters(false).follow_links(false).max_depth(Some(MAX_DEPTH)).overrides(wanted);
    let entries = walk.build().take(MAX_ENTRIES).filter_map(Result::ok);
    let files = entries.filter(|entry| entry.file_type().is_some_and(|kind| !kind.is_dir()));
    let mut found: Vec<PathBuf> = files.take(MAX_FILES).map(ignore::DirEntry::into_path).collect();
    found.sort();
    found
}

/// Splits a pattern into its beginning without wildcards and the rest.
fn split_pattern(pattern: &Path) -> (PathBuf, PathBuf) {
    let is_fixed = |part: &Component<'_>| {
        !part.as_os_str().to_string_lossy().contains(['*', '?', '[', '{', '!'])
    };
    let parts: Vec<Component<'_>> = pattern.components().collect();
    let fixed = parts.iter().take_while(|part| is_fixed(part)).count();
    let (head, tail) = parts.split_at(fixed);
    (head.iter().collect(), tail.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_files_below_their_base() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["docs/a.md", "docs/deep/b.md", "docs/c.txt", "other/d.md"] {
            let path = dir.path().join(name);
            fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs_err::write(path, "").expect("written");
        }
        let find = |pattern: &str| -> Vec<String> {
            let found = find_matching_files(dir.path(), Path::new(pattern));
            let inner = |path: PathBuf| path.strip_prefix(dir.path()).expect("inside").to_owned();
            found.into_iter().map(|path| inner(path).display().to_string()).collect()
        };
        assert_eq!(find("docs/*.md"), ["docs/a.md"]);
        assert_eq!(find("docs/**/*.md"), ["docs/a.md", "docs/deep/b.md"]);
        assert_eq!(find("missing.md"), ["missing.md"]);
        assert_eq!(find("none/*.md"), Vec::<String>::new());
    }
}
