//! From the touches of a trace to the paths of a root.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use turnstone_core::change::{PathTouch, PriorFile, TouchEffect};
use turnstone_core::model::FileIdentity;
use turnstone_core::rel_path::{RelPath, RelPathError};
use turnstone_process::trace::{Touch, TouchKind, TouchParent, TouchTarget};

use super::path_aliases::PathAliases;

/// Where a root is, and was while a command ran.
pub(super) struct RootPaths {
    /// Its real paths: when the window was opened, and now.
    pub(super) paths: Vec<PathBuf>,
}

/// Where a touched path lies.
enum TouchedPlace {
    /// At a path that captures can name.
    Named(RelPath),
    /// Below this path, at one that they cannot name.
    Below(RelPath),
    Outside,
}

impl RootPaths {
    fn place_of(&self, path: &Path) -> TouchedPlace {
        let Some(rest) = self.paths.iter().find_map(|root| path.strip_prefix(root).ok()) else {
            return TouchedPlace::Outside;
        };
        let bytes = rest.as_os_str().as_bytes();
        match RelPath::new(bytes) {
            Ok(path) => TouchedPlace::Named(path),
            Err(RelPathError::GitDirectory) => {
                longest_named_prefix(bytes).map_or(TouchedPlace::Outside, TouchedPlace::Below)
            }
            Err(
                RelPathError::Empty
                | RelPathError::Absolute
                | RelPathError::Dots
                | RelPathError::Nul,
            ) => TouchedPlace::Outside,
        }
    }

    pub(super) fn named(&self, path: &Path) -> Option<RelPath> {
        match self.place_of(path) {
            TouchedPlace::Named(path) => Some(path),
            TouchedPlace::Below(_) | TouchedPlace::Outside => None,
        }
    }

    /// The touches of a trace as touches of paths of the root, in their order.
    ///
    /// A path that lies in the root only by another name is found by `aliases`.
    pub(super) fn map(&self, touches: &[Touch], aliases: &PathAliases) -> Vec<PathTouch> {
        let (mut found, mut has_linked) = (Vec::new(), false);
        for touch in touches {
            has_linked |= touch.kind == TouchKind::Link;
            let prior = touch.target.as_ref().map(|target| prior_file(target, has_linked));
            let effect = |from: &dyn Fn(&Path) -> Option<RelPath>| effect_of(&touch.kind, from);
            let known = match self.place_of(&touch.path) {
                TouchedPlace::Named(path) => {
                    let effect = effect(&|other| self.named(other));
                    found.push(PathTouch { path: path.clone(), effect, prior });
                    Some(path)
                }
                TouchedPlace::Below(path) => {
                    found.push(PathTouch { path, effect: TouchEffect::TouchedBelow, prior: None });
                    None
                }
                TouchedPlace::Outside => None,
            };
            for path in aliases.of_touch(touch).into_iter().filter(|it| known.as_ref() != Some(it))
            {
                let effect = effect(&|other| self.named(other));
                found.push(PathTouch { path, effect, prior });
            }
        }
        found
    }
}

/// The names of a path before its first git directory; `None` if it begins with one.
fn longest_named_prefix(bytes: &[u8]) -> Option<RelPath> {
    let mut found: Option<RelPath> = None;
    for name in bytes.split(|byte| *byte == b'/') {
        let next = match &found {
            Some(above) => above.join(name),
            None => RelPath::new(name),
        };
        match next {
            Ok(path) => found = Some(path),
            Err(_) => break,
        }
    }
    found
}

fn effect_of(kind: &TouchKind, named: &dyn Fn(&Path) -> Option<RelPath>) -> TouchEffect {
    match kind {
        TouchKind::OpenForWrite
        | TouchKind::Create
        | TouchKind::Truncate
        | TouchKind::CreateDirectory
        | TouchKind::Link
        | TouchKind::Symlink
        | TouchKind::Node => TouchEffect::Written,
        TouchKind::Remove | TouchKind::RemoveDirectory => TouchEffect::Removed,
        TouchKind::Mode | TouchKind::Owner => TouchEffect::MetadataSet,
        TouchKind::MoveFrom { .. } => TouchEffect::MovedAway,
        TouchKind::MoveTo { from } => TouchEffect::MovedHere { from: named(from) },
        TouchKind::Exchange { with } => TouchEffect::Exchanged { with: named(with) },
    }
}

