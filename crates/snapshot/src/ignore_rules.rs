//! Ignore rules: the patterns that apply in a directory, innermost first (R7).
//!
//! Patterns are gitoxide's, so they mean what they mean to git. A repository's rules end at its
//! border: a nested one starts with a new chain.

use std::sync::Arc;

use gix::bstr::ByteSlice;
use gix::glob::pattern::Case;
use gix::glob::search::pattern::List;
use gix::ignore::search::{Ignore, pattern_matching_relative_path};

/// A chain of pattern lists; cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct IgnoreRules(Option<Arc<IgnoreRuleNode>>);

#[derive(Debug)]
struct IgnoreRuleNode {
    list: List<Ignore>,
    /// Bytes of a path, from the root of the worktree, that lead to where the patterns apply.
    prefix: usize,
    above: Option<Arc<IgnoreRuleNode>>,
}

impl IgnoreRules {
    /// Adds patterns that win over those before; `folder` is the path they are relative to.
    pub(crate) fn with_patterns(&self, patterns: &[u8], folder: &[u8]) -> Self {
        let parse = Ignore { support_precious: false };
        let Ok(list) = List::from_bytes(patterns, "rules".into(), None, parse) else {
            return self.clone();
        };
        if list.patterns.is_empty() {
            return self.clone();
        }
        let prefix = if folder.is_empty() { 0 } else { folder.len() + 1 };
        Self(Some(Arc::new(IgnoreRuleNode { list, prefix, above: self.0.clone() })))
    }

    /// True if both are the very same rules, not only equal ones.
    pub(crate) fn is_same_chain(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }

    /// True if the rules hide `path`, given from the root of the worktree.
    pub(crate) fn is_ignored(&self, path: &[u8], is_dir: bool) -> bool {
        let mut node = self.0.as_ref();
        while let Some(IgnoreRuleNode { list, prefix, above }) = node.map(Arc::as_ref) {
            let relative = path.get(*prefix..).unwrap_or_default().as_bstr();
            let name = relative.rfind_byte(b'/').map(|slash| slash + 1);
            let is_dir = Some(is_dir);
            let found =
                pattern_matching_relative_path(list, relative, name, is_dir, Case::Sensitive);
            if let Some(found) = found {
                return !found.pattern.is_negative();
            }
            node = above.as_ref();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_ignore_rule_wins() {
        let rules = IgnoreRules::default().with_patterns(b"*.log\n/build\ndocs/\n", b"");
        let inner = rules.with_patterns(b"!keep.log\n/x\n", b"sub");

        assert!(rules.is_ignored(b"sub/a.log", false));
        assert!(inner.is_ignored(b"sub/a.log", false));
        assert!(!inner.is_ignored(b"sub/keep.log", false));
        assert!(inner.is_ignored(b"sub/x", false));
        assert!(!inner.is_ignored(b"sub/y/x", false));
        assert!(rules.is_ignored(b"build", true));
        assert!(!rules.is_ignored(b"sub/build", true));
        assert!(rules.is_ignored(b"sub/docs", true));
        assert!(!rules.is_ignored(b"sub/docs", false));
    }
}
