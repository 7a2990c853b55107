//! Against the real program, see `interop/opencode` in the root of the repository.

#[path = "../case/mod.rs"]
mod case;
mod opencode;
