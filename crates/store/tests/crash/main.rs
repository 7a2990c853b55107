//! Killed, unplugged, out of space, suspended, two at once: nothing acknowledged is lost.

mod creation;
mod fault;
mod full_disk;
mod kill;
mod ledger;
mod powerloss;
mod processes;
