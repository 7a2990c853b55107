//! The program of the filter, in the kernel's classic BPF.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter,
};

use crate::filter::syscall_table::{Architecture, NotifiedCall};

/// `io_uring_setup` on every architecture: its writes would not be seen. Programs fall back.
const IO_URING_SETUP: u32 = 425;
/// Numbers from here on are x32, an interface to x86-64 that no distribution enables.
const X32_FIRST: u32 = 0x4000_0000;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Where `struct seccomp_data` has its fields.
const NUMBER_OFFSET: u32 = 0;
const ARCHITECTURE_OFFSET: u32 = 4;
const FIRST_ARGUMENT_OFFSET: u32 = 16;

/// Flags of `open` with which something may change: write access, and creating or cutting a file.
pub(crate) const WRITING_FLAGS: u32 =
    (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

/// Builds the filter for programs of the given architectures.
///
/// Calls of any other architecture are reported, so that the trace can say what it does not know.
/// `execve` is reported only on demand: it finds programs that lose their set-uid bit.
pub(crate) fn build_filter(architectures: &[Architecture], reports_exec: bool) -> Vec<sock_filter> {
    let mut program = vec![load(ARCHITECTURE_OFFSET)];
    for architecture in architectures {
        let block = build_block(*architecture, reports_exec);
        let length = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push(jump(BPF_JEQ, architecture.audit(), 0, length));
        program.extend(block);
    }
    program.push(give(NOTIFY));
    program
}

/// The part for one architecture; every path through it returns.
fn build_block(architecture: Architecture, reports_exec: bool) -> Vec<sock_filter> {
    let is_used = |call: NotifiedCall| {
        reports_exec || !matches!(call, NotifiedCall::Execve | NotifiedCall::Execveat)
    };
    let mut block = vec![load(NUMBER_OFFSET)];
    let mut plain = Vec::new();
    for (number, call) in architecture.calls().iter().filter(|(_, call)| is_used(*call)) {
        match argument_of_flags(*call) {
            Some(argument) => block.extend([
                jump(BPF_JEQ, *number, 0, 4),
                load(FIRST_ARGUMENT_OFFSET + 8 * argument),
                jump(BPF_JSET, WRITING_FLAGS, 0, 1),
                give(NOTIFY),
                give(ALLOW),
            ]),
            None => plain.push(*number),
        }
    }
    if architecture == Architecture::X86_64 {
        block.extend([jump(BPF_JGE, X32_FIRST, 0, 1), give(REFUSE)]);
    }
    block.extend([jump(BPF_JEQ, IO_URING_SETUP, 0, 1), give(REFUSE)]);
    let count = plain.len();
    for (index, number) in plain.into_iter().enumerate() {
        // To the last instruction, behind the ALLOW that follows the comparisons.
        let distance = u8::try_from(count - index).unwrap_or(u8::MAX);
        block.push(jump(BPF_JEQ, number, distance, 0));
    }
    block.extend([give(ALLOW), give(NOTIFY)]);
    block
}

/// Which argument of the call holds the flags of `open`.
fn argument_of_flags(call: NotifiedCall) -> Option<u32> {
    let at_directory = matches!(call, NotifiedCall::Openat | NotifiedCall::OpenByHandleAt);
    if call == NotifiedCall::Open { Some(1) } else { at_directory.then_some(2) }
}

fn load(offset: u32) -> sock_filter {
    sock_filter { code: (BPF_LD | BPF_W | BPF_ABS) as u16, jt: 0, jf: 0, k: offset }
}

fn jump(condition: u32, value: u32, on_true: u8, on_false: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | condition | BPF_K) as u16, jt: on_true, jf: on_false, k: value }
}

fn give(action: u32) -> sock_filter {
    sock_filter { code: (BPF_RET | BPF_K) as u16, jt: 0, jf: 0, k: action }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel does, on the words of a `seccomp_data`.
    fn evaluate(program: &[sock_filter], arch: u32, number: u32, args: [u64; 6]) -> u32 {
        let mut data = Vec::new();
        data.extend(number.to_le_bytes());
        data.extend(arch.to_le_bytes());
        data.extend(0_u64.to_le_bytes());
        data.extend(args.iter().flat_map(|arg| arg.to_le_bytes()));
        let (mut accumulator, mut at) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let code = u32::from(one.code);
            let target = |holds: bool| usize::from(if holds { one.jt } else { one.jf });
            if code == BPF_LD | BPF_W | BPF_ABS {
                let bytes = &data[one.k as usize..][..4];
                accumulator = u32::from_le_bytes(bytes.try_into().unwrap());
            } else if code == BPF_RET | BPF_K {
                return one.k;
            } else if code == BPF_JMP | BPF_JEQ | BPF_K {
                at += target(accumulator == one.k);
            } else if code == BPF_JMP | BPF_JGE | BPF_K {
                at += target(accumulator >= one.k);
            } else if code == BPF_JMP | BPF_JSET | BPF_K {
                at += target(accumulator & one.k != 0);
            } else {
                panic!("unknown instruction {code}");
            }
        }
    }

    const BOTH: [Architecture; 2] = [Architecture::X86_64, Architecture::I386];

    /// What the table says, without BPF.
    fn expected(arch: Architecture, number: u32, args: [u64; 6], reports_exec: bool) -> u32 {
        if number == IO_URING_SETUP || arch == Architecture::X86_64 && number >= X32_FIRST {
            return REFUSE;
        }
        let call = arch.calls().iter().find(|(known, _)| *known == number).map(|(_, call)| *call);
        match call {
            None => ALLOW,
            Some(NotifiedCall::Execve | NotifiedCall::Execveat) if !reports_exec => ALLOW,
            Some(call) => match argument_of_flags(call) {
                Some(index) if args[index as usize] as u32 & WRITING_FLAGS == 0 => ALLOW,
                _ => NOTIFY,
            },
        }
    }

    #[test]
    fn filter_decides_as_the_table_says() {
        let flags = [
            0,
            libc::O_CLOEXEC,
            libc::O_WRONLY,
            libc::O_RDWR,
            libc::O_CREAT,
            libc::O_TRUNC,
            libc::O_APPEND,
            libc::O_PATH | libc::O_CLOEXEC,
            libc::O_TMPFILE | libc::O_RDWR,
        ];
        let sets: [&[Architecture]; 2] = [&BOTH, &[Architecture::Aarch64]];
        for architectures in sets {
            for reports_exec in [false, true] {
                let program = build_filter(architectures, reports_exec);
                for arch in architectures {
                    for number in (0..600).chain([X32_FIRST, X32_FIRST + 257, u32::MAX]) {
                        for flag in flags {
                            let args = [u64::MAX, flag as u64, flag as u64, 0, 0, 0];
                            assert_eq!(
                                evaluate(&program, arch.audit(), number, args),
                                expected(*arch, number, args, reports_exec),
                                "{arch:?} {number} {flag:x}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn calls_of_an_unknown_architecture_are_reported() {
        let program = build_filter(&BOTH, false);
        assert_eq!(evaluate(&program, 0x28, 5, [0; 6]), NOTIFY);
    }

    #[test]
    fn blocks_are_short_enough_for_their_jumps() {
        for arch in [Architecture::X86_64, Architecture::I386, Architecture::Aarch64] {
            assert!(build_block(arch, true).len() < usize::from(u8::MAX));
        }
    }
}
