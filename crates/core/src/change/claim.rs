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
    /// Those of its paths that a trace proves to have had another writer, too.
    pub shared: BTreeSet<RelPath>,
}

impl ChangeClaim {
    fn overlaps(&self, other: &Self) -> bool {
        self.span.0 < other.span.1 && other.span.0 < self.span.1
    }
}

/// Which paths of the change sets in `undone` were also claimed by others, and by whom.
///
/// All claims are of one root. A named write belongs to its own call only, and a traced one to the calls that
/// were seen writing it: its path is removed from all windows that were open meanwhile. The paths of a nested
/// window are removed from the outer one. A path is contended only if one of those who claim it is not undone as
/// well, or if a trace proves another writer and no other claim accounts for it.
#[must_use]
pub fn find_contended(
    undone: &BTreeSet<ChangeId>,
    claims: &[ChangeClaim],
) -> BTreeMap<RelPath, BTreeSet<ChangeId>> {
    let mut contended = BTreeMap::new();
    for claim in claims.iter().filter(|claim| undone.contains(&claim.change)) {
        for path in &claim.paths {
            let claimants = find_claimants(claim, path, claims);
            let is_writer_unknown = claim.shared.contains(path) && claimants.len() == 1;
            if is_writer_unknown || !claimants.is_subset(undone) {
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
    // What a nested window saw is not the outer one's, so an outer one is no rival.
    let is_outer = |other: &ChangeClaim| {
        other.evidence != Evidence::Named && is_nested_in(claim, &other.change, claims)
    };
    let is_rival = |other: &&ChangeClaim| {
        let is_other = other.change != claim.change && !is_outer(other);
        is_other && other.overlaps(claim) && other.paths.contains(path)
    };
    let rivals: Vec<&ChangeClaim> = claims.iter().filter(is_rival).collect();
    let ids = |claims: &[&ChangeClaim]| -> BTreeSet<ChangeId> {
        claims.iter().map(|other| other.change.clone()).collect()
    };
    let (inner, other): (Vec<_>, Vec<_>) =
        rivals.into_iter().partition(|other| is_nested_in(other, &claim.change, claims));
    if !inner.is_empty() {
        return ids(&inner);
    }
    let (certain, unsure): (Vec<_>, Vec<_>) =
        other.into_iter().partition(|other| other.evidence.is_certain());
    if !claim.evidence.is_certain() && !certain.is_empty() {
        // Change sets that certainly made the change own it.
        return ids(&certain);
    }
    let mut all = own;
    all.extend(ids(&certain));
    // A window says nothing against a trace, unless the trace itself reports another writer.
    if !claim.evidence.is_certain() || claim.shared.contains(path) {
        all.extend(ids(&unsure));
    }
    all
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
        ChangeClaim {
            change: id(name),
            outer: None,
            evidence,
            span,
            paths,
            shared: BTreeSet::new(),
        }
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

    /// Proves R3.
    #[test]
    fn traced_write_is_removed_from_untraced_windows() {
        let claims = [
            claim("shell", Evidence::Window, (1, 10), &["x", "y"]),
            claim("cut", Evidence::Recovered, (2, 9), &["x"]),
            claim("exec", Evidence::Traced, (4, 12), &["x"]),
        ];
        assert_eq!(contended(&["exec"], &claims), []);
        let makers = vec!["chg_exec".to_owned()];
        for window in ["shell", "cut"] {
            assert_eq!(contended(&[window], &claims), [("x".to_owned(), makers.clone())]);
        }
        assert_eq!(contended(&["shell", "cut", "exec"], &claims), []);
        assert_eq!(find_own_paths(&id("shell"), &claims), BTreeSet::from([path("y")]));
    }

    /// Proves R3.
    #[test]
    fn path_that_two_traced_commands_wrote_is_contended() {
        let claims = [
            claim("a", Evidence::Traced, (1, 10), &["x", "only-a"]),
            claim("b", Evidence::Traced, (5, 12), &["x", "only-b"]),
            claim("later", Evidence::Traced, (12, 14), &["x"]),
        ];
        let both = vec!["chg_a".to_owned(), "chg_b".to_owned()];
        assert_eq!(contended(&["a"], &claims), [("x".to_owned(), both.clone())]);
        assert_eq!(contended(&["b"], &claims), [("x".to_owned(), both)]);
        assert_eq!(contended(&["a", "b"], &claims), []);
        assert_eq!(contended(&["later"], &claims), []);
    }

    /// Proves R3.
    #[test]
    fn shared_path_is_contended_until_its_other_writer_is_undone_too() {
        let shared = |claim: ChangeClaim| ChangeClaim { shared: [path("x")].into(), ..claim };
        let alone = [shared(claim("a", Evidence::Traced, (1, 10), &["x", "y"]))];
        assert_eq!(contended(&["a"], &alone), [("x".to_owned(), vec!["chg_a".to_owned()])]);

        let [a] = alone;
        let claims = [a, claim("b", Evidence::Window, (5, 12), &["x"])];
        let both = vec!["chg_a".to_owned(), "chg_b".to_owned()];
        assert_eq!(contended(&["a"], &claims), [("x".to_owned(), both)]);
        assert_eq!(contended(&["a", "b"], &claims), [], "the other writer is undone, too");
    }

    /// A nested command runs untraced below a traced one. Proves R3.
    #[test]
    fn nested_untraced_window_wins_over_a_traced_outer_one() {
        let inner = ChangeClaim {
            outer: Some(id("outer")),
            ..claim("inner", Evidence::Window, (3, 6), &["x"])
        };
        let claims = [claim("outer", Evidence::Traced, (1, 10), &["x", "y"]), inner];
        assert_eq!(contended(&["inner"], &claims), []);
        assert_eq!(
            contended(&["outer"], &claims),
            [("x".to_owned(), vec!["chg_inner".to_owned()])]
        );
        assert_eq!(find_own_paths(&id("outer"), &claims), BTreeSet::from([path("y")]));
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
