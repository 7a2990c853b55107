//! Turns calls into events: follows descriptors, offsets and names as the kernel does.
//!
//! A call acts at its start on what exists (it writes, renames, closes) and at its end on what it
//! made (a descriptor, a sync, an acknowledgement). What it cannot follow it refuses.

use std::{collections::HashMap, path::PathBuf};

use super::{
    Event, NodeId, Operation, RecordError,
    log::{Call, Edge, Log},
    namespace::{Namespace, Spot},
    process::{OpenFile, Processes, Target, is_birth},
    request::Request,
    tree::{Node, Volatile},
    value,
};

/// What a call has found at its start and needs at its end.
pub(super) enum Begun {
    Open { file: OpenFile, close_on_exec: bool },
    Sync(NodeId),
    Acknowledge(Vec<u8>),
}

pub(crate) struct Tracker {
    pub(crate) namespace: Namespace,
    pub(crate) events: Vec<Event>,
    pub(super) processes: Processes,
    pub(super) begun: HashMap<usize, Begun>,
    pub(super) volatile: Volatile,
}

impl Tracker {
    /// Follows the whole log, from the directory as it was before the program started.
    pub(crate) fn follow(
        log: &Log<'_>,
        namespace: Namespace,
        cwd: PathBuf,
        volatile: Volatile,
    ) -> Result<Self, RecordError> {
        let processes = Processes::new(&log.calls, cwd);
        let begun = HashMap::new();
        let mut tracker = Self { namespace, events: Vec::new(), processes, begun, volatile };
        for edge in &log.edges {
            match edge {
                Edge::Start(index) => {
                    let call = &log.calls[*index];
                    let known = tracker.processes.meet(call.thread);
                    known.ok_or_else(|| {
                        Request::new(call).unsupported("a thread of unknown origin")
                    })?;
                    if !call.failed() {
                        tracker.start(&Request::new(call))?;
                    }
                }
                Edge::End(index) if log.calls[*index].succeeded() => {
                    tracker.end(&log.calls[*index])?;
                }
                Edge::End(_) => {}
                Edge::Exit(thread) => tracker.processes.exit(*thread),
            }
        }
        Ok(tracker)
    }

    fn start(&mut self, request: &Request<'_>) -> Result<(), RecordError> {
        match request.call.name {
            "open" => self.open(request, None, 0, request.text(1)),
            "creat" => self.open(request, None, 0, "O_WRONLY|O_CREAT|O_TRUNC"),
            "openat" => self.open(request, Some(0), 1, request.text(2)),
            "openat2" => {
                let flags =
                    value::field(request.text(2), "flags").ok_or_else(|| request.syntax())?;
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
                let node = self.spot(request, None, 0, true)?.node();
                self.truncate(request, node)
            }
            "fallocate" => self.allocate(request),
            "rename" => self.rename(request, (None, 0), (None, 1), ""),
            "renameat" => self.rename(request, (Some(0), 1), (Some(2), 3), ""),
            "renameat2" => self.rename(request, (Some(0), 1), (Some(2), 3), request.text(4)),
            "link" => self.link(request, (None, 0), (None, 1), ""),
            "linkat" => self.link(request, (Some(0), 1), (Some(2), 3), request.text(4)),
            "symlink" => self.make(request, None, 1, &Node::Link(request.path(0)?)),
            "symlinkat" => self.make(request, Some(1), 2, &Node::Link(request.path(0)?)),
            "mkdir" => self.make(request, None, 0, &Node::Directory(Default::default())),
            "mkdirat" => self.make(request, Some(0), 1, &Node::Directory(Default::default())),
            "unlink" | "rmdir" => self.remove(request, None, 0),
            "unlinkat" => self.remove(request, Some(0), 1),
            "fsync" | "fdatasync" => {
                if let Some(node) = self.node_of(request, 0) {
                    self.begun.insert(request.call.start, Begun::Sync(node));
                }
                Ok(())
            }
            "mmap" => self.map(request),
            "ioctl" if request.text(1).contains("FICLONE") => match self.node_of(request, 0) {
                Some(_) => Err(request.unsupported("data shared between files")),
                None => Ok(()),
            },
            _ => self.start_on_descriptor(request),
        }
    }

