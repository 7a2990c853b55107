//! Checkouts whose objects are in another repository (`clone --shared`), and lists of alternates that lie.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::checkout::{
    FILE_COUNT, FILES, REPEATS, assert_raw_bytes, assert_reused, checkout_of, commit_and_repack,
    default_settings, snapshot_tree, wait_past_clock_granularity,
};
use crate::support::StoreFixture;

/// A checkout without a pack of its own: the objects are in a repository next to it.
fn shared_clone() -> (StoreFixture, PathBuf) {
    let origin = checkout_of(None);
    commit_and_repack(&origin, &[]);
    let case = checkout_of(default_settings());
    FILES.iter().for_each(|(path, _)| case.remove(path));
    fs_err::remove_dir_all(case.root()).unwrap();
    // The origin lives as long as the clone.
    let origin_path = case.dir.path().join("origin");
    fs_err::rename(origin.root(), &origin_path).unwrap();
    case.git_in(case.dir.path(), &["clone", "-q", "--shared", "origin", "work"]);
    wait_past_clock_granularity();
    case.git_in(&case.root(), &["update-index", "-q", "--refresh"]);
    case.git_in(&case.root(), &["update-index", "--force-write-index"]);
    let mut case = case;
    case.reopen();
    (case, origin_path)
}

/// Proves R10.
#[test]
fn shared_clone_is_captured_without_reading_files() {
    let (case, origin) = shared_clone();
    let before = snapshot_tree(&origin);

    let captured = assert_reused(&case, FILE_COUNT);

    assert_eq!(captured.capture.tree.to_string(), case.git_write_tree());
    // The other repository is not needed any more, and was not touched.
    assert!(before == snapshot_tree(&origin));
    fs_err::remove_dir_all(&origin).unwrap();
    let settled = case.store.packs().release_borrowed_packs().unwrap();
    assert_eq!((settled.lost.len(), settled.returned), (0, 1));
    assert_raw_bytes(&case, &captured);
    case.git(&["fsck", "--full"]);
}

/// Proves R10: whatever cannot be linked is read.
#[test]
fn alternates_that_cannot_be_linked_make_files_read() {
    let folder = |origin: &PathBuf| origin.join(".git/objects/pack");
    let packs = |origin: &PathBuf, ending: &str| -> Vec<PathBuf> {
        let all = fs_err::read_dir(folder(origin)).unwrap().map(|entry| entry.unwrap().path());
        all.filter(|path| path.extension().is_some_and(|it| it == ending)).collect()
    };
    type Change<'c> = &'c dyn Fn(&PathBuf);
    let gone: Change<'_> = &|origin| fs_err::remove_dir_all(origin).unwrap();
    let partial: Change<'_> =
        &|origin| fs_err::write(folder(origin).join("pack-x.promisor"), "").unwrap();
    let link: Change<'_> = &|origin| {
        for pack in packs(origin, "pack") {
            let real = pack.with_extension("real");
            fs_err::rename(&pack, &real).unwrap();
            std::os::unix::fs::symlink(&real, &pack).unwrap();
        }
    };
    let pipe: Change<'_> = &|origin| {
        for index in packs(origin, "idx") {
            fs_err::remove_file(&index).unwrap();
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, &index, kind, mode, 0).unwrap();
        }
    };
    let cut: Change<'_> = &|origin| {
        for pack in packs(origin, "pack") {
            let bytes = fs_err::read(&pack).unwrap();
            fs_err::remove_file(&pack).unwrap();
            fs_err::write(&pack, &bytes[..bytes.len() / 2]).unwrap();
        }
    };
    for change in [gone, partial, link, pipe, cut] {
        let (case, origin) = shared_clone();
        change(&origin);
        assert_reused(&case, 0);
    }
}

/// Proves R10: an object of an alternate that is not what its name says is rebuilt from the worktree.
#[test]
fn damaged_object_of_an_alternate_is_rebuilt() {
    let (case, origin) = shared_clone();
    let captured = assert_reused(&case, FILE_COUNT);
    let blob = case.git(&["rev-parse", &format!("{}:a.txt", captured.capture.tree)]);
    let folder = fs_err::read_dir(origin.join(".git/objects/pack")).unwrap();
    let pack = folder.map(|entry| entry.unwrap().path());
    let pack = pack.into_iter().find(|path| path.extension().is_some_and(|it| it == "idx"));
    let pack = pack.unwrap();
    let listed = case.git(&["verify-pack", "-v", pack.to_str().unwrap()]);
    let line = listed.lines().find(|line| line.starts_with(&blob)).unwrap();
    let offset: usize = line.split_whitespace().nth(4).unwrap().parse().unwrap();
    // The second name leads to the same bytes.
    let pack = pack.with_extension("pack");
    fs_err::set_permissions(&pack, PermissionsExt::from_mode(0o644)).unwrap();
    let mut bytes = fs_err::read(&pack).unwrap();
    bytes[offset + 6] ^= 0x55;
    fs_err::write(&pack, bytes).unwrap();

    let settled = case.store.packs().release_borrowed_packs().unwrap();

    assert_eq!((settled.repaired, settled.lost.len()), (1, 0));
    assert_raw_bytes(&case, &captured);
    let text = case.git(&["cat-file", "blob", &blob]);
    assert_eq!(text, "alpha\n".repeat(REPEATS).trim_end());
}
