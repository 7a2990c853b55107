//! The registry: every directory finds its own store again, and no two share one (R12).

#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
mod support;

use std::os::unix::fs::{PermissionsExt, symlink};

use case::RegistryFixture;
use support::{NOW, git_in};
use turnstone_snapshot::{RegistryError, RootError, RootPolicy, StoreLinkage};

#[cfg(test)]
mod case {
    use std::path::PathBuf;

    use tempfile::TempDir;
    use turnstone_snapshot::{RegistryError, RootPolicy, StoreLocation, StoreRegistry};

    use crate::support::NOW;

    pub(crate) struct RegistryFixture {
        pub(crate) dir: TempDir,
        pub(crate) registry: StoreRegistry,
    }

    impl RegistryFixture {
        pub(crate) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let registry = StoreRegistry::new(&dir.path().join("data"));
            Self { dir, registry }
        }

        pub(crate) fn at(&self, path: &str) -> PathBuf {
            fs_err::canonicalize(self.dir.path()).unwrap().join(path)
        }

        pub(crate) fn make(&self, path: &str) -> PathBuf {
            fs_err::create_dir_all(self.at(path)).unwrap();
            self.at(path)
        }

        pub(crate) fn open(&self, path: &str) -> StoreLocation {
            self.try_open(path).unwrap()
        }

        pub(crate) fn try_open(&self, path: &str) -> Result<StoreLocation, RegistryError> {
            let policy = RootPolicy { home: Some(self.at("home")), by_name: false };
            Ok(self.registry.open_store(&self.at(path), &policy, NOW)?.0)
        }

        pub(crate) fn index(&self) -> PathBuf {
            self.at("data/store/registry.json")
        }
    }
}

/// Proves R12.
#[test]
fn each_directory_finds_its_own_store_again() {
    let case = RegistryFixture::new();
    case.make("one");
    case.make("two");
    symlink(case.at("one"), case.at("link")).unwrap();

    let (one, two) = (case.open("one"), case.open("two"));
    assert_eq!((&one.link, &two.link), (&StoreLinkage::Created, &StoreLinkage::Created));
    assert_ne!(one.id, two.id);
    let again = case.open("link");
    assert_eq!((again.id, again.link, again.root), (one.id, StoreLinkage::Known, case.at("one")));
    let closed = |path: &str| fs_err::metadata(case.at(path)).unwrap().permissions().mode() & 0o77;
    assert_eq!(["data", "data/store", "data/store/registry.json"].map(closed), [0; 3]);
}

/// Proves R12.
#[test]
fn moved_root_keeps_its_store_and_reports_the_move() {
    let case = RegistryFixture::new();
    case.make("one");
    let before = case.open("one");

    fs_err::rename(case.at("one"), case.at("moved")).unwrap();
    let after = case.open("moved");
    assert_eq!((&after.id, after.link), (&before.id, StoreLinkage::Moved(case.at("one"))));
    assert_eq!(case.open("moved").link, StoreLinkage::Known);

    case.make("one");
    let other = case.open("one");
    assert_eq!(other.link, StoreLinkage::Created);
    assert_ne!(other.id, before.id);
}

/// Proves R12.
#[test]
fn store_follows_moved_root_when_old_path_is_reused() {
    let case = RegistryFixture::new();
    case.make("one");
    let before = case.open("one");
    fs_err::rename(case.at("one"), case.at("moved")).unwrap();
    case.make("one");

    assert_eq!(case.open("moved").id, before.id);
    assert_ne!(case.open("one").id, before.id);
}