    /// Calls that move offsets, close descriptors and change directories.
    fn start_on_descriptor(&mut self, request: &Request<'_>) -> Result<(), RecordError> {
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
                let last = value::number(request.text(1)).unwrap_or(i64::MAX);
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
                let path = self.base(request, Some(0))?;
                self.processes.set_cwd(thread, path);
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, call: &Call<'_>) -> Result<(), RecordError> {
        let thread = call.thread;
        match (self.begun.remove(&call.start), call.result) {
            (Some(Begun::Open { file, close_on_exec }), Some(fd)) => {
                self.processes.open(thread, fd, file, close_on_exec);
                return Ok(());
            }
            (Some(Begun::Sync(node)), _) => {
                let path = self.namespace.relative(node);
                return self.push(&Request::new(call), path, Operation::Sync { node });
            }
            (Some(Begun::Acknowledge(data)), _) => {
                let operation = Operation::Acknowledge { data };
                return self.push(&Request::new(call), PathBuf::new(), operation);
            }
            (_, None) | (None, _) => {}
        }
        match call.name {
            "sync" | "syncfs" => {
                self.push(&Request::new(call), PathBuf::new(), Operation::SyncAll)?;
            }
            "dup" | "dup2" | "dup3" | "fcntl" => {
                let request = Request::new(call);
                let is_dup = call.name != "fcntl" || request.text(1).starts_with("F_DUPFD");
                if is_dup {
                    let exec = request.has(1, "F_DUPFD_CLOEXEC") || request.has(2, "O_CLOEXEC");
                    self.processes.duplicate(thread, request.number(0)?, request.result(), exec);
                }
            }
            "execve" | "execveat" => self.processes.exec(thread),
            name if is_birth(name) => {
                // The child may have been met already, at a call of its own.
                if let Some(Ok(child)) = call.result.map(u32::try_from) {
                    self.processes.meet(child);
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        path: PathBuf,
        operation: Operation,
    ) -> Result<(), RecordError> {
        self.namespace.apply(&operation);
        let Call { start, thread, name, .. } = *request.call;
        let end = request.end()?;
        self.events.push(Event { start, end, thread, call: name.to_owned(), path, operation });
        Ok(())
    }

    pub(super) fn push_on(
        &mut self,
        request: &Request<'_>,
        node: NodeId,
        op: Operation,
    ) -> Result<(), RecordError> {
        let path = self.namespace.relative(node);
        self.push(request, path, op)
    }

    /// The directory that a call's path starts from: that of descriptor `at`, or the current one.
    pub(super) fn base(
        &mut self,
        request: &Request<'_>,
        at: Option<usize>,
    ) -> Result<PathBuf, RecordError> {
        let thread = request.call.thread;
        let Some(at) = at.filter(|at| request.text(*at) != "AT_FDCWD") else {
            return Ok(self.processes.cwd(thread));
        };
        Ok(match self.processes.file(thread, request.number(at)?).map(|file| &file.target) {
            Some(Target::Node(node)) => self.namespace.absolute(*node),
            Some(Target::Outside(path)) => path.clone(),
            Some(Target::Output) | None => PathBuf::from("/nowhere"),
        })
    }

    pub(super) fn spot(
        &mut self,
        request: &Request<'_>,
        at: Option<usize>,
        path: usize,
        follow: bool,
    ) -> Result<Spot, RecordError> {
        let path = request.path(path)?;
        let base = if path.is_absolute() { PathBuf::new() } else { self.base(request, at)? };
        match self.namespace.locate(&base.join(path), follow) {
            Spot::Lost(path) => Err(RecordError::Unknown { path, call: request.call.describe() }),
            spot @ (Spot::Outside(_) | Spot::Root | Spot::Name { .. }) => Ok(spot),
        }
    }

    pub(super) fn node_of(&mut self, request: &Request<'_>, fd: usize) -> Option<NodeId> {
        let fd = request.number(fd).ok()?;
        match self.processes.file(request.call.thread, fd)?.target {
            Target::Node(node) => Some(node),
            Target::Outside(_) | Target::Output => None,
        }
    }
}

#[cfg(test)]
mod tests;
