//! Traced commands. Where no trace can be installed these tests fail.

mod call_touches;
mod foreign_writers;
mod lost_holders;
mod memory_access;
mod namespaces;
mod program_check;
mod programs;
mod real_programs;
mod trace_fixture;
mod unavailable;
mod unprivileged;
