//! Claims: which windows may have changed the same path (R3).

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;
use crate::id::ChangeId;
use crate::rel_path::RelPath;

/// The paths that a change set claims to have changed, and its time range.
#[derive(Clone, Debug)]
pub struct ChangeClaim {
    /// The change set.
    pub change: ChangeId,
    /// The window it was opened in.
    pub outer: Option<ChangeId>,
    /// How it is known.
    pub evidence: Evidence,
    /// Where in the log it was opened and closed.
    pub span: (i64, i64),
    /// The paths it saw change.
    pub paths: BTreeSet<RelPath>,
}

impl ChangeClaim {
    fn overlaps(&self, other: &Self) -> bool {
        self.span.0 < other.span.1 && other.span.0 < self.span.1
    }
}

/// Which paths of the change sets in `undone` were also claimed by others, and by whom.
///
/// All claims are of one root. A named write belongs to its own call only: its path is
/// removed from all windows that were open meanwhile. The paths of a nested window are removed from the
/// outer one. A path is contended only if one of those who claim it is not undone as well.
#[must_use]
pub fn find_contended(
    undone: &BTreeSet<ChangeId>,
    claims: &[ChangeClaim],
) -> BTreeMap<RelPath, BTreeSet<ChangeId>> {
    let mut contended = BTreeMap::new();
    for claim in claims.iter().filter(|claim| undone.contains(&claim.change)) {
        for path in &claim.paths {
            let claimants = find_claimants(claim, path, claims);
            if !claimants.is_subset(undone) {
                let all: &mut BTreeSet<ChangeId> = contended.entry(path.clone()).or_default();
                all.extend(claimants);
            }
        }
    }
    contended
}

/// The paths that a change set may have changed itself, without those of named writes and nested
/// windows (R3).
#[must_use]
pub fn find_own_paths(change: &ChangeId, claims: &[ChangeClaim]) -> BTreeSet<RelPath> {
    let Some(claim) = claims.iter().find(|claim| claim.change == *change) else {
        return BTreeSet::new();
    };
    let is_own = |path: &&RelPath| find_claimants(claim, path, claims).contains(change);
    claim.paths.iter().filter(is_own).cloned().collect()
}

/// All change sets that may have made this change of `path`, including the claim's own.
fn find_claimants(
    claim: &ChangeClaim,
    path: &RelPath,
    claims: &[ChangeClaim],
) -> BTreeSet<ChangeId> {
    let own = BTreeSet::from([claim.change.clone()]);
    if claim.evidence == Evidence::Named {
        return own;
    }
    let rivals: Vec<&ChangeClaim> = claims
        .iter()
        .filter(|other| other.change != claim.change && other.overlaps(claim))
        .filter(|other| other.paths.contains(path))
        .collect();
    let is_theirs = |other: &&ChangeClaim| {
        other.evidence == Evidence::Named || is_nested_in(other, &claim.change, claims)
    };
    // A change set that certainly made the change owns it.
    if let Some(maker) = rivals.iter().find(|other| is_theirs(other)) {
        return BTreeSet::from([maker.change.clone()]);
    }
    let outside = rivals.iter().filter(|other| !is_nested_in(claim, &other.change, claims));
    own.into_iter().chain(outside.map(|other| other.change.clone())).collect()
}

