//! From a reported call to what the log says about it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use rustix::fs::FileType;

use crate::call::{CallRequest, Notification, PathArgument};
use crate::holder::blocked_calls::{BlockedCalls, BlockedPath};
use crate::holder::call_effect::{
    attribute_kind, final_link_of_writing_open, gives_rights, kind_of_creation, unlocated_touch,
};
use crate::holder::caller_memory::{MemoryError, read_memory, read_path};
use crate::holder::trace_writer::TraceWriter;
use crate::kernel::listener::Listener;
use crate::kernel::shared_state::SharedState;
use crate::log::{Touch, TouchKind, TraceGap, TraceGapReason};
use crate::resolve::{CallLocation, CallerView, FileState, FinalLink, PathResolver, ResolveError};

/// Why a call leads to no touch.
#[derive(Debug)]
enum Unrecorded {
    /// The call cannot change anything.
    Nothing,
    /// It fails, unless another thread of the tree makes what is missing before it is carried out.
    Blocked(BlockedPath),
    /// It may, and it is not known what.
    Gap(TraceGapReason, Option<PathBuf>),
}

impl From<MemoryError> for Unrecorded {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::Invalid | MemoryError::Gone => Self::Nothing,
            MemoryError::Refused => Self::Gap(TraceGapReason::UnreadableMemory, None),
        }
    }
}

type Recorded<T> = Result<T, Unrecorded>;

/// Records the calls of one tree.
#[derive(Debug)]
pub(crate) struct CallRecorder {
    resolver: PathResolver,
    pub(crate) writer: TraceWriter,
    pending: BlockedCalls,
    state: &'static SharedState,
}

/// A call that waits while it is recorded.
struct WaitingCall<'a> {
    notification: &'a Notification,
    listener: &'a Listener,
    view: CallerView,
}

impl CallRecorder {
    pub(crate) fn new(
        resolver: PathResolver,
        writer: TraceWriter,
        state: &'static SharedState,
    ) -> Self {
        Self { resolver, writer, pending: BlockedCalls::default(), state }
    }

    /// Writes what a waiting call may change. When this returns, the call may go on.
    pub(crate) fn record(&mut self, notification: &Notification, listener: &Listener) {
        let may_differ = self.state.views_differ.load(Ordering::SeqCst);
        let view = CallerView::of(notification.pid, may_differ);
        let call = WaitingCall { notification, listener, view };
        self.pending.forget_previous_calls(notification.pid);
        let request = notification.request();
        match self.record_request(&call, request) {
            Ok(()) | Err(Unrecorded::Nothing) => {}
            Err(Unrecorded::Blocked(blocked)) => self.await_directory(&call, request, blocked),
            // The answer of a process that has gone on is of no interest, and neither is its gap.
            Err(Unrecorded::Gap(reason, path)) if listener.is_waiting(notification.id) => {
                self.writer.write_gap(TraceGap { reason, path, count: 1 });
            }
            Err(Unrecorded::Gap(..)) => {}
        }
    }

    /// Writes that a call could not be recorded because of a defect of ours.
    pub(crate) fn record_failure(&self) {
        let reason = TraceGapReason::UnresolvedPath;
        self.writer.write_gap(TraceGap { reason, path: None, count: 1 });
    }

    fn record_request(&mut self, call: &WaitingCall<'_>, request: CallRequest) -> Recorded<()> {
        if call.notification.pid == 0 {
            return Err(Unrecorded::Gap(TraceGapReason::UnreadableMemory, None));
        }
        match request {
            CallRequest::Open { path, flags } => self.record_open(call, path, flags),
            CallRequest::OpenHow { path, address, size } => {
                self.record_open_how(call, path, address, size)
            }
            CallRequest::OpenHandle => Err(Unrecorded::Gap(TraceGapReason::OpenedByHandle, None)),
            CallRequest::Rename { from, to, flags } => self.record_rename(call, from, to, flags),
            CallRequest::Truncate { path } => {
                self.record_change(call, path, FinalLink::Follow, TouchKind::Truncate)
            }
            CallRequest::Link { to } => self.record_creation(call, to, TouchKind::Link),
            CallRequest::Symlink { path } => self.record_creation(call, path, TouchKind::Symlink),
            CallRequest::Unlink { path } => {
                self.record_change(call, path, FinalLink::Keep, TouchKind::Remove)
            }
            CallRequest::RemoveDirectory { path } => {
                self.record_change(call, path, FinalLink::Keep, TouchKind::RemoveDirectory)
            }
            CallRequest::MakeDirectory { path } => {
                self.record_creation(call, path, TouchKind::CreateDirectory)
            }
            CallRequest::MakeNode { path, is_file } => {
                let kind = if is_file { TouchKind::Create } else { TouchKind::Node };
                self.record_creation(call, path, kind)
            }
            CallRequest::Attributes { path, follows, allows_empty, of_owner } => {
                self.record_attributes(call, path, (follows, allows_empty), of_owner)
            }
            CallRequest::DescriptorAttributes { descriptor, of_owner } => {
                self.record_descriptor(call, descriptor, of_owner)
            }
            CallRequest::Bind { address, size } => self.record_bind(call, address, size),
            CallRequest::BindIndirect { address } => self.record_bind_indirect(call, address),
            CallRequest::ChangeView => {
                self.state.views_differ.store(true, Ordering::SeqCst);
                Ok(())
            }
            CallRequest::Execute { path } => self.record_exec(call, path),
            CallRequest::Unknown => Err(Unrecorded::Gap(TraceGapReason::OtherArchitecture, None)),
            CallRequest::Harmless => Ok(()),
        }
    }

