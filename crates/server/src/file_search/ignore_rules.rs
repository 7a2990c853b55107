//! Ignore rules of a repository, compiled within limits.
//!
//! Compiling takes far more memory than the text: a short rule with a wildcard may become a regular
//! expression of its own. Rules beyond a limit are left out, and the caller learns of it.

use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::confined_path::{ConfinedPath, ConfinedPathError, ConfinedRoot};

/// The largest file of rules that is read.
pub(super) const LARGEST_FILE: u64 = 256 << 10;
/// The most rules of one file that count.
const MOST_RULES: usize = 20_000;
/// The memory that all rules compiled at the same time may take, as estimated.
const MOST_MEMORY: u64 = 64 << 20;
/// Bytes that a compiled rule takes.
const PLAIN_RULE: u64 = 1_500;
/// Bytes that a compiled rule with a wildcard takes.
const WILDCARD_RULE: u64 = 8 << 10;
/// Bytes that each byte of such a rule takes.
const WILDCARD_BYTE: u64 = 600;

/// A file of rules: none, its bytes, or a file that is there and cannot be read.
pub(crate) type RuleFile = Result<Option<Vec<u8>>, UnreadableRules>;

/// A file of rules is there and cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableRules;

/// Reads a file of rules below a root.
pub(crate) fn read_rules(root: &ConfinedRoot, path: &Path) -> RuleFile {
    let below = ConfinedPath::parse(&path.to_string_lossy()).map_err(|_| UnreadableRules)?;
    match root.read(&below, LARGEST_FILE) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ConfinedPathError::Missing(_)) => Ok(None),
        // Git does not follow links in place of these files either, and a directory is no file.
        Err(ConfinedPathError::Symlink(_) | ConfinedPathError::WrongKind(_)) => Ok(None),
        Err(
            ConfinedPathError::Outside(_)
            | ConfinedPathError::TooLarge(_)
            | ConfinedPathError::Io(_),
        ) => Err(UnreadableRules),
    }
}

/// The compiled rules of one directory.
#[derive(Debug)]
pub(crate) struct CompiledRules {
    pub(crate) matcher: Gitignore,
    memory: u64,
}

/// What the rules of one request may take.
#[derive(Debug)]
pub(crate) struct RuleBudget {
    memory: u64,
    is_exceeded: bool,
}

impl Default for RuleBudget {
    fn default() -> Self {
        Self { memory: MOST_MEMORY, is_exceeded: false }
    }
}

impl RuleBudget {
    /// True if rules were left out: they are too many, too large or unreadable.
    pub(crate) const fn is_exceeded(&self) -> bool {
        self.is_exceeded
    }

    /// Compiles the rules of files, the last of which counts most. A line that is no rule says nothing,
    /// as for git.
    pub(crate) fn compile(
        &mut self,
        base: &Path,
        files: impl IntoIterator<Item = RuleFile>,
    ) -> CompiledRules {
        let mut builder = GitignoreBuilder::new(base);
        let mut memory = 0;
        for file in files {
            let Ok(bytes) = file else {
                self.is_exceeded = true;
                continue;
            };
            memory += self.add(&mut builder, &bytes.unwrap_or_default());
        }
        match builder.build() {
            Ok(matcher) => CompiledRules { matcher, memory },
            Err(_) => {
                self.is_exceeded = true;
                self.memory += memory;
                CompiledRules { matcher: Gitignore::empty(), memory: 0 }
            }
        }
    }

    /// Adds the rules of one file; returns the memory they take.
    fn add(&mut self, builder: &mut GitignoreBuilder, bytes: &[u8]) -> u64 {
        let text = String::from_utf8_lossy(bytes);
        let rules = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut taken = 0;
        for (count, rule) in rules.enumerate() {
            let Some(left) =
                self.memory.checked_sub(memory_of(rule)).filter(|_| count < MOST_RULES)
            else {
                self.is_exceeded = true;
                break;
            };
            taken += self.memory - left;
            self.memory = left;
            let _not_a_rule = builder.add_line(None, rule).is_err();
        }
        taken
    }

    /// Releases the memory of rules that are dropped.
    pub(crate) fn release(&mut self, rules: &CompiledRules) {
        self.memory += rules.memory;
    }
}

/// How much memory a compiled rule takes at most. Measured: 1.2 KB for plain ones, 10 KB for short ones
/// with a wildcard, 110 KB for 200 question marks.
fn memory_of(rule: &str) -> u64 {
    let length = rule.len() as u64;
    // What ends in one extension needs no regular expression.
    let rest = rule.strip_prefix("*.").filter(|rest| !rest.contains('.')).unwrap_or(rule);
    let has_wildcard = rest.contains(['*', '?', '[', '{', '\\']);
    if has_wildcard { WILDCARD_RULE + length * WILDCARD_BYTE } else { PLAIN_RULE + 8 * length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(budget: &mut RuleBudget, text: &str) -> CompiledRules {
        budget.compile(Path::new("/x"), [Ok(Some(text.as_bytes().to_vec()))])
    }

    #[test]
    fn rules_of_honest_repositories_fit() {
        let mut budget = RuleBudget::default();
        let wildcards: String = (0..2_000).map(|number| format!("gen?{number}*\n")).collect();
        let plain: String = (0..15_000).map(|number| format!("/a/b{number}/\n")).collect();
        let rules = [compile(&mut budget, &wildcards), compile(&mut budget, &plain)];
        assert!(!budget.is_exceeded());
        assert!(rules[0].matcher.matched("/x/gen-1999.rs", false).is_ignore());
        assert!(rules[1].matcher.matched("/x/a/b14999", true).is_ignore());
    }

    #[test]
    fn rules_beyond_the_budget_are_reported_and_come_back() {
        let mut budget = RuleBudget::default();
        let text: String = (0..20_000).map(|number| format!("?.{number:x}\n")).collect();
        let rules = compile(&mut budget, &text);
        assert!(budget.is_exceeded());
        assert!(rules.matcher.matched("/x/a.0", false).is_ignore(), "the first ones count");
        assert!(rules.matcher.num_ignores() < 6_000, "{}", rules.matcher.num_ignores());
        budget.release(&rules);
        assert_eq!(budget.memory, MOST_MEMORY);
        let many: String = (0..=MOST_RULES).map(|number| format!("{number}\n")).collect();
        let mut budget = RuleBudget::default();
        assert_eq!(compile(&mut budget, &many).matcher.num_ignores(), MOST_RULES as u64);
        assert!(budget.is_exceeded());
    }

    #[test]
    fn rules_that_cannot_be_read_are_reported() {
        let mut budget = RuleBudget::default();
        let rules =
            budget.compile(Path::new("/x"), [Err(UnreadableRules), Ok(Some(b"a".to_vec()))]);
        assert!(budget.is_exceeded());
        assert!(rules.matcher.matched("/x/a", false).is_ignore(), "the other file counts");
    }
}
