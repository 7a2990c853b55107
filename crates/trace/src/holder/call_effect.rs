//! What a call means for the log, as far as its arguments alone say it.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use crate::call::CallRequest;
use crate::log::{Touch, TouchKind, TouchParent};
use crate::resolve::{CallLocation, FileState, FinalLink};

/// A touch in a directory that does not exist yet.
pub(crate) fn unlocated_touch(kind: TouchKind, path: PathBuf) -> Touch {
    let parent = TouchParent { device: 0, inode: 0, born: None };
    Touch { kind, path, parent, target: None, sequence: 0, time: 0 }
}

/// What a call creates if its directory exists.
pub(crate) fn kind_of_creation(request: CallRequest) -> Option<TouchKind> {
    let creates = |flags: u64| flags & libc::O_CREAT as u64 != 0;
    if let CallRequest::Open { flags, .. } = request {
        return creates(flags).then_some(TouchKind::Create);
    }
    let kinds = [
        (matches!(request, CallRequest::OpenHow { .. }), TouchKind::Create),
        (matches!(request, CallRequest::MakeNode { .. }), TouchKind::Node),
        (matches!(request, CallRequest::MakeDirectory { .. }), TouchKind::CreateDirectory),
        (matches!(request, CallRequest::Symlink { .. }), TouchKind::Symlink),
        (matches!(request, CallRequest::Link { .. }), TouchKind::Link),
    ];
    kinds.into_iter().find(|(is_kind, _)| *is_kind).map(|(_, kind)| kind)
}

pub(crate) fn attribute_kind(of_owner: bool) -> TouchKind {
    if of_owner { TouchKind::Owner } else { TouchKind::Mode }
}

/// Whether `open` follows a final link; `None` if these flags change nothing that has a name.
pub(crate) fn final_link_of_writing_open(flags: u64) -> Option<FinalLink> {
    let has = |flag: i32| flags & flag as u64 == flag as u64;
    let writes = flags & u64::from(crate::filter::WRITING_FLAGS) != 0;
    if !writes || has(libc::O_PATH) || has(libc::O_TMPFILE) {
        return None;
    }
    let keeps = has(libc::O_NOFOLLOW) || has(libc::O_CREAT) && has(libc::O_EXCL);
    Some(if keeps { FinalLink::Keep } else { FinalLink::Follow })
}

/// Tells whether a program runs with rights that `no_new_privs` withholds.
pub(crate) fn gives_rights(location: &CallLocation, program: &FileState) -> bool {
    let mode = program.mode();
    let sets_id = mode & (libc::S_ISUID | libc::S_ISGID) != 0 && mode & libc::S_IXUSR != 0;
    program.file_type() == FileType::RegularFile
        && (sets_id || has_file_capabilities(&location.path()))
}

fn has_file_capabilities(path: &Path) -> bool {
    let mut value = [0_u8; 64];
    rustix::fs::lgetxattr(path, "security.capability", &mut value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_follows_links_unless_it_may_not() {
        let link = |flags: i32| final_link_of_writing_open(flags as u64);
        assert_eq!(link(libc::O_RDONLY), None);
        assert_eq!(link(libc::O_PATH | libc::O_RDWR), None);
        assert_eq!(link(libc::O_TMPFILE | libc::O_RDWR), None);
        assert_eq!(link(libc::O_RDONLY | libc::O_TRUNC), Some(FinalLink::Follow));
        assert_eq!(link(libc::O_WRONLY | libc::O_DIRECTORY), Some(FinalLink::Follow));
        assert_eq!(link(libc::O_WRONLY | libc::O_NOFOLLOW), Some(FinalLink::Keep));
        let exclusive = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL;
        assert_eq!(link(exclusive), Some(FinalLink::Keep));
    }
}
