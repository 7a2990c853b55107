//! Killed, unplugged, out of space, suspended, two at once: nothing acknowledged is lost.

mod fault;
mod kill;
mod ledger;
mod powerloss;
mod processes;
