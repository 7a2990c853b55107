//! The engine against a real ledger, real snapshot stores and real repositories.

mod exec;
mod place;
mod support;
mod undo;
