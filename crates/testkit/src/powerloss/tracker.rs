//! Turns calls into events: follows descriptors, offsets and names as the kernel does.
//!
//! A call acts at its start on what exists (it writes, renames, closes) and at its end on what it
//! made (a descriptor, a sync, an acknowledgement). What it cannot follow it refuses.

use std::{collections::HashMap, path::PathBuf};

use super::{
    DiskEvent, DiskOperation, NodeId, RecordError,
    call_args::CallArgs,
    memory_tree::{TreeNode, VolatileSuffixes},
    namespace::{Namespace, ResolvedPath},
    strace_log::{CallEdge, StraceLog, TracedCall},
    strace_value,
    traced_processes::{DescriptorTarget, OpenFile, TracedProcesses, is_spawn_call},
};

/// What a call has found at its start and needs at its end.
pub(super) enum PendingCall {
    Open { file: OpenFile, close_on_exec: bool },
    Sync(NodeId),
    Acknowledge(Vec<u8>),
}

pub(crate) struct Tracker {
    pub(crate) namespace: Namespace,
    pub(crate) events: Vec<DiskEvent>,
    pub(super) processes: TracedProcesses,
    pub(super) begun: HashMap<usize, PendingCall>,
    pub(super) volatile: VolatileSuffixes,
}

impl Tracker {
    /// Follows the whole log, from the directory as it was before the program started.
    pub(crate) fn replay(
        log: &StraceLog<'_>,
        namespace: Namespace,
        cwd: PathBuf,
        volatile: VolatileSuffixes,
    ) -> Result<Self, RecordError> {
        let processes = TracedProcesses::new(&log.calls, cwd);
        let begun = HashMap::new();
        let mut tracker = Self { namespace, events: Vec::new(), processes, begun, volatile };
        for edge in &log.edges {
            match edge {
                CallEdge::Start(index) => {
                    let call = &log.calls[*index];
                    let known = tracker.processes.register_thread(call.thread);
                    known.ok_or_else(|| {
                        CallArgs::new(call).unsupported_error("a thread of unknown origin")
                    })?;
                    if !call.failed() {
                        tracker.start_call(&CallArgs::new(call))?;
                    }
                }
                CallEdge::End(index) if log.calls[*index].succeeded() => {
                    tracker.end_call(&log.calls[*index])?;
                }
                CallEdge::End(_) => {}
                CallEdge::Exit(thread) => tracker.processes.exit(*thread),
            }
        }
        Ok(tracker)
    }

    fn start_call(&mut self, request: &CallArgs<'_>) -> Result<(), RecordError> {
        match request.call.name {
            "open" => self.open(request, None, 0, request.text(1)),
            "creat" => self.open(request, None, 0, "O_WRONLY|O_CREAT|O_TRUNC"),
            "openat" => self.open(request, Some(0), 1, request.text(2)),
            "openat2" => {
                let flags = strace_value::struct_field(request.text(2), "flags")
                    .ok_or_else(|| request.syntax_error())?;
                self.open(request, Some(0), 1, flags)
            }
            "write" | "writev" => self.write(request, None),
            "pwrite64" | "pwritev" => self.write(request, Some(3)),
            "pwritev2" => self.write_with_flags(request),
            "ftruncate" => {
                let node = self.node_of(request, 0);
                self.truncate(request, node)
            }
            "truncate" => {
                let node = self.resolve_path(request, None, 0, true)?.node();
                self.truncate(request, node)
            }
            "fallocate" => self.allocate(request),
            "rename" => self.rename(request, (None, 0), (None, 1), ""),
            "renameat" => self.rename(request, (Some(0), 1), (Some(2), 3), ""),
            "renameat2" => self.rename(request, (Some(0), 1), (Some(2), 3), request.text(4)),
            "link" => self.link(request, (None, 0), (None, 1), ""),
            "linkat" => self.link(request, (Some(0), 1), (Some(2), 3), request.text(4)),
            "symlink" => self.create_node(request, None, 1, &TreeNode::Link(request.path(0)?)),
            "symlinkat" => self.create_node(request, Some(1), 2, &TreeNode::Link(request.path(0)?)),
            "mkdir" => self.create_node(request, None, 0, &TreeNode::Directory(Default::default())),
            "mkdirat" => {
                self.create_node(request, Some(0), 1, &TreeNode::Directory(Default::default()))
            }
            "unlink" | "rmdir" => self.remove(request, None, 0),
            "unlinkat" => self.remove(request, Some(0), 1),
            "fsync" | "fdatasync" => {
                if let Some(node) = self.node_of(request, 0) {
                    self.begun.insert(request.call.start, PendingCall::Sync(node));
                }
                Ok(())
            }
            "mmap" => self.map_memory(request),
            "ioctl" if request.text(1).contains("FICLONE") => match self.node_of(request, 0) {
                Some(_) => Err(request.unsupported_error("data shared between files")),
                None => Ok(()),
            },
            _ => self.start_on_descriptor(request),
        }
    }

