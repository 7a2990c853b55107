//! What the files of a project hold, as the model knows it, and as they are on the disk.
//!
//! A file is a row of slots, far enough apart that two writers of different slots never touch the
//! same lines: so the right answer of every merge is known slot by slot, without a merge.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

pub(crate) const SLOTS: usize = 3;

/// What one path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ModelNode {
    File { slots: [u64; SLOTS], binary: bool, perm: u32 },
    Link { target: String },
    Directory { perm: u32 },
}

/// What a path holds, or `None` if there is nothing.
pub(crate) type ModelImage = Option<ModelNode>;
pub(crate) type ModelTree = BTreeMap<String, ModelNode>;

/// What is on the disk: bytes of a file or target of a link, and permission bits.
pub(crate) type DiskTree = BTreeMap<String, DiskNode>;

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum DiskNode {
    File(Vec<u8>, u32),
    Link(Vec<u8>),
    Directory(u32),
}

impl std::fmt::Debug for DiskNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let slots = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let slots = text.lines().filter_map(|line| line.strip_prefix("slot "));
            slots.map(str::to_owned).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::File(bytes, perm) => write!(f, "file {perm:o} [{}]", slots(bytes)),
            Self::Link(target) => write!(f, "link to {}", String::from_utf8_lossy(target)),
            Self::Directory(perm) => write!(f, "directory {perm:o}"),
        }
    }
}

impl ModelNode {
    pub(crate) const fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }

    /// The bytes of a file.
    pub(crate) fn render(&self) -> String {
        let Self::File { slots, binary, .. } = self else { return String::new() };
        let mut text = String::from(if *binary { "\0\n" } else { "" });
        for (number, slot) in slots.iter().enumerate() {
            text.push_str(&format!("slot {number}: {slot}\n"));
            for filler in ["one", "two", "three", "four"] {
                text.push_str(&format!("  {filler} after {number}\n"));
            }
        }
        text
    }

    fn to_disk(&self) -> DiskNode {
        match self {
            Self::File { perm, .. } => DiskNode::File(self.render().into_bytes(), *perm),
            Self::Link { target } => DiskNode::Link(target.clone().into_bytes()),
            Self::Directory { perm } => DiskNode::Directory(*perm),
        }
    }
}

/// The tree as it should be on the disk.
pub(crate) fn render_tree(tree: &ModelTree) -> DiskTree {
    tree.iter().map(|(path, node)| (path.clone(), node.to_disk())).collect()
}

/// The tree as it is on the disk, without the user's repository.
pub(crate) fn read_tree(root: &Path) -> io::Result<DiskTree> {
    let mut tree = DiskTree::new();
    let mut pending = vec![String::new()];
    while let Some(folder) = pending.pop() {
        for entry in fs_err::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if path == ".git" || path.ends_with(".o") {
                continue;
            }
            let facts = fs_err::symlink_metadata(entry.path())?;
            let perm = facts.permissions().mode() & 0o7777;
            let node = if facts.is_dir() {
                pending.push(path.clone());
                DiskNode::Directory(perm)
            } else if facts.is_symlink() {
                let target = fs_err::read_link(entry.path())?;
                DiskNode::Link(target.into_os_string().into_encoded_bytes())
            } else {
                assert_eq!(facts.nlink(), 1, "{path} has one name");
                DiskNode::File(fs_err::read(entry.path())?, perm)
            };
            tree.insert(path, node);
        }
    }
    Ok(tree)
}

/// Where two trees differ, for people.
pub(crate) fn describe_difference(expected: &DiskTree, found: &DiskTree) -> Option<String> {
    let paths: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    let lines: Vec<String> = paths
        .into_iter()
        .filter(|path| expected.get(*path) != found.get(*path))
        .map(|path| {
            let show = |node: Option<&DiskNode>| {
                node.map_or_else(|| "nothing".to_owned(), |node| format!("{node:?}"))
            };
            format!(
                "  {path}: expected {}, found {}",
                show(expected.get(path)),
                show(found.get(path))
            )
        })
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The directory a path is in; `None` at the top.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

/// True if `path` is below `folder`.
pub(crate) fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Sets one path.
pub(crate) fn put(tree: &mut ModelTree, path: &str, image: ModelImage) {
    match image {
        Some(node) => drop(tree.insert(path.to_owned(), node)),
        None => drop(tree.remove(path)),
    }
}

/// Where two trees differ: what each path held before and after.
pub(crate) fn tree_changes(
    before: &ModelTree,
    after: &ModelTree,
) -> BTreeMap<String, (ModelImage, ModelImage)> {
    let paths: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let pair = |path: &String| {
        let pair = (before.get(path).cloned(), after.get(path).cloned());
        (pair.0 != pair.1).then(|| (path.clone(), pair))
    };
    paths.into_iter().filter_map(pair).collect()
}

/// Creates a project with these files.
pub(crate) fn write_tree(root: &Path, tree: &ModelTree) -> io::Result<()> {
    fs_err::create_dir(root)?;
    for (path, node) in tree {
        let at = root.join(path);
        let perm = match node {
            ModelNode::Directory { perm } => {
                fs_err::create_dir(&at)?;
                *perm
            }
            ModelNode::File { perm, .. } => {
                fs_err::write(&at, node.render())?;
                *perm
            }
            ModelNode::Link { .. } => continue,
        };
        fs_err::set_permissions(&at, std::fs::Permissions::from_mode(perm))?;
    }
    Ok(())
}
