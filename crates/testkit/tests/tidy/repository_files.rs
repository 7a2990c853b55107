//! The files of the repository, read from disk.
//!
//! Build output (a directory with a `CACHEDIR.TAG`), `node_modules` and `.git` are no part of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::crate_table::DEVELOPMENT_CRATES;
use crate::rust_tokens::TokenizedSource;

/// A text file: its path from the root of the repository, with `/`, and its content.
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A Rust source file below `crates/`.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) code: TokenizedSource,
    /// Whether the whole file is compiled for tests, benchmarks or examples only.
    pub(crate) is_test_only: bool,
}

impl SourceFile {
    /// Reads `text` as if it were the file `path`.
    #[track_caller]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = TokenizedSource::parse(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let place = path.split('/').nth(2);
        let all_test = matches!(place, Some("tests" | "benches" | "examples"));
        Self { path: path.to_owned(), text: text.to_owned(), code, is_test_only: all_test }
    }

    /// Returns the name of the directory of the crate: `store` for `crates/store/src/lib.rs`.
    pub(crate) fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    /// Returns the last part of the path.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Tells whether the file is compiled into what users install.
    pub(crate) fn is_shipped(&self) -> bool {
        !self.is_test_only
            && self.path.contains("/src/")
            && !DEVELOPMENT_CRATES.iter().any(|(name, _)| *name == self.crate_name())
    }

    /// Lists the indices of the tokens that are shipped.
    pub(crate) fn shipped_tokens(&self) -> impl Iterator<Item = usize> {
        (0..self.code.tokens.len())
            .filter(|index| !self.is_test_only && !self.code.is_in_test(*index))
    }

    /// Lists the files in which the modules declared here for tests only may live.
    fn test_files(&self) -> Vec<String> {
        let folder = match self.file_name() {
            "mod.rs" | "lib.rs" | "main.rs" => self.path.rsplit_once('/').map(|parts| parts.0),
            _ => self.path.strip_suffix(".rs"),
        };
        let folder = folder.unwrap_or_default();
        let names = self.code.test_modules().into_iter();
        names
            .flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")])
            .collect()
    }
}

/// Returns the root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads every text file of the repository, in the order of the paths.
pub(crate) fn read_files() -> Vec<TextFile> {
    let mut found = Vec::new();
    collect_files(&root(), "", &mut found);
    found.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(found.iter().any(|file| file.path == "Cargo.toml"), "not the root: {:?}", root());
    found
}

/// Returns the content of one file, or nothing when it does not exist.
pub(crate) fn find_text(path: &str) -> Option<String> {
    fs_err::read_to_string(root().join(path)).ok()
}

/// Reads every Rust source file below `crates/`.
pub(crate) fn read_sources() -> Vec<SourceFile> {
    let files = read_files();
    let rust =
        files.iter().filter(|file| file.path.starts_with("crates/") && file.path.ends_with(".rs"));
    let mut sources: Vec<SourceFile> =
        rust.map(|file| SourceFile::new(&file.path, &file.text)).collect();
    mark_test_files(&mut sources);
    assert!(
        sources.iter().any(|source| source.path.ends_with("/tidy/repository_files.rs")),
        "no sources"
    );
    sources
}

fn mark_test_files(sources: &mut [SourceFile]) {
    let files: BTreeSet<String> = sources.iter().flat_map(SourceFile::test_files).collect();
    for source in sources {
        source.is_test_only |= files.contains(&source.path);
    }
}

fn collect_files(folder: &Path, prefix: &str, found: &mut Vec<TextFile>) {
    if folder.join("CACHEDIR.TAG").exists() {
        return;
    }
    let entries = fs_err::read_dir(folder).expect("the repository can be read");
    for entry in entries {
        let entry = entry.expect("the repository can be read");
        let kind = entry.file_type().expect("the repository can be read");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if kind.is_dir() && !matches!(name.as_str(), ".git" | "node_modules" | "target") {
            collect_files(&entry.path(), &format!("{path}/"), found);
        } else if kind.is_file()
            // In a linked worktree it is a file.
            && name != ".git"
            && let Ok(text) = fs_err::read_to_string(entry.path())
        {
            found.push(TextFile { path, text });
        }
    }
}

#[test]
fn module_file_for_tests_is_not_shipped_code() {
    let mut sources = [
        SourceFile::new("crates/core/src/turn.rs", "#[cfg(test)]\nmod tests;\nmod state;"),
        SourceFile::new("crates/core/src/turn/tests.rs", "fn f() {}"),
        SourceFile::new("crates/core/src/turn/state.rs", "fn f() {}"),
        SourceFile::new("crates/core/tests/turn.rs", "fn f() {}"),
    ];

    mark_test_files(&mut sources);

    assert_eq!(sources.map(|source| source.is_test_only), [false, true, false, true]);
}
