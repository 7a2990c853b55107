//! Finding: which of the known stores a directory has. No disk is touched here but to see what is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::RootIdentity;
use super::store_record::StoreId;

/// Which store a root has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreMatch {
    /// The one of this path and this directory, or of one that this directory succeeds.
    SamePath(StoreId),
    /// The one of a directory that has moved here.
    Moved(StoreId, PathBuf),
    /// None.
    NotFound,
}

/// Whether the directory of a store is where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreRootState {
    /// It is.
    InPlace,
    /// It was deleted while the store was open, or its identity was restored from a backup: the directory at
    /// its path succeeds it.
    Superseded,
    /// Its path is free, or another directory has it; it may be anywhere.
    Missing,
}

/// Finds the store of `root` among all; `state` tells whether the directory of a store is where it was.
///
/// A path alone proves nothing: another directory may have been put there.
pub(super) fn match_store(
    root: &RootIdentity,
    stores: &BTreeMap<StoreId, RootIdentity>,
    state: impl Fn(&StoreId, &RootIdentity) -> StoreRootState,
) -> StoreMatch {
    // After a relink a directory may have several: any of them can be used.
    if let Some((id, _)) = stores.iter().find(|(_, facts)| facts.has_same_path_and_identity(root)) {
        return StoreMatch::SamePath(id.clone());
    }
    let same: fn(&RootIdentity, &RootIdentity) -> bool = RootIdentity::is_same_directory;
    for is_same in [same, RootIdentity::is_same_checkout] {
        let is_match = |(id, facts): &(&StoreId, &RootIdentity)| {
            facts.path != root.path
                && is_same(facts, root)
                && state(id, facts) != StoreRootState::InPlace
        };
        let moved: Vec<(&StoreId, &RootIdentity)> = stores.iter().filter(is_match).collect();
        // With candidates in several places it is unknown which one it was; none is chosen.
        if let Some((id, facts)) = moved.first()
            && moved.iter().all(|(_, other)| other.path == facts.path)
        {
            return StoreMatch::Moved((*id).clone(), facts.path.clone());
        }
    }
    let is_successor = |(id, facts): &(&StoreId, &RootIdentity)| {
        facts.path == root.path && state(id, facts) == StoreRootState::Superseded
    };
    match stores.iter().find(is_successor) {
        Some((id, _)) => StoreMatch::SamePath(id.clone()),
        None => StoreMatch::NotFound,
    }
}

/// Finds the closest root above `path`, or at it, that has a store.
pub(super) fn closest_known_root<'p>(
    path: &'p Path,
    stores: &BTreeMap<StoreId, RootIdentity>,
    state: impl Fn(&StoreId, &RootIdentity) -> StoreRootState,
) -> Option<&'p Path> {
    let is_root = |above: &&Path| {
        let mut at = stores.iter().filter(|(_, facts)| facts.path == **above);
        at.any(|(id, facts)| state(id, facts) != StoreRootState::Missing)
    };
    path.ancestors().find(is_root)
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

    fn in_place(_: &StoreId, _: &RootIdentity) -> StoreRootState {
        StoreRootState::InPlace
    }

    fn missing(_: &StoreId, _: &RootIdentity) -> StoreRootState {
        StoreRootState::Missing
    }

    fn superseded(_: &StoreId, _: &RootIdentity) -> StoreRootState {
        StoreRootState::Superseded
    }

    /// Proves R12.
    #[test]
    fn root_matches_by_identity_at_its_path_or_elsewhere() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 2))]);

        let here = StoreMatch::SamePath(id('a'));
        assert_eq!(match_store(&facts("/a", 1), &known, in_place), here);
        let mounted_again = RootIdentity { dev: 2, ..facts("/a", 1) };
        assert_eq!(match_store(&mounted_again, &known, in_place), here);
        let moved = StoreMatch::Moved(id('b'), "/b".into());
        assert_eq!(match_store(&facts("/new", 2), &known, missing), moved);
        assert_eq!(match_store(&facts("/copy", 3), &known, in_place), StoreMatch::NotFound);
        assert_eq!(match_store(&facts("/bound", 2), &known, in_place), StoreMatch::NotFound);
        let reused = RootIdentity { born: Some(8), ..facts("/new", 2) };
        assert_eq!(match_store(&reused, &known, missing), StoreMatch::NotFound, "an inode again");
    }

    /// Proves R12.
    #[test]
    fn path_alone_matches_only_a_superseded_root() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 2))]);

        assert_eq!(match_store(&facts("/a", 9), &known, missing), StoreMatch::NotFound);
        let successor = StoreMatch::SamePath(id('a'));
        assert_eq!(match_store(&facts("/a", 9), &known, superseded), successor);
        // The directory of another store took the path.
        let moved = StoreMatch::Moved(id('b'), "/b".into());
        assert_eq!(match_store(&facts("/a", 2), &known, superseded), moved);
        let linked_again = stores(&[('a', linked("/one", 1, "one"))]);
        let other = linked("/one", 9, "one");
        assert_eq!(match_store(&other, &linked_again, missing), StoreMatch::NotFound);
    }

    /// Proves R12.
    #[test]
    fn moved_linked_checkout_matches_by_git_dir() {
        let known = stores(&[('a', linked("/one", 1, "one")), ('b', linked("/two", 2, "two"))]);

        let moved = StoreMatch::Moved(id('a'), "/one".into());
        assert_eq!(match_store(&linked("/new", 9, "one"), &known, missing), moved);
        let third = linked("/new", 9, "three");
        assert_eq!(match_store(&third, &known, missing), StoreMatch::NotFound);
        let one = linked("/new", 9, "one");
        assert_eq!(match_store(&one, &known, in_place), StoreMatch::NotFound);
    }

    /// Proves R12.
    #[test]
    fn ambiguous_candidates_match_no_store() {
        let known = stores(&[('a', facts("/a", 1)), ('b', facts("/b", 1))]);
        assert_eq!(match_store(&facts("/new", 1), &known, missing), StoreMatch::NotFound);

        // Two stores of one directory are no ambiguity.
        let both = stores(&[('a', facts("/a", 1)), ('b', facts("/a", 1))]);
        let moved = StoreMatch::Moved(id('a'), "/a".into());
        assert_eq!(match_store(&facts("/new", 1), &both, missing), moved);
    }

    /// Proves R12.
    #[test]
    fn replaced_directory_is_no_known_root() {
        let known = stores(&[('a', facts("/a", 1))]);
        let below = Path::new("/a/sub");
        assert_eq!(closest_known_root(below, &known, in_place), Some(Path::new("/a")));
        assert_eq!(closest_known_root(below, &known, superseded), Some(Path::new("/a")));
        assert_eq!(closest_known_root(below, &known, missing), None);
    }
}
