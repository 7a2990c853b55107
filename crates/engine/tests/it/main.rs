//! The engine against a real ledger, real snapshot stores and real repositories.

mod place;
mod revert;
mod support;
mod talk;
mod undo;
