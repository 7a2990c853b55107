//! Any directory can be captured, whatever kind of repository it belongs to, and whoever set a trap.

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod index;
#[cfg(test)]
mod place;
#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
#[path = "../support/mod.rs"]
mod support;
