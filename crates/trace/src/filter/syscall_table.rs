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
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn numbers_are_those_of_the_c_library() {
        let known = [
            (libc::SYS_open, Call::Open),
            (libc::SYS_openat, Call::Openat),
            (libc::SYS_openat2, Call::Openat2),
            (libc::SYS_open_by_handle_at, Call::OpenByHandleAt),
            (libc::SYS_creat, Call::Creat),
            (libc::SYS_truncate, Call::Truncate),
            (libc::SYS_rename, Call::Rename),
            (libc::SYS_renameat, Call::Renameat),
            (libc::SYS_renameat2, Call::Renameat2),
            (libc::SYS_link, Call::Link),
            (libc::SYS_linkat, Call::Linkat),
            (libc::SYS_symlink, Call::Symlink),
            (libc::SYS_symlinkat, Call::Symlinkat),
            (libc::SYS_unlink, Call::Unlink),
            (libc::SYS_unlinkat, Call::Unlinkat),
            (libc::SYS_rmdir, Call::Rmdir),
            (libc::SYS_mkdir, Call::Mkdir),
            (libc::SYS_mkdirat, Call::Mkdirat),
            (libc::SYS_mknod, Call::Mknod),
            (libc::SYS_mknodat, Call::Mknodat),
            (libc::SYS_chmod, Call::Chmod),
            (libc::SYS_fchmod, Call::Fchmod),
            (libc::SYS_fchmodat, Call::Fchmodat),
            (libc::SYS_fchmodat2, Call::Fchmodat2),
            (libc::SYS_chown, Call::Chown),
            (libc::SYS_lchown, Call::Lchown),
            (libc::SYS_fchown, Call::Fchown),
            (libc::SYS_fchownat, Call::Fchownat),
            (libc::SYS_bind, Call::Bind),
            (libc::SYS_mount, Call::ChangeView),
            (libc::SYS_umount2, Call::ChangeView),
            (libc::SYS_pivot_root, Call::ChangeView),
            (libc::SYS_chroot, Call::ChangeView),
            (libc::SYS_setns, Call::ChangeView),
            (libc::SYS_move_mount, Call::ChangeView),
            (libc::SYS_execve, Call::Execve),
            (libc::SYS_execveat, Call::Execveat),
        ];
        for (number, call) in known {
            let number = u32::try_from(number).unwrap();
            assert_eq!(find_call(Architecture::X86_64, number), Some(call), "{call:?}");
        }
        assert_eq!(X86_64.len(), known.len());
    }
}