    /// Remembers a call that would create something in a directory that is missing.
    fn await_directory(
        &mut self,
        call: &WaitingCall<'_>,
        request: CallRequest,
        BlockedPath { missing, path, .. }: BlockedPath,
    ) {
        let (Some(kind), Some(parent)) = (kind_of_creation(request), path.parent()) else { return };
        let needed = parent.to_path_buf();
        let touch = unlocated_touch(kind, path);
        let touches = vec![touch];
        self.add_pending(call, missing, needed, touches);
    }

    fn add_pending(
        &mut self,
        call: &WaitingCall<'_>,
        missing: PathBuf,
        needed: PathBuf,
        touches: Vec<Touch>,
    ) {
        let thread = call.notification.pid;
        let now_possible = self.pending.add(thread, missing, needed, touches);
        self.write_touches(now_possible.into_iter().map(|touch| (thread, touch)).collect());
    }

    /// Writes touches, and those that become possible by them.
    fn write_touches(&mut self, mut touches: Vec<(u32, Touch)>) {
        while let Some((thread, touch)) = touches.pop() {
            touches.extend(self.pending.take_unblocked_by(thread, &touch.kind, &touch.path));
            self.writer.write_touch(touch);
        }
    }

    /// Resolves a path argument; what was read belongs to the call only while it still waits.
    fn locate(
        &self,
        call: &WaitingCall<'_>,
        argument: PathArgument,
        link: FinalLink,
    ) -> Recorded<CallLocation> {
        let path = self.read_path(call, argument)?;
        let resolve = || self.resolver.resolve(call.view, argument.directory, &path, link);
        let mut found = resolve();
        if matches!(found, Err(ResolveError::Absent)) {
            match self.resolver.find_missing(call.view, argument.directory, &path) {
                None => return Err(Unrecorded::Nothing),
                Some(blocked) if !blocked.is_open => return Err(Unrecorded::Blocked(blocked)),
                Some(_) => found = resolve(),
            }
        }
        found.map_err(|error| self.explain(call, error, &path))
    }

    fn read_path(&self, call: &WaitingCall<'_>, argument: PathArgument) -> Recorded<OsString> {
        let path = read_path(call.notification.pid, argument.address)?;
        // The number of a process that ended may be that of another one by now.
        if call.listener.is_waiting(call.notification.id) {
            Ok(path)
        } else {
            Err(Unrecorded::Nothing)
        }
    }

    fn explain(&self, call: &WaitingCall<'_>, error: ResolveError, path: &OsStr) -> Unrecorded {
        let reason = match error {
            ResolveError::Absent | ResolveError::Gone | ResolveError::Nameless => {
                return Unrecorded::Nothing;
            }
            ResolveError::Denied if call.view.has_our_rights() => return Unrecorded::Nothing,
            ResolveError::Denied | ResolveError::Unresolved => TraceGapReason::UnresolvedPath,
            ResolveError::NestedFileSystem => TraceGapReason::NestedFileSystem,
        };
        Unrecorded::Gap(reason, Some(PathBuf::from(path)))
    }

    fn record_open(
        &mut self,
        call: &WaitingCall<'_>,
        path: PathArgument,
        flags: u64,
    ) -> Recorded<()> {
        let Some(link) = final_link_of_writing_open(flags) else { return Ok(()) };
        let location = self.locate(call, path, link)?;
        self.write_open(call, &location, flags)
    }

