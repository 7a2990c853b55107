//! What a reported call asks for, decoded from the words of a notification.

use crate::filter::{Architecture, NotifiedCall, find_call};
use crate::kernel::shared_state::NOTIFICATION_WORDS;

/// A reported call of one thread, as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notification {
    /// Names this call as long as its thread waits in it.
    pub(crate) id: u64,
    /// The thread, as this process numbers it; zero if it cannot be seen from here.
    pub(crate) pid: u32,
    number: u32,
    architecture: u32,
    arguments: [u64; 6],
}

/// A path argument: a string in the memory of the caller, relative to one of its descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathArgument {
    /// A descriptor of the caller, or `AT_FDCWD`.
    pub(crate) directory: i32,
    /// The address of the string.
    pub(crate) address: u64,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRequest {
    /// Opens a path with these flags.
    Open { path: PathArgument, flags: u64 },
    /// Opens a path; the flags are at an address.
    OpenHow { path: PathArgument, address: u64, size: u64 },
    /// Opens a file by its handle.
    OpenHandle,
    /// Cuts a file.
    Truncate { path: PathArgument },
    /// Moves or exchanges.
    Rename { from: PathArgument, to: PathArgument, flags: u32 },
    /// Makes a hard link; only the new name matters.
    Link { to: PathArgument },
    /// Makes a symbolic link.
    Symlink { path: PathArgument },
    /// Removes a name.
    Unlink { path: PathArgument },
    /// Removes a directory.
    RemoveDirectory { path: PathArgument },
    /// Makes a directory.
    MakeDirectory { path: PathArgument },
    /// Makes a file, a pipe, a socket or a device.
    MakeNode { path: PathArgument, is_file: bool },
    /// Changes permission bits, or the owner.
    Attributes { path: PathArgument, follows: bool, allows_empty: bool, of_owner: bool },
    /// The same for an open file.
    DescriptorAttributes { descriptor: i32, of_owner: bool },
    /// Binds a socket to an address, which may be a path.
    Bind { address: u64, size: u64 },
    /// The same with its arguments at an address, 32 bits each.
    BindIndirect { address: u64 },
    /// Gives the process another root or other mounts.
    ChangeView,
    /// Starts a program.
    Execute { path: PathArgument },
    /// A call of an architecture without a table.
    Unknown,
    /// Nothing that changes a file.
    Harmless,
}

impl Notification {
    /// Decodes the words of the kernel's `struct seccomp_notif`.
    pub(crate) fn decode(words: &[u64; NOTIFICATION_WORDS]) -> Self {
        let [id, pid_and_flags, number_and_architecture, _pointer, arguments @ ..] = *words;
        let (pid, _) = split(pid_and_flags);
        let (number, architecture) = split(number_and_architecture);
        Self { id, pid, number, architecture, arguments }
    }

    /// Says what the call asks for.
    pub(crate) fn request(&self) -> CallRequest {
        let Some(architecture) = Architecture::from_audit(self.architecture) else {
            return CallRequest::Unknown;
        };
        match find_call(architecture, self.number) {
            Some(call) => decode_call(call, self.arguments),
            None => CallRequest::Unknown,
        }
    }
}

