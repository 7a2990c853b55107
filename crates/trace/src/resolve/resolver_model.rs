//! The resolver compared with the kernel, on random trees of directories and links.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use proptest::prelude::*;
use rustix::fs::{Mode, OFlags, openat};

use crate::resolve::call_location::{FileState, open_directory};
use crate::resolve::{CallerView, FinalLink, PathResolver};

/// Names of which trees and paths are made. `new` never exists before.
const NAMES: [&str; 9] = ["a", "b", "f", "l0", "l1", "l2", "..", ".", "new"];
const LINKS: [&str; 3] = ["l0", "l1", "l2"];

/// A path as text; one that begins with `/` begins with the root of the tree.
fn any_path() -> impl Strategy<Value = String> {
    let names = prop::collection::vec(prop::sample::select(&NAMES[..]), 1..6);
    let extra = prop_oneof![8 => Just(""), 1 => Just("/")];
    (any::<bool>(), names, extra).prop_map(|(is_absolute, names, end)| {
        let start = if is_absolute { "/" } else { "" };
        format!("{start}{}{end}", names.join("/"))
    })
}

/// Where links are, and what they lead to.
fn any_links() -> impl Strategy<Value = Vec<(&'static str, &'static str, String)>> {
    let folder = prop::sample::select(&["", "a", "a/b", "b"][..]);
    let link = (folder, prop::sample::select(&LINKS[..]), any_path());
    prop::collection::vec(link, 0..6)
}

fn below(root: &Path, path: &str) -> String {
    match path.strip_prefix('/') {
        Some(path) => format!("{}/{path}", root.display()),
        None => path.to_owned(),
    }
}

fn build_tree(root: &Path, links: &[(&str, &str, String)]) {
    for folder in ["a/b/a", "b/a"] {
        fs_err::create_dir_all(root.join(folder)).unwrap();
    }
    for file in ["f", "a/f", "a/b/f", "b/a/f"] {
        fs_err::write(root.join(file), file).unwrap();
    }
    for (folder, name, target) in links {
        // Two links of one name: the first one stays.
        let at = root.join(folder).join(name);
        std::os::unix::fs::symlink(below(root, target), at).ok();
    }
}

fn open_for_writing(base: &OwnedFd, path: &str) -> Option<FileState> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(base, path, flags, Mode::RUSR | Mode::WUSR).ok()?;
    FileState::of(file).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever file the kernel opens or creates is the one that was found, by both ways to resolve.
    #[test]
    fn file_that_the_kernel_opens_is_the_one_that_was_found(
        links in any_links(),
        path in any_path(),
        is_ours: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        build_tree(&root, &links);
        let base = open_directory(&root).unwrap();
        let path = below(&root, &path);
        let view = CallerView { pid: std::process::id(), is_ours };
        let resolver = PathResolver::new().unwrap();
        let at = base.as_raw_fd();

        let found = resolver.resolve(view, at, path.as_ref(), FinalLink::Follow);
        if let Some(opened) = open_for_writing(&base, &path) {
            let found = found.map_err(|error| TestCaseError::fail(format!("{path}: {error:?}")))?;
            let named = FileState::of(openat(
                &base, found.path(), OFlags::PATH | OFlags::NOFOLLOW, Mode::empty(),
            ).unwrap()).unwrap();
            prop_assert!(named.is_same_file(&opened), "{path} is {:?}", found.path());
            prop_assert!(found.target.is_none_or(|target| target.is_same_file(&opened)));
        }
    }

    /// What `unlink` and its kin would remove is the name that was found.
    #[test]
    fn name_that_the_kernel_sees_is_the_one_that_was_found(
        links in any_links(),
        path in any_path(),
        is_ours: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        build_tree(&root, &links);
        let base = open_directory(&root).unwrap();
        let path = below(&root, &path);
        let view = CallerView { pid: std::process::id(), is_ours };
        let resolver = PathResolver::new().unwrap();

        let found = resolver.resolve(view, base.as_raw_fd(), path.as_ref(), FinalLink::Keep);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // The kernel removes no name that ends so.
        let is_removable = !path.trim_end_matches('/').ends_with('.');
        let opened = openat(&base, path.as_str(), flags, Mode::empty()).ok();
        if let Some(file) = opened.filter(|_| is_removable) {
            let seen = FileState::of(file).unwrap();
            let found = found.map_err(|error| TestCaseError::fail(format!("{path}: {error:?}")))?;
            let target = found.target;
            prop_assert!(target.is_some_and(|target| target.is_same_file(&seen)), "{path}: {found:?}");
        }
    }

    /// Any bytes are a path; what they lead to is no matter, as long as there is an answer.
    #[test]
    fn any_bytes_are_resolved_or_refused(bytes in prop::collection::vec(1_u8.., 0..300), is_ours: bool) {
        use std::os::unix::ffi::OsStrExt;
        let view = CallerView { pid: std::process::id(), is_ours };
        let path = std::ffi::OsStr::from_bytes(&bytes);
        let resolver = PathResolver::new().unwrap();
        for link in [FinalLink::Follow, FinalLink::Keep] {
            drop(resolver.resolve(view, libc::AT_FDCWD, path, link));
            drop(resolver.find_missing(view, libc::AT_FDCWD, path));
        }
    }
}
