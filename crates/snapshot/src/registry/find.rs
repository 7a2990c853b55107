//! Finding: which of the known stores a directory has. No disk is touched here but to see what is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::RootFacts;
use super::file::StoreId;

/// Which store a root has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The one that was made for this path.
    Here(StoreId),
    /// The one of a directory that has moved here.
    Moved(StoreId, PathBuf),
    /// None.
    Nowhere,
}

/// Finds the store of `root` among all; `is_in_place` tells whether a root is where it was.
pub(super) fn find(
    root: &RootFacts,
    stores: &BTreeMap<StoreId, RootFacts>,
    is_in_place: impl Fn(&RootFacts) -> bool,
) -> Found {
    let here = stores.iter().filter(|(_, facts)| facts.path == root.path);
    // Two for one path can only come from a hand that copied stores: the very directory wins.
    if let Some((id, _)) = here.max_by_key(|(id, facts)| {
        (facts.is_same_directory(root), std::cmp::Reverse(id.as_str().to_owned()))
    }) {
        return Found::Here(id.clone());
    }
    let gone = |facts: &&RootFacts| !is_in_place(facts);
    let same: fn(&RootFacts, &RootFacts) -> bool = RootFacts::is_same_directory;
    for is_same in [same, RootFacts::is_same_checkout] {
        let mut moved =
            stores.iter().filter(|(_, facts)| is_same(facts, root)).filter(|it| gone(&it.1));
        // Of several nobody can tell which it was; none is taken by accident.
        if let (Some((id, facts)), None) = (moved.next(), moved.next()) {
            return Found::Moved(id.clone(), facts.path.clone());
        }
    }
    Found::Nowhere
}

/// Finds the closest root above `path`, or at it, that has a store.
pub(super) fn closest<'p>(
    path: &'p Path,
    stores: &BTreeMap<StoreId, RootFacts>,
) -> Option<&'p Path> {
    path.ancestors().find(|above| stores.values().any(|facts| facts.path == **above))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(path: &str, ino: u64) -> RootFacts {
        let (dev, born) = (1, Some(7));
        RootFacts { path: path.into(), dev, ino, born, git_dir: None, common_dir: None }
    }

    fn linked(path: &str, ino: u64, name: &str) -> RootFacts {
        let common: PathBuf = "/p/.git".into();
        let git_dir = Some(common.join("worktrees").join(name));
        RootFacts { git_dir, common_dir: Some(common), ..facts(path, ino) }
    }

    fn id(digit: char) -> StoreId {
        String::from(digit).repeat(24).parse().unwrap()
    }

    fn stores(all: &[(char, RootFacts)]) -> BTreeMap<StoreId, RootFacts> {
        all.iter().map(|(digit, facts)| (id(*digit), facts.clone())).collect()
    }

    #[test]
    fn a_root_is_found_by_path_then_by_what_it_is_r12() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 2))]);

        assert_eq!(find(&facts("/a", 9), &known, |_| true), Found::Here(id('a')));
        let moved = Found::Moved(id('b'), "/b".into());
        assert_eq!(find(&facts("/new", 2), &known, |it| it.path != *"/b"), moved);
        assert_eq!(find(&facts("/copy", 3), &known, |_| true), Found::Nowhere);
        assert_eq!(find(&facts("/bound", 2), &known, |_| true), Found::Nowhere);
        let reused = RootFacts { born: Some(8), ..facts("/new", 2) };
        assert_eq!(find(&reused, &known, |_| false), Found::Nowhere, "an inode used again");
    }

    #[test]
    fn a_linked_checkout_is_found_by_its_name_in_the_repository_r12() {
        let known = stores(&[('a', linked("/one", 1, "one")), ('b', linked("/two", 2, "two"))]);

        let moved = Found::Moved(id('a'), "/one".into());
        assert_eq!(find(&linked("/new", 9, "one"), &known, |_| false), moved);
        assert_eq!(find(&linked("/new", 9, "three"), &known, |_| false), Found::Nowhere);
        assert_eq!(find(&linked("/new", 9, "one"), &known, |_| true), Found::Nowhere);
    }

    #[test]
    fn two_candidates_are_none_r12() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 1))]);

        assert_eq!(find(&facts("/new", 1), &known, |_| false), Found::Nowhere);
    }
}