/// Tells whether a window was opened, directly or not, inside `outer`.
fn is_nested_in(claim: &ChangeClaim, outer: &ChangeId, claims: &[ChangeClaim]) -> bool {
    let mut at = claim.outer.as_ref();
    // As many steps as there are claims: a hostile record might claim to be inside itself.
    for _ in 0..=claims.len() {
        match at {
            Some(id) if id == outer => return true,
            Some(id) => {
                at = claims
                    .iter()
                    .find(|other| other.change == *id)
                    .and_then(|other| other.outer.as_ref());
            }
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ChangeId {
        format!("chg_{name}").parse().expect("an id")
    }

    fn path(text: &str) -> RelPath {
        text.parse().expect("a path")
    }

    fn claim(name: &str, evidence: Evidence, span: (i64, i64), paths: &[&str]) -> ChangeClaim {
        let paths = paths.iter().map(|text| path(text)).collect();
        ChangeClaim { change: id(name), outer: None, evidence, span, paths }
    }

    fn contended(undone: &[&str], claims: &[ChangeClaim]) -> Vec<(String, Vec<String>)> {
        let undone = undone.iter().map(|name| id(name)).collect();
        let shown = |(path, ids): (RelPath, BTreeSet<ChangeId>)| {
            (path.to_string(), ids.iter().map(ToString::to_string).collect())
        };
        find_contended(&undone, claims).into_iter().map(shown).collect()
    }

    /// Proves R3.
    #[test]
    fn overlapping_windows_contend() {
        let claims = [
            claim("a", Evidence::Window, (1, 10), &["x", "only-a"]),
            claim("b", Evidence::Window, (5, 12), &["x"]),
        ];
        let both = vec!["chg_a".to_owned(), "chg_b".to_owned()];
        assert_eq!(contended(&["a"], &claims), [("x".to_owned(), both.clone())]);
        assert_eq!(contended(&["b"], &claims), [("x".to_owned(), both)]);
        assert_eq!(contended(&["a", "b"], &claims), [], "undone together they do not contend");
    }

    /// Proves R3.
    #[test]
    fn sequential_windows_do_not_contend() {
        let claims = [
            claim("a", Evidence::Window, (1, 5), &["x"]),
            claim("b", Evidence::Recovered, (5, 9), &["x"]),
        ];
        assert_eq!(contended(&["a"], &claims), []);
    }

    /// Proves R3.
    #[test]
    fn named_write_is_removed_from_windows() {
        let claims = [
            claim("shell", Evidence::Window, (1, 10), &["x", "y"]),
            claim("edit", Evidence::Named, (4, 5), &["x"]),
        ];
        assert_eq!(contended(&["edit"], &claims), []);
        let makers = vec!["chg_edit".to_owned()];
        assert_eq!(contended(&["shell"], &claims), [("x".to_owned(), makers)]);
    }

    /// Proves R3.
    #[test]
    fn window_does_not_own_named_writes_it_saw() {
        let claims = [
            claim("shell", Evidence::Window, (1, 10), &["x", "y"]),
            claim("edit", Evidence::Named, (4, 5), &["x"]),
        ];
        let own = find_own_paths(&id("shell"), &claims);
        assert_eq!(own.iter().map(ToString::to_string).collect::<Vec<_>>(), ["y"]);
        assert_eq!(find_own_paths(&id("edit"), &claims).len(), 1);
        assert!(find_own_paths(&id("none"), &claims).is_empty());
    }

    /// Proves R3.
    #[test]
    fn inner_window_wins_over_outer() {
        let inner = ChangeClaim {
            outer: Some(id("outer")),
            ..claim("inner", Evidence::Window, (3, 6), &["x"])
        };
        let deepest = ChangeClaim {
            outer: Some(id("inner")),
            ..claim("deepest", Evidence::Window, (4, 5), &["x"])
        };
        let claims = [claim("outer", Evidence::Window, (1, 10), &["x"]), inner, deepest];
        assert_eq!(contended(&["deepest"], &claims), []);
        let outer = contended(&["outer"], &claims);
        assert_eq!(outer.len(), 1, "the change is the inner window's: {outer:?}");
        assert_eq!(contended(&["outer", "inner", "deepest"], &claims), []);
    }

    #[test]
    fn cyclic_windows_terminate() {
        let around = |name: &str, outer: &str| ChangeClaim {
            outer: Some(id(outer)),
            ..claim(name, Evidence::Window, (1, 9), &["x"])
        };
        let claims = [around("a", "b"), around("b", "a"), around("c", "none")];
        assert!(!contended(&["c"], &claims).is_empty());
    }
}
