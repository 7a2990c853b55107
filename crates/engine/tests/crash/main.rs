//! Killed where space is given back: what is written down as gone is, and nothing else.

mod deletion;
mod eviction;
mod forget;
