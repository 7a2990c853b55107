//! Finding: which of the known stores a directory has. No disk is touched here but to see what is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::RootIdentity;
use super::store_record::StoreId;

/// Which store a root has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreMatch {
    /// The one that was made for this path.
    SamePath(StoreId),
    /// The one of a directory that has moved here.
    Moved(StoreId, PathBuf),
    /// None.
    NotFound,
}

/// Finds the store of `root` among all; `is_in_place` tells whether a root is where it was.
pub(super) fn match_store(
    root: &RootIdentity,
    stores: &BTreeMap<StoreId, RootIdentity>,
    is_in_place: impl Fn(&RootIdentity) -> bool,
) -> StoreMatch {
    let here = stores.iter().filter(|(_, facts)| facts.path == root.path);
    // Two for one path can only come from a hand that copied stores: the very directory wins.
    if let Some((id, _)) = here.max_by_key(|(id, facts)| {
        (facts.is_same_directory(root), std::cmp::Reverse(id.as_str().to_owned()))
    }) {
        return StoreMatch::SamePath(id.clone());
    }
    let gone = |facts: &&RootIdentity| !is_in_place(facts);
    let same: fn(&RootIdentity, &RootIdentity) -> bool = RootIdentity::is_same_directory;
    for is_same in [same, RootIdentity::is_same_checkout] {
        let mut moved =
            stores.iter().filter(|(_, facts)| is_same(facts, root)).filter(|it| gone(&it.1));
        // With several candidates it is unknown which one it was; none is chosen.
        if let (Some((id, facts)), None) = (moved.next(), moved.next()) {
            return StoreMatch::Moved(id.clone(), facts.path.clone());
        }
    }
    StoreMatch::NotFound
}

/// Finds the closest root above `path`, or at it, that has a store.
pub(super) fn closest_known_root<'p>(
    path: &'p Path,
    stores: &BTreeMap<StoreId, RootIdentity>,
) -> Option<&'p Path> {
    path.ancestors().find(|above| stores.values().any(|facts| facts.path == **above))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(path: &str, ino: u64) -> RootIdentity {
        let (dev, born) = (1, Some(7));
        RootIdentity { path: path.into(), dev, ino, born, git_dir: None, common_dir: None }
    }

    fn linked(path: &str, ino: u64, name: &str) -> RootIdentity {
        let common: PathBuf = "/p/.git".into();
        let git_dir = Some(common.join("worktrees").join(name));
        RootIdentity { git_dir, common_dir: Some(common), ..facts(path, ino) }
    }

    fn id(digit: char) -> StoreId {
        String::from(digit).repeat(24).parse().unwrap()
    }

    fn stores(all: &[(char, RootIdentity)]) -> BTreeMap<StoreId, RootIdentity> {
        all.iter().map(|(digit, facts)| (id(*digit), facts.clone())).collect()
    }

    /// Proves R12.
    #[test]
    fn root_matches_by_path_then_by_identity() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 2))]);

        assert_eq!(match_store(&facts("/a", 9), &known, |_| true), StoreMatch::SamePath(id('a')));
        let moved = StoreMatch::Moved(id('b'), "/b".into());
        assert_eq!(match_store(&facts("/new", 2), &known, |it| it.path != *"/b"), moved);
        assert_eq!(match_store(&facts("/copy", 3), &known, |_| true), StoreMatch::NotFound);
        assert_eq!(match_store(&facts("/bound", 2), &known, |_| true), StoreMatch::NotFound);
        let reused = RootIdentity { born: Some(8), ..facts("/new", 2) };
        assert_eq!(
            match_store(&reused, &known, |_| false),
            StoreMatch::NotFound,
            "an inode used again"
        );
    }

    /// Proves R12.
    #[test]
    fn moved_linked_checkout_matches_by_git_dir() {
        let known = stores(&[('a', linked("/one", 1, "one")), ('b', linked("/two", 2, "two"))]);

        let moved = StoreMatch::Moved(id('a'), "/one".into());
        assert_eq!(match_store(&linked("/new", 9, "one"), &known, |_| false), moved);
        assert_eq!(
            match_store(&linked("/new", 9, "three"), &known, |_| false),
            StoreMatch::NotFound
        );
        assert_eq!(match_store(&linked("/new", 9, "one"), &known, |_| true), StoreMatch::NotFound);
    }

    /// Proves R12.
    #[test]
    fn ambiguous_candidates_match_no_store() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 1))]);

        assert_eq!(match_store(&facts("/new", 1), &known, |_| false), StoreMatch::NotFound);
    }
}
