//! A directory tree in memory: read from a disk, changed by events, compared, written out again.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use super::{DiskOperation, NameChange, NodeId};

/// The recorded directory itself.
pub(crate) const ROOT: NodeId = NodeId(0);

/// Suffixes of file names that hold nothing durable by design.
#[derive(Clone, Debug)]
pub(crate) struct VolatileSuffixes(pub(crate) Vec<String>);

impl VolatileSuffixes {
    pub(crate) fn matches(&self, name: &OsStr) -> bool {
        let name = name.as_encoded_bytes();
        self.0.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TreeNode {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, NodeId>),
    Link(PathBuf),
}

impl TreeNode {
    /// The same kind of node, holding nothing.
    pub(crate) fn to_empty(&self) -> Self {
        match self {
            Self::File(_) => Self::File(Vec::new()),
            Self::Directory(_) => Self::Directory(BTreeMap::new()),
            Self::Link(target) => Self::Link(target.clone()),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MemoryTree {
    nodes: Vec<TreeNode>,
}

impl MemoryTree {
    /// Reads the directory at `root`; sockets, pipes and devices are left out.
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        let mut tree = Self { nodes: vec![TreeNode::Directory(BTreeMap::new())] };
        let mut inodes = HashMap::new();
        let mut todo = vec![(ROOT, root.to_owned())];
        while let Some((dir, path)) = todo.pop() {
            for entry in fs_err::read_dir(&path)? {
                let entry = entry?;
                let meta = entry.metadata()?;
                let inode = std::os::unix::fs::MetadataExt::ino(&meta);
                let node = match inodes.get(&inode) {
                    Some(known) => *known,
                    None if meta.is_dir() => tree.add(TreeNode::Directory(BTreeMap::new())),
                    None if meta.is_file() => tree.add(TreeNode::File(fs_err::read(entry.path())?)),
                    None if meta.is_symlink() => {
                        tree.add(TreeNode::Link(fs_err::read_link(entry.path())?))
                    }
                    None => continue,
                };
                inodes.insert(inode, node);
                if meta.is_dir() {
                    todo.push((node, entry.path()));
                }
                tree.set_name(&NameChange { dir, name: entry.file_name(), node: Some(node) });
            }
        }
        Ok(tree)
    }

    pub(crate) fn add(&mut self, node: TreeNode) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn node(&self, id: NodeId) -> &TreeNode {
        &self.nodes[id.0]
    }

    /// Adds, empty, the nodes of `later` that this tree does not have yet.
    pub(crate) fn extend_from(&mut self, later: &Self) {
        let known = self.len();
        self.nodes.extend(later.nodes[known..].iter().map(TreeNode::to_empty));
    }

    pub(crate) fn child(&self, dir: NodeId, name: &OsStr) -> Option<NodeId> {
        match self.node(dir) {
            TreeNode::Directory(entries) => entries.get(name).copied(),
            TreeNode::File(_) | TreeNode::Link(_) => None,
        }
    }

    pub(crate) fn size(&self, id: NodeId) -> u64 {
        self.contents(id).len() as u64
    }

    pub(crate) fn contents(&self, id: NodeId) -> &[u8] {
        match self.node(id) {
            TreeNode::File(data) => data,
            TreeNode::Directory(_) | TreeNode::Link(_) => &[],
        }
    }

    pub(crate) fn set_contents(&mut self, id: NodeId, contents: Vec<u8>) {
        if let TreeNode::File(data) = &mut self.nodes[id.0] {
            *data = contents;
        }
    }

    pub(crate) fn set_name(&mut self, change: &NameChange) {
        if let TreeNode::Directory(entries) = &mut self.nodes[change.dir.0] {
            match change.node {
                Some(node) => drop(entries.insert(change.name.clone(), node)),
                None => drop(entries.remove(&change.name)),
            }
        }
    }

    /// Makes the change an event describes; syncs and acknowledgements change nothing.
    pub(crate) fn apply(&mut self, operation: &DiskOperation) {
        match operation {
            DiskOperation::Names(changes) => {
                changes.iter().for_each(|change| self.set_name(change))
            }
            DiskOperation::Write { node, .. }
            | DiskOperation::Resize { node, .. }
            | DiskOperation::Zero { node, .. } => {
                if let TreeNode::File(contents) = &mut self.nodes[node.0] {
                    change_contents(contents, operation);
                }
            }
            DiskOperation::Sync { .. }
            | DiskOperation::SyncAll
            | DiskOperation::Acknowledge { .. } => {}
        }
    }

    /// Writes the tree into the empty directory `to`; hard links stay hard links.
    pub(crate) fn write(&self, to: &Path, volatile: &VolatileSuffixes) -> io::Result<()> {
        let mut writer =
            TreeWriter { tree: self, volatile, files: HashMap::new(), ancestors: BTreeSet::new() };
        writer.write_directory(ROOT, to)
    }

    /// The first path, relative to the root, at which this tree and `other` differ, and how.
    pub(crate) fn first_difference(
        &self,
        other: &Self,
        volatile: &VolatileSuffixes,
    ) -> Option<(PathBuf, String)> {
        let mut todo = vec![(ROOT, ROOT, PathBuf::new())];
        while let Some((left, right, path)) = todo.pop() {
            match (self.node(left), other.node(right)) {
                (TreeNode::Directory(mine), TreeNode::Directory(theirs)) => {
                    let names: BTreeSet<_> = mine.keys().chain(theirs.keys()).collect();
                    for name in names.into_iter().filter(|name| !volatile.matches(name)) {
                        match (mine.get(name), theirs.get(name)) {
                            (Some(left), Some(right)) => {
                                todo.push((*left, *right, path.join(name)))
                            }
                            (Some(_), None) => return Some((path.join(name), "is missing".into())),
                            (None, _) => return Some((path.join(name), "is unexpected".into())),
                        }
                    }
                }
                (TreeNode::File(mine), TreeNode::File(theirs)) if mine != theirs => {
                    let at = mine.iter().zip(theirs).take_while(|(a, b)| a == b).count();
                    let sizes = format!("{} and {} bytes", mine.len(), theirs.len());
                    return Some((path, format!("differs from byte {at} on, {sizes}")));
                }
                (mine, theirs) if mine != theirs => {
                    return Some((path, "is of another kind".into()));
                }
                (_, _) => {}
            }
        }
        None
    }
}

/// Changes the bytes of one file as `operation` says.
pub(crate) fn change_contents(contents: &mut Vec<u8>, operation: &DiskOperation) {
    match operation {
        DiskOperation::Write { offset, data, .. } => {
            let begin = *offset as usize;
            let end = begin + data.len();
            if contents.len() < end {
                contents.resize(end, 0);
            }
            contents[begin..end].copy_from_slice(data);
        }
        DiskOperation::Resize { len, .. } => contents.resize(*len as usize, 0),
        DiskOperation::Zero { offset, len, .. } => {
            let begin = contents.len().min(*offset as usize);
            let end = contents.len().min((offset + len) as usize);
            contents[begin..end].fill(0);
        }
        DiskOperation::Names(_)
        | DiskOperation::Sync { .. }
        | DiskOperation::SyncAll
        | DiskOperation::Acknowledge { .. } => {}
    }
}

struct TreeWriter<'a> {
    tree: &'a MemoryTree,
    volatile: &'a VolatileSuffixes,
    files: HashMap<NodeId, PathBuf>,
    ancestors: BTreeSet<NodeId>,
}

impl TreeWriter<'_> {
    fn write_directory(&mut self, dir: NodeId, to: &Path) -> io::Result<()> {
        // Half-done moves of directories can make a ring; a check of the disk would cut it.
        let (TreeNode::Directory(entries), true) =
            (self.tree.node(dir), self.ancestors.insert(dir))
        else {
            return Ok(());
        };
        for (name, id) in entries.iter().filter(|(name, _)| !self.volatile.matches(name)) {
            let path = to.join(name);
            match self.tree.node(*id) {
                TreeNode::Directory(_) => {
                    fs_err::create_dir(&path)?;
                    fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o700))?;
                    self.write_directory(*id, &path)?;
                }
                TreeNode::Link(target) => symlink(target, &path)?,
                TreeNode::File(data) => match self.files.get(id) {
                    Some(first) => fs_err::hard_link(first, &path)?,
                    None => {
                        fs_err::write(&path, data)?;
                        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
                        self.files.insert(*id, path);
                    }
                },
            }
        }
        self.ancestors.remove(&dir);
        Ok(())
    }
}
