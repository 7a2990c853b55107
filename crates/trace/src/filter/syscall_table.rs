//! The numbers of the reported system calls, one table for each architecture.

/// An architecture whose system calls are known, as the kernel's audit subsystem numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    /// 32-bit programs on x86-64.
    I386,
    Aarch64,
}

/// A reported system call. The arguments of each are decoded in [`crate::call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifiedCall {
    Open,
    Openat,
    Openat2,
    OpenByHandleAt,
    Creat,
    Truncate,
    Rename,
    Renameat,
    Renameat2,
    Link,
    Linkat,
    Symlink,
    Symlinkat,
    Unlink,
    Unlinkat,
    Rmdir,
    Mkdir,
    Mkdirat,
    Mknod,
    Mknodat,
    Chmod,
    Fchmod,
    Fchmodat,
    Fchmodat2,
    Chown,
    Lchown,
    Fchown,
    Fchownat,
    Bind,
    /// All socket calls of i386 in one, of which only bind matters.
    Socketcall,
    /// Gives a process another root or other mounts.
    ChangeView,
    Execve,
    Execveat,
}

use NotifiedCall as Call;

/// What a number stands for.
pub(crate) type CallNumber = (u32, NotifiedCall);

const X86_64: &[CallNumber] = &[
    (257, Call::Openat),
    (2, Call::Open),
    (85, Call::Creat),
    (437, Call::Openat2),
    (304, Call::OpenByHandleAt),
    (76, Call::Truncate),
    (82, Call::Rename),
    (264, Call::Renameat),
    (316, Call::Renameat2),
    (86, Call::Link),
    (265, Call::Linkat),
    (88, Call::Symlink),
    (266, Call::Symlinkat),
    (87, Call::Unlink),
    (263, Call::Unlinkat),
    (84, Call::Rmdir),
    (83, Call::Mkdir),
    (258, Call::Mkdirat),
    (133, Call::Mknod),
    (259, Call::Mknodat),
    (90, Call::Chmod),
    (91, Call::Fchmod),
    (268, Call::Fchmodat),
    (452, Call::Fchmodat2),
    (92, Call::Chown),
    (94, Call::Lchown),
    (93, Call::Fchown),
    (260, Call::Fchownat),
    (49, Call::Bind),
    (165, Call::ChangeView), // mount
    (166, Call::ChangeView), // umount2
    (155, Call::ChangeView), // pivot_root
    (161, Call::ChangeView), // chroot
    (308, Call::ChangeView), // setns
    (429, Call::ChangeView), // move_mount
    (59, Call::Execve),
    (322, Call::Execveat),
];

const I386: &[CallNumber] = &[
    (295, Call::Openat),
    (5, Call::Open),
    (8, Call::Creat),
    (437, Call::Openat2),
    (342, Call::OpenByHandleAt),
    (92, Call::Truncate),
    (193, Call::Truncate), // truncate64
    (38, Call::Rename),
    (302, Call::Renameat),
    (353, Call::Renameat2),
    (9, Call::Link),
    (303, Call::Linkat),
    (83, Call::Symlink),
    (304, Call::Symlinkat),
    (10, Call::Unlink),
    (301, Call::Unlinkat),
    (40, Call::Rmdir),
    (39, Call::Mkdir),
    (296, Call::Mkdirat),
    (14, Call::Mknod),
    (297, Call::Mknodat),
    (15, Call::Chmod),
    (94, Call::Fchmod),
    (306, Call::Fchmodat),
    (452, Call::Fchmodat2),
    (182, Call::Chown),
    (212, Call::Chown), // chown32
    (16, Call::Lchown),
    (198, Call::Lchown), // lchown32
    (95, Call::Fchown),
    (207, Call::Fchown), // fchown32
    (298, Call::Fchownat),
    (361, Call::Bind),
    (102, Call::Socketcall),
    (21, Call::ChangeView),  // mount
    (22, Call::ChangeView),  // umount
    (52, Call::ChangeView),  // umount2
    (217, Call::ChangeView), // pivot_root
    (61, Call::ChangeView),  // chroot
    (346, Call::ChangeView), // setns
    (429, Call::ChangeView), // move_mount
    (11, Call::Execve),
    (358, Call::Execveat),
];

const AARCH64: &[CallNumber] = &[
    (56, Call::Openat),
    (437, Call::Openat2),
    (265, Call::OpenByHandleAt),
    (45, Call::Truncate),
    (38, Call::Renameat),
    (276, Call::Renameat2),
    (37, Call::Linkat),
    (36, Call::Symlinkat),
    (35, Call::Unlinkat),
    (34, Call::Mkdirat),
    (33, Call::Mknodat),
    (52, Call::Fchmod),
    (53, Call::Fchmodat),
    (452, Call::Fchmodat2),
    (55, Call::Fchown),
    (54, Call::Fchownat),
    (200, Call::Bind),
    (40, Call::ChangeView),  // mount
    (39, Call::ChangeView),  // umount2
    (41, Call::ChangeView),  // pivot_root
    (51, Call::ChangeView),  // chroot
    (268, Call::ChangeView), // setns
    (429, Call::ChangeView), // move_mount
    (221, Call::Execve),
    (281, Call::Execveat),
];

impl Architecture {
    /// The architectures whose programs can run on a machine of this build.
    pub(crate) const NATIVE: &[Self] = if cfg!(target_arch = "x86_64") {
        &[Self::X86_64, Self::I386]
    } else if cfg!(target_arch = "aarch64") {
        &[Self::Aarch64]
    } else {
        &[]
    };

