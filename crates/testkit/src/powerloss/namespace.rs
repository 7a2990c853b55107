//! The live names below the recorded directory: finds what a path means at this moment.

use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use super::{
    DiskOperation, NameChange, NodeId,
    memory_tree::{MemoryTree, ROOT, TreeNode},
};

/// Symbolic links that a path may lead through.
const MAX_LINKS: u32 = 40;

/// What a path means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResolvedPath {
    /// Something not below the recorded directory.
    Outside(PathBuf),
    /// The recorded directory itself.
    Root,
    /// A name in a directory, and the node it refers to, if it exists.
    Name { dir: NodeId, name: OsString, node: Option<NodeId> },
    /// A name in a directory that the model does not know.
    UnknownParent(PathBuf),
}

impl ResolvedPath {
    pub(crate) fn node(&self) -> Option<NodeId> {
        match self {
            Self::Root => Some(ROOT),
            Self::Name { node, .. } => *node,
            Self::Outside(_) | Self::UnknownParent(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Namespace {
    /// The recorded directory: without links first, then as it was given.
    roots: Vec<PathBuf>,
    pub(crate) tree: MemoryTree,
    /// The latest name of each node.
    names: HashMap<NodeId, (NodeId, OsString)>,
}

impl Namespace {
    pub(crate) fn new(roots: Vec<PathBuf>, tree: MemoryTree) -> Self {
        let mut names = HashMap::new();
        for id in (0..tree.len()).map(NodeId) {
            if let TreeNode::Directory(entries) = tree.node(id) {
                names.extend(entries.iter().map(|(name, node)| (*node, (id, name.clone()))));
            }
        }
        Self { roots, tree, names }
    }

    pub(crate) fn apply(&mut self, operation: &DiskOperation) {
        self.tree.apply(operation);
        if let DiskOperation::Names(changes) = operation {
            for NameChange { dir, name, node } in changes {
                if let Some(node) = node {
                    self.names.insert(*node, (*dir, name.clone()));
                }
            }
        }
    }

    /// The latest path of a node, relative to the recorded directory.
    pub(crate) fn relative(&self, node: NodeId) -> PathBuf {
        let mut parts = Vec::new();
        let mut at = node;
        while let Some((dir, name)) = self.names.get(&at).filter(|_| at != ROOT) {
            parts.push(name);
            at = *dir;
        }
        parts.iter().rev().collect()
    }

    /// The latest path of a node.
    pub(crate) fn absolute(&self, node: NodeId) -> PathBuf {
        self.roots.first().cloned().unwrap_or_default().join(self.relative(node))
    }

    /// Finds what the absolute `path` means; with `follow` a link at its end is followed.
    pub(crate) fn locate(&self, path: &Path, follow: bool) -> ResolvedPath {
        self.locate_within(path, follow, MAX_LINKS)
    }

    fn locate_within(&self, path: &Path, follow: bool, links: u32) -> ResolvedPath {
        let path = normalize(path);
        let Some(below) = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()) else {
            return ResolvedPath::Outside(path);
        };
        let mut location = ResolvedPath::Root;
        let mut rest = below.components();
        while let Some(part) = rest.next() {
            let Some(dir) = location.node() else {
                return ResolvedPath::UnknownParent(path.clone());
            };
            let name = part.as_os_str().to_owned();
            let node = self.tree.child(dir, &name);
            let is_last = rest.as_path().as_os_str().is_empty();
            if let (Some(TreeNode::Link(target)), true) =
                (node.map(|id| self.tree.node(id)), follow || !is_last)
            {
                let onwards = self.absolute(dir).join(target).join(rest.as_path());
                return match links.checked_sub(1) {
                    Some(links) => self.locate_within(&onwards, follow, links),
                    None => ResolvedPath::UnknownParent(path.clone()),
                };
            }
            location = ResolvedPath::Name { dir, name, node };
        }
        location
    }
}

/// Removes `.` and `..` from an absolute path without reading the disk.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(result.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => result.push(part),
        }
    }
    result
}
