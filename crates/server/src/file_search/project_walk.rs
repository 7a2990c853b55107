//! The files and directories a search visits: below the root, no link, nothing ignored by git.
//!
//! Every file of rules is read from the handle of the root, as a regular file of limited size; a pipe
//! or an endless file in its place is no rule, and rules that are left out are reported. Only the rules above the root are found by their path.

use std::path::{Path, PathBuf};
use std::vec::IntoIter;

use ignore::Match;
use turnstone_engine::read_bounded_file;

use super::ignore_rules::{
    CompiledRules, LARGEST_FILE, RuleBudget, RuleFile, UnreadableRules, read_rules,
};
use super::search_budget::{SearchBudget, SearchTruncation};
use crate::confined_path::{ConfinedEntry, ConfinedPath, ConfinedPathError, ConfinedRoot};

/// Entries of one directory that are visited.
const MAX_DIRECTORY_ENTRIES: usize = 100_000;
/// How deep directories are visited.
const MAX_DEPTH: usize = 256;

/// A visited file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisitedEntry {
    /// The path from the root.
    pub(super) path: String,
    pub(super) is_dir: bool,
}

/// The rules of one directory.
#[derive(Debug)]
struct DirectoryIgnoreRules {
    /// From `.ignore`: these count in every directory.
    general: CompiledRules,
    /// From `.gitignore` and `info/exclude`: these count inside a repository.
    git: CompiledRules,
    /// True if a repository begins here: the rules of git above do not count.
    is_repository: bool,
}

/// One directory on the way down.
#[derive(Debug)]
struct WalkLevel {
    path: String,
    entries: IntoIter<ConfinedEntry>,
}

/// A walk in the order of names, each directory before what is in it.
pub(super) struct ProjectWalk<'a> {
    root: &'a ConfinedRoot,
    directory: PathBuf,
    /// Rules of the directories above the root and on the way down, outermost first.
    rules: Vec<DirectoryIgnoreRules>,
    rule_budget: RuleBudget,
    levels: Vec<WalkLevel>,
}

impl<'a> ProjectWalk<'a> {
    /// Begins at the root, which is opened at `directory`.
    pub(super) fn new(
        root: &'a ConfinedRoot,
        directory: &Path,
        budget: &mut SearchBudget,
    ) -> Result<Self, ConfinedPathError> {
        let mut rule_budget = RuleBudget::default();
        let rules = ignore_rules_above(directory, &mut rule_budget);
        let (directory, levels) = (directory.to_owned(), Vec::new());
        let mut walk = Self { root, directory, rules, rule_budget, levels };
        walk.enter(String::new(), budget)?;
        Ok(walk)
    }