    pub(crate) fn from_audit(number: u32) -> Option<Self> {
        [Self::X86_64, Self::I386, Self::Aarch64].into_iter().find(|one| one.audit() == number)
    }

    /// `AUDIT_ARCH_…`: the ELF machine, and bits for 64-bit and little endian.
    pub(crate) fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::I386 => 0x4000_0003,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    /// The reported calls; the most frequent first.
    pub(crate) fn calls(self) -> &'static [CallNumber] {
        match self {
            Self::X86_64 => X86_64,
            Self::I386 => I386,
            Self::Aarch64 => AARCH64,
        }
    }
}

/// Returns what a reported number stands for.
pub(crate) fn find_call(architecture: Architecture, number: u32) -> Option<NotifiedCall> {
    architecture.calls().iter().find(|(known, _)| *known == number).map(|(_, call)| *call)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Every reported call by the names that the headers of the kernel give it.
    const NAMES: &[(&str, NotifiedCall)] = &[
        ("open", Call::Open),
        ("openat", Call::Openat),
        ("openat2", Call::Openat2),
        ("open_by_handle_at", Call::OpenByHandleAt),
        ("creat", Call::Creat),
        ("truncate", Call::Truncate),
        ("truncate64", Call::Truncate),
        ("rename", Call::Rename),
        ("renameat", Call::Renameat),
        ("renameat2", Call::Renameat2),
        ("link", Call::Link),
        ("linkat", Call::Linkat),
        ("symlink", Call::Symlink),
        ("symlinkat", Call::Symlinkat),
        ("unlink", Call::Unlink),
        ("unlinkat", Call::Unlinkat),
        ("rmdir", Call::Rmdir),
        ("mkdir", Call::Mkdir),
        ("mkdirat", Call::Mkdirat),
        ("mknod", Call::Mknod),
        ("mknodat", Call::Mknodat),
        ("chmod", Call::Chmod),
        ("fchmod", Call::Fchmod),
        ("fchmodat", Call::Fchmodat),
        ("fchmodat2", Call::Fchmodat2),
        ("chown", Call::Chown),
        ("chown32", Call::Chown),
        ("lchown", Call::Lchown),
        ("lchown32", Call::Lchown),
        ("fchown", Call::Fchown),
        ("fchown32", Call::Fchown),
        ("fchownat", Call::Fchownat),
        ("bind", Call::Bind),
        ("socketcall", Call::Socketcall),
        ("mount", Call::ChangeView),
        ("umount", Call::ChangeView),
        ("umount2", Call::ChangeView),
        ("pivot_root", Call::ChangeView),
        ("chroot", Call::ChangeView),
        ("setns", Call::ChangeView),
        ("move_mount", Call::ChangeView),
        ("execve", Call::Execve),
        ("execveat", Call::Execveat),
    ];

    /// Has the same number everywhere, and is newer than the headers of many distributions.
    const FCHMODAT2: (&str, u32) = ("fchmodat2", 452);

    /// Reads the numbers out of a header: `#define __NR_openat 257`, or `__NR3264_truncate`.
    fn read_header(path: &str) -> BTreeMap<String, u32> {
        let places = ["/usr/include/x86_64-linux-gnu", "/usr/include"];
        let text = places
            .iter()
            .find_map(|folder| fs_err::read_to_string(format!("{folder}/{path}")).ok());
        let text = text.unwrap_or_else(|| panic!("{path} is missing: install linux-libc-dev"));
        let parse = |line: &str| {
            let mut words = line.strip_prefix("#define ")?.split_whitespace();
            let name = words.next()?;
            let name = name.strip_prefix("__NR_").or_else(|| name.strip_prefix("__NR3264_"))?;
            Some((name.to_owned(), words.next()?.parse().ok()?))
        };
        text.lines().filter_map(parse).chain([(FCHMODAT2.0.to_owned(), FCHMODAT2.1)]).collect()
    }

    /// The table has each reported call that the architecture has, with its number, and nothing else.
    fn check(architecture: Architecture, header: &str) {
        let numbers = read_header(header);
        let in_header = NAMES.iter().filter_map(|(name, call)| Some((*numbers.get(*name)?, *call)));
        let show = |(number, call): (u32, NotifiedCall)| format!("{number} {call:?}");
        let expected: BTreeSet<String> = in_header.map(show).collect();
        let found: BTreeSet<String> = architecture.calls().iter().copied().map(show).collect();
        assert_eq!(found, expected, "{architecture:?}");
        assert_eq!(found.len(), architecture.calls().len(), "{architecture:?} repeats a number");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_of_x86_64_are_those_of_the_kernel() {
        check(Architecture::X86_64, "asm/unistd_64.h");
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_of_i386_are_those_of_the_kernel() {
        check(Architecture::I386, "asm/unistd_32.h");
    }

    /// The numbers of aarch64 are the generic ones.
    #[test]
    fn numbers_of_aarch64_are_those_of_the_kernel() {
        check(Architecture::Aarch64, "asm-generic/unistd.h");
    }

    /// `EM_…` of the ELF format, with the bits for 64-bit and little endian.
    #[test]
    fn architectures_are_those_of_the_elf_format() {
        let audit = |machine: u16, is_64_bit: bool| {
            let width: u32 = if is_64_bit { 0x8000_0000 } else { 0 };
            u32::from(machine) | 0x4000_0000 | width
        };
        assert_eq!(Architecture::X86_64.audit(), audit(libc::EM_X86_64, true));
        assert_eq!(Architecture::I386.audit(), audit(libc::EM_386, false));
        assert_eq!(Architecture::Aarch64.audit(), audit(libc::EM_AARCH64, true));
    }
}
