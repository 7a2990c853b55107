//! The traced threads, their processes, and the open files behind descriptors.
//!
//! Descriptors made by calls that are not followed (sockets, pipes) are simply unknown here.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
};

use super::{NodeId, strace_log::TracedCall, strace_value};

/// What a descriptor leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DescriptorTarget {
    /// A file or directory of the recording.
    Node(NodeId),
    /// A path elsewhere, kept for calls relative to it.
    Outside(PathBuf),
    /// The standard output of the program.
    Output,
}

/// An open file description: shared by duplicates, and by parent and child.
#[derive(Clone, Debug)]
pub(crate) struct OpenFile {
    pub(crate) target: DescriptorTarget,
    pub(crate) offset: u64,
    pub(crate) append: bool,
}

#[derive(Clone, Copy, Debug)]
struct FileDescriptor {
    file: usize,
    close_on_exec: bool,
}

#[derive(Clone, Debug)]
struct TracedProcess {
    cwd: PathBuf,
    descriptors: HashMap<i64, FileDescriptor>,
}

/// A clone, fork or vfork that made a thread.
#[derive(Clone, Copy, Debug)]
struct ThreadSpawn {
    parent: u32,
    shares: bool,
}

#[derive(Debug)]
pub(crate) struct TracedProcesses {
    processes: Vec<TracedProcess>,
    threads: HashMap<u32, usize>,
    births: HashMap<u32, VecDeque<ThreadSpawn>>,
    files: Vec<OpenFile>,
}

impl TracedProcesses {
    /// Starts with the first thread of the log, in `cwd`, with descriptor 1 as standard output.
    pub(crate) fn new(calls: &[TracedCall<'_>], cwd: PathBuf) -> Self {
        let output = OpenFile { target: DescriptorTarget::Output, offset: 0, append: false };
        let stdout = FileDescriptor { file: 0, close_on_exec: false };
        let first = TracedProcess { cwd, descriptors: HashMap::from([(1, stdout)]) };
        let threads = calls.first().map(|call| (call.thread, 0)).into_iter().collect();
        let mut births: HashMap<u32, VecDeque<ThreadSpawn>> = HashMap::new();
        for call in calls.iter().filter(|call| is_spawn_call(call.name) && call.succeeded()) {
            if let Some(Ok(child)) = call.result.map(u32::try_from) {
                births.entry(child).or_default().push_back(parse_spawn(call));
            }
        }
        Self { processes: vec![first], threads, births, files: vec![output] }
    }

    /// Makes sure `thread` is known: a child may appear in the log before its parent's call returns.
    pub(crate) fn register_thread(&mut self, thread: u32) -> Option<()> {
        if self.threads.contains_key(&thread) {
            return Some(());
        }
        let birth = self.births.get_mut(&thread)?.pop_front()?;
        let parent = *self.threads.get(&birth.parent)?;
        let process = if birth.shares {
            parent
        } else {
            self.processes.push(self.processes[parent].clone());
            self.processes.len() - 1
        };
        self.threads.insert(thread, process);
        Some(())
    }

    pub(crate) fn exit(&mut self, thread: u32) {
        self.threads.remove(&thread);
    }

    fn process(&mut self, thread: u32) -> &mut TracedProcess {
        let index = self.threads.get(&thread).copied().unwrap_or_default();
        &mut self.processes[index]
    }

    pub(crate) fn cwd(&mut self, thread: u32) -> PathBuf {
        self.process(thread).cwd.clone()
    }

    pub(crate) fn set_cwd(&mut self, thread: u32, cwd: PathBuf) {
        self.process(thread).cwd = cwd;
    }

    pub(crate) fn file(&mut self, thread: u32, fd: i64) -> Option<&mut OpenFile> {
        let file = self.process(thread).descriptors.get(&fd)?.file;
        self.files.get_mut(file)
    }

    pub(crate) fn open(&mut self, thread: u32, fd: i64, file: OpenFile, close_on_exec: bool) {
        self.files.push(file);
        let file = self.files.len() - 1;
        self.process(thread).descriptors.insert(fd, FileDescriptor { file, close_on_exec });
    }

    /// Makes `new` lead to where `old` does; an unknown `old` makes `new` unknown too.
    pub(crate) fn duplicate(&mut self, thread: u32, old: i64, new: i64, close_on_exec: bool) {
        let descriptors = &mut self.process(thread).descriptors;
        match descriptors.get(&old).copied() {
            Some(known) if old == new => drop(descriptors.insert(new, known)),
            Some(FileDescriptor { file, .. }) => {
                descriptors.insert(new, FileDescriptor { file, close_on_exec });
            }
            None => drop(descriptors.remove(&new)),
        }
    }

    pub(crate) fn close(&mut self, thread: u32, fd: i64) {
        self.process(thread).descriptors.remove(&fd);
    }

    pub(crate) fn close_range(&mut self, thread: u32, first: i64, last: i64, only_on_exec: bool) {
        let descriptors = &mut self.process(thread).descriptors;
        if only_on_exec {
            let hit = descriptors.iter_mut().filter(|(fd, _)| (first..=last).contains(*fd));
            hit.for_each(|(_, descriptor)| descriptor.close_on_exec = true);
        } else {
            descriptors.retain(|fd, _| !(first..=last).contains(fd));
        }
    }

    pub(crate) fn set_close_on_exec(&mut self, thread: u32, fd: i64, close_on_exec: bool) {
        if let Some(descriptor) = self.process(thread).descriptors.get_mut(&fd) {
            descriptor.close_on_exec = close_on_exec;
        }
    }

    pub(crate) fn exec(&mut self, thread: u32) {
        self.process(thread).descriptors.retain(|_, descriptor| !descriptor.close_on_exec);
    }
}

pub(crate) fn is_spawn_call(name: &str) -> bool {
    matches!(name, "clone" | "clone3" | "fork" | "vfork")
}

fn parse_spawn(call: &TracedCall<'_>) -> ThreadSpawn {
    let args = strace_value::split_args(&call.args);
    let flags = match call.name {
        "clone3" => args.first().and_then(|token| strace_value::struct_field(token, "flags")),
        "clone" => args.iter().find_map(|token| token.strip_prefix("flags=")),
        _ => None,
    };
    let shares = flags.is_some_and(|flags| strace_value::has_flag(flags, "CLONE_FILES"));
    ThreadSpawn { parent: call.thread, shares }
}