/// Proves R12.
#[test]
fn copied_or_new_directory_gets_a_new_store() {
    let case = RegistryFixture::new();
    case.make("one/.git");
    fs_err::write(case.at("one/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    let one = case.open("one");

    case.make("copy/.git");
    fs_err::copy(case.at("one/.git/HEAD"), case.at("copy/.git/HEAD")).unwrap();
    assert_ne!(case.open("copy").id, one.id);

    fs_err::remove_dir_all(case.at("one")).unwrap();
    for index in 0..20 {
        // Where inodes are used again, one of these has the number of the one that went.
        let name = format!("new{index}");
        case.make(&name);
        assert_ne!(case.open(&name).id, one.id);
    }
}

/// Proves R12.
#[test]
fn subdirectory_uses_the_store_of_its_checkout() {
    let case = RegistryFixture::new();
    case.make("repo/src/deep");
    git_in(&case.at("repo"), &["init", "-q"]);
    let root = case.open("repo");

    let deep = case.open("repo/src/deep");
    assert_eq!((&deep.id, deep.root), (&root.id, case.at("repo")));
    assert_eq!(deep.scope.unwrap().to_string(), "src/deep");
    assert_eq!(root.scope, None);
    assert!(matches!(case.try_open("repo/.git/info"), Err(RegistryError::InsideGit { .. })));

    case.make("plain/sub");
    let plain = case.open("plain");
    let sub = case.open("plain/sub");
    assert_eq!((sub.id, sub.scope.unwrap().to_string()), (plain.id, "sub".to_owned()));
}

/// Proves R12.
#[test]
fn linked_worktrees_have_own_stores_that_move_with_them() {
    let case = RegistryFixture::new();
    case.make("repo");
    let git = |args: &[&str]| git_in(&case.at("repo"), args);
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&["worktree", "add", "-q", "../tree"]);

    let (main, tree) = (case.open("repo"), case.open("tree"));
    assert_ne!(main.id, tree.id);
    // As across file systems: another inode.
    git(&["worktree", "move", "../tree", "../aside"]);
    case.make("moved");
    fs_err::copy(case.at("aside/.git"), case.at("moved/.git")).unwrap();
    fs_err::remove_dir_all(case.at("aside")).unwrap();
    assert_eq!(case.open("moved").id, tree.id);

    git(&["worktree", "add", "-q", "../other"]);
    fs_err::remove_dir_all(case.at("moved")).unwrap();
    assert_ne!(case.open("other").id, tree.id);
}

#[test]
fn home_checkout_is_not_captured_for_a_subfolder() {
    let case = RegistryFixture::new();
    case.make("home/.git");
    fs_err::write(case.at("home/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    case.make("home/project");

    let project = case.open("home/project");
    assert_eq!((project.root, project.scope), (case.at("home/project"), None));
    let refused = case.try_open("home");
    assert!(matches!(refused, Err(RegistryError::Root(RootError::Refused(_)))));

    let policy = RootPolicy { home: Some(case.at("home")), by_name: true };
    let named = case.registry.open_store(&case.at("home"), &policy, NOW).unwrap().0;
    assert_eq!(case.open("home").id, named.id, "asked for once is enough");
}

/// Proves R12.
#[test]
fn damaged_registry_index_is_rebuilt_from_stores() {
    let case = RegistryFixture::new();
    case.make("one");
    case.make("two");
    let (one, two) = (case.open("one"), case.open("two"));
    let good = fs_err::read_to_string(case.index()).unwrap();
    let swapped = good.replace(one.id.as_str(), "x").replace(two.id.as_str(), one.id.as_str());
    let swapped = swapped.replace("\"x\"", &format!("{:?}", two.id.as_str()));
    for text in [
        "".to_owned(),
        good[..good.len() / 2].to_owned(),
        "[1]".to_owned(),
        good.replace(one.id.as_str(), "../../../etc"),
        r#"{"version":1,"stores":{}}"#.to_owned(),
        swapped,
    ] {
        fs_err::write(case.index(), &text).unwrap();
        assert_eq!((case.open("one").id, case.open("two").id), (one.id.clone(), two.id.clone()));
        case.make("new");
        let new = case.open("new");
        assert!(new.id != one.id && new.id != two.id, "{text}");
        assert!(new.folder.starts_with(case.at("data/store")));
    }
    fs_err::write(case.index(), r#"{"version":99,"stores":{}}"#).unwrap();
    assert!(matches!(case.try_open("one"), Err(RegistryError::TooNew { version: 99, .. })));
    fs_err::remove_file(case.index()).unwrap();
    assert_eq!(case.open("one").id, one.id);
}

/// Proves R12.
#[test]
fn store_with_damaged_record_is_found_via_the_index() {
    let case = RegistryFixture::new();
    case.make("one");
    let one = case.open("one");

    fs_err::write(one.folder.join("store.json"), "torn").unwrap();
    assert_eq!(case.open("one").id, one.id);
    let record = fs_err::read_to_string(one.folder.join("store.json")).unwrap();
    assert!(record.contains(one.id.as_str()), "it is written again: {record}");
}

#[test]
fn stores_are_listed_with_their_roots() {
    let case = RegistryFixture::new();
    case.make("one");
    case.make("two");
    let (one, two) = (case.open("one"), case.open("two"));
    fs_err::remove_dir(case.at("two")).unwrap();
    fs_err::write(one.folder.join("bytes"), [0; 1000]).unwrap();
    symlink("/", case.at("data/store/ffffffffffffffffffffffff")).unwrap();

    let listed = case.registry.list_stores().unwrap();

    assert_eq!(listed.len(), 2);
    let find = |id| listed.iter().find(|store| store.id == id).unwrap();
    let (one, two) = (find(one.id), find(two.id));
    assert!(one.root_exists && !two.root_exists);
    assert!(one.bytes > 1000 && two.bytes < 1000);
    assert_eq!(two.root.as_ref().unwrap().path, case.at("two"));
}

/// Proves R12.
#[test]
fn concurrent_first_opens_create_one_store() {
    let case = RegistryFixture::new();
    case.make("one");
    let open = || case.open("one").id;
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(case.registry.list_stores().unwrap().len(), 1);
}

/// Proves R41.
#[test]
fn orphaned_store_is_removed_only_after_retention() {
    let case = RegistryFixture::new();
    case.make("one");
    case.make("two");
    let (one, two) = (case.open("one"), case.open("two"));
    let handle = |name: &str| {
        let options = turnstone_snapshot::SnapshotOptions::default();
        turnstone_snapshot::SnapshotHandle::open(
            &case.at("data"),
            None,
            &case.at(name),
            options,
            NOW,
        )
    };
    drop((handle("one").unwrap(), handle("two").unwrap()));
    fs_err::remove_dir_all(case.at("two")).unwrap();
    let day = 86_400_000;
    let remove = |days: i64, dry_run| {
        let removed =
            case.registry.remove_orphaned_stores(7 * day, NOW.plus(days * day), dry_run).unwrap();
        removed.into_iter().map(|store| store.id).collect::<Vec<_>>()
    };

    assert!(remove(30, false).is_empty(), "it was not known to be gone before");
    assert!(remove(36, false).is_empty());
    assert_eq!(remove(37, true).first(), Some(&two.id));
    assert!(two.folder.exists(), "a dry run changes nothing");
    assert_eq!(remove(37, false), [two.id]);
    assert!(!two.folder.exists() && one.folder.exists());
    assert_eq!(case.open("one").id, one.id);
}
