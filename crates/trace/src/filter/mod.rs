//! Which system calls are reported, and the program that the kernel runs to select them.

mod filter_program;
mod syscall_table;

pub(crate) use filter_program::{WRITING_FLAGS, build_filter};
pub(crate) use syscall_table::{Architecture, NotifiedCall, find_call};
