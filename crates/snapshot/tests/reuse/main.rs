//! The first capture of a committed checkout: what the user's index proves is not read, and nothing else
//! is believed (R10).

#[cfg(test)]
mod alternates;
#[cfg(test)]
mod borrowed_packs;
#[cfg(test)]
mod checkout;
#[cfg(test)]
mod reuse_conditions;
#[cfg(test)]
#[expect(dead_code, reason = "shared by several test programs")]
#[path = "../support/mod.rs"]
mod support;