    fn record_open_how(
        &mut self,
        call: &WaitingCall<'_>,
        argument: PathArgument,
        address: u64,
        size: u64,
    ) -> Recorded<()> {
        const RESOLVE_IN_ROOT: u64 = 0x10;
        let mut how = [0; 24];
        if size < how.len() as u64 {
            return Ok(());
        }
        read_memory(call.notification.pid, address, &mut how)?;
        let (words, _) = how.as_chunks::<8>();
        let [flags, _, resolve] = words else { return Ok(()) };
        let (flags, resolve) = (u64::from_ne_bytes(*flags), u64::from_ne_bytes(*resolve));
        let Some(link) = final_link_of_writing_open(flags) else { return Ok(()) };
        if resolve & RESOLVE_IN_ROOT == 0 {
            let location = self.locate(call, argument, link)?;
            return self.write_open(call, &location, flags);
        }
        let path = self.read_path(call, argument)?;
        let found = self.resolver.resolve_in(call.view, argument.directory, &path, link);
        let location = found.map_err(|error| self.explain(call, error, &path))?;
        self.write_open(call, &location, flags)
    }

    fn write_open(
        &mut self,
        call: &WaitingCall<'_>,
        location: &CallLocation,
        flags: u64,
    ) -> Recorded<()> {
        let has = |flag: i32| flags & flag as u64 != 0;
        let kind = match location.target.map(|target| target.file_type()) {
            None if has(libc::O_CREAT) => TouchKind::Create,
            Some(FileType::RegularFile) if has(libc::O_CREAT) && has(libc::O_EXCL) => return Ok(()),
            Some(FileType::RegularFile) if has(libc::O_TRUNC) => TouchKind::Truncate,
            Some(FileType::RegularFile) if flags & libc::O_ACCMODE as u64 != 0 => {
                TouchKind::OpenForWrite
            }
            // Devices and pipes hold no content; the rest fails.
            _ => return Ok(()),
        };
        self.write(call, kind, location);
        Ok(())
    }

    fn record_rename(
        &mut self,
        call: &WaitingCall<'_>,
        from: PathArgument,
        to: PathArgument,
        flags: u32,
    ) -> Recorded<()> {
        let from = self.locate(call, from, FinalLink::Keep);
        let to = self.locate(call, to, FinalLink::Keep);
        if let Some(blocked) = find_blocked(&from, &to) {
            self.await_rename(call, blocked, (from, to));
            return Ok(());
        }
        let (from, to) = (from?, to?);
        let Some(moved) = from.target else { return Ok(()) };
        // Two names of one file: the kernel leaves both.
        if to.target.is_some_and(|replaced| replaced.is_same_file(&moved)) {
            return Ok(());
        }
        let (from_path, to_path) = (from.path(), to.path());
        if flags & libc::RENAME_EXCHANGE != 0 {
            self.write(call, TouchKind::Exchange { with: to_path }, &from);
            self.write(call, TouchKind::Exchange { with: from_path }, &to);
        } else if flags & libc::RENAME_NOREPLACE == 0 || to.target.is_none() {
            self.write(call, TouchKind::MoveFrom { to: to_path }, &from);
            self.write(call, TouchKind::MoveTo { from: from_path }, &to);
        }
        Ok(())
    }

    /// Remembers a rename of what is missing, or to a directory that is.
    fn await_rename(
        &mut self,
        call: &WaitingCall<'_>,
        (missing, needed): (PathBuf, PathBuf),
        (from, to): (Recorded<CallLocation>, Recorded<CallLocation>),
    ) {
        let path_of = |found: Recorded<CallLocation>| match found {
            Ok(location) => Some(location.path()),
            Err(Unrecorded::Blocked(blocked)) => Some(blocked.path),
            Err(_) => None,
        };
        let (Some(from), Some(to)) = (path_of(from), path_of(to)) else { return };
        let touches = vec![
            unlocated_touch(TouchKind::MoveFrom { to: to.clone() }, from.clone()),
            unlocated_touch(TouchKind::MoveTo { from }, to),
        ];
        self.add_pending(call, missing, needed, touches);
    }

    /// A call that changes what exists, and fails otherwise.
    fn record_change(
        &mut self,
        call: &WaitingCall<'_>,
        path: PathArgument,
        link: FinalLink,
        kind: TouchKind,
    ) -> Recorded<()> {
        let location = self.locate(call, path, link)?;
        self.write_change(call, kind, &location)
    }

    fn write_change(
        &mut self,
        call: &WaitingCall<'_>,
        kind: TouchKind,
        location: &CallLocation,
    ) -> Recorded<()> {
        let Some(target) = location.target else { return Ok(()) };
        let file_type = target.file_type();
        let fails = kind == TouchKind::Truncate && file_type != FileType::RegularFile
            || kind == TouchKind::Remove && file_type == FileType::Directory
            || kind == TouchKind::RemoveDirectory && file_type != FileType::Directory;
        if !fails {
            self.write(call, kind, location);
        }
        Ok(())
    }

