//! Calls on names: open, create, link, rename, remove.

use super::{
    NameChange, NodeId, Operation, RecordError,
    namespace::Spot,
    process::{OpenFile, Target},
    request::Request,
    tracker::{Begun, Tracker},
    tree::{Node, ROOT},
    value,
};

/// A path argument: the descriptor it is relative to, if the call takes one, and the path.
type PathArg = (Option<usize>, usize);

impl Tracker {
    pub(super) fn open(
        &mut self,
        request: &Request<'_>,
        at: Option<usize>,
        path: usize,
        flags: &str,
    ) -> Result<(), RecordError> {
        let has = |flag| value::has_flag(flags, flag);
        let spot = self.spot(request, at, path, !has("O_NOFOLLOW"))?;
        let writes = has("O_WRONLY") || has("O_RDWR");
        let target = match spot {
            Spot::Outside(path) | Spot::Lost(path) => Target::Outside(path),
            Spot::Root | Spot::Name { .. } if writes && (has("O_SYNC") || has("O_DSYNC")) => {
                return Err(request.unsupported("synchronous writes"));
            }
            Spot::Root | Spot::Name { .. } if has("O_TMPFILE") => {
                Target::Node(self.namespace.tree.add(Node::File(Vec::new())))
            }
            Spot::Name { dir, name, node: None } if has("O_CREAT") => {
                let node = self.namespace.tree.add(Node::File(Vec::new()));
                let change = NameChange { dir, name, node: Some(node) };
                self.push_names(request, vec![change])?;
                Target::Node(node)
            }
            Spot::Name { node: None, .. } => return Err(self.unknown(request, at, path)),
            Spot::Root => Target::Node(ROOT),
            Spot::Name { node: Some(node), .. } => {
                if has("O_TRUNC") && self.namespace.tree.size(node) > 0 {
                    self.push_on(request, node, Operation::Resize { node, len: 0 })?;
                }
                Target::Node(node)
            }
        };
        let file = OpenFile { target, offset: 0, append: has("O_APPEND") };
        let close_on_exec = has("O_CLOEXEC");
        self.begun.insert(request.call.start, Begun::Open { file, close_on_exec });
        Ok(())
    }

    fn unknown(&mut self, request: &Request<'_>, at: Option<usize>, path: usize) -> RecordError {
        let base = self.base(request, at).unwrap_or_default();
        let path = base.join(request.path(path).unwrap_or_default());
        RecordError::Unknown { path, call: request.call.describe() }
    }

    fn push_names(
        &mut self,
        request: &Request<'_>,
        changes: Vec<NameChange>,
    ) -> Result<(), RecordError> {
        let Some(last) = changes.last() else {
            return Ok(());
        };
        let path = self.namespace.relative(last.dir).join(&last.name);
        self.push(request, path, Operation::Names(changes))
    }

    pub(super) fn make(
        &mut self,
        request: &Request<'_>,
        at: Option<usize>,
        path: usize,
        node: &Node,
    ) -> Result<(), RecordError> {
        match self.spot(request, at, path, false)? {
            Spot::Name { dir, name, node: None } => {
                let node = self.namespace.tree.add(node.emptied());
                self.push_names(request, vec![NameChange { dir, name, node: Some(node) }])
            }
            Spot::Outside(_) => Ok(()),
            Spot::Root | Spot::Lost(_) | Spot::Name { .. } => Err(self.unknown(request, at, path)),
        }
    }

    pub(super) fn remove(
        &mut self,
        request: &Request<'_>,
        at: Option<usize>,
        path: usize,
    ) -> Result<(), RecordError> {
        match self.spot(request, at, path, false)? {
            Spot::Name { dir, name, .. } => {
                self.push_names(request, vec![NameChange { dir, name, node: None }])
            }
            Spot::Outside(_) => Ok(()),
            Spot::Root | Spot::Lost(_) => {
                Err(request.unsupported("removal of the recorded directory"))
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        request: &Request<'_>,
        from: PathArg,
        to: PathArg,
        flags: &str,
    ) -> Result<(), RecordError> {
        let source = self.spot(request, from.0, from.1, false)?;
        let target = self.spot(request, to.0, to.1, false)?;
        let changes = match (source, target) {
            (Spot::Outside(_), Spot::Outside(_)) => return Ok(()),
            (Spot::Name { dir, name, .. }, Spot::Outside(_)) => {
                vec![NameChange { dir, name, node: None }]
            }
            (
                Spot::Name { dir: from_dir, name: from_name, node: Some(node) },
                Spot::Name { dir, name, node: replaced },
            ) => {
                if replaced == Some(node) {
                    return Ok(()); // Two names of one file: nothing happens.
                }
                let left = if value::has_flag(flags, "RENAME_EXCHANGE") { replaced } else { None };
                let old = NameChange { dir: from_dir, name: from_name, node: left };
                vec![old, NameChange { dir, name, node: Some(node) }]
            }
            (_, _) => {
                return Err(request.unsupported("a rename from outside, or of what is unknown"));
            }
        };
        self.push_names(request, changes)
    }

    pub(super) fn link(
        &mut self,
        request: &Request<'_>,
        from: PathArg,
        to: PathArg,
        flags: &str,
    ) -> Result<(), RecordError> {
        let target = self.spot(request, to.0, to.1, false)?;
        let source = self.linked(request, from, flags)?;
        match (source, target) {
            (_, Spot::Outside(_)) => Ok(()),
            (Some(node), Spot::Name { dir, name, node: None }) => {
                self.push_names(request, vec![NameChange { dir, name, node: Some(node) }])
            }
            (_, _) => Err(request.unsupported("a link from outside, or to what is unknown")),
        }
    }

    /// The file to be linked: by path, by `/proc/self/fd/N`, or by descriptor and an empty path.
    fn linked(
        &mut self,
        request: &Request<'_>,
        from: PathArg,
        flags: &str,
    ) -> Result<Option<NodeId>, RecordError> {
        let path = request.path(from.1)?;
        if path.as_os_str().is_empty() {
            return Ok(from.0.and_then(|fd| self.node_of(request, fd)));
        }
        let follow = value::has_flag(flags, "AT_SYMLINK_FOLLOW");
        let by_fd =
            path.strip_prefix("/proc/self/fd").ok().and_then(|fd| fd.to_str()?.parse().ok());
        let Some(fd) = by_fd.filter(|_| follow) else {
            return Ok(self.spot(request, from.0, from.1, follow)?.node());
        };
        Ok(match self.processes.file(request.call.thread, fd).map(|file| &file.target) {
            Some(Target::Node(node)) => Some(*node),
            Some(Target::Outside(_) | Target::Output) | None => None,
        })
    }
}