/// The two halves of a word, in the order in which the structure has them.
fn split(word: u64) -> (u32, u32) {
    let bytes = word.to_ne_bytes();
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// The kernel takes descriptors and flags from the lower half of an argument.
fn int(argument: u64) -> i32 {
    argument as u32 as i32
}

fn at(directory: u64, address: u64) -> PathArgument {
    PathArgument { directory: int(directory), address }
}

fn in_cwd(address: u64) -> PathArgument {
    PathArgument { directory: libc::AT_FDCWD, address }
}

fn decode_call(call: NotifiedCall, arguments: [u64; 6]) -> CallRequest {
    let [a, b, c, d, e, _] = arguments;
    let creat = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
    match call {
        NotifiedCall::Open => CallRequest::Open { path: in_cwd(a), flags: b },
        NotifiedCall::Openat => CallRequest::Open { path: at(a, b), flags: c },
        NotifiedCall::Creat => CallRequest::Open { path: in_cwd(a), flags: creat },
        NotifiedCall::Openat2 => CallRequest::OpenHow { path: at(a, b), address: c, size: d },
        NotifiedCall::OpenByHandleAt => CallRequest::OpenHandle,
        NotifiedCall::Truncate => CallRequest::Truncate { path: in_cwd(a) },
        NotifiedCall::Rename => CallRequest::Rename { from: in_cwd(a), to: in_cwd(b), flags: 0 },
        NotifiedCall::Renameat => CallRequest::Rename { from: at(a, b), to: at(c, d), flags: 0 },
        NotifiedCall::Renameat2 => {
            CallRequest::Rename { from: at(a, b), to: at(c, d), flags: e as u32 }
        }
        NotifiedCall::Link => CallRequest::Link { to: in_cwd(b) },
        NotifiedCall::Linkat => CallRequest::Link { to: at(c, d) },
        NotifiedCall::Symlink => CallRequest::Symlink { path: in_cwd(b) },
        NotifiedCall::Symlinkat => CallRequest::Symlink { path: at(b, c) },
        NotifiedCall::Unlink => CallRequest::Unlink { path: in_cwd(a) },
        NotifiedCall::Unlinkat if int(c) & libc::AT_REMOVEDIR != 0 => {
            CallRequest::RemoveDirectory { path: at(a, b) }
        }
        NotifiedCall::Unlinkat => CallRequest::Unlink { path: at(a, b) },
        NotifiedCall::Rmdir => CallRequest::RemoveDirectory { path: in_cwd(a) },
        NotifiedCall::Mkdir => CallRequest::MakeDirectory { path: in_cwd(a) },
        NotifiedCall::Mkdirat => CallRequest::MakeDirectory { path: at(a, b) },
        NotifiedCall::Mknod => make_node(in_cwd(a), b),
        NotifiedCall::Mknodat => make_node(at(a, b), c),
        NotifiedCall::Bind => CallRequest::Bind { address: b, size: u64::from(c as u32) },
        NotifiedCall::Socketcall if int(a) == 2 => CallRequest::BindIndirect { address: b },
        NotifiedCall::Socketcall => CallRequest::Harmless,
        NotifiedCall::ChangeView => CallRequest::ChangeView,
        NotifiedCall::Execve => CallRequest::Execute { path: in_cwd(a) },
        NotifiedCall::Execveat => CallRequest::Execute { path: at(a, b) },
        NotifiedCall::Chmod
        | NotifiedCall::Fchmod
        | NotifiedCall::Fchmodat
        | NotifiedCall::Fchmodat2
        | NotifiedCall::Chown
        | NotifiedCall::Lchown
        | NotifiedCall::Fchown
        | NotifiedCall::Fchownat => decode_attributes(call, arguments),
    }
}

/// The calls that change a mode or an owner; each has its path and its flags in other arguments.
fn decode_attributes(call: NotifiedCall, [a, b, _, d, e, _]: [u64; 6]) -> CallRequest {
    let of_owner = matches!(
        call,
        NotifiedCall::Chown | NotifiedCall::Lchown | NotifiedCall::Fchown | NotifiedCall::Fchownat
    );
    if matches!(call, NotifiedCall::Fchmod | NotifiedCall::Fchown) {
        return CallRequest::DescriptorAttributes { descriptor: int(a), of_owner };
    }
    let has_directory =
        matches!(call, NotifiedCall::Fchmodat | NotifiedCall::Fchmodat2 | NotifiedCall::Fchownat);
    let flags = if call == NotifiedCall::Fchmodat2 {
        int(d)
    } else if call == NotifiedCall::Fchownat {
        int(e)
    } else {
        0
    };
    CallRequest::Attributes {
        path: if has_directory { at(a, b) } else { in_cwd(a) },
        follows: call != NotifiedCall::Lchown && flags & libc::AT_SYMLINK_NOFOLLOW == 0,
        allows_empty: flags & libc::AT_EMPTY_PATH != 0,
        of_owner,
    }
}

fn make_node(path: PathArgument, mode: u64) -> CallRequest {
    let kind = mode as u32 & libc::S_IFMT;
    CallRequest::MakeNode { path, is_file: kind == 0 || kind == libc::S_IFREG }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(architecture: Architecture, number: u32, arguments: [u64; 6]) -> [u64; 10] {
        let [a, b, c, d, e, f] = arguments;
        let both = u64::from(number) | u64::from(architecture.audit()) << 32;
        [5, 77, both, 0, a, b, c, d, e, f]
    }

    #[test]
    fn open_and_rename_are_decoded() {
        let cwd = libc::AT_FDCWD as u32 as u64;
        let open = Notification::decode(&words(Architecture::X86_64, 257, [cwd, 9, 0x41, 0, 0, 0]));
        assert_eq!((open.id, open.pid), (5, 77));
        let path = PathArgument { directory: libc::AT_FDCWD, address: 9 };
        assert_eq!(open.request(), CallRequest::Open { path, flags: 0x41 });
        let exchange = words(Architecture::X86_64, 316, [3, 9, 4, 8, 2, 0]);
        let request = Notification::decode(&exchange).request();
        let (from, to) = (at(3, 9), at(4, 8));
        assert_eq!(request, CallRequest::Rename { from, to, flags: 2 });
    }

    #[test]
    fn unlinkat_of_a_directory_removes_a_directory() {
        let flag = libc::AT_REMOVEDIR as u64;
        let decode = |flags| {
            Notification::decode(&words(Architecture::I386, 301, [3, 9, flags, 0, 0, 0])).request()
        };
        assert_eq!(decode(flag), CallRequest::RemoveDirectory { path: at(3, 9) });
        assert_eq!(decode(0), CallRequest::Unlink { path: at(3, 9) });
    }

    #[test]
    fn only_bind_of_the_socket_calls_matters() {
        let decode = |call| {
            Notification::decode(&words(Architecture::I386, 102, [call, 9, 0, 0, 0, 0])).request()
        };
        assert_eq!(decode(2), CallRequest::BindIndirect { address: 9 });
        assert_eq!(decode(1), CallRequest::Harmless);
    }

    proptest! {
        #[test]
        fn any_words_are_decoded(words: [u64; 10]) {
            let notification = Notification::decode(&words);
            prop_assert_eq!(notification.id, words[0]);
            notification.request();
        }

        #[test]
        fn every_reported_number_has_a_request(index in 0_usize..64, arguments: [u64; 6]) {
            for architecture in [Architecture::X86_64, Architecture::I386, Architecture::Aarch64] {
                let calls = architecture.calls();
                let (number, _) = calls[index % calls.len()];
                let request = Notification::decode(&words(architecture, number, arguments)).request();
                prop_assert_ne!(request, CallRequest::Unknown);
            }
        }
    }
}