    /// A call that makes something new, and fails if the name exists.
    fn record_creation(
        &mut self,
        call: &WaitingCall<'_>,
        path: PathArgument,
        kind: TouchKind,
    ) -> Recorded<()> {
        let location = self.locate(call, path, FinalLink::Keep)?;
        if location.target.is_none() {
            self.write(call, kind, &location);
        }
        Ok(())
    }

    fn record_attributes(
        &mut self,
        call: &WaitingCall<'_>,
        path: PathArgument,
        (follows, allows_empty): (bool, bool),
        of_owner: bool,
    ) -> Recorded<()> {
        if allows_empty && self.read_path(call, path)?.is_empty() {
            return self.record_descriptor(call, path.directory, of_owner);
        }
        let link = if follows { FinalLink::Follow } else { FinalLink::Keep };
        self.record_change(call, path, link, attribute_kind(of_owner))
    }

    fn record_descriptor(
        &mut self,
        call: &WaitingCall<'_>,
        descriptor: i32,
        of_owner: bool,
    ) -> Recorded<()> {
        let found = self.resolver.resolve_descriptor(call.view, descriptor);
        let location = found.map_err(|error| self.explain(call, error, OsStr::new("")))?;
        if call.listener.is_waiting(call.notification.id) {
            self.write_change(call, attribute_kind(of_owner), &location)?;
        }
        Ok(())
    }

    fn record_bind(&mut self, call: &WaitingCall<'_>, address: u64, size: u64) -> Recorded<()> {
        let mut family = [0; 2];
        let length = size.saturating_sub(family.len() as u64).min(110);
        if length == 0 {
            return Ok(());
        }
        read_memory(call.notification.pid, address, &mut family)?;
        if i32::from(u16::from_ne_bytes(family)) != libc::AF_UNIX {
            return Ok(());
        }
        let mut name = vec![0; usize::try_from(length).unwrap_or_default()];
        read_memory(call.notification.pid, address.saturating_add(2), &mut name)?;
        name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
        if name.is_empty() || !call.listener.is_waiting(call.notification.id) {
            return Ok(());
        }
        let name = OsString::from_vec(name);
        let found = self.resolver.resolve(call.view, libc::AT_FDCWD, &name, FinalLink::Keep);
        let location = found.map_err(|error| self.explain(call, error, &name))?;
        if location.target.is_none() {
            self.write(call, TouchKind::Node, &location);
        }
        Ok(())
    }

    /// `socketcall` of i386: descriptor, address and length lie in memory.
    fn record_bind_indirect(&mut self, call: &WaitingCall<'_>, address: u64) -> Recorded<()> {
        let mut arguments = [0; 12];
        read_memory(call.notification.pid, address, &mut arguments)?;
        let (words, _) = arguments.as_chunks::<4>();
        let [_, address, size] = words else { return Ok(()) };
        let word = |bytes: &[u8; 4]| u64::from(u32::from_ne_bytes(*bytes));
        self.record_bind(call, word(address), word(size))
    }

    /// Names a program that would get rights of its own, if this tree could.
    fn record_exec(&mut self, call: &WaitingCall<'_>, path: PathArgument) -> Recorded<()> {
        let Ok(location) = self.locate(call, path, FinalLink::Follow) else { return Ok(()) };
        let Some(target) = location.target else { return Ok(()) };
        if gives_rights(&location, &target) {
            let reason = TraceGapReason::SetUidProgram;
            return Err(Unrecorded::Gap(reason, Some(location.path())));
        }
        Ok(())
    }

    fn write(&mut self, call: &WaitingCall<'_>, kind: TouchKind, location: &CallLocation) {
        let touch = Touch {
            kind,
            path: location.path(),
            parent: location.parent,
            target: location.target.map(FileState::to_target),
            sequence: 0,
            time: 0,
        };
        self.write_touches(vec![(call.notification.pid, touch)]);
    }
}

/// What a rename lacks: the first missing component, and the path that must exist.
fn find_blocked(
    from: &Recorded<CallLocation>,
    to: &Recorded<CallLocation>,
) -> Option<(PathBuf, PathBuf)> {
    match (from, to) {
        (Err(Unrecorded::Blocked(from)), _) => Some((from.missing.clone(), from.path.clone())),
        (Ok(from), _) if from.target.is_none() => Some((from.path(), from.path())),
        (Ok(_), Err(Unrecorded::Blocked(to))) => {
            Some((to.missing.clone(), to.path.parent()?.to_path_buf()))
        }
        _ => None,
    }
}