    /// The next entry; none at the end or when the budget is spent.
    pub(super) fn next(&mut self, budget: &mut SearchBudget) -> Option<VisitedEntry> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                if let Some(rules) = self.rules.pop() {
                    self.rule_budget.release(&rules.general);
                    self.rule_budget.release(&rules.git);
                }
                continue;
            };
            if !budget.spend_entry() {
                return None;
            }
            let path = match level.path.as_str() {
                "" => entry.name.clone(),
                above => format!("{above}/{}", entry.name),
            };
            if entry.name == ".git" || self.is_ignored(&path, entry.is_dir) {
                continue;
            }
            if entry.is_dir && self.levels.len() >= MAX_DEPTH {
                budget.truncate(SearchTruncation::Entries);
            } else if entry.is_dir {
                // A directory that cannot be read, or went away meanwhile, holds nothing to find.
                let _unreadable = self.enter(path.clone(), budget).is_err();
            }
            return Some(VisitedEntry { path, is_dir: entry.is_dir });
        }
    }

    fn enter(&mut self, path: String, budget: &mut SearchBudget) -> Result<(), ConfinedPathError> {
        let below = ConfinedPath::parse(&path)?;
        let (mut entries, is_whole) = self.root.list_first(&below, MAX_DIRECTORY_ENTRIES)?;
        if !is_whole {
            budget.truncate(SearchTruncation::Entries);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let rules = self.read_ignore_rules(&path, &entries);
        self.rules.push(rules);
        if self.rule_budget.is_exceeded() {
            budget.truncate(SearchTruncation::IgnoreRules);
        }
        self.levels.push(WalkLevel { path, entries: entries.into_iter() });
        Ok(())
    }

    fn read_ignore_rules(&mut self, path: &str, entries: &[ConfinedEntry]) -> DirectoryIgnoreRules {
        let base = self.directory.join(path);
        let read = |name: &str| {
            // Most directories have no rules: they are not asked for each of them.
            let is_there = entries.iter().any(|entry| entry.name == name && !entry.is_dir);
            if is_there { read_rules(self.root, &Path::new(path).join(name)) } else { Ok(None) }
        };
        let git = entries.iter().find(|entry| entry.name == ".git");
        let exclude = match git {
            Some(git) if git.is_dir => {
                read_rules(self.root, &Path::new(path).join(".git/info/exclude"))
            }
            Some(_) | None => Ok(None),
        };
        DirectoryIgnoreRules {
            general: self.rule_budget.compile(&base, [read(".ignore")]),
            git: self.rule_budget.compile(&base, [exclude, read(".gitignore")]),
            is_repository: git.is_some(),
        }
    }

    /// Asks the rules from the innermost directory outwards; the first that says something decides.
    fn is_ignored(&self, path: &str, is_dir: bool) -> bool {
        let path = self.directory.join(path);
        let general =
            self.rules.iter().rev().map(|rules| rules.general.matcher.matched(&path, is_dir));
        if let Some(decided) = general.into_iter().find(|found| !found.is_none()) {
            return decided.is_ignore();
        }
        let is_in_repository = self.rules.iter().any(|rules| rules.is_repository);
        for rules in self.rules.iter().rev().filter(|_| is_in_repository) {
            match rules.git.matcher.matched(&path, is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None if rules.is_repository => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// The rules of the repository the root is in, down to the parent of the root.
fn ignore_rules_above(root: &Path, budget: &mut RuleBudget) -> Vec<DirectoryIgnoreRules> {
    let is_repository = |path: &Path| fs_err::symlink_metadata(path.join(".git")).is_ok();
    if is_repository(root) {
        return Vec::new();
    }
    let above: Vec<&Path> = root.ancestors().skip(1).collect();
    let Some(depth) = above.iter().position(|path| is_repository(path)) else {
        return Vec::new();
    };
    let read = |path: PathBuf| -> RuleFile {
        read_bounded_file(&path, LARGEST_FILE).map_err(|_| UnreadableRules)
    };
    let rules =
        above.iter().take(depth + 1).enumerate().rev().map(|(index, path)| DirectoryIgnoreRules {
            general: budget.compile(path, [read(path.join(".ignore"))]),
            git: budget.compile(
                path,
                [read(path.join(".git/info/exclude")), read(path.join(".gitignore"))],
            ),
            is_repository: index == depth,
        });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::search_budget::SearchLimits;
    use super::*;

    fn visit(directory: &Path, limits: SearchLimits) -> (Vec<String>, Vec<SearchTruncation>) {
        let mut budget = SearchBudget::new(Arc::default(), limits);
        let root = ConfinedRoot::open(directory).expect("opens");
        let mut walk = ProjectWalk::new(&root, directory, &mut budget).expect("begins");
        let mut paths = Vec::new();
        while let Some(entry) = walk.next(&mut budget) {
            paths.push(entry.path);
        }
        (paths, budget.into_truncations())
    }

    fn put(root: &Path, path: &str, content: &str) {
        let path = root.join(path);
        fs_err::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs_err::write(path, content).expect("written");
    }

    #[test]
    fn ignore_rules_match_git() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path();
        for (path, content) in [
            (".git/info/exclude", "excluded\n"),
            (".gitignore", "*.log\n/top\n"),
            ("a.log", ""),
            ("excluded", ""),
            ("sub/.gitignore", "!kept.log\n"),
            ("sub/kept.log", ""),
            ("sub/other.log", ""),
            ("sub/top", ""),
            ("top", ""),
            ("nested/.git/HEAD", ""),
            ("nested/b.log", ""),
            (".ignore", "hidden\n"),
            ("nested/hidden", ""),
        ] {
            put(root, path, content);
        }
        let whole = [".gitignore", ".ignore", "nested", "nested/b.log", "sub", "sub/.gitignore"];
        let expected: Vec<&str> = whole.into_iter().chain(["sub/kept.log", "sub/top"]).collect();
        assert_eq!(
            visit(root, SearchLimits::default()),
            (expected.iter().map(|s| (*s).to_owned()).collect(), vec![])
        );
        // Below the root of the repository its rules count, too.
        let below = [".gitignore", "kept.log", "top"].map(str::to_owned).to_vec();
        assert_eq!(visit(&root.join("sub"), SearchLimits::default()).0, below);
    }

    #[test]
    fn pipes_and_links_in_place_of_rules_are_no_rules_and_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("repo/inner");
        put(&root, "file", "");
        fs_err::create_dir_all(dir.path().join("repo/.git/info")).expect("made");
        for path in ["repo/.gitignore", "repo/.git/info/exclude", "repo/inner/.gitignore"] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, dir.path().join(path), kind, mode, 0)
                .expect("a pipe");
        }
        std::os::unix::fs::symlink("/dev/zero", root.join(".ignore")).expect("linked");
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("repo/.ignore")).expect("linked");
        let reported = vec![SearchTruncation::IgnoreRules];
        assert_eq!(visit(&root, SearchLimits::default()), (vec!["file".to_owned()], reported));
    }

    #[test]
    fn too_many_rules_are_reported_and_the_others_count() {
        let dir = tempfile::tempdir().expect("a directory");
        put(dir.path(), ".git/HEAD", "");
        put(dir.path(), ".gitignore", "hidden\n");
        put(dir.path(), "hidden", "");
        put(dir.path(), "sub/.gitignore", &"x\n".repeat(200_000));
        put(dir.path(), "sub/x", "");
        let (paths, truncations) = visit(dir.path(), SearchLimits::default());
        assert_eq!(paths, [".gitignore", "sub", "sub/.gitignore", "sub/x"]);
        assert_eq!(truncations, [SearchTruncation::IgnoreRules]);
    }

    #[test]
    fn walks_end_with_their_budget() {
        let dir = tempfile::tempdir().expect("a directory");
        (0..10).for_each(|number| put(dir.path(), &format!("d{number}/f"), ""));
        let limits = SearchLimits { entries: 7, ..SearchLimits::default() };
        let (paths, truncations) = visit(dir.path(), limits);
        assert_eq!((paths.len(), truncations), (7, vec![SearchTruncation::Entries]));
    }
}
