//! The engine against a real ledger, real snapshot stores and real repositories.

mod diff;
mod fork;
mod jump;
mod place;
mod random;
mod revert;
mod support;
mod talk;
mod undo;