/// What was there before a touch. A file with several names may have got one from the command itself, which is
/// recorded for the new name only: then its time of change says nothing.
fn prior_file(target: &TouchTarget, has_linked: bool) -> PriorFile {
    let is_own_link = has_linked && target.links > 1;
    PriorFile {
        identity: target_identity(target),
        is_directory: target.is_directory,
        changed_nanos: if is_own_link { i64::MIN } else { target.changed },
    }
}

pub(super) const fn target_identity(target: &TouchTarget) -> FileIdentity {
    FileIdentity { device: target.device, inode: target.inode, born: target.born }
}

pub(super) const fn directory_identity(directory: &TouchParent) -> FileIdentity {
    FileIdentity { device: directory.device, inode: directory.inode, born: directory.born }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use turnstone_core::change::{FileChange, PathImage};

    use super::*;

    fn rel(text: &str) -> RelPath {
        text.parse().expect("a path")
    }

    /// A touch of a name in a directory that the file system knows.
    fn touch(directory: &Path, name: &str, kind: TouchKind) -> Touch {
        let meta = fs_err::metadata(directory).expect("a directory");
        let born = meta.created().ok().and_then(|it| it.duration_since(std::time::UNIX_EPOCH).ok());
        let born = born.map(|it| i64::try_from(it.as_nanos()).expect("this century"));
        let parent = TouchParent { device: meta.dev(), inode: meta.ino(), born };
        let path = directory.join(name);
        Touch { kind, path, parent, target: None, sequence: 0, time: 0 }
    }

    fn target_of(path: &Path) -> TouchTarget {
        let meta = fs_err::symlink_metadata(path).expect("a file");
        TouchTarget {
            device: meta.dev(),
            inode: meta.ino(),
            born: None,
            links: u32::try_from(meta.nlink()).expect("few links"),
            is_directory: meta.is_dir(),
            size: meta.size(),
            modified: 0,
            changed: 0,
        }
    }

    fn changed(name: &str) -> FileChange {
        let path = rel(name);
        FileChange { path, before: PathImage::Absent, after: PathImage::Directory { perm: 0 } }
    }

    fn paths(found: &[PathTouch]) -> Vec<String> {
        found.iter().map(|touch| touch.path.to_string()).collect()
    }

    fn roots(paths: &[&Path]) -> RootPaths {
        RootPaths { paths: paths.iter().map(|path| path.to_path_buf()).collect() }
    }

    fn temporary() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().canonicalize().expect("real").join("root");
        fs_err::create_dir_all(root.join("d")).expect("made");
        (dir, root)
    }

    #[test]
    fn paths_below_the_root_are_named_and_git_directories_only_above() {
        let (_dir, root) = temporary();
        fs_err::create_dir_all(root.join("sub/.git/refs")).expect("made");
        let touches = [
            touch(&root, "f", TouchKind::Create),
            touch(&root.join("sub/.git/refs"), "x", TouchKind::Create),
            touch(&root, ".git", TouchKind::CreateDirectory),
            touch(root.parent().expect("above"), "other", TouchKind::Create),
        ];

        let found = roots(&[&root]).map(&touches, &PathAliases::default());

        assert_eq!(paths(&found), ["f", "sub"]);
        assert_eq!(found[1].effect, TouchEffect::TouchedBelow);
    }

    #[test]
    fn moves_name_their_other_end_only_inside_of_the_root() {
        let (_dir, root) = temporary();
        let from = root.join("d");
        let inside = touch(&root, "e", TouchKind::MoveTo { from });
        let outside = touch(&root, "g", TouchKind::MoveTo { from: PathBuf::from("/elsewhere/d") });

        let found = roots(&[&root]).map(&[inside, outside], &PathAliases::default());

        assert_eq!(found[0].effect, TouchEffect::MovedHere { from: Some(rel("d")) });
        assert_eq!(found[1].effect, TouchEffect::MovedHere { from: None });
    }

    /// A root that was moved while the command ran is found by both of its paths.
    #[test]
    fn root_is_found_by_its_path_before_and_now() {
        let (_dir, root) = temporary();
        let before = root.with_file_name("before");
        let mut early = touch(&root, "f", TouchKind::Create);
        early.path = before.join("f");
        let touches = [early, touch(&root, "g", TouchKind::Create)];

        let found = roots(&[&before, &root]).map(&touches, &PathAliases::default());

        assert_eq!(paths(&found), ["f", "g"]);
    }

    /// Somebody renamed the directory after the command had written in it, or it is mounted elsewhere.
    #[test]
    fn directory_is_found_by_its_identity_under_another_name() {
        let (_dir, root) = temporary();
        let mut elsewhere = touch(&root.join("d"), "f", TouchKind::Create);
        elsewhere.path = PathBuf::from("/mounted/d/f");
        let change = changed("d/f");

        let aliases = PathAliases::find(&root, &[&change], std::slice::from_ref(&elsewhere));
        let found = roots(&[&root]).map(&[elsewhere], &aliases);

        assert_eq!(paths(&found), ["d/f"]);
    }

    #[test]
    fn files_of_a_removed_directory_are_found_by_the_touch_that_removed_it() {
        let (_dir, root) = temporary();
        let mut file = touch(&root.join("d"), "f", TouchKind::Remove);
        file.path = PathBuf::from("/mounted/d/f");
        let mut directory = touch(&root, "d", TouchKind::RemoveDirectory);
        let mut target = target_of(&root.join("d"));
        target.born = file.parent.born;
        (directory.path, directory.target) = (PathBuf::from("/mounted/d"), Some(target));
        fs_err::remove_dir(root.join("d")).expect("removed");
        let change = changed("d/f");
        let touches = [file, directory];

        let aliases = PathAliases::find(&root, &[&change], &touches);
        let found = roots(&[&root]).map(&touches, &aliases);

        assert_eq!(paths(&found), ["d/f", "d"]);
    }

    /// A directory that a link leads to lies elsewhere, whatever the link is called.
    #[test]
    fn links_to_directories_are_not_followed() {
        let (dir, root) = temporary();
        let outside = dir.path().canonicalize().expect("real").join("outside");
        fs_err::create_dir(&outside).expect("made");
        fs_err::os::unix::fs::symlink(&outside, root.join("link")).expect("linked");
        let written = touch(&outside, "f", TouchKind::Create);
        let change = changed("link/f");

        let aliases = PathAliases::find(&root, &[&change], std::slice::from_ref(&written));

        assert!(roots(&[&root]).map(&[written], &aliases).is_empty());
    }

    /// `ln f backup; echo x >>f`: the link changed the inode of `f`.
    #[test]
    fn file_that_the_command_linked_has_no_foreign_change() {
        let (_dir, root) = temporary();
        fs_err::write(root.join("f"), "x").expect("written");
        fs_err::hard_link(root.join("f"), root.join("backup")).expect("linked");
        let target = Some(TouchTarget { changed: 9, ..target_of(&root.join("f")) });
        let link = touch(&root, "backup", TouchKind::Link);
        let write = Touch { target, ..touch(&root, "f", TouchKind::OpenForWrite) };

        let alone = roots(&[&root]).map(std::slice::from_ref(&write), &PathAliases::default());
        let after = roots(&[&root]).map(&[link, write], &PathAliases::default());

        assert_eq!(alone[0].prior.map(|it| it.changed_nanos), Some(9));
        assert_eq!(after[1].prior.map(|it| it.changed_nanos), Some(i64::MIN));
    }

    #[test]
    fn other_names_of_a_written_file_are_touched_too() {
        let (_dir, root) = temporary();
        fs_err::write(root.join("f"), "x").expect("written");
        fs_err::hard_link(root.join("f"), root.join("d/g")).expect("linked");
        let mut written = touch(&root, "f", TouchKind::OpenForWrite);
        written.target = Some(target_of(&root.join("f")));
        let change = changed("d/g");

        let aliases = PathAliases::find(&root, &[&change], std::slice::from_ref(&written));
        let found = roots(&[&root]).map(&[written], &aliases);

        assert_eq!(paths(&found), ["f", "d/g"]);
    }
}