    /// Calls that move offsets, close descriptors and change directories.
    fn start_on_descriptor(&mut self, request: &CallArgs<'_>) -> Result<(), RecordError> {
        let thread = request.call.thread;
        match request.call.name {
            "read" | "readv" => {
                if let Some(file) = self.processes.file(thread, request.number(0)?) {
                    file.offset += request.result() as u64;
                }
            }
            "lseek" => {
                if let Some(file) = self.processes.file(thread, request.number(0)?) {
                    file.offset = request.result() as u64;
                }
            }
            "close" => self.processes.close(thread, request.number(0)?),
            "close_range" => {
                let last = strace_value::parse_number(request.text(1)).unwrap_or(i64::MAX);
                let only_on_exec = request.has(2, "CLOSE_RANGE_CLOEXEC");
                self.processes.close_range(thread, request.number(0)?, last, only_on_exec);
            }
            "fcntl" if request.text(1) == "F_SETFD" => {
                let flag = request.has(2, "FD_CLOEXEC");
                self.processes.set_close_on_exec(thread, request.number(0)?, flag);
            }
            "fcntl" if request.text(1) == "F_SETFL" => {
                if let Some(file) = self.processes.file(thread, request.number(0)?) {
                    file.append = request.has(2, "O_APPEND");
                }
            }
            "chdir" => {
                let path = self.processes.cwd(thread).join(request.path(0)?);
                self.processes.set_cwd(thread, path);
            }
            "fchdir" => {
                let path = self.base_directory(request, Some(0))?;
                self.processes.set_cwd(thread, path);
            }
            _ => {}
        }
        Ok(())
    }

    fn end_call(&mut self, call: &TracedCall<'_>) -> Result<(), RecordError> {
        let thread = call.thread;
        match (self.begun.remove(&call.start), call.result) {
            (Some(PendingCall::Open { file, close_on_exec }), Some(fd)) => {
                self.processes.open(thread, fd, file, close_on_exec);
                return Ok(());
            }
            (Some(PendingCall::Sync(node)), _) => {
                let path = self.namespace.relative(node);
                return self.push_event(&CallArgs::new(call), path, DiskOperation::Sync { node });
            }
            (Some(PendingCall::Acknowledge(data)), _) => {
                let operation = DiskOperation::Acknowledge { data };
                return self.push_event(&CallArgs::new(call), PathBuf::new(), operation);
            }
            (_, None) | (None, _) => {}
        }
        match call.name {
            "sync" | "syncfs" => {
                self.push_event(&CallArgs::new(call), PathBuf::new(), DiskOperation::SyncAll)?;
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                let request = CallArgs::new(call);
                let is_dup = call.name != "fcntl" || request.text(1).starts_with("F_DUPFD");
                if is_dup {
                    let exec = request.has(1, "F_DUPFD_CLOEXEC") || request.has(2, "O_CLOEXEC");
                    self.processes.duplicate(thread, request.number(0)?, request.result(), exec);
                }
            }
            "execve" | "execveat" => self.processes.exec(thread),
            name if is_spawn_call(name) => {
                // The child may be known already, from a call of its own.
                if let Some(Ok(child)) = call.result.map(u32::try_from) {
                    self.processes.register_thread(child);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn push_event(
        &mut self,
        request: &CallArgs<'_>,
        path: PathBuf,
        operation: DiskOperation,
    ) -> Result<(), RecordError> {
        self.namespace.apply(&operation);
        let TracedCall { start, thread, name, .. } = *request.call;
        let end = request.end_edge()?;
        self.events.push(DiskEvent { start, end, thread, call: name.to_owned(), path, operation });
        Ok(())
    }

    pub(super) fn push_node_event(
        &mut self,
        request: &CallArgs<'_>,
        node: NodeId,
        op: DiskOperation,
    ) -> Result<(), RecordError> {
        let path = self.namespace.relative(node);
        self.push_event(request, path, op)
    }

    /// The directory that a call's path starts from: that of descriptor `at`, or the current one.
    pub(super) fn base_directory(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
    ) -> Result<PathBuf, RecordError> {
        let thread = request.call.thread;
        let Some(at) = at.filter(|at| request.text(*at) != "AT_FDCWD") else {
            return Ok(self.processes.cwd(thread));
        };
        Ok(match self.processes.file(thread, request.number(at)?).map(|file| &file.target) {
            Some(DescriptorTarget::Node(node)) => self.namespace.absolute(*node),
            Some(DescriptorTarget::Outside(path)) => path.clone(),
            Some(DescriptorTarget::Output) | None => PathBuf::from("/nowhere"),
        })
    }

    pub(super) fn resolve_path(
        &mut self,
        request: &CallArgs<'_>,
        at: Option<usize>,
        path: usize,
        follow: bool,
    ) -> Result<ResolvedPath, RecordError> {
        let path = request.path(path)?;
        let base =
            if path.is_absolute() { PathBuf::new() } else { self.base_directory(request, at)? };
        match self.namespace.locate(&base.join(path), follow) {
            ResolvedPath::UnknownParent(path) => {
                Err(RecordError::Unknown { path, call: request.call.describe() })
            }
            location @ (ResolvedPath::Outside(_)
            | ResolvedPath::Root
            | ResolvedPath::Name { .. }) => Ok(location),
        }
    }

    pub(super) fn node_of(&mut self, request: &CallArgs<'_>, fd: usize) -> Option<NodeId> {
        let fd = request.number(fd).ok()?;
        match self.processes.file(request.call.thread, fd)?.target {
            DescriptorTarget::Node(node) => Some(node),
            DescriptorTarget::Outside(_) | DescriptorTarget::Output => None,
        }
    }
}

#[cfg(test)]
mod tests;
