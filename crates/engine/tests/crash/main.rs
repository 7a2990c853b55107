//! Killed where space is given back: what is written down as expired is, and nothing else.

mod space;
