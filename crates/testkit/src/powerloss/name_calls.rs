//! Calls on names: open, create, link, rename, remove.

use super::{
    DiskOperation, NameChange, NodeId, RecordError,
    call_args::CallArgs,
    memory_tree::{ROOT, TreeNode},
    namespace::ResolvedPath,
    strace_value,
    traced_processes::{DescriptorTarget, OpenFile},
    tracker::{PendingCall, Tracker},
};

/// A path argument: the descriptor it is relative to, if the call takes one, and the path.
type PathArg = (Option<usize>, usize);

impl Tracker {
    pub(super) fn open(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
        path: usize,
        flags: &str,
    ) -> Result<(), RecordError> {
        let has = |flag| strace_value::has_flag(flags, flag);
        let location = self.resolve_path(request, at, path, !has("O_NOFOLLOW"))?;
        let writes = has("O_WRONLY") || has("O_RDWR");
        let target = match location {
            ResolvedPath::Outside(path) | ResolvedPath::UnknownParent(path) => {
                DescriptorTarget::Outside(path)
            }
            ResolvedPath::Root | ResolvedPath::Name { .. }
                if writes && (has("O_SYNC") || has("O_DSYNC")) =>
            {
                return Err(request.unsupported_error("synchronous writes"));
            }
            ResolvedPath::Root | ResolvedPath::Name { .. } if has("O_TMPFILE") => {
                DescriptorTarget::Node(self.namespace.tree.add(TreeNode::File(Vec::new())))
            }
            ResolvedPath::Name { dir, name, node: None } if has("O_CREAT") => {
                let node = self.namespace.tree.add(TreeNode::File(Vec::new()));
                let change = NameChange { dir, name, node: Some(node) };
                self.push_names(request, vec![change])?;
                DescriptorTarget::Node(node)
            }
            ResolvedPath::Name { node: None, .. } => {
                return Err(self.unknown_path_error(request, at, path));
            }
            ResolvedPath::Root => DescriptorTarget::Node(ROOT),
            ResolvedPath::Name { node: Some(node), .. } => {
                if has("O_TRUNC") && self.namespace.tree.size(node) > 0 {
                    self.push_node_event(request, node, DiskOperation::Resize { node, len: 0 })?;
                }
                DescriptorTarget::Node(node)
            }
        };
        let file = OpenFile { target, offset: 0, append: has("O_APPEND") };
        let close_on_exec = has("O_CLOEXEC");
        self.begun.insert(request.call.start, PendingCall::Open { file, close_on_exec });
        Ok(())
    }

    fn unknown_path_error(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
        path: usize,
    ) -> RecordError {
        let base = self.base_directory(request, at).unwrap_or_default();
        let path = base.join(request.path(path).unwrap_or_default());
        RecordError::Unknown { path, call: request.call.describe() }
    }

    fn push_names(
        &mut self,
        request: &CallArgs<'_>,
        changes: Vec<NameChange>,
    ) -> Result<(), RecordError> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let path = self.namespace.relative(last.dir).join(&last.name);
        self.push_event(request, path, DiskOperation::Names(changes))
    }

    pub(super) fn create_node(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
        path: usize,
        node: &TreeNode,
    ) -> Result<(), RecordError> {
        match self.resolve_path(request, at, path, false)? {
            ResolvedPath::Name { dir, name, node: None } => {
                let node = self.namespace.tree.add(node.to_empty());
                self.push_names(request, vec![NameChange { dir, name, node: Some(node) }])
            }
            ResolvedPath::Outside(_) => Ok(()),
            ResolvedPath::Root | ResolvedPath::UnknownParent(_) | ResolvedPath::Name { .. } => {
                Err(self.unknown_path_error(request, at, path))
            }
        }
    }

    pub(super) fn remove(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
        path: usize,
    ) -> Result<(), RecordError> {
        match self.resolve_path(request, at, path, false)? {
            ResolvedPath::Name { dir, name, .. } => {
                self.push_names(request, vec![NameChange { dir, name, node: None }])
            }
            ResolvedPath::Outside(_) => Ok(()),
            ResolvedPath::Root | ResolvedPath::UnknownParent(_) => {
                Err(request.unsupported_error("removal of the recorded directory"))
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        request: &CallArgs<'_>,
        from: PathArg,
        to: PathArg,
        flags: &str,
    ) -> Result<(), RecordError> {
        let source = self.resolve_path(request, from.0, from.1, false)?;
        let target = self.resolve_path(request, to.0, to.1, false)?;
        let changes = match (source, target) {
            (ResolvedPath::Outside(_), ResolvedPath::Outside(_)) => return Ok(()),
            (ResolvedPath::Name { dir, name, .. }, ResolvedPath::Outside(_)) => {
                vec![NameChange { dir, name, node: None }]
            }
            (
                ResolvedPath::Name { dir: from_dir, name: from_name, node: Some(node) },
                ResolvedPath::Name { dir, name, node: replaced },
            ) => {
                if replaced == Some(node) {
                    return Ok(()); // Two names of one file: nothing happens.
                }
                let left =
                    if strace_value::has_flag(flags, "RENAME_EXCHANGE") { replaced } else { None };
                let old = NameChange { dir: from_dir, name: from_name, node: left };
                vec![old, NameChange { dir, name, node: Some(node) }]
            }
            (_, _) => {
                return Err(
                    request.unsupported_error("a rename from outside, or of what is unknown")
                );
            }
        };
        self.push_names(request, changes)
    }

    pub(super) fn link(
        &mut self,
        request: &CallArgs<'_>,
        from: PathArg,
        to: PathArg,
        flags: &str,
    ) -> Result<(), RecordError> {
        let target = self.resolve_path(request, to.0, to.1, false)?;
        let source = self.link_source(request, from, flags)?;
        match (source, target) {
            (_, ResolvedPath::Outside(_)) => Ok(()),
            (Some(node), ResolvedPath::Name { dir, name, node: None }) => {
                self.push_names(request, vec![NameChange { dir, name, node: Some(node) }])
            }
            (_, _) => Err(request.unsupported_error("a link from outside, or to what is unknown")),
        }
    }

    /// The file to be linked: by path, by `/proc/self/fd/N`, or by descriptor and an empty path.
    fn link_source(
        &mut self,
        request: &CallArgs<'_>,
        from: PathArg,
        flags: &str,
    ) -> Result<Option<NodeId>, RecordError> {
        let path = request.path(from.1)?;
        if path.as_os_str().is_empty() {
            return Ok(from.0.and_then(|fd| self.node_of(request, fd)));
        }
        let follow = strace_value::has_flag(flags, "AT_SYMLINK_FOLLOW");
        let by_fd =
            path.strip_prefix("/proc/self/fd").ok().and_then(|fd| fd.to_str()?.parse().ok());
        let Some(fd) = by_fd.filter(|_| follow) else {
            return Ok(self.resolve_path(request, from.0, from.1, follow)?.node());
        };
        Ok(match self.processes.file(request.call.thread, fd).map(|file| &file.target) {
            Some(DescriptorTarget::Node(node)) => Some(*node),
            Some(DescriptorTarget::Outside(_) | DescriptorTarget::Output) | None => None,
        })
    }
}
